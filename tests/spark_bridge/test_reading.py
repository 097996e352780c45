"""Datasets as frames: the facts that an engine reads from the same file, and errors that say which."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuengine import Engine
from gpuengine.errors import DataError
from gpuengine.spark_bridge.checking import check_inputs
from gpuengine.spark_bridge.datasets import find_dataset, read_dataset
from gpuengine.spark_bridge.filesystem import FileSystem
from gpuengine.spark_bridge.materialisation import load_checked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARED = ".decl r(n: number, u: unsigned, f: float, s: symbol)"


def by_spark(spark: SparkSession, program: str, path: Path, params: Mapping[str, str]) -> Counter[object]:
    engine = Engine(program)
    frame = read_dataset(spark, str(path), engine.declared("r"), params=params)
    load_checked(engine, check_inputs(engine.relations, {"r": frame}))
    return Counter(map(repr, engine["r"].to_pylist()))


def by_engine(program: str, path: Path, params: Mapping[str, str]) -> Counter[object]:
    engine = Engine(program)
    engine.load("r", path, params=params)
    return Counter(map(repr, engine["r"].to_pylist()))


def random_lines(seed: int, delimiter: str, *, quoted: bool) -> str:
    pick = random.Random(seed)
    texts = ["", "é", "a b", "'", "x\\y", " padded ", "#", "nan"] + (['a""b', "a,b"] if quoted else ['q"'])
    lines = []
    for _ in range(40):
        symbol = pick.choice(texts)
        fields = [
            str(pick.choice([0, -1, 5, 2**63 - 1, -(2**63)])),
            str(pick.choice([0, 7, 2**64 - 1])),
            pick.choice(["0.5", "-1e300", "3", ".25", "nan", "-inf", "1E-5"]),
            f'"{symbol}"' if quoted else symbol,
        ]
        lines.append(delimiter.join(fields))
    return "\n".join(lines) + "\n" * pick.randint(0, 1)


@pytest.mark.parametrize(
    ("name", "params", "delimiter", "quoted", "header"),
    [
        ("r.facts", {}, "\t", False, ""),
        ("r.tsv", {"headers": "true"}, "\t", False, "n\tu\tf\ts\n"),
        ("r.facts", {"delimiter": "||"}, "||", False, ""),
        ("r.csv", {"IO": "csv"}, ",", True, ""),
        ("r.csv", {"rfc4180": "true", "headers": "true"}, ",", True, "n,u,f,s\n"),
        ("r.csv", {}, ",", True, "n,u,f,s\n"),
        ("r.facts", {"columns": "0:1:2:3"}, "\t", False, ""),
    ],
)
def test_text_is_read_as_the_engine_reads_it(
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    params: dict[str, str],
    delimiter: str,
    quoted: bool,
    header: str,
) -> None:
    path = tmp_path / name
    path.write_text(header + random_lines(len(name) + len(params), delimiter, quoted=quoted))
    expected = by_engine(DECLARED, path, params)
    assert len(expected) > 20
    assert by_spark(spark, DECLARED, path, params) == expected


def test_columns_picks_from_wider_files(spark: SparkSession, tmp_path: Path) -> None:
    program, params = ".decl r(a: symbol, b: number)", {"columns": "2:0"}
    path = tmp_path / "r.facts"
    path.write_text("1\tx\ty\r\n2\tu\tv\r\n")
    assert by_spark(spark, program, path, params) == by_engine(program, path, params)
    params = {"columns": "2:0", "rfc4180": "true"}
    path.write_text('1,"x,x","y\nz"\n2,u,v\n')
    assert by_spark(spark, program, path, params) == by_engine(program, path, params) != Counter()


@pytest.mark.parametrize("params", [{"headers": "true"}, {"headers": "true", "IO": "csv"}])
def test_a_header_says_which_columns(spark: SparkSession, tmp_path: Path, params: dict[str, str]) -> None:
    program, path = ".decl r(a: symbol, b: number)", tmp_path / "r.txt"
    path.write_text("b\tmore\ta\n1\tx\ty\n2\tu\tv\n".replace("\t", "," if "IO" in params else "\t"))
    assert by_spark(spark, program, path, params) == by_engine(program, path, params)
    assert by_engine(program, path, params) == Counter(map(repr, [("y", 1), ("v", 2)]))


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_columnar_datasets_are_known_by_name_or_by_content(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    rows = [(1, 2, 0.5, "x"), (-1, 0, 1.5, "é")]
    frame = spark.createDataFrame(rows, "n bigint, u bigint, f double, s string")
    frame.write.format(format).save(f"{tmp_path}/r")
    expected = Counter(map(repr, rows))
    assert by_spark(spark, DECLARED, tmp_path / "r", {}) == expected
    (tmp_path / "r").rename(tmp_path / f"r.{format}")
    assert by_spark(spark, DECLARED, tmp_path / f"r.{format}", {}) == expected
    if format == "parquet":
        assert by_spark(spark, DECLARED, tmp_path / "r.parquet", {"columns": "0:1:2:3"}) == expected
        with pytest.raises(DataError, match="asks for column 9"):
            by_spark(spark, DECLARED, tmp_path / "r.parquet", {"columns": "0:1:2:9"})


def test_folders_of_text_and_relations_without_columns(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    (folder / "part-0.csv").write_text("1,2\n")
    (folder / "part-1.csv").write_text("3,4\n")
    (folder / "_SUCCESS").touch()
    program = ".decl r(a: number, b: number)"
    assert by_spark(spark, program, folder, {}) == Counter(["(1, 2)", "(3, 4)"])
    assert by_spark(spark, program, tmp_path / "r" / "part-*.csv", {}) == Counter(["(1, 2)", "(3, 4)"])
    for text in ("()\n", ""):
        (tmp_path / "nil.facts").write_text(text)
        expected = by_engine(".decl r()", tmp_path / "nil.facts", {})
        assert by_spark(spark, ".decl r()", tmp_path / "nil.facts", {}) == expected


@pytest.mark.parametrize(
    "line",
    [
        *("x\t1\t1\ta", "1\t-1\t1\ta", "1\t1\ty\ta", "1\t1\t1", "1\t1\t1\ta\tb", "", "1.5\t1\t1\ta"),
        *("9223372036854775808\t1\t1\ta", "1\t18446744073709551616\t1\ta", "1\t1\t1e999\ta"),
    ],
)
def test_rows_that_do_not_fit_are_counted_and_one_is_shown(
    spark: SparkSession, tmp_path: Path, line: str
) -> None:
    path = tmp_path / "r.facts"
    path.write_text(f"1\t1\t1\ta\n{line}\n2\t1\t1\ta\n")
    with pytest.raises(DataError):
        by_engine(DECLARED, path, {})
    with pytest.raises(DataError, match=r"r\.facts: r: 1 of 3 lines is not 4 fields") as raised:
        by_spark(spark, DECLARED, path, {})
    assert repr(line) in str(raised.value)


def test_text_that_is_no_utf8_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.facts").write_bytes(b"1\t1\t1\ta\n1\t1\t1\t\xff\n")
    with pytest.raises(DataError, match="1 of 2 lines"):
        by_spark(spark, DECLARED, tmp_path / "r.facts", {})


TRIPLES = """# a comment
<http://a/s> <http://a/p> <http://a/o> .

