"""Files by Hadoop's own names for them: what Spark reads and writes, the driver can look at and move.

A path is a URI such as ``hdfs:``, ``s3a:`` or ``file:``, or of the session's default file system.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuengine.errors import DataError, StoreError
from gpuengine.maintenance.store.files import sync_directory, write_synced
from gpuengine.maintenance.store.lock import WriterLock
from gpuengine.spark_bridge.connect import require_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Names = list[str]

LOCK_FILE = "writer.lock"
"""Says who changes a folder, where the file system has no locks."""


def join(base: str, *parts: str) -> str:
    """A path below another: ``join("s3a://b/x/", "y")`` is ``s3a://b/x/y``."""
    for part in parts:
        base = f"{base}{part}" if base.endswith("/") or not base else f"{base}/{part}"
    return base


def name_of(path: str) -> str:
    """The last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


def parent_of(path: str) -> str:
    """The folder of a path: ``.`` for a bare name, the path itself for a root."""
    folder, slash, _ = path.rstrip("/").rpartition("/")
    if not slash:
        return "."
    return folder if folder and not folder.endswith((":", ":/")) else f"{folder}/"


class FileSystem:
    """The file systems that a session knows. Every failure is a `DataError` that names the path."""

    def __init__(self, spark: SparkSession) -> None:
        require_jvm(spark, "looking at files")
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()

    def exists(self, path: str) -> bool:
        with _failures(f"can't look for {path}"):
            system, place = self._at(path)
            return bool(system.exists(place))

    def is_directory(self, path: str) -> bool:
        with _failures(f"can't look for {path}"):
            system, place = self._at(path)
            return bool(system.exists(place) and system.getFileStatus(place).isDirectory())

    def list(self, path: str) -> Names:
        """The names of what a folder holds, sorted."""
        with _failures(f"can't list {path}"):
            system, place = self._at(path)
            return sorted(status.getPath().getName() for status in system.listStatus(place))

    def matches(self, pattern: str) -> Names:
        """The files that a pattern such as ``part-*.csv`` matches, as full URIs, sorted."""
        with _failures(f"can't look for {pattern}"):
            system, place = self._at(pattern)
            statuses = system.globStatus(place)
            return sorted(status.getPath().toString() for status in statuses or ())

    def size(self, path: str) -> int:
        """The bytes of a file, or of all files below a folder."""
        with _failures(f"can't measure {path}"):
            system, place = self._at(path)
            return int(system.getContentSummary(place).getLength())

    def read_text(self, path: str) -> str:
        with _failures(f"can't read {path}"):
            system, place = self._at(path)
            stream = system.open(place)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a file; who reads it finds what it was or what it is now, never a part."""
        with _failures(f"can't write {path}"):
            local = self.local(path)
            if local is not None:
                _replace_text(local, text)
                return
            system, _ = self._at(path)
            beside = beside_of(path)
            try:
                stream = system.create(self._path(beside), True)
                try:
                    stream.write(bytearray(text.encode()))
                finally:
                    stream.close()
                self._rename_over(beside, path)
            except BaseException:
                with suppress(Exception):
                    system.delete(self._path(beside), False)
                raise

    def sync(self, path: str) -> None:
        """Wait until a folder with all that is in it is on the disk, where that is this machine's."""
        with _failures(f"can't write {path}"):
            local = self.local(path)
            for folder, _, names in os.walk(local) if local is not None else ():
                for name in names:
                    _sync_file(Path(folder) / name)
                sync_directory(Path(folder))
            if local is not None:
                sync_directory(local.parent)

    def rename(self, old: str, new: str) -> None:
        """Move a file or a folder to where there is none. Raises if the file system does not."""
        with _failures(f"can't move {old} to {new}"):
            system, place = self._at(old)
            target = self._path(new)
            if system.exists(target):
                raise DataError(f"can't move {old} to {new}: it is there already")
            if not system.rename(place, target):
                why = "both must be in one file system" if system.exists(place) else "there is no such file"
                raise DataError(f"can't move {old} to {new}: {why}")

    def replace(self, old: str, new: str) -> None:
        """Move a file or a folder to where another may be, which is deleted when that is done.

        If the move fails, the other one is put back.
        """
        if not self.exists(new):
            self.rename(old, new)
            return
        aside = beside_of(new)
        self.rename(new, aside)
        try:
            self.rename(old, new)
        except BaseException:
            self.rename(aside, new)
            raise
        self.delete(aside)

    def delete(self, path: str) -> None:
        """Delete a file or a folder with all that is in it; nothing if it is not there."""
        with _failures(f"can't delete {path}"):
            system, place = self._at(path)
            if not system.delete(place, True) and system.exists(place):
                raise DataError(f"can't delete {path}")

    @contextmanager
    def writing(self, path: str) -> Iterator[None]:
        """Be the only one that changes a folder until the block ends; `StoreError` names who does already.

        On this machine's own file system the lock goes with the process. Elsewhere it is a file, which a
        process that is killed leaves behind, and as good as the store's promise that only one can make it.
        """
        local = self.local(path)
        if local is not None:
            lock = WriterLock.acquire(local)
            try:
                yield
            finally:
                lock.release()
            return
        at = join(path, LOCK_FILE)
        self._make_lock(at, path)
        try:
            yield
        finally:
            self.delete(at)

    def _make_lock(self, at: str, path: str) -> None:
        with _failures(f"can't write {at}"):
            system, place = self._at(at)
            try:
                stream = system.create(place, False)
            except Exception as error:
                if not system.exists(place):
                    raise
                holder = self.read_text(at) or "another process"
                raise StoreError(
                    f"{path} is being written by {holder}, which holds {at}\n"
                    "  hint: wait until that process is done; if it is gone, delete the file"
                ) from error
            try:
                stream.write(bytearray(f"process {os.getpid()} on {socket.gethostname()}".encode()))
            finally:
                stream.close()

    def make_directories(self, path: str) -> None:
        """Make a folder and those above it."""
        with _failures(f"can't make the folder {path}"):
            system, place = self._at(path)
            if not system.mkdirs(place):
                raise DataError(f"can't make the folder {path}: a file is in the way")

    def qualified(self, path: str) -> str:
        """The path with its scheme, the same for all ways to write it: ``file:/data/x`` for ``x``."""
        with _failures(f"can't look for {path}"):
            system, place = self._at(path)
            return str(system.makeQualified(place).toString())

    def is_inside(self, path: str, directory: str) -> bool:
        """Is a path below a directory, wherever symbolic links of local files lead?"""
        below, above = self.qualified(path), self.qualified(directory)
        if below.startswith("file:") and above.startswith("file:"):
            inner, outer = (Path(one.removeprefix("file:")).resolve() for one in (below, above))
            return inner.is_relative_to(outer)
        return below.startswith(f"{above.rstrip('/')}/")

    def _path(self, path: str) -> Any:
        if not path:
            raise DataError("an empty text is no path")
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._path(path)
        return place.getFileSystem(self._conf), place

    def local(self, path: str) -> Path | None:
        """The path if it is one of this machine's own file system."""
        system, place = self._at(path)
        uri = system.makeQualified(place).toUri()
        return Path(uri.getPath()) if uri.getScheme() == "file" else None

    def _rename_over(self, old: str, new: str) -> None:
        """Move a file to where another may be: in one step, where the file system can."""
        hadoop = self._jvm.org.apache.hadoop.fs
        source, target = self._path(self.qualified(old)), self._path(self.qualified(new))
        try:
            files = hadoop.FileContext.getFileContext(target.toUri(), self._conf)
        except Exception as error:
            if "UnsupportedFileSystemException" not in str(error):
                raise
            self.replace(old, new)
            return
        overwrite = hadoop.Options.Rename.OVERWRITE
        flags = self._jvm.java.lang.reflect.Array.newInstance(overwrite.getClass(), 1)
        flags[0] = overwrite
        files.rename(source, target, flags)


