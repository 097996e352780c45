"""`Text`: a column of byte strings as views into one buffer.

Symbols, computed strings and Arrow string arrays all become a `Text` without copying, and taking
rows or substrings of one moves no bytes.  Bytes are UTF-8: what comes in was checked, and `strings.substr`
mends what it cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gpuengine.limits import charge

_NO_BYTES = np.zeros(1, np.uint8)


@dataclass(frozen=True, slots=True)
class Text:
    """Row i is ``data[starts[i]:ends[i]]``; `starts` and `ends` are contiguous int64 arrays."""

    starts: np.ndarray
    ends: np.ndarray
    data: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> np.ndarray:
        """Bytes of each row."""
        return self.ends - self.starts

    def take(self, rows: np.ndarray) -> Text:
        """The rows at these positions (or under this mask)."""
        return Text(self.starts[rows], self.ends[rows], self.data)

    def broadcast(self, rows: int) -> Text:
        """This text with `rows` rows: itself, or its only row repeated."""
        if len(self) == rows:
            return self
        return Text(np.repeat(self.starts, rows), np.repeat(self.ends, rows), self.data)

    def to_arrow(self, *, large: bool = True) -> Any:
        """A `pa.LargeStringArray` (or, if not `large` and it fits 2 GiB, a `pa.StringArray`)."""
        import pyarrow as pa

        offsets, data = self.compact()
        if large or offsets[-1] >= 2**31:
            return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(offsets), pa.py_buffer(data))
        narrow = offsets.astype(np.int32)
        return pa.StringArray.from_buffers(len(self), pa.py_buffer(narrow), pa.py_buffer(data))

    def compact(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows laid out one after another: (offsets[n + 1], bytes)."""
        return concatenate((self,), len(self))


def concatenate(parts: Sequence[Text], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Row by row concatenation of `parts` (each of `rows` rows or one): (offsets[rows + 1], bytes)."""
    from gpuengine.kernels.cpu.text import append_rows

    offsets = np.zeros(rows + 1, np.int64)
    for part in parts:
        offsets[1:] += part.ends
        offsets[1:] -= part.starts
    np.cumsum(offsets, out=offsets)
    charge(int(offsets[-1]), "text")
    data = np.empty(max(int(offsets[-1]), 1), np.uint8)
    cursor = offsets[:-1].copy()
    for part in parts:
        step = 0 if len(part) == 1 else 1
        append_rows(part.starts, part.ends, part.data, step, rows, cursor, data)
    return offsets, data[: int(offsets[-1])]


def from_offsets(offsets: np.ndarray, data: np.ndarray) -> Text:
    """The text of consecutive rows: row i is ``data[offsets[i]:offsets[i + 1]]``."""
    return Text(offsets[:-1], offsets[1:], data)


def from_strings(values: Sequence[str]) -> Text:
    """The text of a few Python strings (constants, parsed fields)."""
    encoded = [value.encode("utf-8", "surrogateescape") for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    offsets[1:] = np.cumsum([len(value) for value in encoded])
    joined = b"".join(encoded)
    return from_offsets(offsets, np.frombuffer(joined, np.uint8) if joined else _NO_BYTES)


@lru_cache(maxsize=4096)
def single(value: str) -> Text:
    """A text of one row."""
    return from_strings([value])


def from_arrow(array: Any) -> Text:
    """The text of an Arrow string, large_string, binary or large_binary array without nulls; no copy
    of the bytes. Slices are honoured."""
    import pyarrow as pa

    wide = array.type in (pa.large_string(), pa.large_binary())
    if not wide and array.type not in (pa.string(), pa.binary()):
        array = array.cast(pa.large_string())
        wide = True
    if len(array) == 0:
        return Text(np.zeros(0, np.int64), np.zeros(0, np.int64), _NO_BYTES)
    _, offset_buffer, data_buffer = array.buffers()
    used = array.offset + len(array) + 1
    offsets = np.frombuffer(offset_buffer, np.int64 if wide else np.int32, used)
    offsets = offsets[array.offset :].astype(np.int64, copy=False)
    empty = data_buffer is None or data_buffer.size == 0
    return from_offsets(offsets, _NO_BYTES if empty else np.frombuffer(data_buffer, np.uint8))
