"""``python -m bench updates``: facts and rules come and go, against computing everything anew."""

from __future__ import annotations

import argparse

from bench.harness.command import Session, add_options, settings_of
from bench.harness.sheets import Report, print_sheet
from bench.prepare import Places
from bench.updates import workloads
from bench.updates.run import Runner
from bench.updates.sheets import add_workload


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    names = [workload.name for workload in workloads.WORKLOADS]
    parser = commands.add_parser("updates", help="updates against computing anew", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=", ".join(names))
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each process (300)")
    parser.add_argument(
        "--counting", action="store_true", help="have updates keep derivation counters, for comparison"
    )
    add_options(parser)


def run_command(options: argparse.Namespace, places: Places) -> int:
    """Measure and print; 1 if facts are wrong or our engine fails, 130 if stopped."""
    session = Session(settings_of(options, options.timeout))
    report = Report(options.timeout, options.quick)
    with session.console.status("") as status:
        runner = Runner(session.settings, places, status.update, counting=options.counting)
        wanted = [w for w in workloads.WORKLOADS if not options.only or w.name in options.only]
        try:
            for group in [wanted] if options.quick else [[w] for w in wanted]:
                runner.run(group)
                for workload in group:
                    add_workload(report, workload, runner.outcomes)
                    print_sheet(report.sheets[-1], session.console)
        except KeyboardInterrupt:
            session.stopped = True
    return session.end(report.problems, report.sheets, runner.outcomes, options.json)