def _replace_text(path: Path, text: str) -> None:
    """As `FileSystem.write_text`, for local files; it is on the disk when this returns.

    Hadoop would delete the old file before it moves the new one there, and move the file with its checksum
    after that: a process killed in between would leave no file, or one that can't be read.
    """
    beside = Path(beside_of(str(path)))
    try:
        write_synced(beside, text.encode())
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # that of a file that Hadoop wrote
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    try:
        sync_directory(path.parent)
    except OSError as error:
        raise DataError(
            f"{path} is in place, but may be lost if the machine stops now: {error.strerror or error}"
        ) from error


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def beside_of(path: str) -> str:
    """A hidden name in the same folder, so that a rename stays in one file system."""
    return join(parent_of(path), f".{name_of(path)}.{os.getpid()}-{os.urandom(4).hex()}.tmp")


@contextmanager
def _failures(what: str) -> Iterator[None]:
    """Say what can't be done and why, without the trace of the JVM."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        raise DataError(f"{what}: {_cause(error.java_exception)}") from error
    except (Py4JError, PySparkException) as error:
        raise DataError(f"{what}: {str(error).partition(chr(10))[0]}") from error
    except OSError as error:
        raise DataError(f"{what}: {error.strerror or error}") from error


def _cause(exception: Any) -> str:
    message = str(exception.getMessage() or "").partition("\n")[0]
    kind = str(exception.getClass().getSimpleName())
    return f"{kind}: {message}" if message else kind
