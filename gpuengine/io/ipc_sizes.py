"""What the compressed buffers of an Arrow IPC file say they decompress to, read without decompressing them.

Arrow decompresses a whole record batch at once and asks nobody. Each compressed buffer begins with its size,
and the message before it says where the buffers are: a flatbuffer, of which the few fields needed are read
here (``Message.fbs`` of the Arrow format). What is no such message has no sizes: Arrow itself will refuse it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

_MAGIC = b"ARROW1"
_DICTIONARY, _BATCH = 2, 3
_HEADER_TYPE, _HEADER = 1, 2
_DATA = 1
_BUFFERS, _COMPRESSION = 2, 3


def stated_sizes(path: Path) -> Iterator[int]:
    """For each compressed message of a file or stream, the bytes that its buffers decompress to."""
    if not path.is_file() or not path.stat().st_size:
        return
    with pa.memory_map(str(path)) as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            file.seek(8)
        else:
            file.seek(0)
        try:
            for message in pa.ipc.MessageReader.open_stream(file):
                yield _size(message)
        except (pa.ArrowException, OSError, ValueError, struct.error, IndexError):
            return  # behind the last message of a file is its footer, behind that of a damaged one anything


def _size(message: Any) -> int:
    metadata, body = memoryview(message.metadata), memoryview(message.body)
    root = struct.unpack_from("<I", metadata)[0]
    kind_at, header = _field(metadata, root, _HEADER_TYPE), _table(metadata, root, _HEADER)
    kind = metadata[kind_at] if kind_at else 0
    if kind == _DICTIONARY and header:
        header = _table(metadata, header, _DATA)
    if kind not in (_DICTIONARY, _BATCH) or not header or not _field(metadata, header, _COMPRESSION):
        return 0
    vector = _table(metadata, header, _BUFFERS)
    count = struct.unpack_from("<I", metadata, vector)[0] if vector else 0
    total = 0
    for i in range(count):
        offset, length = struct.unpack_from("<qq", metadata, vector + 4 + 16 * i)
        if length >= 8:
            stated = struct.unpack_from("<q", body, offset)[0]
            total += length if stated == -1 else max(stated, 0)
    return total


def _field(data: memoryview, table: int, number: int) -> int:
    """Where a table has a field; 0 if it has not."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, layout)[0]
    if 4 + 2 * number >= size:
        return 0
    offset: int = struct.unpack_from("<H", data, layout + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _table(data: memoryview, table: int, number: int) -> int:
    """Where the table or vector is that a field refers to; 0 if there is none."""
    at = _field(data, table, number)
    return at + int(struct.unpack_from("<I", data, at)[0]) if at else 0
