"""Naive bottom-up evaluation of typed rules.

Values are int, float and, for symbols, bytes (see values.py); a record or ADT value is a tuple that begins
with its tag, nil is None. A binding maps names to values.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from graphlib import TopologicalSorter
from itertools import product
from typing import Any

from tests.oracle.functors import apply, can_fail, span, wrap
from tests.oracle.syntax import (
    Agg,
    Atom,
    Bool,
    Call,
    Compare,
    Const,
    Lattice,
    Not,
    Pack,
    Rule,
    Var,
    Wild,
    has,
    variables,
)
from tests.oracle.values import NAN, canonical, total

Row = tuple[Any, ...]
Facts = dict[str, set[Row]]
Binding = dict[str, Any]
Bound = frozenset[str]


class Known:
    """The facts so far, and indexes of them, each dropped when its relation grows."""

    def __init__(self, facts: Mapping[str, Iterable[Row]]) -> None:
        self.facts: Facts = {name: set(rows) for name, rows in facts.items()}
        self._indexes: dict[str, dict[tuple[int, ...], dict[Row, list[Row]]]] = {}

    def update(self, name: str, rows: set[Row]) -> bool:
        """Add rows; is any of them new?"""
        if rows <= self.facts[name]:
            return False
        self.facts[name] = self.facts[name] | rows
        self._indexes.pop(name, None)
        return True

    def replace(self, name: str, rows: set[Row]) -> bool:
        """Have other rows; are they others?"""
        changed = rows != self.facts[name]
        self.facts[name] = rows
        self._indexes.pop(name, None)
        return changed

    def matching(self, name: str, places: tuple[int, ...], values: Row) -> Iterable[Row]:
        """The rows that have these values at these places."""
        if not places:
            return self.facts[name]
        indexes = self._indexes.setdefault(name, {})
        if places not in indexes:
            index = indexes[places] = {}
            for row in self.facts[name]:
                index.setdefault(tuple(row[place] for place in places), []).append(row)
        return indexes[places].get(values, ())


class Evaluator:
    """Evaluates bodies over what is known; atoms of `inlines` stand for the bodies of their rules."""

    def __init__(self, known: Known, inlines: Mapping[str, list[Rule]]) -> None:
        self.known = known
        self.inlines = inlines
        self._orders: dict[tuple[int, Bound], tuple[list[Any] | None, Any]] = {}

    def consequences(self, rule: Rule) -> Iterator[Row]:
        for binding in self.solutions(rule.body, {}):
            yield from product(*(self._values(arg, binding) for arg in rule.head.args))

    def solutions(self, body: tuple[Any, ...], binding: Binding) -> Iterator[Binding]:
        """Every extension of `binding` that makes all literals of `body` true."""
        order = self.order(body, frozenset(binding))
        assert order is not None, f"not grounded: {body}"
        yield from self._solve(order, 0, binding)

    def _solve(self, order: list[Any], place: int, binding: Binding) -> Iterator[Binding]:
        if place == len(order):
            yield binding
            return
        for extended in self._extensions(order[place], binding):
            yield from self._solve(order, place + 1, extended)

    # -- the order of literals -------------------------------------------------------------------

    def order(self, body: tuple[Any, ...], bound: Bound) -> list[Any] | None:
        """The literals so that each can be evaluated after those before it; None if there is no such order.

        What can fail comes as late as possible, so that every other literal guards it.
        """
        key = (id(body), bound)
        if key not in self._orders:
            self._orders[key] = (self._find_order(body, bound), body)  # the body stays, so its id is its own
        return self._orders[key][0]

    def _find_order(self, body: tuple[Any, ...], bound: Bound) -> list[Any] | None:
        waiting, order = list(body), []
        while waiting:
            ready = [
                (literal, new) for literal in waiting if (new := self._binds(literal, bound)) is not None
            ]
            if not ready:  # an extremum that nothing else gives its outer variables binds them itself
                ready = [(part, new) for part in waiting if (new := self._witnesses(part, bound)) is not None]
            if not ready:
                return None

            def rank(choice: tuple[Any, Bound], bound: Bound = bound) -> tuple[bool, bool, bool, int]:
                literal, _ = choice
                shared = len(variables(literal) & bound)
                return (
                    has(literal, _can_fail),
                    _compares_floats(literal),
                    isinstance(literal, Atom),
                    -shared,
                )

            chosen, new = min(ready, key=rank)
            waiting = [literal for literal in waiting if literal is not chosen]
            order.append(chosen)
            bound |= new
        return order

    def _binds(self, literal: Any, bound: Bound) -> Bound | None:
        """What a literal binds when `bound` is bound; None if it can't be evaluated yet."""
        mentioned = variables(literal)
        if isinstance(literal, Atom):
            if literal.relation in self.inlines and not self._can_call(literal, bound):
                return None
            return frozenset(mentioned - bound)
        if isinstance(literal, Compare) and literal.op == "=":
            for pattern, source in ((literal.left, literal.right), (literal.right, literal.left)):
                if _is_known(source, bound) and _is_pattern(pattern, bound):
                    return frozenset(variables(pattern) - bound)
            return None
        return frozenset() if mentioned <= bound else None

    def _witnesses(self, literal: Any, bound: Bound) -> Bound | None:
        """What ``result = min x : { .. }`` binds where its outer variables are not all bound."""
        sides = _extremum(literal)
        if sides is None:
            return None
        aggregate, result = sides
        given = frozenset(aggregate.outer & bound)
        inside = set(given).union(*(variables(part) for part in aggregate.body))
        if self.order(aggregate.body, given) is None or not aggregate.outer <= inside:
            return None
        return frozenset((aggregate.outer | variables(result)) - bound)

    def _reached(self, aggregate: Agg, result: Any, binding: Binding) -> Iterator[Binding]:
        """The bindings of the outer variables with which an extremum is reached."""
        given = {name: binding[name] for name in aggregate.outer if name in binding}
        reached = [
            (value, found)
            for found in self.solutions(aggregate.body, given)
            for value in self._values(aggregate.target, found)
        ]
        comparable = [value for value, _ in reached if value is not NAN] or [value for value, _ in reached]
        if comparable:
            best = min(comparable) if aggregate.op == "min" else max(comparable)
            for value, found in reached:
                if value is best or value == best:
                    outer = {name: found[name] for name in aggregate.outer}
                    extended = self._unify(result, best, {**binding, **outer})
                    if extended is not None:
                        yield extended

    def _can_call(self, call: Atom, bound: Bound) -> bool:
        """Do all bodies of an inlined relation bind what the call leaves open?"""
        return all(
            self.order(rule.body, self._formals(rule, call, bound)) is not None
            and variables(rule.head) <= self._all_bound(rule, self._formals(rule, call, bound))
            for rule in self.inlines[call.relation]
        )

    def _formals(self, rule: Rule, call: Atom, bound: Bound) -> Bound:
        pairs = zip(rule.head.args, call.args, strict=True)
        return frozenset(
            formal.name
            for formal, actual in pairs
            if isinstance(formal, Var) and not isinstance(actual, Wild) and variables(actual) <= bound
        )

    def _all_bound(self, rule: Rule, bound: Bound) -> set[str]:
        return set(bound).union(*(variables(literal) for literal in rule.body))

    # -- literals --------------------------------------------------------------------------------

    def _extensions(self, literal: Any, binding: Binding) -> Iterator[Binding]:
        """Every extension of `binding` that makes one literal true."""
        if isinstance(literal, Atom):
            yield from self._matches(literal, binding)
        elif isinstance(literal, Not):
            if not any(True for _ in self._negated(literal.term, binding)):
                yield binding
        elif isinstance(literal, Bool):
            if literal.value:
                yield binding
        elif literal.op == "=":
            yield from self._equations(literal, binding)
        else:
            sides = (self._values(literal.left, binding), self._values(literal.right, binding))
            if any(COMPARISONS[literal.op](left, right) for left, right in product(*sides)):
                yield binding

    def _matches(self, atom: Atom, binding: Binding) -> Iterator[Binding]:
        if atom.relation in self.inlines:
            yield from self._calls(atom, binding)
            return
        fixed = {
            place: arg.value if isinstance(arg, Const) else binding[arg.name]
            for place, arg in enumerate(atom.args)
            if isinstance(arg, Const) or (isinstance(arg, Var) and arg.name in binding)
        }
        for row in self.known.matching(atom.relation, tuple(fixed), tuple(fixed.values())):
            extended = self._unify_all(atom.args, row, binding)
            if extended is not None:
                yield extended

    def _negated(self, atom: Atom, binding: Binding) -> Iterator[Binding]:
        """What an atom matches whose arguments are computed first."""
        args = tuple(
            arg if isinstance(arg, Wild | Pack) else Const(next(iter(self._values(arg, binding))), "")
            for arg in atom.args
        )
        return self._matches(Atom(atom.relation, args), binding)

    def _calls(self, call: Atom, binding: Binding) -> Iterator[Binding]:
        """The distinct answers of an inlined relation, whose rules are solved for the call's arguments."""
        answers: set[Row] = set()
        for rule in self.inlines[call.relation]:
            given: Binding | None = {}
            for formal, actual in zip(rule.head.args, call.args, strict=True):
                is_open = isinstance(actual, Wild) or not variables(actual) <= binding.keys()
                if given is not None and isinstance(formal, Var) and not is_open:
                    given = self._unify(formal, next(iter(self._values(actual, binding))), given)
            if given is not None:
                for found in self.solutions(rule.body, given):
                    answers |= set(product(*(self._values(arg, found) for arg in rule.head.args)))
        for row in answers:
            extended = self._unify_all(call.args, row, binding)
            if extended is not None:
                yield extended

    def _equations(self, literal: Compare, binding: Binding) -> Iterator[Binding]:
        """``left = right``: a test where both are known (of floats by value), else one side is bound."""
        bound = frozenset(binding)
        sides = _extremum(literal)
        if sides is not None and not sides[0].outer <= bound:
            yield from self._reached(*sides, binding)
            return
        if _is_known(literal.left, bound) and _is_known(literal.right, bound):
            sides = (self._values(literal.left, binding), self._values(literal.right, binding))
            same = (
                (lambda a, b: float(a) == float(b))
                if literal.kind == "float"
                else (lambda a, b: a is b or a == b)
            )
            yield from ([binding] if any(same(*pair) for pair in product(*sides)) else [])
            return
        pattern, source = literal.left, literal.right
        if not _is_known(source, bound):
            pattern, source = source, pattern
        for value in self._values(source, binding):
            extended = self._unify(pattern, value, binding)
            if extended is not None:
                yield extended

    # -- expressions -----------------------------------------------------------------------------

    def _values(self, term: Any, binding: Binding) -> Iterable[Any]:
        """All values of an expression: of ``range`` any number, of an aggregate of nothing perhaps none."""
        if isinstance(term, Var):
            return (binding[term.name],)
        if isinstance(term, Const):
            return (term.value,)
        if isinstance(term, Agg):
            return self._aggregate(term, binding)
        args = product(*(self._values(arg, binding) for arg in term.args))
        if isinstance(term, Pack):
            return ((term.tag, *parts) for parts in args)
        if term.op == "range":
            return (value for parts in args for value in span(term.kind, *parts))
        return [apply(term.op, term.kind, term.result, list(parts)) for parts in args]

    def _aggregate(self, term: Agg, binding: Binding) -> Iterable[Any]:
        """Over the distinct bindings of the body's variables, the outer ones given."""
        outer = {name: binding[name] for name in term.outer}
        found = {tuple(sorted(b.items(), key=_by_name)): b for b in self.solutions(term.body, outer)}
        if term.op == "count":
            return (len(found),)
        values = [value for b in found.values() for value in self._values(term.target, b)]
        if term.op == "sum":
            return (total(values) if term.kind == "float" else wrap(sum(values), term.kind),)
        if not values:
            return ()
        if term.op == "mean":
            return (canonical(total(map(float, values)) / len(values)),)
        comparable = [value for value in values if value is not NAN] or values
        return (min(comparable) if term.op == "min" else max(comparable),)

    # -- matching --------------------------------------------------------------------------------

    def _unify_all(self, patterns: tuple[Any, ...], values: Row, binding: Binding) -> Binding | None:
        extended: Binding | None = binding
        for pattern, value in zip(patterns, values, strict=True):
            if extended is None:
                return None
            extended = self._unify(pattern, value, extended)
        return extended

    def _unify(self, pattern: Any, value: Any, binding: Binding) -> Binding | None:
        """The binding under which a pattern is this value, if there is one."""
        if isinstance(pattern, Wild):
            return binding
        if isinstance(pattern, Var) and pattern.name not in binding:
            return {**binding, pattern.name: value}
        if isinstance(pattern, Pack):
            if value is None or value[0] != pattern.tag:
                return None
            return self._unify_all(pattern.args, value[1:], binding)
        return binding if value in tuple(self._values(pattern, binding)) else None


