"""Soufflé's fact files, and the dialects of text around them."""

from __future__ import annotations

import gzip
import io
import math
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuengine.errors import DataError, DataWarning
from gpuengine.io import arrow_schema, read_facts
from gpuengine.io.blocks import BlockReader
from tests.io.relations import attributes


def rows(path: Path, content: bytes, kinds: str, **params: str) -> list[tuple[object, ...]]:
    path.write_bytes(content)
    table = read_facts(path, attributes(kinds), params, relation="r").table
    assert table.schema == arrow_schema(attributes(kinds))
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.facts"


def test_types(path: Path) -> None:
    content = b"-1\t18446744073709551615\t0.5\thello world\t[1, [2, nil]]\n"
    assert rows(path, content, "nufsr") == [(-1, 2**64 - 1, 0.5, "hello world", "[1, [2, nil]]")]


@pytest.mark.parametrize(
    ("content", "kinds", "expected"),
    [
        (b"", "nn", []),
        (b"1\t2", "nn", [(1, 2)]),
        (b"1\t2\r\n3\t4\r\n", "nn", [(1, 2), (3, 4)]),
        (b"\n", "s", [("",)]),
        (b"a\n\nb\n", "s", [("a",), ("",), ("b",)]),
        (b"\t\n", "ss", [("", "")]),
        (b'"a"\tb"c\n', "ss", [('"a"', 'b"c')]),
        (b"a\\tb\t\\n\n", "ss", [("a\\tb", "\\n")]),
        (b"a\rb\nc\r\n", "s", [("a\rb",), ("c",)]),
        (b"a\rb\tc\n", "ss", [("a\rb", "c")]),
        (b"a\r\r\n", "s", [("a\r",)]),
        (b"\xef\xbb\xbfa\tb\n", "ss", [("a", "b")]),
        (b"a\x00b\n", "s", [("a\x00b",)]),
        (b"NULL\tNA\n", "ss", [("NULL", "NA")]),
    ],
)
def test_lines(path: Path, content: bytes, kinds: str, expected: list[tuple[object, ...]]) -> None:
    assert rows(path, content, kinds) == expected


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("+7", "n", 7),
        (" 7", "n", 7),
        ("007", "n", 7),
        ("-9223372036854775808", "n", -(2**63)),
        ("0x1F", "u", 31),
        ("0x1F", "n", 31),
        ("0b101", "u", 5),
        ("0b101", "n", 5),
        ("1", "f", 1.0),
        ("+1.5", "f", 1.5),
        (".5", "f", 0.5),
        ("5.", "f", 5.0),
        ("1e-3", "f", 0.001),
        ("inf", "f", math.inf),
        ("-Infinity", "f", -math.inf),
        ("0x1p3", "f", 8.0),
    ],
)
def test_numbers(path: Path, text: str, kind: str, value: float) -> None:
    assert rows(path, text.encode() + b"\n", kind) == [(value,)]
    # The same whether the file is read whole, or exactly because of another row.
    bait = {"n": "+1", "u": "+1", "f": "0x1p0"}[kind]
    assert rows(path, f"{text}\n{bait}\n".encode(), kind) == [(value,), (1,)]


def test_nan(path: Path) -> None:
    [(value,)] = rows(path, b"nan\n", "f")
    assert math.isnan(value)


@pytest.mark.parametrize("delimiter", [",", ";", " ", "|", "::", "\\t|\\t", "→", "€€"])
def test_delimiters(path: Path, delimiter: str) -> None:
    d = delimiter.replace("\\t", "\t").encode()
    content = b"1" + d + b'"a\n2' + d + b"b\n"
    assert rows(path, content, "ns", delimiter=delimiter) == [(1, '"a'), (2, "b")]


def test_a_file_with_every_substitute_for_a_long_delimiter(path: Path) -> None:
    nasty = bytes(b for b in range(1, 32) if b not in b"\n\r")
    assert rows(path, nasty + b"::1\n", "sn", delimiter="::") == [(nasty.decode(), 1)]


@pytest.mark.parametrize("delimiter", ["", "a\nb", "\r"])
def test_impossible_delimiters(path: Path, delimiter: str) -> None:
    with pytest.raises(DataError, match="a delimiter has at least one character and no line break"):
        rows(path, b"", "ns", delimiter=delimiter)


def test_comma_inside_records(path: Path) -> None:
    content = b"[1, [2,nil]],3,a[b,c]\nnil,4,d\n"
    expected = [("[1, [2,nil]]", 3, "a[b,c]"), ("nil", 4, "d")]
    assert rows(path, content, "rns", delimiter=",") == expected


