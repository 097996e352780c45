"""Batches of a stream into a knowledge base or a saved materialisation, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from gpuengine.engine import Engine
from gpuengine.errors import DataError, SparkError
from gpuengine.language.program import Relation
from gpuengine.spark_bridge.checking import check_inputs
from gpuengine.spark_bridge.connect import require_jvm
from gpuengine.spark_bridge.materialisation import fact_batches
from gpuengine.spark_bridge.replays import STREAMS, was_applied
from gpuengine.spark_bridge.saved import SavedMaterialisation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_QUERY_ID = "sql.streaming.queryId"


def feed(
    kb: Engine | SavedMaterialisation,
    relation: str,
    *,
    weight: str | None = None,
    nulls: Literal["fail", "drop"] = "fail",
    stream: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """What ``foreachBatch`` calls to state the rows of a stream as facts, each batch in one transaction.

    The number of the batch is committed with it, so that one that Spark runs again changes nothing. `stream`
    is by default the id of the query, which its checkpoint keeps. With `weight`, a column, rows where that is
    below 0 are facts to state no longer.
    """
    if isinstance(kb, SavedMaterialisation) and weight is not None:
        raise SparkError(
            "facts can't be deleted from a saved materialisation by a stream: that computes everything anew\n"
            "  hint: feed a knowledge base, gpuengine.open(path)"
        )

    def apply(frame: DataFrame, batch: int) -> None:
        require_jvm(frame, "feeding a knowledge base by foreachBatch")
        name = stream or frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if name is None:
            raise SparkError(
                "no stream runs this batch\n  hint: name it: feed(kb, relation, stream='orders')"
            )
        if isinstance(kb, SavedMaterialisation):
            kb.insert({relation: frame}, nulls=nulls, batch=(name, batch))
        elif not was_applied(kb.current.notes.get(STREAMS, {}), name, batch):
            came, went = _signed(frame, weight)
            declared = kb.declared(relation)
            inserted = _facts_of(declared, came, nulls)
            deleted = () if went is None else _facts_of(declared, went, nulls)
            apply_batch(kb, declared, inserted, deleted, name, batch)

    return apply


def _signed(frame: DataFrame, weight: str | None) -> tuple[DataFrame, DataFrame | None]:
    """(rows to state, rows to state no longer)."""
    if weight is None:
        return frame, None
    if weight not in frame.columns:
        raise DataError(f"there is no column {weight!r} of weights among {', '.join(frame.columns)}")
    return frame.where(frame[weight] > 0).drop(weight), frame.where(frame[weight] < 0).drop(weight)


def _facts_of(relation: Relation, frame: DataFrame, nulls: Literal["fail", "drop"]) -> Iterable[pa.Table]:
    checked = check_inputs({relation.name: relation}, {relation.name: frame}, nulls=nulls)[relation.name]
    return fact_batches(relation, checked)


def apply_batch(
    engine: Engine,
    relation: Relation,
    inserted: Iterable[Any],
    deleted: Iterable[Any],
    stream: str,
    batch: int,
) -> None:
    """State and take back the facts of a batch, and note it, in one transaction."""
    with engine.update() as update:
        # Rows that go first: what a batch deletes and inserts is there after it.
        for facts in deleted:
            update.delete(relation.name, facts)
        for facts in inserted:
            update.insert(relation.name, facts)
        update.note(STREAMS, {**engine.current.notes.get(STREAMS, {}), stream: batch})
