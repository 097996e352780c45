"""Segments: a table or a stretch of terms as an uncompressed Arrow IPC file of one record batch.

One batch, so that each column is one stretch of the file and can be used where it lies.
"""

from __future__ import annotations

import io
import mmap
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gpuengine.maintenance.store.contents import StoredTable
from gpuengine.maintenance.store.files import create_file, damage, naming, write_slices
from gpuengine.maintenance.store.manifest import Segment, TableEntry, TermsEntry
from gpuengine.terms.persistence import TermColumns, term_shapes

_Buffer = bytes | mmap.mmap
_GATHERED = 1 << 16  # bytes; what is longer is written at once


def write_table(path: Path, table: StoredTable) -> Segment:
    """Write a table and wait until it is on the disk; OSError if that fails."""
    import pyarrow as pa

    columns = [np.ascontiguousarray(column) for column in table.columns]
    arrays = [_array(pa.uint32(), table.rows, column) for column in columns]
    return _write(path, arrays, [f"c{position}" for position in range(len(arrays))])


def write_terms(path: Path, terms: TermColumns) -> Segment:
    """Write terms and wait until they are on the disk; OSError if that fails."""
    import pyarrow as pa

    buffers = [np.ascontiguousarray(array) for array in terms.arrays]
    if terms.kind == "words":
        array = _array(pa.uint64(), terms.count, *buffers)
    elif terms.kind == "strings":
        array = _array(pa.large_binary(), terms.count, *buffers)
    else:
        flat = _array(pa.uint32(), terms.count * terms.size, buffers[0].reshape(-1))
        array = pa.Array.from_buffers(pa.list_(pa.uint32(), terms.size), terms.count, [None], children=[flat])
    return _write(path, [array], ["term"])


def check_segment(path: Path, segment: Segment, data: _Buffer) -> None:
    """Raise `StoreError` unless the bytes read from `path` are those that were written."""
    if len(data) != segment.bytes:
        raise damage(path, f"it has {len(data)} bytes, the manifest says {segment.bytes}")
    checksum = zlib.crc32(data)
    if checksum != segment.checksum:
        raise damage(path, f"its checksum is {checksum:08x}, the manifest says {segment.checksum:08x}")


def table_from(path: Path, entry: TableEntry, data: _Buffer) -> StoredTable:
    """The table in the checked bytes of its segment; the columns are views of them."""
    arrays = _read(path, data, entry.rows)
    if len(arrays) != entry.arity:
        raise damage(path, f"it has {len(arrays)} columns, the manifest says {entry.arity}")
    columns = [_view(array.buffers()[1], np.uint32, (entry.rows,)) for array in arrays]
    return StoredTable(columns, entry.rows)


def terms_from(path: Path, entry: TermsEntry, data: _Buffer) -> TermColumns:
    """The terms in the checked bytes of their segment; the arrays are views of them."""
    (array,) = _read(path, data, entry.count)
    buffers = array.buffers()
    chosen = buffers[1:] if entry.kind == "strings" else buffers[-1:]
    shapes = term_shapes(entry.kind, entry.count, entry.size)
    arrays = tuple(_view(buffer, dtype, shape) for buffer, (dtype, shape) in zip(chosen, shapes, strict=True))
    return TermColumns(entry.kind, entry.begin, entry.count, arrays)  # type: ignore[arg-type]


class _Sink(io.RawIOBase):
    """Where Arrow writes: keeps count and checksum of the bytes that go to the file.

    Arrow writes many short pieces, which are gathered. Not by `io.BufferedWriter`: after an error that writes
    once more when it is collected, to a descriptor that may be another file's by then.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.bytes = 0
        self.checksum = 0
        self._gathered = bytearray()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.bytes

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.checksum = zlib.crc32(view, self.checksum)
        self.bytes += len(view)
        if len(view) < _GATHERED:
            self._gathered += view
        else:
            self.drain()
            write_slices(self.fd, view)
        return len(view)

    def drain(self) -> None:
        """Write what was gathered."""
        write_slices(self.fd, memoryview(bytes(self._gathered)))
        self._gathered.clear()


def _write(path: Path, arrays: list[Any], names: list[str]) -> Segment:
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    fd = create_file(path)
    try:
        sink = _Sink(fd)
        with naming(path):
            writer = pa.ipc.new_file(pa.PythonFile(sink, mode="w"), batch.schema)
            writer.write_batch(batch)
            writer.close()
            sink.drain()
            os.fsync(fd)
    finally:
        os.close(fd)
    return Segment(path.name, sink.bytes, sink.checksum)


def _read(path: Path, data: _Buffer, rows: int) -> list[Any]:
    import pyarrow as pa

    try:
        batch = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
    except (pa.ArrowException, OSError) as error:
        raise damage(path, f"it is no Arrow file ({error})") from error
    if batch.num_rows != rows:
        raise damage(path, f"it has {batch.num_rows} rows, the manifest says {rows}")
    return list(batch.columns)


def _array(type: Any, rows: int, *buffers: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.Array.from_buffers(type, rows, [None, *(pa.py_buffer(buffer) for buffer in buffers)])


def _view(buffer: Any, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    if count == 0:
        return np.zeros(shape, dtype)
    return np.frombuffer(buffer, dtype, count).reshape(shape)
