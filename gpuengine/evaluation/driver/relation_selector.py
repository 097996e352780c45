"""What all selectors have in common: facts are offered in a round, and some are appended at its end.

Each relation is a table that rules read as any other. What rules derive is offered to its selector, and at
the end of the round what is selected is appended to the table, where it is the next delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuengine.evaluation.rules.body import BodyProgram
from gpuengine.evaluation.rules.bounds import flow_bounds
from gpuengine.evaluation.rules.variants import VariantRunner
from gpuengine.kernels.cpu.merging import RoundMerge
from gpuengine.language.program import Rule, Variable
from gpuengine.schemes.table import as_table

Columns = Sequence[np.ndarray]


class RelationSelector:
    """Selects the facts of one relation: `begin` with those that are there and were offered since, `apply`
    after each round, `end` with the fixpoint.
    """

    def __init__(self, name: str, runner: VariantRunner) -> None:
        self.name = name
        self.runner = runner
        self.database = runner.context.database
        self.table = as_table(self.database.tables[name])
        self.types = [attribute.type for attribute in self.database.program.relations[name].attributes]

    def besides(self, rule: Rule) -> tuple[Variable, ...]:
        """The variables of a rule that tell apart what is offered, but do not stand in its head."""
        return ()

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        """Facts that a rule derives, or users state; they count from the end of the round on."""
        raise NotImplementedError

    def apply(self) -> None:
        """Append to the table what is selected of that which was offered."""
        raise NotImplementedError

    def begin(self, *, in_rounds: bool) -> None:
        """The facts that are stated take part as if they were derived by rules outside the recursion.

        Not `in_rounds`: there are no rules that can apply in the recursion, and nothing comes after this.
        """
        stated = [column.copy() for column in self.table.columns()]
        count = len(self.table)
        if count:
            self.table.keep(np.zeros(count, np.bool_))
            self.offer(stated, count)
        self.apply()

    def end(self) -> None:
        """The fixpoint is reached."""

    def bodies(self) -> Iterator[BodyProgram]:
        """What it has compiled, of which the indexes must stay."""
        yield from ()

    @property
    def can_leave_host(self) -> bool:
        """Is there a selector that does the same on a device?"""
        return False

    def on_device(self) -> RelationSelector:
        """That one, for a table that is there; nothing has been offered yet."""
        raise NotImplementedError

    def take_over(self, told: Columns, waiting: Columns) -> None:
        """Go on with the best facts so far, which the table has, and with others that are offered."""
        raise NotImplementedError

    def leave_device(self) -> RelationSelector:
        """What goes on on the host with all that this one has; the table has left already."""
        raise NotImplementedError

    def in_rounds(self) -> RoundMerge | None:
        """What selects within the compiled loop over small rounds, as things are now; None if nothing can."""
        return None

    @property
    def known(self) -> int:
        """How many facts, or keys and bindings of bodies, there are: this only grows."""
        return len(self.table)

    @property
    def is_holding(self) -> bool:
        """Are there facts that wait until others have been seen?"""
        return False

    def moved_since(self, row: int) -> int:
        """For how many keys the fact that holds has been appended as that row of the table, or later."""
        return len(self.table) - row

    def append(self, columns: Columns, count: int) -> None:
        """Facts that the table does not have; others follow if it admits more ids than it did."""
        bounds = list(self.table.bounds)
        self.table.append(columns, count)
        if list(self.table.bounds) != bounds:
            flow_bounds(self.runner.bound_rules, self.database)


class OneFactForEachKey(RelationSelector):
    """A relation of which the fact that came last for a key stays.

    The recursion is monotone, so that a fact that has been bettered only leads to what will be bettered as
    well: it stays in the table until the end, and nothing needs to be taken out of sets and indexes.
    """

    def __init__(self, name: str, runner: VariantRunner, values: Sequence[int]) -> None:
        super().__init__(name, runner)
        self._values = list(values)
        self._keys = [column for column in range(self.table.arity) if column not in self._values]
        self._row_of = np.zeros(0, np.int64)

    def keys_of(self, columns: Columns, rows: int) -> list[np.ndarray]:
        """The columns of the key, one at least."""
        return [columns[column] for column in self._keys] or [np.zeros(rows, np.uint32)]

    def append_for(self, numbers: np.ndarray, keys: Columns, values: Columns) -> None:
        """Better facts for numbered keys: `keys` has the columns of their keys, `values` the others."""
        if not len(numbers):
            return
        parts, better = iter(keys), iter(values)
        columns = [
            next(better) if column in self._values else next(parts) for column in range(self.table.arity)
        ]
        self.make_room_for_rows(int(numbers.max()) + 1)
        self._row_of[numbers] = len(self.table) + np.arange(len(numbers))
        self.append(columns, len(numbers))

    def moved_since(self, row: int) -> int:
        return int(np.count_nonzero(self._row_of >= row))

    def make_room_for_rows(self, keys: int) -> None:
        """Have a place for the row of each of so many keys; -1 if it has none yet."""
        more = keys - len(self._row_of)
        if more > 0:
            self._row_of = np.concatenate([self._row_of, np.full(more, -1, np.int64)])

    def end(self) -> None:
        """Leave of each key the fact that came last."""
        last = self._row_of[self._row_of >= 0]
        if len(last) < len(self.table):
            kept = np.zeros(len(self.table), np.bool_)
            kept[last] = True
            self.table.keep(kept)
