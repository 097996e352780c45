"""Files and Arrow objects that are damaged: refused by name, never a crash, never foreign memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpuengine as ge
from gpuengine.errors import DataError
from tests.io import damage


def test_mutants_are_loaded_or_refused() -> None:
    counts = damage.run(seed=1, files=200)
    assert sum(counts.values()) == 200
    assert {"arrow refused", "arrows refused", "parquet refused", "facts.gz refused"} <= counts.keys()


def test_mutants_of_temporal_facts_are_loaded_or_refused() -> None:
    counts = damage.run(seed=2, files=200, language="mtl")
    assert sum(counts.values()) == 200
    assert {"arrow refused", "arrows refused", "parquet refused", "parquet loaded"} <= counts.keys()


def test_the_fuzzer_sees_a_crash_and_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same mutants by a loader that does not look at what it loads."""
    careless = "from gpuengine.io import conform; conform.conform_column = conform._converted"
    loader = (
        f"import sys; {careless}; from tests.io import damage; damage._load_all(damage.Path(sys.argv[1]))"
    )
    run = damage.subprocess.run

    def carelessly(command: list[str], **options: Any) -> Any:
        return run([command[0], "-c", loader, command[-1]], **options)

    monkeypatch.setattr(damage.subprocess, "run", carelessly)
    with pytest.raises(AssertionError, match="damaged files"):
        damage.run(seed=115, files=60)


def strings(offsets: list[int], data: bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def view_outside() -> pa.Array:
    """A string view of 100 bytes at byte 10,000 of a buffer that has 32."""
    view = np.array([100, 0x61616161, 0, 10_000], np.int32)
    return pa.Array.from_buffers(pa.string_view(), 1, [None, pa.py_buffer(view), pa.py_buffer(b"a" * 32)])


DAMAGED = {
    "view": view_outside,
    "offsets": lambda: strings([0, 1 << 20, 3], b"abc"),
    "negative": lambda: strings([0, -5, 3], b"abc"),
    "falling": lambda: strings([0, 3, 1], b"abc"),
    "text": lambda: strings([0, 2], b"\xff\xfe"),
    "dictionary": lambda: pa.DictionaryArray.from_arrays(
        pa.array([77], pa.int32()), pa.array(["a"]), safe=False
    ),
}


class Capsule:
    """An object that has nothing but the Arrow PyCapsule protocol."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize(
    "form",
    [
        lambda array: pa.table([array], names=["s"]),
        lambda array: pa.RecordBatch.from_arrays([array], names=["s"]),
        lambda array: array,
        lambda array: {"s": array},
        lambda array: [array],
        lambda array: Capsule(pa.table([array], names=["s"])),
        lambda array: pa.StructArray.from_arrays([array], names=["s"]),
    ],
    ids=["table", "batch", "array", "dict", "list", "capsule", "struct"],
)
def test_damaged_objects(kind: str, form: Any) -> None:
    kb = ge.Engine(".decl r(s: symbol)", threads=1)
    with pytest.raises(DataError, match=r"^r: .*damaged Arrow data"):
        kb.load("r", form(DAMAGED[kind]()))
    assert len(kb["r"]) == 0


def test_a_file_whose_text_is_no_utf8(tmp_path: Path) -> None:
    table = pa.table([strings([0, 1, 3], b"a\xff\xfe")], names=["s"])
    with pa.ipc.new_file(str(tmp_path / "r.arrow"), table.schema) as writer:
        writer.write_table(table)
    kb = ge.Engine(".decl r(s: symbol)", threads=1)
    with pytest.raises(DataError, match=r"r.arrow: r: column 1 \(s: symbol\): .*UTF8.*index 1"):
        kb.load("r", tmp_path / "r.arrow")
