"""Frames to datasets: written beside their places, and moved there when all of them are complete.

Spark's commit protocol makes each dataset complete or absent whatever tasks fail or run twice: of the
attempts at a task one is allowed to commit its files. ``_SUCCESS`` says that all of them have.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from gpuengine.errors import DataError
from gpuengine.exchange.spark_frames import HOLDS
from gpuengine.io.options import codec_of, text_dialect
from gpuengine.language.program import Directive
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.filesystem import FileSystem, join, name_of, parent_of
from gpuengine.spark_bridge.reading import confined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET, ORC, TEXT = "parquet", "orc", "text"
_FORMAT_OF_SUFFIX = {".parquet": PARQUET, ".pq": PARQUET, ".orc": ORC}
_TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".facts")
_FORMAT_OF_IO = {"parquet": PARQUET, "csv": TEXT, "tsv": TEXT}
_NOT_WRITTEN = ("arrow", "ipc", "feather")
_SUCCESS = "_SUCCESS"
_CLEANING_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Target:
    """Where a relation goes: the folder of a dataset, its format, and what ``.output`` says of it."""

    relation: str
    path: str
    format: str
    params: Mapping[str, str]


def find_targets(directives: Iterable[Directive], output_dir: str) -> list[Target]:
    """Where each ``.output`` goes but those of ``IO=stdout``: ``filename=``, or ``NAME.parquet``.

    Raises `DataError` if two relations would go to one place, or if one would leave `output_dir`.
    """
    targets: dict[tuple[str, str], Target] = {}
    owner: dict[str, str] = {}
    for directive in directives:
        if directive.kind != "output" or directive.params.get("IO") in ("stdout", "stdoutprintsize"):
            continue
        target = _target(directive.relation, directive.params, output_dir)
        if owner.setdefault(target.path, target.relation) != target.relation:
            raise DataError(
                f"{owner[target.path]} and {target.relation} would both be written to {target.path}"
            )
        targets[target.relation, target.path] = target
    return list(targets.values())


def check_targets(spark: SparkSession, targets: Iterable[Target]) -> None:
    """See before any work that the folders of the targets can be made, and that nothing else is there."""
    files = FileSystem(spark)
    for target in targets:
        if files.is_directory(target.path) and not _is_dataset(files, target.path):
            raise DataError(
                f"can't write {target.path}: it is a directory, and not one that Spark has written\n"
                "  hint: move it away, or choose another output directory"
            )
        files.make_directories(parent_of(target.path))


def write_results(
    spark: SparkSession,
    frames: Mapping[str, DataFrame],
    targets: Iterable[Target],
    *,
    on_written: Callable[[str], None] | None = None,
) -> None:
    """Write all frames that have targets, or none.

    Each is written to a hidden folder beside its place. When all are complete they take the place of what was
    there before; whatever stops the writing earlier leaves that as it was. `on_written` is told each relation
    that is complete.
    """
    files = FileSystem(spark)
    targets = list(targets)
    check_targets(spark, targets)
    waiting: dict[str, str] = {}
    try:
        for target in targets:
            beside = _beside(target.path)
            waiting[beside] = target.path
            with spark_failures(f"writing {target.relation} to {target.path}"):
                _write(frames[target.relation], target, beside)
            if on_written is not None:
                on_written(target.relation)
        for beside, path in list(waiting.items()):
            files.replace(beside, path)
            del waiting[beside]
    finally:
        if waiting:
            _delete(spark, list(waiting))


def _target(relation: str, params: Mapping[str, str], output_dir: str) -> Target:
    io = params.get("IO", "file")
    if io in _NOT_WRITTEN:
        raise DataError(f"IO={io} of {relation} can't be written by Spark\n  hint: use IO=parquet, or text")
    if "filename" in params:
        path = confined(params["filename"], output_dir, "output directory", relation)
        format = _FORMAT_OF_IO.get(io) or _FORMAT_OF_SUFFIX.get(_suffix(path), TEXT)
    else:
        format = _FORMAT_OF_IO.get(io) or (TEXT if _says_text(params) else PARQUET)
        suffix = f".{io}" if io in _FORMAT_OF_IO else ".csv" if format == TEXT else ".parquet"
        path = join(output_dir, f"{relation}{suffix}")
    if format == TEXT and text_dialect(params).headers and not text_dialect(params).quoting:
        raise DataError(
            f"{relation}: Spark writes no headers to text without quotes\n"
            "  hint: add rfc4180=true, or leave out headers=true"
        )
    return Target(relation, path, format, dict(params))


def _says_text(params: Mapping[str, str]) -> bool:
    return bool(params.keys() & {"delimiter", "rfc4180", "headers"})


def _suffix(path: str) -> str:
    return PurePath(name_of(path)).suffix.lower()


def _is_dataset(files: FileSystem, path: str) -> bool:
    """Is this a folder that may be replaced: a dataset, or nothing?"""
    names = files.list(path)
    return not names or _SUCCESS in names


def _beside(path: str) -> str:
    return join(parent_of(path), f".{name_of(path)}.{os.getpid()}-{os.urandom(4).hex()}.tmp")


def _write(frame: DataFrame, target: Target, path: str) -> None:
    if target.format != TEXT:
        frame.write.format(target.format).save(path)
        return
    dialect = text_dialect(target.params)
    assert dialect.delimiter is not None
    delimiter = dialect.delimiter.decode()
    codec = codec_of(PurePath(name_of(target.path)), target.params) or "none"
    if not dialect.quoting:
        _as_lines(frame, delimiter).write.text(path, compression=codec, lineSep="\n")
        return
    frame.write.csv(
        path,
        sep=delimiter,
        header=dialect.headers,
        compression=codec,
        quote='"',
        escape='"',
        # An empty text is an empty field.
        emptyValue="",
        ignoreLeadingWhiteSpace=False,
        ignoreTrailingWhiteSpace=False,
    )


def _as_lines(frame: DataFrame, delimiter: str) -> DataFrame:
    """Fields as they are, with a delimiter between them, as Soufflé writes them."""
    from pyspark.sql import functions as F

    if frame.dtypes == [(HOLDS, "boolean")]:
        return frame.select(F.lit("()").alias("value"))
    fields = [frame[f"`{name}`"].cast("string") for name in frame.columns]
    return frame.select(F.concat_ws(delimiter, *fields).alias("value"))


def _delete(spark: SparkSession, folders: list[str]) -> None:
    """Remove what is not finished: from a thread of its own, as this one may have been interrupted in the
    middle of a call to the JVM, the answer to which is still to come."""

    def delete() -> None:
        for folder in folders:
            with suppress(Exception):
                FileSystem(spark).delete(folder)

    thread = threading.Thread(target=delete, name="gpuengine-cleaning", daemon=True)
    thread.start()
    thread.join(_CLEANING_SECONDS)
