"""Do the values of ``min`` and ``max`` only get worse from premise to conclusion, as distances do?

    path(x, z, min d) :- path(x, y, d1), edge(y, z, d2), d = d1 + d2.      if no d2 is negative

Then what the best value of a key follows from are best values as well, and in the end facts outside the
recursion: no fact is kept by what follows from it alone. Where values may get better that need not be so:

    j(10).   k(min 5) :- j(_).   j(min d) :- k(d).        j is 5 by k, which is there by the j of 10 only
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gpuengine.language.monotony import known_signs
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
)

Column = tuple[str, int]
"""A column of a relation."""


def declining_if(
    rules: Iterable[Rule], merges: Mapping[str, Merge], members: Collection[str]
) -> frozenset[Column] | None:
    """The columns in which no value may be negative for the values of a stratum to get worse only.

    `members` are the relations of the stratum, `merges` those of them that keep a best value. None if the
    rules do not say that they get worse.
    """
    needed: set[Column] = set()
    for rule in rules:
        premises = [part for part in rule.body if isinstance(part, Atom) and part.relation in members]
        merge = merges.get(rule.head.relation)
        if not premises:
            continue
        if merge is None or any(premise.relation not in merges for premise in premises):
            return None  # facts without a value do not say of how good a one they are
        terms = _Terms(rule, merges, needed)
        for premise in premises:
            own = merges[premise.relation]
            value = premise.args[own.column]
            result = rule.head.args[merge.column]
            if own.op != merge.op or not isinstance(value, Variable) or not isinstance(result, Variable):
                return None
            if not terms.is_no_better(result, value, merge.op):
                return None
    return frozenset(needed)


@dataclass
class _Terms:
    """What is known of the terms of one rule; columns that must not be negative for it go to `needed`."""

    rule: Rule
    merges: Mapping[str, Merge]
    needed: set[Column]

    def __post_init__(self) -> None:
        self._signs = known_signs(self.rule.body)
        self._equal: dict[Variable, Term | Wildcard] = {}
        for part in self.rule.body:
            if isinstance(part, Comparison) and part.op == "=":
                for one, other in ((part.left, part.right), (part.right, part.left)):
                    if isinstance(one, Variable) and one not in self._equal:
                        self._equal[one] = other

    def is_no_better(
        self, term: Term | Wildcard, than: Variable, op: str, seen: frozenset[Term] = frozenset()
    ) -> bool:
        """Is a term at least the value of a variable, for ``min``; at most, for ``max``?"""
        if term == than:
            return True
        if isinstance(term, Variable):
            equal = self._equal.get(term) if term not in seen else None
            return equal is not None and self.is_no_better(equal, than, op, seen | {term})
        if not isinstance(term, Functor):
            return False
        parts = [self.is_no_better(arg, than, op, seen) for arg in term.args]
        if term.op in ("min", "max"):
            return all(parts) if term.op == op else any(parts)
        if term.type.kind is Kind.SYMBOL:
            return False
        if term.op == "+" and op == "min":
            return any(
                is_no_better and all(self._is_positive(arg) for k, arg in enumerate(term.args) if k != place)
                for place, is_no_better in enumerate(parts)
            )
        if term.op == "-" and op == "max" and term.type.kind is not Kind.UNSIGNED:
            return parts[0] and self._is_positive(term.args[1])
        return False

    def _is_positive(self, term: Term | Wildcard, seen: frozenset[Term] = frozenset()) -> bool:
        """Is a term not negative, if no value of a column is that it depends on?"""
        if isinstance(term, Wildcard):
            return False
        if term.type.kind is Kind.UNSIGNED:
            return True
        if isinstance(term, Constant):
            return isinstance(term.value, int | float) and term.value >= 0
        if isinstance(term, Variable):
            if term in self._signs:
                return True
            column = self._column_of(term)
            if column is not None:
                self.needed.add(column)
                return True
            equal = self._equal.get(term)
            return equal is not None and term not in seen and self._is_positive(equal, seen | {term})
        is_sum = isinstance(term, Functor) and term.op in ("+", "*", "min", "max")
        return is_sum and all(self._is_positive(arg, seen) for arg in term.args)

    def _column_of(self, variable: Variable) -> Column | None:
        """A column that has all values of a variable; of a largest value the worse ones are not there."""
        for part in self.rule.body:
            if isinstance(part, Atom) and variable in part.args:
                place = part.args.index(variable)
                merge = self.merges.get(part.relation)
                if merge is None or merge.column != place or merge.op == "min":
                    return part.relation, place
        return None
