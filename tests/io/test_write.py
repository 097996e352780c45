"""Writing: Soufflé's text to the letter, every format there and back, and all or nothing."""

from __future__ import annotations

import gzip
import io
import math
import random
import resource
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuengine.errors import DataError
from gpuengine.io import arrow_schema, read_facts, write_facts, write_stdout
from tests.io.relations import attributes


def batch(kinds: str, *columns: list[object]) -> pa.RecordBatch:
    schema = arrow_schema(attributes(kinds))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


HOLDS = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))


def text(path: Path, kinds: str, *columns: list[object], **params: str) -> str:
    write_facts(path, [batch(kinds, *columns)], attributes(kinds), params)
    return path.read_bytes().decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.csv"


def test_as_souffle_writes(path: Path) -> None:
    columns = [[1, -2], [2**64 - 1, 0], ["a b", 'c"d'], ["[1, nil]", "nil"], ["$B(1, 2)", "$C"]]
    expected = '1\t18446744073709551615\ta b\t[1, nil]\t$B(1, 2)\n-2\t0\tc"d\tnil\t$C\n'
    assert text(path, "nusra", *columns) == expected


def test_floats_have_the_digits_to_read_them_back(path: Path) -> None:
    values = [0.1, 1.0, -2.5, 1e20, 1e-5, 123456789.125, math.inf, -math.inf, math.nan, 5e-324]
    expected = (
        "0.10000000000000001 1 -2.5 1e+20 1.0000000000000001e-05 123456789.125 inf -inf nan "
        "4.9406564584124654e-324"
    )
    assert text(path, "f", values).split("\n") == [*expected.split(" "), ""]


def test_headers_and_delimiters(path: Path) -> None:
    columns = [[1, 2], ["a", "b,c"]]
    assert text(path, "ns", *columns, headers="true") == "x\ty\n1\ta\n2\tb,c\n"
    assert text(path, "ns", *columns, delimiter=",") == "1,a\n2,b,c\n"
    assert text(path, "ns", *columns, delimiter=" -> ", headers="true") == "x -> y\n1 -> a\n2 -> b,c\n"
    assert text(path, "ns", *columns, delimiter="→") == "1→a\n2→b,c\n"


@pytest.mark.parametrize("delimiter", [",", "::"])
def test_rfc4180(path: Path, delimiter: str) -> None:
    columns = [[1], ['say "hi"\n'], [0.1], ["[a, b]"]]
    expected = '1,"say ""hi""\n",0.10000000000000001,"[a, b]"\n'.replace(",", delimiter)
    expected = expected.replace(f"[a{delimiter} b]", "[a, b]")
    assert text(path, "nsfr", *columns, rfc4180="true", delimiter=delimiter) == expected
    assert text(path, "ns", [1], ['"'], rfc4180="true") == '1,""""\n'
    assert text(path, "ns", [1], ["a"], IO="csv") == '1,"a"\n'


def test_symbols_with_structure_are_raw_without_quoting(path: Path) -> None:
    assert text(path, "sn", ["a\tb\nc\r"], [1]) == "a\tb\nc\r\t1\n"


def test_symbols_that_are_not_utf8(path: Path) -> None:
    cut = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xc3"))
    cut_batch = pa.RecordBatch.from_arrays([cut], schema=arrow_schema(attributes("s")))
    write_facts(path, [cut_batch], attributes("s"), {})
    assert path.read_bytes() == b"\xc3\n"


def test_text_of_other_arrow_types(path: Path) -> None:
    encoded = pa.array(["a", "b", "a"]).dictionary_encode()
    wide = pa.array(["c", "d", "e"], pa.large_string())
    mixed = pa.RecordBatch.from_arrays([encoded, wide], names=["p", "q"])
    write_facts(path, [mixed], attributes("ss"), {})
    assert path.read_text() == "a\tc\nb\td\na\te\n"
    write_facts(path.with_suffix(".parquet"), [mixed], attributes("ss"), {})
    table = read_facts(path.with_suffix(".parquet"), attributes("ss"), {}, relation="r").table
    assert table.to_pydict() == {"x": ["a", "b", "a"], "y": ["c", "d", "e"]}


def test_batches_that_are_slices(path: Path) -> None:
    whole = batch("ns", list(range(10)), [f'"{i}' for i in range(10)])
    assert write_facts(path, [whole.slice(3, 2), whole.slice(9)], attributes("ns"), {}) == 3
    assert path.read_text() == '3\t"3\n4\t"4\n9\t"9\n'


@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.tsv.zst", "r.parquet", "r.arrow"])
def test_nothing(tmp_path: Path, name: str) -> None:
    assert write_facts(tmp_path / name, [], attributes("ns"), {}) == 0
    facts = read_facts(tmp_path / name, attributes("ns"), {}, relation="r")
    assert facts.table.to_pydict() == {"x": [], "y": []}


@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.parquet", "r.arrow"])
@pytest.mark.parametrize("batches", [[], [HOLDS]])
def test_relations_without_attributes(tmp_path: Path, name: str, batches: list[pa.RecordBatch]) -> None:
    assert write_facts(tmp_path / name, batches, [], {}) == len(batches)
    assert read_facts(tmp_path / name, [], {}, relation="r").table.num_rows == len(batches)
    if name == "r.csv":
        assert (tmp_path / name).read_text() == "()\n" * len(batches)


