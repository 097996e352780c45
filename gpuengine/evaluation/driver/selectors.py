"""Relations that do not keep all that is derived: what is offered to them in a round, and what they keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from gpuengine.evaluation.driver.device_merging import DeviceMerging, can_merge_on_device
from gpuengine.evaluation.driver.folding import Joining, Summing
from gpuengine.evaluation.driver.relation_selector import Columns, OneFactForEachKey, RelationSelector
from gpuengine.evaluation.rules.body import BodyProgram, compile_body
from gpuengine.evaluation.rules.bounds import flow_bounds
from gpuengine.evaluation.rules.variants import VariantRunner
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.groups import BestValues, KeyNumbers, choose
from gpuengine.kernels.cpu.merging import RoundMerge
from gpuengine.language.monotony import Merges, merges_of
from gpuengine.language.program import Atom, Constant, Merge, Rule, Type, Variable, literal_variables
from gpuengine.planning.order import order_body
from gpuengine.planning.plan import Stratum
from gpuengine.planning.selection import Selection
from gpuengine.schemes.table_reads import is_row_of
from gpuengine.terms.ranks import order_keys, ranks


class Merging(OneFactForEachKey):
    """Keeps for each key the fact with the best value.

    As the recursion is monotone facts may be appended in any order: with `holding` the best come first, see
    `BestValues`.
    """

    def __init__(self, name: str, runner: VariantRunner, merge: Merge, *, holding: bool) -> None:
        super().__init__(name, runner, [merge.column])
        self._merge = merge
        self._is_ranked = order_keys(np.zeros(0, np.uint32), self._type, self.database.dictionary) is None
        self._best = BestValues(max(1, len(self._keys)), holding=holding and not self._is_ranked)
        self._compiled: RoundMerge | None = None
        self._waiting: list[tuple[list[np.ndarray], np.ndarray]] = []
        self._round = 0

    @property
    def _type(self) -> Type:
        return self.types[self._merge.column]

    @property
    def known(self) -> int:
        return len(self._best.keys)

    @property
    def is_holding(self) -> bool:
        return self._best.is_holding

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        ids = np.ascontiguousarray(columns[self._merge.column], np.uint32)
        keys = self.keys_of(columns, rows)
        if self._is_ranked:
            self._waiting.append(([np.array(key) for key in keys], np.array(ids)))
            return
        values = order_keys(ids, self._type, self.database.dictionary, largest=self._merge.op == "max")
        assert values is not None
        self._best.offer(keys, values, ids)

    def begin(self, *, in_rounds: bool) -> None:
        if not in_rounds:
            self._best.hold_nothing()
        super().begin(in_rounds=in_rounds)

    def _offer_ranked(self) -> None:
        """Values that only have an order among each other: ranked together with those they compete with."""
        if not self._waiting:
            return
        keys = [np.concatenate(parts) for parts in zip(*(keys for keys, _ in self._waiting), strict=True)]
        ids = np.concatenate([ids for _, ids in self._waiting])
        self._waiting = []
        number = self._best.keys.number(keys, len(ids)).astype(np.int64)
        has_rival = number < len(self._row_of)
        has_rival[has_rival] = self._row_of[number[has_rival]] >= 0
        rivals = np.zeros(len(ids), np.uint32)
        rivals[has_rival] = self._best.ids[number[has_rival]]
        distinct, which = np.unique(np.concatenate([ids, rivals[has_rival]]), return_inverse=True)
        rank = ranks(distinct, self._type, self.database.dictionary)[which]
        if self._merge.op == "max":
            rank = -rank
        is_better = np.ones(len(ids), np.bool_)
        is_better[has_rival] = rank[: len(ids)][has_rival] < rank[len(ids) :]
        order = np.lexsort((rank[: len(ids)], number))
        order = order[is_better[order]]
        first = np.ones(len(order), np.bool_)
        first[1:] = number[order][1:] != number[order][:-1]
        chosen = order[first]
        # Whatever was known of these keys is worse: the number of the round stands for the value.
        self._round -= 1
        self._best.offer([key[chosen] for key in keys], np.full(len(chosen), self._round), ids[chosen])

    def apply(self) -> None:
        self._offer_ranked()
        improved = self._best.improved()
        parts = [self._best.keys.rows.column(j)[improved] for j in range(len(self._keys))]
        self.append_for(improved, parts, [self._best.ids[improved]])

    def in_rounds(self) -> RoundMerge | None:
        if self._is_ranked:
            return None
        if self._compiled is None:
            space = self._type.space
            words = self.database.dictionary.word_tables[space]
            largest = self._merge.op == "max"
            column = self._merge.column
            self._compiled = RoundMerge(self._best, self.table.arity, column, space, words, largest=largest)
        self.make_room_for_rows(len(self._best.ids))
        self._compiled.refresh(self.table.bounds, self._row_of)
        return self._compiled

    @property
    def can_leave_host(self) -> bool:
        return can_merge_on_device(self._type.kind)

    def on_device(self) -> RelationSelector:
        return DeviceMerging(self, self.runner, self._merge)

    def take_over(self, told: Columns, waiting: Columns) -> None:
        if len(told[0]):
            self.offer(told, len(told[0]))
            self._best.hold_nothing()
            assert len(self._best.improved()) == len(told[0]), "each key once"
            columns = self.table.columns()
            numbers = self._best.keys.number(self.keys_of(columns, len(self.table)), len(self.table))
            known = np.flatnonzero(numbers < len(told[0]))
            numbers = numbers[known]
            is_best = self._best.ids[numbers] == columns[self._merge.column][known]
            self.make_room_for_rows(len(told[0]))
            self._row_of[numbers[is_best]] = known[is_best]
        if len(waiting[0]):
            self.offer(waiting, len(waiting[0]))

    def end(self) -> None:
        assert self._best.is_told, "the recursion has seen all facts"
        super().end()


class Choosing(RelationSelector):
    """Keeps the first fact for each of its keys; of those of one round, the least by value."""

    def __init__(self, name: str, runner: VariantRunner, choices: tuple[tuple[int, ...], ...]) -> None:
        super().__init__(name, runner)
        self._choices = choices
        self._width = max(len(key) for key in choices)
        self._numbers = KeyNumbers(1 + self._width)
        self._taken = np.zeros(0, np.uint8)
        self._waiting: list[list[np.ndarray]] = []

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        self._waiting.append([np.array(column) for column in columns])

    def apply(self) -> None:
        if not self._waiting:
            return
        columns = [np.concatenate(parts) for parts in zip(*self._waiting, strict=True)]
        self._waiting = []
        columns, count = CPU.distinct_rows(columns, len(columns[0]))
        dictionary = self.database.dictionary
        by_value = [
            ranks(column, type_, dictionary) for column, type_ in zip(columns, self.types, strict=True)
        ]
        order = np.lexsort(by_value[::-1])
        columns = [np.asarray(column)[order] for column in columns]
        numbers = []
        for place, key in enumerate(self._choices):
            parts = [np.full(count, place, np.uint32), *(columns[column] for column in key)]
            parts += [np.zeros(count, np.uint32)] * (1 + self._width - len(parts))
            numbers.append(self._numbers.number(parts, count))
        if len(self._taken) < len(self._numbers):
            more = len(self._numbers) - len(self._taken)
            self._taken = np.concatenate([self._taken, np.zeros(more, np.uint8)])
        chosen = np.zeros(count, np.uint8)
        total = choose(np.concatenate(numbers), len(numbers), count, self._taken, chosen)
        if total:
            self.append([column[chosen.view(np.bool_)] for column in columns], total)


class Subsuming(RelationSelector):
    """Keeps what no other fact subsumes, round by round as Soufflé does.

    Of the facts that a round derives those are rejected that another one of them, or one that is there,
    subsumes; then those that are there go that one of the others subsumes.
    """

    def __init__(self, name: str, runner: VariantRunner, rules: tuple[Rule, ...]) -> None:
        super().__init__(name, runner)
        self._pairs = [_Domination(rule, runner) for rule in rules]
        self._waiting: list[list[np.ndarray]] = []

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        self._waiting.append([np.array(column) for column in columns])

    def apply(self) -> None:
        if not self._waiting:
            return
        table = self.table
        table.settle()
        before, bounds = len(table), list(table.bounds)
        for columns in self._waiting:
            table.insert(columns, len(columns[0]))
        self._waiting = []
        if list(table.bounds) != bounds:
            flow_bounds(self.runner.bound_rules, self.database)
        if len(table) == before:
            return
        table.advance()
        table.refresh_indexes()
        new = [column[before:].copy() for column in table.columns()]
        rejected = self._united(one.rejected() for one in self._pairs)
        mask = np.zeros(len(new[0]), np.bool_)
        if rejected:
            mask = is_row_of(new, rejected)
        gone = self._united(one.deleted(rejected) for one in self._pairs) if not mask.all() else []
        accepted = [column[~mask] for column in new]
        table.take_back()
        if gone:
            table.delete(gone, len(gone[0]))
            table.take_back()
        if len(accepted[0]):
            self.append(accepted, len(accepted[0]))

    def bodies(self) -> Iterator[BodyProgram]:
        for pair in self._pairs:
            yield from pair.made.values()

    def _united(self, found: Iterable[list[np.ndarray]]) -> list[np.ndarray]:
        parts = [columns for columns in found if len(columns[0])]
        if not parts:
            return []
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        distinct, _ = CPU.distinct_rows(columns, len(columns[0]))
        return [np.asarray(column) for column in distinct]


class _Domination:
    """One subsumption rule: finds facts for which another one is there that subsumes them."""

    def __init__(self, rule: Rule, runner: VariantRunner) -> None:
        self._runner = runner
        self._places = [at for at, part in enumerate(rule.body) if isinstance(part, Atom)][:2]
        # Wildcards of the second atom get names, so that what is found can be told from the fact itself.
        second = rule.body[self._places[1]]
        assert isinstance(second, Atom)
        attributes = runner.context.database.program.relations[rule.head.relation].attributes
        args = tuple(
            arg if isinstance(arg, Variable | Constant) else Variable(f"@other{j}", attributes[j].type)
            for j, arg in enumerate(second.args)
        )
        body = list(rule.body)
        body[self._places[1]] = replace(second, args=args)
        self._rule = replace(rule, body=tuple(body))
        first = self._rule.body[self._places[0]]
        assert isinstance(first, Atom)
        self._atoms = (first, replace(second, args=args))
        self._sink = tuple(
            sorted(
                literal_variables(self._atoms[0]) | literal_variables(self._atoms[1]), key=lambda v: v.name
            )
        )
        self.made: dict[int, BodyProgram] = {}

    def rejected(self) -> list[np.ndarray]:
        """NEW facts that another one, NEW or OLD, subsumes."""
        return self._found(0, frozenset(), [])

    def deleted(self, rejected: list[np.ndarray]) -> list[np.ndarray]:
        """OLD facts that a NEW one subsumes which is not rejected itself."""
        return self._found(1, frozenset((self._places[0],)), rejected)

    def _found(self, delta: int, old: frozenset[int], without: list[np.ndarray]) -> list[np.ndarray]:
        program, context = self._program(delta, old), self._runner.context
        arity = len(self._atoms[0].args)
        batches: list[list[np.ndarray]] = [[np.zeros(0, np.uint32)] * arity]
        if program.impossible:
            return batches[0]
        context.progress.rule = self._rule.text
        start, end = program.stages[0].pipeline.driver.rows.delta
        for bindings in program.collect(start, end):
            worse, better = (self._facts(atom, bindings.columns, bindings.rows) for atom in self._atoms)
            mask = np.zeros(bindings.rows, np.bool_)
            for one, other in zip(worse, better, strict=True):
                mask |= one != other
            if without:
                mask &= ~is_row_of(better, without)
            if mask.any():
                kept, _ = CPU.distinct_rows([column[mask] for column in worse], int(np.count_nonzero(mask)))
                batches.append([np.asarray(column) for column in kept])
        return [np.concatenate(column) for column in zip(*batches, strict=True)]

    def _facts(self, atom: Atom, columns: dict[Variable, np.ndarray], rows: int) -> list[np.ndarray]:
        intern = self._runner.context.database.dictionary.intern_constant
        return [
            columns[arg] if isinstance(arg, Variable) else np.full(rows, intern(arg), np.uint32)  # type: ignore[arg-type]
            for arg in atom.args
        ]

    def _program(self, delta: int, old: frozenset[int]) -> BodyProgram:
        known = self.made.get(delta)
        if known is not None and known.is_current:
            return known
        context, place = self._runner.context, self._places[delta]
        body = self._rule.body
        program = compile_body(
            body,
            order_body(body, context.database, driver=place),
            context.database,
            sink=self._sink,
            stop=context.stop,
            delta=place,
            old=old,
            growing=self._runner.members,
            exact=True,
        )
        self.made[delta] = program
        return program


def make_selectors(stratum: Stratum, runner: VariantRunner) -> dict[str, RelationSelector]:
    """What selects the facts of those relations of a stratum that do not keep everything."""
    plan = runner.context.plan
    selections = plan.selections
    moving = {
        name: merges
        for name, merges in merges_of(plan.program.rules, plan.program.relations).items()
        if name in stratum.relations and stratum.recursive
    }
    # Without rounds, or if they end before the fixpoint, what was held back would be missing.
    holding = bool(stratum.recursive) and not plan.size_limits
    return {
        name: _selector(selections[name], runner, moving, holding=holding)
        for name in stratum.relations
        if name in selections
    }


def _selector(
    selection: Selection, runner: VariantRunner, moving: Merges, *, holding: bool
) -> RelationSelector:
    if selection.merge is not None:
        return Merging(selection.relation, runner, selection.merge, holding=holding)
    if selection.sum is not None:
        return Summing(selection.relation, runner, selection.sum, moving)
    if selection.joins:
        return Joining(selection.relation, runner, selection.joins)
    if selection.choices:
        return Choosing(selection.relation, runner, selection.choices)
    return Subsuming(selection.relation, runner, selection.subsumptions)
