"""A materialisation as a snapshot for the store, and back; and updates as commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuengine.evaluation.materialisation import Materialisation, view_aliases
from gpuengine.evaluation.options import Options
from gpuengine.evaluation.progress import Progress, SchemeChoice
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.evaluators import Evaluators
from gpuengine.maintenance import names
from gpuengine.maintenance.delta import Delta, Deltas
from gpuengine.maintenance.store import Commit, Snapshot, Store, StoredTable
from gpuengine.planning.linearise import external_name
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.shapes import Shape
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.equivalence import Equivalence
from gpuengine.schemes.pairs import PairScheme
from gpuengine.schemes.table import Table, as_table
from gpuengine.schemes.union import Part, Union
from gpuengine.terms.persistence import TermColumns, export_terms, restore_terms, term_counts

STATED, DERIVED = "stated/", "derived/"
"""What the store's tables hold: facts as the user stated them, or all facts of a relation."""


def stored_tables(of: Materialisation, hidden: Sequence[str]) -> dict[str, Table]:
    """The tables to keep, by the names that the store has for them.

    Relations without rules are what is stated of them. Closures and equivalences are made from the
    facts that feed them, and unions from others: `hidden` are the tables for that.
    """
    assert of.database is not None
    tables = {STATED + name: table for name, table in of.stated.items()}
    for name in (*of.stated, *hidden):
        scheme = of.database.tables[name]
        if scheme.is_listed and scheme is not of.stated.get(name):
            tables[DERIVED + name] = as_table(scheme)
    return tables


def meta_of(materialisation: Materialisation, options: Options) -> dict[str, Any]:
    """What else must be known to go on with a knowledge base."""
    prepared, relations, progress = (
        materialisation.prepared,
        materialisation.relations or {},
        materialisation.progress,
    )
    schemes = progress.schemes if progress is not None else {}
    kinds = {name: scheme.kind for name, scheme in relations.items() if name not in prepared.aliases}
    wanted = materialisation.wanted
    return {
        "program": prepared.text.to_json(),
        "asked_schemes": dict(options.schemes),
        "asked_evaluators": dict(options.evaluators),
        "modules": options.modules,
        "counting": options.counting,
        "anew_seconds": materialisation.anew_seconds,
        "wanted": None if wanted is None else list(wanted),
        "stored_as": {name: kind for name, kind in kinds.items() if kind != Table.kind},
        "why": {name: choice.why for name, choice in schemes.items()},
        "notes": dict(materialisation.notes),
    }


def snapshot_of(materialisation: Materialisation, hidden: Sequence[str], options: Options) -> Snapshot:
    """Everything that `restore` needs."""
    tables = {
        name: StoredTable(table.columns(), len(table))
        for name, table in stored_tables(materialisation, hidden).items()
    }
    terms = export_terms(materialisation.dictionary, {})
    return Snapshot(meta_of(materialisation, options), terms, tables)


def restore(empty: Materialisation, snapshot: Snapshot, options: Options) -> Materialisation:
    """What was saved; `empty` is made from the snapshot's program."""
    restore_terms(empty.dictionary, snapshot.terms)
    meta, prepared = snapshot.meta, empty.prepared
    database = Database(prepared.program, empty.dictionary)
    database.evaluators = Evaluators(prepared.chooser())
    stated = dict(empty.stated)
    for stored, table in snapshot.tables.items():
        if stored.startswith(STATED):
            name = stored.removeprefix(STATED)
            database.tables[name] = stated[name] = _table(name, table)
    for stored, table in snapshot.tables.items():
        if stored.startswith(DERIVED):
            name = stored.removeprefix(DERIVED)
            database.tables[name] = _table(name, table)
    kinds: Mapping[str, str] = meta["stored_as"]
    for name, kind in kinds.items():
        if kind != Union.kind:
            database.tables[name] = _fed_scheme(name, kind, database, options.threads)
    for name in _in_order([name for name, kind in kinds.items() if kind == Union.kind], prepared):
        database.tables[name] = _union(name, database, prepared)
    view_aliases(database, prepared)
    progress = Progress()
    for name, why in meta["why"].items():
        progress.schemes[name] = SchemeChoice(kinds.get(name, Table.kind), why)
    return replace(
        empty,
        stated=stated,
        database=database,
        wanted=None if meta["wanted"] is None else tuple(meta["wanted"]),
        progress=progress,
        anew_seconds=meta["anew_seconds"],
        notes=meta.get("notes", {}),
    )


def _table(name: str, stored: StoredTable) -> Table:
    table = Table(name, len(stored.columns))
    table.restore(stored.columns, stored.rows)
    return table


def _fed_scheme(name: str, kind: str, database: Database, threads: int) -> PairScheme:
    """A closure or an equivalence made from the facts that feed it."""
    scheme = Closure(name, threads=threads) if kind == Closure.kind else Equivalence(name)
    feeding = as_table(database.tables[external_name(name)])
    scheme.widen(database.tables[name].bounds)
    scheme.keep_edges(feeding.columns())
    return scheme


def _union(name: str, database: Database, prepared: Prepared) -> Union:
    candidate = next(one for one in prepared.schemes[name].candidates if one.shape is Shape.UNION)
    parts = [Part(database.tables[s.relation], s.permutation) for s in candidate.sources]
    return Union(name, parts, as_table(database.tables[names.own(name)]))


def _in_order(unions: list[str], prepared: Prepared) -> list[str]:
    """Unions after those that they read: in the order of strata."""
    strata = [name for stratum in prepared.plan().strata for name in stratum.relations]
    return sorted(unions, key=strata.index)


class Durable:
    """Writes what updates do to a store."""

    def __init__(self, store: Store, holds: Materialisation, options: Options) -> None:
        self.store = store
        self._options = options
        self._terms = term_counts(holds.dictionary)
        self._notes = holds.notes

    def commit(
        self,
        before: Materialisation,
        after: Materialisation,
        hidden: Sequence[str],
        stated: Sequence[Delta],
        deltas: Deltas,
    ) -> None:
        """Make an update durable: by what it changed, in one step."""
        tables = stored_tables(after, hidden)
        stored = self.store.tables
        changes: dict[str, Delta | StoredTable] = {
            name: StoredTable(table.columns(), len(table))
            for name, table in tables.items()
            if name not in stored
        }
        for delta in stated:
            name = STATED + delta.relation
            if name in stored and delta:
                changes[name] = delta
        for relation, delta in deltas.items():
            name = DERIVED + relation
            if name in tables and name in stored:
                changes[name] = delta
        is_same = before.prepared is after.prepared and after.notes == self._notes
        terms = export_terms(after.dictionary, self._terms)
        self.store.commit(
            Commit(
                changes,
                terms,
                None if is_same else meta_of(after, self._options),
                tuple(sorted(stored - set(tables))),
            )
        )
        self._note_terms(terms)
        self._notes = after.notes

    def rewrite(self, after: Materialisation, hidden: Sequence[str]) -> None:
        """Make another materialisation durable, in one step."""
        snapshot = snapshot_of(after, hidden, self._options)
        self.store.rewrite(snapshot)
        self._notes = after.notes
        self._note_terms(snapshot.terms)

    def _note_terms(self, terms: Mapping[str, TermColumns]) -> None:
        """These are in the store as well now; of others, which a query may have interned since, not all."""
        self._terms |= {space: columns.end for space, columns in terms.items()}
