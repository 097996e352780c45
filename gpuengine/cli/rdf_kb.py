"""Knowledge bases of RDF: opening and updating them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.failures import say_when_interrupted
from gpuengine.cli.knowledge_bases import Mark, open_any
from gpuengine.cli.live import Clock, LiveLine
from gpuengine.cli.sources import described, warn_skipped
from gpuengine.errors import GpuEngineError, StoreError

if TYPE_CHECKING:
    from gpuengine.cli.values import Operation
    from gpuengine.maintenance.change import Change
    from gpuengine.rdf.engine import RdfEngine


def open_rdf(path: Path, arguments: argparse.Namespace, *, read_only: bool) -> RdfEngine:
    """The engine of a knowledge base of RDF."""
    from gpuengine.rdf.engine import RdfEngine

    kb = open_any(path, arguments, read_only=read_only)
    if not isinstance(kb, RdfEngine):
        raise StoreError(f"{path} is no knowledge base of RDF\n  hint: gpuengine query asks it in Datalog")
    return kb


def update_rdf(arguments: argparse.Namespace, clock: Clock, line: LiveLine) -> int:
    """Insert and delete triples, add and remove rules: all or nothing."""
    if arguments.changes is not None:
        raise GpuEngineError("--changes is not for RDF: in Python, what an update changed is u.change")
    line.show(f"opening {arguments.kb}")
    with open_rdf(arguments.kb, arguments, read_only=False) as kb:
        clock.lap("open")
        mark = Mark(arguments.kb)
        with kb.update(watch=line.evaluating) as update:
            for operation in arguments.operations:
                path = _path(operation)
                line.show(f"{operation.kind} {described(path)}")
                if operation.kind == "add-rules":
                    update.add_rules(path)
                elif operation.kind == "remove-rules":
                    update.remove_rules(path)
                else:
                    ask = update.insert if operation.kind == "insert" else update.delete
                    ask(path, on_error=arguments.on_error)
            clock.lap("read")
            line.show("updating")
            say_when_interrupted(
                lambda: "the update is committed" if mark.is_passed else "the knowledge base is as it was"
            )
        clock.lap("update")
        line.clear()
        if kb.found.rows:
            warn_skipped(line, Path("update"), kb.found.rows, kb.found.first_errors)
        print_changes(update.change, {**clock.seconds, "total": clock.total}, as_json=arguments.json)
    return 0


def _path(operation: Operation) -> Path:
    """The file of an operation; a name may have an equals sign, which is no relation's here."""
    return Path(f"{operation.relation}={operation.given}" if operation.relation else operation.given)


def print_changes(change: Change, seconds: Mapping[str, float], *, as_json: bool) -> None:
    """How many triples came and went, in all and by the relation that keeps them."""
    shown = {name: one for name, one in ((name, change[name]) for name in change) if _is_kept(name)}
    counts = {name: (len(one.inserted), len(one.deleted)) for name, one in shown.items()}
    came, went = (sum(pair[j] for pair in counts.values()) for j in (0, 1))
    if as_json:
        relations = {name: {"inserted": a, "deleted": b} for name, (a, b) in counts.items()}
        print(
            json.dumps({"inserted": came, "deleted": went, "relations": relations, "seconds": dict(seconds)})
        )
        return
    sys.stdout.write(f"triples\t+{came}\t-{went}\n")


def _is_kept(relation: str) -> bool:
    """Does a relation keep triples, rather than what rules need in between?"""
    return relation in ("t", "q") or relation.startswith(("c_", "p_"))
