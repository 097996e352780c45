"""The manifest: which files make up the current generation of a store. It is replaced as a whole.

``manifest.json`` begins with the checksum of all bytes that follow it; then come the format's name and
version, so that later versions can change everything else.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpuengine.errors import StoreError
from gpuengine.maintenance.store.contents import Outline
from gpuengine.maintenance.store.files import damage, failure, write_synced
from gpuengine.maintenance.store.journal import IDENTITY_BYTES, Label

FORMAT = "gpuengine-kb"
VERSION = 2
"""Version 1, which is read too, has no identity; compaction makes it version 2."""
MANIFEST = "manifest.json"
LOCK = "lock"
_TEMPORARY = "manifest.json.tmp"
_DATA_FILE = re.compile(r"g(\d+)(?:-\d+\.arrow|\.journal)")
_CHECKSUM = re.compile(rb'\{"checksum": "([0-9a-f]{8})",\n')


@dataclass(frozen=True, slots=True)
class Segment:
    """A file that is never changed: its name, size and CRC-32."""

    file: str
    bytes: int
    checksum: int


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table; one without rows or without columns needs no file."""

    name: str
    arity: int
    rows: int
    segment: Segment | None


@dataclass(frozen=True, slots=True)
class TermsEntry:
    """A stretch of the terms of a space (see `TermColumns`); the entries of a space follow each other."""

    space: str
    kind: str
    begin: int
    count: int
    size: int
    segment: Segment


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation. `commits` counts those in the segments; the journal goes on from there.

    `identity` is a number, in hexadecimal digits, that no other generation of any knowledge base has; the
    journal carries it too. Generations of version 1 have None.
    """

    generation: int
    commits: int
    meta: dict[str, Any]
    tables: tuple[TableEntry, ...]
    terms: tuple[TermsEntry, ...]
    identity: str | None

    @property
    def journal(self) -> str:
        """The name of the journal."""
        return journal_name(self.generation)

    @property
    def label(self) -> Label:
        """What the journal begins with."""
        return Label(self.generation, None if self.identity is None else bytes.fromhex(self.identity))

    @property
    def version(self) -> int:
        """The version of the format that this generation has."""
        return 1 if self.identity is None else VERSION

    def segments(self) -> Iterator[Segment]:
        """Every segment."""
        yield from (table.segment for table in self.tables if table.segment)
        yield from (terms.segment for terms in self.terms)

    def outline(self) -> Outline:
        """The outline of the state in the segments."""
        outline = Outline({table.name: table.arity for table in self.tables})
        for entry in self.terms:
            outline.add_terms(entry.space, entry.kind, entry.begin + entry.count, entry.size)
        return outline


def journal_name(generation: int) -> str:
    """The name of a generation's journal."""
    return f"g{generation}.journal"


def segment_name(generation: int, number: int) -> str:
    """The name of a segment first written for a generation."""
    return f"g{generation}-{number:04d}.arrow"


def generation_of(name: str) -> int | None:
    """The generation a data file was written for, None for other files."""
    match = _DATA_FILE.fullmatch(name)
    return int(match[1]) if match else None


def is_store_file(name: str) -> bool:
    """Could a store have made a file of this name?"""
    return name in (MANIFEST, _TEMPORARY, LOCK) or generation_of(name) is not None


def is_temporary(name: str) -> bool:
    """Is this the name of a manifest that was never put in place?"""
    return name == _TEMPORARY


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write a new manifest beside the old one and wait until it is on the disk; OSError if that fails."""
    body = json.dumps(
        {"format": FORMAT, "version": VERSION, "journal": manifest.journal, **asdict(manifest)},
        indent=1,
        allow_nan=False,
    )
    rest = body.removeprefix("{\n").encode()
    write_synced(directory / _TEMPORARY, b'{"checksum": "%08x",\n' % zlib.crc32(rest) + rest)


def put_manifest(directory: Path) -> None:
    """Put the manifest that was written in place of the old one, as one step."""
    os.replace(directory / _TEMPORARY, directory / MANIFEST)  # noqa: PTH105


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a store; `StoreError` if there is none, or none that this version can read."""
    path = directory / MANIFEST
    data = _read(path)
    fields = _check_format(path, data)
    match = _CHECKSUM.match(data)
    if fields is None or match is None or int(match[1], 16) != zlib.crc32(memoryview(data)[match.end() :]):
        raise damage(path, "its checksum is not that of its content")
    try:
        return _parse(fields)
    except (KeyError, TypeError, ValueError) as error:
        raise damage(path, f"its content makes no sense ({error!r})") from error


def refuse_foreign(directory: Path) -> None:
    """Raise `StoreError` if the manifest is another program's or a later version's; it may be damaged."""
    _check_format(directory / MANIFEST, _read(directory / MANIFEST))


def _read(path: Path) -> bytes:
    directory = path.parent
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        missing = "there is no such directory" if not directory.exists() else f"it has no {MANIFEST}"
        raise StoreError(
            f"{directory} is not a knowledge base: {missing}. Check the path, or make one there."
        ) from None
    except OSError as error:
        raise failure(path, "read it", error) from error


def _check_format(path: Path, data: bytes) -> dict[str, Any] | None:
    """The manifest's fields, None if it is no JSON; refuses other formats and later versions."""
    try:
        fields = json.loads(data)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise StoreError(
            f"{path.parent} is not a knowledge base: {path} is not of the format {FORMAT!r}. Check the path."
        )
    version = fields.get("version")
    if isinstance(version, int) and version > VERSION:
        raise StoreError(
            f"{path} has format version {version}, and this gpuengine knows versions up to {VERSION}. "
            "Upgrade gpuengine to open this knowledge base."
        )
    return fields


def _parse(fields: dict[str, Any]) -> Manifest:
    tables = tuple(TableEntry(**{**table, "segment": _segment(table)}) for table in fields["tables"])
    terms = []
    for entry in fields["terms"]:
        segment = _segment(entry)
        if segment is None:
            raise ValueError("terms without a file")
        terms.append(TermsEntry(**{**entry, "segment": segment}))
    identity = fields["identity"] if fields["version"] > 1 else None
    if identity is not None and len(bytes.fromhex(identity)) != IDENTITY_BYTES:
        raise ValueError(f"{identity!r} is no identity")
    return Manifest(fields["generation"], fields["commits"], fields["meta"], tables, tuple(terms), identity)


def _segment(entry: dict[str, Any]) -> Segment | None:
    if entry["segment"] is None:
        return None
    segment = Segment(**entry["segment"])
    if generation_of(segment.file) is None:
        raise ValueError(f"{segment.file!r} is no name of a segment")
    return segment
