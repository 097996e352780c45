"""``gpuengine explain``: why a fact holds, or why it does not."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuengine.cli.knowledge_bases import is_rdf_base, is_temporal_base, open_knowledge_base
from gpuengine.cli.languages import is_temporal
from gpuengine.cli.live import live_line
from gpuengine.cli.query import evaluated, replace_file
from gpuengine.errors import GpuEngineError

if TYPE_CHECKING:
    from gpuengine.engine import Engine


def explain(arguments: argparse.Namespace) -> int:
    """Print a proof as a tree, JSON or a drawing, or write it to a file. Ends with 1 if there is none."""
    _refuse_others(arguments)
    line = live_line(arguments.quiet)
    try:
        engine = _opened(arguments)
        if engine is None:
            engine = evaluated(arguments, line)
        line.show(f"explaining {arguments.query}")
        if arguments.why_not:
            reason = engine.why_not(arguments.query)
            shown = _json(reason.to_dict()) if arguments.json else str(reason)
            is_so = not reason.holds
        else:
            limit = arguments.limit or (None if arguments.output else 100)
            proof = engine.explain(arguments.query, all=arguments.all, limit=limit)
            is_so, depth = proof.holds, arguments.depth
            if arguments.svg or _ends(arguments.output, ".svg"):
                shown = proof.to_svg(depth)
            elif arguments.html or _ends(arguments.output, ".html"):
                shown = proof.to_html(depth)
            elif arguments.json or _ends(arguments.output, ".json"):
                shown = _json(proof.to_dict(depth))
            else:
                shown = proof.to_text(depth)
    finally:
        line.clear()
    _write(arguments.output, shown)
    if not is_so and arguments.output is None and not arguments.json:
        hint = "without --why-not says why" if arguments.why_not else "--why-not says why"
        print(f"hint: gpuengine explain {hint}", file=sys.stderr)
    return 0 if is_so else 1


def _refuse_others(arguments: argparse.Namespace) -> None:
    path: Path = arguments.program
    if is_temporal_base(path) if arguments.is_saved else is_temporal(arguments):
        raise GpuEngineError(f"{path} is DatalogMTL, whose facts can't be explained yet")
    if arguments.is_saved and is_rdf_base(path):
        raise GpuEngineError(f"{path} is RDF, whose triples can't be explained yet")


def _opened(arguments: argparse.Namespace) -> Engine | None:
    if not arguments.is_saved:
        return None
    return open_knowledge_base(arguments.program, arguments, read_only=True)


def _ends(output: Path | None, suffix: str) -> bool:
    return output is not None and output.suffix == suffix


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str) + "\n"


def _write(output: Path | None, shown: str) -> None:
    if output is None:
        sys.stdout.write(shown)
        return
    replace_file(output, shown)
