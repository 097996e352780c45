"""Files that are whole or not there: writing, syncing, reading, and what to say when that fails."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from gpuengine.errors import StoreError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
NOTHING_CHANGED = "Nothing was changed"
_SLICE = 1 << 20
_MAPPED_FROM = 1 << 20  # bytes; every mapping costs a file descriptor, so small files are read instead


def failure(path: Path, doing: str, error: OSError, *, outcome: str = "") -> StoreError:
    """The error for an operating system call that failed on `path`; `outcome` is what has come of it."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        hint = "make room on the disk and try again."
    elif error.errno == errno.ELOOP:
        reason = "it is a symbolic link, and nothing is written through those"
        hint = "put a file in its place, or remove it."
    elif error.errno in _FORBIDDEN:
        hint = "check who may access it. To read only, open the knowledge base read-only."
    else:
        hint = "check the disk and try again."
    hint = f"{outcome}; {hint}" if outcome else hint.capitalize()
    return StoreError(f"{path}: can't {doing}: {reason}. {hint}")


def damage(path: Path, what: str) -> StoreError:
    """The error for a file that is not as it was written."""
    return StoreError(f"{path} is damaged: {what}. Restore the knowledge base from a copy, or make it anew.")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an OSError that names no file name this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all bytes; one call as a rule, more if the system takes fewer bytes at a time."""
    written = os.write(fd, data)
    rest = memoryview(data).cast("B")
    while written < len(rest):
        rest = rest[written:]
        written = os.write(fd, rest)


def write_slices(fd: int, data: memoryview) -> None:
    """Write much data in slices, so that an interrupt need not wait for all of it."""
    for at in range(0, len(data), _SLICE):
        write_all(fd, data[at : at + _SLICE])


def create_file(path: Path) -> int:
    """A descriptor of a new, empty file to be written; whatever had the name is gone.

    Of a link only the name goes: what it leads to is somebody else's.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError:
        path.unlink()
        return os.open(path, flags, 0o666)


def write_synced(path: Path, data: bytes) -> None:
    """Make a file of these bytes and wait until they are on the disk."""
    fd = create_file(path)
    try:
        with naming(path):
            write_slices(fd, memoryview(data))
            os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(directory: Path) -> None:
    """Make a directory and its parents, and wait until all of them are on the disk.

    Also those that are there: who made them may have been stopped before they were.
    """
    whole = directory.absolute()
    new = [path for path in (whole, *whole.parents) if not path.exists()]
    whole.mkdir(parents=True, exist_ok=True)
    for path in (whole, *whole.parents):
        if path.is_mount():
            break
        with nullcontext() if path in new else suppress(OSError):  # an old one may be closed to this user
            sync_directory(path.parent)


def sync_data(fd: int) -> None:
    """Data and length of a file onto the disk, without its times where the system can leave those out."""
    getattr(os, "fdatasync", os.fsync)(fd)


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def names_in(directory: Path) -> set[str]:
    """The names in a directory; `StoreError` if they can't be had, which is before anything is written."""
    try:
        return {path.name for path in directory.iterdir()}
    except OSError as error:
        raise failure(directory, "list it", error, outcome=NOTHING_CHANGED) from error


def read_bytes(path: Path) -> bytes | mmap.mmap:
    """The content of a file that never changes: large ones are mapped into memory, not read."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < _MAPPED_FROM:
            return file.read()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