def _extremum(literal: Any) -> tuple[Agg, Any] | None:
    """The aggregate and the other side of ``result = min x : { .. }``."""
    if isinstance(literal, Compare) and literal.op == "=":
        for aggregate, result in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(aggregate, Agg) and aggregate.op in ("min", "max"):
                return aggregate, result
    return None


def _by_name(item: tuple[str, Any]) -> str:
    return item[0]


def _can_fail(node: Any) -> bool:
    return isinstance(node, Call) and can_fail(node.op, node.kind, node.result)


def _compares_floats(literal: Any) -> bool:
    """Is this an equation by value, which must not bind what an atom can bind?"""
    return isinstance(literal, Compare) and literal.op == "=" and literal.kind == "float"


def _is_known(term: Any, bound: Bound) -> bool:
    """Can a term be computed?"""
    if isinstance(term, Pack):
        return all(_is_known(arg, bound) for arg in term.args)
    return not isinstance(term, Wild) and variables(term) <= bound


def _is_pattern(term: Any, bound: Bound) -> bool:
    """Can a term be matched against a value, which binds its variables?"""
    if isinstance(term, Pack):
        return all(_is_pattern(arg, bound) for arg in term.args)
    return isinstance(term, Var | Const | Wild) or variables(term) <= bound


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "!=": lambda left, right: left != right if not isinstance(left, float) else float(left) != float(right),
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "match": lambda pattern, text: re.fullmatch(pattern, text) is not None,
    "!match": lambda pattern, text: re.fullmatch(pattern, text) is None,
    "contains": lambda part, text: part in text,
    "!contains": lambda part, text: part not in text,
}


