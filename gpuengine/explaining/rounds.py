"""The heights of all facts, forth from what is stated: for goals that too many facts may lead to.

Every round applies all rules to what the rounds before have found, as semi-naive evaluation does, but without
strata: negations and aggregates read the materialisation, which is complete. So a fact comes in the round
of its least height, and the rows of each table, in order of arrival, tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpuengine.evaluation.rules.body import compile_body
from gpuengine.evaluation.rules.database import Database
from gpuengine.explaining.instances import Questions
from gpuengine.explaining.rules import WrittenRule, WrittenRules
from gpuengine.kernels.cpu.locator import RowLocator
from gpuengine.kernels.cpu.rows import Batch
from gpuengine.kernels.primitives import NONE
from gpuengine.language.program import AtomArg, Constant, Literal, Variable
from gpuengine.limits import charge
from gpuengine.limits import check as check_memory
from gpuengine.planning.order import order_body
from gpuengine.schemes.table import Table

UNPROVED = 1 << 30


class _Heights:
    """The facts of one relation in order of arrival; `ends` has how many there were after each round."""

    def __init__(self, relation: str, arity: int) -> None:
        self.table = Table(_name(relation), arity)
        self.coming = Table(relation, arity)
        self.ends: list[int] = []
        self._locator: RowLocator | None = None

    def propose(self, columns: Sequence[np.ndarray], count: int) -> None:
        """Facts of the round that is going on; those that are there already are left out."""
        if not count:
            return
        if len(self.table):
            new = ~np.asarray(self.table.contains(columns, count), np.bool_)
            columns, count = [column[new] for column in columns], int(np.count_nonzero(new))
        self.coming.insert(list(columns), count)

    def end_round(self) -> int:
        """How many facts have come."""
        count = len(self.coming)
        if count:
            self.table.insert(self.coming.columns(), count)
            self.coming = Table(self.coming.name, self.coming.arity)
        self.table.advance()
        self.ends.append(len(self.table))
        return count

    def heights(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """The heights of some facts, `UNPROVED` for those that have not come."""
        if not count or not len(self.table):
            return np.full(count, UNPROVED, np.int32)
        if not self.table.arity:
            return np.full(count, int(np.flatnonzero(self.ends)[0]), np.int32)
        if self._locator is None:
            self._locator = RowLocator(self.table.host_rows)
        if self._locator.count < len(self.table):
            self._locator.append(self._locator.count, len(self.table))
        rows = self._locator.locate(Batch(columns, count), 0, count)
        heights = np.searchsorted(self.ends, rows.astype(np.int64), side="right")
        return np.where(rows == NONE, UNPROVED, heights).astype(np.int32)


class Rounds:
    """Rounds over the relations that goals need; `paths` are chains whose facts come at a known height."""

    def __init__(
        self,
        rules: WrittenRules,
        questions: Questions,
        stated: Mapping[str, Table],
        needed: Iterable[str],
        paths: Mapping[str, tuple[Sequence[WrittenRule], int]],
    ) -> None:
        self._rules, self._questions, self._paths = rules, questions, paths
        self._stated = stated
        self._database = Database(rules.program, questions.dictionary, tables=questions.relations)
        self._stop = np.zeros(1, np.int64)
        self._number = 0
        self._is_over = False
        self._of: dict[str, _Heights] = {}
        for name in needed:
            if name in rules.derived:
                arity = len(rules.of(name)[0].head.args)
                self._of[name] = one = _Heights(name, arity)
                self._database.tables[one.table.name] = one.table
        self._growing = frozenset(one.table.name for one in self._of.values())

    def heights(self, relation: str, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """The heights of some facts as far as the rounds went."""
        if relation not in self._of:
            return np.zeros(count, np.int32)
        return self._of[relation].heights(columns, count)

    def serve(self, needed: Iterable[str]) -> bool:
        """Do they have the heights of all these relations?"""
        return all(name in self._of for name in needed if name in self._rules.derived)

    def run(self, is_done: Callable[[], bool]) -> None:
        """Go on until that is so, or nothing comes any more."""
        if not self._number and not self._is_over:
            self._begin()
        latest = max((height for _, height in self._paths.values()), default=0)
        while not self._is_over and not is_done():
            self._number += 1
            for name in self._of:
                for written in self._own_rules(name):
                    for place in written.deep:
                        self._propose_from(name, written, place)
            for name, (_, height) in self._paths.items():
                if name in self._of and height == self._number:
                    self._propose_relation(name)
            came = self._end_round()
            self._is_over = not came and self._number >= latest

    def _begin(self) -> None:
        """What is stated; and what follows from that alone is proposed for the first round."""
        for name, one in self._of.items():
            table = self._stated.get(name)
            if table is not None:
                one.propose(table.columns(), len(table))
        self._end_round()
        for name in self._of:
            for written in self._own_rules(name):
                if not written.deep:
                    self._propose_all(name, written)

    def _own_rules(self, name: str) -> Sequence[WrittenRule]:
        return self._paths[name][0] if name in self._paths else self._rules.of(name)

    def _end_round(self) -> int:
        return sum([one.end_round() for one in self._of.values()])

    def _propose_relation(self, name: str) -> None:
        scheme = self._questions.relations[name]
        charge(len(scheme) * 16, f"the facts of {name}")
        for batch in scheme.scan():
            check_memory("the heights of facts")
            self._of[name].propose(batch, len(batch[0]))

    def _propose_all(self, name: str, written: WrittenRule) -> None:
        variables = _variables(written.head.args)
        rows = self._questions.ask(written.rule.body, variables)
        self._propose(name, written, dict(zip(variables, rows.columns, strict=True)), rows.count)

    def _propose_from(self, name: str, written: WrittenRule, delta: int) -> None:
        """What follows with facts of the last round at one place, and older ones at those before it."""
        table = self._of[written.atom(delta).relation].table
        start, end = table.rows.delta
        if start == end:
            return
        body: list[Literal] = list(written.rule.body)
        for place in written.deep:
            atom = written.atom(place)
            body[place] = replace(atom, relation=_name(atom.relation))
        wanted = _variables(written.head.args)
        old = frozenset(place for place in written.deep if place < delta)
        plan = order_body(body, self._database, driver=delta)
        program = compile_body(
            body,
            plan,
            self._database,
            sink=wanted,
            stop=self._stop,
            delta=delta,
            old=old,
            growing=self._growing,
            exact=True,
            in_hindsight=True,
        )
        for chunk in program.collect(start, end):
            check_memory("the heights of facts")
            self._propose(name, written, chunk.columns, chunk.rows)

    def _propose(
        self, name: str, written: WrittenRule, columns: Mapping[Variable, np.ndarray], count: int
    ) -> None:
        head = []
        for arg in written.head.args:
            if isinstance(arg, Constant):
                head.append(np.full(count, self._questions.dictionary.intern_constant(arg), np.uint32))
            else:
                assert isinstance(arg, Variable)
                head.append(columns[arg])
        self._of[name].propose(head, count)


def _name(relation: str) -> str:
    return f"@by.{relation}"


def _variables(args: Sequence[AtomArg]) -> tuple[Variable, ...]:
    return tuple(dict.fromkeys(arg for arg in args if isinstance(arg, Variable)))
