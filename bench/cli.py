"""Commands: ``list``, ``run``, ``scale``, ``load``, ``planning``, ``startup``, those of the packages."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from rich.console import Console

from bench import drawing, gpu_model, load, machine, page, planning, scale, startup, table
from bench.catalogue import UnknownWorkload, Workload, catalogue, choose, record_sizes
from bench.contenders import OURS, Contender, Ours, choose_peers, present
from bench.prepare import Places, prepare
from bench.recursive import command as recursive
from bench.results import Report, WorkloadResult
from bench.runner import Settings, measure_unit, run_workload
from bench.schemes import command as scheme_tables
from bench.spark import command as spark
from bench.updates import command as updates
from bench.wide import command as wide

_RESULTS = Path(__file__).parent / "results"
_AGREEING = 2
_PIPE_WIDTH = 150


class MissingEngine(Exception):
    """Our own engine can't be run here; the message says why and what else can be done."""


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--peers", default="all", help="all, none, or names: duckdb,clingo,egglog,cudf,souffle"
    )
    common.add_argument("--no-ours", action="store_true", help="run peers only")
    common.add_argument("--repeat", type=int, default=3, help="warm processes of each engine (3)")
    common.add_argument("--threads", type=int, default=2)
    common.add_argument("--timeout", type=float, default=120, help="seconds for each process (120)")
    common.add_argument(
        "--memory-gb", type=float, default=None, help="end a process above this (default: 60 %% of memory)"
    )
    common.add_argument("--no-cold", action="store_true", help="no run on an empty kernel cache")
    common.add_argument("--out", type=Path, default=_RESULTS, help="folder for JSON and HTML")
    common.add_argument(
        "--record", action="store_true", help="keep sizes of generated workloads that engines agree on"
    )
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="workloads, groups, peers")
    run = commands.add_parser("run", parents=[common], help="run workloads on all engines")
    run.add_argument("names", nargs="+", metavar="WORKLOAD", help="workloads, groups, or all")
    run.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="draw the processor seconds of each engine"
    )
    grow = commands.add_parser("scale", parents=[common], help="generated workloads at n, 2n, 4n, 8n")
    grow.add_argument("names", nargs="+", metavar="WORKLOAD", help="generated workloads, or generated")
    read = commands.add_parser("load", parents=[common], help="reading TSV and Parquet against DuckDB")
    read.add_argument("--rows", type=int, default=10_000_000)
    gpu_model.add_command(commands)
    commands.add_parser("planning", help="very many rules, and rules with very many atoms")
    commands.add_parser("startup", help="three facts, warm: processor time beside that of Python alone")
    scheme_tables.add_command(commands)
    updates.add_command(commands)
    spark.add_command(commands)
    recursive.add_command(commands)
    wide.add_command(commands)
    return parser