def test_comma_inside_adts(path: Path) -> None:
    assert rows(path, b"$B(1, $C(2, 3)),x\n", "as", delimiter=",") == [("$B(1, $C(2, 3))", "x")]


def test_headers(path: Path) -> None:
    assert rows(path, b"x\ty\n1\t2\n", "nn", headers="true") == [(1, 2)]
    assert rows(path, b"x\ty\n", "nn", headers="true") == []
    assert rows(path, b"y\tx\n1\t2\n", "nn", headers="true") == [(2, 1)]
    assert rows(path, b'"y",z,"x"\n1,0,2\n', "nn", headers="true", IO="csv") == [(2, 1)]
    assert rows(path, b"y\tx\n1\t2\n", "nn", headers="true", columns="0:1") == [(1, 2)]
    assert rows(path, b"a header of its own\n1\t2\n", "nn", headers="true") == [(1, 2)]
    with pytest.warns(DataWarning, match=r"the columns \(dst, src\) are taken by position as \(x, y\)"):
        assert rows(path, b"dst\tsrc\n1\t2\n", "nn", headers="true") == [(1, 2)]
    with pytest.raises(DataError, match=r"the columns are \(y, z\), the attributes \(x, y\)"):
        rows(path, b"y\tz\n1\t2\n", "nn", headers="true")
    assert rows(path, b"x\ty", "nn", headers="true") == []
    assert rows(path, b"x\ty\n+1\t2\n", "nn", headers="true") == [(1, 2)]


def test_columns(path: Path) -> None:
    content = b"a\t1\tb\t2\nc\t3\td\t4\n"
    assert rows(path, content, "nn", columns="1:3") == [(1, 2), (3, 4)]
    assert rows(path, content, "nn", columns="3:1") == [(2, 1), (4, 3)]
    assert rows(path, content, "s", columns="2") == [("b",), ("d",)]


def test_columns_of_ragged_rows(path: Path) -> None:
    assert rows(path, b"1\t2\n3\t4\t5\n6\t7\t8\t9\n", "nn", columns="1:0") == [(2, 1), (4, 3), (7, 6)]


@pytest.mark.parametrize("columns", ["0", "0:0", "0:1:2", "a:b", "-1:0"])
def test_impossible_columns(path: Path, columns: str) -> None:
    with pytest.raises(DataError, match="expected 2 different column numbers"):
        rows(path, b"1\t2\n", "nn", columns=columns)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'1,"a,b"\n', "a,b"),
        (b'1,"a""b"\n', 'a"b'),
        (b'1,"a\nb"\n', "a\nb"),
        (b'1,"a\r\nb"\r\n', "a\r\nb"),
        (b'1,a"b\n', 'a"b'),
        (b'1,""\n', ""),
        (b'"1","[1, 2]"\n', "[1, 2]"),
    ],
)
def test_rfc4180(path: Path, content: bytes, expected: str) -> None:
    assert rows(path, content, "ns", rfc4180="true") == [(1, expected)]
    assert rows(path, content + b"+2,b\n", "ns", rfc4180="true") == [(1, expected), (2, "b")]
    assert rows(path, content, "ns", IO="csv") == [(1, expected)]


def test_rfc4180_with_a_long_delimiter(path: Path) -> None:
    assert rows(path, b'"a::b"::2\n', "sn", rfc4180="true", delimiter="::") == [("a::b", 2)]
    with pytest.raises(DataError, match="can't contain"):
        rows(path, b"", "sn", rfc4180="true", delimiter='"')