def test_compression(tmp_path: Path) -> None:
    for name, params in (("r.csv.gz", {}), ("r.out", {"compress": "true"})):
        path = tmp_path / name
        assert text_of_gzip(path, params) == b"1\n2\n"
        first = path.read_bytes()
        assert text_of_gzip(path, params) == b"1\n2\n"
        assert path.read_bytes() == first


def text_of_gzip(path: Path, params: dict[str, str]) -> bytes:
    write_facts(path, [batch("n", [1]), batch("n", [2])], attributes("n"), params)
    return gzip.decompress(path.read_bytes())


ROW = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from('\t\n\r",\\[]'), max_size=10),
)
FORMATS = [
    ("r.parquet", {}),
    ("r.arrow", {}),
    ("r.out", {"IO": "feather"}),
    ("r.csv", {"rfc4180": "true"}),
    ("r.csv.gz", {"IO": "csv"}),
    ("r.csv.zst", {"IO": "csv", "headers": "true"}),
    ("r.csv", {"rfc4180": "true", "delimiter": "::"}),
]


@pytest.mark.parametrize(("name", "params"), FORMATS)
@given(rows=st.lists(ROW, max_size=6))
def test_there_and_back(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    params: dict[str, str],
    rows: list[tuple[int, int, float, str]],
) -> None:
    path = tmp_path_factory.mktemp("out") / name
    columns = [list(c) for c in zip(*rows, strict=True)] or [[], [], [], []]
    write_facts(path, [batch("nufs", *columns)], attributes("nufs"), params)
    table = read_facts(path, attributes("nufs"), params, relation="r").table
    assert [c.to_pylist() for c in table.columns] == columns


PLAIN = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\t\n\r"), max_size=10)


@given(rows=st.lists(st.tuples(PLAIN, PLAIN), max_size=6))
def test_souffle_text_there_and_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    """Symbols without tabs and line breaks survive; a byte-order mark begins no file of ours."""
    path = tmp_path_factory.mktemp("out") / "r.facts"
    columns = [["first", *(a for a, _ in rows)], ["row", *(b for _, b in rows)]]
    write_facts(path, [batch("ss", *columns)], attributes("ss"), {})
    table = read_facts(path, attributes("ss"), {}, relation="r").table
    assert [c.to_pylist() for c in table.columns] == columns


class Broken(Exception):
    pass


@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.csv.zst", "r.parquet", "r.arrow"])
@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt, DataError])
def test_a_failure_leaves_the_old_file(tmp_path: Path, name: str, error: type[BaseException]) -> None:
    path = tmp_path / name
    path.write_text("old")

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch("n", [1])
        raise error

    with pytest.raises(error):
        write_facts(path, batches(), attributes("n"), {})
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_the_new_file_appears_when_complete(path: Path) -> None:
    path.write_text("old")

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch("n", [1])
        assert path.read_text() == "old"
        yield batch("n", [2])

    write_facts(path, batches(), attributes("n"), {})
    assert path.read_text() == "1\n2\n"
    assert list(path.parent.iterdir()) == [path]


def test_places_that_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it is a directory"):
        write_facts(tmp_path, [], attributes("n"), {})
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"can't write .*/file/r\.csv: "):
        write_facts(tmp_path / "file" / "r.csv", [], attributes("n"), {})


def test_directories_are_made(tmp_path: Path) -> None:
    write_facts(tmp_path / "a" / "b" / "r.csv", [batch("n", [1])], attributes("n"), {})
    assert (tmp_path / "a" / "b" / "r.csv").read_text() == "1\n"


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_facts(tmp_path / "r.parquet", [batch("n", [i]) for i in range(100)], attributes("n"), {})
    metadata = pq.ParquetFile(tmp_path / "r.parquet").metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (100, 1)


@pytest.mark.parametrize(
    ("kinds", "batches", "params", "expected"),
    [
        ("nn", [batch("nn", [1], [2])], {}, "---------------\nr\n===============\n1\t2\n===============\n"),
        (
            "nn",
            [batch("nn", [1], [2])],
            {"headers": "true", "delimiter": ","},
            "---------------\nr\nx,y\n===============\n1,2\n===============\n",
        ),
        ("", [HOLDS], {}, "---------------\nr\n===============\n()\n===============\n"),
        ("n", [], {}, "---------------\nr\n===============\n===============\n"),
    ],
)
def test_stdout(kinds: str, batches: list[pa.RecordBatch], params: dict[str, str], expected: str) -> None:
    stream = io.BytesIO()
    assert write_stdout("r", batches, attributes(kinds), params, stream) == len(batches)
    assert stream.getvalue().decode() == expected


def test_stdout_is_the_default(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    write_stdout("r", [batch("s", ["é"])], attributes("s"), {"IO": "stdout"})
    assert capfd.readouterr().out.startswith("before\n---------------\nr\n===============\né\n")


@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.csv.zst", "r.parquet", "r.arrow"])
def test_a_full_disk(tmp_path: Path, name: str) -> None:
    """A limit on the size of files stands in for a full disk."""
    (tmp_path / name).write_text("old")
    noise = random.Random(0)
    values = [noise.getrandbits(62) for _ in range(100_000)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(DataError, match=f"can't write .*/{name}: File too large"):
            write_facts(tmp_path / name, [batch("n", values)] * 3, attributes("n"), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / name).read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [name]
