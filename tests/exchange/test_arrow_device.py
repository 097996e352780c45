"""The Arrow C device interface: structures as others read them, alive until they are released."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpuengine as ge
from gpuengine.io.arrow_device import ArrowArray, ArrowDeviceArray, capsule_address, export_columns
from tests.exchange.stand_ins import CudaArray, engine

EDGE = ".decl edge(x: number, y: unsigned, z: float)"
SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.float64())])


class Column:
    """An array on a GPU as far as the export looks at it."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.nbytes = 8 * length

    def __len__(self) -> int:
        return self.length


def struct(capsule: Any) -> ArrowDeviceArray:
    return ArrowDeviceArray.from_address(capsule_address(capsule))


def children(array: ArrowArray) -> list[ArrowArray]:
    return [ArrowArray.from_address(array.children[i]) for i in range(array.n_children)]


def test_structures_are_as_large_as_the_specification_says() -> None:
    assert ctypes.sizeof(ArrowArray) == 80
    assert ctypes.sizeof(ArrowDeviceArray) == 128
    assert [getattr(ArrowDeviceArray, name).offset for name, _ in ArrowDeviceArray._fields_] == [
        0,
        80,
        88,
        96,
        104,
    ]


def test_memory_that_the_host_can_not_read() -> None:
    """Nobody looks into the memory: its addresses are not even mapped."""
    columns = [Column(3), Column(3)]
    schema, array = export_columns(SCHEMA, columns, [0x10, 0x7000_0000_0010], (2, 5))
    assert pa.Schema._import_from_c_capsule(schema) == SCHEMA
    found = struct(array)
    assert (found.device_type, found.device_id, found.sync_event) == (2, 5, None)
    assert list(found.reserved) == [0, 0, 0]
    assert (found.array.length, found.array.null_count, found.array.offset) == (3, 0, 0)
    for child, address in zip(children(found.array), [0x10, 0x7000_0000_0010], strict=True):
        assert (child.length, child.null_count, child.offset, child.n_buffers) == (3, 0, 0, 2)
        assert (child.buffers[0], child.buffers[1]) == (None, address)


def test_memory_lives_until_it_is_released() -> None:
    columns = [Column(3), Column(3)]
    alive = [weakref.ref(column) for column in columns]
    schema, array = export_columns(SCHEMA, columns, [0x10, 0x20], (2, 0))
    del columns, schema
    gc.collect()
    assert all(reference() is not None for reference in alive)
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(struct(array).array.release)
    release(capsule_address(array))
    gc.collect()
    assert all(reference() is None for reference in alive)
    assert struct(array).array.release is None


def test_memory_is_released_with_the_capsule() -> None:
    column = Column(1)
    alive = weakref.ref(column)
    capsules = export_columns(pa.schema([("x", pa.int64())]), [column], [0x10], (2, 0))
    del column
    gc.collect()
    assert alive() is not None
    del capsules
    gc.collect()
    assert alive() is None


def test_facts_on_a_device_are_pointed_to() -> None:
    kb = engine(EDGE)
    rows = [(1, 2, 0.5), (-3, 2**63, -0.5)]
    kb.load(
        "edge", {"x": CudaArray(np.int64([1, -3])), "y": CudaArray(np.uint64([2, 2**63])), "z": [0.5, -0.5]}
    )
    kb.load("edge", {"x": CudaArray(np.int64([7])), "y": [7], "z": [7]})
    view = kb["edge"]
    device = view._scheme.backend.device  # type: ignore[attr-defined]
    downloaded = device.statistics.downloaded
    schema, array = view.__arrow_c_device_array__()
    assert device.statistics.downloaded == downloaded
    in_use = device.memory()[0]
    batch = pa.RecordBatch._import_from_c_device_capsule(schema, array)
    del kb, view, schema, array
    gc.collect()
    batch.validate(full=True)
    assert sorted(zip(*(c.to_pylist() for c in batch.columns), strict=True)) == sorted([*rows, (7, 7, 7.0)])
    del batch
    gc.collect()
    assert device.memory()[0] <= in_use - 3 * 3 * 8


@pytest.mark.parametrize("program", [EDGE, ".decl edge(x: number, y: symbol)", ".decl edge(x: symbol)"])
@pytest.mark.parametrize("count", [0, 3])
def test_facts_on_the_host(program: str, count: int) -> None:
    kb = ge.Engine(program, backend="cpu")
    values = {"number": [1, -2, 3], "unsigned": [1, 2, 3], "float": [0.5, 1.5, 2.5], "symbol": ["a", "b", ""]}
    kb.load("edge", {a.name: values[a.type.name][:count] for a in kb.relations["edge"].attributes})
    schema, array = kb["edge"].__arrow_c_device_array__()
    assert (struct(array).device_type, struct(array).device_id) == (1, -1)
    assert pa.RecordBatch._import_from_c_device_capsule(schema, array).equals(pa.record_batch(kb["edge"]))
    assert sorted(pa.table(kb["edge"]).to_pylist(), key=str) == sorted(
        kb["edge"].to_arrow().to_pylist(), key=str
    )


def test_symbols_on_a_device_come_from_the_host() -> None:
    kb = engine(".decl edge(x: number, y: symbol)")
    kb.load("edge", {"x": CudaArray(np.int64([1])), "y": ["a"]})
    schema, array = kb["edge"].__arrow_c_device_array__()
    assert struct(array).device_type == 1
    assert pa.RecordBatch._import_from_c_device_capsule(schema, array).to_pylist() == [{"x": 1, "y": "a"}]


def test_no_columns() -> None:
    kb = ge.Engine(".decl yes()\n.decl no()\nyes().", backend="cpu")
    assert [pa.record_batch(kb[name]).num_rows for name in ("yes", "no")] == [1, 0]


def test_options_of_the_future() -> None:
    view = ge.Engine(EDGE, backend="cpu")["edge"]
    view.__arrow_c_device_array__(None, stream=None)
    with pytest.raises(NotImplementedError, match="option stream"):
        view.__arrow_c_device_array__(stream=1)
