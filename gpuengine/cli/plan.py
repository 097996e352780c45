"""``gpuengine plan``: show how a program would be evaluated, or, evaluating it, what that comes to."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.languages import is_temporal
from gpuengine.cli.live import live_line
from gpuengine.cli.profiled import check_profile, write_profile
from gpuengine.cli.run import wanted_relations
from gpuengine.cli.sources import load, locate, needed_inputs, open_engine
from gpuengine.errors import DataError
from gpuengine.planning.explanation import Explanation, explain_plan

if TYPE_CHECKING:
    from gpuengine.engine import Engine
    from gpuengine.planning.step_views import Measured


def plan(arguments: argparse.Namespace) -> int:
    """Print the plan as text or JSON, or draw it; or the program between two passes."""
    if is_temporal(arguments):
        from gpuengine.cli.temporal import plan_temporal

        return plan_temporal(arguments)
    if arguments.after is not None:
        from gpuengine.planning.passes import rewrite, spell_program
        from gpuengine.planning.schemes import with_schemes

        engine = open_engine(arguments)
        program = with_schemes(engine.source, engine.options.schemes)
        sys.stdout.write(spell_program(rewrite(program, arguments.after)))
        return 0
    explanation = _explanation(arguments)
    if arguments.json:
        print(json.dumps(asdict(explanation), ensure_ascii=False, indent=1))
    elif arguments.svg is not None:
        from gpuengine.planning.svg import draw

        _write(arguments.svg, draw(explanation))
    else:
        from gpuengine.planning.explain import explain

        sys.stdout.write(explain(explanation))
    return 0


def _explanation(arguments: argparse.Namespace) -> Explanation:
    engine = open_engine(arguments)
    wanted = wanted_relations(engine)
    loaded = None
    if arguments.analyse and arguments.fact_dir is None:
        arguments.fact_dir = Path()
    if arguments.fact_dir is not None:
        line = live_line(quiet=False)
        load(engine, locate(needed_inputs(engine, wanted), arguments.fact_dir), arguments, line)
        line.clear()
        loaded = engine.loaded
    plan, measured = engine.plan(wanted), None
    if arguments.analyse:
        measured = _measure(engine, wanted, arguments)
    return explain_plan(str(arguments.program), plan, loaded, engine.prepared.chooser(plan), measured)


def _measure(engine: Engine, wanted: list[str] | None, arguments: argparse.Namespace) -> Measured:
    """Evaluate the program, and write the profile of that if it is asked for."""
    engine.check_functors()
    check_profile(arguments.profiled, [Path(arguments.svg or "-")])
    line = live_line(quiet=False)
    try:
        engine.materialise(wanted=wanted, watch=line.evaluating)
        line.show("counting bindings")
        if arguments.profiled is not None:
            profile = engine.profile(steps=True, program=str(arguments.program))
            line.clear()
            write_profile(profile, arguments.profiled)
        return engine.measurement()
    finally:
        line.clear()


def _write(target: str, text: str) -> None:
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"can't write {target}: {error.strerror or error}") from error
