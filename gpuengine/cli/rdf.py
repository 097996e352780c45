"""``run`` and ``plan`` for RDF: read triples and rules, materialise, write the closure, save it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuengine.cli.failures import settled_when_ended
from gpuengine.cli.knowledge_bases import check_target
from gpuengine.cli.live import Clock, LiveLine, live_line, peak_rss
from gpuengine.cli.outputs import check_folder, finish_earlier
from gpuengine.cli.sources import described, warn_skipped
from gpuengine.errors import GpuEngineError
from gpuengine.rdf_names import RULES, suffix_of

if TYPE_CHECKING:
    from gpuengine.rdf.engine import RdfEngine


def run_rdf(arguments: argparse.Namespace) -> int:
    """Materialise triples, and write the closure; raises before anything is written if it can't be done."""
    if arguments.on == "spark":
        from gpuengine.cli.rdf_spark import run_rdf_on_spark

        return run_rdf_on_spark(arguments)
    clock = Clock()
    line = live_line(arguments.quiet)
    try:
        return _run(arguments, clock, line)
    finally:
        line.clear()


def _run(arguments: argparse.Namespace, clock: Clock, line: LiveLine) -> int:
    folder = _folder(arguments)
    if arguments.json and arguments.output_dir is None:
        raise GpuEngineError("--json needs standard output, but the triples are printed there")
    if folder is not None:
        finish_earlier(folder)
        check_folder(folder)
    if arguments.save is not None:
        check_target(arguments.save, replace=arguments.replace)
    kb = load_rdf([arguments.program, *map(Path, arguments.files)], arguments, line)
    clock.lap("load")
    kb.materialise(watch=line.evaluating)
    clock.lap("evaluate")
    if arguments.save is not None:
        line.show(f"saving {arguments.save}")
        kb.save(arguments.save, replace=arguments.replace)
        clock.lap("save")
    written = None
    form = arguments.format or ("nq" if len(kb.quads()) else "nt")
    if folder is not None:
        written = folder / f"closure.{form}"
        _write(kb, written, form, line, expand=not arguments.representatives)
    elif arguments.output_dir is None:
        from gpuengine.rdf.writing import write

        line.clear()
        write(kb, sys.stdout.buffer, form, expand=not arguments.representatives)
        sys.stdout.buffer.flush()
    clock.lap("write")
    line.clear()
    _report(kb, arguments, written, clock)
    return 0


def _folder(arguments: argparse.Namespace) -> Path | None:
    """Where the closure is written: nowhere if it is printed, or if it is saved and nothing was said."""
    is_default = str(arguments.output_dir) == "."
    if arguments.output_dir is None or (arguments.save is not None and is_default):
        return None
    return Path(arguments.output_dir)


def _write(kb: RdfEngine, path: Path, form: str, line: LiveLine, *, expand: bool) -> None:
    from gpuengine.io.replacing import Replacement
    from gpuengine.rdf.writing import write_file

    line.show(f"writing {path}")
    with Replacement(path.parent) as replacement, settled_when_ended(replacement.settle):
        write_file(kb, path, form, replacement, expand=expand)
        replacement.finish()


def load_rdf(paths: Iterable[Path], arguments: argparse.Namespace, line: LiveLine) -> RdfEngine:
    """An engine of the rules and triples of files."""
    from gpuengine.rdf.engine import RdfEngine

    paths = list(paths)
    rules = [path for path in paths if suffix_of(path) == RULES]
    options: dict[str, Any] = {
        "threads": getattr(arguments, "jobs", None),
        "memory": getattr(arguments, "memory", None),
        "backend": getattr(arguments, "backend", "cpu"),
        "device": getattr(arguments, "device", 0),
        "device_memory": getattr(arguments, "device_memory", None),
        "schemes": dict(getattr(arguments, "scheme", ())),
        "evaluators": dict(getattr(arguments, "evaluator", ())),
        "modules": not getattr(arguments, "no_modules", False),
        "counting": getattr(arguments, "counting", False),
    }
    kb = RdfEngine(rules, profile=getattr(arguments, "profile", None), **options)
    for path in paths:
        if path in rules:
            continue
        line.show(f"loading {described(path)}")
        before = kb.found.rows
        kb.load(path, on_error=getattr(arguments, "on_error", None) or "fail")
        if kb.found.rows > before and not getattr(arguments, "no_warn", False):
            warn_skipped(line, path, kb.found.rows - before, kb.found.first_errors)
    return kb


def _report(kb: RdfEngine, arguments: argparse.Namespace, written: Path | None, clock: Clock) -> None:
    seconds = {**clock.seconds, "total": clock.total}
    counts = {"triples": len(kb), "rules": len(kb.rules), "skipped_lines": kb.found.rows}
    if arguments.json:
        report: dict[str, Any] = {
            "files": [str(arguments.program), *arguments.files],
            "language": "rdf",
            "profile": kb.profile,
            **counts,
            "written": None if written is None else str(written),
            "saved": None if arguments.save is None else str(arguments.save),
            "seconds": seconds,
            "peak_rss": peak_rss(),
        }
        print(json.dumps(report, ensure_ascii=False))
    elif arguments.output_dir is not None:
        print(f"triples\t{counts['triples']}")
    if arguments.stats:
        print("  ".join(f"{name} {value:.2f} s" for name, value in seconds.items()), file=sys.stderr)
