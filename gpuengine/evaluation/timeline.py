"""When strata and their rounds ran: a list of spans that stays short, however many rounds there are."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_MOST_SPANS = 2048


@dataclass(slots=True)
class RoundSpan:
    """Some rounds of a stratum that follow each other in one place.

    `began` counts from the start of the evaluation. `first` is the number of the first of them, 0 for the
    rules outside the recursion; `delta` is how many facts were new after the last one. `step` is what was
    done: derived, or of an update overdeleted or inserted.
    """

    first: int
    rounds: int
    began: float
    seconds: float
    delta: int
    where: str
    step: str = "derive"


@dataclass(slots=True)
class StratumSpan:
    """When a stratum ran, and its rounds."""

    number: int
    relations: tuple[str, ...]
    began: float
    seconds: float = 0.0
    rounds: list[RoundSpan] = field(default_factory=list)


class Timeline:
    """The strata in the order in which they ran. Spans are joined in pairs when there are very many."""

    def __init__(self) -> None:
        self.strata: list[StratumSpan] = []
        self._started = self._last = time.perf_counter()
        self._spans = 0
        self._most = _MOST_SPANS

    def begin_stratum(self, number: int, relations: tuple[str, ...]) -> None:
        """A stratum begins."""
        self._last = time.perf_counter()
        self.strata.append(StratumSpan(number, relations, self._last - self._started))

    def end_rounds(self, first: int, rounds: int, delta: int, where: str, step: str = "derive") -> None:
        """Some rounds of the stratum have ended; they began when the ones before them did."""
        now = time.perf_counter()
        span = RoundSpan(first, rounds, self._last - self._started, now - self._last, delta, where, step)
        self.strata[-1].rounds.append(span)
        self._last = now
        self._spans += 1
        if self._spans > self._most:
            self._shorten()

    def end_stratum(self) -> None:
        """The stratum has ended."""
        stratum = self.strata[-1]
        self._last = time.perf_counter()
        stratum.seconds = self._last - self._started - stratum.began

    def _shorten(self) -> None:
        for stratum in self.strata:
            stratum.rounds = _in_pairs(stratum.rounds)
        self._spans = sum(len(stratum.rounds) for stratum in self.strata)
        is_short = 4 * self._spans <= 3 * _MOST_SPANS
        self._most = _MOST_SPANS if is_short else 2 * self._spans


def _in_pairs(spans: list[RoundSpan]) -> list[RoundSpan]:
    """Each two spans of one place as one, but for the rules outside the recursion."""
    joined: list[RoundSpan] = []
    is_open = False
    for span in spans:
        last = joined[-1] if joined else None
        is_alike = last is not None and (last.where, last.step) == (span.where, span.step)
        if is_open and last is not None and is_alike and last.first > 0:
            joined[-1] = RoundSpan(
                last.first,
                last.rounds + span.rounds,
                last.began,
                last.seconds + span.seconds,
                span.delta,
                span.where,
                span.step,
            )
            is_open = False
        else:
            joined.append(span)
            is_open = True
    return joined
