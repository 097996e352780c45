"""``gpuengine run``: read facts, materialise what is asked for, write it, and save all of it if wanted."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuengine.cli.failures import say_when_failed, say_when_interrupted
from gpuengine.cli.knowledge_bases import check_target, generation
from gpuengine.cli.languages import is_rdf, is_temporal
from gpuengine.cli.live import Clock, LiveLine, live_line
from gpuengine.cli.outputs import check_outputs, find_outputs, write_outputs
from gpuengine.cli.profiled import check_profile, write_profile
from gpuengine.cli.report import Report, print_summary, print_tables
from gpuengine.cli.sources import load, locate, needed_inputs, open_engine

if TYPE_CHECKING:
    from gpuengine.engine import Engine


def run(arguments: argparse.Namespace) -> int:
    """Run a program as Soufflé would; raises before anything is written if it can't be done."""
    if is_temporal(arguments):
        from gpuengine.cli.temporal import run_temporal

        return run_temporal(arguments)
    if is_rdf(arguments):
        from gpuengine.cli.rdf import run_rdf

        return run_rdf(arguments)
    if arguments.on == "spark":
        from gpuengine.cli.spark import run_on_spark

        return run_on_spark(arguments)
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
    engine.check_functors()
    outputs = find_outputs(engine, arguments.output_dir)
    asked = wanted_relations(engine)
    wanted = asked if arguments.save is None else None
    sources = locate(needed_inputs(engine, wanted), arguments.fact_dir)
    check_outputs(outputs, arguments.output_dir, as_json=arguments.json)
    check_profile(arguments.profiled, (output.path for output in outputs))
    if arguments.save is not None:
        check_target(arguments.save, replace=arguments.replace)
    clock.lap("parse")
    skipped = load(engine, sources, arguments, line)
    clock.lap("load")
    engine.materialise(wanted=wanted, watch=line.evaluating)
    clock.lap("evaluate")
    if arguments.save is not None:
        _save(engine, arguments, line)
        clock.lap("save")
    done = "all output files are written"
    if arguments.save is not None:
        done = f"{done}, and {arguments.save} is saved"
    write_outputs(engine, outputs, line, arguments.output_dir, done=done, is_sorted=arguments.sort)
    sizes = {name: len(engine[name]) for name in asked or engine.relations}
    if not arguments.json:
        _print_sizes(engine, sizes, everything=asked is None)
    clock.lap("write")
    line.clear()
    report = Report.of(arguments.program, engine, sizes, skipped, clock)
    if arguments.profiled is not None:
        say_when_failed(f"{done}; only the profile is not")
        say_when_interrupted(lambda: f"{done}; only the profile is not")
        write_profile(report.profile(engine), arguments.profiled)
    if arguments.json:
        print(report.to_json(with_rules=arguments.stats))
    if arguments.stats:
        print_tables(report)
    elif line.on:
        print_summary(report)
    return 0


def _save(engine: Engine, arguments: argparse.Namespace, line: LiveLine) -> None:
    before = generation(arguments.save)

    def outcome() -> str:
        is_saved = generation(arguments.save) != before
        what = f"but {arguments.save} is saved" if is_saved else f"nor was {arguments.save}"
        return f"no output file was changed, {what}"

    say_when_interrupted(outcome)
    line.show(f"saving {arguments.save}")
    engine.save(arguments.save, replace=arguments.replace)
    say_when_failed(f"{arguments.save} is saved")


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
