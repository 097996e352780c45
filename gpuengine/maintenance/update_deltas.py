"""The deltas of one update so far, and relations as upper strata see them: before, after, and in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from enum import Enum

import numpy as np

from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.maintenance.delta import Delta, table_of
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.delta_view import DeltaView
from gpuengine.schemes.table import Table, as_table
from gpuengine.schemes.union import Part, Union, as_union

Columns = list[np.ndarray]


class View(Enum):
    """What is shown of a relation.

    BEFORE: as it was, with what was deleted as NEW. COMMON: what was there and still is. AFTER: as it is,
    with what was inserted as NEW. NOW: as it is, all OLD.
    """

    BEFORE = "before"
    COMMON = "common"
    AFTER = "after"
    NOW = "now"


class _Shown:
    """A relation with a delta, which stands as NOW when this is made, and how it is shown.

    A table is changed back and forth, which costs what the delta is; of other schemes there is a snapshot
    of what they were. `at_end` says that what was inserted are the last rows of a table.
    """

    def __init__(self, scheme: Scheme, delta: Delta, before: Scheme | None, *, at_end: bool) -> None:
        self.scheme = scheme
        self.delta = delta
        self.before = before
        self.view = View.NOW
        self._at_end = at_end

    def show(self, view: View) -> Scheme:
        """Show the relation in another way; what stands for it then."""
        if self.scheme.is_listed:
            self._turn(as_table(self.scheme), view)
        self.view = view
        return self._standing(view)

    def undo(self) -> None:
        """Make a table what it was before the change, for good."""
        table = as_table(self.scheme)
        self._at_end = False  # another change may have come after it, and been undone
        self._turn(table, View.BEFORE)
        table.take_in()

    def _standing(self, view: View) -> Scheme:
        if self.scheme.is_listed or view is View.NOW:
            return self.scheme
        if view is View.AFTER:
            return DeltaView(self.scheme, lambda: self.delta.plus)
        assert self.before is not None
        return DeltaView(self.before, lambda: self.delta.minus, with_delta=view is View.BEFORE)

    def _turn(self, table: Table, view: View) -> None:
        """Change the table step by step; `view` always says what it is, so that a failure can be undone."""
        if view is self.view:
            return
        if self.view is View.NOW:
            self._show_inserted(table)
            self.view = View.AFTER
        if view in (View.BEFORE, View.COMMON) or self.view is View.BEFORE:
            table.take_back()
            self.view = View.COMMON
        if view is View.BEFORE:
            _append(table, *self.delta.minus_facts)
        elif view is not View.COMMON and self.view is View.COMMON:
            _append(table, *self.delta.plus_facts)
            self.view = View.AFTER
        if view is View.NOW:
            table.take_in()

    def _show_inserted(self, table: Table) -> None:
        """Make what came the delta of a table that stands as NOW; from then on it is always at the end."""
        if self._at_end:
            table.show_last(self.delta.plus_facts[1])
        else:
            table.delete(*self.delta.plus_facts)
            self._at_end = True


def _append(table: Table, columns: Columns, count: int) -> None:
    """Add facts that are not there, as the delta; on failure none is added."""
    if not count:
        return
    before = len(table)
    try:
        table.insert(columns, count)
        table.advance()
        table.refresh_indexes()
    except DeviceMemoryError:
        table.retreat(before)
        raise
    except BaseException:
        table.delete(columns, count)
        table.take_back()
        raise


class UpdateDeltas(dict[str, Delta]):
    """The delta of every relation and hidden table that may have one, as an update has them so far.

    `tables` is the database: what stands there for each relation meanwhile is what `show` says.
    """

    def __init__(self, tables: MutableMapping[str, Scheme]) -> None:
        super().__init__()
        self._tables = tables
        self._shown: dict[str, _Shown] = {}
        self._parts: dict[str, tuple[tuple[str, tuple[int, ...]], ...]] = {}

    def add(
        self, scheme: Scheme, delta: Delta, before: Scheme | None = None, *, at_end: bool = False
    ) -> None:
        """A scheme has changed: `before` is a snapshot, of one that is no table.

        `at_end` says that what was inserted are the last rows of a table.
        """
        if delta:
            self[scheme.name] = delta
            self._shown[scheme.name] = _Shown(scheme, delta, before, at_end=at_end)

    def forget(self, relations: Iterable[str]) -> None:
        """Know nothing of relations whose change is undone by those who made it."""
        for name in relations:
            self.pop(name, None)
            self._shown.pop(name, None)
            self._parts.pop(name, None)

    def add_union(self, union: Union, parts: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
        """A union changes with its parts and its own table; what that comes to is found out when asked."""
        self._parts[union.name] = parts
        changed = [(Part(self._tables[part], permutation), part) for part, permutation in parts]
        changed.append((Part(union.own, tuple(range(union.arity))), union.own.name))
        deltas = [self[name] for _, name in changed if name in self]
        if deltas:
            self[union.name] = Delta.found(
                union.name,
                lambda: self._find_union(union, changed),
                may_lose=any(delta.may_lose for delta in deltas),
                may_gain=any(delta.may_gain for delta in deltas),
            )

    def _find_union(self, union: Union, parts: list[tuple[Part, str]]) -> tuple[Table, Table]:
        """What parts have lost that the union no longer has, and what they gained that it had not."""
        deleted, inserted = (Table(union.name, union.arity) for _ in range(2))
        for part, relation in parts:
            for facts, table in ((self.minus(relation), deleted), (self.plus(relation), inserted)):
                if facts is not None:
                    table.insert(part.outward(facts.columns()), len(facts))
        lost = ~union.contains(deleted.columns(), len(deleted)) if len(deleted) else np.zeros(0, np.bool_)
        fresh = ~self._had(parts, inserted)
        deleted, inserted = (
            table_of(union.name, union.arity, [column[kept] for column in facts.columns()], int(kept.sum()))
            for facts, kept in ((deleted, lost), (inserted, fresh))
        )
        return deleted, inserted

    def _had(self, parts: list[tuple[Part, str]], facts: Table) -> np.ndarray:
        """Which facts one of a union's parts had before the change: a mask."""
        had = np.zeros(len(facts), np.bool_)
        if not len(facts):
            return had
        for part, relation in parts:
            columns = part.inward(facts.columns())
            here = part.scheme.contains(columns, len(facts))
            inserted, deleted = self.plus(relation), self.minus(relation)
            if inserted is not None:
                here &= ~inserted.contains(columns, len(facts))
            if deleted is not None:
                here |= deleted.contains(columns, len(facts))
            had |= here
        return had

    def find_unions(self) -> None:
        """Find out what unions have lost and gained, before their parts change again."""
        for name in self._parts.keys() & self.keys():
            self[name].minus  # noqa: B018

    def minus(self, relation: str) -> Table | None:
        """What went from a relation, listed; None if nothing did."""
        delta = self.get(relation)
        return delta.minus if delta is not None and delta.may_lose and len(delta.minus) else None

    def plus(self, relation: str) -> Table | None:
        """What came into a relation, listed; None if nothing did."""
        delta = self.get(relation)
        return delta.plus if delta is not None and delta.may_gain and len(delta.plus) else None

    def may_show_new(self, relation: str, view: View) -> bool:
        """May something be NEW in a relation when it is shown as BEFORE or AFTER? Lists nothing.

        In a union that is also what only moves from one part to another.
        """
        delta = self.get(relation)
        return delta is not None and (delta.may_lose if view is View.BEFORE else delta.may_gain)

    def show(self, relations: frozenset[str], view: View) -> None:
        """Show the given relations, and those that they copy, in another way."""
        for name in self._with_parts(relations):
            if name in self._shown:
                self._tables[name] = self._shown[name].show(view)
        for name in self._unions_in_order(relations):
            union = as_union(self._tables[name])
            parts = [Part(self._tables[part], permutation) for part, permutation in self._parts[name]]
            self._tables[name] = Union(name, parts, as_table(self._tables[_own_of(union)]))

    def undo(self, stated: Mapping[str, Table]) -> None:
        """Make tables what they were before the update, for good, but for those of stated facts."""
        self.show(frozenset((*self._shown, *self._parts)), View.NOW)
        for name, shown in self._shown.items():
            if shown.scheme.is_listed and shown.scheme is not stated.get(name):
                shown.undo()

    def _with_parts(self, relations: frozenset[str]) -> list[str]:
        listed: dict[str, None] = {}
        todo = sorted(relations)
        while todo:
            name = todo.pop()
            if name not in listed:
                listed[name] = None
                if name in self._parts:
                    union = as_union(self._tables[name])
                    todo += [part for part, _ in self._parts[name]] + [_own_of(union)]
        return list(listed)

    def _unions_in_order(self, relations: frozenset[str]) -> list[str]:
        """The unions among what is shown, those that others read first."""
        ordered: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in self._parts and name not in ordered:
                for part, _ in self._parts[name]:
                    visit(part)
                ordered[name] = None

        for name in sorted(relations):
            visit(name)
        return list(ordered)


def _own_of(union: Union) -> str:
    return union.own.name
