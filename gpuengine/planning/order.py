"""In which order to evaluate a body: the cheapest by estimated bindings, from live statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Protocol

from gpuengine.errors import Span
from gpuengine.language.program import (
    NUMBER,
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Variable,
    Wildcard,
    binds,
    literal_variables,
)
from gpuengine.planning.fallible import can_fail
from gpuengine.planning.plan import Access, BodyPlan, Step

EXHAUSTIVE_ATOMS = 9
"""Bodies with at most this many atoms are ordered by dynamic programming, longer ones greedily."""
_LOOK_UP_GAIN = 4.0
"""Computing what can fail before all atoms are read must be expected to cost so many times less."""
_ZERO = Constant(0, NUMBER)
_NOTHING = Comparison("=", _ZERO, _ZERO, Span("", 0, 0, 0, 0))
"""Stands for a literal that is left out, so that the others keep their places."""


class Statistics(Protocol):
    """What the cost model asks of the data."""

    def count(self, relation: str) -> float: ...

    def distinct(self, relation: str, column: int) -> float: ...

    def skew(self, relation: str, column: int) -> float:
        """How many times as many facts a fact shares its value with as if all values were as frequent."""


@dataclass(frozen=True, slots=True)
class _Partial:
    """A prefix of an order: the atoms placed, the variables bound, the bindings expected, the cost so far.

    `values` holds for the variables of atoms how many values they can take.
    """

    order: tuple[int, ...]
    bound: frozenset[Variable]
    rows: float
    cost: float
    values: Mapping[Variable, float]


def order_body(
    body: Sequence[Literal],
    statistics: Statistics,
    *,
    driver: int | None = None,
    given: frozenset[Variable] | None = None,
) -> BodyPlan:
    """Order a body so that every literal is evaluable in its turn.

    `driver` is the atom that must come first (the delta). `given` are variables bound from outside,
    whose bindings drive the body instead of an atom. Filters run as soon as their variables are
    bound; aggregates after the atoms; what can fail last, on what passes all else. An atom that has the value
    of what can fail is read before it, unless it is clearly cheaper to compute the value and look it up.
    """
    from gpuengine.planning.long_bodies import is_long, order_long_body

    if len(body) == 1 and given is None and isinstance(body[0], Atom):
        return _read_only(body[0], driver, statistics)
    if is_long(body):
        return order_long_body(body, statistics, driver, given)

    def planned(waiting: bool) -> BodyPlan:
        start = _Partial((), given or frozenset(), 1.0, 0.0, {})
        best = _staged(
            body,
            start,
            driver,
            lambda safe, atoms, placed: _search(safe, atoms, placed, statistics, driver),
            waiting=waiting,
        )
        steps, cost = _steps(body, best.order, given, statistics)
        return BodyPlan(tuple(steps), cost, _reason(body, best.order, driver, given, statistics))

    plan = planned(waiting=False)
    if not any(can_fail(part) for part in body):
        return plan
    looking_up = planned(waiting=True)
    return looking_up if _LOOK_UP_GAIN * looking_up.cost < plan.cost else plan


def _read_only(atom: Atom, driver: int | None, statistics: Statistics) -> BodyPlan:
    """The plan of a body that is one atom, where there is nothing to choose: most rules of ontologies."""
    rows = expected_matches(atom, frozenset(), {}, statistics)
    step = Step(atom, 0, Access.DRIVE, bound_columns(atom, frozenset()), rows)
    return BodyPlan((step,), rows, _reason((atom,), (0,), driver, None, statistics))


def order_as_written(
    body: Sequence[Literal], statistics: Statistics, *, driver: int | None = None
) -> BodyPlan:
    """The atoms from left to right, after the delta if there is one; no two of them compete.

    Only atoms that nothing bound so far is part of have to wait until one is, as after the delta they may.
    """

    def extended(safe: Sequence[Literal], atoms: list[int], placed: _Partial) -> _Partial:
        waiting = [i for i in atoms if i not in placed.order]
        if driver in waiting:
            waiting.remove(driver)
            placed = _extend(safe, placed, driver, statistics)
        while waiting:
            connected = (i for i in waiting if _reads_bound(body[i], placed.bound))
            following = next(connected, waiting[0])
            waiting.remove(following)
            placed = _extend(safe, placed, following, statistics)
        return placed

    start = _Partial((), frozenset(), 1.0, 0.0, {})
    placed = _staged(body, start, driver, extended, waiting=False)
    steps, cost = _steps(body, placed.order, None, statistics, compete=False)
    return BodyPlan(tuple(steps), cost, "from left to right, as written")


def _staged(
    body: Sequence[Literal],
    start: _Partial,
    driver: int | None,
    extended: Callable[[Sequence[Literal], list[int], _Partial], _Partial],
    *,
    waiting: bool,
) -> _Partial:
    """An order of the atoms and of the literals that can fail, each of these as late as possible.

    `extended` places atoms, and may rely on all of the body it is given. With `waiting`, atoms that have the
    value of what can fail wait until it is computed.
    """
    late = [i for i, part in enumerate(body) if can_fail(part)]
    atoms = [i for i, part in enumerate(body) if isinstance(part, Atom)]
    if not late:
        return extended(body, atoms, start)
    safe = [_NOTHING if i in late else part for i, part in enumerate(body)]
    unread = _sharing(body, safe, start.bound) - {driver} if waiting else set()
    placed = start
    while late or unread:
        placed = extended(safe, [i for i in atoms if i not in unread], placed)
        following = _next_fallible(body, late, _with_aggregates(safe, placed.bound))
        if following is None:
            unread.clear()
            placed = extended(safe, atoms, placed)
            following = _next_fallible(body, late, _with_aggregates(safe, placed.bound))
            if following is None:
                break
        late.remove(following)
        before = _with_aggregates(safe, placed.bound)
        bound = _with_aggregates(safe, before | (binds(body[following], before) or frozenset()))
        unread = {i for i in unread if not (bound - before) & literal_variables(body[i])}
        placed = replace(placed, order=(*placed.order, following), bound=bound)
    return extended(safe, atoms, placed)


def _sharing(body: Sequence[Literal], safe: Sequence[Literal], given: frozenset[Variable]) -> set[int]:
    """The atoms that have a value which what can fail computes, and are not needed to compute it.

    `safe` is the body without what can fail.
    """
    sharing: set[int] = set()
    computed = frozenset().union(*(literal_variables(part) for part in body if not isinstance(part, Atom)))
    atoms = {i: literal_variables(part) for i, part in enumerate(body) if isinstance(part, Atom)}
    for i, variables in atoms.items():
        if variables & computed:
            others = given.union(*(atoms[j] for j in atoms if j != i and j not in sharing))
            if (_with_aggregates(body, others) - _with_aggregates(safe, others)) & variables:
                sharing.add(i)
    return sharing


def _next_fallible(body: Sequence[Literal], late: list[int], bound: frozenset[Variable]) -> int | None:
    """The first that is evaluable and filters, or whose value another literal reads: it may guard others."""
    evaluable = {i: more for i in late if (more := binds(body[i], bound)) is not None}
    for i, more in evaluable.items():
        others = (part for j, part in enumerate(body) if j != i)
        if not more or any(more & literal_variables(other) for other in others):
            return i
    return next(iter(evaluable), None)


def _with_aggregates(body: Sequence[Literal], bound: frozenset[Variable]) -> frozenset[Variable]:
    """What is bound once everything that is evaluable is evaluated, but for atoms."""
    progress = True
    while progress:
        progress = False
        for literal in body:
            more = None if isinstance(literal, Atom) else binds(literal, bound)
            if more:
                bound |= more
                progress = True
    return bound


def _reads_bound(literal: Literal, bound: frozenset[Variable]) -> bool:
    assert isinstance(literal, Atom)
    return bool(bound_columns(literal, bound))


def _search(
    body: Sequence[Literal],
    atoms: list[int],
    start: _Partial,
    statistics: Statistics,
    driver: int | None,
) -> _Partial:
    start = _settle(body, start)
    if driver is not None and driver not in start.order:
        start = _extend(body, start, driver, statistics)
    remaining = sum(atom not in start.order for atom in atoms)
    frontier: dict[frozenset[int], _Partial] = {frozenset(start.order): start}
    width = None if remaining <= EXHAUSTIVE_ATOMS else 1
    for _ in range(remaining):
        following: dict[frozenset[int], _Partial] = {}
        for placed, partial in frontier.items():
            for atom in atoms:
                if atom not in placed:
                    extended = _extend(body, partial, atom, statistics)
                    key = placed | {atom}
                    if key not in following or extended.cost < following[key].cost:
                        following[key] = extended
        if width is not None:
            cheapest = min(following, key=lambda key: following[key].cost)
            following = {cheapest: following[cheapest]}
        frontier = following
    return next(iter(frontier.values()))


def _extend(body: Sequence[Literal], partial: _Partial, atom: int, statistics: Statistics) -> _Partial:
    literal = body[atom]
    assert isinstance(literal, Atom)
    first = not partial.order and not partial.bound
    produced = partial.rows * expected_matches(literal, partial.bound, partial.values, statistics)
    # A probe costs about as much as reading a match; an unconnected scan reads everything each time.
    cost = partial.cost + (0.0 if first else partial.rows) + produced
    bound = partial.bound | {arg for arg in literal.args if isinstance(arg, Variable)}
    values = _narrow(partial.values, literal, statistics)
    return _settle(body, _Partial((*partial.order, atom), bound, produced, cost, values))


def _narrow(values: Mapping[Variable, float], atom: Atom, statistics: Statistics) -> Mapping[Variable, float]:
    """After reading `atom`, its variables take at most as many values as its columns have."""
    result = dict(values)
    narrow(result, atom, statistics)
    return result


def narrow(values: dict[Variable, float], atom: Atom, statistics: Statistics) -> set[Variable]:
    """Note how many values the variables of `atom` can take; those of which that is fewer than before."""
    changed = set()
    for column, arg in enumerate(atom.args):
        if isinstance(arg, Variable):
            distinct = statistics.distinct(atom.relation, column)
            if arg not in values or distinct < values[arg]:
                values[arg] = distinct
                changed.add(arg)
    return changed


def _settle(body: Sequence[Literal], partial: _Partial) -> _Partial:
    """Take in what becomes bound by equations."""
    bound = partial.bound
    changed = True
    while changed:
        changed = False
        for literal in body:
            if isinstance(literal, Comparison) and literal.op in ("=", "=="):
                more = binds(literal, bound)
                if more:
                    bound |= more
                    changed = True
    return replace(partial, bound=bound) if bound != partial.bound else partial


def bound_columns(atom: Atom, bound: Set[Variable]) -> tuple[int, ...]:
    """Columns whose value is known before the atom is read: constants and bound variables."""
    return tuple(
        c
        for c, arg in enumerate(atom.args)
        if not isinstance(arg, Wildcard) and (not isinstance(arg, Variable) or arg in bound)
    )


def expected_matches(
    atom: Atom, bound: Set[Variable], values: Mapping[Variable, float], statistics: Statistics
) -> float:
    """Expected matches for one binding.

    A value that comes from a column with more distinct values than this one often has no match here.
    """
    columns = bound_columns(atom, bound)
    matches = statistics.count(atom.relation)
    for column in columns:
        arg = atom.args[column]
        seen = values.get(arg, 1.0) if isinstance(arg, Variable) else 1.0
        matches /= max(statistics.distinct(atom.relation, column), seen, 1.0)
    new = [arg for c, arg in enumerate(atom.args) if c not in columns and isinstance(arg, Variable)]
    return matches if new else min(matches, 1.0)


def access_of(atom: Atom, bound: Set[Variable], first: bool) -> tuple[Access, tuple[int, ...]]:
    """How an atom is read, and its columns that are known before."""
    columns = bound_columns(atom, bound)
    if first:
        return Access.DRIVE, columns
    if len(columns) == len(atom.args):
        return Access.CHECK, columns
    if all(isinstance(arg, Wildcard) for c, arg in enumerate(atom.args) if c not in columns):
        return Access.EXISTS, columns
    return (Access.PROBE if columns else Access.SCAN), columns


def _steps(
    body: Sequence[Literal],
    order: tuple[int, ...],
    given: frozenset[Variable] | None,
    statistics: Statistics,
    *,
    compete: bool = True,
) -> tuple[list[Step], float]:
    """Interleave the ordered atoms with everything that becomes evaluable on the way."""
    bound = given or frozenset()
    values: Mapping[Variable, float] = {}
    steps: list[Step] = []
    ordered = frozenset(order)
    rest = [i for i, part in enumerate(body) if not isinstance(part, Atom) and i not in ordered]
    rows, cost = 1.0, 0.0

    def take_evaluable(aggregates: bool) -> None:
        nonlocal bound
        progress = True
        while progress:
            progress = False
            for i in list(rest):
                literal = body[i]
                if isinstance(literal, Aggregate) and not aggregates:
                    continue
                more = binds(literal, bound)
                if more is not None:
                    bound |= more
                    rest.remove(i)
                    steps.append(_plain_step(literal, i, bound, rows))
                    progress = True

    if given is not None or not order or not isinstance(body[order[0]], Atom):
        take_evaluable(aggregates=False)
    queue = list(order)
    while queue:
        position = queue.pop(0)
        atom = body[position]
        if not isinstance(atom, Atom):
            take_evaluable(aggregates=True)
            bound |= binds(atom, bound) or frozenset()
            steps.append(_plain_step(atom, position, bound, rows))
            take_evaluable(aggregates=False)
            continue
        drives = given is None and not any(step.access is Access.DRIVE for step in steps) and not steps
        access, columns = access_of(atom, bound, drives)
        cost += 0.0 if drives else rows
        rows *= expected_matches(atom, bound, values, statistics)
        values = _narrow(values, atom, statistics)
        cost += rows
        competes = compete and access is Access.PROBE
        alternatives = _alternatives(body, atom, queue, bound) if competes else ()
        for other in alternatives:
            queue.remove(other)
        bound |= {arg for arg in atom.args if isinstance(arg, Variable)}
        steps.append(Step(atom, position, access, columns, rows, alternatives))
        take_evaluable(aggregates=False)
    take_evaluable(aggregates=True)
    return steps, cost


def _plain_step(literal: Literal, position: int, bound: frozenset[Variable], rows: float) -> Step:
    if isinstance(literal, Negation):
        access, columns = access_of(literal.atom, bound, first=False)
        return Step(literal, position, access, columns, rows)
    return Step(literal, position, None, (), rows)


def _alternatives(
    body: Sequence[Literal], atom: Atom, queue: list[int], bound: frozenset[Variable]
) -> tuple[int, ...]:
    """Later atoms that bind exactly the one new variable of `atom`, each by a probe."""
    new = single_new_variable(atom, bound)
    if new is None:
        return ()
    alternatives = []
    for other in queue:
        literal = body[other]
        if not isinstance(literal, Atom):
            break
        if single_new_variable(literal, bound) == new and bound_columns(literal, bound):
            alternatives.append(other)
    return tuple(alternatives)


def single_new_variable(atom: Atom, bound: Set[Variable]) -> Variable | None:
    """The atom's only unbound argument, if that is one variable in one place of at most three."""
    unbound = [arg for arg in atom.args if not isinstance(arg, Variable) or arg not in bound]
    unbound = [arg for arg in unbound if isinstance(arg, Variable | Wildcard)]
    if len(unbound) == 1 and isinstance(unbound[0], Variable) and len(atom.args) <= 3:
        return unbound[0]
    return None


def _reason(
    body: Sequence[Literal],
    order: tuple[int, ...],
    driver: int | None,
    given: frozenset[Variable] | None,
    statistics: Statistics,
) -> str:
    if given is not None:
        return "driven by the bindings of its outer variables"
    if not order:
        return "no atom to read"
    first = body[order[0]]
    if not isinstance(first, Atom):
        return "no atom to read first"
    if driver is not None:
        start = f"starts from the delta of {first.relation}"
    else:
        start = f"starts from {first.relation} ({statistics.count(first.relation):,.0f} facts)"
    atoms = sum(isinstance(body[i], Atom) for i in order)
    return start if atoms == 1 else f"{start}; cheapest of the orders by expected bindings"