def main(arguments: Sequence[str], ours: Contender | None = None, places: Places | None = None) -> int:
    """Run a command; 0: all is well, 1: sizes disagree or our engine fails, 2: a wrong call, 130: stopped."""
    options = build_parser().parse_args(arguments)
    places = places or Places()
    # Piped output has no width of its own, and the tables need this much.
    console = Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)
    if options.command == "list":
        _list(console)
        return 0
    if options.command == "planning":
        return planning.run_command(console)
    if options.command == "startup":
        return startup.run_command(console)
    try:
        if options.command == "gpu-model":
            return gpu_model.run_command(options, places)
        if options.command == "table":
            return scheme_tables.run_command(options, places)
        if options.command == "updates":
            return updates.run_command(options, places)
        if options.command == "spark":
            return spark.run_command(options, places)
        if options.command == "recursive":
            return recursive.run_command(options)
        if options.command == "wide":
            return wide.run_command(options)
        workloads = _workloads(options)
        peers = choose_peers("duckdb-loop" if options.command == "load" else options.peers)
        engine: list[Contender] = [] if options.no_ours else [ours or Ours()]
        contenders, missing = present(engine + peers)
        if OURS in missing:
            raise MissingEngine(f"{missing[OURS]}; --no-ours runs the peers alone")
        report = _measure(options, workloads, contenders, missing, places, console)
    except (UnknownWorkload, MissingEngine, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    _show(options, report, console)
    if report.stopped:
        print(f"bench: {report.stopped}", file=sys.stderr)
        return 130
    return 1 if report.failed else 0


def _workloads(options: argparse.Namespace) -> list[Workload]:
    if options.command == "run":
        return choose(options.names)
    if options.command == "load":
        return [catalogue()[name].at(options.rows) for name in load.WORKLOADS]
    return scale.choose_sizes(options.names)


def _measure(
    options: argparse.Namespace,
    workloads: Sequence[Workload],
    contenders: Sequence[Contender],
    missing: dict[str, str],
    places: Places,
    console: Console,
) -> Report:
    memory = options.memory_gb * 1e9 if options.memory_gb else 0.6 * machine.physical_memory()
    settings = Settings(options.repeat, options.threads, options.timeout, int(memory), not options.no_cold)
    report = Report(machine.describe(), asdict(settings), measure_unit(), missing)
    with console.status("preparing facts") as status:
        prepared = [prepare(workload, places) for workload in workloads]
        for ready in prepared:
            try:
                result = run_workload(ready, contenders, settings, status.update)
            except KeyboardInterrupt:
                report.stopped = f"stopped after {len(report.workloads)} of {len(prepared)} workloads"
                break
            report.workloads.append(result)
            if options.record and ready.workload.source.kind == "generated":
                _record(ready.workload, result, console)
        # The machine may have become busier or calmer meanwhile; the faster unit is the true one.
        report.unit_seconds = min(report.unit_seconds, measure_unit())
    return report


def _record(workload: Workload, result: WorkloadResult, console: Console) -> None:
    """Keep the sizes of a generated workload as the right ones if several engines agree on them."""
    agreed = {name.partition("-")[0]: o.sizes for name, o in result.outcomes.items() if o.sizes}
    if result.problems or len(agreed) < _AGREEING:
        console.print(f"{workload.name}: not recorded, fewer than {_AGREEING} engines agree")
    else:
        sizes = next(iter(agreed.values()))
        record_sizes(workload.name.partition("@")[0], workload.source.size, sizes)


def _show(options: argparse.Namespace, report: Report, console: Console) -> None:
    if options.command == "run":
        table.print_report(report, console)
        html = page.run_page(report)
        if options.plot is not None:
            options.plot.write_text(drawing.draw(report), encoding="utf-8")
    elif options.command == "scale":
        scale.print_growth(report, console)
        html = scale.page(report)
    else:
        load.print_throughput(report, console)
        html = load.page(report)
    if report.busy:
        console.print(f"[bold yellow]{report.busy}[/bold yellow]")
    options.out.mkdir(parents=True, exist_ok=True)
    stem = f"{options.command}-{datetime.now():%Y%m%d-%H%M%S}"
    (options.out / f"{stem}.json").write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
    (options.out / f"{stem}.html").write_text(html, encoding="utf-8")
    console.print(f"{options.out / stem}.html and .json")


def _list(console: Console) -> None:
    for workload in catalogue().values():
        sizes = ", ".join(f"{name} {size:,}" for name, size in list(workload.expected.items())[:3])
        more = ", …" if len(workload.expected) > 3 else ""
        groups = ", ".join(sorted(workload.groups))
        console.print(
            f"[bold]{workload.name:26}[/bold] {groups:18} {sizes}{more} [dim]{workload.note}[/dim]",
            soft_wrap=True,
        )
    peers, missing = present(choose_peers("all"))
    console.print(f"\npeers here: {', '.join(p.name for p in peers) or 'none'}")
    for name, reason in missing.items():
        console.print(f"  [dim]{name}: {reason}[/dim]")
