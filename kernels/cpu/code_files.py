"""Files of machine code: read and written only where nobody but their user could have put them.

Loading such a file is running it. So a file counts only if it belongs to this user (or to root, who can do as
he likes), if nobody else may write it, and if the same holds for its folder up to the cache folder; above
that, folders may be shared if others can't exchange what is in them (as in ``/tmp``). A file is looked at
where it was opened, so that it can't be exchanged in between. What does not count is compiled again
and not kept, with a warning that says why.
"""

from __future__ import annotations

import os
import stat
import threading
import warnings
from contextlib import suppress
from pathlib import Path

_warned: set[str] = set()
_trusted: set[tuple[Path, Path]] = set()


def read_code(path: Path, cache: Path) -> bytes | None:
    """What a file below the folder `cache` holds; None if there is none, or none to be trusted."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        if not path.parent.is_dir() or not _is_trusted(path.parent, cache):
            return None
        fd = os.open(path, flags)
    except OSError:
        if path.is_symlink():
            _warn(f"{path} is a symbolic link")
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        doubt = "is no file" if not stat.S_ISREG(status.st_mode) else _doubt(status)
        if doubt is not None:
            _warn(f"{path} {doubt}")
            return None
        try:
            return file.read()
        except OSError:
            return None


def write_code(path: Path, content: bytes, cache: Path) -> None:
    """Write a file below the folder `cache`, in one step, so that no other process reads a part of it.

    OSError if that fails, or if the folder is not to be trusted.
    """
    make_folders(path.parent, cache)
    if not _is_trusted(path.parent, cache):
        raise PermissionError(f"{path.parent} is not to be trusted")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with suppress(FileNotFoundError):
            temporary.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def make_folders(folder: Path, cache: Path) -> None:
    """Make a folder below the folder `cache`, and that one, for this user only."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    for part in reversed([folder, *folder.parents]):
        if part == cache or cache in part.parents:
            part.mkdir(mode=0o700, exist_ok=True)


def _is_trusted(folder: Path, cache: Path) -> bool:
    if (folder, cache) in _trusted:
        return True
    doubt = _folder_doubt(folder.absolute(), cache.absolute())
    if doubt is None:
        _trusted.add((folder, cache))
        return True
    _warn(doubt)
    return False


def _folder_doubt(folder: Path, cache: Path) -> str | None:
    """Who else could put files into a folder; None if nobody could."""
    real = Path(os.path.realpath(folder))
    own = len(folder.parts) - len(cache.parts) + 1  # it and those above it, as far as the cache folder
    for number, place in enumerate((real, *real.parents)):
        doubt = _doubt(place.stat(), is_own=number < own)
        if doubt is not None:
            return f"{place} {doubt}"
    for place in (folder, *folder.parents):
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
            return f"{place} is a symbolic link of another user"
    return None


def _doubt(found: os.stat_result, *, is_own: bool = True) -> str | None:
    """Who else could write a file or folder; one that is not our own may be shared in safe ways."""
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to another user ({found.st_uid})"
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not others:
        return None
    is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    is_private_group = others == stat.S_IWGRP and found.st_gid == os.getegid() == os.geteuid()
    if not is_own and (is_sticky or is_private_group):
        return None
    return f"can be written by other users (mode {stat.S_IMODE(found.st_mode):04o})"


def _warn(doubt: str) -> None:
    """Once for each cause."""
    if doubt not in _warned:
        _warned.add(doubt)
        warnings.warn(
            f"kernels are compiled anew: {doubt}, and machine code from there is not run; "
            "remove it or take others' permission to write (chmod go-w), or set GPUENGINE_CACHE_DIR",
            RuntimeWarning,
            stacklevel=2,
        )
