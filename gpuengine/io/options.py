"""The parameters of ``.input`` and ``.output``: which format, and which dialect of text."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import PurePath

from gpuengine.errors import DataError, DataWarning
from gpuengine.language.parameters import ParameterError, columns, delimiter, flag, quoting, unknown
from gpuengine.language.program import Attribute, Kind


class Format(Enum):
    TEXT = "text"
    PARQUET = "parquet"
    ARROW = "arrow"
    RDF = "rdf"
    JSON = "json"
    SQLITE = "sqlite"
    DUCKDB = "duckdb"


DATABASES = (Format.SQLITE, Format.DUCKDB)


_FORMAT_OF_IO = {
    "file": Format.TEXT,
    "stdin": Format.TEXT,
    "stdout": Format.TEXT,
    "csv": Format.TEXT,
    "tsv": Format.TEXT,
    "parquet": Format.PARQUET,
    "arrow": Format.ARROW,
    "ipc": Format.ARROW,
    "feather": Format.ARROW,
    "rdf": Format.RDF,
    "json": Format.JSON,
    "jsonfile": Format.JSON,
    "sqlite": Format.SQLITE,
    "duckdb": Format.DUCKDB,
}

_FORMAT_OF_SUFFIX = {
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".ipc": Format.ARROW,
    ".feather": Format.ARROW,
}

_MADE_UP = ("", "column_", "column", "field_", "col_", "col", "f", "c", "_c", "_")
"""What pandas, Polars, Arrow, NumPy, DuckDB and Spark put before the numbers of columns without names."""

CODEC_OF_SUFFIX = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How rows are laid out in text.

    `delimiter` None means: look at the first row, a tab or else a comma with RFC 4180 quoting.
    `columns` are the file's columns (from 0) in the order of the attributes, None for all of them.
    """

    delimiter: bytes | None
    quoting: bool
    headers: bool
    columns: tuple[int, ...] | None

    def settled(self, first_row: bytes, attributes: Sequence[Attribute]) -> Dialect:
        """This dialect with the delimiter decided.

        A first row of comma-separated names that include the attributes' is a header, and says which
        columns they are, unless all attributes are symbols: then it might be a fact.
        """
        if self.delimiter is not None:
            return self
        if len(attributes) < 2 or b"\t" in first_row or b"," not in first_row:
            return replace(self, delimiter=b"\t")
        names = [name.strip(b'"').decode(errors="replace") for name in first_row.split(b",")]
        wanted = [a.name for a in attributes]
        named = set(wanted) <= set(names) and any(a.type.kind is not Kind.SYMBOL for a in attributes)
        if not named or self.headers or self.columns is not None:
            return replace(self, delimiter=b",", quoting=True)
        return Dialect(b",", True, True, tuple(names.index(name) for name in wanted))

    def named(self, header: bytes, attributes: Sequence[Attribute], where: str, relation: str) -> Dialect:
        """This dialect with the columns that a header says, as `pick_columns` has it; ``columns=`` says more.

        A header of another number of columns than the relation has, and of other names, says nothing.
        """
        assert self.delimiter is not None
        if self.columns is not None or not attributes:
            return self
        names = self._names(header)
        wanted = [attribute.name for attribute in attributes]
        if len(names) != len(wanted) and not set(names) & set(wanted):
            return self
        picked = tuple(pick_columns(names, wanted, None, where, relation=relation))
        in_order = len(names) == len(wanted) and picked == tuple(range(len(wanted)))
        return self if in_order else replace(self, columns=picked)

    def _names(self, header: bytes) -> list[str]:
        assert self.delimiter is not None
        fields = [field.decode(errors="replace").strip() for field in header.split(self.delimiter)]
        return [name.strip('"') for name in fields] if self.quoting else fields


