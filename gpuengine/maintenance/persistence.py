"""An engine as a snapshot for the store, and back; and its updates as commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuengine.evaluation.database import Database
from gpuengine.evaluation.progress import Progress, SchemeChoice
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.maintenance import names
from gpuengine.maintenance.change import Listed, composed
from gpuengine.maintenance.nets import Net
from gpuengine.maintenance.stated import Facts
from gpuengine.maintenance.store import Commit, Snapshot, Store, StoredTable, TableChange
from gpuengine.maintenance.transition import Changes
from gpuengine.planning.linearise import external_name
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.shapes import Shape
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.equivalence import Equivalence
from gpuengine.schemes.pairs import PairScheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Part, Union
from gpuengine.terms.persistence import export_terms, restore_terms, term_counts

if TYPE_CHECKING:
    from gpuengine.engine import Engine

STATED, DERIVED = "stated/", "derived/"
"""What the store's tables hold: facts as the user stated them, or all facts of a relation."""


def stored_tables(loaded: Mapping[str, Table], database: Database, hidden: Sequence[str]) -> dict[str, Table]:
    """The tables to keep, by the names that the store has for them.

    Relations without rules are what is stated of them. Closures and equivalences are made from the
    facts that feed them, and unions from others: `hidden` are the tables for that.
    """
    found = {STATED + name: table for name, table in loaded.items()}
    for name in (*loaded, *hidden):
        table = database.tables[name]
        if isinstance(table, Table) and table is not loaded.get(name):
            found[DERIVED + name] = table
    return found


def meta_of(
    engine: Engine, prepared: Prepared, database: Database, wanted: tuple[str, ...] | None
) -> dict[str, Any]:
    """What else must be known to go on with a knowledge base."""
    schemes = engine.progress.schemes if engine.progress is not None else {}
    kinds = {
        name: database.tables[name].kind
        for name in prepared.program.relations
        if name not in prepared.aliases
    }
    return {
        "program": prepared.text.to_json(),
        "asked_schemes": engine.asked_schemes,
        "asked_evaluators": engine.asked_evaluators,
        "modules": engine.modules,
        "counting": engine.counting,
        "anew_seconds": engine.anew_seconds,
        "wanted": None if wanted is None else list(wanted),
        "stored_as": {name: kind for name, kind in kinds.items() if kind != Table.kind},
        "why": {name: choice.why for name, choice in schemes.items()},
    }


def snapshot_of(
    engine: Engine,
    prepared: Prepared,
    loaded: Mapping[str, Table],
    database: Database,
    hidden: Sequence[str],
    wanted: tuple[str, ...] | None,
) -> Snapshot:
    """Everything that `restore` needs."""
    tables = {
        name: StoredTable(table.columns(), len(table))
        for name, table in stored_tables(loaded, database, hidden).items()
    }
    return Snapshot(meta_of(engine, prepared, database, wanted), export_terms(engine.dictionary, {}), tables)


def restore(engine: Engine, snapshot: Snapshot) -> None:
    """Fill an engine that was made from the snapshot's program, and has no facts yet."""
    restore_terms(engine.dictionary, snapshot.terms)
    meta, prepared = snapshot.meta, engine.prepared
    engine.anew_seconds = meta["anew_seconds"]
    database = Database(prepared.program, engine.dictionary)
    database.evaluators = prepared.choose_evaluators()
    for stored, table in snapshot.tables.items():
        if stored.startswith(STATED):
            name = stored.removeprefix(STATED)
            engine.loaded[name] = _table(name, table)
            database.tables[name] = engine.loaded[name]
    for stored, table in snapshot.tables.items():
        if stored.startswith(DERIVED):
            name = stored.removeprefix(DERIVED)
            database.tables[name] = _table(name, table)
    kinds: Mapping[str, str] = meta["stored_as"]
    for name, kind in kinds.items():
        if kind != Union.kind:
            database.tables[name] = _fed_scheme(engine, name, kind, database)
    for name in _in_order([name for name, kind in kinds.items() if kind == Union.kind], prepared):
        database.tables[name] = _union(name, database, prepared)
    progress = engine.progress = Progress()
    for name, why in meta["why"].items():
        progress.schemes[name] = SchemeChoice(kinds.get(name, Table.kind), why)
    wanted = None if meta["wanted"] is None else tuple(meta["wanted"])
    engine.adopt(prepared, engine.loaded, database, wanted)


