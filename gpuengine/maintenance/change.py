"""What an update changed: for each relation the facts that came and those that went."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from gpuengine.errors import GpuEngineError, MemoryBudgetError
from gpuengine.evaluation.materialisation import Materialisation
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.language.program import Attribute
from gpuengine.maintenance.delta import Delta, Deltas
from gpuengine.relation import RelationView
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    import pyarrow as pa


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

    It stays what it is when more updates follow. Copied and pickled by value, as its relations are.
    """

    def __init__(
        self,
        attributes: Mapping[str, Sequence[Attribute]],
        deltas: Deltas,
        dictionary: Dictionary,
        budget: Budget,
    ) -> None:
        self._attributes = attributes
        self._deltas = dict(deltas)
        self._dictionary = dictionary
        self._budget = budget
        self._found: dict[str, RelationChange] = {}
        self._finding = threading.RLock()

    @property
    def declared(self) -> Collection[str]:
        """The relations that one can ask of."""
        return self._attributes.keys()

    def __getitem__(self, relation: str) -> RelationChange:
        if relation not in self._attributes:
            raise KeyError(relation)
        with self._finding:  # who begins another update waits for it, and then finds out the rest
            return self._find(relation)

    def _find(self, relation: str) -> RelationChange:
        if relation not in self._found:
            attributes = self._attributes[relation]
            delta = self._deltas.get(relation) or Delta.listed(relation, len(attributes))
            views = (
                RelationView(relation, attributes, facts, self._dictionary, self._budget)
                for facts in (delta.plus, delta.minus)
            )
            self._found[relation] = RelationChange(*views)
        return self._found[relation]

    def find_all(self) -> None:
        """Find out what nobody has asked for yet, before that from which it is found changes."""
        with self._finding:
            for name in self._deltas:
                try:
                    self._find(name)
                except MemoryBudgetError as error:
                    refuse = partial(_refuse, error)
                    self._deltas[name] = Delta(name, refuse, refuse)

    def then(self, later: Change) -> Change:
        """What this and a later change come to."""
        self.find_all()
        deltas = dict(self._deltas)
        for name, delta in later._deltas.items():
            deltas[name] = deltas[name].then(delta) if name in deltas else delta
        return Change(later._attributes, deltas, self._dictionary, self._budget)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._deltas if self[name])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __reduce__(self) -> tuple[Any, ...]:
        """By value: all that changed is found out first."""
        return _restored, (dict(self._attributes), {name: self[name] for name in self})

    def __repr__(self) -> str:
        return f"<change: {', '.join(repr(self[name])[1:-1] for name in self) or 'nothing'}>"

    def _repr_html_(self) -> str:
        from gpuengine.showing import html_table

        rows = [(name, f"+{len(self[name].inserted):,}", f"-{len(self[name].deleted):,}") for name in self]
        return html_table(("relation", "came", "went"), rows, len(rows), "change" if rows else "no change")


def change_to(after: Materialisation, deltas: Deltas, budget: Budget) -> Change:
    """What changed when a materialisation came to be; aliases change as the relations that they stand for."""
    changes = dict(deltas)
    for name, alias in after.prepared.aliases.items():
        if alias.of in changes and name not in changes:
            changes[name] = changes[alias.of].permuted(name, alias.permutation)
    relations = after.prepared.program.relations
    attributes = {name: relation.attributes for name, relation in relations.items()}
    return Change(attributes, changes, after.dictionary, budget)


def _restored(attributes: Mapping[str, Sequence[Attribute]], found: Mapping[str, RelationChange]) -> Change:
    """A change of which all is known."""
    nothing = {name: Delta.listed(name, len(attributes[name])) for name in found}
    change = Change(attributes, nothing, Dictionary.of_types({}, {}), Budget())
    change._found.update(found)
    return change


def _refuse(error: MemoryBudgetError) -> NoReturn:
    raise error