def format_of(path: PurePath, params: Mapping[str, str]) -> Format:
    """The format that ``IO=`` names, or else the one of the path's extension."""
    io = params.get("IO")
    if io is None:
        return _FORMAT_OF_SUFFIX.get(path.suffix.lower(), Format.TEXT)
    if io not in _FORMAT_OF_IO:
        raise DataError(f"IO={io} is not supported; use one of {', '.join(_FORMAT_OF_IO)}")
    return _FORMAT_OF_IO[io]


def codec_of(path: PurePath, params: Mapping[str, str]) -> str | None:
    """The compression to write text with: by extension, or gzip by ``compress=true``."""
    by_suffix = CODEC_OF_SUFFIX.get(path.suffix.lower())
    return by_suffix or ("gzip" if flag(params, "compress") else None)


def reading_dialect(path: PurePath, params: Mapping[str, str], arity: int) -> Dialect:
    """The dialect to read `path` with.

    Soufflé's files are tab-separated whatever they are called, and so are ours; only where nothing
    was said about a file called ``.csv`` does its first row decide (`Dialect.settled`).
    """
    for key, hint in unknown("input", params):
        raise ParameterError(key, f"there is no parameter {key}", hint)
    dialect = replace(text_dialect(params), columns=columns(params, arity))
    suffixes = [s.lower() for s in path.suffixes[-2:]]
    stem_suffix = suffixes[0] if suffixes and suffixes[-1] in CODEC_OF_SUFFIX else "".join(suffixes[-1:])
    said = params.keys() & {"IO", "delimiter", "rfc4180"}
    return dialect if said or stem_suffix != ".csv" else replace(dialect, delimiter=None)


def text_dialect(params: Mapping[str, str]) -> Dialect:
    """The dialect that ``delimiter= rfc4180= headers=`` and ``IO=csv`` describe."""
    return Dialect(delimiter(params).encode(), quoting(params), flag(params, "headers"), None)


def pick_columns(
    names: Sequence[str],
    wanted: Sequence[str],
    columns: tuple[int, ...] | None,
    where: str,
    *,
    relation: str,
) -> list[int]:
    """Which of a table's columns are the attributes `wanted`.

    As ``columns=`` says; by name, in any order, if all names are there; by position if none is, with a
    `DataWarning` (the same for all parts of a `relation`) unless the names are such as
    libraries make up. Some names and not others are an error: the columns could be meant in either way.
    """
    if columns is not None:
        if max(columns, default=-1) >= len(names):
            raise DataError(f"{where}: columns= asks for column {max(columns)}, but there are {len(names)}")
        return list(columns)
    shown = f"({', '.join(map(str, names))})", f"({', '.join(wanted)})"
    named = [name for name in wanted if name in names]
    repeated = [name for name in named if names.count(name) > 1]
    if repeated:
        raise DataError(f"{where}: several columns are called {repeated[0]}: {shown[0]}")
    if wanted and len(named) == len(wanted):
        return [names.index(name) for name in wanted]
    if named:
        raise DataError(
            f"{where}: only some columns have the names of attributes: the columns are {shown[0]}, the "
            f"attributes {shown[1]}\n  hint: name all columns as the attributes, or none of them"
        )
    if len(names) != len(wanted):
        raise DataError(
            f"{where}: {len(names)} column{'s' * (len(names) != 1)} {shown[0]}, "
            f"expected {len(wanted)} {shown[1]}"
        )
    if len(wanted) > 1 and not _are_made_up(names):
        warnings.warn(
            f"{relation}: no column is named as an attribute: the columns {shown[0]} are taken by "
            f"position as {shown[1]}",
            DataWarning,
            stacklevel=2,
        )
    return list(range(len(wanted)))


def _are_made_up(names: Sequence[str]) -> bool:
    """Are these what libraries call columns without names, such as ``0, 1`` or ``column_0, column_1``?"""
    numbered = [f"{i}" for i in range(len(names) + 1)]
    for prefix in _MADE_UP:
        bare = [name[len(prefix) :] if name.startswith(prefix) else None for name in names]
        if bare in (numbered[:-1], numbered[1:]):
            return True
    return not any(names)
