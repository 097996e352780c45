"""Can the values of a recursion through aggregates get better for ever?

    count(y, sum n) :- count(x, n), edge(x, y).         around a cycle of edges without end
    count(y, sum min(n, 9)) :- count(x, n), edge(x, y). never for ever: no value comes of more than 9
    total(x, y, sum s) :- controls(x, z), owns(z, y, s). not either: what is added does not move

Each way from the value of a relation to that of a head is a `Step`. While keys, and bindings of bodies, stay
as they are, rounds can only go on as values move each other along such steps. If all steps of a stratum
`EXPAND`, then a value that moves itself, by a chain of them, does so again by as much: there is no fixpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from gpuengine.language.graphs import strong_components
from gpuengine.language.monotony import Merges
from gpuengine.language.program import (
    Atom,
    Comparison,
    Constant,
    Functor,
    Kind,
    Merge,
    Rule,
    Term,
    Variable,
    Wildcard,
    literal_variables,
)


class Gain(Enum):
    """How much a term moves when a value does that it depends on."""

    NONE = "it does not depend on one"
    EXPANDS = "by as much at least, from when it has first moved"
    BOUNDED = "only so far"
    UNKNOWN = "by less, or nobody knows"


class Growth(Enum):
    """What is known of the rounds of a stratum."""

    ENDS = "they end"
    EXPANDS = "they do not end if a value moves itself"
    UNKNOWN = "they may come closer to an end"


@dataclass(frozen=True, slots=True)
class Step:
    """A value of `source` moves that of the head of `rule`."""

    source: str
    rule: Rule
    gain: Gain


@dataclass(frozen=True, slots=True)
class StratumGrowth:
    """`rules` are those around which values may move themselves."""

    growth: Growth
    rules: tuple[Rule, ...]


def growth_of(rules: Iterable[Rule], merges: Merges) -> StratumGrowth:
    """What the recursive rules of a stratum say; `merges` are the values that its relations keep."""
    steps = [step for rule in rules for step in _steps(rule, merges)]
    free = [step for step in steps if step.gain is not Gain.BOUNDED]
    graph: dict[str, list[str]] = {name: [] for name in merges}
    for step in free:
        graph[step.rule.head.relation].append(step.source)
    place = {name: number for number, one in enumerate(strong_components(graph)) for name in one}
    around = [step for step in free if place[step.source] == place[step.rule.head.relation]]
    through = tuple(dict.fromkeys(step.rule for step in around))
    if not around:
        return StratumGrowth(Growth.ENDS, ())
    expands = all(step.gain is Gain.EXPANDS for step in steps)
    return StratumGrowth(Growth.EXPANDS if expands else Growth.UNKNOWN, through)


def _steps(rule: Rule, merges: Merges) -> Iterator[Step]:
    own = {merge.column: merge for merge in merges.get(rule.head.relation, ())}
    if not own:
        return  # a fact without a value comes once
    for atom in (part for part in rule.body if isinstance(part, Atom)):
        for merge in merges.get(atom.relation, ()):
            value = atom.args[merge.column]
            if isinstance(value, Variable):
                gain = _gain_of_head(rule, value, own)
                if gain is not Gain.NONE:
                    yield Step(atom.relation, rule, gain)


def _gain_of_head(rule: Rule, value: Variable, own: Mapping[int, Merge]) -> Gain:
    terms = _Terms(rule, value)
    gains = [_own_gain(terms, rule.head.args[column], merge) for column, merge in own.items()]
    gain = _together(gains)
    if gain is Gain.NONE and any(
        value in literal_variables(part) for part in rule.body if not isinstance(part, Atom)
    ):
        return Gain.BOUNDED  # it is only asked whether the value is good enough
    return gain


def _own_gain(terms: _Terms, arg: Term | Wildcard, merge: Merge) -> Gain:
    if merge.op in ("bor", "band"):
        return Gain.NONE if terms.gain(arg, up=True) is Gain.NONE else Gain.BOUNDED  # there are 64 bits
    return terms.gain(arg, up=merge.op != "min")


@dataclass
class _Terms:
    """The terms of a rule, as they depend on one variable."""

    rule: Rule
    value: Variable

    def __post_init__(self) -> None:
        read = {arg for part in self.rule.body if isinstance(part, Atom) for arg in part.args}
        self._defined: dict[Variable, Term | Wildcard] = {}
        for part in self.rule.body:
            if isinstance(part, Comparison) and part.op == "=":
                for one, other in ((part.left, part.right), (part.right, part.left)):
                    if isinstance(one, Variable) and one not in read:
                        self._defined.setdefault(one, other)

    def gain(self, term: Term | Wildcard, *, up: bool, seen: frozenset[Variable] = frozenset()) -> Gain:
        """How much a term moves, whose larger values are the better ones if `up`, when the variable does."""
        if term == self.value:
            return Gain.EXPANDS
        if isinstance(term, Variable):
            defined = None if term in seen else self._defined.get(term)
            return Gain.NONE if defined is None else self.gain(defined, up=up, seen=seen | {term})
        if isinstance(term, Constant | Wildcard):
            return Gain.NONE
        gains = [self.gain(arg, up=up, seen=seen) for arg in term.args]
        moved = _together(gains)
        if moved is Gain.NONE or not isinstance(term, Functor) or term.op.startswith("@"):
            return moved if moved is Gain.NONE else Gain.UNKNOWN
        if term.op in ("-", "neg"):
            return _together(
                self.gain(arg, up=up == (term.op == "-" and not k), seen=seen)
                for k, arg in enumerate(term.args)
            )
        if term.op in ("min", "max"):
            return self._of_best(term, gains, up=up)
        if term.op == "+" or (term.op in ("to_number", "to_unsigned", "to_float") and not _rounds(term)):
            return moved
        if moved is Gain.BOUNDED:
            return moved
        return self._of_product(term, up=up, seen=seen) if term.op == "*" else Gain.UNKNOWN

    def _of_best(self, term: Functor, gains: list[Gain], *, up: bool) -> Gain:
        """``min(n, 9)`` keeps what goes up from going further; ``max(n, 9)`` does not."""
        if term.op == ("max" if up else "min"):
            return _together(gains)
        return Gain.BOUNDED if Gain.NONE in gains or Gain.BOUNDED in gains else Gain.UNKNOWN

    def _of_product(self, term: Functor, *, up: bool, seen: frozenset[Variable]) -> Gain:
        """An integer times what moves stays 0, or moves by as much at least; a float may be below 1."""
        constants = [arg.value for arg in term.args if isinstance(arg, Constant)]
        factor = constants[0] if constants else None
        is_less = isinstance(factor, int | float) and factor < 0
        gain = _together(self.gain(arg, up=up != is_less, seen=seen) for arg in term.args)
        if term.type.kind is Kind.FLOAT and not (isinstance(factor, int | float) and abs(factor) >= 1):
            return Gain.UNKNOWN
        return gain


def _rounds(term: Functor) -> bool:
    (arg, *_) = term.args
    return arg.type.kind in (Kind.FLOAT, Kind.SYMBOL) and term.op != "to_float"


def _together(gains: Iterable[Gain]) -> Gain:
    different = set(gains) - {Gain.NONE}
    if not different:
        return Gain.NONE
    return different.pop() if len(different) == 1 else Gain.UNKNOWN
