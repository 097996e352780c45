"""Semi-naive rounds of DataFrame joins: for recursions that can't be split into parts of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from gpuengine.planning.plan import Stratum, Variant
from gpuengine.planning.strata import body_relations
from gpuengine.spark_bridge.keeping import Held, Keeper, RoundState, union
from gpuengine.spark_bridge.progress import JobWatch, RoundReport
from gpuengine.spark_bridge.rule_frames import RuleFrames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_DELTA = 50_000
"""Deltas of at most this many facts are taken to lead to candidates that are few as well."""

MOST_PIECES = 8
"""Facts in more pieces than this are put into one: each is a scan in every plan that reads them."""


@dataclass(frozen=True)
class Recursion:
    """One recursive stratum, and what its rounds need.

    `lower` are the relations below it. `finish` ends the recursion elsewhere, given all facts so far, or
    answers None because that is not worth it; it is asked before each round.
    """

    stratum: Stratum
    lower: Mapping[str, Held]
    keeper: Keeper
    watch: JobWatch
    frames: Callable[[Mapping[str, int | None]], RuleFrames]
    finish: Callable[[Mapping[str, Held], int], dict[str, Held] | None]
    report: Callable[[RoundReport], None]

    def run(self, start: RoundState) -> dict[str, Held]:
        """All facts at the fixpoint, from some facts, or from where an interrupted run left them."""
        return self._to_fixpoint(self.keeper.earlier_round(self.stratum.number) or start)[0]

    def added(self, start: RoundState) -> dict[str, Held]:
        """The facts at the fixpoint that are not in the first piece of their relation."""
        found, state = self._to_fixpoint(start)
        if state is not None:
            return {name: union(pieces[1:]) for name, pieces in state.pieces.items() if len(pieces) > 1}
        result = {}
        for name, held in found.items():
            known = start.pieces[name][0]
            new = held.frame.join(known.frame, held.frame.columns, "left_anti")
            result[name] = self.keeper.cut(f"stratum-{self.stratum.number}/{name}/added", new)
        return result

    def _to_fixpoint(self, state: RoundState) -> tuple[dict[str, Held], RoundState | None]:
        """All facts, and in which pieces they are, unless the recursion ended elsewhere."""
        while any(held.rows for held in state.delta.values()):
            complete = {name: union(pieces) for name, pieces in state.pieces.items()}
            finished = self.finish(complete, sum(held.rows or 0 for held in state.delta.values()))
            if finished is not None:
                return finished, None
            state = self._round(state)
        return {name: union(pieces) for name, pieces in state.pieces.items()}, state

    def _round(self, state: RoundState) -> RoundState:
        number = state.number + 1
        started, shuffled = time.perf_counter(), self.watch.shuffle_bytes()
        with self.watch.named(f"stratum {self.stratum.number + 1} ({self._names}), round {number}"):
            found = self._derive(state)
            delta = {name: held for name, held in found.items() if held.rows}
            pieces = {
                name: self._compacted(name, number, [*before, *([delta[name]] if name in delta else [])])
                for name, before in state.pieces.items()
            }
        after = RoundState(number, pieces, delta)
        self.keeper.round_done(self.stratum.number, after)
        self.report(
            RoundReport(
                number,
                {name: held.rows or 0 for name, held in delta.items()},
                time.perf_counter() - started,
                self.watch.shuffle_bytes() - shuffled,
                "cluster",
            )
        )
        return after

    @property
    def _names(self) -> str:
        return ", ".join(self.stratum.relations)

    def _derive(self, state: RoundState) -> dict[str, Held]:
        """The new facts of each relation that the last delta may lead to."""
        candidates: dict[str, list[DataFrame]] = {}
        complete = {name: union(pieces) for name, pieces in state.pieces.items()}
        rows = {name: held.rows for name, held in (*self.lower.items(), *complete.items())}
        frames = self.frames(rows)
        for variant in self.stratum.recursive:
            if self._driven(variant, state.delta):
                head = frames.head(variant.rule, self._reader(variant, state, complete), variant.delta)
                candidates.setdefault(variant.rule.head.relation, []).append(head)
        led_by = sum(held.rows or 0 for held in state.delta.values())
        return {
            name: self._novel(name, state.number + 1, heads, complete[name], led_by)
            for name, heads in candidates.items()
        }

    def _driven(self, variant: Variant, delta: Mapping[str, Held]) -> bool:
        assert variant.delta is not None
        (relation,) = body_relations([variant.rule.body[variant.delta]])
        return relation in delta and bool(delta[relation].rows)

    def _reader(
        self, variant: Variant, state: RoundState, complete: Mapping[str, Held]
    ) -> Callable[[int, str], Held]:
        def read(position: int, relation: str) -> Held:
            if relation not in complete:
                return self.lower[relation]
            if position == variant.delta:
                return state.delta[relation]
            if position in variant.old:
                return self._before(state, relation)
            return complete[relation]

        return read

    def _before(self, state: RoundState, relation: str) -> Held:
        """All facts but those of the last delta."""
        delta = state.delta.get(relation)
        pieces = [piece for piece in state.pieces[relation] if piece is not delta]
        if delta is None or len(pieces) == len(state.pieces[relation]):  # it is part of a compacted piece
            return union(state.pieces[relation])
        return union(pieces) if pieces else Held(delta.frame.limit(0), 0)

    def _novel(self, name: str, number: int, heads: Sequence[DataFrame], known: Held, expected: int) -> Held:
        """Those of the candidates that are no facts yet; `expected` is how many facts led to them."""
        from pyspark.sql import functions as F

        candidates = reduce(lambda a, b: a.unionAll(b), heads).distinct()
        at = f"stratum-{self.stratum.number}/{name}/round-{number}"
        columns = candidates.columns
        if known.is_small:
            return self.keeper.cut(at, candidates.join(F.broadcast(known.frame), columns, "left_anti"))
        if expected > SMALL_DELTA:
            return self.keeper.cut(at, candidates.join(known.frame, columns, "left_anti"))
        # Few candidates go to where the facts are, instead of shuffling all facts for them.
        few = self.keeper.cut(f"{at}-candidates", candidates)
        if not few.is_small:
            return self.keeper.cut(at, few.frame.join(known.frame, columns, "left_anti"))
        repeated = known.frame.join(F.broadcast(few.frame), columns, "left_semi")
        return self.keeper.cut(at, few.frame.join(F.broadcast(repeated), columns, "left_anti"))

    def _compacted(self, name: str, number: int, pieces: list[Held]) -> list[Held]:
        """Many pieces as three: the first may be large and stays as it is, the last may be the delta."""
        if len(pieces) <= MOST_PIECES:
            return pieces
        first, *others, last = pieces
        at = f"stratum-{self.stratum.number}/{name}/to-round-{number - 1}"
        whole = union(others).frame
        parallelism = whole.sparkSession.sparkContext.defaultParallelism
        return [first, self.keeper.cut(at, whole.coalesce(max(1, parallelism))), last]
