"""What readers of an engine see, and how it becomes another one while they read.

Kernels run without the GIL, and an update changes tables, sets and indexes in place: nobody may read those
meanwhile. So there are two ways to read. Who only wants an answer reads the schemes as they stand, with all
their indexes, and a change waits for that (`reading`). Who keeps something, or comes while they change, reads
snapshots, which are of the state before and for which nobody waits (`snapshots`). Facts on a device are for
one thread at a time, whatever it does with them (`on_device`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from gpuengine.errors import Busy, GpuEngineError
from gpuengine.evaluation.materialisation import Materialisation
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.union import tables_in

_MOMENT = 0.02
"""So many seconds a reader waits for a change to end before it makes do with snapshots: most updates are
shorter, and what is read as it stands has indexes."""


Choose = Callable[[Materialisation], Iterable[str]]
"""Which relations of a materialisation are to be read; raises if it does not have them."""


class States:
    """The current materialisation of one engine. Any number of threads may read, one at a time changes.

    Invariant: while `_readers` is not 0, no scheme of the current one changes; while `_is_changing`, the
    schemes have been told (`Scheme.begin_change`), and their snapshots are of the current one.
    """

    def __init__(self, first: Materialisation) -> None:
        self.moment = _MOMENT
        self._condition = threading.Condition()
        self._current = first
        self._following: Materialisation | None = None
        self._readers = 0
        self._is_changing = False
        self._kept: dict[str, Scheme] = {}
        self._device = threading.RLock()

    @property
    def current(self) -> Materialisation:
        return self._current

    @contextmanager
    def reading(self, choose: Choose) -> Iterator[tuple[Materialisation, Mapping[str, Scheme]]]:
        """Some relations of one state, to be read until the block ends and no longer."""
        with self._condition:
            self._wait_a_moment()
            state = self._current
            names = tuple(choose(state))
            is_live = not self._is_changing
            schemes = dict(state.relations or {}) if is_live else self._snapshots(names)
            self._readers += is_live
        try:
            yield state, schemes
        finally:
            if is_live:
                self._leave()

    @contextmanager
    def standing(self, state: Materialisation | None) -> Iterator[Mapping[str, Scheme] | None]:
        """The schemes of a state to be read until the block ends, if they still stand; without waiting."""
        with self._condition:
            is_live = state is self._current and not self._is_changing
            self._readers += is_live
        try:
            yield state.relations if state is not None and is_live else None
        finally:
            if is_live:
                self._leave()

    def snapshots(self, choose: Choose) -> tuple[Materialisation, dict[str, Scheme]]:
        """Some relations of one state, to be read at any time."""
        with self._condition:
            self._wait_a_moment()
            state = self._current
            return state, self._snapshots(choose(state))

    @contextmanager
    def on_device(self, schemes: Iterable[Scheme] | None = None) -> Iterator[None]:
        """Have the device to oneself until the block ends, if some of the schemes are there (None: all)."""
        tables = (table for scheme in schemes or () for table in tables_in(scheme))
        if schemes is not None and all(table.backend.on_host for table in tables):
            yield
            return
        with self._device:
            yield

    @contextmanager
    def changing(self, timeout: float | None) -> Iterator[None]:
        """Change schemes until the block ends; then the materialisation is the one given to `follow`, if any.

        Waits for those who read the schemes as they stand, `timeout` seconds at most.
        """
        with self._condition:
            if self._is_changing:
                raise GpuEngineError(
                    "the engine is being changed by this very thread\n"
                    "  hint: what `watch` calls may read the engine, but not change it"
                )
            self._is_changing = True
            schemes = tuple((self._current.relations or {}).values())
            try:
                if not self._condition.wait_for(lambda: not self._readers, timeout):
                    raise Busy(
                        f"waited {timeout:g} s for queries that other threads are asking\n"
                        "  hint: give them more time with update(wait=…) or Engine(wait=…); None waits as "
                        "long as it takes"
                    )
                for scheme in schemes:
                    scheme.begin_change()
            except BaseException:
                self._end_change(schemes)
                raise
        try:
            yield
        finally:
            with self._condition:
                # What failed may have put other schemes, with the same facts, in the place of some.
                self._current = self._following or replace(self._current)
                self._following = None
                self._end_change(schemes)

    def follow(self, following: Materialisation) -> None:
        """Have another materialisation when the present change ends."""
        self._following = following

    def _end_change(self, schemes: Iterable[Scheme]) -> None:
        for scheme in schemes:
            scheme.end_change()
        self._kept.clear()
        self._is_changing = False
        self._condition.notify_all()

    def _snapshots(self, names: Iterable[str]) -> dict[str, Scheme]:
        schemes = self._current.relations or {}
        snapshots = {
            name: self._kept[name] if name in self._kept else schemes[name].snapshot() for name in names
        }
        if self._is_changing:
            self._kept.update(snapshots)  # so that sets and indexes are made once while the change goes on
        return snapshots

    def _wait_a_moment(self) -> None:
        self._condition.wait_for(lambda: not self._is_changing, self.moment)

    def _leave(self) -> None:
        with self._condition:
            self._readers -= 1
            if not self._readers:
                self._condition.notify_all()


class Turns:
    """Those who change an engine, one thread at a time, in the order in which they came.

    A thread that has its turn may take it again, and has it until it has given it back as often.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: deque[object] = deque()
        self._owner: int | None = None
        self._depth = 0
        self._name = ""
        self._since = 0.0

    def take(self, timeout: float | None) -> None:
        """Wait for one's turn, `timeout` seconds at most (None: as long as it takes); raises `Busy`."""
        thread = threading.current_thread()
        with self._condition:
            if self._owner != thread.ident:
                self._queue(timeout)
                self._owner, self._name, self._since = thread.ident, thread.name, time.monotonic()
            self._depth += 1

    def give_back(self) -> None:
        with self._condition:
            self._depth -= 1
            if not self._depth:
                self._owner = None
                self._condition.notify_all()

    @contextmanager
    def turn(self, timeout: float | None) -> Iterator[None]:
        """Have one's turn until the block ends."""
        self.take(timeout)
        try:
            yield
        finally:
            self.give_back()

    def _queue(self, timeout: float | None) -> None:
        ticket = object()
        self._waiting.append(ticket)
        try:
            if not self._condition.wait_for(
                lambda: self._owner is None and self._waiting[0] is ticket, timeout
            ):
                raise Busy(
                    f"waited {timeout:g} s for another thread ({self._name}), which has been changing the "
                    f"engine for {time.monotonic() - self._since:.1f} s; nothing was changed\n"
                    "  hint: give it more time with update(wait=…) or Engine(wait=…); None waits as long as "
                    "it takes"
                )
        finally:
            self._waiting.remove(ticket)
            self._condition.notify_all()
