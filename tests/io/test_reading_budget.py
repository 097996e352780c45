"""Reading asks the memory budget as it goes: small files that become large end with a clear error."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import gpuengine as ge
from gpuengine.errors import DataError

_LOADER = """
import json, re, sys
import gpuengine as ge
program, path, memory = sys.argv[1:]
kb = ge.Engine(program, memory=memory, backend="cpu", threads=2)
kb.load("r", [("warm", 1)] if "symbol" in program else [(1, 2)])
held = lambda what: int(re.search(what + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
before = held("VmRSS")
try:
    kb.load("r", path)
    message = ""
except ge.GpuEngineError as error:
    message = f"{type(error).__name__}: {error}"
print(json.dumps({"message": message, "taken": held("VmHWM") - before, "rows": len(kb["r"])}))
"""
SYMBOLS = ".decl r(s: symbol, n: number)"
NUMBERS = ".decl r(x: number, y: number)"
_MB = 1 << 20
_MOST = 4 << 30
_BUDGET = 150 * _MB


def loaded(program: str, path: Path, memory: int = _BUDGET) -> dict[str, object]:
    command = [sys.executable, "-c", _LOADER, program, str(path), str(memory)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    outcome: dict[str, object] = json.loads(found.stdout)
    return outcome


def gzip_bomb(path: Path) -> str:
    with gzip.open(path, "wb", 1) as file:
        for _ in range(500):
            file.write(b"a\t1\n" * (_MB // 4))
    return SYMBOLS


def one_gzip_line(path: Path) -> str:
    with gzip.open(path, "wb", 1) as file:
        for _ in range(500):
            file.write(b"a" * _MB)
    return SYMBOLS


def zstd_bomb(path: Path) -> str:
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        for _ in range(500):
            file.write(b"a\t1\n" * (_MB // 4))
    return SYMBOLS


def plain_text(path: Path) -> str:
    """Numbers take four times the bytes of their digits."""
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"1\t2\n" * (_MB // 4))
    return NUMBERS


def ipc_bomb(path: Path) -> str:
    """One record batch of half a gigabyte of zeros."""
    table = pa.table({"x": np.zeros(1 << 25, np.int64), "y": np.zeros(1 << 25, np.int64)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(path), table.schema, options=options) as writer:
        writer.write_table(table)
    return NUMBERS


def parquet_bomb(path: Path) -> str:
    """A row group of 2**25 equal rows."""
    table = pa.table({"x": np.zeros(1 << 25, np.int64), "y": np.zeros(1 << 25, np.int64)})
    parquet.write_table(table, path, row_group_size=1 << 25)
    return NUMBERS


def parquet_of_long_texts(path: Path) -> str:
    """One text of 64 KB, in each of 20,000 rows."""
    texts = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), pa.array(["a" * (1 << 16)]))
    parquet.write_table(pa.table({"s": texts, "n": np.arange(20_000)}), path)
    return SYMBOLS


def ipc_of_long_texts(path: Path) -> str:
    texts = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), pa.array(["a" * (1 << 16)]))
    table = pa.table({"s": texts, "n": np.arange(20_000)})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return SYMBOLS


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (gzip_bomb, "r.facts.gz"),
        (one_gzip_line, "r.facts.gz"),
        (zstd_bomb, "r.facts.zst"),
        (plain_text, "r.facts"),
        (ipc_bomb, "r.arrow"),
        (parquet_bomb, "r.parquet"),
        (parquet_of_long_texts, "r.parquet"),
        (ipc_of_long_texts, "r.arrow"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_files_that_become_large(make: Callable[[Path], str], name: str, tmp_path: Path) -> None:
    program = make(tmp_path / name)
    outcome = loaded(program, tmp_path / name)
    message = str(outcome["message"])
    assert message.startswith("MemoryBudgetError: out of the memory budget of 150 MB: "), outcome
    assert str(tmp_path / name) in message and "hint: raise it with --memory" in message
    assert outcome["rows"] == 1
    assert int(str(outcome["taken"])) < 2 * _BUDGET


def test_files_that_fit_are_read(tmp_path: Path) -> None:
    path = tmp_path / "r.facts.gz"
    with gzip.open(path, "wb", 1) as file:
        for i in range(200_000):
            file.write(b"%d\t%d\n" % (i, i))
    assert loaded(NUMBERS, path) | {"taken": 0} == {"message": "", "taken": 0, "rows": 200_001}


_ENDLESS = """
import itertools, json, sys
import pyarrow as pa
import gpuengine as ge
kb = ge.Engine(".decl r(x: number, y: number)", memory=int(sys.argv[2]), backend="cpu", threads=1)
rows = ((i, i + 1) for i in itertools.count())
batch = pa.record_batch({"x": range(1 << 16), "y": range(1 << 16)})
copies = (pa.record_batch({"x": pa.array(list(range(1 << 16))), "y": batch["y"]}) for _ in itertools.count())
given = {
    "rows": rows,
    "columns": {"x": itertools.count(), "y": [1]},
    "batches": pa.RecordBatchReader.from_batches(batch.schema, copies),
}[sys.argv[1]]
for insert in (lambda: kb.load("r", given), lambda: update(given)):
    def update(given):
        with kb.update() as transaction:
            transaction.insert("r", given)
    try:
        insert()
    except ge.GpuEngineError as error:
        print(type(error).__name__, error)
assert len(kb.materialise()["r"]) == 0
"""


@pytest.mark.parametrize("kind", ["rows", "columns", "batches"])
def test_data_that_never_ends(kind: str) -> None:
    """Were it not refused, the process would fail by what the system then allows it."""
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({_MOST}, {_MOST}))\n{_ENDLESS}"
    command = [sys.executable, "-c", limited, kind, str(30 * _MB)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("MemoryBudgetError out of the memory budget of 30.0 MB: ") == 2, found.stdout
    assert "rows for r took the process" in found.stdout


def test_columns_that_are_made_as_they_are_read() -> None:
    kb = ge.Engine(NUMBERS, threads=1)
    assert kb.load("r", {"x": iter([1, 2]), "y": (y for y in (3, 4))}) == 2
    assert kb.load("r", ((i, i) for i in range(5000))) == 5000
    rows = kb.materialise()["r"]
    assert len(rows) == 5002 and (1, 3) in rows and (2, 4) in rows and (4999, 4999) in rows
    nothing = ge.Engine(".decl z()", threads=1)
    wrong: Any
    for wrong in (5, None, True, b"1"):
        with pytest.raises(DataError, match="z: can't read facts from"):
            nothing.load("z", wrong)
    assert nothing.load("z", iter([(), ()])) == 1 and len(nothing.materialise()["z"]) == 1
