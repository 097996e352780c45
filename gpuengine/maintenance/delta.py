"""`Delta`: what changed of one relation, whoever asked for it, found it or stores it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from gpuengine.evaluation.placement.budget import Budget
from gpuengine.loading import Facts
from gpuengine.schemes.contract import Columns, Domain, Scheme
from gpuengine.schemes.pairs import Gone, PairScheme, PairSnapshot, as_pairs
from gpuengine.schemes.table import Table
from gpuengine.schemes.table_reads import rows_missing
from gpuengine.schemes.union import Part, Union, as_union

NOTHING: Facts = ([], 0)


class Delta:
    """`minus` went from a relation and did not come back, `plus` came and had not been there.

    Both are settled tables on the host; no fact is in both. What goes from a closure, an equivalence or a
    union may be far more than anybody wants to list: either is found out when somebody first asks for it.
    `may_lose` and `may_gain` are known without: may something have gone, or come? A delta is true if so.
    """

    def __init__(
        self,
        relation: str,
        minus: Callable[[], Table],
        plus: Callable[[], Table],
        *,
        may_lose: bool = True,
        may_gain: bool = True,
    ) -> None:
        self.relation = relation
        self.may_lose, self.may_gain = may_lose, may_gain
        self._find_minus, self._find_plus = minus, plus
        self._listed: tuple[Facts, Facts] | None = None

    @classmethod
    def listed(cls, relation: str, arity: int, minus: Facts = NOTHING, plus: Facts = NOTHING) -> Delta:
        """One of distinct facts that are known."""
        delta = cls(
            relation,
            lambda: table_of(relation, arity, *minus),
            lambda: table_of(relation, arity, *plus),
            may_lose=minus[1] > 0,
            may_gain=plus[1] > 0,
        )
        delta._listed = minus, plus
        return delta

    @classmethod
    def found(
        cls,
        relation: str,
        find: Callable[[], tuple[Table, Table]],
        *,
        may_lose: bool = True,
        may_gain: bool = True,
    ) -> Delta:
        """One of which both sides are found together."""
        pair: list[tuple[Table, Table]] = []

        def side(number: int) -> Table:
            if not pair:
                pair.append(find())
            return pair[0][number]

        return cls(relation, lambda: side(0), lambda: side(1), may_lose=may_lose, may_gain=may_gain)

    def __bool__(self) -> bool:
        return self.may_lose or self.may_gain

    @cached_property
    def minus(self) -> Table:
        return self._find_minus()

    @cached_property
    def plus(self) -> Table:
        return self._find_plus()

    @property
    def minus_facts(self) -> Facts:
        """What went, as columns."""
        return self._listed[0] if self._listed is not None else (self.minus.columns(), len(self.minus))

    @property
    def plus_facts(self) -> Facts:
        """What came, as columns."""
        return self._listed[1] if self._listed is not None else (self.plus.columns(), len(self.plus))

    @property
    def count(self) -> int:
        """How many facts changed."""
        return self.minus_facts[1] + self.plus_facts[1]

    def then(self, later: Delta) -> Delta:
        """What this and a later change come to."""

        def find() -> tuple[Table, Table]:
            return (
                _without(self.minus, later.plus, _without(later.minus, self.plus)),
                _without(self.plus, later.minus, _without(later.plus, self.minus)),
            )

        return Delta.found(self.relation, find)

    def permuted(self, relation: str, permutation: tuple[int, ...]) -> Delta:
        """The change of a relation that is this one with its columns permuted."""

        def turned(facts: Table) -> Table:
            columns = Part(facts, permutation).outward(facts.columns()) if len(facts) else []
            return table_of(relation, facts.arity, columns, len(facts))

        return Delta(
            relation,
            lambda: turned(self.minus),
            lambda: turned(self.plus),
            may_lose=self.may_lose,
            may_gain=self.may_gain,
        )


Deltas = Mapping[str, Delta]
"""By relation, or by another table that is kept."""


def table_of(name: str, arity: int, columns: Columns = (), count: int = 0) -> Table:
    """A settled table of distinct facts on the host."""
    table = Table(name, arity)
    if count:
        table.insert(columns, count)
    table.settle()
    return table


def delta_of(scheme: Scheme, gone: Table, came: Columns, count: int) -> Delta:
    """The change of a scheme that lost some facts, and then gained others and some of them again."""
    columns = gone.columns()
    lost = ~scheme.contains(columns, len(gone)) if len(gone) else np.zeros(0, np.bool_)
    fresh = ~gone.contains(came, count) if count and len(gone) else np.ones(count, np.bool_)
    return Delta.listed(
        scheme.name,
        scheme.arity,
        ([column[lost] for column in columns], int(np.count_nonzero(lost))),
        ([np.asarray(column)[fresh] for column in came], int(np.count_nonzero(fresh))),
    )


def pair_delta(
    before: PairSnapshot, scheme: PairScheme, gone: Sequence[Gone], come: Sequence[Gone], budget: Budget
) -> Delta:
    """The change of a closure or an equivalence: by what it was and is, and what went and came between."""
    after, nodes = PairSnapshot(scheme), scheme.nodes

    def listed(pairs: Sequence[Gone], without: PairSnapshot) -> Table:
        """Pairs that a state does not have."""
        facts = Table(before.name, 2)
        for some in pairs:
            budget.check_answers(some.reading.reached.pairs, 2)
            for batch in some.scan(nodes):
                kept = ~without.contains(batch, len(batch[0]))
                facts.insert([column[kept] for column in batch], int(np.count_nonzero(kept)))
        facts.settle()
        return facts

    gone, come = list(gone), list(come)
    return Delta(
        scheme.name,
        lambda: listed(gone, after),
        lambda: listed(come, before),
        may_lose=bool(gone),
        may_gain=bool(come),
    )


def difference(before: Scheme, after: Scheme, budget: Budget) -> Delta:
    """What one state of a relation has and another does not, and the other way round.

    What closures and equivalences do not have in common follows from their edges, and of unions from their
    parts; other states are listed for it.
    """
    return Delta.found(after.name, lambda: _difference(before, after, budget))


def _difference(before: Scheme, after: Scheme, budget: Budget) -> tuple[Table, Table]:
    if before is after:
        return table_of(before.name, before.arity), table_of(before.name, before.arity)
    if before.is_paired and type(before) is type(after):
        return _difference_by_edges(as_pairs(before), as_pairs(after), budget)
    if before.is_view and after.is_view:
        return _difference_by_parts(as_union(before), as_union(after), budget)
    return _only_in(before, after, budget), _only_in(after, before, budget)


def _difference_by_edges(before: PairScheme, after: PairScheme, budget: Budget) -> tuple[Table, Table]:
    """What goes when a scheme like `before` loses the edges that `after` lacks, and comes with the others."""
    scheme = type(before)(before.name)
    scheme.widen(before.bounds)
    scheme.keep_edges(before.edges)
    old, new = before.edges, after.edges
    lost, gained = rows_missing(old, new), rows_missing(new, old)
    scheme.delete(lost, len(lost[0]))
    gone = _listed(scheme, Domain.NEW, budget)
    scheme.remove()
    scheme.insert(gained, len(gained[0]))
    scheme.advance()
    come = _listed(scheme, Domain.NEW, budget)
    return _without(gone, come), _without(come, gone)


def _difference_by_parts(before: Union, after: Union, budget: Budget) -> tuple[Table, Table]:
    """What a part has lost and the union no longer has, and what a part has gained and it did not have."""
    same = [part.permutation for part in before.parts] == [part.permutation for part in after.parts]
    kinds = [type(part.scheme) for part in before.parts] == [type(part.scheme) for part in after.parts]
    if not same or not kinds:
        return _only_in(before, after, budget), _only_in(after, before, budget)
    identity = tuple(range(before.arity))
    pairs = [
        (old.scheme, new.scheme, old.permutation) for old, new in zip(before.parts, after.parts, strict=True)
    ]
    lost, gained = (Table(before.name, before.arity) for _ in range(2))
    for old, new, permutation in [*pairs, (before.own, after.own, identity)]:
        for facts, table in zip(_difference(old, new, budget), (lost, gained), strict=True):
            table.insert(Part(facts, permutation).outward(facts.columns()), len(facts))
    return _without(lost, after), _without(gained, before)


def _listed(scheme: Scheme, domain: Domain, budget: Budget) -> Table:
    budget.check_answers(scheme.count(domain), scheme.arity)
    table = Table(scheme.name, scheme.arity)
    for batch in scheme.scan(domain):
        table.insert(batch, len(batch[0]))
    table.settle()
    return table


def _only_in(one: Scheme, other: Scheme, budget: Budget) -> Table:
    table = Table(one.name, one.arity)
    if not one.arity:
        if len(one) and not len(other):
            table.insert([], 1)
        table.settle()
        return table
    for batch in one.scan():
        missing = ~other.contains(batch, len(batch[0]))
        table.insert([column[missing] for column in batch], int(np.count_nonzero(missing)))
        budget.check_answers(len(table), one.arity)
    table.settle()
    return table


def _without(facts: Table, others: Scheme, more: Table | None = None) -> Table:
    """Facts that are not among others, and more of them."""
    result = Table(facts.name, facts.arity)
    if len(facts):
        kept = ~others.contains(facts.columns(), len(facts)) if len(others) else np.ones(len(facts), np.bool_)
        result.insert([column[kept] for column in facts.columns()], int(np.count_nonzero(kept)))
    if more is not None:
        result.insert(more.columns(), len(more))
    result.settle()
    return result
