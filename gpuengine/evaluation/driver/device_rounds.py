"""Have a device run many rounds of a stratum before it is waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuengine.evaluation.rules.body import BodyProgram
from gpuengine.kernels.contract import RoundsAhead, RoundsEnd
from gpuengine.planning.plan import Variant
from gpuengine.schemes.table import Table

_FIRST_ROUNDS = 8
"""So many are begun before anything is known of how they go; twice as many each time they go well."""
_MOST_ROUNDS = 64
"""Then Ctrl-C is looked at, and whether the plan still fits."""
_MOST_WORK = 1 << 24
"""About so many candidates at most are asked for at once: nobody can stop them."""
_LEAST_ROOM = 1 << 16
_EXPECTED_GROWTH = 2


class DeviceRounds:
    """Rounds of variants, each with its compiled body and the table of its head; good while `is_current`."""

    def __init__(
        self, ahead: RoundsAhead, variants: Sequence[Variant], bodies: Sequence[BodyProgram]
    ) -> None:
        self.variants = list(variants)
        self._ahead = ahead
        self._bodies = bodies
        self._rounds = _FIRST_ROUNDS

    @property
    def is_current(self) -> bool:
        """Do the tables stand where they were?"""
        return all(body.is_current for body in self._bodies)

    @property
    def candidates(self) -> list[int]:
        """About how many bindings have reached the end of each variant."""
        return list(self._ahead.candidates)

    def is_of(self, variants: Sequence[Variant], bodies: Sequence[BodyProgram]) -> bool:
        """Are these its variants, compiled as they were?"""
        return self.variants == list(variants) and all(
            one is other for one, other in zip(bodies, self._bodies, strict=True)
        )

    def run(
        self, heads: Sequence[Table], delta: int, before_growth: Callable[[int], None]
    ) -> tuple[bool, int]:
        """Run rounds; whether the last one is complete, and how many are. `delta` is the last one's size.

        `before_growth` is told the number of a variant whose head is given room. If a round is not complete,
        it has to be run again from its beginning; what it had derived by then is not new.
        """
        for number, head in enumerate(heads):
            before_growth(number)
            expected = _EXPECTED_GROWTH * delta * self._rounds
            head.reserve(max(_LEAST_ROOM, min(expected, head.rows.count)))
        before = sum(self._ahead.candidates)
        end, rounds = self._ahead.run(self._rounds)
        if end is RoundsEnd.FULL:
            for head in heads:
                head.forget_set()
        if end is RoundsEnd.MORE:
            work = (sum(self._ahead.candidates) - before) // rounds
            self._rounds = max(1, min(2 * self._rounds, _MOST_ROUNDS, _MOST_WORK // max(work, 1)))
        return end is not RoundsEnd.FULL, rounds
