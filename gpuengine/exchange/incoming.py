"""What other libraries have on a device as columns of ids, left there where that can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuengine.errors import BackendError, DataError
from gpuengine.io.conform import Place
from gpuengine.io.device import device_columns
from gpuengine.io.tabular import arrow_column
from gpuengine.kernels.contract import Array, Backend, DeviceMemoryError, DeviceUnavailable
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cuda.backend import device_of
from gpuengine.kernels.cuda.exchange import ByCupy, ForeignArrays, ForeignColumn, OnDevice
from gpuengine.language.program import Attribute, Kind
from gpuengine.terms.dictionary import IDENTITY, Dictionary

_WHOLE = (Kind.NUMBER, Kind.UNSIGNED)
_HINT = '  hint: pip install "gpuengine[gpu]", see `gpuengine doctor`; or copy the data to host memory first'


@dataclass(frozen=True, slots=True)
class IncomingFacts:
    """Rows to be inserted: columns of ids in the memory of `backend`, or of the host.

    Columns may be the very memory of whoever gave them; `let_go` when they are inserted.
    """

    columns: list[Array]
    rows: int
    backend: Backend

    def on_host(self) -> list[np.ndarray]:
        """All columns in host memory."""
        device = device_of(self.backend)
        if device is None:
            return self.columns
        return [device.download(column) if device.owns(column) else column for column in self.columns]

    def let_go(self) -> None:
        """Wait until nothing reads the columns any more: then their owner may change them."""
        device = device_of(self.backend)
        if device is not None:
            device.wait()


def incoming_facts(
    data: Any,
    attributes: Sequence[Attribute],
    relation: str,
    dictionary: Dictionary,
    accelerator: Backend | None,
) -> IncomingFacts:
    """The facts of data that `is_on_device`. Raises `DataError` for what `from_tabular` would refuse.

    Integers that are their own ids stay on the engine's accelerator; all else is encoded on the host.
    """
    device = device_of(accelerator)
    if accelerator is not None and device is not None:
        accelerator.bind_thread()
        on_device = OnDevice(device)
        columns = device_columns(data, attributes, relation, on_device)
        kept = _own_ids(columns, attributes, on_device)
        ids = _encoded(columns, attributes, relation, dictionary, on_device, kept)
        return IncomingFacts(ids, len(ids[0]), accelerator if kept else CPU)
    try:
        by_cupy = ByCupy()
        columns = device_columns(data, attributes, relation, by_cupy)
        ids = _encoded(columns, attributes, relation, dictionary, by_cupy, {})
    except DeviceUnavailable as error:
        raise BackendError(f"{relation}: can't read data on a device: {error}\n{_HINT}") from error
    return IncomingFacts(ids, len(ids[0]), CPU)


def _own_ids(
    columns: Sequence[tuple[int, Any]], attributes: Sequence[Attribute], on_device: OnDevice
) -> dict[int, Array]:
    """By number the columns that are ids already, as far as the device has room for them."""
    candidates = {
        j: column
        for j, ((_, column), attribute) in enumerate(zip(columns, attributes, strict=True))
        if isinstance(column, ForeignColumn)
        and attribute.type.kind in _WHOLE
        and not attribute.type.logical
        and column.dtype.kind in "iu"
        and column.dtype.itemsize >= 4
    }
    try:
        ids_of = on_device.own_ids(list(candidates.values()), IDENTITY)
    except DeviceMemoryError:
        return {}
    return {j: ids for j, ids in zip(candidates, ids_of, strict=True) if ids is not None}


def _encoded(
    columns: Sequence[tuple[int, Any]],
    attributes: Sequence[Attribute],
    relation: str,
    dictionary: Dictionary,
    foreign: ForeignArrays,
    kept: dict[int, Array],
) -> list[Array]:
    """The columns as ids: those that are `kept` as they are, the others by the dictionary."""
    place = Place(relation, relation, terms=dictionary)
    values: list[Any] = []
    for j, ((position, column), attribute) in enumerate(zip(columns, attributes, strict=True)):
        if j in kept:
            values.append(kept[j])
        else:
            on_host = foreign.fetch(column) if isinstance(column, ForeignColumn) else column
            values.append(arrow_column(on_host, attribute, position, place))
    lengths = [len(column) for column in values]
    if len(set(lengths)) > 1:
        raise DataError(f"{relation}: columns of different lengths ({', '.join(map(str, lengths))})")
    return [
        column if j in kept else dictionary.encode(attribute.type.space, column)
        for j, (column, attribute) in enumerate(zip(values, attributes, strict=True))
    ]
