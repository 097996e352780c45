"""What the commands share: their options, the line on top, problems and JSON at the end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import machine
from bench.harness.cells import Cell, Outcome, Settings
from bench.harness.sheets import Sheet

_MEMORY_SHARE = 0.6
_BUSY = 0.5
_WIDTH = 190


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what every command that measures cells has, but for its time-out."""
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and shared processes; times mean nothing"
    )
    parser.add_argument(
        "--json", type=Path, default=None, metavar="FILE", help="write everything for machines too"
    )
    parser.add_argument(
        "--memory-gb", type=float, default=None, help="end a process above this (60 %% of memory)"
    )
    parser.add_argument("--threads", type=int, default=2)


def settings_of(options: argparse.Namespace, timeout: float) -> Settings:
    memory = options.memory_gb * 1e9 if options.memory_gb else _MEMORY_SHARE * machine.physical_memory()
    return Settings(options.quick, timeout, int(memory), options.threads)


class Session:
    """One call of a command: it prints what the machine is, then sheets, then what is wrong."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Piped output has no width of its own, and the tables need this much.
        self.console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
        self.machine = machine.describe()
        self.stopped = False
        how = f"a process for each cell, at most {settings.timeout:.0f} s and {settings.memory / 1e9:.0f} GB"
        if settings.quick:
            how = "quick: small sizes and shared processes, so the times mean nothing"
        cores = f"{self.machine['processor']}, {self.machine['cores']} cores"
        self.console.print(f"{cores}; {settings.threads} threads; {how}", highlight=False)
        if self.machine["load_average"] >= _BUSY * self.machine["cores"]:
            busy = (
                f"The machine was busy (load {self.machine['load_average']:.1f}): do not quote these times."
            )
            self.console.print(f"[bold yellow]{busy}[/bold yellow]")

    def end(
        self,
        problems: Sequence[str],
        sheets: Iterable[Sheet],
        outcomes: Mapping[Cell, Outcome],
        file: Path | None,
        **more: Any,
    ) -> int:
        """Print problems and write the JSON; 1 if there are problems, 130 if stopped."""
        for problem in problems:
            self.console.print(f"[bold red]WRONG[/bold red] {problem}", highlight=False)
        if file is not None:
            written = {
                "machine": self.machine,
                "quick": self.settings.quick,
                "timeout": self.settings.timeout,
                "tables": [sheet.to_json() for sheet in sheets],
                "cells": [_cell_to_json(cell, outcome) for cell, outcome in outcomes.items()],
                "problems": list(problems),
            }
            file.write_text(json.dumps(written | more, indent=1), encoding="utf-8")
        if self.stopped:
            print("bench: stopped", file=sys.stderr)
            return 130
        return 1 if problems else 0


def _cell_to_json(cell: Cell, outcome: Outcome) -> dict[str, Any]:
    return {
        "workload": cell.workload, "kind": cell.kind, "mode": cell.mode, "status": outcome.status,
        "reason": outcome.reason, "peak_rss": outcome.peak_rss, "steps": outcome.steps,
    }  # fmt: skip
