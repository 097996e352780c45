"""``python -m bench table 4.3``: its options, and how it is made."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from bench.cyclic import peers, workloads
from bench.cyclic.run import KINDS, REPEAT, Choice, Runner
from bench.cyclic.sheets import Report, add_workload, summary
from bench.harness.cells import Say, Settings
from bench.harness.sheets import Sheet
from bench.prepare import Places

NAME = "4.3"
TIMEOUT = 120.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that only this table has."""
    names = list(workloads.WORKLOADS)
    own = parser.add_argument_group(f"table {NAME}")
    own.add_argument("--only", nargs="+", metavar="WORKLOAD", choices=names, help=", ".join(names))
    own.add_argument("--columns", nargs="+", metavar="COLUMN", choices=list(KINDS), help=", ".join(KINDS))
    own.add_argument(
        "--repeat", type=int, default=None, help=f"processes of each cell that takes seconds ({REPEAT})"
    )


def check_options(options: argparse.Namespace) -> None:
    """The options are for this table only."""
    if NAME in options.names or "all" in options.names:
        return
    given = [name for name in ("only", "columns", "repeat") if getattr(options, name) is not None]
    if given:
        raise ValueError(f"{', '.join(f'--{name}' for name in given)}: only table {NAME} has that")


class Table:
    """The table while it is made: what is done of it is there also if it is stopped."""

    def __init__(self, options: argparse.Namespace, settings: Settings, places: Places, say: Say) -> None:
        columns = tuple(column for column in KINDS if not options.columns or column in options.columns)
        self.runner = Runner(settings, places, say, Choice(columns, options.repeat or REPEAT))
        self.report = Report(settings.timeout, settings.quick)
        everything = workloads.WORKLOADS.values()
        self.workloads = [w for w in everything if not options.only or w.name in options.only]

    def make(self, show: Callable[[Sheet], None]) -> None:
        """Measure, and show each sheet as soon as it is there."""
        runner, report = self.runner, self.report
        for group in [self.workloads] if runner.settings.quick else [[w] for w in self.workloads]:
            runner.run(group)
            for workload in group:
                add_workload(report, workload, runner.of(workload))
                show(report.sheets[-1])
        if any(workload.name == peers.NAME for workload in self.workloads):
            runner.say(f"{peers.NAME} of peers")
            sheet, problems = peers.triangles(runner.settings, runner.places, runner.choice.repeat)
            report.sheets.append(sheet)
            report.problems += problems
            show(sheet)
        report.sheets.append(summary(report))
        show(report.sheets[-1])