_:b1 <http://a/p> "text \\" . # \\u00e9"@en-GB . # trailing
<s><p>"1"^^<http://www.w3.org/2001/XMLSchema#int>.
  <s>\t<p> _:b.2 .
<s> <p> "" .
"""
EXPECTED = [
    ("<http://a/s>", "<http://a/p>", "<http://a/o>"),
    ("_:b1", "<http://a/p>", '"text \\" . # \\u00e9"@en-GB'),
    ("<s>", "<p>", '"1"^^<http://www.w3.org/2001/XMLSchema#int>'),
    ("<s>", "<p>", "_:b.2"),
    ("<s>", "<p>", '""'),
]


def test_triples_keep_their_spelling(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.nt").write_text(TRIPLES)
    (tmp_path / "z.nt.gz").write_bytes(gzip.compress(TRIPLES.replace("\n", "\r\n").encode()))
    relation = Engine(".decl r(s: symbol, p: symbol, o: symbol)").declared("r")
    for name in ("r.nt", "z.nt.gz"):
        frame = read_dataset(spark, str(tmp_path / name), relation)
        assert frame.columns == ["s", "p", "o"]
        assert Counter(map(tuple, frame.collect())) == Counter(EXPECTED)


@pytest.mark.parametrize(
    "line", ["<s> <p> <o>", "<s> _:p <o> .", '"s" <p> <o> .', "<s> <p> o .", "x", "<s> <p> <o o> ."]
)
def test_lines_that_are_no_triples_are_counted(spark: SparkSession, tmp_path: Path, line: str) -> None:
    (tmp_path / "r.nt").write_text(f"{TRIPLES}{line}\n{line}\n")
    relation = Engine(".decl r(s: symbol, p: symbol, o: symbol)").declared("r")
    with pytest.raises(DataError, match=r"2 of 7 lines are no triples") as raised:
        read_dataset(spark, str(tmp_path / "r.nt"), relation)
    assert line in str(raised.value)


def test_long_literals_with_many_escapes_are_read(spark: SparkSession, tmp_path: Path) -> None:
    literal = '"' + "ab\\n" * 50_000 + '"'
    (tmp_path / "r.nt").write_text(f"<s> <p> {literal} .\n")
    relation = Engine(".decl r(s: symbol, p: symbol, o: symbol)").declared("r")
    row = read_dataset(spark, str(tmp_path / "r.nt"), relation).first()
    assert row is not None and row["o"] == literal


def test_triples_need_three_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.nt").touch()
    with pytest.raises(DataError, match="3 columns, but r has 1"):
        read_dataset(spark, str(tmp_path / "r.nt"), Engine(".decl r(s: symbol)").declared("r"))


def test_datasets_are_found_by_the_relations_name(spark: SparkSession, tmp_path: Path) -> None:
    files = FileSystem(spark)
    names = [
        "edge.nt",
        "edge.facts.gz",
        "edge.facts",
        "edge.tsv",
        "edge.csv",
        "edge.orc",
        "edge",
        "edge.parquet",
    ]
    for name in names:
        (tmp_path / name).mkdir()
        assert find_dataset(files, "edge", {}, str(tmp_path)) == f"{tmp_path}/{name}"
    with pytest.raises(
        DataError, match=r"no facts for node: looked for node\.parquet, node, node\.orc"
    ) as raised:
        find_dataset(files, "node", {}, f"{tmp_path}/")
    assert "node.nt" in str(raised.value)
    with pytest.raises(DataError, match="that is not a directory"):
        find_dataset(files, "node", {}, f"{tmp_path}/none")


def test_a_filename_of_the_program_stays_in_the_fact_directory(spark: SparkSession, tmp_path: Path) -> None:
    files = FileSystem(spark)
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "x.csv").touch()
    (tmp_path / "out.csv").touch()
    inside = f"{tmp_path}/in"
    for name in ("sub/x.csv", "sub/*.csv", f"{inside}/sub/x.csv"):
        assert find_dataset(files, "r", {"filename": name}, inside).endswith(
            "/in/sub/" + name.rpartition("/")[2]
        )
    for name in (
        "../out.csv",
        f"{tmp_path}/out.csv",
        f"file:{tmp_path}/out.csv",
        "sub/../../out.csv",
        "s3a://b/x",
    ):
        with pytest.raises(DataError, match="leaves the fact directory"):
            find_dataset(files, "r", {"filename": name}, inside)
    with pytest.raises(DataError, match=r"looked for .*/in/none\.csv"):
        find_dataset(files, "r", {"filename": "none.csv"}, inside)
    with pytest.raises(DataError, match="standard input"):
        find_dataset(files, "r", {"IO": "stdin"}, inside)


def test_formats_that_spark_does_not_read_are_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.arrow").touch()
    relation = Engine(DECLARED).declared("r")
    with pytest.raises(DataError, match="IO=arrow of r can't be read by Spark"):
        read_dataset(spark, f"{tmp_path}/r.arrow", relation, params={"IO": "arrow"})
    with pytest.raises(DataError, match="there is no"):
        read_dataset(spark, f"{tmp_path}/none.csv", relation)
    (tmp_path / "r.parquet").write_text("no parquet")
    with pytest.raises(DataError, match=r"r\.parquet: r can't be read"):
        read_dataset(spark, f"{tmp_path}/r.parquet", relation)


def test_tables_of_the_catalog_go_by_name(spark: SparkSession, tmp_path: Path) -> None:
    from gpuengine.spark_bridge import ingest

    program = ".decl r(a: number, b: number)"
    pairs = spark.range(3).selectExpr("id a", "id + 1 b")
    pairs.createOrReplaceTempView("some_pairs")
    for name in ("some_pairs", "`some_pairs`"):
        assert sorted(ingest(spark, program, {"r": name})["r"]) == [(0, 1), (1, 2), (2, 3)]
    spark.sql("CREATE DATABASE readings")
    try:
        pairs.write.option("path", str(tmp_path / "table")).saveAsTable("readings.pairs")
        assert len(ingest(spark, program, {"r": "readings.pairs"})["r"]) == 3
        assert len(ingest(spark, program, {"r": "spark_catalog.readings.pairs"})["r"]) == 3
        for missing in ("readings.others", "nowhere.at.all"):
            with pytest.raises(DataError, match=f"no facts for r: there is no {missing}"):
                ingest(spark, program, {"r": missing})
    finally:
        spark.sql("DROP DATABASE readings CASCADE")
    Path("some_pairs").write_text("1\t2\n")
    try:
        with pytest.raises(DataError, match="r: some_pairs is a table and a dataset"):
            ingest(spark, program, {"r": "some_pairs"})
        assert set(ingest(spark, program, {"r": "./some_pairs"})["r"]) == {(1, 2)}
    finally:
        Path("some_pairs").unlink()


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("_delta_log/0.json", "is a table of Delta, and this session has not the package for that"),
        ("metadata/v1.metadata.json", "is a table of Iceberg, and this session has not the package for that"),
        (".hoodie/hoodie.properties", "is a table of Hudi, which is not read by path"),
    ],
)
def test_the_files_of_a_table_are_no_dataset(
    spark: SparkSession, tmp_path: Path, inside: str, said: str
) -> None:
    """What was deleted from the table may still be in them."""
    spark.range(3).selectExpr("id a", "id b").write.parquet(f"{tmp_path}/r/data")
    file = tmp_path / "r" / inside
    file.parent.mkdir()
    file.write_text("{}")
    with pytest.raises(DataError, match=said):
        by_spark(spark, ".decl r(a: number, b: number)", tmp_path / "r", {})
