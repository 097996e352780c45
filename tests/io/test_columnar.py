"""Parquet and Arrow IPC, read into the types of the relation."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuengine as ge
from gpuengine.errors import DataError, DataWarning
from gpuengine.io import Facts, arrow_schema, read_facts
from tests.io.relations import attributes

FORMATS = ["parquet", "arrow", "arrows", "feather"]


def save(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


def read(path: Path, kinds: str, on_error: str = "fail", **params: str) -> Facts:
    facts = read_facts(path, attributes(kinds), params, relation="edge", on_error=on_error)  # type: ignore[arg-type]
    assert facts.table.schema == arrow_schema(attributes(kinds))
    return facts


@pytest.mark.parametrize("format", FORMATS)
def test_every_type(tmp_path: Path, format: str) -> None:
    columns = {
        "x": [1, -2],
        "y": [2**64 - 1, 0],
        "z": [0.5, 1.0],
        "u": ["a\tb", "é\n"],
        "v": ["nil", "[1, nil]"],
    }
    types = [pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.string()]
    table = pa.table(columns, pa.schema(list(zip(columns, types, strict=True))))
    path = save(table, tmp_path / f"edge.{format}")
    assert read(path, "nufsr").table.to_pydict() == columns


@pytest.mark.parametrize(
    ("values", "type", "kind", "expected"),
    [
        ([1, 2], pa.int8(), "n", [1, 2]),
        ([1, 2], pa.uint64(), "n", [1, 2]),
        ([1.0, -2.0], pa.float32(), "n", [1, -2]),
        ([True, False], pa.bool_(), "n", [1, 0]),
        ([Decimal(7)], pa.decimal128(38, 0), "n", [7]),
        ([1, 2], pa.int32(), "f", [1.0, 2.0]),
        (["a", "b"], pa.large_string(), "s", ["a", "b"]),
        (["a", "b", "a"], pa.dictionary(pa.int32(), pa.string()), "s", ["a", "b", "a"]),
        ([b"a"], pa.binary(), "s", ["a"]),
        ([], pa.null(), "s", []),
    ],
)
@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_exact_casts(
    tmp_path: Path, format: str, values: list[object], type: pa.DataType, kind: str, expected: list[object]
) -> None:
    path = save(pa.table({"x": pa.array(values, type)}), tmp_path / f"edge.{format}")
    assert read(path, kind).table.to_pydict() == {"x": expected}


@pytest.mark.parametrize(
    ("values", "type", "kind", "row", "reason"),
    [
        ([1, 2**63], pa.uint64(), "n", 1, "9223372036854775808 does not fit a 64-bit signed number"),
        ([1, -1], pa.int64(), "u", 1, "-1 is negative, not an unsigned number"),
        ([1.0, 1.5], pa.float64(), "n", 1, "1.5 is not a whole number"),
        ([1.0, float("nan")], pa.float64(), "n", 1, "nan is not a number"),
        ([1, None], pa.int64(), "n", 1, "null; facts have no nulls"),
        (["a", None], pa.string(), "s", 1, "null; facts have no nulls"),
        ([None], pa.null(), "s", 0, "null; facts have no nulls"),
        ([b"a", b"\xff"], pa.binary(), "s", 1, r"b'\xff' is not valid UTF-8"),
        (
            [0, 2**53 + 1],
            pa.int64(),
            "f",
            1,
            "9007199254740993 is not exactly representable as a 64-bit float",
        ),
        (["1"], pa.string(), "n", 0, "'1': the column holds string, not number"),
        ([1], pa.int64(), "s", 0, "1: the column holds int64, not symbol"),
        (
            [datetime.date(2020, 1, 1)],
            pa.date32(),
            "n",
            0,
            "datetime.date(2020, 1, 1): the column holds date32[day], not number",
        ),
    ],
)
def test_bad_values(
    tmp_path: Path, values: list[object], type: pa.DataType, kind: str, row: int, reason: str
) -> None:
    path = save(pa.table({"x": pa.array(values, type)}), tmp_path / "edge.parquet")
    with pytest.raises(DataError) as caught:
        read(path, kind)
    declared = attributes(kind)[0].type.name
    where = f"row {row} (counted from 0), column 1 (x: {declared})"
    message, _, hint = str(caught.value).partition("\n  hint: ")
    assert message == f"{path}: edge: {where}: {reason}"
    assert bool(hint) == (None in values or pa.types.is_date(type))


def test_skipping(tmp_path: Path) -> None:
    x = pa.array([1.0, 2.5, None, *range(4, 10_001)], pa.float64())
    y = pa.array([None if i in (1, 9_999) else str(i) for i in range(10_000)])
    path = save(pa.table({"x": x, "y": y}), tmp_path / "edge.parquet")
    facts = read(path, "ns", "skip")
    assert facts.skipped == 3
    assert facts.table.column("x").to_pylist() == [1, *range(4, 10_000)]
    assert [m.partition(": edge: ")[2] for m in facts.first_errors] == [
        "row 1 (counted from 0), column 1 (x: number): 2.5 is not a whole number",
        "row 2 (counted from 0), column 1 (x: number): null; facts have no nulls",
        "row 9999 (counted from 0), column 2 (y: symbol): null; facts have no nulls",
    ]


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_columns_match_by_name_or_else_by_position(tmp_path: Path, format: str) -> None:
    path = save(pa.table({"y": ["a"], "extra": [0.5], "x": [1]}), tmp_path / f"a.{format}")
    assert read(path, "ns").table.to_pydict() == {"x": [1], "y": ["a"]}
    path = save(pa.table({"src": [1], "dst": ["a"]}), tmp_path / f"b.{format}")
    assert read(path, "sn", columns="1:0").table.to_pydict() == {"x": ["a"], "y": [1]}
    others = [
        path,
        save(pa.table([[1], ["a"]], names=["c", "c"]), tmp_path / f"c.{format}"),
        save(pa.table({"a.b": [1], "c": ["a"]}), tmp_path / f"d.{format}"),
    ]
    for path in others:
        with pytest.warns(DataWarning, match="are taken by position"):
            assert read(path, "ns").table.to_pydict() == {"x": [1], "y": ["a"]}
    path = save(pa.table({"y": ["a"], "z": [1]}), tmp_path / f"e.{format}")
    with pytest.raises(DataError, match=r"the columns are \(y, z\), the attributes \(x, y\)"):
        read(path, "ns")


def test_parts_that_go_by_position_are_spoken_of_once(tmp_path: Path) -> None:
    (tmp_path / "edge").mkdir()
    for part in range(3):
        save(pa.table({"src": [part], "dst": [0]}), tmp_path / "edge" / f"{part}.parquet")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        read(tmp_path / "edge", "nn")
    assert len(seen) == 1


def test_columns_that_do_not_match(tmp_path: Path) -> None:
    path = save(pa.table({"a": [1], "b": [2], "c": [3]}), tmp_path / "edge.parquet")
    with pytest.raises(DataError, match=r"edge: 3 columns \(a, b, c\), expected 2 \(x, y\)"):
        read(path, "nn")
    with pytest.raises(DataError, match="columns= asks for column 7, but there are 3"):
        read(path, "nn", columns="0:7")


def test_format_by_parameter(tmp_path: Path) -> None:
    path = save(pa.table({"x": [1]}), tmp_path / "edge.parquet").rename(tmp_path / "edge.data")
    assert read(path, "n", IO="parquet").table.num_rows == 1
    with pytest.raises(DataError, match="not a readable arrow file"):
        read(path, "n", IO="ipc")


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_damaged_files(tmp_path: Path, format: str) -> None:
    path = save(pa.table({"x": list(range(1000))}), tmp_path / f"edge.{format}")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataError, match=f"not a readable {format} file"):
        read(path, "n")
    path.write_bytes(b"")
    with pytest.raises(DataError, match=f"not a readable {format} file"):
        read(path, "n")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = save(pa.table({"number": [1]}), tmp_path / "edge.arrow")
    path.write_bytes(path.read_bytes().replace(b"number", b"\x80umber"))
    with pytest.raises(DataError, match="the name of a column is not UTF-8"):
        read(path, "n")


def test_buffers_that_end_with_odd_bytes() -> None:
    """Arrow lets a buffer be longer than its values, by any number of bytes."""
    numbers = pa.py_buffer((5).to_bytes(8, "little") + (-6 % 2**64).to_bytes(8, "little") + b"odd")
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1, 3)) + b"odd")
    table = pa.table(
        {
            "x": pa.Array.from_buffers(pa.int64(), 2, [None, numbers]),
            "s": pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")]),
        }
    )
    kb = ge.Engine(".decl r(x: number, s: symbol)")
    kb.load("r", table)
    kb.load("r", table.slice(1))
    assert set(kb.materialise()["r"]) == {(5, "a"), (-6, "bc")}


def test_parts_of_different_formats(tmp_path: Path) -> None:
    parts = tmp_path / "edge"
    parts.mkdir()
    save(pa.table({"x": [1], "y": ["a"]}), parts / "0.parquet")
    (parts / "1.csv").write_text("2,b\nbad,c\n")
    save(pa.table({"x": [3], "y": pa.array(["c"], pa.large_string())}), parts / "2.arrow")
    facts = read(parts, "ns", "skip")
    assert facts.table.to_pydict() == {"x": [1, 2, 3], "y": ["a", "b", "c"]}
    assert facts.skipped == len(facts.first_errors) == 1


def test_relations_without_attributes(tmp_path: Path) -> None:
    path = save(pa.table({"()": [True]}), tmp_path / "edge.parquet")
    table = read_facts(path, [], {}, relation="edge").table
    assert (table.num_columns, table.num_rows) == (0, 1)