# -- strata ------------------------------------------------------------------------------------------


def reads(rule: Rule) -> set[str]:
    """The relations that a rule's body mentions."""
    found: set[str] = set()
    for literal in rule.body:
        has(literal, lambda node: isinstance(node, Atom) and found.add(node.relation))
    return found


def strata(relations: Iterable[str], rules: Iterable[Rule]) -> list[frozenset[str]]:
    """The strongly connected components of the relations' dependencies, dependencies first."""
    depends: dict[str, set[str]] = {name: set() for name in relations}
    for rule in rules:
        depends[rule.head.relation] |= reads(rule)
    reaches = {name: _reachable(depends, name) for name in depends}
    component = {
        name: frozenset({name, *(other for other in reaches[name] if name in reaches[other])})
        for name in depends
    }
    graph = {
        component[name]: {component[other] for other in reaches[name]} - {component[name]} for name in depends
    }
    return list(TopologicalSorter(graph).static_order())


def _reachable(depends: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = set(depends[start])
    while todo:
        seen |= todo
        todo = set().union(*(depends[name] for name in todo)) - seen
    return seen


def fixpoint(
    stratum: frozenset[str],
    rules: list[Rule],
    evaluator: Evaluator,
    equivalences: Iterable[str] = (),
    limits: Mapping[str, int] | None = None,
    chosen: Mapping[str, set[Row]] | None = None,
    lattices: Mapping[str, Mapping[int, Lattice]] | None = None,
) -> None:
    """All rules of a stratum over all facts, again and again until nothing is new.

    As in Soufflé, the rules that do not recur come first, once; then come rounds, each of which sees what
    was known before it. A relation with a limit ends them when it has reached it.
    """
    known = evaluator.known
    subsumptions = [rule for rule in rules if rule.subsumes]
    rules = [rule for rule in rules if not rule.subsumes]
    recursive = [rule for rule in rules if reads(rule) & stratum]
    wave = [rule for rule in rules if not reads(rule) & stratum]
    merges = {rule.head.relation: rule.merge for rule in rules if rule.merge is not None}
    subsumed = {rule.head.relation for rule in subsumptions}
    stated = {name: set(known.facts[name]) for name, (_, op) in merges.items() if op in _SUMS}
    first = True
    while first or wave:
        derived: Facts = {name: set() for name in stratum}
        for rule in wave:
            derived[rule.head.relation] |= set(evaluator.consequences(rule))
        for name in stratum & {*equivalences}:
            derived[name] = _equivalence(known.facts[name] | derived[name])
        grown = []
        for name, rows in derived.items():
            if chosen is not None and name in chosen:
                grown.append(known.update(name, rows & chosen[name]))
                known.replace(name, known.facts[name] & chosen[name])
            elif lattices and name in lattices:
                grown.append(known.replace(name, _joined(known.facts[name] | rows, lattices[name])))
            elif name in stated:
                own = [rule for rule in rules if rule.head.relation == name and (not first or rule in wave)]
                grown.append(known.replace(name, _added(own, stated[name], merges[name][0], evaluator)))
            elif name in merges:
                grown.append(known.replace(name, _folded(known.facts[name] | rows, *merges[name])))
            elif name in subsumed:
                own = [rule for rule in subsumptions if rule.head.relation == name]
                grown.append(_subsume(name, rows, own, evaluator, first))
            else:
                grown.append(known.update(name, rows))
        if not first and not any(grown):
            return
        if any(len(known.facts[name]) >= limit for name, limit in (limits or {}).items() if name in stratum):
            return
        wave, first = recursive, False


def _folded(rows: set[Row], place: int, op: str) -> set[Row]:
    """One row for all that agree on all but one place, with what their values there come to."""
    values: dict[Row, list[Any]] = {}
    for row in rows:
        values.setdefault(row[:place] + row[place + 1 :], []).append(row[place])
    return {(*key[:place], _FOLDS[op](found), *key[place:]) for key, found in values.items()}


def _joined(rows: set[Row], columns: Mapping[int, Lattice]) -> set[Row]:
    """One row for all that agree outside lattices, none of them with a bottom."""
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        if not any(
            lattice.bottom and row[place] == lattice.bottom.value for place, lattice in columns.items()
        ):
            groups.setdefault(tuple(v for j, v in enumerate(row) if j not in columns), []).append(row)
    return {
        tuple(
            _FOLDS[columns[j].join]([row[j] for row in group]) if j in columns else group[0][j]
            for j in range(len(group[0]))
        )
        for group in groups.values()
    }


_SUMS = ("sum", "count")
_FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "min": min,
    "max": max,
    "any": lambda values: max(min(max(value, 0), 1) for value in values),
    "all": lambda values: min(min(max(value, 0), 1) for value in values),
    "bor": lambda values: reduce(operator.or_, values),
    "band": lambda values: reduce(operator.and_, values),
}


