"""From the arguments to an engine with its facts: what `run`, `plan` and `query` begin with."""

from __future__ import annotations

import argparse
import difflib
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.functors import functions_of
from gpuengine.cli.knowledge_bases import is_knowledge_base, refuse_those_of_spark
from gpuengine.cli.languages import is_rdf
from gpuengine.cli.live import LiveLine, count, live_line, size
from gpuengine.errors import EvaluatorError, GpuEngineError, ProgramErrors, SchemeError
from gpuengine.io import find_facts

if TYPE_CHECKING:
    from gpuengine.engine import Engine
    from gpuengine.language.program import Directive


@dataclass(frozen=True, slots=True)
class Source:
    """An ``.input`` and the file, directory or glob that it reads."""

    directive: Directive
    path: Path


def open_engine(arguments: argparse.Namespace) -> Engine:
    """The engine of the program that the arguments name; no facts are loaded yet."""
    check_program(arguments.program)
    if is_rdf(arguments):
        from gpuengine.cli.rdf import load_rdf

        paths = [arguments.program, *map(Path, getattr(arguments, "files", ()))]
        return load_rdf(paths, arguments, live_line(True)).engine
    from gpuengine.engine import Engine

    engine = Engine(
        arguments.program,
        threads=getattr(arguments, "jobs", None),
        memory=getattr(arguments, "memory", None),
        backend=getattr(arguments, "backend", "cpu"),
        device=getattr(arguments, "device", 0),
        device_memory=getattr(arguments, "device_memory", None),
        schemes=_asked(arguments.scheme, "--scheme", SchemeError),
        evaluators=_asked(arguments.evaluator, "--evaluator", EvaluatorError),
        modules=not getattr(arguments, "no_modules", False),
        counting=getattr(arguments, "counting", False),
        include_dirs=arguments.include_dir,
        error_limit=getattr(arguments, "error_limit", 50),
        macros={name: value for group in arguments.macro for name, value in group.items()},
        **functions_of(arguments),
    )
    _warn(engine, arguments)
    return engine


def _warn(engine: Engine, arguments: argparse.Namespace) -> None:
    """Print the warnings of the program, or raise them with ``--werror``; none with ``-w``.

    A query says itself what of the program it uses, and who saves everything may ask for anything later.
    """
    from gpuengine.language.codes import NEVER_USED

    is_read_later = any(getattr(arguments, option, None) is not None for option in ("query", "save"))
    diagnostics = [one for one in engine.warnings if not (is_read_later and one.code == NEVER_USED)]
    if not diagnostics or arguments.no_warn:
        return
    if arguments.werror:
        raise ProgramErrors(diagnostics)
    print("\n\n".join(one.render() for one in diagnostics), file=sys.stderr)


def _asked(given: Iterable[tuple[str, str]], option: str, error: type[GpuEngineError]) -> dict[str, str]:
    """What an option asks for, by what it asks it for; raises if two of it contradict each other."""
    from gpuengine.planning.choices import without_contradiction

    return without_contradiction(
        given, lambda name, one, other: error(f"{option} asks for {name}={one} and for {name}={other}")
    )


def check_program(path: Path) -> None:
    """Raise if the program is no file, with the name that was probably meant."""
    if path.is_dir():
        if is_knowledge_base(path):
            raise GpuEngineError(
                f"{path} is a knowledge base, not a program\n"
                "  hint: query, update, show and compact take knowledge bases"
            )
        refuse_those_of_spark(path)
        programs = sorted(p.name for p in path.glob("*.dl"))
        hint = f"\n  hint: it has {', '.join(programs[:5])}" if programs else ""
        raise GpuEngineError(f"{path} is a directory, not a program{hint}")
    if not path.exists():
        folder = path.parent
        names = [p.name for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
        near = difflib.get_close_matches(path.name, names, 1)
        hint = f"\n  hint: did you mean {folder / near[0]}?" if near else ""
        raise GpuEngineError(f"there is no program {path}{hint}")


def needed_inputs(engine: Engine, wanted: Iterable[str] | None) -> list[Directive]:
    """The ``.input`` directives of the relations that `wanted` depends on (None: all of them).

    As in Soufflé, what no output needs is not read.
    """
    inputs = [d for d in engine.program.directives if d.kind == "input"]
    if wanted is None:
        return inputs
    from gpuengine.planning.plan import body_relations

    needed = set(wanted)
    for stratum in engine.plan(needed).strata:
        for variant in (*stratum.once, *stratum.recursive):
            needed |= {variant.rule.head.relation} | body_relations(variant.rule.body)
    # What is loaded into a relation that holds the same facts as one that is needed is needed too.
    stored = {engine.prepared.stored(name) for name in needed}
    needed |= stored | {name for name, alias in engine.program.aliases.items() if alias.of in stored}
    return [d for d in inputs if d.relation in needed]


def locate(inputs: Iterable[Directive], fact_dir: Path) -> list[Source]:
    """Where each input is read from; raises if a file is missing."""
    return [Source(d, find_facts(d.relation, d.params, fact_dir)) for d in inputs]


def load(
    engine: Engine, sources: list[Source], arguments: argparse.Namespace, line: LiveLine
) -> dict[str, int]:
    """Load every source; returns how many bad rows each relation lost with ``--on-error skip``."""
    lost: dict[str, int] = {}
    rows = 0
    for number, source in enumerate(sources, 1):
        relation = source.directive.relation
        what = f"{relation} from {described(source.path)}"
        line.show(f"loading {number}/{len(sources)}  {what}  {count(rows)} rows so far")
        with data_warnings(line, silent=arguments.no_warn):
            rows += engine.load(
                relation,
                source.path,
                params=source.directive.params,
                on_error=arguments.on_error,
                nulls=arguments.nulls or "fail",
                dates=arguments.dates,
            )
        skipped = engine.skipped.get(relation)
        if skipped is not None and skipped.rows > lost.get(relation, 0):
            if not arguments.no_warn:
                warn_skipped(line, source.path, skipped.rows - lost.get(relation, 0), skipped.first_errors)
            lost[relation] = skipped.rows
    return lost


@contextmanager
def data_warnings(line: LiveLine, *, silent: bool) -> Iterator[None]:
    """Print what reading data warns of, each once, or nothing of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = dict.fromkeys(str(warning.message) for warning in caught)
    if messages and not silent:
        line.clear()
        for message in messages:
            print(f"warning: {message}", file=sys.stderr)


def warn_skipped(line: LiveLine, path: Path, rows: int, messages: list[str]) -> None:
    """Say how many bad rows of a file were left out, and describe the first ones."""
    line.clear()
    plural = "s" if rows != 1 else ""
    print(f"warning: {path}: skipped {rows} bad row{plural}", file=sys.stderr)
    for message in messages:
        print(f"  {message}", file=sys.stderr)


def described(path: Path) -> str:
    """A file and its size."""
    try:
        return f"{path} ({size(path.stat().st_size)})" if path.is_file() else str(path)
    except OSError:
        return str(path)