def _table(name: str, stored: StoredTable) -> Table:
    table = Table(name, len(stored.columns), CPU)
    table.restore(stored.columns, stored.rows)
    return table


def _fed_scheme(engine: Engine, name: str, kind: str, database: Database) -> PairScheme:
    """A closure or an equivalence made from the facts that feed it."""
    scheme = Closure(name, threads=engine.threads) if kind == Closure.kind else Equivalence(name)
    feeding = database.tables[external_name(name)]
    assert isinstance(feeding, Table)
    scheme.widen(database.tables[name].bounds)
    scheme.keep_edges(feeding.columns())
    return scheme


def _union(name: str, database: Database, prepared: Prepared) -> Union:
    candidate = next(one for one in prepared.schemes[name].candidates if one.shape is Shape.UNION)
    parts = [Part(database.tables[s.relation], s.permutation) for s in candidate.sources]
    own = database.tables[names.own(name)]
    assert isinstance(own, Table)
    return Union(name, parts, own)


def _in_order(unions: list[str], prepared: Prepared) -> list[str]:
    """Unions after those that they read: in the order of strata."""
    strata = [name for stratum in prepared.plan().strata for name in stratum.relations]
    return sorted(unions, key=strata.index)


class Durable:
    """Writes what updates do to a store."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self.store = store
        self._engine = engine
        self._terms = term_counts(engine.dictionary)

    def commit(
        self,
        prepared: Prepared,
        loaded: Mapping[str, Table],
        database: Database,
        hidden: Sequence[str],
        stated: Sequence[tuple[str, Facts, Facts]],
        done: Sequence[Changes],
    ) -> None:
        """Make an update durable: by what it changed, in one step."""
        tables = stored_tables(loaded, database, hidden)
        known = self.store.tables
        changes = {
            name: TableChange([], 0, table.columns(), len(table), replaced=True)
            for name, table in tables.items()
            if name not in known
        }
        for name, gone, come in stated:
            if STATED + name in known and (gone[1] or come[1]):
                changes[STATED + name] = TableChange(gone[0], gone[1], come[0], come[1])
        listed = []  # the columns of tables live as long as these do
        for relation, net in table_nets(done).items():
            name = DERIVED + relation
            if name in tables and name in known:
                deleted, inserted = net()
                listed += [deleted, inserted]
                changes[name] = TableChange(
                    deleted.columns(), len(deleted), inserted.columns(), len(inserted)
                )
        is_same = prepared is self._engine.prepared
        self.store.commit(
            Commit(
                changes,
                export_terms(self._engine.dictionary, self._terms),
                None if is_same else meta_of(self._engine, prepared, database, self._engine.wanted),
                tuple(sorted(known - set(tables))),
            )
        )
        self._terms = term_counts(self._engine.dictionary)

    def rewrite(self, snapshot: Snapshot) -> None:
        """Make another state durable, in one step."""
        self.store.rewrite(snapshot)
        self._terms = term_counts(self._engine.dictionary)


def table_nets(done: Sequence[Changes]) -> dict[str, Callable[[], Listed]]:
    """By relation or hidden table what one or two changes come to, listed when it is asked for."""
    found: dict[str, Callable[[], Listed]] = {}
    for changes in done:
        for name, net in changes.nets().items():
            found[name] = partial(_composed, found[name], net) if name in found else partial(_listed, net)
    return found


def _listed(net: Net) -> Listed:
    return net.deleted, net.inserted


def _composed(first: Callable[[], Listed], second: Net) -> Listed:
    return composed(first(), _listed(second))
