"""Files that take the place of others: written beside them, and moved there when all are complete.

One file appears by one rename. Several need several, and a process may be stopped between two of them. So the
list of the renames is put into a folder first, which is one step: before it nothing has changed, and from
then on it is decided. Who is interrupted finishes the list; what a killed process leaves, the next one that
writes to the folder finishes (`finish_renames`).

A symbolic link in the place of a file is replaced as a file is; what it leads to stays as it was.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from types import TracebackType
from typing import BinaryIO

from gpuengine.errors import DataError

_LIST, _LIST_END = ".gpuengine-renames-", ".json"


class Replacement:
    """Some files below the folder `home`, to be replaced at once; use it as a context manager.

    Whatever ends the block before `finish` leaves all files as they were.
    """

    def __init__(self, home: Path | None = None) -> None:
        self.is_decided = False
        """Will all files be replaced, whatever happens now?"""
        self._home = home
        self._waiting: dict[Path, Path] = {}
        self._list: Path | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Replacement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.settle()

    @contextmanager
    def file(self, path: Path) -> Iterator[BinaryIO]:
        """A file to be written that will be at `path`; `DataError` if that fails."""
        if path.is_dir():
            raise DataError(f"can't write {path}: it is a directory")
        beside = path.with_name(f".{path.name}.{_unique()}.tmp")
        self._waiting[beside] = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("xb") as sink:
                yield sink
        except OSError as error:
            raise DataError(f"can't write {path}: {error.strerror or error}") from error

    @contextmanager
    def kept(self, path: Path) -> Iterator[Path]:
        """Where to write what will be at `path`: the same place each time it is asked for, which the writer
        makes. `DataError` if that fails."""
        if path.is_dir():
            raise DataError(f"can't write {path}: it is a directory")
        beside = next((beside for beside, place in self._waiting.items() if place == path), None)
        if beside is None:
            beside = path.with_name(f".{path.name}.{_unique()}.tmp")
            self._waiting[beside] = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield beside
        except OSError as error:
            raise DataError(f"can't write {path}: {error.strerror or error}") from error

    def finish(self) -> None:
        """Put all files in their places. `DataError` says which are there if that fails half-way."""
        for path in self._waiting.values():
            if path.is_dir():
                raise DataError(f"can't write {path}: it is a directory")
        with self._lock:
            if len(self._waiting) > 1 and self._home is not None:
                self._write_list(self._home)
            self.is_decided = True
            self.settle()

    def settle(self) -> None:
        """Bring it to an end, also from another thread: put the files in their places if that is decided,
        remove them if not."""
        with self._lock:
            if self.is_decided:
                self._rename()
                return
            self._remove_list()  # first: with it, those that are left would be put in place
            for beside in self._waiting:
                with suppress(OSError):
                    beside.unlink(missing_ok=True)
            self._waiting.clear()

    def _rename(self) -> None:
        failures: dict[Path, OSError] = {}
        for beside, path in self._waiting.items():
            try:
                beside.replace(path)
            except FileNotFoundError:
                pass  # it was done before an interrupt, or by another process
            except OSError as error:
                failures[path] = error
                with suppress(OSError):
                    beside.unlink()
        replaced = [path for path in self._waiting.values() if path not in failures]
        self._waiting.clear()
        self._remove_list()
        for path, failure in failures.items():
            lost = f"can't write {path}: {failure.strerror or failure}"
            told = f"{lost}\n  {_told(replaced, list(failures))}" if replaced else lost
            raise DataError(told) from failure

    def _write_list(self, home: Path) -> None:
        renames = [
            [os.path.relpath(beside, home), os.path.relpath(path, home), beside.stat().st_size]
            for beside, path in self._waiting.items()
        ]
        self._list = home / f"{_LIST}{_unique()}{_LIST_END}"
        beside = self._list.with_suffix(".tmp")
        try:
            beside.write_text(json.dumps({"boot": _boot(), "renames": renames}))
            beside.replace(self._list)
        except OSError as error:
            raise DataError(f"can't write {self._list}: {error.strerror or error}") from error
        finally:
            beside.unlink(missing_ok=True)

    def _remove_list(self) -> None:
        if self._list is not None:
            with suppress(OSError):
                self._list.unlink(missing_ok=True)


def finish_renames(home: Path) -> list[str]:
    """Finish what processes that were killed have left in a folder; says what could not be finished.

    Files that the machine did not live to put on the disk are not put in place of others.
    """
    unfinished = []
    for path in sorted(home.glob(f"{_LIST}*{_LIST_END}")) if home.is_dir() else []:
        renames = _read_list(path)
        replaced, lost = [], []
        for beside, place, is_whole in renames or ():
            try:
                if is_whole:
                    beside.replace(place)
                elif beside.exists():
                    lost.append(place)
                    beside.unlink()
                    continue
                replaced.append(place)
            except FileNotFoundError:
                replaced.append(place)
            except OSError:
                lost.append(place)
        with suppress(OSError):
            path.unlink(missing_ok=True)
        if lost:
            unfinished.append(f"an earlier run was stopped while it replaced files: {_told(replaced, lost)}")
    return unfinished


def _read_list(path: Path) -> list[tuple[Path, Path, bool]] | None:
    """(beside, place, is it whole?) of a list that this user has written; None for any other."""
    home = path.parent
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
                return None
            content = json.load(file)
        renames = []
        for beside, place, size in content["renames"]:
            if any(PurePath(name).is_absolute() or ".." in PurePath(name).parts for name in (beside, place)):
                return None
            at = home / beside
            is_same = content["boot"] == _boot() and at.exists() and at.stat().st_size == size
            renames.append((at, home / place, is_same))
        return renames
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _told(replaced: list[Path], lost: list[Path]) -> str:
    names = [", ".join(map(str, paths)) for paths in (replaced, lost)]
    return f"replaced: {names[0] or 'none'}; not replaced: {names[1]}"


def _boot() -> str:
    """Another text after the machine was started again, where the system tells."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _unique() -> str:
    return f"{os.getpid()}-{os.urandom(4).hex()}"
