"""``python -m bench wide``: programs that compute, beside DuckDB."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from bench.harness.cells import Cell, Outcome, Settings, fill
from bench.harness.command import Session, add_options, settings_of
from bench.harness.numbers import ratio
from bench.harness.sheets import (
    Report,
    Sheet,
    count,
    megabytes,
    print_sheet,
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
    session = Session(settings_of(options, options.timeout))
    report = Report(options.timeout, options.quick)
    outcomes: dict[Cell, Outcome] = {}
    wanted = [workload for workload in WORKLOADS if not options.only or workload.name in options.only]
    sizes = {one.name: one.quick if options.quick else int(options.scale * one.size) for one in wanted}
    with session.console.status("") as status:
        try:
            specs = _specs(sizes, session.settings)
            fill(outcomes, "bench.wide.cell", specs, session.settings, status.update)
        except KeyboardInterrupt:
            session.stopped = True
    add_sheet(report, wanted, sizes, outcomes)
    print_sheet(report.sheets[-1], session.console)
    return session.end(report.problems, report.sheets, outcomes, options.json)


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
        report.problems += _problems(workload.name, ours, peer)
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


def _problems(name: str, ours: Outcome, peer: Outcome) -> list[str]:
    if ours.status != "ok":
        return [f"{name}: {ours.status} {ours.reason}".rstrip()]
    if peer.status != "ok":  # there is nothing to compare with
        return [] if peer.status == "skipped" else [f"{name}: duckdb {peer.status} {peer.reason}".rstrip()]
    one, other = ours.sizes(COMPUTE), peer.sizes(COMPUTE)
    return [] if one is not None and one == other else [f"{name}: {one} by rules, {other} by DuckDB"]
