"""``update`` and ``show`` for knowledge bases of DatalogMTL."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuengine.cli.failures import say_when_interrupted
from gpuengine.cli.live import Clock, size
from gpuengine.cli.outputs import check_folder
from gpuengine.cli.temporal import engine_options, write_table, write_together
from gpuengine.cli.values import STDIN, Operation
from gpuengine.errors import StoreError

if TYPE_CHECKING:
    from gpuengine.temporal.engine import TemporalEngine
    from gpuengine.temporal.updates import TemporalChange, TemporalUpdate


def open_temporal(path: Path, *, read_only: bool, **options: Any) -> TemporalEngine:
    """The engine of a temporal knowledge base."""
    from gpuengine.opening import open as open_engine
    from gpuengine.temporal.engine import TemporalEngine

    engine = open_engine(path, read_only=read_only, **options)
    if not isinstance(engine, TemporalEngine):
        raise StoreError(f"{path} is no temporal knowledge base")
    return engine


def update_temporal(arguments: argparse.Namespace) -> int:
    """Change facts and rules, all or nothing, and say what came of it."""
    clock = Clock()
    if arguments.changes is not None:
        check_folder(arguments.changes)
    with open_temporal(arguments.kb, read_only=False, **engine_options(arguments)) as engine:
        clock.lap("open")
        say_when_interrupted(lambda: "the knowledge base is as it was, or the update is committed whole")
        with engine.update() as update:
            for operation in arguments.operations:
                _ask(update, operation, arguments)
        clock.lap("update")
        change = update.change
        if arguments.changes is not None:
            _write_changes(change, arguments.changes, arguments.format)
    clock.lap("write")
    if update.skipped:
        print(f"warning: skipped {update.skipped} bad facts", file=sys.stderr)
    if any(operation.kind in ("add-rules", "remove-rules") for operation in arguments.operations):
        for warning in engine.warnings:
            print(f"warning: {warning}", file=sys.stderr)
    counts = {name: (len(c.inserted), len(c.deleted)) for name, c in sorted(change.relations.items())}
    if arguments.json:
        report: dict[str, Any] = {
            "relations": {n: {"inserted": came, "deleted": went} for n, (came, went) in counts.items()},
            "derived_anew": list(change.recomputed),
            "skipped": update.skipped,
            "seconds": {**clock.seconds, "total": clock.total},
        }
        print(json.dumps(report))
        return 0
    for name, (came, went) in counts.items():
        print(f"{name}\t+{came}\t-{went}")
    if change.recomputed:
        print(f"note: derived anew: {', '.join(change.recomputed)}", file=sys.stderr)
    return 0


def _ask(update: TemporalUpdate, operation: Operation, arguments: argparse.Namespace) -> None:
    if operation.kind == "add-rules":
        update.add_rules(operation.path)
        return
    if operation.kind == "remove-rules":
        update.remove_rules(operation.path)
        return
    ask = update.insert if operation.kind == "insert" else update.delete
    options = {"on_error": arguments.on_error, "timestamps": arguments.timestamps}
    if operation.path != STDIN:
        if operation.relation:
            ask(operation.relation, operation.path, **options)
        else:
            ask(operation.path, **options)
        return
    given = sys.stdin.buffer.read()
    if operation.relation:
        ask(operation.relation, given, **options)
    elif given.strip():
        ask(given.decode(errors="replace") + "\n", **options)


def _write_changes(change: TemporalChange, folder: Path, format: str) -> None:
    def writer(table: Any) -> Any:
        return lambda sink: write_table(table, sink, format)

    files = {}
    for name, one in change.relations.items():
        for kind, rows in (("inserted", one.inserted), ("deleted", one.deleted)):
            if len(rows):
                table = change.inserted(name) if kind == "inserted" else change.deleted(name)
                files[folder / f"{name}.{kind}.{format}"] = writer(table)
    write_together(files, folder)


def show_temporal(arguments: argparse.Namespace) -> int:
    """Print the predicates, how many facts they have, and the rules if asked for."""
    from gpuengine.maintenance.store import Store

    with Store.open(arguments.kb, read_only=True) as store:
        description = store.describe()
    engine = open_temporal(arguments.kb, read_only=True)
    facts = {name: len(engine[name]) for name in engine.relations}
    rules = [str(rule) for rule in engine.program.rules]
    report = {
        "path": str(arguments.kb),
        "language": "mtl",
        "relations": facts,
        "rules": len(rules),
        "exact": engine.is_exact,
        "notes": engine.notes,
        "journal": description["journal"],
        "bytes": description["bytes"],
    }
    if arguments.json:
        print(json.dumps(report | ({"rule_texts": rules} if arguments.rules else {}), ensure_ascii=False))
        return 0
    for name, count in facts.items():
        print(f"{name}\t{count}")
    updates = description["journal"]["commits"]
    print(
        f"DatalogMTL, {len(rules)} rules; {size(description['bytes'])}, {updates} updates since it was folded"
    )
    for note in engine.notes:
        print(f"note: {note}")
    if arguments.rules:
        print("\n" + "\n".join(rules))
    return 0