def _added(rules: list[Rule], stated: set[Row], place: int, evaluator: Evaluator) -> set[Row]:
    """What all distinct bindings of each rule's body add up to by now, and what is stated besides."""
    totals: dict[Row, Any] = {}
    plain = set(stated)

    def add(row: Row) -> None:
        key = row[:place] + row[place + 1 :]
        totals[key] = totals.get(key, 0) + row[place]

    for rule in rules:
        if rule.merge is None:
            plain |= set(evaluator.consequences(rule))
            continue
        bindings = {
            tuple(sorted(binding.items(), key=_by_name)): binding
            for binding in evaluator.solutions(rule.body, {})
        }
        for binding in bindings.values():
            for row in product(*(evaluator._values(arg, binding) for arg in rule.head.args)):
                add(row)
    for row in plain:
        add(row)
    return {(*key[:place], total, *key[place:]) for key, total in totals.items()}


def _subsume(name: str, derived: set[Row], rules: list[Rule], evaluator: Evaluator, first: bool) -> bool:
    """Take in what a round derived; is there anything new?"""
    known = evaluator.known
    old = set() if first else known.facts[name]
    new = (known.facts[name] | derived) - old
    evaluator.known.replace(name, old | new)

    def is_below(row: Row, others: set[Row]) -> bool:
        return any(
            other != row and _dominates(row, other, rule, evaluator) for other in others for rule in rules
        )

    rejected = {row for row in new if is_below(row, new | old)}
    accepted = new - rejected
    gone = {row for row in old if is_below(row, accepted)}
    known.replace(name, (old - gone) | accepted)
    return bool(accepted)


def _dominates(row: Row, other: Row, rule: Rule, evaluator: Evaluator) -> bool:
    worse, better, *rest = rule.body
    binding = evaluator._unify_all(worse.args, row, {})
    binding = None if binding is None else evaluator._unify_all(better.args, other, binding)
    return binding is not None and any(True for _ in evaluator.solutions(tuple(rest), binding))


def _equivalence(pairs: set[Row]) -> set[Row]:
    """Reflexive on what is mentioned, symmetric and transitive."""
    classes: dict[Any, set[Any]] = {}
    for left, right in pairs:
        merged = classes.get(left, {left}) | classes.get(right, {right})
        classes.update(dict.fromkeys(merged, merged))
    return {(left, right) for left, members in classes.items() for right in members}