def test_a_file_called_csv_is_read_by_its_first_row(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    assert rows(path, b'1,"a,b"\n', "ns") == [(1, "a,b")]
    assert rows(path, b'1\t"a,b\n', "ns") == [(1, '"a,b')]
    assert rows(path, b"a,b\n", "s") == [("a,b",)]
    with pytest.raises(DataError, match="1 column, expected 2"):
        rows(path, b"1,a\n", "ns", IO="file")


def test_the_header_of_a_file_called_csv(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    assert rows(path, b"x,y\n1,a\n", "ns") == [(1, "a")]
    assert rows(path, b'"y",other,"x"\r\na,0,1\r\n', "ns") == [(1, "a")]
    assert rows(path, b"x,y\n", "ns") == []
    assert rows(path, b"x,y\n1,a\n", "ss") == [("x", "y"), ("1", "a")]
    with pytest.raises(DataError, match=r"r\.csv:3: r: column 3 \(x: number\): 'b' is not a number"):
        rows(path, b"y,other,x\na,0,1\na,0,b\n", "ns")


@pytest.mark.parametrize("content", [b"", b"()\n", b"\n", b"anything\n"])
def test_relations_without_attributes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    table = read_facts(path, [], {}, relation="r").table
    assert (table.num_columns, table.num_rows) == (0, 1 if content else 0)


@pytest.mark.parametrize("name", ["r.facts.gz", "r.facts", "r.csv.gz"])
def test_gzip_by_content(tmp_path: Path, name: str) -> None:
    two_members = gzip.compress(b"1\t2\n") + gzip.compress(b"3\t4\n")
    assert rows(tmp_path / name, two_members, "nn") == [(1, 2), (3, 4)]


def test_zstd_by_content(tmp_path: Path) -> None:
    packed = pa.Codec("zstd").compress(b"1\t2\n", asbytes=True)
    assert rows(tmp_path / "r.tsv.zst", packed, "nn") == [(1, 2)]


def test_cut_off_gzip(path: Path) -> None:
    packed = gzip.compress(b"".join(b"%d\t%d\n" % (i, i * i) for i in range(10_000)))
    with pytest.raises(DataError, match=r"r\.facts: damaged or cut-off gzip data"):
        rows(path, packed[: len(packed) // 2], "nn")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"1\t2\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    table = read_facts(Path("-"), attributes("nn"), {"IO": "stdin"}, relation="r").table
    assert table.to_pydict() == {"x": [1], "y": [2]}


@pytest.mark.parametrize("threads", [None, 1, 2])
@pytest.mark.parametrize("kinds", ["nn", "ss"])
def test_a_file_of_several_blocks(path: Path, kinds: str, threads: int | None) -> None:
    lines = [(i, i * 37 % 1000) for i in range(200_000)]
    path.write_text("".join(f"{a}\t{b}\n" for a, b in lines))
    table = read_facts(path, attributes(kinds), {}, relation="r", threads=threads).table
    assert table.column("x").to_pylist() == [a if kinds == "nn" else str(a) for a, _ in lines]
    assert table.num_rows == 200_000


def test_a_large_file_that_needs_exact_reading_somewhere(path: Path) -> None:
    lines = [f"{i}\t{i}\n" for i in range(200_000)]
    lines[150_000] = "+5\t6\n"
    path.write_text("".join(lines))
    table = read_facts(path, attributes("nn"), {}, relation="r").table
    assert table.num_rows == 200_000
    assert table.slice(149_999, 3).to_pydict() == {"x": [149_999, 5, 150_001], "y": [149_999, 6, 150_001]}


PIECES = st.sampled_from(
    [
        "1",
        "-2",
        "0x1F",
        "+3",
        "a",
        "é",
        '"',
        '""',
        "\t",
        ",",
        "\n",
        "\r\n",
        "\r",
        " ",
        "[",
        "]",
        "1.5",
        "inf",
        "1e400",
        "0",
    ]
)
DIALECTS = [
    {},
    {"delimiter": ","},
    {"rfc4180": "true"},
    {"rfc4180": "true", "columns": "1:0"},
    {"columns": "2:0"},
]


@pytest.mark.parametrize("params", DIALECTS, ids=str)
@pytest.mark.parametrize("kinds", ["ns", "ss", "fu"])
@given(content=st.lists(PIECES, max_size=24).map("".join))
def test_vectorised_and_exact_reading_agree(
    tmp_path_factory: pytest.TempPathFactory, params: dict[str, str], kinds: str, content: str
) -> None:
    path = tmp_path_factory.mktemp("facts") / "r.facts"

    def outcome() -> list[tuple[object, ...]] | str:
        try:
            return rows(path, content.encode(), kinds, **params)
        except DataError as error:
            return str(error)

    fast = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockReader, "_parse_bytes", lambda *_, **__: None)
        assert outcome() == fast


SYMBOL = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\t\ufeff"), max_size=8)
NASTY = st.text('ab\n\r",;[]() \x00é→', max_size=8)


def souffle_lines(text: str) -> list[str]:
    """What Soufflé's reader makes of a file for one symbol: getline, and one CR less at the end."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


@given(text=SYMBOL | NASTY)
@example("\r")
@example("\n\r\n")
def test_one_symbol_column_reads_as_souffle_does(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("facts") / "r.facts"
    assert rows(path, text.encode(), "s") == [(line,) for line in souffle_lines(text)]
