"""``gpuengine update``: change facts and rules of a knowledge base, in one transaction."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.failures import say_when_failed, say_when_interrupted
from gpuengine.cli.knowledge_bases import (
    Mark,
    is_rdf_base,
    is_temporal_base,
    open_knowledge_base,
    refuse_those_of_spark,
)
from gpuengine.cli.live import Clock, LiveLine, live_line, peak_rss
from gpuengine.cli.outputs import File, check_folder, finish_earlier, write_files
from gpuengine.cli.profiled import check_profile, write_profile
from gpuengine.cli.sources import data_warnings, described, warn_skipped
from gpuengine.cli.values import STDIN, Operation
from gpuengine.errors import DataError, MemoryBudgetError

if TYPE_CHECKING:
    from gpuengine.engine import Engine
    from gpuengine.maintenance.change import Change, RelationChange
    from gpuengine.maintenance.transaction import Update

_SUFFIXES = {"tsv": ".tsv", "csv": ".csv", "parquet": ".parquet", "arrow": ".arrow"}
_UNCHANGED = "the knowledge base is as it was"
_COMMITTED = "the update is committed"


def update(arguments: argparse.Namespace) -> int:
    """Do everything that was asked for, or nothing."""
    if arguments.on == "spark":
        from gpuengine.cli.spark import update_on_spark

        return update_on_spark(arguments)
    clock = Clock()
    line = live_line(arguments.quiet)
    say_when_interrupted(lambda: _UNCHANGED)
    refuse_those_of_spark(arguments.kb)
    if is_temporal_base(arguments.kb):
        from gpuengine.cli.temporal_kb import update_temporal

        return update_temporal(arguments)
    if is_rdf_base(arguments.kb):
        from gpuengine.cli.rdf_kb import update_rdf

        try:
            return update_rdf(arguments, clock, line)
        finally:
            line.clear()
    try:
        _check_files(arguments.operations)
        if arguments.changes is not None:
            check_folder(arguments.changes)
            finish_earlier(arguments.changes)
        check_profile(arguments.profiled, ())
        line.show(f"opening {arguments.kb}")
        import gpuengine.opening  # noqa: F401  (its import is part of starting up)

        clock.lap("startup")
        with open_knowledge_base(arguments.kb, arguments, read_only=False) as engine:
            clock.lap("open")
            return _update(engine, arguments, clock, line)
    finally:
        line.clear()


def _update(engine: Engine, arguments: argparse.Namespace, clock: Clock, line: LiveLine) -> int:
    _check_relations(engine, arguments.operations)
    mark = Mark(arguments.kb)
    skipped: dict[str, int] = {}
    with engine.update(watch=line.evaluating) as transaction:
        for number, operation in enumerate(arguments.operations, 1):
            line.show(f"reading {number}/{len(arguments.operations)}  {_described(operation)}")
            _ask(transaction, engine, operation, arguments, skipped, line)
        clock.lap("read")
        line.show("updating")
        say_when_interrupted(lambda: _COMMITTED if mark.is_passed else _UNCHANGED)
    clock.lap("update")
    with _committed():
        change = _changed(transaction.change, line)
        if arguments.changes is not None:
            files = _files(change, arguments.changes, arguments.format)
            done = f"{_COMMITTED}, and what it changed is written"
            write_files(files, line, arguments.changes, done=done)
        clock.lap("write")
        line.clear()
        if arguments.profiled is not None:
            say_when_failed(f"{_COMMITTED}; only the profile is not written")
            seconds = {**clock.seconds, "total": clock.total}
            process = {"peak_rss_bytes": peak_rss(), "skipped_rows": skipped}
            profile = engine.profile(program=str(arguments.kb), seconds=seconds, process=process)
            write_profile(profile, arguments.profiled)
    _report(change, skipped, clock, as_json=arguments.json)
    return 0


# -- what is asked for ---------------------------------------------------------------------------------


def _check_files(operations: list[Operation]) -> None:
    """Raise if a file is not there, before anything is opened."""
    from gpuengine.io.locate import part_files

    for operation in operations:
        if operation.relation:
            if operation.path != STDIN:
                part_files(operation.path)
        elif not operation.path.is_file():
            what = "is a directory" if operation.path.is_dir() else "no such file"
            raise DataError(f"{operation.path}: {what}")


def _check_relations(engine: Engine, operations: list[Operation]) -> None:
    """Raise if there is no such relation, before any file is read; rules may bring some."""
    for operation in operations:
        if operation.kind == "add-rules":
            return
        if operation.relation:
            engine.declared(operation.relation)


def _ask(
    transaction: Update,
    engine: Engine,
    operation: Operation,
    arguments: argparse.Namespace,
    skipped: dict[str, int],
    line: LiveLine,
) -> None:
    if operation.kind == "add-rules":
        transaction.add_rules(operation.path)
    elif operation.kind == "remove-rules":
        transaction.remove_rules(operation.path)
    else:
        ask = transaction.insert if operation.kind == "insert" else transaction.delete
        engine.skipped.pop(operation.relation, None)
        with data_warnings(line, silent=False):
            ask(
                operation.relation,
                operation.path,
                on_error=arguments.on_error,
                nulls=arguments.nulls or "fail",
                dates=arguments.dates,
            )
        bad = engine.skipped.get(operation.relation)
        if bad is not None:
            warn_skipped(line, operation.path, bad.rows, bad.first_errors)
            skipped[operation.relation] = skipped.get(operation.relation, 0) + bad.rows


def _described(operation: Operation) -> str:
    what = f"{operation.relation} from " if operation.relation else ""
    return f"{operation.kind} {what}{described(operation.path)}"


# -- what came of it -----------------------------------------------------------------------------------


@contextmanager
def _committed() -> Iterator[None]:
    """Whatever happens now, the update has happened, and who asked for it must know."""
    say_when_interrupted(lambda: f"{_COMMITTED}, but what it changed was not written")
    say_when_failed(f"{_COMMITTED}; only what it changed could not be told")
    try:
        yield
    except MemoryError as error:
        raise MemoryBudgetError("out of memory while listing what changed") from error


def _changed(change: Change, line: LiveLine) -> dict[str, RelationChange]:
    """The relations that changed; finding out may take listing what was computed anew."""
    line.show("comparing with what was there before")
    return {relation: change[relation] for relation in change}


def _files(change: Mapping[str, RelationChange], folder: Path, form: str) -> Iterator[File]:
    for relation, one in change.items():
        for what, view in (("inserted", one.inserted), ("deleted", one.deleted)):
            yield File(folder / f"{relation}.{what}{_SUFFIXES[form]}", view, {"IO": form})


def _report(
    change: Mapping[str, RelationChange], skipped: Mapping[str, int], clock: Clock, *, as_json: bool
) -> None:
    counts = {name: (len(one.inserted), len(one.deleted)) for name, one in change.items()}
    if as_json:
        relations = {name: {"inserted": came, "deleted": went} for name, (came, went) in counts.items()}
        seconds = {**clock.seconds, "total": clock.total}
        content = {"relations": relations, "skipped_rows": skipped, "seconds": seconds}
        print(json.dumps(content, ensure_ascii=False))
        return
    for name, (came, went) in counts.items():
        sys.stdout.write(f"{name}\t+{came}\t-{went}\n")
