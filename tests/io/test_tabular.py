"""Everything tabular that `Engine.load` takes."""

from __future__ import annotations

import datetime
import subprocess
import sys
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gpuengine.errors import DataError, DataWarning
from gpuengine.io import arrow_schema, from_tabular
from gpuengine.language import parse_program
from gpuengine.language.program import Attribute, Kind, Type
from gpuengine.terms.dictionary import Dictionary
from tests.io.relations import ADT, RECORD, attributes


def rows(obj: Any, kinds: str) -> list[tuple[Any, ...]]:
    table = from_tabular(obj, attributes(kinds), relation="edge")
    assert table.schema == arrow_schema(attributes(kinds))
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def message(obj: Any, kinds: str) -> str:
    with pytest.raises(DataError) as caught:
        from_tabular(obj, attributes(kinds), relation="edge")
    return str(caught.value)


class Stream:
    """An object that has nothing but the Arrow PyCapsule protocol."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class Array:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


BIG = 2**53 + 1
EPOCH = datetime.datetime(1970, 1, 1)
TABLE = pa.table({"x": [1, 2], "y": ["a", "b"]})
STRUCTURED = np.array([(1, "a"), (2, "b")], dtype=[("x", ">i4"), ("y", "U4")])


@pytest.mark.parametrize(
    "obj",
    [
        TABLE,
        TABLE.to_batches()[0],
        pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()),
        TABLE.columns,
        [TABLE.column("x").combine_chunks(), TABLE.column("y").combine_chunks()],
        TABLE.to_struct_array().combine_chunks(),
        Stream(TABLE),
        Array(TABLE.to_batches()[0]),
        TABLE.to_pandas(),
        TABLE.to_pandas().set_index(pd.Index([7, 8])),
        pl.from_arrow(TABLE),
        pl.from_arrow(TABLE).lazy(),  # type: ignore[union-attr]
        STRUCTURED,
        np.array([[1, "a"], [2, "b"]], dtype=object),
        {"x": [1, 2], "y": ["a", "b"]},
        {"y": pl.Series(["a", "b"]), "x": np.array([1, 2])},
        {"y": pd.Series(["a", "b"]), "x": pa.array([1, 2])},
        {"x": (1, 2), "y": ["a", "b"]},
        [(1, "a"), (2, "b")],
        [[1, "a"], [2, "b"]],
        ((i, c) for i, c in ((1, "a"), (2, "b"))),
        [{"x": 1, "y": "a"}, {"y": "b", "x": 2, "z": 0}],
        [np.array([1, "a"], dtype=object), (2, "b")],
        dict(zip("xy", TABLE.columns, strict=True)),
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_two_columns(obj: Any) -> None:
    assert rows(obj, "ns") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    "obj",
    [
        [1, 2],
        [(1,), (2,)],
        range(1, 3),
        np.array([1, 2], np.int16),
        np.array([[1], [2]]),
        pa.array([1, 2]),
        pa.chunked_array([[1], [2]]),
        pd.Series([1, 2]),
        pl.Series([1, 2]),
        pd.Series([1, 2], dtype="Int64"),
        [1.0, Decimal(2)],
        [np.int64(1), np.float32(2)],
        [True, Fraction(2)],
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_one_column(obj: Any) -> None:
    assert rows(obj, "n") == [(1,), (2,)]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("as_path", [str, Path])
def test_paths(tmp_path: Path, suffix: str, as_path: Callable[[Path], Any]) -> None:
    frame = TABLE.to_pandas()
    path = tmp_path / f"edge.{suffix}"
    if suffix == "csv":
        frame.to_csv(path, index=False, header=False)
    else:
        frame.to_parquet(path)
    assert rows(as_path(path), "ns") == [(1, "a"), (2, "b")]
    frame.to_csv(tmp_path / "edge.tsv", sep="\t", index=False)
    table = from_tabular(tmp_path / "edge.tsv", attributes("ns"), relation="edge", params={"headers": "true"})
    assert table.num_rows == 2
    assert message(as_path(tmp_path / "none.csv"), "ns").endswith("none.csv: no such file")


@pytest.mark.parametrize(
    "obj",
    [
        [],
        {},
        {"x": [], "y": []},
        pd.DataFrame({"x": [], "y": []}),
        np.empty((0, 2)),
        np.empty(0),
        pl.DataFrame({"x": [], "y": []}),
        iter(()),
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_nothing(obj: Any) -> None:
    if isinstance(obj, dict) and not obj:
        assert message(obj, "ns") == "edge: 0 columns (), expected 2 (x, y)"
    else:
        assert rows(obj, "ns") == []


@pytest.mark.parametrize(
    ("obj", "expected"), [([()], 1), ([], 0), (TABLE, 1), (np.empty((0, 0)), 0), (TABLE.slice(0, 0), 0)]
)
def test_no_attributes(obj: Any, expected: int) -> None:
    table = from_tabular(obj, [], relation="flag")
    assert (table.num_columns, table.num_rows) == (0, expected)


def test_columns_match_by_name_or_else_by_position() -> None:
    assert rows(pd.DataFrame({"y": ["a"], "other": [0], "x": [1]}), "ns") == [(1, "a")]
    with pytest.warns(DataWarning, match=r"^edge: no column .* \(p, q\) are taken by position as \(x, y\)$"):
        assert rows(pd.DataFrame({"p": [1], "q": ["a"]}), "ns") == [(1, "a")]
    assert message(pd.DataFrame({"p": ["a"]}), "ns") == "edge: 1 column (p), expected 2 (x, y)"
    assert message(np.zeros((3, 3)), "nn") == "edge: 3 columns (, , ), expected 2 (x, y)"
    assert message(np.zeros(3), "nn") == "edge: an array of shape (3,), expected (n, 2)"


def test_types() -> None:
    assert rows([(1, 2**64 - 1, 3, "é", "nil")], "nufsr") == [(1, 2**64 - 1, 3.0, "é", "nil")]
    assert rows(np.array([[1.0, 2.0]]), "nu") == [(1, 2)]
    assert rows(pd.DataFrame({"x": pd.Categorical(["a", "b", "a"])}), "s") == [("a",), ("b",), ("a",)]
    assert rows(pl.DataFrame({"x": pl.Series(["a"], dtype=pl.Categorical)}), "s") == [("a",)]
    views = pa.DictionaryArray.from_arrays([0, 1, 0], pa.array([b"a", b"bc"], pa.binary_view()))
    assert rows(pa.table({"x": views}), "s") == [("a",), ("bc",), ("a",)]
    assert rows(np.array(["a", "bc"]), "s") == [("a",), ("bc",)]
    assert rows(np.array([[1, 2], [3, 4]], dtype=np.int8, order="F")[::-1], "nn") == [(3, 4), (1, 2)]


@pytest.mark.parametrize(
    "unnamed",
    [
        pd.DataFrame([[1, "a"]]),
        pd.DataFrame([[1, "a"]], columns=[1, 2]),
        pl.DataFrame([(1, "a")], orient="row"),
        pa.table([pa.array([1]), pa.array(["a"])], names=["f0", "f1"]),
        {"_1": [1], "_2": ["a"]},
        np.array([(1, "a")], "i8,U1"),
        [(1, "a")],
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_names_that_libraries_make_up_are_none(unnamed: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows(unnamed, "ns") == [(1, "a")]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_names_decide_over_positions(frame: Any) -> None:
    """Columns in another order than the attributes turn no edge round."""
    turned = frame({"z": [0.5], "y": [2], "x": [1]})
    assert rows(turned, "nnf") == [(1, 2, 0.5)]
    some = frame({"y": [2], "x": [1], "weight": [0.5]})
    expected = "the columns are (y, x, weight), the attributes (x, y, z)"
    assert expected in message(some, "nnf") and "only some columns" in message(some, "nnf")


def test_columns_of_one_name() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["x", "x", "y"])
    assert message(twice, "nn") == "edge: several columns are called x: (x, x, y)"


def test_records() -> None:
    program = parse_program(
        """
        .type List = [head: number, tail: List]
        .type Label = [name: symbol, weight: float, none: List]
        .type Shape = B {n: number, inner: Shape} | C {} | D {label: Label}
        """
    )
    terms = Dictionary(program)

    def text(value: Any, type_: Type) -> str:
        given = [Attribute("x", type_)]
        return str(from_tabular([(value,)], given, relation="r", terms=terms).column(0)[0].as_py())

    label = Type("Label", Kind.RECORD, "Label")
    for value, type_, expected in [
        ((1, (2, None)), RECORD, "[1, [2, nil]]"),
        ([3.0, "[4, nil]"], RECORD, "[3, [4, nil]]"),
        ("[4, nil]", RECORD, "[4, nil]"),
        (None, RECORD, "nil"),
        (("$B", 1, ("$C",)), ADT, "$B(1, $C)"),
        (("$B", 1, "$C"), ADT, "$B(1, $C)"),
        (("$C",), ADT, "$C"),
        (("a,b", 1.5, None), label, '["a,b", 1.5, nil]'),
        (("$C", 1, None), label, "[$C, 1, nil]"),
        (("", float("-inf"), None), label, "[, -inf, nil]"),
        (("a\nb\t", 0, None), label, r'["a\nb\t", 0, nil]'),
    ]:
        assert text(value, type_) == expected
    itself: list[Any] = [1]
    itself.append(itself)
    for value, type_ in [
        ({}, RECORD), ((1, 2), RECORD), ((1.5, None), RECORD), ((1, None, None), RECORD),
        (("1", None), RECORD),
        ((1, "[2"), RECORD), (None, ADT), (("$E",), ADT), (("$B", 1), ADT), (((1,), None), RECORD), ((), ADT),
        ((5, 1.0, None), label), (itself, RECORD), ((2**64, None), RECORD), (("\ud800", 1, None), label),
    ]:  # fmt: skip
        with pytest.raises(DataError, match=r"^r: row 0 \(counted from 0\), column 1"):
            text(value, type_)
    deep: Any = None
    for n in range(20_000):
        deep = (n, deep)
    assert text(deep, RECORD).count("[") == 20_000


@pytest.mark.parametrize(
    ("obj", "kinds", "row", "column", "reason"),
    [
        ([(1, 2), (3, "x")], "nn", 1, "2 (y: number)", "'x' (str) is not a number"),
        ([(1, 2), (3, None)], "nn", 1, "2 (y: number)", "null; facts have no nulls"),
        ([1, 1.5], "n", 1, "1 (x: number)", "1.5 is not a whole number"),
        ([1.0, 1.5], "n", 1, "1 (x: number)", "1.5 is not a whole number"),
        ([1, 2**63], "n", 1, "1 (x: number)", f"{2**63} does not fit a 64-bit signed number"),
        ([1, 2**70], "u", 1, "1 (x: unsigned)", f"{2**70} does not fit a 64-bit unsigned number"),
        ([0, -1], "u", 1, "1 (x: unsigned)", "-1 is negative, not an unsigned number"),
        ([0, BIG], "f", 1, "1 (x: float)", f"{BIG} is not exactly representable as a 64-bit float"),
        (["a", 1], "s", 1, "1 (x: symbol)", "1 (int) is not a symbol"),
        ([1, 2], "s", 0, "1 (x: symbol)", "1: the column holds int64, not symbol"),
        (["a", "\ud800"], "s", 1, "1 (x: symbol)", r"'\ud800' has a lone surrogate and no UTF-8 encoding"),
        (np.array([0.0, np.nan]), "n", 1, "1 (x: number)", "nan is not a number"),
        (np.uint64([1, 2**63]), "n", 1, "1 (x: number)", f"{2**63} does not fit a 64-bit signed number"),
        (np.array([0], "M8[us]"), "n", 0, "1 (x: number)", f"{EPOCH!r}: the column holds timestamp[us], "
         "not number"),
        (pd.Series([1.0, None]), "n", 1, "1 (x: number)", "null; facts have no nulls"),
        (pd.Series(["a", 1]), "s", 1, "1 (x: symbol)", "1 (int) is not a symbol"),
        (pl.Series([1, None]), "n", 1, "1 (x: number)", "null; facts have no nulls"),
    ],
)  # fmt: skip
def test_bad_values(obj: Any, kinds: str, row: int, column: str, reason: str) -> None:
    found, _, hint = message(obj, kinds).partition("\n  hint: ")
    assert found == f"edge: row {row} (counted from 0), column {column}: {reason}"
    assert bool(hint) == (reason.startswith("null") or "timestamp" in reason)


@pytest.mark.parametrize(
    ("obj", "kinds", "expected"),
    [
        ([(1, 2), (3,)], "nn", "row 1 (counted from 0): 1 values, expected 2: (3,)"),
        (["ab", "cd"], "ss", "row 0 (counted from 0): 'ab' is not a row of 2 values"),
        ([(1, 2), 3], "nn", "row 1 (counted from 0): 3 is not a row of 2 values"),
        ([{"x": 1, "y": 2}, {"x": 1}], "nn", "row 1 (counted from 0): no 'y' in {'x': 1}"),
        ({"x": [1], "y": [1, 2]}, "nn", "columns of different lengths (1, 2)"),
    ],
)
def test_bad_shapes(obj: Any, kinds: str, expected: str) -> None:
    assert message(obj, kinds) == f"edge: {expected}"


@pytest.mark.parametrize("obj", [1, None, b"abc", object()])
def test_what_is_not_tabular(obj: Any) -> None:
    assert message(obj, "n").startswith(f"edge: can't read facts from {type(obj).__name__}; give a path")


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    """Text and lists of tuples need neither pandas nor polars nor Arrow's compute functions."""
    (tmp_path / "edge.facts").write_text("1\t0.5\ta\n")
    (tmp_path / "bad.facts").write_text("+1\t0x1p0\ta\nx\n")
    script = tmp_path / "script.py"
    script.write_text(
        """
import sys
from pathlib import Path
from gpuengine.io import from_tabular, read_facts, write_facts
from gpuengine.language.program import FLOAT, NUMBER, SYMBOL, Attribute
attributes = [Attribute("x", NUMBER), Attribute("y", FLOAT), Attribute("z", SYMBOL)]
here = Path(sys.argv[1])
from_tabular([(1, 0.5, "a"), (2, 1.0, "b")], attributes, relation="r")
table = read_facts(here / "edge.facts", attributes, {}, relation="r").table
read_facts(here / "bad.facts", attributes, {}, relation="r", on_error="skip")
write_facts(here / "out.csv", table.to_batches(), attributes, {})
print(sorted({"pandas", "polars", "numba", "pyarrow.compute"} & set(sys.modules)))
"""
    )
    command = [sys.executable, str(script), str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
