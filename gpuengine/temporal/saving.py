"""A temporal engine as a snapshot for the store, and back; and its updates as commits.

The store has tables of 32-bit ids: a fact is a row of its arguments and, in four words, the ends of its
interval.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.errors import GpuEngineError
from gpuengine.maintenance.delta import Delta
from gpuengine.maintenance.store import Commit, Snapshot, Store, StoredTable
from gpuengine.temporal.bounds import Bounds
from gpuengine.temporal.encoding import Encoding
from gpuengine.temporal.engine import TemporalEngine
from gpuengine.temporal.procedures import Progress
from gpuengine.temporal.relations import TemporalRelation
from gpuengine.temporal.syntax import Interval
from gpuengine.terms.persistence import export_terms, restore_terms, term_counts

if TYPE_CHECKING:
    from gpuengine.temporal.updates import PredicateChange, Rows, TemporalChange


class Durable:
    """The store that an engine is open on, how many terms it has, and the unit of its times."""

    def __init__(self, store: Store, terms: dict[str, int], scale: int) -> None:
        self.store = store
        self.terms = terms
        self.scale = scale

    def close(self) -> None:
        self.store.close()


LANGUAGE = "mtl"
STATED, DERIVED = "stated/", "derived/"
_WORDS = 4


def save(engine: TemporalEngine, path: str | os.PathLike[str], *, replace: bool) -> None:
    """Write a materialised engine to a directory."""
    if engine.store is not None and os.path.realpath(path) == os.path.realpath(engine.store.store.path):
        raise GpuEngineError(f"the engine is open on {path} already: every update is on the disk")
    Store.create(path, snapshot_of(engine), replace=replace)


def rewrite(engine: TemporalEngine) -> None:
    """Make another state of an engine that is open on a directory durable, in one step."""
    engine.store.store.rewrite(snapshot_of(engine))
    engine.store.terms = term_counts(engine.dictionary)
    engine.store.scale = engine.encoding.scale


def meta_of(engine: TemporalEngine) -> dict[str, Any]:
    """What else must be known to go on."""
    state = engine.state
    horizon = state.bounds.horizon
    return {
        "language": LANGUAGE,
        "program": engine.program.text,
        "scale": str(engine.encoding.scale),
        "stamp": None if engine.stamp is None else [engine.stamp.unit, engine.stamp.tz],
        "rounds": state.bounds.rounds,
        "horizon": None if horizon is None else _ends(horizon),
        "procedure": state.bounds.procedure,
        "is_exact": state.is_exact,
        "is_fixpoint": state.progress.is_fixpoint,
        "notes": state.notes,
        "arities": {name: relation.arity for name, relation in state.world.relations.items()},
    }


def snapshot_of(engine: TemporalEngine) -> Snapshot:
    """Everything that `restore` needs."""
    relations = engine.state.world.relations
    tables = {STATED + name: _stored(relation) for name, relation in engine.stated.items()}
    for name, relation in relations.items():
        if engine.stated.get(name) is not relation:
            tables[DERIVED + name] = _stored(relation)
    return Snapshot(meta_of(engine), export_terms(engine.dictionary, {}), tables)


def restore(snapshot: Snapshot, store: Store, options: Mapping[str, Any]) -> TemporalEngine:
    """The engine that was saved; no rule is applied for that. `options` are those of `TemporalEngine`."""
    import pyarrow as pa

    meta = snapshot.meta
    engine = TemporalEngine(meta["program"] + "\n", **options)
    engine.take_pending()
    restore_terms(engine.dictionary, snapshot.terms)
    engine.use_encoding(Encoding(int(meta["scale"])))
    relations: dict[str, TemporalRelation] = {}
    for name, arity in meta["arities"].items():
        engine.new_relation(name, arity)
    for stored, table in snapshot.tables.items():
        kind, _, name = stored.partition("/")
        relation = _relation(name, table)
        relation.settle()
        if kind + "/" == STATED:
            engine.stated[name] = relation
            relations.setdefault(name, relation)
        else:
            relations[name] = relation
    for name, arity in meta["arities"].items():
        relations.setdefault(name, TemporalRelation(name, arity))
    bounds = Bounds(
        meta["rounds"], None if meta["horizon"] is None else _interval(meta["horizon"]), meta["procedure"]
    )
    stamp = None if meta["stamp"] is None else pa.timestamp(*meta["stamp"])
    progress = Progress(bounds.procedure, is_fixpoint=meta["is_fixpoint"])
    engine.resume(relations, bounds, progress, meta["is_exact"], list(meta["notes"]), stamp)
    engine.store = Durable(store, term_counts(engine.dictionary), engine.encoding.scale)
    return engine


def commit(engine: TemporalEngine, stated: Mapping[str, PredicateChange], change: TemporalChange) -> None:
    """Make an update durable in one step: by what it changed, or whole if all times have another unit."""
    if engine.encoding.scale != engine.store.scale:
        rewrite(engine)
        return
    tables = engine.store.store.tables
    relations = engine.state.world.relations
    changes: dict[str, Delta | StoredTable] = {}
    for name, one in stated.items():
        changes[STATED + name] = _change(one, engine.stated[name], is_known=STATED + name in tables)
    for name, relation in relations.items():
        if engine.stated.get(name) is relation:
            continue
        is_known = DERIVED + name in tables
        if name in change.relations:
            changes[DERIVED + name] = _change(change.relations[name], relation, is_known=is_known)
        elif not is_known:
            changes[DERIVED + name] = _change(None, relation, is_known=False)
    dropped = tuple(
        name
        for name in tables
        if name.startswith(DERIVED)
        and engine.stated.get(name[len(DERIVED) :]) is relations.get(name[len(DERIVED) :])
    )
    meta = meta_of(engine)
    terms = export_terms(engine.dictionary, engine.store.terms)
    engine.store.store.commit(Commit(changes, terms, meta, dropped))
    engine.store.terms = term_counts(engine.dictionary)


def _change(
    one: PredicateChange | None, relation: TemporalRelation, *, is_known: bool
) -> Delta | StoredTable:
    if not is_known or one is None:
        return _stored(relation)
    minus, plus = ((_rows(rows), len(rows)) for rows in (one.deleted, one.inserted))
    return Delta.listed(relation.name, len(plus[0]), minus, plus)


def _rows(rows: Rows) -> list[np.ndarray]:
    return [*rows.columns, *_words(rows.lower), *_words(rows.upper)]


def _stored(relation: TemporalRelation) -> StoredTable:
    atoms, lower, upper = relation.entries()
    columns = [relation.column(j, atoms) for j in range(relation.arity)]
    return StoredTable([*columns, *_words(lower), *_words(upper)], len(atoms))


def _words(ends: np.ndarray) -> list[np.ndarray]:
    """Low and high halves."""
    raw = ends.view(np.uint64)
    return [(raw & np.uint64(0xFFFFFFFF)).astype(np.uint32), (raw >> np.uint64(32)).astype(np.uint32)]


def _relation(name: str, table: StoredTable) -> TemporalRelation:
    arity = len(table.columns) - _WORDS
    relation = TemporalRelation(name, arity)
    if table.rows:
        low, low_high, up, up_high = (column.astype(np.uint64) for column in table.columns[arity:])
        lower, upper = (
            (a | (b << np.uint64(32))).view(np.int64) for a, b in ((low, low_high), (up, up_high))
        )
        columns = [np.ascontiguousarray(column) for column in table.columns[:arity]]
        relation.merge(relation.intern(columns, table.rows), lower, upper)
    return relation


def _ends(interval: Interval) -> list[Any]:
    return [
        None if interval.lower is None else str(interval.lower),
        None if interval.upper is None else str(interval.upper),
        interval.lower_open,
        interval.upper_open,
    ]


def _interval(ends: list[Any]) -> Interval:
    low, high = (None if end is None else Fraction(end) for end in ends[:2])
    return Interval(low, high, *ends[2:])
