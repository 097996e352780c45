"""What ends an evaluation: rounds, a horizon; and the error of programs that nothing ends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuengine.errors import EvaluationError, GpuEngineError
from gpuengine.temporal.lines import interval_of
from gpuengine.temporal.procedures import Procedure
from gpuengine.temporal.propagation import Drift, is_backward, is_forward
from gpuengine.temporal.syntax import Interval, Rule
from gpuengine.temporal.tables import time_of


@dataclass
class Bounds:
    """What ends an evaluation besides a fixpoint, and how it was asked to run."""

    rounds: int | None = None
    horizon: Interval | None = None
    procedure: Procedure = "optimised"


class Unbounded(EvaluationError):
    """The program moves facts through time for ever, and nothing bounds it."""

    def __init__(self, drift: Drift) -> None:
        rules = "\n".join(f"    {rule}" for rule in dict.fromkeys(map(str, drift.rules)))
        bound = "[0,100]" if drift.forward else "[-100,0]"
        super().__init__(
            f"the program moves facts through time for ever: {drift}\n{rules}\n"
            f"  hint: give a horizon (--horizon '{bound}', horizon='{bound}') or a number of rounds "
            "(--rounds 30, rounds=30)"
        )
        self.drift = drift


def is_exact_within(rules: Iterable[Rule], horizon: Interval) -> bool:
    """Is everything within the horizon found? Not if something may come in from outside."""
    rules = list(rules)
    if all(map(is_forward, rules)) or all(map(is_backward, rules)):
        return True
    return horizon.lower is None and horizon.upper is None


def horizon_of(
    given: Interval | str | tuple[Any, Any] | None, *, timestamps: bool = False
) -> Interval | None:
    """The interval that a user gives as a horizon: one, its text, or its two ends."""
    if given is None or isinstance(given, Interval):
        return given
    if isinstance(given, str):
        try:
            return interval_of(given, timestamps=timestamps)
        except ValueError as error:
            example = "[2026-01-31T00:00:00Z,2026-02-01T00:00:00Z)" if timestamps else "[0,100]"
            raise GpuEngineError(f"the horizon {given!r}: {error}\n  hint: write it like {example}") from None
    if not (isinstance(given, tuple | list) and len(given) == 2):
        raise GpuEngineError(f"the horizon {given!r} is neither an interval nor its two ends")
    low, high = (
        infinity if end is None else time_of(end, timestamps=timestamps and isinstance(end, str))
        for end, infinity in zip(given, (-math.inf, math.inf), strict=True)
    )
    if low is None or high is None:
        raise GpuEngineError(f"the horizon {given!r}: {given[low is not None]!r} is no time")
    if low == math.inf or high == -math.inf:
        raise GpuEngineError(f"the horizon {given!r} holds no time")
    interval = Interval(
        low if isinstance(low, Fraction) else None,
        high if isinstance(high, Fraction) else None,
        not isinstance(low, Fraction),
        not isinstance(high, Fraction),
    )
    if interval.is_empty:
        raise GpuEngineError(f"the horizon {given!r} holds no time")
    return interval
