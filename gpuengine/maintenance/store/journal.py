"""The journal: the commits since the segments of a generation were written, appended one after another.

A header (magic, version, generation, CRC-32 of these) is followed by records: length of the payload,
sequence number, CRC-32 of the payload, CRC-32 of the three fields before, payload.  All numbers are little
endian and every record takes a multiple of 8 bytes.  A record that ends before its length does is a commit
that was never finished; anything else that is not as written is damage.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuengine.errors import StoreError
from gpuengine.maintenance.store.files import damage, failure, write_all, write_synced

_MAGIC = b"gpuekbj\n"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQII")  # magic, version, 0, generation, 0, checksum
_FIELDS = struct.Struct("<QQI")
_CHECKSUM = struct.Struct("<I")
_RECORD_HEADER = _FIELDS.size + _CHECKSUM.size


@dataclass(frozen=True, slots=True)
class Record:
    """A whole commit: where its record begins, and the payload."""

    offset: int
    payload: memoryview


@dataclass(frozen=True, slots=True)
class Scan:
    """What is in a journal: whole records, where they end, and bytes of an unfinished one after that."""

    records: tuple[Record, ...]
    end: int
    discarded: int


def create_journal(path: Path, generation: int) -> None:
    """Make an empty journal and wait until it is on the disk; OSError if that fails."""
    write_synced(path, _header(generation))


def scan_journal(path: Path, data: bytes, generation: int, commits: int) -> Scan:
    """The records in the bytes of a journal, the first of which follows `commits` earlier commits.

    `StoreError` for anything but whole records and, at the very end, a part of one.
    """
    if data[: _HEADER.size] != _header(generation):
        raise damage(path, f"it does not begin with the header of generation {generation}")
    end = _HEADER.size
    records = []
    for record in _records(path, data, commits):
        records.append(record)
        end = record.offset + _RECORD_HEADER + len(record.payload)
    return Scan(tuple(records), end, len(data) - end)


class Journal:
    """A journal open for appending. `end` is where whole records end, `sequence` the last one's number."""

    def __init__(self, path: Path, end: int, sequence: int) -> None:
        """Cuts off what is behind `end`; OSError if that fails."""
        self.path = path
        self.end = end
        self.sequence = sequence
        self.broken = False
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            if os.fstat(self._fd).st_size != end:
                self._cut(end)
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def append(self, payload: bytes) -> None:
        """Add a record and wait until it is on the disk: one write, one sync.

        If that fails or is interrupted, the journal is as it was before; if not even that can be had,
        `broken` is set.
        """
        fields = _FIELDS.pack(len(payload), self.sequence + 1, zlib.crc32(payload))
        record = b"".join((fields, _CHECKSUM.pack(zlib.crc32(fields)), payload))
        end, sequence = self.end, self.sequence
        try:
            write_all(self._fd, record)
            _sync_data(self._fd)
            self.end, self.sequence = end + len(record), sequence + 1
        except BaseException as error:
            self.end, self.sequence = end, sequence
            self.broken = True
            self._cut(end)
            self.broken = False
            if isinstance(error, OSError):
                raise failure(self.path, "write a commit", error) from error
            raise

    def _cut(self, end: int) -> None:
        try:
            os.ftruncate(self._fd, end)
        except OSError as error:
            raise StoreError(
                f"{self.path}: can't cut off an unfinished commit at byte {end}: {error.strerror}. "
                "Close the knowledge base and open it again once the disk is in order."
            ) from error


def _records(path: Path, data: bytes, commits: int) -> Iterator[Record]:
    view = memoryview(data)
    offset, expected = _HEADER.size, commits + 1
    while len(data) - offset >= _RECORD_HEADER:
        fields = view[offset : offset + _FIELDS.size]
        length, sequence, checksum = _FIELDS.unpack(fields)
        if zlib.crc32(fields) != _CHECKSUM.unpack_from(data, offset + _FIELDS.size)[0]:
            raise damage(path, f"at byte {offset} there is no record of a commit")
        if sequence != expected:
            raise damage(path, f"the record at byte {offset} has number {sequence}, not {expected}")
        begin = offset + _RECORD_HEADER
        if length > len(data) - begin:
            return
        payload = view[begin : begin + length]
        if zlib.crc32(payload) != checksum:
            raise damage(path, f"the record at byte {offset} has the wrong checksum")
        yield Record(offset, payload)
        offset, expected = begin + length, expected + 1


def _header(generation: int) -> bytes:
    begin = _HEADER.pack(_MAGIC, _VERSION, 0, generation, 0, 0)[: -_CHECKSUM.size]
    return begin + _CHECKSUM.pack(zlib.crc32(begin))


def _sync_data(fd: int) -> None:
    """Data and length of a file onto the disk, without its times where the system can leave those out."""
    getattr(os, "fdatasync", os.fsync)(fd)
