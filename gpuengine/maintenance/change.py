"""What an update changed: for each relation the facts that came and those that went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.errors import GpuEngineError, MemoryBudgetError
from gpuengine.evaluation.budget import Budget
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Attribute
from gpuengine.relation import RelationView
from gpuengine.schemes.contract import Domain, Scheme
from gpuengine.schemes.pairs import PairScheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.table_reads import rows_missing
from gpuengine.schemes.union import Part, Union
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    import pyarrow as pa

Listed = tuple[Table, Table]
"""Facts that went and facts that came; no fact is in both."""


@dataclass(frozen=True, slots=True)
class RelationChange:
    """The exact change of one relation: no fact of `inserted` was there before, none of `deleted` is now.

    Both are read as any relation. Together they are a Z-set: `to_arrow` has each row with its weight.
    """

    inserted: RelationView
    deleted: RelationView

    def __bool__(self) -> bool:
        return bool(len(self.inserted) or len(self.deleted))

    def __len__(self) -> int:
        return len(self.inserted) + len(self.deleted)

    def __repr__(self) -> str:
        return f"<{self.inserted.name}: +{len(self.inserted):,} -{len(self.deleted):,}>"

    def to_arrow(self, weight: str = "weight") -> pa.Table:
        """The rows of both, with a last column that is 1 for those that came and -1 for those that went."""
        import pyarrow as pa

        if weight in self.inserted.columns:
            raise GpuEngineError(
                f"{self.inserted.name} has a column {weight!r}\n"
                "  hint: give the weights another name: to_arrow(weight=…)"
            )
        parts = []
        for view, value in ((self.inserted, 1), (self.deleted, -1)):
            rows = view.to_arrow()
            weights = pa.array(np.full(len(view), value, np.int8))
            parts.append(rows.append_column(weight, weights) if view.columns else pa.table({weight: weights}))
        return pa.concat_tables(parts)


class Change(Mapping[str, RelationChange]):
    """The change of every relation that changed; of the others one can ask as well, and it is empty.

    It stays what it is when more updates follow.
    """

    def __init__(
        self,
        attributes: Mapping[str, Sequence[Attribute]],
        nets: Mapping[str, Callable[[], Listed]],
        dictionary: Dictionary,
        budget: Budget,
    ) -> None:
        self._attributes = attributes
        self._nets = dict(nets)
        self._dictionary = dictionary
        self._budget = budget
        self._found: dict[str, RelationChange] = {}

    def __getitem__(self, relation: str) -> RelationChange:
        if relation not in self._attributes:
            raise KeyError(relation)
        if relation not in self._found:
            attributes = self._attributes[relation]
            empty = Table(relation, len(attributes), CPU)
            deleted, inserted = self._nets[relation]() if relation in self._nets else (empty, empty)
            views = (
                RelationView(relation, attributes, facts, self._dictionary, self._budget)
                for facts in (inserted, deleted)
            )
            self._found[relation] = RelationChange(*views)
        return self._found[relation]

    def find_all(self) -> None:
        """Find out what nobody has asked for yet, before that from which it is found changes."""
        for name in self._nets:
            try:
                self[name]
            except MemoryBudgetError as error:
                self._nets[name] = partial(_refuse, error)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._nets if self[name])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<change: {', '.join(repr(self[name])[1:-1] for name in self) or 'nothing'}>"


def _refuse(error: MemoryBudgetError) -> Listed:
    raise error


def permuted(net: Listed, name: str, permutation: tuple[int, ...]) -> Listed:
    """The change of an alias."""
    deleted, inserted = (_permuted(facts, name, permutation) for facts in net)
    return deleted, inserted


def _permuted(facts: Table, name: str, permutation: tuple[int, ...]) -> Table:
    result = Table(name, facts.arity, CPU)
    if len(facts):
        result.insert(Part(facts, permutation).outward(facts.columns()), len(facts))
    result.settle()
    return result


def composed(first: Listed, second: Listed) -> Listed:
    """What two changes, one after the other, come to."""
    (lost, gained), (lost_later, gained_later) = first, second
    return (
        _without(lost, gained_later, _without(lost_later, gained)),
        _without(gained, lost_later, _without(gained_later, lost)),
    )


def difference(before: Scheme, after: Scheme, budget: Budget) -> Listed:
    """What one state of a relation has and another does not, and the other way round.

    What closures and equivalences do not have in common follows from their edges, and of unions from their
    parts; other states are listed for it.
    """
    if before is after:
        return Table(before.name, before.arity, CPU), Table(before.name, before.arity, CPU)
    if isinstance(before, PairScheme) and type(before) is type(after):
        return _difference_by_edges(before, after, budget)
    if isinstance(before, Union) and isinstance(after, Union):
        return _difference_by_parts(before, after, budget)
    return _only_in(before, after, budget), _only_in(after, before, budget)


def _difference_by_edges(before: PairScheme, after: PairScheme, budget: Budget) -> Listed:
    """What goes when a scheme like `before` loses the edges that `after` lacks, and comes with the others."""
    scheme = type(before)(before.name)
    scheme.widen(before.bounds)
    scheme.keep_edges(before.edges)
    old, new = before.edges, after.edges
    lost, gained = rows_missing(old, new), rows_missing(new, old)
    scheme.delete(lost, len(lost[0]))
    gone = _listed(scheme, Domain.NEW, budget)
    scheme.remove()
    scheme.forget()
    scheme.insert(gained, len(gained[0]))
    scheme.advance()
    nothing = Table(before.name, before.arity, CPU)
    return composed((gone, nothing), (nothing, _listed(scheme, Domain.NEW, budget)))


def _difference_by_parts(before: Union, after: Union, budget: Budget) -> Listed:
    """What a part has lost and the union no longer has, and what a part has gained and it did not have."""
    same = [part.permutation for part in before.parts] == [part.permutation for part in after.parts]
    kinds = [type(part.scheme) for part in before.parts] == [type(part.scheme) for part in after.parts]
    if not same or not kinds:
        return _only_in(before, after, budget), _only_in(after, before, budget)
    identity = tuple(range(before.arity))
    pairs = [
        (old.scheme, new.scheme, old.permutation) for old, new in zip(before.parts, after.parts, strict=True)
    ]
    lost, gained = (Table(before.name, before.arity, CPU) for _ in range(2))
    for old, new, permutation in [*pairs, (before.own, after.own, identity)]:
        for facts, found in zip(difference(old, new, budget), (lost, gained), strict=True):
            found.insert(Part(facts, permutation).outward(facts.columns()), len(facts))
    return _not_in(lost, after), _not_in(gained, before)


def _not_in(facts: Table, scheme: Scheme) -> Table:
    result = Table(facts.name, facts.arity, CPU)
    if len(facts):
        kept = ~scheme.contains(facts.columns(), len(facts))
        result.insert([column[kept] for column in facts.columns()], int(np.count_nonzero(kept)))
    result.settle()
    return result


def _listed(scheme: Scheme, domain: Domain, budget: Budget) -> Table:
    budget.check_answers(scheme.count(domain), scheme.arity)
    found = Table(scheme.name, scheme.arity, CPU)
    for batch in scheme.scan(domain):
        found.insert(batch, len(batch[0]))
    found.settle()
    return found


def _only_in(one: Scheme, other: Scheme, budget: Budget) -> Table:
    found = Table(one.name, one.arity, CPU)
    if not one.arity:
        if len(one) and not len(other):
            found.insert([], 1)
        found.settle()
        return found
    for batch in one.scan():
        missing = ~other.contains(batch, len(batch[0]))
        found.insert([column[missing] for column in batch], int(np.count_nonzero(missing)))
        budget.check_answers(len(found), one.arity)
    found.settle()
    return found


def _without(facts: Table, others: Table, more: Table | None = None) -> Table:
    """Facts that are not among others, and more of them."""
    result = Table(facts.name, facts.arity, CPU)
    if len(facts):
        kept = ~others.contains(facts.columns(), len(facts)) if len(others) else np.ones(len(facts), np.bool_)
        result.insert([column[kept] for column in facts.columns()], int(np.count_nonzero(kept)))
    if more is not None:
        result.insert(more.columns(), len(more))
    result.settle()
    return result
