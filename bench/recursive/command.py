"""``python -m bench recursive``: paths, components, company control and intervals by rules, beside SciPy.

Updates of company control and intervals are measured beside computing them anew, in one process.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from bench.harness.beside import disagreement, measure
from bench.harness.cells import Cell, Outcome, Settings
from bench.harness.command import add_options
from bench.harness.numbers import ratio
from bench.harness.sheets import (
    NOTHING,
    Report,
    Sheet,
    count,
    megabytes,
    seconds,
    shown_seconds,
    text,
    times,
)
from bench.recursive.workloads import (
    ANEW,
    CHANGED,
    COMPUTE,
    DELETE,
    FIRST,
    INSERT,
    LOAD,
    OURS,
    SCIPY,
    WORKLOADS,
    Workload,
)

_HEADERS = (
    "workload", "facts", "load\ns", "compute\ns", "processor\ns", "scipy\ns", "scipy\nprocessor s",
    "ours/\nscipy", "by processor\nseconds", "target", "peak\nMB", "scipy\nMB", "instead",
)  # fmt: skip
_CHANGE_HEADERS = (
    "workload", "edges", "first\ns", "insert\ns", "delete\ns", "anew\ns", "insert\nprocessor s",
    "delete\nprocessor s", "anew\nprocessor s", "insert/anew\nby processor", "delete/anew\nby processor",
)  # fmt: skip
_REPEAT, _ENOUGH = 3, 20.0


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    names = [workload.name for workload in WORKLOADS]
    parser = commands.add_parser(
        "recursive", help="aggregates in recursion beside SciPy", description=__doc__
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=", ".join(names))
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each process (300)")
    add_options(parser)


def run_command(options: argparse.Namespace) -> int:
    """Measure and print; 1 if answers differ or our engine fails, 130 if stopped."""
    wanted = [workload for workload in WORKLOADS if not options.only or workload.name in options.only]
    return measure(
        options,
        "bench.recursive.cell",
        lambda settings: _specs(wanted, settings),
        lambda report, outcomes: add_sheets(report, wanted, outcomes),
    )


def _specs(workloads: Sequence[Workload], settings: Settings) -> dict[Cell, dict[str, Any]]:
    steps = {OURS: (LOAD, COMPUTE), SCIPY: (LOAD, COMPUTE), CHANGED: (FIRST, INSERT, DELETE, ANEW)}
    return {
        Cell(workload.name, kind): {
            "kind": kind, "task": workload.task, "degree": workload.degree, "both_ways": workload.both_ways,
            "nodes": workload.quick if settings.quick else workload.nodes, "order": steps[kind],
            "changes": workload.changes,
            "threads": settings.threads, "warm": not settings.quick,
            "repeat": 1 if settings.quick else _REPEAT, "enough": _ENOUGH,
        }
        for workload in workloads
        for kind in (OURS, SCIPY, *([CHANGED] if workload.changes else []))
    }  # fmt: skip


def add_sheets(report: Report, workloads: Sequence[Workload], outcomes: Mapping[Cell, Outcome]) -> None:
    """What was computed beside SciPy, and what was updated beside computing it anew."""
    add_sheet(report, workloads, outcomes)
    if any(workload.changes for workload in workloads):
        add_changes(report, workloads, outcomes)


def add_changes(report: Report, workloads: Sequence[Workload], outcomes: Mapping[Cell, Outcome]) -> None:
    """One row for each workload that was updated; what was inserted must be what is computed anew."""
    sheet = Sheet("Updates of aggregates in recursion, beside computing anew", _CHANGE_HEADERS)
    report.sheets.append(sheet)
    for workload in workloads:
        outcome = outcomes.get(Cell(workload.name, CHANGED))
        if outcome is None:
            continue
        sheet.rows.append(_change_row(workload, outcome, report.timeout))
        if outcome.status != "ok":
            report.problems.append(f"{workload.name}: updates {outcome.status} {outcome.reason}".rstrip())
        for step, same in ((INSERT, ANEW), (DELETE, FIRST)) if outcome.status == "ok" else ():
            one, other = outcome.sizes(step), outcome.sizes(same)
            if one is None or one != other:
                report.problems.append(f"{workload.name}: {one} after {step}, and not {other}")
    sheet.notes.append("The first update, with one edge, makes indexes and counts what is added up.")


def _change_row(workload: Workload, outcome: Outcome, timeout: float) -> tuple[Any, ...]:
    steps = (INSERT, DELETE, ANEW)
    processor = {step: outcome.best(step).get("cpu") for step in steps}
    return (
        text(workload.name),
        count(workload.changes),
        *(seconds(outcome, step, timeout) for step in (FIRST, *steps)),
        *(shown_seconds(outcome, processor[step]) for step in steps),
        *(times(ratio(processor[step], processor[ANEW])) for step in (INSERT, DELETE)),
    )


def add_sheet(report: Report, workloads: Sequence[Workload], outcomes: Mapping[Cell, Outcome]) -> None:
    """One row for each workload that was run, and what is wrong with it."""
    sheet = Sheet("Aggregates in recursion, beside SciPy", _HEADERS)
    report.sheets.append(sheet)
    for workload in workloads:
        ours, peer = (outcomes.get(Cell(workload.name, kind)) for kind in (OURS, SCIPY))
        if ours is None or peer is None:
            continue
        sheet.rows.append(_row(workload, ours, peer, report.timeout))
        report.problems += disagreement(workload.name, ours, peer, "SciPy", COMPUTE)
    sheet.notes.append("SciPy's matrix is made before; ours begins with loaded facts.")


def _row(workload: Workload, ours: Outcome, peer: Outcome, timeout: float) -> tuple[Any, ...]:
    answer = ours.sizes(COMPUTE) or {}
    elapsed = [one.elapsed(COMPUTE, min, timeout) for one in (ours, peer)]
    processor = [one.best(COMPUTE).get("cpu") for one in (ours, peer)]
    return (
        text(workload.name),
        count(answer.get("facts")),
        seconds(ours, LOAD, timeout),
        seconds(ours, COMPUTE, timeout),
        shown_seconds(ours, processor[0]),
        seconds(peer, COMPUTE, timeout),
        shown_seconds(peer, processor[1]),
        times(ratio(*elapsed)),
        times(ratio(*processor)),
        NOTHING if workload.target is None else text(f"≤ {workload.target:g}x"),
        megabytes([ours.peak_rss]),
        megabytes([peer.peak_rss]),
        text(workload.peer),
    )
