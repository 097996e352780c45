"""When strata and their rounds ran: a list of spans that stays short, however many rounds there are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST_SPANS = 2048
_FIRST_STRETCH = 1e-3
_MOST_STRETCHES = 120


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


class ThreadTimes:
    """How long threads worked on rules, in stretches of `width` seconds that get longer to stay few.

    `busy` is by thread and stretch. The first thread is the one that evaluates: it works unless it waits for
    the others. Times are on the clock of `time.perf_counter`.
    """

    def __init__(self) -> None:
        self.width = _FIRST_STRETCH
        self.busy: list[list[float]] = []
        self._started = self._noted = 0.0

    def begin(self, now: float) -> None:
        """The first thread works from now on, alone until it tells otherwise."""
        if not self.busy:
            self._started = now
        self._noted = now

    def note_together(self, spans: Sequence[tuple[float, float]]) -> None:
        """Threads worked from and until then, the first one among them, which has waited for the others."""
        if not self._noted:
            return
        for thread, (began, ended) in enumerate(spans):
            self._note(thread, began if thread else self._noted, ended)
        self._noted = time.perf_counter()

    def end(self, now: float) -> None:
        """The first thread has worked until now."""
        self._note(0, self._noted, now)
        self._noted = 0.0

    def seconds(self) -> list[float]:
        """How long each thread worked."""
        return [sum(stretches) for stretches in self.busy]

    def _note(self, thread: int, began: float, ended: float) -> None:
        while (ended - self._started) >= _MOST_STRETCHES * self.width:
            self.width *= 2
            self.busy = [[sum(busy[k : k + 2]) for k in range(0, len(busy), 2)] for busy in self.busy]
        while len(self.busy) <= thread:
            self.busy.append([])
        busy = self.busy[thread]
        at = began - self._started
        last = ended - self._started
        while at < last:
            stretch = int(at / self.width)
            busy += [0.0] * (stretch + 1 - len(busy))
            until = min((stretch + 1) * self.width, last)
            busy[stretch] += max(until - at, 0.0)
            at = until if until > at else last


class Timeline:
    """The strata in the order in which they ran. Spans are joined in pairs when there are very many."""

    def __init__(self) -> None:
        self.strata: list[StratumSpan] = []
        self.threads = ThreadTimes()
        self._started = self._last = time.perf_counter()
        self._spans = 0
        self._most = _MOST_SPANS

    def begin_stratum(self, number: int, relations: tuple[str, ...]) -> None:
        """A stratum begins."""
        self._last = time.perf_counter()
        self.threads.begin(self._last)
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
        self.threads.end(self._last)

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
