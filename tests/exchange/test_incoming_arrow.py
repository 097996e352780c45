"""Facts from the Arrow C device interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpuengine.errors import DataError
from gpuengine.io.arrow_device import ArrowArray, ArrowDeviceArray, capsule_address, export_columns
from tests.exchange.stand_ins import device_of, engine

EDGE = ".decl edge(x: number, y: number)"


class ArrowOnDevice:
    """Columns of a batch that has nothing but the Arrow C device interface; `shift` changes its offsets."""

    def __init__(
        self, columns: dict[str, np.ndarray], kind: int = 2, shift: tuple[int, int] = (0, 0)
    ) -> None:
        self.columns = columns
        self.kind = kind
        self.shift = shift

    def __arrow_c_device_array__(self, requested_schema: Any = None, **options: Any) -> tuple[Any, Any]:
        schema = pa.schema([(n, pa.from_numpy_dtype(c.dtype)) for n, c in self.columns.items()])
        columns = [column.copy() for column in self.columns.values()]
        addresses = [column.ctypes.data for column in columns]
        described, exported = export_columns(schema, columns, addresses, (self.kind, 0))
        array = ArrowDeviceArray.from_address(capsule_address(exported)).array
        array.offset, skipped = self.shift
        array.length -= sum(self.shift)
        for i in range(array.n_children):
            ArrowArray.from_address(array.children[i]).offset = skipped
        return described, exported


@pytest.mark.parametrize("kind", [1, 2, 13])
def test_arrow_batches(kind: int) -> None:
    kb = engine(EDGE)
    x, y = np.int32([9, 9, 1, 2]), np.uint64([8, 8, 3, 4])
    assert kb.load("edge", ArrowOnDevice({"y": y, "x": x}, kind)) == 4
    assert sorted(kb["edge"]) == [(1, 3), (2, 4), (9, 8)]
    assert (kb.loaded["edge"].backend is kb.options.accelerator.backend) == (kind != 1)


def test_arrow_batches_that_begin_later() -> None:
    kb = engine(EDGE)
    x, y = np.int32([9, 9, 1, 2]), np.uint64([8, 8, 3, 4])
    assert kb.load("edge", ArrowOnDevice({"x": x, "y": y}, shift=(1, 1))) == 2
    assert sorted(kb["edge"]) == [(1, 3), (2, 4)]
    assert device_of(kb).statistics.uploaded == 0


class ArrowColumn:
    """A column that is not a batch."""

    def __arrow_c_device_array__(self, requested_schema: Any = None, **options: Any) -> tuple[Any, Any]:
        described, exported = pa.array([3, 4], pa.int64()).__arrow_c_device_array__()
        ArrowDeviceArray.from_address(capsule_address(exported)).device_type = 2
        return described, exported


def test_arrow_columns() -> None:
    kb = engine(".decl node(x: number)")
    assert kb.load("node", ArrowColumn()) == 2
    assert sorted(kb["node"]) == [(3,), (4,)]
    assert device_of(kb).statistics.uploaded == 0


class ArrowText:
    """A batch on a device with nulls and text in it."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_device_array__(self, requested_schema: Any = None, **options: Any) -> tuple[Any, Any]:
        described, exported = self.batch.__arrow_c_device_array__()
        ArrowDeviceArray.from_address(capsule_address(exported)).device_type = 2
        return described, exported


class ArrowTextWithHostExport(ArrowText):
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return self.batch.__arrow_c_array__()


def test_arrow_text_is_left_to_its_owner() -> None:
    kb = engine(".decl edge(x: number, y: symbol)")
    batch = pa.record_batch({"x": [1, 2], "y": ["a", "b"]})
    assert kb.load("edge", ArrowTextWithHostExport(batch)) == 2
    assert sorted(kb["edge"]) == [(1, "a"), (2, "b")]
    with pytest.raises(DataError, match=r"^column y holds string, perhaps with nulls, on a device"):
        kb.load("edge", ArrowText(batch))
    with pytest.raises(DataError, match=r"^column x holds int64, perhaps with nulls, on a device"):
        kb.load("edge", ArrowText(pa.record_batch({"x": [1, None], "y": [3, 4]})))
    with pytest.raises(DataError, match=r"row 1 .* column 1 \(x: number\): null; facts have no nulls"):
        kb.load("edge", ArrowTextWithHostExport(pa.record_batch({"x": [1, None], "y": ["c", "d"]})))
    assert len(kb["edge"]) == 2
