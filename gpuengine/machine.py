"""What this machine has for this process: cores, memory that is free or allowed, and what is held of it.

Everything is asked of the operating system when it is called for. Where it does not say (there is no
``/proc``), the functions fall back to what is known there, and say so.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

UNKNOWN_FREE = 8 << 30
"""What is taken to be free where nobody says."""
_MOST_FOR_A_COMPILER = 1 << 30
_code = 0
_adding = threading.Lock()
_listeners: list[Callable[[str | None], None]] = []
_UNLIMITED = 1 << 60
"""Control groups of version 1 say "no limit" by a number beyond every machine."""


def usable_cores() -> int:
    """How many cores this process may run on; where the system does not say, how many there are."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def home_folder() -> Path | None:
    """The user's home; None for a user who has none, as in some containers."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that can be used without swapping and without leaving the limits of the control groups."""
    free = _free(root)
    room = cgroup_room(root)
    return free if room is None else max(0, min(free, room))


def resident_memory() -> int:
    """Bytes of memory that this process holds now; where only the most that it held is known, that.

    Pages of files do not count: the system takes those of libraries away and brings them back as it likes.
    """
    try:
        file = os.open("/proc/self/statm", os.O_RDONLY)  # a third of what a file object takes
    except OSError:
        return _most_resident()
    try:
        _, resident, shared, *_ = os.read(file, 128).split()
        return (int(resident) - int(shared)) * mmap.PAGESIZE
    finally:
        os.close(file)


def code_memory() -> int:
    """Bytes that compiled code and its compiler have come to take: no data is in them."""
    return _code


def tell_when_compiling(listener: Callable[[str | None], None]) -> None:
    """Have `listener` told which code is compiled from now on, and None when that is done.

    It takes the place of the one before: there is one line to show it in.
    """
    _listeners[:] = [listener]


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """`name` is compiled inside, which may take seconds; what the process comes to hold is code."""
    global _code
    before = resident_memory()
    with _adding:
        _code += _MOST_FOR_A_COMPILER  # what it needs on the way
    for listener in _listeners:
        listener(name)
    try:
        yield
    finally:
        for listener in _listeners:
            listener(None)
        with _adding:
            _code += max(0, resident_memory() - before) - _MOST_FOR_A_COMPILER


def give_back() -> None:
    """Return freed memory to the system, as far as the allocators can: what is held then is in use."""
    import ctypes

    if "pyarrow" in sys.modules:
        import pyarrow

        pyarrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(ctypes.c_size_t(0))


def cgroup_room(root: Path = Path("/")) -> int | None:
    """Bytes that the control groups of this process still allow; None if they set no limit.

    Every group from the process's own up to the root counts, in either version. Pages of files that nobody
    uses at the moment do not: the kernel drops them when memory is short.
    """
    rooms = []
    for mount, group, is_v2 in _memory_groups(root):
        own = mount / group.lstrip("/")
        if not own.is_dir():  # a container may see the name that the host gave its group
            own = mount
        while True:
            room = _room(own, is_v2)
            if room is not None:
                rooms.append(room)
            if own == mount:
                break
            own = own.parent
    return min(rooms) if rooms else None


def _free(root: Path) -> int:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN_FREE


def _most_resident() -> int:
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _memory_groups(root: Path) -> list[tuple[Path, str, bool]]:
    """(where its hierarchy is mounted, the group of this process below that, is it version 2?)."""
    groups = []
    mounts = _mounts(root)
    for line in _lines(root / "proc/self/cgroup"):
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        number, controllers, group = parts
        is_v2 = number == "0" and not controllers
        if not is_v2 and "memory" not in controllers.split(","):
            continue
        for mounted, mount in mounts.get("" if is_v2 else "memory", []):
            # A mount of part of the hierarchy shows the groups below that part.
            inside = group.removeprefix(mounted) if mounted != "/" else group
            if ".." not in Path(inside).parts:
                groups.append((mount, inside, is_v2))
    return groups


def _mounts(root: Path) -> dict[str, list[tuple[str, Path]]]:
    """Which part of the hierarchy of memory groups is mounted where: "memory" of version 1, "" of 2."""
    mounts: dict[str, list[tuple[str, Path]]] = {}
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or len(kinds) < 3:
            continue
        place = (fields[3], root / fields[4].lstrip("/"))
        if kinds[0] == "cgroup2":
            mounts.setdefault("", []).append(place)
        elif kinds[0] == "cgroup" and "memory" in kinds[2].split(","):
            mounts.setdefault("memory", []).append(place)
    return mounts


def _room(group: Path, is_v2: bool) -> int | None:
    """What one group allows beyond what it holds; None if it has no limit."""
    limits = ("memory.max", "memory.high") if is_v2 else ("memory.limit_in_bytes",)
    known = [limit for name in limits if (limit := _number(group / name)) is not None and limit < _UNLIMITED]
    if not known:
        return None
    used = _number(group / ("memory.current" if is_v2 else "memory.usage_in_bytes")) or 0
    droppable = "inactive_file" if is_v2 else "total_inactive_file"
    for line in _lines(group / "memory.stat"):
        name, _, value = line.partition(" ")
        if name == droppable and value.isdigit():
            used -= int(value)
    return max(0, min(known) - max(0, used))


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
