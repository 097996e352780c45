"""Bad fact files: the message says file, line, column and value; skipping counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuengine.errors import DataError
from gpuengine.io import read_facts
from tests.io.relations import attributes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "edge.facts"


def message(path: Path, content: bytes, kinds: str, **params: str) -> str:
    """The error without the directory, which differs from run to run."""
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_facts(path, attributes(kinds), params, relation="edge")
    return str(caught.value).removeprefix(f"{path.parent}/")


@pytest.mark.parametrize(
    ("content", "kinds", "expected"),
    [
        (b"1\t2\n3\tx\n", "nn", "edge.facts:2: edge: column 2 (y: number): 'x' is not a number"),
        (b"1\t2\n3\t\n", "nn", "edge.facts:2: edge: column 2 (y: number): '' is not a number"),
        (b"1\t2\n3\t4.5\n", "nn", "edge.facts:2: edge: column 2 (y: number): '4.5' is not a number"),
        (b"1_0\n", "n", "edge.facts:1: edge: column 1 (x: number): '1_0' is not a number"),
        (
            b"9223372036854775808\n",
            "n",
            "edge.facts:1: edge: column 1 (x: number): '9223372036854775808' "
            "does not fit a 64-bit signed number",
        ),
        (
            b"18446744073709551616\n",
            "u",
            "edge.facts:1: edge: column 1 (x: unsigned): '18446744073709551616' "
            "does not fit a 64-bit unsigned number",
        ),
        (
            b"-1\n",
            "u",
            "edge.facts:1: edge: column 1 (x: unsigned): '-1' is negative, not an unsigned number",
        ),
        (b"1.5.2\n", "f", "edge.facts:1: edge: column 1 (x: float): '1.5.2' is not a float"),
        (
            b"1\n-1e999\n",
            "f",
            "edge.facts:2: edge: column 1 (x: float): '-1e999' is too large for a 64-bit float",
        ),
        (b"a\tb\nc\td\xff\n", "ss", r"edge.facts:2: edge: column 2 (y: symbol): b'd\xff' is not valid UTF-8"),
        (b"1\t2\n\n3\t4\n", "nn", "edge.facts:2: edge: an empty line, expected 2 columns"),
        (b"a\tb\n\nc\td\n", "ss", "edge.facts:2: edge: an empty line, expected 2 columns"),
        (b"1\n\n", "n", "edge.facts:2: edge: column 1 (x: number): '' is not a number"),
        (b"1\t2\n3\n", "nn", "edge.facts:2: edge: 1 column, expected 2 columns: '3'"),
        (
            b"1\t2\n1\t2\t3\n",
            "nn",
            "edge.facts:2: edge: 3 columns, expected 2 columns: '1\\t2\\t3'\n"
            '  = hint: columns="0:1" ignores the others',
        ),
        (
            b"1;2\n",
            "nn",
            "edge.facts:1: edge: 1 column, expected 2 columns: '1;2'\n"
            '  = hint: if the columns are separated by ";", say delimiter=";"',
        ),
        (
            b"from\tto\n1\t2\n",
            "nn",
            "edge.facts:1: edge: column 1 (x: number): 'from' is not a number\n"
            "  = hint: if this line is a header, say headers=true",
        ),
    ],
)
def test_messages(path: Path, content: bytes, kinds: str, expected: str) -> None:
    assert message(path, content, kinds) == expected


def test_columns_are_counted_in_the_file(path: Path) -> None:
    expected = "edge.facts:1: edge: column 4 (y: number): 'd' is not a number"
    assert message(path, b"1\t2\t3\td\n", "nn", columns="1:3").splitlines()[0] == expected
    expected = "edge.facts:2: edge: 2 columns, expected at least 4 columns: '1\\t2'"
    assert message(path, b"1\t2\t3\t4\n1\t2\n", "nn", columns="1:3") == expected
    expected = "edge.facts:1: edge: 2 columns, expected at least 4 columns: '1\\t2'"
    assert message(path, b"1\t2\n", "nn", columns="1:3") == expected


def test_lines_are_counted_in_the_file(path: Path) -> None:
    expected = "edge.facts:3: edge: column 1 (x: number): 'b' is not a number"
    assert message(path, b"head\n1\nb\n", "n", headers="true") == expected
    quoted = b'1,"two\nlines"\nx,"one line"\n'
    expected = "edge.facts:3: edge: column 1 (x: number): 'x' is not a number"
    assert message(path, quoted, "ns", rfc4180="true") == expected


def test_quotes_and_brackets(path: Path) -> None:
    expected = "edge.facts:1: edge: column 2: a quote is opened and never closed"
    assert message(path, b'1,"a\n2,b\n', "ns", rfc4180="true") == expected
    expected = "edge.facts:1: edge: unbalanced brackets in '1,[2,3'; use rfc4180=true and quotes"
    assert message(path, b"1,[2,3\n", "nr", delimiter=",") == expected
    assert "unbalanced brackets in '1,2],3'" in message(path, b"1,2],3\n", "nr", delimiter=",")


def test_long_values_are_cut_short(path: Path) -> None:
    assert len(message(path, b"x" * 10_000 + b"\n", "n")) < 250


def test_the_first_bad_line_of_a_large_file(path: Path) -> None:
    lines = [b"%d\t%d\n" % (i, i) for i in range(200_000)]
    lines[123_456] = lines[177_777] = b"1\tx\n"
    expected = "edge.facts:123457: edge: column 2 (y: number): 'x' is not a number"
    assert message(path, b"".join(lines), "nn") == expected


def test_skipping(path: Path) -> None:
    path.write_bytes(b"1\t2\nx\t3\n4\n5\t6\n\n7\t8\t9\n+10\t11\n")
    facts = read_facts(path, attributes("nn"), {}, relation="edge", on_error="skip")
    assert facts.table.to_pydict() == {"x": [1, 5, 10], "y": [2, 6, 11]}
    assert facts.skipped == 4
    assert [m.splitlines()[0].removeprefix(f"{path}:") for m in facts.first_errors] == [
        "2: edge: column 1 (x: number): 'x' is not a number",
        "3: edge: 1 column, expected 2 columns: '4'",
        "5: edge: an empty line, expected 2 columns",
        "6: edge: 3 columns, expected 2 columns: '7\\t8\\t9'",
    ]


def test_skipping_describes_the_first_few_of_all_blocks(path: Path) -> None:
    lines = [b"%d\t%d\n" % (i, i) for i in range(200_000)]
    lines[1000::1000] = [b"bad\n"] * 199
    path.write_bytes(b"".join(lines))
    facts = read_facts(path, attributes("nn"), {}, relation="edge", on_error="skip")
    assert (facts.table.num_rows, facts.skipped) == (199_801, 199)
    found = [int(m.removeprefix(f"{path}:").partition(":")[0]) for m in facts.first_errors]
    assert found == [1001, 2001, 3001, 4001, 5001]


def test_skipping_everything(path: Path) -> None:
    path.write_bytes(b"a\nb\n")
    facts = read_facts(path, attributes("n"), {}, relation="edge", on_error="skip")
    assert (facts.table.num_rows, facts.skipped, facts.table.column_names) == (0, 2, ["x"])


@pytest.mark.parametrize("params", [{"IO": "oracle"}, {"headers": "yes"}, {"rfc4180": "1"}])
def test_unknown_parameters(path: Path, params: dict[str, str]) -> None:
    assert next(iter(params)) in message(path, b"1\n", "n", **params)


def test_unreadable(path: Path) -> None:
    with pytest.raises(DataError, match=r"edge\.facts: no such file"):
        read_facts(path, attributes("n"), {}, relation="edge")
