"""Where each stratum runs, and when it moves between the host and the accelerator.

A stratum begins where the sizes of what it reads say. On the host it leaves for the accelerator when its
delta becomes large. On the accelerator rounds with small deltas waste time, but leaving costs time as well:
the facts must be copied, and their set and indexes made anew. How many small rounds are still to come is
not known, so it leaves once it has wasted as much as leaving costs (the ski-rental rule): whatever comes,
that is at most twice what the best choice would have cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from gpuengine.evaluation.placement.accelerator import Accelerator
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.contract import Backend, DeviceMemoryError
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.table import Table

_ALWAYS_ON_HOST = 1 << 62


class Placement:
    """Decides for one stratum after the other, and moves its tables.

    `begin` a stratum, then call `before_round` before each of its rounds; both bring all `tables` (what the
    stratum reads and writes) to one backend, which is `current` until the next call. `always`: every
    stratum begins on the accelerator, and it is an error if its memory does not suffice; otherwise the
    sizes decide, and the host takes over. `idle` gives tables that may leave the accelerator when others
    need its memory.
    """

    def __init__(
        self,
        accelerator: Accelerator | None = None,
        *,
        always: bool = False,
        idle: Callable[[], Iterable[Table]] = tuple,
    ) -> None:
        self.accelerator = accelerator or Accelerator()
        self.always = always
        self.current: Backend = CPU
        self.moves = 0
        self._idle = idle
        self._wasted = 0.0
        self._has_run_out = False

    @property
    def is_active(self) -> bool:
        """Is there anything to decide?"""
        return self.accelerator.is_possible

    @property
    def largest_host_delta(self) -> int:
        """With a delta of up to this a stratum that is on the host stays there."""
        may_leave = self.is_active and not self._has_run_out
        return self.accelerator.thresholds.large_delta - 1 if may_leave else _ALWAYS_ON_HOST

    def begin(self, tables: Collection[Table], *, on_host: bool = False) -> Backend:
        """Decide where a stratum starts, and bring its tables there. `moves` counts from here.

        One that loses facts while it is evaluated must be `on_host`.
        """
        self._has_run_out = False
        facts = sum(len(table) for table in tables)
        wanted = not on_host and self._is_wanted(lambda limits: self.always or facts >= limits.auto_facts)
        self._go(tables, self._opened() if wanted else CPU)
        self.moves = 0
        return self.current

    def begin_update(self, tables: Collection[Table], *, on_host: bool) -> None:
        """Decide where an update runs: where facts are, or most of them, unless it must be `on_host`.

        Its tables are brought there with `bring`.
        """
        backend = self.accelerator.backend
        there = sum(len(table) for table in tables if table.backend is backend)
        is_wanted = self.always or 2 * there > sum(len(table) for table in tables)
        self.current = backend if backend is not None and is_wanted and not on_host else CPU

    def bring(self, tables: Iterable[Table]) -> None:
        """Bring tables to where the update runs."""
        self.current.bind_thread()
        for table in tables:
            table.move_to(self.current)

    def before_round(self, tables: Collection[Table], delta: int) -> Backend:
        """Decide where the round over this delta runs, and bring the tables there."""
        if self.current.on_host:
            is_large = delta > self.largest_host_delta
            if is_large and self._is_wanted(lambda limits: delta >= limits.large_delta):
                self._go(tables, self._opened())
        elif delta <= self.accelerator.thresholds.small_delta:
            if self._wasted >= self.cost_of_leaving(tables):
                self._go(tables, CPU)
            else:
                self._wasted += self.accelerator.thresholds.round_microseconds
        return self.current

    def cost_of_leaving(self, tables: Iterable[Table]) -> float:
        """About how many microseconds it takes until tables on the accelerator can be used on the host."""
        thresholds = self.accelerator.thresholds
        away = [table for table in tables if not table.backend.on_host]
        copied = sum(table.bytes_to_move(CPU) for table in away)
        rows = sum(len(table) for table in away)
        return (
            copied / thresholds.transfer_bytes_per_microsecond
            + rows / thresholds.rebuild_rows_per_microsecond
        )

    def recover(self, tables: Collection[Table]) -> bool:
        """Make up for lack of device memory: what failed can be done again. False if nothing helps.

        First tables that the stratum does not use leave the accelerator; if there are none, and
        the accelerator is not insisted on, the stratum itself does. Sets and indexes are made anew in
        either case: they may know of facts that never came to be stored.
        """
        if self._free_idle(tables):
            for table in tables:
                table.forget_set()
                table.forget_indexes()
            return True
        if self.always or self.current.on_host:
            return False
        self._has_run_out = True
        self._go(tables, CPU)
        for table in tables:
            table.drop_copy()
        return True

    def _is_wanted(self, says: Callable[[Thresholds], bool]) -> bool:
        """Do the thresholds say so, and still do when the device is open and its own are known?"""
        accelerator = self.accelerator
        return (
            accelerator.is_possible
            and says(accelerator.thresholds)
            and accelerator.open() is not None
            and says(accelerator.thresholds)
        )

    def _opened(self) -> Backend:
        assert self.accelerator.backend is not None
        return self.accelerator.backend

    def _go(self, tables: Collection[Table], backend: Backend) -> None:
        """Bring the tables to a backend; if its memory does not suffice and need not be used, to the host."""
        self.moves += backend is not self.current
        self.current = backend
        self._wasted = 0.0
        if not backend.on_host:
            backend.bind_thread()
        while True:
            try:
                for table in tables:
                    table.drop_stale_copy()
                    table.move_to(self.current)
                return
            except DeviceMemoryError:
                if not self.recover(tables):
                    raise

    def _free_idle(self, used: Collection[Table]) -> bool:
        """Bring tables that are not in use to the host, and drop copies on the accelerator."""
        freed = 0
        for table in self._idle():
            if table not in used and table.device_nbytes:
                freed += table.device_nbytes
                table.move_to(CPU)
                table.drop_copy()
        return freed > 0
