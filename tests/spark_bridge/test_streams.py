"""Streams into knowledge bases and out of them: each batch once, whatever restarts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine
from gpuengine.engine import Engine
from gpuengine.errors import DataError, GpuEngineError, SparkError, StoreError
from gpuengine.spark_bridge import feed, materialise, register
from gpuengine.spark_bridge import open as open_saved
from gpuengine.spark_bridge.streams import WEIGHT, Changes, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

REACH = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def saved_kb(folder: Path, *edges: tuple[int, int]) -> str:
    engine = Engine(REACH)
    engine.load("edge", list(edges))
    engine.save(folder)
    return str(folder)


def facts(kb: str, relation: str = "path") -> set[tuple[Any, ...]]:
    with gpuengine.open(kb, read_only=True) as engine:
        return set(engine[relation])


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("x bigint, y bigint").json(str(folder))


def put(folder: Path, name: str, *edges: tuple[int, int]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"x": x, "y": y}) for x, y in edges]
    (folder / f"{name}.json").write_text("\n".join(lines) + "\n")


def run(writer: Any, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had ended after the batch was applied, before Spark noted that."""
    last = max((p for p in (checkpoint / "commits").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def test_a_stream_feeds_a_knowledge_base_and_a_replayed_batch_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    kb, given, checkpoint = saved_kb(tmp_path / "kb", (1, 2)), tmp_path / "in", tmp_path / "checkpoint"
    put(given, "a", (2, 3))
    with gpuengine.open(kb) as engine:
        run(stream(spark, given).writeStream.foreachBatch(feed(engine, "edge")), checkpoint)
        assert set(engine["path"]) == {(1, 2), (2, 3), (1, 3)}
        with engine.update() as update:
            update.delete("edge", [(2, 3)])
    forget_last_commit(checkpoint)
    with gpuengine.open(kb) as engine:
        run(stream(spark, given).writeStream.foreachBatch(feed(engine, "edge")), checkpoint)
        # The batch ran again, and did not bring back what was deleted since.
        assert set(engine["path"]) == {(1, 2)}
    put(given, "b", (2, 4))
    with gpuengine.open(kb) as engine:
        run(stream(spark, given).writeStream.foreachBatch(feed(engine, "edge")), checkpoint)
    assert facts(kb) == {(1, 2), (2, 4), (1, 4)}


def test_the_sink_and_the_source_of_the_format(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    kb, given, checkpoint = saved_kb(tmp_path / "kb", (1, 2)), tmp_path / "in", tmp_path / "checkpoint"
    put(given, "a", (2, 3))

    def sink() -> Any:
        writer = stream(spark, given).writeStream.format("gpuengine")
        return writer.option("kb", kb).option("relation", "edge")

    run(sink(), checkpoint)
    with gpuengine.open(kb) as engine, engine.update() as update:
        update.delete("edge", [(2, 3)])
    forget_last_commit(checkpoint)
    run(sink(), checkpoint)
    assert facts(kb) == {(1, 2)}
    # Where a checkpoint was deleted, batch 0 is that of another stream.
    shutil.rmtree(checkpoint)
    run(sink(), checkpoint)
    assert facts(kb, "edge") == {(1, 2), (2, 3)}
    with gpuengine.open(kb) as engine, engine.update() as update:
        update.delete("edge", [(2, 3)])

    seen: list[dict[tuple[int, int], int]] = []

    def note(frame: DataFrame, batch: int) -> None:
        seen.append({(row.x, row.y): row[WEIGHT] for row in frame.collect()})

    def changes() -> Any:
        reader = (
            spark.readStream.format("gpuengine").option("kb", kb).option("state", str(tmp_path / "state"))
        )
        return reader.load("path").writeStream.foreachBatch(note)

    run(changes(), tmp_path / "reading")
    with gpuengine.open(kb) as engine, engine.update() as update:
        update.delete("edge", [(1, 2)])
        update.insert("edge", [(5, 6)])
    run(changes(), tmp_path / "reading")
    forget_last_commit(tmp_path / "reading")
    run(changes(), tmp_path / "reading")
    assert seen == [{(1, 2): 1}, {(1, 2): -1, (5, 6): 1}, {(1, 2): -1, (5, 6): 1}]


def test_a_saved_materialisation_is_fed_each_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "saved")
    with materialise(spark, REACH, {"edge": spark.createDataFrame([(1, 2)], "x bigint, y bigint")}) as out:
        out.save(path)
    batch = spark.createDataFrame([(2, 3)], "x bigint, y bigint")
    feed(open_saved(spark, path), "edge", stream="s")(batch, 4)
    saved = open_saved(spark, path)
    assert saved.counts == {"edge": 2, "path": 3} and saved.generation == 2
    feed(saved, "edge", stream="s")(batch, 4)
    assert saved.generation == 2
    with pytest.raises(SparkError, match="batch 3 of the stream s comes after batch 4: its checkpoint was"):
        feed(saved, "edge", stream="s")(batch, 3)
    with pytest.raises(SparkError, match="can't be deleted from a saved materialisation by a stream"):
        feed(saved, "edge", weight="w")


def test_weights_delete_and_what_is_wrong_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    kb = saved_kb(tmp_path / "kb", (1, 2), (2, 3))
    with gpuengine.open(kb) as engine:
        rows = spark.createDataFrame([(2, 3, -1), (3, 4, 1)], "x bigint, y bigint, w int")
        feed(engine, "edge", weight="w", stream="s")(rows, 0)
        assert set(engine["path"]) == {(1, 2), (3, 4)}
        with pytest.raises(DataError, match="there is no column 'weight' of weights among x, y, w"):
            feed(engine, "edge", weight="weight", stream="s")(rows, 1)
        with pytest.raises(DataError, match="edge: column y has 1 null in 1 row"):
            feed(engine, "edge", stream="s")(spark.createDataFrame([(1, None)], "x bigint, y bigint"), 1)
        with pytest.raises(DataError, match="only some columns have the names of attributes"):
            feed(engine, "edge", stream="s")(rows.withColumnRenamed("y", "z"), 1)
        with pytest.raises(SparkError, match="no stream runs this batch"):
            feed(engine, "edge")(rows.drop("w"), 1)
        assert set(engine["path"]) == {(1, 2), (3, 4)}
        feed(engine, "edge", stream="s")(rows.drop("w"), 1)
        assert set(engine["edge"]) == {(1, 2), (2, 3), (3, 4)}
    assert facts(kb, "edge") == {(1, 2), (2, 3), (3, 4)}


EDGES = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=5)


@settings(max_examples=8)
@given(states=st.lists(EDGES, min_size=1, max_size=4), restarts=st.booleans())
def test_changes_add_up_to_the_relation(
    states: list[set[tuple[int, int]]], restarts: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("changes")
    kb = saved_kb(folder / "kb")
    options = {"kb": kb, "path": "path", "state": str(folder / "state")}
    source, offset = Changes.of(options), {"state": 0}
    summed: dict[tuple[int, ...], int] = {}
    for edges in states:
        with gpuengine.open(kb) as engine, engine.update() as update:
            update.delete("edge", engine["edge"].to_arrow())
            update.insert("edge", sorted(edges))
        if restarts:
            source = Changes.of(options)
        end = source.latestOffset()
        assert source.latestOffset() == end
        for piece in source.partitions(offset, end):
            for batch in source.read(piece):
                for row in batch.to_pylist():
                    fact = row["x"], row["y"]
                    summed[fact] = summed.get(fact, 0) + row[WEIGHT]
        source.commit(offset)
        offset = end
        assert {fact: weight for fact, weight in summed.items() if weight} == dict.fromkeys(facts(kb), 1)
    assert len(list((folder / "state").iterdir())) <= 2


def test_sources_and_sinks_that_are_wrong(tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructType

    pairs = StructType().add("x", LongType()).add("y", LongType())
    kb = saved_kb(tmp_path / "kb", (1, 2))
    with pytest.raises(SparkError, match="needs a checkpoint, or a name"):
        Sink.of({"kb": kb, "path": "edge"}, pairs)
    with pytest.raises(GpuEngineError, match="give the options kb and state, and a relation"):
        Changes.of({"kb": kb, "path": "edge"})
    source = Changes.of({"kb": kb, "path": "edge", "state": str(tmp_path / "state")})
    with pytest.raises(
        StoreError, match=r"has no state 3 of edge: a stream needs the folder that it began with"
    ):
        source.partitions({"state": 0}, {"state": 3})
    Engine(".decl p(weight: number)").save(tmp_path / "weighted")
    with pytest.raises(GpuEngineError, match="p has a column weight, which its changes have besides"):
        Changes.of({"kb": str(tmp_path / "weighted"), "path": "p", "state": "x"})
    Engine('.decl on() .decl r(u: unsigned, s: symbol) on(). r(18446744073709551615, "ü").').save(
        tmp_path / "two"
    )
    for name, row in (("on", {"holds": True}), ("r", {"u": 2**64 - 1, "s": "ü"})):
        source = Changes.of({"kb": str(tmp_path / "two"), "path": name, "state": str(tmp_path / name)})
        (piece,) = source.partitions({"state": 0}, source.latestOffset())
        assert pa.Table.from_batches(source.read(piece)).to_pylist() == [{**row, WEIGHT: 1}]
