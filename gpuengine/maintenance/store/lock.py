"""The writer's lock: one process at a time may change a store; the system frees it however that one ends."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from gpuengine.errors import StoreError
from gpuengine.maintenance.store.files import NOTHING_CHANGED, failure
from gpuengine.maintenance.store.manifest import LOCK


class WriterLock:
    """Held from the call of `acquire` on. The lock file stays behind: its name must not move to another file
    while somebody waits for it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def acquire(cls, directory: Path) -> WriterLock:
        """Take the lock of a directory that exists; `StoreError` names who holds it."""
        path = directory / LOCK
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise failure(path, "take the writer's lock", error, outcome=NOTHING_CHANGED) from error
        try:
            cls._lock(fd, directory, path)
        except BaseException:
            os.close(fd)
            raise
        return cls(fd)

    @staticmethod
    def _lock(fd: int, directory: Path, path: Path) -> None:
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 4096, 0).decode(errors="replace") or "another process"
            raise StoreError(
                f"{directory} is being written by {holder}, which holds {path}. "
                "Open it read-only, or wait until that process is done."
            ) from None
        except OSError as error:
            raise failure(path, "take the writer's lock", error, outcome=NOTHING_CHANGED) from error
        with suppress(OSError):  # who holds it is for messages only: a full disk is no reason to give up
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:  # else it is another file as well
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)

    def release(self) -> None:
        """Let others write. Unlocks before closing, as a forked process may hold the same descriptor."""
        import fcntl

        with suppress(OSError):  # what was done is done, and the lock goes with the process at the latest
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        with suppress(OSError):
            os.close(self._fd)
