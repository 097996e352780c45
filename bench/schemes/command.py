"""``python -m bench table``: the published tables, ours beside the papers'."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.cyclic import command as cyclic
from bench.prepare import Places
from bench.schemes import change_tables, tables
from bench.schemes.catalogue import TABLES
from bench.schemes.run import Runner, Settings
from bench.schemes.values import Sheet

MAKERS: dict[str, tuple[Callable[[tables.Tables], None], ...]] = {
    "5.10": (change_tables.additions_510,),
    "5.11": (tables.benchmarks_511,),
    "5.12": (tables.initial_512, change_tables.updates_512),
    "5.13": (tables.memory_513,),
    "5.14": (change_tables.queries_514,),
    "modular-1": (tables.modular_1,),
    "real": (tables.real,),
    "eqrel": (tables.eqrel,),
}
NAMES = (*TABLES, cyclic.NAME)
_TIMEOUT = 300.0
_MEMORY_SHARE = 0.6
_BUSY = 0.5
_WIDTH = 190
_WORDS = (
    "benchmark", "graph", "step", "query", "schemes chosen", "thesis:\nrow", "thesis:\nquery", "workload",
    "engine", "result",
)  # fmt: skip


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "table", help="the papers' tables: storage schemes, modules, cyclic rules", description=__doc__
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", choices=[*NAMES, "all"], help=", ".join((*NAMES, "all"))
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, a few seconds in all; times mean nothing"
    )
    parser.add_argument(
        "--json", type=Path, default=None, metavar="FILE", help="write everything for machines too"
    )
    parser.add_argument(
        "--timeout", type=float, default=None,
        help=f"seconds for each cell ({_TIMEOUT:.0f}; {cyclic.TIMEOUT:.0f} for {cyclic.NAME} alone)",
    )  # fmt: skip
    parser.add_argument(
        "--memory-gb", type=float, default=None, help="end a process above this (60 %% of memory)"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workloads", type=Path, default=None, help="folder of the shared workloads")
    parser.add_argument(
        "--graphs", type=Path, default=None, help="folder of the real graphs; lubm is beside it"
    )
    cyclic.add_options(parser)


def run_command(options: argparse.Namespace, places: Places) -> int:
    """Measure and print; 1 if sizes disagree or a cell fails, 130 if stopped."""
    cyclic.check_options(options)
    memory = options.memory_gb * 1e9 if options.memory_gb else _MEMORY_SHARE * machine.physical_memory()
    names = [name for name in NAMES if name in options.names or "all" in options.names]
    timeout = options.timeout or (cyclic.TIMEOUT if names == [cyclic.NAME] else _TIMEOUT)
    settings = Settings(options.quick, timeout, int(memory), options.threads)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    before, stopped = machine.describe(), False
    _print_header(console, before, settings)
    with console.status("") as status:
        made = tables.Tables(Runner(settings, places, status.update))
        rules = cyclic.Table(options, settings, places, status.update)
        shown = 0
        try:
            for name in [name for name in names if name in MAKERS]:
                for maker in MAKERS[name]:
                    maker(made)
                for sheet in made.sheets[shown:]:
                    print_sheet(sheet, console)
                shown = len(made.sheets)
            if cyclic.NAME in names:
                rules.make(partial(print_sheet, console=console))
        except KeyboardInterrupt:
            stopped = True
    for problem in made.problems + rules.report.problems:
        console.print(f"[bold red]WRONG[/bold red] {problem}", highlight=False)
    if options.json is not None:
        written = json.dumps(_to_json(made, rules, before, settings), indent=1)
        options.json.write_text(written, encoding="utf-8")
    if stopped:
        print("bench: stopped", file=sys.stderr)
        return 130
    return 1 if made.problems or rules.report.problems else 0


def _print_header(console: Console, about: dict[str, Any], settings: Settings) -> None:
    how = f"a process for each cell, at most {settings.timeout:.0f} s and {settings.memory / 1e9:.0f} GB"
    if settings.quick:
        how = "quick: small sizes and shared processes, so the times mean nothing"
    cores = f"{about['processor']}, {about['cores']} cores"
    console.print(f"{cores}; {settings.threads} threads; {how}", highlight=False)
    if about["load_average"] >= _BUSY * about["cores"]:
        busy = f"The machine was busy (load {about['load_average']:.1f}): do not quote these times."
        console.print(f"[bold yellow]{busy}[/bold yellow]")


def print_sheet(sheet: Sheet, console: Console) -> None:
    """A table in the style of the other reports."""
    shown = Table(title=sheet.title, title_justify="left")
    for i, header in enumerate(sheet.headers):
        shown.add_column(header, justify="left" if header in _WORDS else "right", no_wrap=i == 0)
    for row in sheet.rows:
        shown.add_row(*(value.text for value in row))
    console.print(shown)
    for note in sheet.notes:
        console.print(f"[dim]{note}[/dim]", highlight=False)


def _to_json(
    made: tables.Tables, rules: cyclic.Table, about: dict[str, Any], settings: Settings
) -> dict[str, Any]:
    cells = [
        {
            "kind": cell.kind, "benchmark": cell.name, "mode": cell.mode, "status": result.status,
            "reason": result.reason, "peak_rss": result.peak_rss, "steps": result.steps,
        }
        for cell, result in made.runner.results.items()
    ]  # fmt: skip
    return {
        "machine": about,
        "quick": settings.quick,
        "timeout": settings.timeout,
        "tables": [sheet.to_json() for sheet in made.sheets + rules.report.sheets],
        "cells": cells + rules.cells(),
        "problems": made.problems + rules.report.problems,
    }
