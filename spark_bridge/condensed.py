"""Closures and equivalences: their pairs are condensed to components or classes, which tasks then expand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.language.program import Rule
from gpuengine.planning.plan import Stratum
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.shapes import Candidate, Shape, Source
from gpuengine.spark_bridge.carriers import LONG, Carriers, column
from gpuengine.spark_bridge.condensation import condense, equivalence_classes
from gpuengine.spark_bridge.expansion import expand_closure, expand_equivalence
from gpuengine.spark_bridge.keeping import Held
from gpuengine.spark_bridge.transfer import arrow_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS_PER_CORE = 2
"""Parts are nearly even, but cores may not be."""


@dataclass(frozen=True)
class Condensable:
    """A relation that is a closure or an equivalence of pairs: its own, or those of `source`."""

    candidate: Candidate

    @property
    def source(self) -> Source | None:
        return self.candidate.sources[0] if self.candidate.linear else None

    @property
    def handled(self) -> tuple[Rule, ...]:
        """The rules that nobody has to evaluate."""
        return self.candidate.handled

    @property
    def why(self) -> str:
        return self.candidate.why

    def permuted(self, frames: Mapping[str, Held]) -> Held:
        """The pairs of the source as the relation has them."""
        assert self.source is not None
        held = frames[self.source.relation]
        if self.source.permutation == (0, 1):
            return held
        return Held(
            held.frame.select(held.frame[column(1)].alias("c0"), held.frame[column(0)].alias("c1")), held.rows
        )


def condensable(prepared: Prepared, stratum: Stratum, carriers: Carriers) -> Condensable | None:
    """The shape of a stratum of one relation all of whose recursion its shape implies."""
    if len(stratum.relations) != 1:
        return None
    (name,) = stratum.relations
    if any(carriers.carrier(a.type) != LONG for a in prepared.program.relations[name].attributes):
        return None
    plan = prepared.schemes[name]
    for shape in (Shape.EQUIVALENCE, Shape.CLOSURE):
        candidate = plan.candidate(shape)
        if candidate is not None and all(v.rule in candidate.handled for v in stratum.recursive):
            return Condensable(candidate)
    return None


def run_condensed(spark: SparkSession, shape: Condensable, pairs: Held, limit: int) -> DataFrame | None:
    """All pairs of a closure or an equivalence, listed when they are read; None if it is too large."""
    partitions = PARTS_PER_CORE * max(1, spark.sparkContext.defaultParallelism)
    if shape.candidate.shape is Shape.EQUIVALENCE:
        classes = equivalence_classes(spark, pairs.frame, limit)
        return None if classes is None else expand_equivalence(spark, classes, partitions)
    if pairs.rows is None or pairs.rows > limit:
        return None
    batches = list(arrow_batches(pairs.frame, rows=pairs.rows))
    ends = [
        np.concatenate([np.asarray(batch.column(j).to_numpy()) for batch in batches]).astype(
            np.int64, copy=False
        )
        for j in range(2)
    ]
    return expand_closure(spark, condense(*ends), partitions)
