"""The journal: the commits since the segments of a generation were written, appended one after another.

A header (magic, version, generation, identity of the generation, CRC-32 of these) is followed by records:
length of the payload, sequence number, CRC-32 of the payload, CRC-32 of the three fields before, payload. All
numbers are little endian and every record takes a multiple of 8 bytes. The second CRC goes on from that of
the identity, so that no record of another journal is one of this.

A commit is acknowledged when its record is on the disk. So a last record that is not as it should be is a
commit that was never finished: a disk that lost its power may have kept any part of it. One that others
follow was finished, and is damage.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuengine.errors import StoreError
from gpuengine.maintenance.store.files import (
    NOTHING_CHANGED,
    damage,
    failure,
    naming,
    sync_data,
    write_all,
    write_synced,
)

IDENTITY_BYTES = 16
_MAGIC = b"gpuekbj\n"
_HEADER_1 = struct.Struct("<8sIIQI")  # magic, version, 0, generation, 0
_HEADER_2 = struct.Struct("<8sIIQ16sI")  # magic, version, 0, generation, identity, 0
_FIELDS = struct.Struct("<QQI")
_CHECKSUM = struct.Struct("<I")
_RECORD_HEADER = _FIELDS.size + _CHECKSUM.size
_WORD = 8


@dataclass(frozen=True, slots=True)
class Label:
    """What the journal of a generation begins with; without an identity it is one of version 1."""

    generation: int
    identity: bytes | None

    @property
    def header(self) -> bytes:
        """The first bytes of the journal."""
        if self.identity is None:
            begin = _HEADER_1.pack(_MAGIC, 1, 0, self.generation, 0)
        else:
            begin = _HEADER_2.pack(_MAGIC, 2, 0, self.generation, self.identity, 0)
        return begin + _CHECKSUM.pack(zlib.crc32(begin))

    @property
    def size(self) -> int:
        """How many bytes that takes."""
        return (_HEADER_1 if self.identity is None else _HEADER_2).size + _CHECKSUM.size

    @property
    def seed(self) -> int:
        """What the checksums of the records' headers go on from."""
        return 0 if self.identity is None else zlib.crc32(self.identity)


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


def create_journal(path: Path, label: Label) -> None:
    """Make an empty journal and wait until it is on the disk; OSError if that fails."""
    write_synced(path, label.header)


def scan_journal(path: Path, data: bytes, label: Label, commits: int) -> Scan:
    """The records in the bytes of a journal, the first of which follows `commits` earlier commits.

    `StoreError` if it is another one's journal, or if a record is damaged that others follow.
    """
    _check_header(path, data, label)
    view, seed = memoryview(data), label.seed
    end, expected = label.size, commits + 1
    records = []
    suspect = end + _WORD  # from where a record would show that the one at `end` was finished
    while len(data) - end >= _RECORD_HEADER:
        suspect = end + _WORD
        if not _is_record(view, end, seed):
            break
        length, sequence, checksum = _FIELDS.unpack_from(view, end)
        if sequence != expected:
            raise damage(path, f"the record at byte {end} has number {sequence}, not {expected}")
        begin = end + _RECORD_HEADER
        suspect = begin + length
        if length > len(data) - begin or zlib.crc32(view[begin : begin + length]) != checksum:
            break
        records.append(Record(end, view[begin : begin + length]))
        end, expected = begin + length, expected + 1
    if _is_followed(view, suspect, seed, expected):
        raise damage(path, f"the record at byte {end} is not as it was written, but commits follow it")
    return Scan(tuple(records), end, len(data) - end)


class Journal:
    """A journal open for appending. `end` is where whole records end, `sequence` the last one's number."""

    def __init__(self, path: Path, label: Label, end: int, sequence: int) -> None:
        """Cuts off what is behind `end`, and waits until what was there before is on the disk: a process
        that was stopped may have written it without waiting. OSError if that fails."""
        self.path = path
        self.end = end
        self.sequence = sequence
        self.broken = False
        self._seed = label.seed
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        try:
            with naming(path):
                size = os.fstat(self._fd).st_size
                if size != end:
                    os.ftruncate(self._fd, end)
                if size > label.size:
                    sync_data(self._fd)
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        """Let go of the file; everything in it is on the disk already."""
        with suppress(OSError):
            os.close(self._fd)

    def append(self, payload: bytes) -> None:
        """Add a record and wait until it is on the disk: one write, one sync.

        If that fails or is interrupted, the journal is as it was before; if not even that can be had,
        `broken` is set.
        """
        fields = _FIELDS.pack(len(payload), self.sequence + 1, zlib.crc32(payload))
        record = b"".join((fields, _CHECKSUM.pack(zlib.crc32(fields, self._seed)), payload))
        end, sequence = self.end, self.sequence
        try:
            write_all(self._fd, record)
            sync_data(self._fd)
            self.end, self.sequence = end + len(record), sequence + 1
        except BaseException as error:
            self.end, self.sequence = end, sequence
            self.broken = True
            self._cut(end)
            self.broken = False
            if isinstance(error, OSError):
                raise failure(self.path, "write a commit", error, outcome=NOTHING_CHANGED) from error
            raise

    def _cut(self, end: int) -> None:
        """Take an unfinished commit off the disk too: it might be found whole after a power cut."""
        try:
            os.ftruncate(self._fd, end)
            sync_data(self._fd)
        except OSError as error:
            raise StoreError(
                f"{self.path}: can't cut off an unfinished commit at byte {end}: {error.strerror}. It may be "
                "there or not: close the knowledge base, and open it again once the disk is in order."
            ) from error


def _check_header(path: Path, data: bytes, label: Label) -> None:
    if data.startswith(label.header):
        return
    for fields in (_HEADER_1, _HEADER_2):
        begin = data[: fields.size]
        is_whole = data[fields.size : fields.size + _CHECKSUM.size] == _CHECKSUM.pack(zlib.crc32(begin))
        if begin.startswith(_MAGIC) and len(begin) == fields.size and is_whole:
            generation = fields.unpack(begin)[3]
            which = "this generation" if generation == label.generation else f"generation {generation}"
            raise StoreError(
                f"{path} is the journal of another knowledge base: it was begun for {which}, but not of what "
                "the manifest here names. Put the journal back that belongs here, or restore a copy."
            )
    raise damage(path, f"it does not begin with the header of generation {label.generation}")


def _is_record(view: memoryview, at: int, seed: int) -> bool:
    """Does a record of this journal begin here?"""
    fields = view[at : at + _FIELDS.size]
    return zlib.crc32(fields, seed) == _CHECKSUM.unpack_from(view, at + _FIELDS.size)[0]


def _is_followed(view: memoryview, begin: int, seed: int, expected: int) -> bool:
    """Does a record begin anywhere from `begin` on, of the commit that is expected or a later one?"""
    count = (len(view) - begin) // _WORD
    if count * _WORD < _RECORD_HEADER:
        return False
    words = np.frombuffer(view, "<u8", count, begin)
    numbers = words[1 : count - 1]
    places = np.flatnonzero((numbers >= expected) & (numbers <= expected + count))
    return any(_is_record(view, begin + int(place) * _WORD, seed) for place in places)
