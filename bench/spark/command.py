"""``python -m bench spark``: the Spark bridge against one engine and against loops of DataFrames."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import machine
from bench.prepare import Places
from bench.schemes.command import print_sheet
from bench.schemes.run import Settings
from bench.spark.run import Choice, Runner
from bench.spark.sheets import Report, add_workload, targets
from bench.spark.workloads import WORKLOADS

_LIMIT = 180.0
_MEMORY_SHARE = 0.6
_BUSY = 0.5
_WIDTH = 190


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    names = [workload.name for workload in WORKLOADS]
    parser = commands.add_parser("spark", help="the Spark bridge", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=", ".join(names))
    parser.add_argument("--scale", type=float, default=1.0, help="a factor of all sizes (1)")
    parser.add_argument(
        "--master",
        nargs="+",
        default=[],
        help="run on these instead, such as local[2] local-cluster[2,1,2048]",
    )
    parser.add_argument(
        "--limit", type=float, default=_LIMIT, help=f"seconds for each process ({_LIMIT:.0f})"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and shared processes; times mean nothing"
    )
    parser.add_argument(
        "--json", type=Path, default=None, metavar="FILE", help="write everything for machines too"
    )


def run_command(options: argparse.Namespace, places: Places) -> int:
    """Measure and print; 1 if contenders disagree or one fails, 130 if stopped."""
    if find_spec("pyspark") is None:
        raise ValueError("PySpark is not installed: pip install 'gpuengine[spark]'")
    if options.scale <= 0:
        raise ValueError(f"--scale {options.scale:g}: a factor is greater than 0")
    settings = Settings(options.quick, options.limit, int(_MEMORY_SHARE * machine.physical_memory()))
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    before, stopped = machine.describe(), False
    _print_header(console, before, settings)
    report = Report(options.limit, options.quick)
    with console.status("") as status:
        runner = Runner(settings, places, Choice(options.scale, tuple(options.master)), status.update)
        wanted = [w for w in WORKLOADS if not options.only or w.name in options.only]
        try:
            for group in [wanted] if settings.quick else [[w] for w in wanted]:
                runner.run(group)
                for workload in group:
                    add_workload(report, workload, runner.of(workload))
                    print_sheet(report.sheets[-1], console)
        except KeyboardInterrupt:
            stopped = True
    if report.targets:
        report.sheets.append(targets(report))
        print_sheet(report.sheets[-1], console)
    for problem in report.problems:
        console.print(f"[bold red]WRONG[/bold red] {problem}", highlight=False)
    if options.json is not None:
        options.json.write_text(json.dumps(_to_json(report, runner, before), indent=1), encoding="utf-8")
    if stopped:
        print("bench: stopped", file=sys.stderr)
        return 130
    return 1 if report.problems else 0


def _print_header(console: Console, about: dict[str, Any], settings: Settings) -> None:
    how = f"a process for each contender, at most {settings.timeout:.0f} s"
    if settings.quick:
        how = "quick: small sizes and shared processes, so the times mean nothing"
    console.print(f"{about['processor']}, {about['cores']} cores; {how}", highlight=False)
    if about["load_average"] >= _BUSY * about["cores"]:
        busy = f"The machine was busy (load {about['load_average']:.1f}): do not quote these times."
        console.print(f"[bold yellow]{busy}[/bold yellow]")


def _to_json(report: Report, runner: Runner, about: dict[str, Any]) -> dict[str, Any]:
    cells = [
        {
            "workload": cell.workload, "contender": cell.kind, "master": cell.mode, "status": outcome.status,
            "reason": outcome.reason, "peak_rss": outcome.peak_rss, "steps": outcome.steps,
        }
        for cell, outcome in runner.outcomes.items()
    ]  # fmt: skip
    return {
        "machine": about,
        "quick": report.quick,
        "limit": report.limit,
        "scale": runner.choice.scale,
        "tables": [sheet.to_json() for sheet in report.sheets],
        "cells": cells,
        "problems": report.problems,
    }
