"""``gpuengine run``: read facts, materialise what is asked for, write it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuengine.cli.clock import Clock
from gpuengine.cli.live import LiveLine, live_line
from gpuengine.cli.outputs import check_outputs, find_outputs, write_outputs
from gpuengine.cli.report import Report, print_summary, print_tables
from gpuengine.cli.sources import load, locate, needed_inputs, open_engine

if TYPE_CHECKING:
    from gpuengine.engine import Engine


def run(arguments: argparse.Namespace) -> int:
    """Run a program as Soufflé would; raises before anything is written if it can't be done."""
    clock = Clock()
    line = live_line(arguments.quiet)
    try:
        return _run(arguments, clock, line)
    finally:
        line.clear()


def _run(arguments: argparse.Namespace, clock: Clock, line: LiveLine) -> int:
    import gpuengine.engine  # noqa: F401  (its import is part of starting up, not of parsing)

    clock.lap("startup")
    engine = open_engine(arguments)
    outputs = find_outputs(engine, arguments.output_dir)
    wanted = wanted_relations(engine)
    sources = locate(needed_inputs(engine, wanted), arguments.fact_dir)
    check_outputs(outputs, as_json=arguments.json)
    clock.lap("parse")
    skipped = load(engine, sources, arguments, line)
    clock.lap("load")
    engine.materialise(wanted=wanted, watch=line.evaluating if line.on else None)
    clock.lap("evaluate")
    write_outputs(engine, outputs, line)
    sizes = {name: len(engine[name]) for name in wanted or engine.relations}
    if not arguments.json:
        _print_sizes(engine, sizes, everything=wanted is None)
    clock.lap("write")
    line.clear()
    report = Report.of(arguments.program, engine, sizes, skipped, clock)
    if arguments.json:
        print(report.to_json(with_rules=arguments.stats))
    if arguments.stats:
        print_tables(report)
    elif line.on:
        print_summary(report)
    return 0


def wanted_relations(engine: Engine) -> list[str] | None:
    """What the program writes or counts, in source order; None (everything) if it asks for nothing."""
    asked = [d.relation for d in engine.program.directives if d.kind in ("output", "printsize")]
    return list(dict.fromkeys(asked)) or None


def _print_sizes(engine: Engine, sizes: dict[str, int], *, everything: bool) -> None:
    if everything:
        names = list(sizes)
    else:
        names = [d.relation for d in engine.program.directives if d.kind == "printsize"]
    for name in names:
        sys.stdout.write(f"{name}\t{sizes[name]}\n")
