"""The parameters of ``.input`` and ``.output``: which format, and which dialect of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import PurePath

from gpuengine.errors import DataError
from gpuengine.language.parameters import ParameterError, columns, delimiter, flag, quoting, unknown
from gpuengine.language.program import Attribute, Kind


class Format(Enum):
    TEXT = "text"
    PARQUET = "parquet"
    ARROW = "arrow"


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
}

_FORMAT_OF_SUFFIX = {
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".ipc": Format.ARROW,
    ".feather": Format.ARROW,
}

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
    names: Sequence[str], wanted: Sequence[str], columns: tuple[int, ...] | None, where: str
) -> list[int]:
    """Which of a table's columns are the attributes `wanted`: as ``columns=`` says, by name if all names
    are there, by position otherwise."""
    if columns is not None:
        if max(columns, default=-1) >= len(names):
            raise DataError(f"{where}: columns= asks for column {max(columns)}, but there are {len(names)}")
        return list(columns)
    if len(set(names)) == len(names) and set(wanted) <= set(names):
        return [list(names).index(name) for name in wanted]
    if len(names) == len(wanted):
        return list(range(len(wanted)))
    raise DataError(
        f"{where}: {len(names)} column{'s' * (len(names) != 1)} ({', '.join(map(str, names))}), "
        f"expected {len(wanted)} ({', '.join(wanted)})"
    )
