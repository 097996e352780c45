"""A relation's facts as arrays of values: where the facts are, or on a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpuengine.errors import BackendError, DataError, EvaluationError, MemoryBudgetError
from gpuengine.kernels.contract import Array, DeviceError, DeviceMemoryError, DeviceUnavailable, ValueTable
from gpuengine.kernels.cuda.backend import device_of
from gpuengine.kernels.cuda.devices.device import Device
from gpuengine.kernels.cuda.exchange import ByCupy, decode
from gpuengine.language.program import Attribute, Kind
from gpuengine.schemes.table import Table
from gpuengine.terms.dictionary import Dictionary

DTYPES = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}
"""The types of the arrays that columns of numbers become."""


class OutgoingFacts:
    """The first `count` facts of a table, to be handed out. The arrays made are new: they are the caller's.

    `device` is where the table is, None if that is the host. What is made there is complete when it is
    returned, so that others may read it from their own streams.
    """

    def __init__(
        self, name: str, attributes: Sequence[Attribute], table: Table, count: int, dictionary: Dictionary
    ) -> None:
        self.name = name
        self.attributes = attributes
        self._table = table
        self.count = count
        self._dictionary = dictionary
        table.backend.bind_thread()
        self.device: Device | None = device_of(table.backend)

    @property
    def is_numeric(self) -> bool:
        """Are all columns numbers?"""
        return all(attribute.type.kind in DTYPES for attribute in self.attributes)

    def numbers(self) -> dict[int, Array]:
        """The values of the columns of numbers by position, where the facts are."""
        numeric = [j for j, attribute in enumerate(self.attributes) if attribute.type.kind in DTYPES]
        outs = [self._empty(DTYPES[self.attributes[j].type.kind]) for j in numeric]
        self._decode(numeric, outs)
        return dict(zip(numeric, outs, strict=True))

    def numbers_on_device(self) -> dict[int, Array]:
        """The same on a device: copied to CuPy's current one if the facts are on the host."""
        numbers = self.numbers()
        if self.device is not None:
            return numbers
        try:
            by_cupy = ByCupy()
            return {j: by_cupy.send(array) for j, array in numbers.items()}
        except DeviceUnavailable as error:
            raise BackendError(
                f"{self.name}: the facts can't be copied to a device: {error}\n"
                '  hint: pip install "gpuengine[gpu]", see `gpuengine doctor`; to_numpy() and to_arrow() '
                "need no device"
            ) from error

    def matrix(self) -> Array:
        """All columns, of one type of number, as an array (facts, columns); of one column, as a vector."""
        (dtype,) = {DTYPES[attribute.type.kind] for attribute in self.attributes}
        arity = len(self.attributes)
        whole = self._empty(dtype, arity)
        outs = [whole[j * self.count : (j + 1) * self.count] for j in range(arity)]
        self._decode(range(arity), outs)
        if arity == 1:
            return whole
        return whole.reshape(arity, -1).T if self.device is None else self.device.matrix(whole, arity)

    def text(self, j: int) -> Any:
        """A column of symbols, records or ADT values as Arrow strings."""
        return self._dictionary.to_arrow(self.attributes[j].type, self._table.column(j)[: self.count])

    def location(self) -> tuple[int, int]:
        """DLPack's type and number of the device where the facts are."""
        somewhere = np.empty(1) if self.device is None else self.device.empty(1, np.int64)
        kind, number = somewhere.__dlpack_device__()
        return int(kind), int(number)

    def _empty(self, dtype: Any, columns: int = 1) -> Array:
        with _device_failures(self.name):
            size = columns * self.count
            return np.empty(size, dtype) if self.device is None else self.device.empty(size, dtype)

    def _decode(self, positions: Sequence[int], outs: Sequence[Array]) -> None:
        """Fill the arrays with the values of these columns."""
        spaces = [self.attributes[j].type.space for j in positions]
        if self.device is None:
            for j, space, out in zip(positions, spaces, outs, strict=True):
                out[:] = self._dictionary.values(space, self._table.column(j)[: self.count])
            return
        values = {space: ValueTable(self._dictionary.value_table(space)) for space in spaces}
        with _device_failures(self.name):
            ids = self._table.rows.device_columns()
            columns = [(ids[j][: self.count], values[s]) for j, s in zip(positions, spaces, strict=True)]
            decode(self.device, columns, outs)
            self.device.wait()


def to_cupy(facts: OutgoingFacts) -> dict[str, Array]:
    """The columns by name; all must be numbers."""
    for attribute in facts.attributes:
        if attribute.type.kind not in DTYPES:
            raise DataError(
                f"{facts.name}: column {attribute.name} holds {attribute.type.name}, and CuPy arrays hold "
                "numbers only\n  hint: to_cudf() and to_arrow() have columns of text as well"
            )
    arrays = facts.numbers_on_device()
    return {attribute.name: arrays[j] for j, attribute in enumerate(facts.attributes)}


def to_cudf(facts: OutgoingFacts) -> Any:
    """A `cudf.DataFrame`: numbers straight from the device, text by way of Arrow strings on the host."""
    try:
        import cudf
    except ImportError as error:
        raise BackendError(
            f"{facts.name}: to_cudf() needs cuDF: {error}\n"
            "  hint: pip install cudf-cu13 (or cudf-cu12); to_arrow() does without it"
        ) from error
    if not facts.attributes:
        return cudf.DataFrame(index=range(facts.count))
    arrays = facts.numbers_on_device()
    return cudf.DataFrame(
        {
            attribute.name: arrays[j] if j in arrays else cudf.Series.from_arrow(facts.text(j))
            for j, attribute in enumerate(facts.attributes)
        }
    )


def require_one_type(facts: OutgoingFacts) -> None:
    """Raise `BufferError` unless the facts have a DLPack form: columns of one type of number."""
    kinds = {attribute.type.kind for attribute in facts.attributes}
    if len(kinds) != 1 or not kinds <= DTYPES.keys():
        shown = ", ".join(f"{a.name}: {a.type.name}" for a in facts.attributes)
        raise BufferError(
            f"{facts.name}({shown}) has no DLPack form: its columns are not of one type of number; "
            "to_cupy() has them one by one, to_arrow() has columns of any type"
        )


@contextmanager
def _device_failures(name: str) -> Iterator[None]:
    """Turn errors of the device into those that users see."""
    try:
        yield
    except DeviceMemoryError as error:
        raise MemoryBudgetError(
            f"{name}: out of device memory for the values of its facts: {error}\n"
            "  hint: raise it with device_memory, or read the facts with to_arrow() or batches()"
        ) from error
    except DeviceError as error:
        raise EvaluationError(
            f"{name}: the device reported an error: {error}\n"
            f"  kernels since it was last heard of: {error.kernels}\n"
            "  hint: run `gpuengine doctor --device`"
        ) from error
