"""Partition keys of recursive strata: columns that every recursive rule keeps from body to head.

    path(x, z) :- path(x, y), edge(y, z).          path by its first column: x goes through

The facts with one value in the key columns are derived from facts with the same value only, so that each
part of a partition by that value can run the whole fixpoint alone. What other relations the rules read must
be there in every part, unless the rules ask them for the same value: then they are partitioned along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from gpuengine.language.program import Aggregate, Atom, Comparison, Kind, Literal, Negation, Rule, Variable
from gpuengine.planning.plan import Stratum, describe

MOST_KEYS = 64
"""A stratum with more keys than this has many that are alike."""


@dataclass(frozen=True)
class PartitionKey:
    """`columns` are the key columns of a stratum's relations.

    `partitioned` has for each other relation that its recursive rules read a column to partition it by along
    with the key, or None if each part must have all of it.
    """

    columns: Mapping[str, int]
    partitioned: Mapping[str, int | None]

    @property
    def broadcast(self) -> tuple[str, ...]:
        """The relations that each part must have all of."""
        return tuple(name for name, column in self.partitioned.items() if column is None)


def partition_keys(stratum: Stratum) -> list[PartitionKey]:
    """Every partition key of a recursive stratum, `MOST_KEYS` at most; none if it is not recursive.

    A stratum that stops at some size (``.limitsize``) is not to be partitioned, which the caller sees to.
    """
    rules = _recursive_rules(stratum)
    return [_with_others(stratum, rules, columns) for columns in islice(_assignments(rules), MOST_KEYS)]


def choose_key(
    keys: Sequence[PartitionKey], rows: Mapping[str, float], distinct: Callable[[str, int], float]
) -> PartitionKey:
    """The key with the fewest rows to broadcast, and of those the one with the most values.

    `rows` are the sizes of the other relations, `distinct(relation, column)` says how many values there are.
    """

    def cost(key: PartitionKey) -> tuple[float, float]:
        values = max(distinct(name, column) for name, column in key.columns.items())
        return sum(rows.get(name, 0.0) for name in key.broadcast), -values

    return min(keys, key=cost)


def why_not(stratum: Stratum) -> str:
    """Why a stratum has no partition key, for a report; empty if it has one."""
    rules = _recursive_rules(stratum)
    if not rules:
        return f"{_listed(stratum.relations)} is not recursive"
    for count, rule in enumerate(rules, 1):
        if next(_assignments([rule]), None) is None:
            names = dict.fromkeys([rule.head.relation, *(atom.relation for atom in rule.members)])
            return f"no column of {_listed(names)} is kept from body to head by {rule.told}"
        if next(_assignments(rules[:count]), None) is None:
            earlier = "; ".join(other.told for other in rules[: count - 1])
            return f"no column that {earlier} keeps from body to head is kept by {rule.told}"
    return ""


@dataclass(frozen=True)
class _RecursiveRule:
    """A rule, its body's atoms of its own stratum, and for each variable the one that stands for it."""

    rule: Rule
    members: tuple[Atom, ...]
    same: Mapping[Variable, Variable]

    @property
    def head(self) -> Atom:
        return self.rule.head

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return self.head, *self.members

    @property
    def told(self) -> str:
        return f"{describe(self.head)} :- {', '.join(map(describe, self.rule.body))}"

    def variable(self, atom: Atom, column: int) -> Variable | None:
        """What stands in a column; None if it is no variable."""
        arg = atom.args[column]
        return self.same.get(arg, arg) if isinstance(arg, Variable) else None

    def keeps(self, columns: Mapping[str, int]) -> bool:
        """Do all atoms of the relations in `columns` have one variable there?"""
        found = {self.variable(a, columns[a.relation]) for a in self.atoms if a.relation in columns}
        return len(found) <= 1 and None not in found


def _recursive_rules(stratum: Stratum) -> list[_RecursiveRule]:
    own = set(stratum.relations)
    rules = dict.fromkeys(variant.rule for variant in stratum.recursive)
    return [
        _RecursiveRule(
            rule,
            tuple(part for part in rule.body if isinstance(part, Atom) and part.relation in own),
            _equal_variables(rule),
        )
        for rule in rules
    ]


def _equal_variables(rule: Rule) -> dict[Variable, Variable]:
    """For variables that the rule equates, ``x = y``, one of them. Equal floats may have different bits."""
    same: dict[Variable, Variable] = {}
    for part in rule.body:
        if not isinstance(part, Comparison) or part.op != "=":
            continue
        x, y = part.left, part.right
        if not isinstance(x, Variable) or not isinstance(y, Variable):
            continue
        if x.type.space == y.type.space and x.type.kind is not Kind.FLOAT:
            kept, gone = same.get(x, x), same.get(y, y)
            same |= {x: kept, y: kept}
            same = {one: kept if stands == gone else stands for one, stands in same.items()}
    return same


def _assignments(rules: Sequence[_RecursiveRule]) -> Iterator[dict[str, int]]:
    """The key columns of all relations that each of the rules keeps, in lexicographic order."""
    order = _connected_order(rules)
    touching = {
        name: [rule for rule in rules if any(a.relation == name for a in rule.atoms)] for name in order
    }

    def extend(columns: dict[str, int]) -> Iterator[dict[str, int]]:
        if len(columns) == len(order):
            yield columns
            return
        name = order[len(columns)]
        for column in range(_arity(name, touching[name])):
            tried = {**columns, name: column}
            if all(rule.keeps(tried) for rule in touching[name]):
                yield from extend(tried)

    if order:
        yield from extend({})


def _connected_order(rules: Sequence[_RecursiveRule]) -> list[str]:
    """The relations such that each has a rule in common with one before, as far as can be.

    So the column chosen for one leaves little choice for the next.
    """
    together: dict[str, dict[str, None]] = {}
    for rule in rules:
        names = dict.fromkeys(atom.relation for atom in rule.atoms)
        for name in names:
            together.setdefault(name, {}).update(names)
    order: dict[str, None] = {}
    for start in together:
        waiting = deque([start])
        while waiting:
            name = waiting.popleft()
            if name not in order:
                order[name] = None
                waiting.extend(together[name])
    return list(order)


def _arity(name: str, rules: Iterable[_RecursiveRule]) -> int:
    return next(len(atom.args) for rule in rules for atom in rule.atoms if atom.relation == name)


def _with_others(
    stratum: Stratum, rules: Sequence[_RecursiveRule], columns: Mapping[str, int]
) -> PartitionKey:
    """The key with what others can be partitioned by: a column where the key stands whenever one is read."""
    own = set(stratum.relations)
    possible: dict[str, list[int]] = {}
    for rule in rules:
        key = rule.variable(rule.head, columns[rule.head.relation])
        for atom in _atoms_read(rule.rule.body):
            if atom.relation not in own:
                before = possible.get(atom.relation, range(len(atom.args)))
                possible[atom.relation] = [j for j in before if rule.variable(atom, j) == key]
    partitioned = {name: found[0] if found else None for name, found in possible.items()}
    return PartitionKey(dict(columns), partitioned)


def _atoms_read(body: Iterable[Literal]) -> Iterator[Atom]:
    """Every atom, also those negated and inside aggregates, whose facts without the key then matter no less.

    A key variable inside an aggregate is bound outside, since the head mentions it too.
    """
    for part in body:
        if isinstance(part, Atom):
            yield part
        elif isinstance(part, Negation):
            yield part.atom
        elif isinstance(part, Aggregate):
            yield from _atoms_read(part.body)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
