"""Damaged data files: mutants of every format are loaded in other processes, which must survive them.

A mutant is loaded, or refused with one of our own errors. It is a failure if the process dies, if another
error comes out, or if a symbol holds what was never in the file: the loading process keeps `SECRET` in the
memory around, and no result may show it.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

SECRET = "«secret»"
_PROGRAM = ".decl r(x: number, y: unsigned, f: float, s: symbol)"
_ROWS = 240
_FILES_EACH = 100
_MEMORY = 6 << 30
_SECONDS = 600
_INTERESTING = (0, 1, -1, 2**31 - 1, 2**30, -(2**31), 2**40, 2**63 - 1, 1000, 12)


def run(seed: int, files: int, language: str = "datalog") -> dict[str, int]:
    """Load so many mutants; how many came to what. Raises `AssertionError` for a crash, a leak, or an error
    that is not ours, with the number that makes the mutant again: ``mutant(number, language)``. They are
    facts for an `Engine`, or for a `TemporalEngine` ("mtl")."""
    counts: Counter[str] = Counter()
    first, end = seed * 1_000_000, seed * 1_000_000 + files
    while first < end:
        with tempfile.TemporaryDirectory() as folder:
            last = min(first + _FILES_EACH, end)
            for number in range(first, last):
                name, content = mutant(number, language)
                (Path(folder) / f"{number}.{name}").write_bytes(content)
            counts.update(_loaded(Path(folder), language))
        first = last
    return dict(counts)


def mutant(number: int, language: str = "datalog") -> tuple[str, bytes]:
    """(file extension, content) of a damaged file; the same number makes the same file."""
    bases = _bases(language)
    name, content = bases[number % len(bases)]
    return name, _mutated(content, random.Random(number))


def _loaded(folder: Path, language: str) -> Counter[str]:
    command = [sys.executable, "-m", "tests.io.damage", language, str(folder)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    outcomes = [json.loads(line) for line in found.stdout.splitlines()]
    failed = [outcome for outcome in outcomes if outcome["came to"] == "FAILURE"]
    missing = len(list(folder.iterdir())) - len(outcomes)
    if failed or missing or found.returncode:
        begun = found.stderr.rpartition("loading ")[2].splitlines()
        raise AssertionError(
            f"damaged files: {failed or ''} exit code {found.returncode}, {missing} not loaded; "
            f"the last was {begun[:1]}\n{found.stderr[-2000:]}"
        )
    return Counter(f"{outcome['format']} {outcome['came to']}" for outcome in outcomes)


def _read_datalog(path: Path) -> pa.Table:
    """What an engine makes of a file."""
    import gpuengine as ge

    kb = ge.Engine(_PROGRAM, threads=1, backend="cpu", memory="1GB")
    kb.load("r", path)
    return kb["r"].to_arrow()


def _read_temporal(path: Path) -> pa.Table:
    import gpuengine as ge

    kb = ge.TemporalEngine("q(X) :- r(X, Y).")
    kb.load("r", path)
    return kb.materialise()["r"].to_arrow()


def _load_all(folder: Path, language: str = "datalog") -> None:
    """What the loading process does: one line of JSON for each file."""
    import faulthandler
    import resource

    import gpuengine as ge

    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    kept = _strewn_secrets()
    for path in sorted(folder.iterdir()):
        print(f"loading {path.name}", file=sys.stderr, flush=True)
        outcome = {"file": path.name, "format": path.name.partition(".")[2]}
        try:
            table = (_read_datalog if language == "datalog" else _read_temporal)(path)
            table.validate(full=True)
            texts = [column for column in table.columns if column.type == pa.string()]
            leaked = any(SECRET in text for column in texts for text in column.to_pylist())
            outcome["came to"] = "FAILURE" if leaked else "loaded"
        except ge.GpuEngineError as error:
            outcome["came to"] = "refused"
            outcome["error"] = str(error)
            if SECRET in str(error):
                outcome["came to"] = "FAILURE"
        except BaseException as error:
            outcome |= {"came to": "FAILURE", "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(outcome), flush=True)
    assert kept


def _strewn_secrets() -> list[pa.Buffer]:
    """Memory full of the secret, with gaps between for what is allocated next."""
    blocks = [pa.allocate_buffer(size, resizable=True) for size in (1 << 12, 1 << 14, 1 << 16) * 64]
    for block in blocks:
        text = (SECRET.encode() * (block.size // len(SECRET.encode()) + 1))[: block.size]
        np.frombuffer(block, np.uint8)[:] = np.frombuffer(text, np.uint8)
    return blocks[::2]


@cache
def _bases(language: str) -> list[tuple[str, bytes]]:
    """(extension, content) of whole files of every format, compression and type that means the same."""
    made: list[tuple[str, bytes]] = []
    plain = _table() if language == "datalog" else _timed_table()
    variants = [
        plain,
        _with(plain, "s", pa.string_view()),
        _with(plain, "s", pa.dictionary(pa.int32(), pa.string())),
        _with(_with(plain, "s", pa.large_binary()), "x", pa.int32()),
    ]
    for table in variants:
        for codec in (None, "zstd", "lz4"):
            made.append(("arrow", _ipc(table, pa.ipc.new_file, codec)))
            made.append(("arrows", _ipc(table, pa.ipc.new_stream, codec)))
        if table is not variants[1]:
            for codec in ("none", "snappy", "zstd", "gzip"):
                for version in ("1.0", "2.0"):
                    made.append(("parquet", _parquet(table, codec, version)))
    rows = zip(*(column.to_pylist() for column in plain.columns), strict=True)
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()
    made.append(("facts", text))
    made.append(("facts.gz", gzip.compress(text, mtime=0)))
    made.append(("facts.zst", bytes(pa.compress(text, "zstd", asbytes=True))))
    made.append(("csv", text.replace(b"\t", b",")))
    return made


def _table() -> pa.Table:
    numbers = np.random.default_rng(1)
    return pa.table(
        {
            "x": numbers.integers(-1000, 1000, _ROWS),
            "y": numbers.integers(0, 2**62, _ROWS).astype(np.uint64),
            "f": numbers.random(_ROWS),
            "s": [f"symbol number {i % 40} é" for i in range(_ROWS)],
        }
    )


def _timed_table() -> pa.Table:
    """Facts of a predicate with two arguments, and their times."""
    plain = _table()
    starts = np.arange(_ROWS)
    return pa.table({"x": plain["x"], "s": plain["s"], "start": starts, "end": starts + 5})


def _with(table: pa.Table, name: str, type: pa.DataType) -> pa.Table:
    column = table.column(name)
    changed = column.dictionary_encode() if pa.types.is_dictionary(type) else column.cast(type)
    return table.set_column(table.column_names.index(name), name, changed)


def _ipc(table: pa.Table, new: Callable[..., pa.RecordBatchWriter], codec: str | None) -> bytes:
    sink = io.BytesIO()
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=100)
    return sink.getvalue()


def _parquet(table: pa.Table, codec: str, version: str) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(
        table, sink, compression=codec, data_page_version=version, row_group_size=100, use_dictionary=["s"]
    )
    return sink.getvalue()


def _mutated(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 8))):
        at = _somewhere(len(data), chance)
        how = chance.random()
        if how < 0.4:
            data[at] ^= 1 << chance.randrange(8)
        elif how < 0.55:
            data[at] = chance.choice((0, 1, 127, 128, 255))
        elif how < 0.85:
            size = chance.choice((4, 8))
            value = chance.choice(_INTERESTING) & (2 ** (8 * size) - 1)
            data[at : at + size] = value.to_bytes(size, "little")
        elif how < 0.9:
            del data[at : at + chance.randrange(1, 20)]
        elif how < 0.95:
            del data[at:]
        else:
            other = chance.randrange(len(data))
            data[at : at + 16] = data[other : other + 16]
        data = data or bytearray(1)
    return bytes(data)


def _somewhere(size: int, chance: random.Random) -> int:
    """A place anywhere, or near the beginning or the end, where the structure of a file is."""
    low, high = chance.choice(((0, size), (0, size), (0, 2000), (size - 2000, size)))
    return chance.randrange(max(low, 0), min(max(high, 1), size))


if __name__ == "__main__":
    _load_all(Path(sys.argv[2]), sys.argv[1])
