"""The ``.output`` directives of a run: where they go, and writing all of them or none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.failures import outcome, say_when_interrupted, settled_when_ended
from gpuengine.cli.live import LiveLine
from gpuengine.errors import DataError, GpuEngineError, MemoryBudgetError
from gpuengine.io import output_path
from gpuengine.language.parameters import DATABASES, is_a_stream

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuengine.engine import Engine
    from gpuengine.language.program import Directive
    from gpuengine.relation import RelationView

_MOST_IN_ORDER = 1_000_000
"""So many rows are not sorted unless that is asked for."""


@dataclass(frozen=True, slots=True)
class Output:
    """An ``.output``; `path` is None for standard output."""

    directive: Directive
    path: Path | None


@dataclass(frozen=True, slots=True)
class File:
    """A file to be written: its name, what it holds, and the parameters that ``.output`` has for it."""

    path: Path
    view: RelationView
    params: Mapping[str, str]


def find_outputs(engine: Engine, output_dir: Path | None) -> list[Output]:
    """Where each output goes; raises if two relations would go to one file.

    Without an `output_dir` everything is printed.
    """
    outputs: dict[tuple[str, Path | None], Output] = {}
    owner: dict[Path, str] = {}
    for directive in engine.program.directives:
        if directive.kind != "output":
            continue
        relation, params = directive.relation, directive.params
        printed = output_dir is None or is_a_stream(params)
        if output_dir is None:
            directive = as_printed(directive)
        path = None if printed or output_dir is None else output_path(relation, params, output_dir)
        if path is not None and params.get("IO") in DATABASES:
            directive = replace(directive, params={"name": relation, **params})
            owner.setdefault(path, "")
            if owner[path]:
                raise DataError(f"{owner[path]} and {relation} would both be written to {path}")
        elif path is not None and owner.setdefault(path, relation) != relation:
            raise DataError(f"{owner[path] or 'a database'} and {relation} would both be written to {path}")
        outputs[relation, path] = Output(directive, path)
    return list(outputs.values())


def as_printed(directive: Directive) -> Directive:
    """What ``-D-`` prints: as in Soufflé, under the names of attributes unless there is an ``IO=``."""
    if "IO" in directive.params:
        return directive
    return replace(directive, params={"headers": "true", **directive.params})


def check_outputs(outputs: Iterable[Output], output_dir: Path | None, *, as_json: bool) -> None:
    """Make the folders of the output files and see that they can be written to, before any work."""
    if output_dir is not None:
        finish_earlier(output_dir)
    for output in outputs:
        if output.path is None and as_json:
            raise GpuEngineError(
                f"--json needs standard output, but {output.directive.relation} is printed there\n"
                "  hint: write it to a file (-D DIR), or leave out --json"
            )
        if output.path is not None and output.path.is_dir():
            raise DataError(f"can't write {output.path}: it is a directory")
    for folder in dict.fromkeys(output.path.parent for output in outputs if output.path is not None):
        check_folder(folder)


def finish_earlier(folder: Path) -> None:
    """Finish replacing the files in a folder, if a process was killed while it did that."""
    from gpuengine.io.replacing import finish_renames

    for told in finish_renames(folder):
        print(f"warning: {told}", file=sys.stderr)


def check_folder(folder: Path) -> None:
    """Make a folder and see that it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}-{os.urandom(4).hex()}.tmp"
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise DataError(f"can't write to {folder}: {error.strerror or error}") from error


def write_outputs(
    engine: Engine,
    outputs: Iterable[Output],
    line: LiveLine,
    output_dir: Path | None,
    *,
    done: str,
    is_sorted: bool = False,
) -> None:
    """Write all files, or none; then print what is printed.

    Rows come in their order if that is wanted. As text they do anyway, so that two runs can be compared, if
    they are not too many.
    """
    from gpuengine.io import write_stdout

    def facts_of(output: Output) -> RelationView:
        view = engine[output.directive.relation]
        if is_sorted:
            return view.sort()
        return in_order(view) if _is_text(output) else view

    files = (
        File(output.path, facts_of(output), output.directive.params)
        for output in outputs
        if output.path is not None
    )
    if output_dir is not None:
        write_files(files, line, output_dir, done=done)
    for output in outputs:
        if output.path is None:
            view = facts_of(output)
            write_stdout(view.name, view.batches(), view.attributes, output.directive.params)
    sys.stdout.flush()


def _is_text(output: Output) -> bool:
    from gpuengine.io.options import Format, format_of

    return output.path is None or format_of(output.path, output.directive.params) is Format.TEXT


def in_order(view: RelationView) -> RelationView:
    """The rows in their order, or as they are if they are many, or there is no room for that."""
    try:
        return view.sort() if len(view) < _MOST_IN_ORDER else view
    except MemoryBudgetError:
        return view


def write_files(files: Iterable[File], line: LiveLine, home: Path, *, done: str) -> None:
    """Replace all files, below the folder `home`, at once; whatever stops that earlier leaves them as they
    were. An interrupt that comes too late for that says that it is `done`."""
    from gpuengine.io import write_facts
    from gpuengine.io.replacing import Replacement

    with Replacement(home) as replacement, settled_when_ended(replacement.settle):
        earlier = outcome()
        say_when_interrupted(lambda: done if replacement.is_decided else earlier())
        for file in files:
            batches = _watched(file.view.name, file.view.batches(), len(file.view), line)
            write_facts(file.path, batches, file.view.attributes, file.params, among=replacement)
        replacement.finish()
    line.clear()


def _watched(
    relation: str, batches: Iterable[pa.RecordBatch], total: int, line: LiveLine
) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        line.writing(relation, rows, total)
        yield batch
        rows += batch.num_rows
