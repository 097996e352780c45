"""The tables of one stratum while it is maintained: those of its relations, and those kept beside them."""

from __future__ import annotations

import numpy as np

from gpuengine.evaluation.bounds import flow_bounds
from gpuengine.evaluation.context import Context
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.maintenance import names
from gpuengine.maintenance.nets import PairNet, net_of
from gpuengine.maintenance.passing import facts_over
from gpuengine.maintenance.stratum_deltas import StratumDeltas
from gpuengine.maintenance.stratum_rules import StratumRules
from gpuengine.maintenance.transition import Changes, Transition
from gpuengine.schemes.changed import Changed, PairSnapshot
from gpuengine.schemes.contract import Domain, Scheme
from gpuengine.schemes.pairs import Gone, PairScheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Part, Union

_MOST_PASSING = 1 << 22
"""If more facts pass over edges that go, everything is computed anew."""


class SlowerThanAnew(Exception):
    """To compute everything anew is likely to be faster."""


class StratumTables:
    """Moves the facts of a stratum through an update: out, back and in; at the end upper strata are told.

    A closure or an equivalence follows the table that it is fed from. `read_above` are the relations that
    upper strata read.
    """

    def __init__(
        self, rules: StratumRules, deltas: StratumDeltas, context: Context, read_above: frozenset[str]
    ) -> None:
        self.rules = rules
        self.deltas = deltas
        self.database = context.database
        self.budget = context.budget
        self.read_above = read_above
        self._bounds: list[object] | None = None
        self._marks: dict[str, int] = {}
        self._before: dict[str, PairSnapshot] = {}
        self._stood_for: dict[str, Scheme] = {}
        self._gone: dict[str, list[Gone]] = {relation: [] for relation in rules.fed}
        self._come: dict[str, list[Gone]] = {relation: [] for relation in rules.fed}

    def make_missing(self) -> list[str]:
        """Make the tables that maintenance needs; which of those that rules derive into are new and empty."""
        tables = self.database.tables
        arities = {entry: tables[relation].arity for relation, entry in self.rules.entries.items()}
        arities |= {rule.head.relation: len(rule.head.args) for rule in self.rules.rules}
        missing = [name for name in self.rules.tables if name not in tables]
        for name in missing:
            tables[name] = Table(name, arities[name], CPU)
        for name, arity in arities.items():
            for hidden in (names.going(name), names.gone(name)):
                tables.setdefault(hidden, Table(hidden, arity, CPU))
        for name, arity in self.deltas.drivers.items():
            tables.setdefault(name, Table(name, arity, CPU))
        for name in self.rules.tables:
            table = self.table(name)
            table.move_to(CPU)
            table.maintained = True
        return missing

    def feed_schemes(self, filled: list[str]) -> None:
        """Have closures and equivalences keep all facts of tables that were filled; unions read theirs."""
        for relation, entry in self.rules.fed.items():
            if entry in filled:
                self.pairs(relation).keep_edges(self.table(entry).columns())
        for relation, parts in self.rules.parts.items():
            own = self.table(self.rules.entries[relation])
            members = [Part(self.database.tables[part], permutation) for part, permutation in parts]
            self.database.tables[relation] = Union(relation, members, own)

    def flow_bounds(self) -> None:
        """Have every table admit what rules can bring, if what they read admits more than last time."""
        bounds: list[object] = [self.database.tables[name].bounds for name in self.deltas.bounding]
        if bounds == self._bounds:
            return
        for name in self.rules.tables:
            for hidden in (names.going(name), names.gone(name)):
                self.table(hidden).widen(self.table(name).bounds)
        for projection in self.deltas.projections:
            source = self.database.tables[projection.relation].bounds
            self.table(projection.name).widen([source[c] for c in projection.columns])
        flow_bounds(self.deltas.all_rules, self.database)
        self._bounds = [self.database.tables[name].bounds for name in self.deltas.bounding]

    def remember_schemes(self) -> None:
        """Keep what closures and equivalences were, for upper strata; O(nodes) at most."""
        for relation in self.rules.fed:
            if relation not in self._before:
                both = relation in self.read_above
                self._before[relation] = PairSnapshot(self.pairs(relation), both_ways=both)

    def delete(self, name: str, columns: list[np.ndarray], count: int) -> None:
        """Make facts of a table NEW that go."""
        self.table(name).delete(columns, count)
        self.table(names.gone(name)).insert(columns, count)

    def delete_edges(self) -> None:
        """Have closures and equivalences follow what goes from the tables that they are fed from."""
        for relation, entry in self.rules.fed.items():
            self._delete_edges(relation, self.table(entry))

    def _delete_edges(self, relation: str, external: Table) -> None:
        """Have a closure or an equivalence follow its external facts."""
        start, end = external.rows.delta
        if start < end:
            scheme = self.pairs(relation)
            edges = [column[start:end].copy() for column in external.columns()]
            passing = self._passing(scheme, edges) if relation in self.deltas.reads_itself else None
            scheme.delete(edges, end - start)
            self._gone[relation].append(scheme.news())
            if passing is not None:
                self._stood_for[relation] = scheme
                self.database.tables[relation] = passing

    def _passing(self, scheme: PairScheme, edges: list[np.ndarray]) -> Changed:
        """What stands for a relation that its own stratum reads: NEW is all that edges that go support."""
        before = PairSnapshot(scheme, both_ways=True)
        facts = facts_over(before, edges, _MOST_PASSING)
        if facts is None:
            raise SlowerThanAnew
        return Changed(before, lambda: facts)

    def stand_back(self) -> None:
        self.database.tables.update(self._stood_for)
        self._stood_for.clear()

    def remove(self) -> None:
        self.stand_back()
        for name in self.rules.tables:
            self.table(name).take_back()
        for relation in self.rules.fed:
            scheme = self.pairs(relation)
            if scheme.count(Domain.NEW):
                scheme.remove()
                scheme.forget()

    def begin_inserting(self) -> None:
        """What is there now stays; what comes after it is new."""
        self.remember_schemes()
        for name in self.rules.tables:
            table = self.table(name)
            table.take_in()
            self._marks[name] = len(table)

    def advance(self) -> bool:
        """What was derived becomes NEW; is there any?"""
        any_new = False
        for name in self.rules.tables:
            table = self.table(name)
            any_new |= table.advance() > 0
            table.refresh_indexes()
        for relation, entry in self.rules.fed.items():
            external, scheme = self.table(entry), self.pairs(relation)
            start, end = external.rows.delta
            if start < end:
                scheme.insert([column[start:end].copy() for column in external.columns()], end - start)
                scheme.advance()
                self._come[relation].append(scheme.news())
            elif scheme.count(Domain.NEW):
                scheme.settle()
        return any_new

    def settle(self) -> None:
        for name in self.rules.tables:
            table = self.table(name)
            table.take_in()
        for relation in self.rules.fed:
            self.pairs(relation).settle()

    def note_changes(self, changes: Changes) -> None:
        """Tell upper strata the net change of each relation, and be ready for the next update."""
        for name in self.rules.tables:
            table, gone = self.table(name), self.table(names.gone(name))
            tail = [column[self._marks[name] :] for column in table.columns()]
            came = len(table) - self._marks[name]
            net = net_of(table, gone, tail, came)
            changes.add(Transition(table, net, at_end=len(net.inserted) == came))
        for relation in self.rules.fed:
            if relation in self._before:
                scheme, before = self.pairs(relation), self._before[relation]
                pairs = PairNet(before, scheme, self._gone[relation], self._come[relation], self.budget)
                changes.add(Transition(scheme, pairs, before))
        for relation, parts in self.rules.parts.items():
            union = self.database.tables[relation]
            assert isinstance(union, Union)
            changes.add_union(union, parts)
        self.forget()

    def forget(self) -> None:
        """Empty what only one update needs."""
        self._before.clear()
        self._marks.clear()
        for name in self.rules.tables:
            self.clear(names.going(name))
            self.clear(names.gone(name))
        for relation in self.rules.fed:
            self._gone[relation], self._come[relation] = [], []

    def undo(self) -> None:
        """After a failure in `run`: bring back what was there before it."""
        self.stand_back()
        for name in self.rules.tables:
            table, gone = self.table(name), self.table(names.gone(name))
            if name in self._marks:
                tail = [column[self._marks[name] :].copy() for column in table.columns()]
                count = len(table) - self._marks[name]
                table.delete(tail, count)
                table.take_back()
            else:
                table.settle()
            table.insert(gone.columns(), len(gone))
            table.take_in()
        for relation, entry in self.rules.fed.items():
            if relation in self._before:
                self.pairs(relation).rebuild(self.table(entry).columns())
        self.forget()

    def rebuild_schemes(self, changes: Changes) -> None:
        """After the tables have been undone: have closures and equivalences follow them again."""
        for relation, entry in self.rules.fed.items():
            if relation in changes.transitions or entry in changes.transitions:
                self.pairs(relation).rebuild(self.table(entry).columns())

    @property
    def touched(self) -> int:
        """How many facts the update has found to go or to come, so far."""
        going = sum(len(self.table(names.going(name))) for name in self.rules.tables)
        return going + sum(len(self.table(name)) - mark for name, mark in self._marks.items())

    def has_new(self, relation: str) -> bool:
        scheme = self.database.tables[relation]
        return isinstance(scheme, Union) or scheme.count(Domain.NEW) > 0

    def clear(self, name: str) -> Table:
        table = self.table(name)
        table.renew()
        table.take_back()
        return table

    def table(self, name: str) -> Table:
        table = self.database.tables[name]
        assert isinstance(table, Table)
        return table

    def pairs(self, name: str) -> PairScheme:
        scheme = self.database.tables[name]
        assert isinstance(scheme, PairScheme)
        return scheme
