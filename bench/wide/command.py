"""``python -m bench wide``: programs that compute, beside DuckDB."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from bench.harness.beside import disagreement, measure
from bench.harness.cells import Cell, Outcome, Settings
from bench.harness.command import add_options
from bench.harness.numbers import ratio
from bench.harness.sheets import (
    Report,
    Sheet,
    count,
    megabytes,
    seconds,
    shown_seconds,
    text,
    times,
)
from bench.wide.workloads import COMPUTE, DUCKDB, LOAD, OURS, WORKLOADS, Workload

_HEADERS = (
    "workload", "size", "facts", "load\ns", "compute\ns", "processor\ns", "duckdb\nload s", "duckdb\ns",
    "duckdb\nprocessor s", "duckdb/\nours", "by processor\nseconds", "peak\nMB", "duckdb\nMB",
)  # fmt: skip
_REPEAT, _ENOUGH = 3, 10.0


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    names = [workload.name for workload in WORKLOADS]
    parser = commands.add_parser("wide", help="programs that compute beside DuckDB", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=", ".join(names))
    parser.add_argument("--scale", type=float, default=1.0, help="times the sizes (1)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for each process (120)")
    add_options(parser)


def run_command(options: argparse.Namespace) -> int:
    """Measure and print; 1 if answers differ or our engine fails, 130 if stopped."""
    wanted = [workload for workload in WORKLOADS if not options.only or workload.name in options.only]
    sizes = {one.name: one.quick if options.quick else int(options.scale * one.size) for one in wanted}
    return measure(
        options,
        "bench.wide.cell",
        lambda settings: _specs(sizes, settings),
        lambda report, outcomes: add_sheet(report, wanted, sizes, outcomes),
    )


def _specs(sizes: Mapping[str, int], settings: Settings) -> dict[Cell, dict[str, Any]]:
    return {
        Cell(name, kind): {
            "kind": kind, "workload": name, "size": size, "order": (LOAD, COMPUTE),
            "threads": settings.threads, "warm": not settings.quick,
            "repeat": 1 if settings.quick else _REPEAT, "enough": _ENOUGH,
        }
        for name, size in sizes.items()
        for kind in (OURS, DUCKDB)
    }  # fmt: skip


def add_sheet(
    report: Report,
    workloads: Sequence[Workload],
    sizes: Mapping[str, int],
    outcomes: Mapping[Cell, Outcome],
) -> None:
    """One row for each workload that was run, and what is wrong with it."""
    sheet = Sheet("Programs that compute, beside DuckDB", _HEADERS)
    report.sheets.append(sheet)
    for workload in workloads:
        ours, peer = (outcomes.get(Cell(workload.name, kind)) for kind in (OURS, DUCKDB))
        if ours is None or peer is None:
            continue
        sheet.rows.append(_row(workload.name, sizes[workload.name], ours, peer, report.timeout))
        report.problems += disagreement(workload.name, ours, peer, "DuckDB", COMPUTE)
    sheet.notes.append("Both begin with loaded facts; above 1x ours is faster.")


def _row(name: str, size: int, ours: Outcome, peer: Outcome, timeout: float) -> tuple[Any, ...]:
    answer = ours.sizes(COMPUTE) or {}
    elapsed = [one.elapsed(COMPUTE, min, timeout) for one in (peer, ours)]
    processor = [one.best(COMPUTE).get("cpu") for one in (peer, ours)]
    return (
        text(name),
        count(size),
        count(answer.get("facts")),
        seconds(ours, LOAD, timeout),
        seconds(ours, COMPUTE, timeout),
        shown_seconds(ours, processor[1]),
        seconds(peer, LOAD, timeout),
        seconds(peer, COMPUTE, timeout),
        shown_seconds(peer, processor[0]),
        times(ratio(*elapsed)),
        times(ratio(*processor)),
        megabytes([ours.peak_rss]),
        megabytes([peer.peak_rss]),
    )
