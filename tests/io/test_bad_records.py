"""Texts that are no records or ADT values: named like other bad values, and skipped like them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from gpuengine import Engine
from gpuengine.errors import DataError

PROGRAM = """
.type List = [head: number, tail: List]
.type Shape = Circle {r: number} | Dot {}
.decl one(x: List)
.decl two(x: List, y: Shape)
.decl mixed(n: number, x: List)
"""
NO_COMMA = "'[1]' is not a value of type List: expected ',' at character 3"
NO_NUMBER = "'[a, nil]' is not a value of type List: expected a value of type number at character 2"


def message(relation: str, data: Any, **params: str) -> str:
    """The error of loading `data`, without the directory; and nothing is loaded."""
    engine = Engine(PROGRAM)
    with pytest.raises(DataError) as caught:
        engine.load(relation, data, params=params)
    assert len(engine[relation]) == 0
    folder = f"{data.parent}/" if isinstance(data, Path) else ""
    return str(caught.value).removeprefix(folder)


def written(path: Path, content: str) -> Path:
    path.write_text(content, newline="")
    return path


@pytest.mark.parametrize(
    ("relation", "content", "params", "expected"),
    [
        ("one", "nil\n[a, nil]\n[1]\n", {}, f"2: one: column 1 (x: List): {NO_NUMBER}"),
        ("one", "nil\n[1]\n[a, nil]\n", {}, f"2: one: column 1 (x: List): {NO_COMMA}"),
        ("one", "nil\r\n[1]\r\n", {}, f"2: one: column 1 (x: List): {NO_COMMA}"),
        (
            "one",
            "nil\n\n[1]\n",
            {},
            "2: one: column 1 (x: List): '' is not a value of type List: expected '[' at character 1",
        ),
        ("one", "x\nnil\n[1]\n", {"headers": "true"}, f"3: one: column 1 (x: List): {NO_COMMA}"),
        (
            "one",
            "x\nnil\n",
            {},
            "1: one: column 1 (x: List): 'x' is not a value of type List: expected '[' at character 1\n"
            "  = hint: if this line is a header, say headers=true",
        ),
        (
            "two",
            "nil\t$Circle(2)\n[1, nil]\t$Square(1)\n",
            {},
            "2: two: column 2 (y: Shape): '$Square(1)' is not a value of type Shape: "
            "expected a branch: $Circle, $Dot at character 2",
        ),
        ("two", "[1]\t$Dot\n[a, nil]\t$Dot\n", {}, f"1: two: column 1 (x: List): {NO_COMMA}"),
        ("two", "nil\t$Dot\n[1]\t$\nnil\t$\n", {}, f"2: two: column 1 (x: List): {NO_COMMA}"),
        ("two", "nil,$Dot\n[1],$Dot\n", {"delimiter": ","}, f"2: two: column 1 (x: List): {NO_COMMA}"),
        ("mixed", "1\tnil\n2\t[1]\nx\tnil\n", {}, f"2: mixed: column 2 (x: List): {NO_COMMA}"),
        ("mixed", "1\tnil\nx\tnil\n2\t[1]\n", {}, "2: mixed: column 1 (n: number): 'x' is not a number"),
        ("mixed", "[1]\t-\t7\n", {"columns": "2:0"}, f"1: mixed: column 1 (x: List): {NO_COMMA}"),
        (
            "two",
            '"[1,\n nil]",$Dot\n"[2,\n\n nil]",$Dot\n[1],$Dot\n',
            {"rfc4180": "true"},
            f"6: two: column 1 (x: List): {NO_COMMA}",
        ),
    ],
)
def test_text_names_the_first_bad_line(
    tmp_path: Path, relation: str, content: str, params: dict[str, str], expected: str
) -> None:
    path = written(tmp_path / "a.facts", content)
    assert message(relation, path, **params) == f"a.facts:{expected}"


def test_a_large_file(tmp_path: Path) -> None:
    lines = [f"{i}\t[{i}, nil]\n" for i in range(200_000)]
    lines[123_456] = "1\t[a, nil]\n"
    lines[123_460] = lines[177_777] = "1\t[1]\n"
    path = written(tmp_path / "a.facts", "".join(lines))
    assert message("mixed", path) == f"a.facts:123457: mixed: column 2 (x: List): {NO_NUMBER}"
    engine = Engine(PROGRAM)
    assert engine.load("mixed", path, on_error="skip") == 199_997
    assert engine.skipped["mixed"].rows == 3
    found = [int(m.removeprefix(f"{path}:").partition(":")[0]) for m in engine.skipped["mixed"].first_errors]
    assert found == [123_457, 123_461, 177_778]


def test_part_files(tmp_path: Path) -> None:
    written(tmp_path / "1.facts", "nil\n[1, nil]\n")
    with gzip.open(tmp_path / "2.facts.gz", "wt") as file:
        file.write("nil\n[1]\n")
    engine = Engine(PROGRAM)
    with pytest.raises(DataError) as caught:
        engine.load("one", tmp_path)
    assert str(caught.value) == f"{tmp_path}/2.facts.gz:2: one: column 1 (x: List): {NO_COMMA}"


def test_skipping_text(tmp_path: Path) -> None:
    content = "1\t[1]\n2\t[2, nil]\nx\t[3, nil]\n4\n5\t[a, nil]\n6\tnil\nx\t[1]\n"
    path = written(tmp_path / "a.facts", content)
    engine = Engine(PROGRAM)
    assert engine.load("mixed", path, on_error="skip") == 2
    assert engine["mixed"].to_arrow().to_pydict() == {"n": [2, 6], "x": ["[2, nil]", "nil"]}
    assert engine.skipped["mixed"].rows == 5
    assert [m.splitlines()[0].removeprefix(f"{path}:") for m in engine.skipped["mixed"].first_errors] == [
        f"1: mixed: column 2 (x: List): {NO_COMMA}",
        "3: mixed: column 1 (n: number): 'x' is not a number",
        "4: mixed: 1 column, expected 2 columns: '4'",
        f"5: mixed: column 2 (x: List): {NO_NUMBER}",
        "7: mixed: column 1 (n: number): 'x' is not a number",
    ]


def test_long_values_are_cut_short(tmp_path: Path) -> None:
    assert len(message("one", written(tmp_path / "a.facts", "[" * 10_000 + "\n"))) < 250


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"n": [1, None, 3, 4], "x": ["nil", "[1]", "[a, nil]", None]})
    parquet.write_table(table, path)
    parquet.write_table(table.slice(2, 1), tmp_path / "b.parquet")
    expected = f"b.parquet: mixed: row 0 (counted from 0), column 2 (x: List): {NO_NUMBER}"
    assert message("mixed", tmp_path / "b.parquet") == expected
    engine = Engine(PROGRAM)
    assert engine.load("mixed", path, on_error="skip") == 1
    assert [m.partition("row ")[2] for m in engine.skipped["mixed"].first_errors] == [
        "1 (counted from 0), column 1 (n: number): null; facts have no nulls",
        f"2 (counted from 0), column 2 (x: List): {NO_NUMBER}",
        "3 (counted from 0), column 2 (x: List): null; facts have no nulls",
    ]


@pytest.mark.parametrize(
    "data",
    [
        [(1, "nil"), (2, (1, None)), (3, "[1]")],
        {"x": ["nil", "[1, nil]", "[1]"], "n": [1, 2, 3]},
        pa.table({"n": [1, 2, 3], "x": ["nil", "[1, nil]", "[1]"]}),
        pa.table(
            {
                "n": pa.chunked_array([[1, 2], [3]]),
                "x": pa.chunked_array([["nil", "[1, nil]"], ["[1]"]], pa.string()).dictionary_encode(),
            }
        ),
    ],
    ids=["rows", "columns", "table", "dictionary"],
)
def test_data_in_memory_names_row_and_column(data: Any) -> None:
    column = 1 if isinstance(data, dict) else 2
    expected = f"mixed: row 2 (counted from 0), column {column} (x: List): {NO_COMMA}"
    assert message("mixed", data) == expected


def test_a_python_value_of_the_wrong_shape() -> None:
    place = "one: row 1 (counted from 0), column 1 (x: List): "
    assert message("one", [((1, None),), ((1, 2),)]) == place + "(1, 2): 2 is not a value of type List"
    assert message("one", [(None,), ((1,),)]) == place + "(1,): 1 values, expected 2: (1,)"
    assert message("one", [(None,), (("x", None),)]) == place + "('x', None): 'x' (str) is not a number"
