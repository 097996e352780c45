"""The distributed dictionary against a Python dict, and what must not change its ids."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuengine.errors import DataError
from gpuengine.spark_bridge import dictionary as dictionary_module
from gpuengine.spark_bridge.dictionary import TermDictionary
from gpuengine.terms.dictionary import IDENTITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STRINGS = [
    "",
    " ",
    "a",
    "A",
    "ä",
    "a\u0308",
    "\0",
    "x\0y",
    "'\"\\",
    "\t\n",
    "日本",
    "\U0001f600",
    "z" * 5000,
    "null",
]
NUMBERS = [0, 1, IDENTITY - 1, IDENTITY, -1, 2**63 - 1, -(2**63), 2**40]
SHUFFLED = 0  # bytes that may be broadcast, so that nothing is


def column_of(spark: SparkSession, terms: list[str] | list[int]) -> DataFrame:
    type = "string" if isinstance(terms[0], str) else "bigint"
    return spark.createDataFrame([(term,) for term in terms], f"x {type}")


def ids_of(dictionary: TermDictionary) -> dict[str | int, int]:
    rows = [tuple(row) for row in dictionary.frame.collect()]
    assert len(rows) == len(dictionary) == len({term for term, _ in rows})
    return dict(rows)


@pytest.fixture(scope="module")
def words() -> list[str]:
    return [f"word {random.Random(7).randrange(10**9)} {i}" for i in range(1500)]


def test_symbols_are_dense_and_compared_by_bytes(spark: SparkSession) -> None:
    dictionary = TermDictionary.empty(spark, "symbol").extended([column_of(spark, STRINGS * 2)])
    assert sorted(ids_of(dictionary)) == sorted(STRINGS)
    assert sorted(ids_of(dictionary).values()) == list(range(len(STRINGS)))
    assert dictionary.bound == len(STRINGS)


def test_small_numbers_are_their_own_ids(spark: SparkSession) -> None:
    dictionary = TermDictionary.empty(spark, "number").extended([column_of(spark, NUMBERS)])
    ids = ids_of(dictionary)
    assert set(ids) == {term for term in NUMBERS if not 0 <= term < IDENTITY}
    assert sorted(ids.values()) == list(range(IDENTITY, IDENTITY + len(ids)))
    assert dictionary.find([*NUMBERS, -7]) == {**ids, 0: 0, 1: 1, IDENTITY - 1: IDENTITY - 1}


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_ids_depend_on_the_terms_alone(spark: SparkSession, words: list[str], adaptive: str) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        frame = column_of(spark, words)
        one = TermDictionary.empty(spark, "symbol").extended([frame.coalesce(1)])
        shuffled = column_of(spark, sorted(words, key=hash)).repartition(7)
        other = TermDictionary.empty(spark, "symbol").extended([shuffled.limit(900), shuffled])
        local = TermDictionary.empty(spark, "symbol").extended([shuffled], rows=len(words))
        assert ids_of(one) == ids_of(other) == ids_of(local)
        other.release()
        assert ids_of(one) == ids_of(other)  # computed anew
        one.release()
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", before or "true")


@pytest.mark.parametrize("broadcast_bytes", [None, SHUFFLED])
def test_an_extension_changes_no_id(
    spark: SparkSession, words: list[str], broadcast_bytes: int | None
) -> None:
    empty = TermDictionary.empty(spark, "symbol", broadcast_bytes=broadcast_bytes)
    first = empty.extended([column_of(spark, words[:100])])
    second = first.extended([column_of(spark, words[50:130]), column_of(spark, words[120:140])])
    old, new = ids_of(first), ids_of(second)
    assert old.items() <= new.items()
    assert sorted(new) == sorted(words[:140])
    assert sorted(new.values()) == list(range(140))
    assert second.extended([column_of(spark, words[:140])]) is second
    assert second.extended([]) is second


@pytest.mark.parametrize("broadcast_bytes", [None, SHUFFLED])
@pytest.mark.parametrize("kind", ["symbol", "number"])
def test_encode_and_decode_are_inverse(spark: SparkSession, kind: str, broadcast_bytes: int | None) -> None:
    chance = random.Random(3)
    terms: list = (
        [*STRINGS]
        if kind == "symbol"
        else [*NUMBERS, *(chance.randrange(-(2**63), 2**63) for _ in range(50))]
    )
    rows = [(chance.choice(terms), i, chance.choice(terms[:3]), chance.choice(terms)) for i in range(300)]
    type = "string" if kind == "symbol" else "bigint"
    frame = spark.createDataFrame(rows, f"a {type}, other int, b {type}, c {type}").repartition(3)
    empty = TermDictionary.empty(spark, kind, broadcast_bytes=broadcast_bytes)  # type: ignore[arg-type]
    dictionary = empty.extended([frame.select(name) for name in "abc"])
    ids: dict = {term: term for term in terms} if kind == "number" else {}
    ids.update(ids_of(dictionary))
    encoded = dictionary.encode(frame, ["a", "c", "b"])
    assert encoded.schema.simpleString() == "struct<a:bigint,other:int,b:bigint,c:bigint>"
    assert sorted(map(tuple, encoded.collect())) == sorted((ids[a], i, ids[b], ids[c]) for a, i, b, c in rows)
    decoded = dictionary.decode(encoded, ["a", "b", "c"], rows=len(rows))
    assert decoded.schema.simpleString() == frame.schema.simpleString()
    assert sorted(map(tuple, decoded.collect())) == sorted(rows)


@pytest.mark.parametrize("broadcast_bytes", [None, SHUFFLED])
def test_unknown_terms_are_null_or_not_found(spark: SparkSession, broadcast_bytes: int | None) -> None:
    empty = TermDictionary.empty(spark, "symbol", broadcast_bytes=broadcast_bytes)
    asked = column_of(spark, ["a", "b"])
    assert empty.find(["a"]) == {}
    assert [tuple(row) for row in empty.encode(asked, ["x"]).collect()] == [(None,), (None,)]
    known = empty.extended([column_of(spark, ["b"])])
    assert known.find(["a", "b", "b"]) == {"b": 0}
    assert sorted(tuple(row) for row in known.encode(asked, ["x"]).collect() if row[0] is not None) == [(0,)]
    assert known.encode(asked, ["x"]).count() == 2


def test_frequent_terms_do_not_pile_up_in_one_task(spark: SparkSession) -> None:
    """40 % of the rows have one term: a plain join by shuffle sends them all to one partition."""
    from pyspark.sql import functions as F

    rows, partitions = 40_000, 8
    term = "if(id % 10 < 4, 'hot', concat('cold ', id % 20011)) AS t"
    few = "concat('kind ', id % 5) AS k"
    frame = spark.range(0, rows, 1, 4).selectExpr(term, few, "id")
    confs = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    before = {name: spark.conf.get(name) for name in confs}
    for name, value in confs.items():
        spark.conf.set(name, value)
    try:
        dictionary = TermDictionary.empty(spark, "symbol", broadcast_bytes=SHUFFLED)
        dictionary = dictionary.extended([frame.select("t"), frame.select("k")])

        def largest(joined: DataFrame) -> int:
            sizes = joined.groupBy(F.spark_partition_id()).count().collect()
            assert sum(size for _, size in sizes) == rows
            return max(size for _, size in sizes)

        plain = frame.join(dictionary.frame, F.col("t") == F.col("term"), "left")
        encoded = dictionary.encode(frame, ["t"], rows=rows)
        assert largest(plain) > 0.4 * rows
        assert largest(encoded) < 2 * rows / partitions
        assert encoded.where("t IS NULL").count() == 0
        assert largest(dictionary.decode(encoded, ["t"], rows=rows)) < 2 * rows / partitions
        # A column with few terms is encoded where its rows are.
        plan = dictionary.encode(frame, ["k"], rows=rows)._jdf.queryExecution().executedPlan().toString()
        assert "Exchange hashpartitioning" not in plan and "BroadcastHashJoin" in plan
        dictionary.release()
    finally:
        for name, setting in before.items():
            spark.conf.set(name, setting or "")


def test_small_dictionaries_are_broadcast_once_for_all_columns(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", "b"), ("b", "c")], "x string, y string")
    empty = TermDictionary.empty(spark, "symbol")
    encoded = empty.extended([frame.select("x"), frame.select("y")], rows=4).encode(frame, ["x", "y"])
    encoded.collect()
    plan = encoded._jdf.queryExecution().executedPlan().toString().partition("Initial Plan")[0]
    assert "hashpartitioning" not in plan and plan.count("BroadcastHashJoin") == 2
    assert plan.count("ReusedExchange") == 1


def test_what_is_saved_is_loaded_and_extended(spark: SparkSession, tmp_path: Path) -> None:
    for kind, terms in (("symbol", STRINGS), ("number", NUMBERS)):
        path = str(tmp_path / kind)
        made = TermDictionary.empty(spark, kind).extended([column_of(spark, terms)])  # type: ignore[arg-type]
        made.save(path)
        loaded = TermDictionary.load(spark, path)
        assert (loaded.kind, loaded.bound) == (kind, made.bound)
        assert ids_of(loaded) == ids_of(made)
        more = loaded.extended([column_of(spark, ["new"] if kind == "symbol" else [-99])])
        assert max(ids_of(more).values()) == made.bound
        more.release()
    TermDictionary.empty(spark, "symbol").save(str(tmp_path / "none"))
    assert len(TermDictionary.load(spark, str(tmp_path / "none"))) == 0


def test_what_is_no_dictionary_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no dictionary is there"):
        TermDictionary.load(spark, str(tmp_path / "nothing"))
    spark.range(3).write.parquet(str(tmp_path / "range"))
    with pytest.raises(DataError, match=r"holds struct<id:bigint>, which is no dictionary"):
        TermDictionary.load(spark, str(tmp_path / "range"))


def test_release_frees_and_settings_are_restored(spark: SparkSession, words: list[str]) -> None:
    setting = dictionary_module._CACHE_CAN_COALESCE
    before = spark.conf.get(setting)
    held = len(spark.sparkContext._jsc.getPersistentRDDs())
    dictionary = TermDictionary.empty(spark, "symbol").extended([column_of(spark, words)])
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == held + 1
    dictionary.release()
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == held
    assert spark.conf.get(setting) == before
