"""Opening a text: standard input, plain and compressed files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.locate import STDIN
from gpuengine.io.options import Dialect

SMALL = 1 << 20  # below this a file is read in one go and parsed by one thread
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_BOM = b"\xef\xbb\xbf"


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
            self.data = self.path.read_bytes()
        return self.data


def open_text(path: Path) -> Source:
    if path == STDIN:
        data = sys.stdin.buffer.read()
        return _decompressed("<stdin>", path, data, data)
    with path.open("rb") as file:
        head = file.read(SMALL)
        compressed = any(head.startswith(magic) for magic in _MAGIC)
        whole = compressed or len(head) < SMALL or not path.is_file()
        data = head + file.read() if whole else None
    return _decompressed(str(path), path, head, data)


def _decompressed(name: str, path: Path, head: bytes, data: bytes | None) -> Source:
    codec = next((c for magic, c in _MAGIC.items() if head.startswith(magic)), None)
    if codec is not None:
        try:
            data = pa.CompressedInputStream(pa.BufferReader(data), codec).read()
        except OSError as error:
            raise DataError(f"{name}: damaged or cut-off {codec} data ({error})") from error
        head = data[:SMALL]
    return Source(name, path, head, data)


def first_row(head: bytes, dialect: Dialect) -> tuple[int, int]:
    """Where the rows begin, after a byte-order mark and the header, and the number of that line."""
    start = len(_BOM) if head.startswith(_BOM) else 0
    if not dialect.headers:
        return start, 1
    end = head.find(b"\n", start)
    return (end + 1, 2) if end >= 0 else (len(head), 2)


def line_at(head: bytes, start: int) -> bytes:
    end = head.find(b"\n", start)
    return head[start : end if end >= 0 else len(head)].removesuffix(b"\r")
