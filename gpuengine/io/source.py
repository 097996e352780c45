"""Opening a text: standard input, plain and compressed files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.locate import STDIN
from gpuengine.io.options import Dialect
from gpuengine.limits import charge, check

SMALL = 1 << 20  # below this a file is read in one go and parsed by one thread
_PIECE = 1 << 22
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Source:
    """A text to read: `data` holds all of it, or None for a large file that is better streamed."""

    name: str
    path: Path
    head: bytes
    data: bytes | None

    def has_carriage_return(self) -> bool:
        """Is there a CR?  Asked chunk by chunk, without keeping the text."""
        if self.data is not None or b"\r" in self.head:
            return b"\r" in (self.data or self.head)
        with self.path.open("rb") as file:
            return any(b"\r" in chunk for chunk in iter(lambda: file.read(SMALL), b""))

    def all(self) -> bytes:
        """All of the text."""
        if self.data is None:
            charge(self.path.stat().st_size, f"reading {self.name}")
            self.data = self.path.read_bytes()
        return self.data

    def rows(self) -> int:
        """About how many lines there are, by those of its beginning."""
        if self.data is not None:
            return self.data.count(b"\n") + 1
        lines = self.head.count(b"\n")
        return (lines + 1) * self.path.stat().st_size // max(len(self.head), 1)


def open_text(path: Path) -> Source:
    if path == STDIN:
        given = _all_of(sys.stdin.buffer, "reading standard input")
        return _decompressed("<stdin>", path, given, given)
    with path.open("rb") as file:
        head = file.read(SMALL)
        compressed = any(head.startswith(magic) for magic in _MAGIC)
        is_file = path.is_file()
        if is_file and len(head) < SMALL:  # that is all of it
            return _decompressed(str(path), path, head, head)
        data = _all_of(file, f"reading {path}", head) if compressed or not is_file else None
    return _decompressed(str(path), path, head, data)


def _all_of(stream: Any, what: str, head: bytes = b"") -> bytes:
    """All that a stream yields, asked for piece by piece: nobody knows how much it will be."""
    pieces, size = [head] if head else [], len(head)
    while piece := stream.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        check(what)
    if len(pieces) == 1:
        return bytes(pieces[0])
    charge(size, what)
    return b"".join(pieces)


def _decompressed(name: str, path: Path, head: bytes, data: bytes | None) -> Source:
    codec = next((c for magic, c in _MAGIC.items() if head.startswith(magic)), None)
    if codec is not None:
        try:
            with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
                data = _all_of(stream, f"decompressing {name}")
        except OSError as error:
            raise DataError(f"{name}: damaged or cut-off {codec} data ({error})") from error
        head = data[:SMALL]
    return Source(name, path, head, data)


def first_row(head: bytes, dialect: Dialect) -> tuple[int, int]:
    """Where the rows begin, after a byte-order mark and the header, and the number of that line."""
    start = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    if not dialect.headers:
        return start, 1
    end = head.find(b"\n", start)
    return (end + 1, 2) if end >= 0 else (len(head), 2)


def line_at(head: bytes, start: int) -> bytes:
    end = head.find(b"\n", start)
    return head[start : end if end >= 0 else len(head)].removesuffix(b"\r")
