"""The order of bodies with very many atoms, in time that is nearly linear in their length.

The cheapest next atom is kept in a heap and looked at again only when one of its variables becomes bound or
takes fewer values. What is neither an atom nor computes waits for its variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from gpuengine.language.program import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Variable,
    binds,
    literal_variables,
)
from gpuengine.planning.order import (
    Statistics,
    access_of,
    bound_columns,
    expected_matches,
    narrow,
    single_new_variable,
)
from gpuengine.planning.plan import Access, BodyPlan, Step

LONG = 64
"""Bodies with more atoms than this are long."""


def is_long(body: Sequence[Literal]) -> bool:
    """Has a body very many atoms, and besides them nothing that computes?"""
    if len(body) <= LONG or sum(isinstance(part, Atom) for part in body) <= LONG:
        return False
    return all(isinstance(part, Atom | Negation) or _only_compares(part) for part in body)


def _only_compares(literal: Literal) -> bool:
    return isinstance(literal, Comparison) and all(
        isinstance(side, Variable | Constant) for side in (literal.left, literal.right)
    )


def order_long_body(
    body: Sequence[Literal],
    statistics: Statistics,
    driver: int | None,
    given: frozenset[Variable] | None,
) -> BodyPlan:
    """Order a long body as `order_body` orders others greedily."""
    ordering = _Ordering(body, statistics, given)
    ordering.take_evaluable(range(len(body)))
    if driver is not None:
        ordering.place(driver)
    while (following := ordering.cheapest()) is not None:
        ordering.place(following)
    if given is not None:
        why = "driven by the bindings of its outer variables"
    else:
        first = ordering.steps[0].literal
        what = "the delta of " if driver is not None else ""
        start = f"starts from {what}{first.relation}; " if isinstance(first, Atom) else ""
        why = f"{start}the cheapest atom next"
    return BodyPlan(tuple(ordering.steps), ordering.cost, why)


class _Ordering:
    """A prefix of an order that grows; `steps` are those of the plan so far."""

    def __init__(
        self, body: Sequence[Literal], statistics: Statistics, given: frozenset[Variable] | None
    ) -> None:
        self._body, self._statistics, self._given = body, statistics, given
        self.steps: list[Step] = []
        self.cost, self._rows = 0.0, 1.0
        self._bound: set[Variable] = set(given or ())
        self._values: dict[Variable, float] = {}
        self._left = set(range(len(body)))
        self._mentions: dict[Variable, list[int]] = {}
        for position, literal in enumerate(body):
            for variable in literal_variables(literal):
                self._mentions.setdefault(variable, []).append(position)
        self._matches: dict[int, float] = {}
        for position, literal in enumerate(body):
            if isinstance(literal, Atom):
                self._matches[position] = self._expected(literal)
        self._heap = [(matches, position) for position, matches in self._matches.items()]
        heapify(self._heap)

    def cheapest(self) -> int | None:
        """The atom that is expected to match least, the first of several."""
        while self._heap:
            matches, position = heappop(self._heap)
            if position in self._left and self._matches[position] == matches:
                return position
        return None

    def place(self, position: int) -> None:
        """Read an atom next, with those that compete for its variable, and take what is evaluable then."""
        atom = self._body[position]
        assert isinstance(atom, Atom)
        drives = self._given is None and not self.steps
        access, columns = access_of(atom, self._bound, drives)
        alternatives = self._alternatives(position, atom) if access is Access.PROBE else ()
        self.cost += 0.0 if drives else self._rows
        self._rows *= self._expected(atom)
        self.cost += self._rows
        self._left -= {position, *alternatives}
        self.steps.append(Step(atom, position, access, columns, self._rows, alternatives))
        for read in (position, *alternatives):
            literal = self._body[read]
            assert isinstance(literal, Atom)
            self._take_in(literal)

    def _take_in(self, atom: Atom) -> None:
        """The variables of an atom are bound, to no more values than its columns have."""
        changed = narrow(self._values, atom, self._statistics)
        new = {arg for arg in atom.args if isinstance(arg, Variable)} - self._bound
        self._bound |= new
        self._look_again(changed | new)
        self.take_evaluable([i for variable in new for i in self._mentions[variable]])

    def take_evaluable(self, positions: Sequence[int] | range) -> None:
        """Those of the literals that can be evaluated by now, and what they make evaluable."""
        waiting = list(positions)
        while waiting:
            newly_bound: set[Variable] = set()
            for position in sorted(set(waiting) & self._left):
                literal = self._body[position]
                more = None if isinstance(literal, Atom) else binds(literal, self._bound)
                if more is None:
                    continue
                self._left.discard(position)
                self._bound |= more
                newly_bound |= more
                if isinstance(literal, Negation):
                    access, columns = access_of(literal.atom, self._bound, False)
                    self.steps.append(Step(literal, position, access, columns, self._rows))
                else:
                    self.steps.append(Step(literal, position, None, (), self._rows))
            self._look_again(newly_bound)
            waiting = [i for variable in newly_bound for i in self._mentions[variable]]

    def _look_again(self, variables: set[Variable]) -> None:
        for position in {i for variable in variables for i in self._mentions[variable]} & self._left:
            literal = self._body[position]
            if isinstance(literal, Atom):
                self._matches[position] = self._expected(literal)
                heappush(self._heap, (self._matches[position], position))

    def _expected(self, atom: Atom) -> float:
        return expected_matches(atom, self._bound, self._values, self._statistics)

    def _alternatives(self, position: int, atom: Atom) -> tuple[int, ...]:
        """Atoms that bind exactly the one new variable of `atom`, each by a probe."""
        new = single_new_variable(atom, self._bound)
        alternatives = []
        for other in self._mentions[new] if new is not None else ():
            literal = self._body[other]
            if other == position or other not in self._left or not isinstance(literal, Atom):
                continue
            if single_new_variable(literal, self._bound) == new and bound_columns(literal, self._bound):
                alternatives.append(other)
        return tuple(alternatives)
