"""Where the facts of a relation are read and written: Soufflé's rule, and a little more.

A path that a *program* names must stay inside the directory that the *user* named, whatever
``..``, absolute paths and symbolic links say. Files found by the relation's own name are the user's.
"""

from __future__ import annotations

import difflib
import glob
from collections.abc import Mapping
from pathlib import Path

from gpuengine.errors import DataError
from gpuengine.io.options import DATABASES, Format, format_of
from gpuengine.language.parameters import flag, is_a_stream

STDIN = Path("-")

_TEXT = (".csv", ".tsv", ".txt")
_COLUMNAR = (".parquet", ".pq", ".arrow", ".arrows", ".ipc", ".feather")
_SUFFIXES = tuple(s + z for s in (".facts", *_TEXT) for z in ("", ".gz", ".zst")) + _COLUMNAR

_DEFAULT_SUFFIX = {
    Format.TEXT: ".csv",
    Format.PARQUET: ".parquet",
    Format.ARROW: ".arrow",
    Format.JSON: ".json",
    Format.SQLITE: ".sqlite",
    Format.DUCKDB: ".duckdb",
}
_BY_NAME_ALONE = (Format.JSON, *DATABASES)
"""Formats of one file, of one extension."""


def find_facts(relation: str, params: Mapping[str, str], fact_dir: Path) -> Path:
    """The file, directory of part files or glob that holds the facts of `relation`.

    ``filename=`` if given, else ``NAME.facts``, else ``NAME`` with another known extension, else a
    directory ``NAME``; all relative to `fact_dir`. `STDIN` for ``IO=stdin``. Raises `DataError`.
    """
    if is_a_stream(params):
        return STDIN
    try:
        return _find(relation, params, fact_dir)
    except OSError as error:
        raise DataError(f"no facts for {relation}: {error.filename}: {error.strerror}") from error


def _find(relation: str, params: Mapping[str, str], fact_dir: Path) -> Path:
    named = _file_name(params)
    if named is not None:
        path = _confined(named, fact_dir, "fact directory", relation)
        if not path.exists() and not _matches(path):
            raise DataError(_not_found(relation, str(path), fact_dir, path.name))
        for part in _matches(path) or part_files(path):
            _confined(str(part.absolute()), fact_dir, "fact directory", relation)
        return path
    format = format_of(Path(relation), params)
    if format in _BY_NAME_ALONE:
        only = fact_dir / f"{relation}{_DEFAULT_SUFFIX[format]}"
        if not only.exists():
            raise DataError(_not_found(relation, str(only), fact_dir, only.name))
        return only
    candidates = [fact_dir / f"{relation}{suffix}" for suffix in _SUFFIXES]
    existing = next((path for path in candidates if path.exists()), None)
    if existing is not None:
        return existing
    if (fact_dir / relation).is_dir():
        return fact_dir / relation
    others = "also as .csv, .tsv, .txt, .parquet, .arrow, compressed as .gz or .zst, and as a directory"
    looked_for = f"{candidates[0]} ({others})"
    raise DataError(_not_found(relation, looked_for, fact_dir, candidates[0].name))


def output_path(relation: str, params: Mapping[str, str], output_dir: Path) -> Path:
    """Where the facts of `relation` are written: ``filename=`` or ``NAME.csv`` in `output_dir`; the
    extension follows ``IO=`` and ``compress=``."""
    named = _file_name(params)
    if named is not None:
        return _confined(named, output_dir, "output directory", relation)
    suffix = _DEFAULT_SUFFIX[format_of(Path(relation), params)]
    if params.get("IO") == "tsv":
        suffix = ".tsv"
    if suffix in (".csv", ".tsv") and flag(params, "compress"):
        suffix += ".gz"
    return output_dir / f"{relation}{suffix}"


def _file_name(params: Mapping[str, str]) -> str | None:
    """The file that a directive names; ``dbname=`` is what Soufflé called that of databases once."""
    is_database = format_of(Path(), params) in DATABASES
    return params.get("filename", params.get("dbname") if is_database else None)


def part_files(path: Path) -> list[Path]:
    """The files to read for `path`: itself, the visible files of a directory, or the matches of a glob.

    Names that begin with ``.`` or ``_`` are markers and checksums of the writer, as Spark leaves them.
    Raises `DataError` if there are none, unless a ``_SUCCESS`` marker says that none is right.
    """
    if path.is_dir():
        parts = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith((".", "_")))
        if not parts and not (path / "_SUCCESS").exists():
            raise DataError(f"{path}: a directory without part files")
        return parts
    if path.exists():
        return [path]
    matches = _matches(path)
    if not matches:
        raise DataError(f"{path}: no such file" + (" (no file matches)" if glob.has_magic(str(path)) else ""))
    return matches


def _matches(path: Path) -> list[Path]:
    if path.exists() or not glob.has_magic(str(path)):
        return []
    parts = path.parts
    first = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    matches = Path(*parts[:first]).glob(str(Path(*parts[first:])))
    return sorted(p for p in matches if p.is_file() and not p.name.startswith("."))


def _confined(filename: str, directory: Path, what: str, relation: str) -> Path:
    """`filename` relative to `directory`, if it stays inside it."""
    if not filename or "\0" in filename:
        raise DataError(f"filename={filename!r} of {relation} is not a file name")
    path = directory / filename
    # A pattern can't be resolved before it is matched, so it must not climb at all.
    climbs = glob.has_magic(filename) and ".." in Path(filename).parts
    try:
        inside = path.resolve().is_relative_to(directory.resolve())
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links
        raise DataError(f"filename={filename!r} of {relation} can't be followed: {error}") from error
    if climbs or not inside:
        raise DataError(
            f'filename="{filename}" of {relation} leaves the {what} {directory}; '
            f"move the file there, or choose another {what}"
        )
    return path


def _not_found(relation: str, looked_for: str, fact_dir: Path, name: str) -> str:
    message = f"no facts for {relation}: looked for {looked_for}"
    if not fact_dir.is_dir():
        return f"{message}; {fact_dir} is not a directory"
    present = sorted(p.name for p in fact_dir.iterdir() if not p.name.startswith("."))
    stems = [p.partition(".")[0].lower() for p in present]
    near = difflib.get_close_matches(name.partition(".")[0].lower(), stems, n=3, cutoff=0.6)
    if near:
        return f"{message}; there is {', '.join(p for p, s in zip(present, stems, strict=True) if s in near)}"
    return message + (f"; {fact_dir} is empty" if not present else "")
