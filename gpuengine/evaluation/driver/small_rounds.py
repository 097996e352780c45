"""Hand a stratum whose rules are all single pipelines to the compiled loop over small rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.driver.relation_selector import RelationSelector
from gpuengine.evaluation.rules.body import BodyProgram
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.improving import holding, host_program, words_of
from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.contract import Compute
from gpuengine.kernels.cpu import rounds
from gpuengine.kernels.cpu.indexes import RowIndex
from gpuengine.kernels.cpu.merging import RoundMerge
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.schemes.table import Table

ROOM_ROWS = 1 << 12
_TURN = 1 << 16
"""Rounds and candidates after which a loop that adds terms to the dictionary pauses."""
_UNLIMITED = 1 << 62


class Outcome(IntEnum):
    """Why a loop ended: between two rounds, but for OUTSIDE in the midst of one, which has to be run again.

    PAUSED has no reason but that much was computed: others get their turn, and plans can be reconsidered.
    UNTOLD: the variants of a round have run, and selectors have to end it.
    """

    FIXPOINT = rounds.FIXPOINT
    LARGE = rounds.LARGE
    OUTSIDE = rounds.NOT_WITHIN
    PAUSED = rounds.PAUSED
    UNTOLD = rounds.UNTOLD


class SmallRounds:
    """The loop over `programs`: (pure body, driver's table, head's table) for each variant.

    `tables` are all tables of the stratum, with their deltas set and indexed, and all are on the CPU.
    `selectors` are those of its relations that do not keep everything, by name; all select within rounds.
    """

    def __init__(
        self,
        programs: Sequence[tuple[BodyProgram, Table, Table]],
        tables: Sequence[Table],
        database: Database,
        stop: np.ndarray,
        selectors: Mapping[str, RelationSelector],
    ) -> None:
        self.programs = programs
        self._tables = tables
        self._database = database
        self._selectors = selectors
        self._merges = {name: _merge(selector) for name, selector in selectors.items()}
        for merge in self._merges.values():
            merge.buffer.count = 0  # what is left of a round that is run again
        merged = [merge.words for merge in self._merges.values()]
        self._words = words_of([host_program(body) for body, _, _ in programs], merged)
        self._control = np.zeros(rounds.CONTROL_WORDS, np.int64)
        self._control[rounds.CONTROL_STOP] = address_of(stop)
        self._control[rounds.CONTROL_TURN] = _TURN if self._words else _UNLIMITED

    @property
    def suspended(self) -> int:
        """The number of the variant that the loop is at."""
        return int(self._control[rounds.CONTROL_VARIANT])

    def row_outside(self) -> tuple[int, ...]:
        """After OUTSIDE: the row of ids that the head of the suspended variant does not admit."""
        return host_program(self.programs[self.suspended][0]).row()

    def run(
        self,
        limits: tuple[int, int],
        before_growth: Callable[[int], None],
    ) -> tuple[Outcome, int]:
        """Run rounds until the fixpoint, until one is larger than `limits` (delta rows, candidates), until
        something is computed that a head does not admit, or until others have their turn. Returns why it
        ended and how many rounds were run.

        `before_growth` is told which variant needs more room.
        """
        control = self._control
        control[rounds.CONTROL_DELTA_LIMIT], control[rounds.CONTROL_WORK_LIMIT] = limits
        indexes = [_indexes(table) for table in self._tables]
        for table in self._tables:
            table.reserve(ROOM_ROWS)
        plan = self._plan_words()
        while True:
            with holding(self._words, self._database):
                status = rounds.run_rounds(plan, control)
            for merge in self._merges.values():
                merge.note_numbered()
            if status == rounds.ROWS_FULL:
                before_growth(self.suspended)
                head = self.programs[self.suspended][2]
                head.reserve(max(ROOM_ROWS, head.rows.count >> 2))
            elif status == rounds.NO_WORDS:
                before_growth(self.suspended)
                self._make_room_for_words()
            elif status == rounds.INDEX_FULL:
                indexes[control[rounds.CONTROL_RELATION]][control[rounds.CONTROL_INDEX]].make_room()
            elif status == rounds.KEYS_FULL:
                before_growth(self.suspended)
                self._offer()
            elif status == rounds.RELATION_FULL:
                table = self._tables[control[rounds.CONTROL_RELATION]]
                before_growth(next(k for k, (_, _, head) in enumerate(self.programs) if head is table))
                waiting = self._merges[table.name].best.near
                table.reserve(max(ROOM_ROWS, table.rows.count >> 2, waiting))
            elif status == rounds.HALTED:
                raise Interrupted("stopped")
            else:
                for owned in indexes:
                    for index in owned:
                        index.note_current()
                return Outcome(status), int(control[rounds.CONTROL_ROUNDS])

    def _offer(self) -> None:
        """Offer what the suspended variant has derived by columns: for those there is always room."""
        name = self.programs[self.suspended][2].name
        buffer = self._merges[name].buffer
        self._selectors[name].offer(buffer.columns(), buffer.count)
        buffer.count = 0
        _merge(self._selectors[name])

    def _make_room_for_words(self) -> None:
        operation = host_program(self.programs[self.suspended][0]).suspended_at
        assert isinstance(operation, Compute) and operation.words is not None
        with operation.words.lock:
            operation.words.make_room()

    def _plan_words(self) -> np.ndarray:
        words = [len(self.programs), len(self._tables)]
        for body, driver, head in self.programs:
            program, merge = host_program(body), self._merges.get(head.name)
            words += [address_of(program.code), address_of(program.state), _address(driver)]
            words += [_address(head), 0] if merge is None else [merge.buffer.address, merge.address]
        entries = len(words)
        words += [0] * len(self._tables)
        for number, table in enumerate(self._tables):
            words[entries + number] = len(words)
            indexes = _indexes(table)
            merge = self._merges.get(table.name)
            words += [_address(table), 0 if merge is None else merge.address, table.arity]
            words += [len(indexes), *(index.address for index in indexes)]
        return np.array(words, np.int64)


def _merge(selector: RelationSelector) -> RoundMerge:
    merge = selector.in_rounds()
    assert merge is not None
    return merge


def _address(table: Table) -> int:
    assert isinstance(table.rows, Rows)
    return table.rows.address


def _indexes(table: Table) -> list[RowIndex]:
    return [index for index in table.indexes if isinstance(index, RowIndex)]
