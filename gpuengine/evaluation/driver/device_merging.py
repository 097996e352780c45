"""Relations that keep the best value of each key on a device: facts do not come to the host."""

from __future__ import annotations

from gpuengine.evaluation.driver.relation_selector import Columns, RelationSelector
from gpuengine.evaluation.rules.bounds import flow_bounds
from gpuengine.evaluation.rules.variants import VariantRunner
from gpuengine.kernels.contract import Array, CalculationStep, Compute, Operator, Reducer, Representation
from gpuengine.language.program import Kind, Merge, Rule

_REPRESENTATIONS = {Kind.NUMBER: Representation.BY_NUMBER, Kind.UNSIGNED: Representation.BY_UNSIGNED}


def can_merge_on_device(kind: Kind) -> bool:
    """Can a device tell the better of two values of a kind? Which NaN is kept would be its choice."""
    return kind in _REPRESENTATIONS


class DeviceMerging(RelationSelector):
    """`Merging` on a device: what is offered waits there until at the end of a round each key gets its best.

    Facts that were stated, or bettered, stay in the table until the end. A fact that is the best of its key
    and not in the table has come new, or got better. `on_host` goes on if there is too little memory.
    """

    def __init__(self, on_host: RelationSelector, runner: VariantRunner, merge: Merge) -> None:
        super().__init__(on_host.name, runner)
        self._on_host = on_host
        self._merge = merge
        self._backend = self.table.backend
        self._waiting = self._backend.rows(self.table.arity)
        self._best = self._backend.rows(self.table.arity)

    @property
    def known(self) -> int:
        return self._best.count

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        if rows:
            self._waiting.grow(rows)
            self._waiting.append([self._backend.column(column) for column in columns], rows)

    def begin(self, *, in_rounds: bool) -> None:
        if len(self.table):
            self.offer(self.table.rows.device_columns(), len(self.table))
        self.apply()

    def apply(self) -> None:
        rows = self._waiting
        if not rows.count:
            return
        calculator = self._backend.calculator
        assert calculator is not None
        if self._best.count:
            self.offer(self._best.device_columns(), self._best.count)
        columns, count = rows.device_columns(), rows.count
        value, type_ = self._merge.column, self.types[self._merge.column]
        keys = [column for j, column in enumerate(columns) if j != value]
        numbers, places = calculator.number_rows(keys, count)
        groups = len(places)
        words = self.database.dictionary.word_tables[type_.space]
        reducer = Reducer.GREATEST if self._merge.op == "max" else Reducer.LEAST
        reduction = calculator.reduction(reducer, _REPRESENTATIONS[type_.kind], groups)
        is_possible = reduction.add(
            numbers, Compute((CalculationStep(Operator.LOAD, 0, words),)), {0: columns[value]}, count
        )
        assert is_possible, "values are there"
        ids = reduction.ids(words)
        primitives = self._backend.primitives
        assert primitives is not None
        facts: list[Array] = [
            ids if j == value else primitives.take(column, places) for j, column in enumerate(columns)
        ]
        best = self._backend.rows(self.table.arity, groups)
        best.append(facts, groups)
        bounds = list(self.table.bounds)
        self.table.insert(facts, groups)
        # If memory ended before, all of it is done again.
        self._best, self._waiting = best, self._backend.rows(self.table.arity)
        if list(self.table.bounds) != bounds:
            flow_bounds(self.runner.bound_rules, self.database)

    def end(self) -> None:
        """Leave the best fact of each key."""
        if self._best.count < len(self.table):
            self.table.refill(self._best.device_columns(), self._best.count)

    def leave_device(self) -> RelationSelector:
        self._on_host.take_over(self._best.columns(), self._waiting.columns())
        return self._on_host
