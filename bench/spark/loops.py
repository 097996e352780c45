"""The peers: fixpoints as one would write them with DataFrames alone.

Deltas are cached, and plans are cut every few rounds, since they would grow with each one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CUT_EVERY = 5


def closure(edges: DataFrame) -> tuple[DataFrame, int]:
    """Transitive closure; all pairs, and in how many rounds."""
    pairs = edges.distinct().cache()

    def step(delta: DataFrame) -> DataFrame:
        return delta.join(pairs.toDF("b", "c"), "b").select("a", "c").toDF("a", "b")

    return _semi_naive(pairs, step)


def same_generation(edges: DataFrame) -> tuple[DataFrame, int]:
    """Pairs of children whose parents are the same or of the same generation."""
    pairs = edges.distinct().cache()
    left, right = pairs.toDF("p", "a"), pairs.toDF("q", "b")
    siblings = left.join(pairs.toDF("p", "b"), "p").where("a != b").select("a", "b").distinct()

    def step(delta: DataFrame) -> DataFrame:
        return delta.toDF("p", "q").join(left, "p").join(right, "q").select("a", "b")

    return _semi_naive(siblings.cache(), step)


def andersen(tables: Mapping[str, DataFrame]) -> tuple[DataFrame, int]:
    """Inclusion-based points-to analysis: each join of two facts is made from the newer one."""
    assign, load, store = (tables[name].distinct().cache() for name in ("assign", "load", "store"))
    start = tables["addressOf"].distinct().cache()
    facts, before, delta, rounds = start, start.limit(0), start, 0
    while True:
        rounds += 1
        led = [assign.toDF("y", "z").join(delta.toDF("z", "b"), "z").select("y", "b")]
        for first, second in ((delta, facts), (before, delta)):
            x_to_z, z_to_w = first.toDF("x", "z"), second.toDF("z", "w")
            led.append(load.toDF("y", "x").join(x_to_z, "x").join(z_to_w, "z").select("y", "w"))
            targets = store.toDF("y", "x").join(first.toDF("y", "z"), "y").select("z", "x")
            led.append(targets.join(second.toDF("x", "w"), "x").select("z", "w"))
        candidates = reduce(lambda one, other: one.union(other), led).toDF("a", "b")
        delta = candidates.distinct().join(facts, ["a", "b"], "left_anti")
        delta = delta.localCheckpoint() if rounds % CUT_EVERY == 0 else delta.cache()
        if delta.count() == 0:
            return facts, rounds
        before, facts = facts, facts.union(delta)
        if rounds % CUT_EVERY == 0:
            before, facts = before.localCheckpoint(), facts.localCheckpoint()


def _semi_naive(start: DataFrame, step: Callable[[DataFrame], DataFrame]) -> tuple[DataFrame, int]:
    facts, delta, rounds = start, start, 0
    while True:
        rounds += 1
        delta = step(delta).distinct().join(facts, ["a", "b"], "left_anti")
        delta = delta.localCheckpoint() if rounds % CUT_EVERY == 0 else delta.cache()
        if delta.count() == 0:
            return facts, rounds
        facts = facts.union(delta)
        if rounds % CUT_EVERY == 0:
            facts = facts.localCheckpoint()


def propagated_labels(edges: DataFrame) -> tuple[DataFrame, int]:
    """(node, least node of its component): in each round, the least label of the neighbours is taken."""
    from pyspark.sql import functions as F

    both = edges.union(edges.select("b", "a")).toDF("node", "next").distinct().cache()
    labels = both.select("node").distinct().withColumn("label", F.col("node")).cache()
    rounds = 0
    while True:
        rounds += 1
        offered = both.join(labels, "node").groupBy("next").agg(F.min("label").alias("least"))
        changed = (
            labels.join(offered.withColumnRenamed("next", "node"), "node")
            .select("node", F.least("label", "least").alias("label"), F.col("label").alias("before"))
        )  # fmt: skip
        changed = changed.localCheckpoint() if rounds % CUT_EVERY == 0 else changed.cache()
        labels = changed.select("node", "label")
        if changed.where("label != before").count() == 0:
            return labels, rounds


def pairs_of_labels(labels: DataFrame) -> DataFrame:
    """All pairs of nodes with the same label."""
    others = labels.withColumnRenamed("node", "b")
    return labels.withColumnRenamed("node", "a").join(others, "label").select("a", "b")
