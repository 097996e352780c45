"""Which relations do not keep all that is derived, and how what they keep is selected.

path(x, z, min d) :- ..                            the best value of a column for each key
owns(x, y, sum s) :- ..                            the sum of all values, of every binding of bodies
.decl seen(x: number, s: Bits<>)                   the join of all values, by a lattice
.decl pick(x: number, y: number) choice-domain x   the first fact for each key
p(x, a) <= p(x, b) :- ..                           facts that no other one subsumes
p(x, a) <= p(x, b) :- b < a.                       the same as min, if the recursion is monotone in it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuengine.language.monotony import Merges, find_problems, merges_of
from gpuengine.language.program import Atom, Comparison, Kind, Literal, Merge, Program, Rule, Variable

_BY_VALUE = (Kind.NUMBER, Kind.UNSIGNED, Kind.SYMBOL)
"""Kinds of which two values are the same, or one is less; floats also have NaN, and two zeros."""


@dataclass(frozen=True, slots=True)
class Selection:
    """How the facts of a relation are selected: one of these, or a subsumption taken as a merge.

    `merge` keeps the best value of a column, `sum` the sum of all values, and `joins` what the values of
    columns come to together.
    """

    relation: str
    merge: Merge | None = None
    sum: Merge | None = None
    joins: tuple[Merge, ...] = ()
    choices: tuple[tuple[int, ...], ...] = ()
    subsumptions: tuple[Rule, ...] = ()

    @property
    def folds(self) -> tuple[Merge, ...]:
        """The columns of which one value stays for each key."""
        return tuple(one for one in (self.merge, self.sum, *self.joins) if one is not None)

    def describe(self, attributes: tuple[str, ...]) -> str:
        """For people who read a plan."""
        if self.folds:
            columns = {fold.column for fold in self.folds}
            keys = [name for place, name in enumerate(attributes) if place not in columns]
            kept = (
                f"keeps {' and '.join(f'the {fold.op} of {attributes[fold.column]}' for fold in self.folds)}"
            )
            kept += f" for each {', '.join(keys)}" if keys else ""
            return kept + (", as its subsumption says" if self.subsumptions else "")
        if self.choices:
            keys = [", ".join(attributes[place] for place in key) for key in self.choices]
            return f"keeps one fact for each {' and for each '.join(keys)}"
        return "keeps what is not subsumed by another fact"


def selections_of(program: Program) -> dict[str, Selection]:
    """By relation, how its facts are selected; relations that keep everything are not there."""
    selections = {
        name: Selection(name, choices=relation.choices)
        for name, relation in program.relations.items()
        if relation.choices
    }
    merges = merges_of(program.rules, program.relations)
    subsumed: dict[str, list[Rule]] = {}
    for rule in program.subsumptions:
        subsumed.setdefault(rule.head.relation, []).append(rule)
    better = _as_merges(program, merges, subsumed)
    for name, kept in merges.items():
        selections[name] = _merging(name, kept)
    for name, rules in subsumed.items():
        selections[name] = Selection(name, better.get(name), subsumptions=tuple(rules))
    return selections


def _merging(name: str, merges: tuple[Merge, ...]) -> Selection:
    (first, *others) = merges
    if others or first.bottom is not None or not (first.is_best or first.is_sum):
        return Selection(name, joins=merges)
    return Selection(name, first) if first.is_best else Selection(name, sum=first)


def _as_merges(program: Program, merges: Merges, subsumed: Mapping[str, list[Rule]]) -> dict[str, Merge]:
    """The subsumptions that come to the same as a min or max, whatever the order of rounds is."""
    possible = {
        name: merge for name, rules in subsumed.items() if (merge := _better_value(rules)) is not None
    }
    while possible:
        together = {**merges, **{name: (merge,) for name, merge in possible.items()}}
        wrong = {source for _, _, source in find_problems(program.rules, together)}
        if not wrong:
            break
        if not wrong & possible.keys():
            return {}
        possible = {name: merge for name, merge in possible.items() if name not in wrong}
    return possible


def _better_value(rules: list[Rule]) -> Merge | None:
    """What "same key, better value" means; None if that is not all that the rules say."""
    if len(rules) != 1:
        return None
    (rule,) = rules
    dominated, dominating, *rest = rule.body
    assert isinstance(dominated, Atom) and isinstance(dominating, Atom)
    pairs = list(zip(dominated.args, dominating.args, strict=True))
    different = [place for place, (one, other) in enumerate(pairs) if one != other]
    variables = {arg for arg in (*dominated.args, *dominating.args) if isinstance(arg, Variable)}
    if len(different) != 1 or len(variables) != len(pairs) + 1 or len(rest) != 1:
        return None
    worse, value = pairs[different[0]]
    return _merge_of(rest[0], worse, value, different[0])


def _merge_of(literal: Literal, worse: object, better: object, column: int) -> Merge | None:
    if not isinstance(literal, Comparison) or literal.left.type.kind not in _BY_VALUE:
        return None
    op = literal.op
    if (literal.left, literal.right) == (better, worse):
        op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
    elif (literal.left, literal.right) != (worse, better):
        return None
    if op in (">", ">="):
        return Merge(column, "min")
    return Merge(column, "max") if op in ("<", "<=") else None


def selective_strata(program: Program) -> frozenset[str]:
    """The relations that depend on each other with one that does not keep everything, itself included.

    Their facts go again while they are derived, so that each must be a table.
    """
    from gpuengine.language.graphs import strong_components
    from gpuengine.planning.plan import needs_of

    chosen = selections_of(program)
    if not chosen:
        return frozenset()
    components = strong_components(needs_of(program))
    return frozenset(name for one in components if chosen.keys() & set(one) for name in one)
