"""Rational times as integers, exactly: scaled by the least common denominator, and doubled for open ends.

`kernels.timeline` says what the integers mean. Loading a time with another denominator changes the unit;
what is stored is then scaled to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from gpuengine.errors import EvaluationError
from gpuengine.kernels.timeline import INFINITY, LARGEST, MINUS_INFINITY
from gpuengine.temporal.spelling import time_text
from gpuengine.temporal.syntax import Interval

OPERATOR_LIMIT = LARGEST >> 4
"""The ends of an operator's range lie below this, so that a stored end and many of them stay below 2**60."""


class Encoding:
    """A unit of time: one `scale`-th. Immutable."""

    __slots__ = ("scale",)

    def __init__(self, scale: int = 1) -> None:
        self.scale = scale

    def with_times(self, times: Iterable[Fraction]) -> Encoding:
        """The encoding of these times and all that this one has; raises if one of them does not fit."""
        times = list(times)
        scale = math.lcm(self.scale, *{time.denominator for time in times})
        if times and 2 * scale * max(Fraction(1), *(abs(time) for time in times)) >= LARGEST:
            raise overflow(worst_of(times), scale)
        return self if scale == self.scale else Encoding(scale)

    def with_scales(self, scales: Iterable[int]) -> Encoding:
        """The encoding in whose unit those of all these scales are whole."""
        scale = math.lcm(self.scale, *scales)
        if 2 * scale >= LARGEST:
            raise TooFine(scale)
        return self if scale == self.scale else Encoding(scale)

    def end(self, time: Fraction) -> int:
        """A closed end."""
        scaled = 2 * self.scale * time
        assert scaled.denominator == 1
        return scaled.numerator

    def range(self, range: Interval) -> tuple[int, int]:
        """The encoded ends of an interval."""
        lower = MINUS_INFINITY if range.lower is None else self.end(range.lower) + range.lower_open
        upper = INFINITY if range.upper is None else self.end(range.upper) - range.upper_open
        return lower, upper

    def decode(self, lower: int, upper: int) -> Interval:
        """The interval of encoded ends."""
        low = None if lower == MINUS_INFINITY else Fraction(lower - (lower & 1), 2 * self.scale)
        high = None if upper == INFINITY else Fraction(upper + (upper & 1), 2 * self.scale)
        return Interval(low, high, low is None or bool(lower & 1), high is None or bool(upper & 1))

    def cover(self, range: Interval) -> tuple[int, int]:
        """The encoded ends of what must hold for an interval to hold; its ends may lie between two units."""

        def element(time: Fraction) -> int:
            scaled = time * self.scale
            floor = scaled.numerator // scaled.denominator
            return 2 * floor + (scaled.denominator != 1)

        lower = MINUS_INFINITY if range.lower is None else element(range.lower)
        upper = INFINITY if range.upper is None else element(range.upper)
        if range.lower is not None and range.lower_open and not lower & 1:
            lower += 1
        if range.upper is not None and range.upper_open and not upper & 1:
            upper -= 1
        return lower, upper

    def rescaled(self, lower: np.ndarray, upper: np.ndarray, old: Encoding) -> tuple[np.ndarray, np.ndarray]:
        """Ends of an older encoding, whose scale divides this one's, in this one."""
        factor = self.scale // old.scale
        if factor == 1:
            return lower, upper
        finite_low, finite_up = lower != MINUS_INFINITY, upper != INFINITY
        largest = max(
            int(np.abs(lower[finite_low]).max(initial=0)), int(np.abs(upper[finite_up]).max(initial=0))
        )
        if largest * factor >= LARGEST:
            raise TooFine(self.scale)
        low = np.where(finite_low, (lower - (lower & 1)) * factor + (lower & 1), lower)
        up = np.where(finite_up, (upper + (upper & 1)) * factor - (upper & 1), upper)
        return low, up


class TooFine(Exception):
    """Times of one unit do not fit another; whoever has all times says which of them is to blame."""

    def __init__(self, scale: int) -> None:
        super().__init__(scale)
        self.scale = scale


def worst_of(times: Iterable[Fraction]) -> Fraction:
    """The time that makes the unit finest, of those the largest."""
    return max(times, key=lambda time: (time.denominator, abs(time)), default=Fraction(0))


def overflow(worst: Fraction, scale: int) -> EvaluationError:
    """What to say when times do not fit 64 bits."""
    return EvaluationError(
        f"times do not fit 64 bits: the common denominator of all of them is {scale:,}\n"
        f"  hint: the worst is {time_text(worst)} (denominator {worst.denominator:,}); round it, or choose a "
        "coarser unit of time"
    )
