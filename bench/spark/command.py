"""``python -m bench spark``: the Spark bridge against one engine and against loops of DataFrames."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from bench.harness.command import Session, add_options, settings_of
from bench.harness.sheets import print_sheet
from bench.prepare import Places
from bench.spark.run import Choice, Runner
from bench.spark.sheets import Report, add_workload, targets
from bench.spark.workloads import WORKLOADS

_LIMIT = 180.0


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
    add_options(parser)


def run_command(options: argparse.Namespace, places: Places) -> int:
    """Measure and print; 1 if contenders disagree or one fails, 130 if stopped."""
    if find_spec("pyspark") is None:
        raise ValueError("PySpark is not installed: pip install 'gpuengine[spark]'")
    if options.scale <= 0:
        raise ValueError(f"--scale {options.scale:g}: a factor is greater than 0")
    session = Session(settings_of(options, options.limit))
    report = Report(options.limit, options.quick)
    with session.console.status("") as status:
        runner = Runner(session.settings, places, Choice(options.scale, tuple(options.master)), status.update)
        wanted = [w for w in WORKLOADS if not options.only or w.name in options.only]
        try:
            for group in [wanted] if options.quick else [[w] for w in wanted]:
                runner.run(group)
                for workload in group:
                    add_workload(report, workload, runner.of(workload))
                    print_sheet(report.sheets[-1], session.console)
        except KeyboardInterrupt:
            session.stopped = True
    if report.targets:
        report.sheets.append(targets(report))
        print_sheet(report.sheets[-1], session.console)
    return session.end(report.problems, report.sheets, runner.outcomes, options.json, scale=options.scale)
