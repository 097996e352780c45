"""Net changes of relations: what went and did not come back, what came and had not been there.

Tables know theirs. What goes from a closure, an equivalence or a union may be far more than anybody wants to
list: it is found out when somebody asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from gpuengine.evaluation.budget import Budget
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.changed import PairSnapshot
from gpuengine.schemes.contract import Columns, Scheme
from gpuengine.schemes.pairs import Gone, PairScheme
from gpuengine.schemes.table import Table


class Net(ABC):
    """`may_lose` and `may_gain` are known without listing anything: may something have gone, or come?"""

    may_lose: bool
    may_gain: bool

    @property
    @abstractmethod
    def deleted(self) -> Table:
        """What went: a settled table."""

    @property
    @abstractmethod
    def inserted(self) -> Table:
        """What came: a settled table."""

    def __bool__(self) -> bool:
        return self.may_lose or self.may_gain


class ListedNet(Net):
    """A change that is listed."""

    def __init__(self, deleted: Table, inserted: Table) -> None:
        self._deleted, self._inserted = deleted, inserted
        self.may_lose, self.may_gain = bool(len(deleted)), bool(len(inserted))

    @property
    def deleted(self) -> Table:
        return self._deleted

    @property
    def inserted(self) -> Table:
        return self._inserted


class PairNet(Net):
    """The change of a closure or an equivalence: by what it was and is, and what went and came between."""

    def __init__(
        self,
        before: PairSnapshot,
        scheme: PairScheme,
        gone: Sequence[Gone],
        come: Sequence[Gone],
        budget: Budget,
    ) -> None:
        self._before = before
        self._after = PairSnapshot(scheme, both_ways=False)
        self._nodes = scheme.nodes
        self._gone, self._come = list(gone), list(come)
        self._budget = budget
        self.may_lose, self.may_gain = bool(self._gone), bool(self._come)

    @cached_property
    def deleted(self) -> Table:
        return self._listed(self._gone, self._after)

    @cached_property
    def inserted(self) -> Table:
        return self._listed(self._come, self._before)

    def _listed(self, pairs: Sequence[Gone], without: PairSnapshot) -> Table:
        """Pairs that a state does not have."""
        found = Table(self._before.name, 2, CPU)
        for some in pairs:
            self._budget.check_answers(some.reading.reached.pairs, 2)
            for batch in some.scan(self._nodes):
                kept = ~without.contains(batch, len(batch[0]))
                found.insert([column[kept] for column in batch], int(np.count_nonzero(kept)))
        found.settle()
        return found


class FoundNet(Net):
    """A change that somebody else finds out when asked."""

    def __init__(self, find: Callable[[], tuple[Table, Table]], *, may_lose: bool, may_gain: bool) -> None:
        self._find = find
        self.may_lose, self.may_gain = may_lose, may_gain

    @cached_property
    def _found(self) -> tuple[Table, Table]:
        return self._find()

    @property
    def deleted(self) -> Table:
        return self._found[0]

    @property
    def inserted(self) -> Table:
        return self._found[1]


def table_of(name: str, arity: int, columns: Columns, count: int) -> Table:
    """A settled table of distinct facts on the host."""
    table = Table(name, arity, CPU)
    table.insert(columns, count)
    table.settle()
    return table


def net_of(scheme: Scheme, gone: Table, came: Columns, count: int) -> ListedNet:
    """The change of a scheme that lost some facts, and then gained others and some of them again."""
    name, arity = scheme.name, scheme.arity
    columns = gone.columns()
    lost = ~scheme.contains(columns, len(gone)) if len(gone) else np.zeros(0, np.bool_)
    fresh = ~gone.contains(came, count) if count and len(gone) else np.ones(count, np.bool_)
    return ListedNet(
        table_of(name, arity, [column[lost] for column in columns], int(np.count_nonzero(lost))),
        table_of(name, arity, [np.asarray(column)[fresh] for column in came], int(np.count_nonzero(fresh))),
    )
