"""Measure on a device what `evaluation.thresholds` lists, and choose the numbers from the measurements.

Rounds are timed by evaluating many chains side by side: every round derives one fact for each chain, so that
the number of chains is the size of the delta. Chains are followed once from their beginning and once from
their middle; the difference is that many rounds, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.doctor.checkup import ALWAYS_ON_DEVICE
from gpuengine.engine import Engine
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.cpu.backend import CPU

if TYPE_CHECKING:
    from gpuengine.kernels.cuda.backend import CudaBackend

DELTAS = tuple(1 << bits for bits in range(8, 19))
"""The sizes of the delta at which rounds are timed."""
ROUNDS = 16
MOVED_ROWS = 1 << 22
_REPEAT = 3
_NEVER = 1 << 40
"""So many facts no machine has."""
_WORTH_MOVING = 2
"""A round must be so many times faster on the device before a stratum moves there for it."""
_FOLLOW = """
.decl next(x: number, y: number)
.decl reached(x: number)
.decl start(x: number)
reached(x) :- start(x).
reached(y) :- reached(x), next(x, y).
"""

Timer = Callable[[str, int, Callable[[], object]], float]
"""Seconds that an action takes, given what it is and its size."""


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Seconds by size of the delta: of one round, and of a whole evaluation of `facts` facts."""

    delta: int
    facts: int
    host_round: float
    device_round: float
    host_whole: float
    device_whole: float


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was measured; rates are a second."""

    opening: float
    rounds: tuple[RoundTimes, ...]
    transfer_bytes: float
    rebuild_rows: float


def measure(
    backend: CudaBackend,
    opening: float,
    *,
    timer: Timer,
    deltas: Sequence[int] = DELTAS,
    moved_rows: int = MOVED_ROWS,
    say: Callable[[str], None] = lambda text: None,
) -> Measured:
    """Time rounds, transfers and rebuilding; `opening` are the seconds that opening the device took."""
    backend.bind_thread()
    rounds = []
    for delta in deltas:
        say(f"rounds with a delta of {delta:,}")
        rounds.append(_time_rounds(backend, delta, timer))
    say("transfers and rebuilding")
    columns = [np.random.default_rng(j).integers(0, moved_rows, moved_rows).astype(np.uint32) for j in (0, 1)]
    on_device = [backend.column(column) for column in columns]
    nbytes = sum(column.nbytes for column in columns)
    fetching = timer("transfer", nbytes, lambda: [backend.device.download(column) for column in on_device])
    rebuilding = timer("rebuild", moved_rows, lambda: _rebuild(columns))
    return Measured(opening, tuple(rounds), nbytes / fetching, moved_rows / rebuilding)


def choose(measured: Measured) -> Thresholds:
    """The thresholds that the measurements speak for."""
    rounds = measured.rounds
    faster_on_host = [each.delta for each in rounds if each.host_round <= each.device_round]
    small = max(faster_on_host, default=0)
    worth_moving = [
        each.delta
        for each in rounds
        if each.delta > small and each.host_round >= _WORTH_MOVING * each.device_round
    ]
    return Thresholds(
        auto_facts=_least_facts(measured),
        small_delta=small,
        large_delta=min(worth_moving, default=_NEVER),
        round_microseconds=max(rounds[0].device_round - rounds[0].host_round, 0.0) * 1e6,
        transfer_bytes_per_microsecond=measured.transfer_bytes / 1e6,
        rebuild_rows_per_microsecond=measured.rebuild_rows / 1e6,
    )


def _least_facts(measured: Measured) -> int:
    """From how many facts on a device is faster that must be opened and filled first."""
    for each in measured.rounds:
        moving = 8 * each.facts / measured.transfer_bytes
        if measured.opening + moving + each.device_whole < each.host_whole:
            return each.facts
    saved = [
        (each.host_whole - each.device_whole) / each.facts - 8 / measured.transfer_bytes
        for each in measured.rounds
    ]
    # None was large enough to make up for the opening: assume that a fact saves what it saved at the end.
    return min(int(measured.opening / saved[-1]), _NEVER) if saved[-1] > 0 else _NEVER


def _time_rounds(backend: CudaBackend, delta: int, timer: Timer) -> RoundTimes:
    nodes = np.arange(delta * ROUNDS, dtype=np.int64).reshape(ROUNDS, delta)
    chains = np.stack([nodes[:-1].ravel(), nodes[1:].ravel()], axis=1)
    seconds = {}
    for place, where in (("host", "cpu"), ("device", backend)):
        for part, start in (("whole", nodes[0]), ("half", nodes[ROUNDS // 2])):
            engine = Engine(_FOLLOW, backend=where, thresholds=ALWAYS_ON_DEVICE)
            engine.load("next", chains)
            engine.load("start", start.reshape(-1, 1))
            seconds[place, part] = timer(f"{place} {part}", delta, engine.materialise)
    host_round, device_round = (
        max(seconds[place, "whole"] - seconds[place, "half"], 0.0) / (ROUNDS // 2)
        for place in ("host", "device")
    )
    return RoundTimes(
        delta,
        len(chains),
        host_round,
        device_round,
        seconds["host", "whole"],
        seconds["device", "whole"],
    )


def _rebuild(columns: Sequence[np.ndarray]) -> None:
    """What the host does to facts that have come back: their set and an index."""
    count = len(columns[0])
    rows = CPU.rows(2, count)
    rows.append(columns, count)
    rows.advance()
    CPU.keyset(2, [(0, count)] * 2, count).insert(rows, 0, count)
    CPU.index(rows, (0,), [(0, count)] * 2).build(exact=False)


def best_of_several(name: str, size: int, action: Callable[[], object]) -> float:
    """The timer for real devices."""
    best = float("inf")
    for _ in range(_REPEAT):
        started = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - started)
    return best
