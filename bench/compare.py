"""Ours beside the published figures, and the targets.

Published seconds are carried over by a factor: the sort unit (``unit``) or DuckDB measured here over
DuckDB published (``duckdb``).  Both are shown, because sorting and joining do not scale alike from one
processor to the next.  Where Soufflé ran here, its measured time is used instead (``measured``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench import published
from bench.results import Report, WorkloadResult, geometric_mean

REFERENCE = "souffle-compiled-2"
_MEASURED_REFERENCE = "souffle-compiled"
CHAIN = "reach-chain-100k"
_MICROSECONDS_A_ROUND = 100.0


@dataclass(frozen=True, slots=True)
class Scale:
    """A way to carry published seconds over to this machine."""

    name: str
    factor: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One packed program under one scale: how many times faster we are than each published figure.

    `whole` compares whole processes with compiled Soufflé on two threads, `evaluation` our evaluation
    alone with the same, `datafrog` our evaluation with the hand-written datafrog program.
    """

    workload: str
    basis: str
    whole: float | None
    evaluation: float | None
    datafrog: float | None


@dataclass(frozen=True, slots=True)
class Target:
    """A promise, the figure measured, and whether it holds."""

    text: str
    value: str
    holds: bool


def scales(report: Report) -> list[Scale]:
    """The scales at hand, the sort unit first."""
    at_hand = [
        Scale("unit", report.unit_factor, f"np.sort: {report.unit_seconds:.3f} s here, "
              f"{published.UNIT_SECONDS} s published")
    ]  # fmt: skip
    if report.duckdb_factor is not None:
        at_hand.append(Scale("duckdb", report.duckdb_factor, "DuckDB here over DuckDB published"))
    return at_hand


def comparisons(report: Report, scale: Scale) -> list[Comparison]:
    """One row for each packed program that we finished."""
    return [
        _compare(workload, scale)
        for workload in report.workloads
        if workload.name in published.SECONDS and workload.ours is not None and workload.ours.best
    ]


def _compare(workload: WorkloadResult, scale: Scale) -> Comparison:
    measured = workload.outcomes.get(_MEASURED_REFERENCE)
    reference = measured.best if measured is not None else None
    basis = "measured" if reference is not None else "scaled"
    if reference is None:
        reference = published.scaled(workload.name, REFERENCE, scale.factor)
    frog = published.scaled(workload.name, "datafrog", scale.factor)
    ours = workload.ours
    best, evaluate = (ours.best, ours.evaluate) if ours else (None, None)
    return Comparison(
        workload.name, basis, _ratio(reference, best), _ratio(reference, evaluate), _ratio(frog, evaluate)
    )


def _ratio(theirs: float | None, ours: float | None) -> float | None:
    return theirs / ours if theirs and ours else None


def mean_over_nine(rows: Iterable[Comparison], column: str) -> float | None:
    """Geometric mean of a column over the programs other than the two nonlinear closures."""
    values = (getattr(r, column) for r in rows if r.workload in published.NINE)
    return geometric_mean(v for v in values if v is not None)


def microseconds_a_round(report: Report) -> float | None:
    """Evaluation time of the long chain over its rounds."""
    chain = next((w.ours for w in report.workloads if w.name == CHAIN and w.ours), None)
    if chain is None or chain.status != "ok" or not chain.warm or not chain.evaluate:
        return None
    rounds = chain.warm[0].rounds
    return chain.evaluate / rounds * 1e6 if rounds else None


def targets(report: Report) -> list[Target]:
    """Every target that this run can say something about."""
    answered: list[Target] = []
    for scale in scales(report):
        rows = [r for r in comparisons(report, scale) if r.workload in published.NINE]
        if rows:
            answered += _speed_targets(rows, scale.name)
    answered += _memory_targets(report)
    chain = microseconds_a_round(report)
    if chain is not None:
        text = f"{CHAIN}: tens of microseconds a round"
        answered.append(Target(text, f"{chain:.1f} µs", chain < _MICROSECONDS_A_ROUND))
    return answered


def _speed_targets(rows: list[Comparison], scale: str) -> list[Target]:
    answered: list[Target] = []
    of = f"{len(rows)} of {len(published.NINE)} programs, scale {scale}"
    whole, evaluation = mean_over_nine(rows, "whole"), mean_over_nine(rows, "evaluation")
    if whole is not None:
        text = f"whole process at least 2x compiled Soufflé in the mean ({of})"
        answered.append(Target(text, f"{whole:.2f}x", whole >= 2))
        slowest = min((r for r in rows if r.whole), key=lambda r: r.whole or 0)
        text = f"no program slower than compiled Soufflé (scale {scale})"
        answered.append(
            Target(text, f"{slowest.whole:.2f}x on {slowest.workload}", (slowest.whole or 0) >= 1)
        )
    if evaluation is not None:
        text = f"evaluation at least 4x compiled Soufflé in the mean ({of})"
        answered.append(Target(text, f"{evaluation:.2f}x", evaluation >= 4))
    frogs = [r for r in rows if r.datafrog is not None]
    if frogs:
        slowest = min(frogs, key=lambda r: r.datafrog or 0)
        text = f"evaluation ahead of datafrog on every program (scale {scale})"
        value = f"{slowest.datafrog:.2f}x on {slowest.workload}"
        answered.append(Target(text, value, (slowest.datafrog or 0) > 1))
    return answered


def _memory_targets(report: Report) -> list[Target]:
    answered = []
    for workload in report.workloads:
        known = published.PEAK_MEMORY.get(workload.name, {}).get(REFERENCE)
        ours = workload.ours.peak_rss if workload.ours else None
        if known and ours:
            ratio = ours / known
            text = f"{workload.name}: peak memory within 2x of Soufflé's {known / 1e6:.0f} MB"
            answered.append(Target(text, f"{ours / 1e6:.0f} MB, {ratio:.2f}x", ratio <= 2))
    return answered
