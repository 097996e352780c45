"""``python -m bench updates``: facts and rules come and go, against computing everything anew."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import machine
from bench.prepare import Places
from bench.schemes.command import print_sheet
from bench.schemes.run import Settings
from bench.updates import workloads
from bench.updates.run import Runner
from bench.updates.sheets import Report, add_workload

_MEMORY_SHARE = 0.6
_BUSY = 0.5
_WIDTH = 190


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    names = [workload.name for workload in workloads.WORKLOADS]
    parser = commands.add_parser("updates", help="updates against computing anew", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=", ".join(names))
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, a few seconds in all; times mean nothing"
    )
    parser.add_argument(
        "--json", type=Path, default=None, metavar="FILE", help="write everything for machines too"
    )
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each process (300)")
    parser.add_argument(
        "--memory-gb", type=float, default=None, help="end a process above this (60 %% of memory)"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--counting", action="store_true", help="have updates keep derivation counters, for comparison"
    )
    parser.add_argument("--workloads", type=Path, default=None, help="folder of the shared workloads")
    parser.add_argument(
        "--graphs", type=Path, default=None, help="folder of the real graphs; lubm is beside it"
    )


def run_command(options: argparse.Namespace, places: Places) -> int:
    """Measure and print; 1 if facts are wrong or our engine fails, 130 if stopped."""
    memory = options.memory_gb * 1e9 if options.memory_gb else _MEMORY_SHARE * machine.physical_memory()
    settings = Settings(options.quick, options.timeout, int(memory), options.threads)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    before, stopped = machine.describe(), False
    _print_header(console, before, settings)
    report = Report(options.timeout, options.quick)
    with console.status("") as status:
        runner = Runner(settings, places, status.update, counting=options.counting)
        wanted = [w for w in workloads.WORKLOADS if not options.only or w.name in options.only]
        left_out = {w.name: reason for w in wanted if (reason := runner.missing(w))}
        there = [w for w in wanted if w.name not in left_out]
        try:
            for group in [there] if settings.quick and there else [[w] for w in there]:
                runner.run(group)
                for workload in group:
                    add_workload(report, workload, runner.outcomes)
                    print_sheet(report.sheets[-1], console)
        except KeyboardInterrupt:
            stopped = True
    for name, reason in left_out.items():
        console.print(f"[dim]{name} is left out: {reason}[/dim]", highlight=False)
    for problem in report.problems:
        console.print(f"[bold red]WRONG[/bold red] {problem}", highlight=False)
    if options.json is not None:
        written = json.dumps(_to_json(report, runner, before, settings), indent=1)
        options.json.write_text(written, encoding="utf-8")
    if stopped:
        print("bench: stopped", file=sys.stderr)
        return 130
    return 1 if report.problems else 0


def _print_header(console: Console, about: dict[str, Any], settings: Settings) -> None:
    how = f"a process for each contender, at most {settings.timeout:.0f} s, {settings.memory / 1e9:.0f} GB"
    if settings.quick:
        how = "quick: small sizes and a shared process, so the times mean nothing"
    cores = f"{about['processor']}, {about['cores']} cores"
    console.print(f"{cores}; {settings.threads} threads; {how}", highlight=False)
    if about["load_average"] >= _BUSY * about["cores"]:
        busy = f"The machine was busy (load {about['load_average']:.1f}): do not quote these times."
        console.print(f"[bold yellow]{busy}[/bold yellow]")


def _to_json(report: Report, runner: Runner, about: dict[str, Any], settings: Settings) -> dict[str, Any]:
    cells = [
        {
            "workload": cell.workload, "kind": cell.kind, "mode": cell.mode, "status": outcome.status,
            "reason": outcome.reason, "peak_rss": outcome.peak_rss, "steps": outcome.steps,
        }
        for cell, outcome in runner.outcomes.items()
    ]  # fmt: skip
    return {
        "machine": about,
        "quick": settings.quick,
        "timeout": settings.timeout,
        "tables": [sheet.to_json() for sheet in report.sheets],
        "cells": cells,
        "problems": report.problems,
    }
