"""The ``.output`` directives of a run: where they go, and writing all of them or none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.interrupts import unfinished
from gpuengine.cli.live import LiveLine
from gpuengine.errors import DataError, GpuEngineError
from gpuengine.io import output_path

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuengine.engine import Engine
    from gpuengine.language.program import Directive
    from gpuengine.relation import RelationView


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
        printed = output_dir is None or params.get("IO") == "stdout"
        path = None if printed or output_dir is None else output_path(relation, params, output_dir)
        if path is not None and owner.setdefault(path, relation) != relation:
            raise DataError(f"{owner[path]} and {relation} would both be written to {path}")
        outputs[relation, path] = Output(directive, path)
    return list(outputs.values())


def check_outputs(outputs: Iterable[Output], *, as_json: bool) -> None:
    """Make the folders of the output files and see that they can be written to, before any work."""
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


def check_folder(folder: Path) -> None:
    """Make a folder and see that it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}-{os.urandom(4).hex()}.tmp"
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise DataError(f"can't write to {folder}: {error.strerror or error}") from error


def write_outputs(engine: Engine, outputs: Iterable[Output], line: LiveLine) -> None:
    """Write all files, or none; then print what is printed."""
    from gpuengine.io import write_stdout

    write_files(
        (
            File(output.path, engine[output.directive.relation], output.directive.params)
            for output in outputs
            if output.path is not None
        ),
        line,
    )
    for output in outputs:
        if output.path is None:
            view = engine[output.directive.relation]
            write_stdout(view.name, view.batches(), view.attributes, output.directive.params)
    sys.stdout.flush()


def write_files(files: Iterable[File], line: LiveLine) -> None:
    """Write every file beside its place and move all of them there at the end.

    Whatever stops the writing leaves all earlier files as they were.
    """
    from gpuengine.io import write_facts

    finished: dict[Path, Path] = {}
    try:
        for file in files:
            # The end of the name stays, since it chooses format and compression.
            beside = file.path.with_name(f".{os.getpid()}-{os.urandom(4).hex()}.tmp.{file.path.name}")
            unfinished().add(beside)
            finished[beside] = file.path
            batches = _watched(file.view.name, file.view.batches(), len(file.view), line)
            try:
                write_facts(beside, batches, file.view.attributes, file.params)
            except DataError as error:
                raise DataError(str(error).replace(str(beside), str(file.path))) from error
        for path in finished.values():
            if path.is_dir():
                raise DataError(f"can't write {path}: it is a directory")
        for beside, path in finished.items():
            beside.replace(path)
            unfinished().discard(beside)
    except OSError as error:
        raise DataError(f"can't write {error.filename2 or error.filename}: {error.strerror}") from error
    finally:
        for beside in finished:
            beside.unlink(missing_ok=True)
            unfinished().discard(beside)
    line.clear()


def _watched(
    relation: str, batches: Iterable[pa.RecordBatch], total: int, line: LiveLine
) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        line.writing(relation, rows, total)
        yield batch
        rows += batch.num_rows
