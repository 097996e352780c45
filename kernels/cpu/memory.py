"""Memory that grows without copying where nobody looks at it, and is owned by whoever does."""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from typing import Any

import numpy as np

from gpuengine.kernels.addresses import CHECKED, RANGES
from gpuengine.kernels.identity import NotCopied

_libc = ctypes.CDLL(None, use_errno=True)
_libc.realloc.restype = ctypes.c_void_p
_libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.calloc.restype = ctypes.c_void_p
_libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]
_LEAST_BYTES = 8
_MAPPED_BYTES = 1 << 18
"""Blocks of this size or more are mappings of their own."""
_CAN_MOVE_PAGES = hasattr(_libc, "mremap")
_MAY_MOVE = 1
_FAILED = ctypes.c_void_p(-1).value
if _CAN_MOVE_PAGES:
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    _libc.mremap.restype = ctypes.c_void_p
    _libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    _libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _pages(nbytes: int) -> int:
    """How many bytes a mapping for so many has; 0 if they are not mapped, but on the heap."""
    if nbytes < _MAPPED_BYTES or not _CAN_MOVE_PAGES:
        return 0
    return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE


class Block(NotCopied):
    """One allocation. It lives as long as a `Memory` or an array refers to it.

    Large ones are mappings of their own, where the system can move those: `realloc` would copy them or not by
    what else the process has allocated and freed before.
    """

    __slots__ = ("_mapped", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """All zeros; pages take no room until they are written."""
        self.address = 0
        self.nbytes = 0
        self._mapped = 0
        if nbytes >= _MAPPED_BYTES and (pages := _pages(nbytes)):
            private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            address = _libc.mmap(None, pages, mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)
        else:
            address = _libc.calloc(max(nbytes, _LEAST_BYTES), 1)
        self._become(address, nbytes)

    def resize(self, nbytes: int) -> None:
        """Grow or shrink; what there is stays, and the new part is not initialised."""
        old, new = self._mapped, _pages(nbytes)
        if old and new:
            self._become(_libc.mremap(self.address, old, new, _MAY_MOVE), nbytes)
        elif old or new:
            other = Block(nbytes)
            ctypes.memmove(other.address, self.address, min(self.nbytes, nbytes))
            self.address, other.address = other.address, self.address
            self.nbytes, other.nbytes = other.nbytes, self.nbytes
            self._mapped, other._mapped = other._mapped, self._mapped
        else:
            self._become(_libc.realloc(self.address, max(nbytes, _LEAST_BYTES)), nbytes)

    def _become(self, address: int | None, nbytes: int) -> None:
        """Be what an allocation returned, in the place of what was; if it failed, nothing changes."""
        if not address or address == _FAILED:
            raise MemoryError(f"can't allocate {nbytes:,} bytes")
        if CHECKED:
            if self.address:
                RANGES.forget(self.address, self.nbytes)
            RANGES.note(address, nbytes)
        self.address = address
        self.nbytes = nbytes
        self._mapped = _pages(nbytes) if nbytes >= _MAPPED_BYTES else 0

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "typestr": "|u1", "shape": (self.nbytes,), "data": (self.address, False)}

    # What it needs is kept here: at the end of the process the module is empty before the last block goes.
    def __del__(self, free: Any = _libc.free, unmap: Any = _libc.munmap) -> None:
        if self.address:
            if CHECKED:
                RANGES.forget(self.address, self.nbytes)
            if self._mapped:
                unmap(self.address, self._mapped)
            else:
                free(self.address)


class Memory(NotCopied):
    """A block of memory that grows without copying where the system can move its pages.

    Fresh pages cost more to get than most of what is done with them: growing keeps those in use.

    An array from `view` owns the block that it shows: the block is neither moved nor freed before the last
    such array is gone. Growing then takes another block and copies. What is written to the memory later is
    seen by arrays of the block that it still has; `unshare` before writing where they must not see it.
    """

    __slots__ = ("_block", "_bytes", "_lock")

    def __init__(self) -> None:
        self._block: Block | None = None
        self._bytes: np.ndarray | None = None  # what all views have as their base
        self._lock = threading.Lock()

    @property
    def address(self) -> int:
        """Where the memory is, until it is next resized or unshared; 0 before the first time."""
        return self._block.address if self._block is not None else 0

    @property
    def nbytes(self) -> int:
        return self._block.nbytes if self._block is not None else 0

    @property
    def is_shared(self) -> bool:
        """Does anybody hold an array of this memory?"""
        return self._bytes is not None and sys.getrefcount(self._bytes) > _UNSHARED

    def resize(self, nbytes: int) -> None:
        """Grow or shrink; the new part is not initialised."""
        with self._lock:
            if self._block is None or self.is_shared:
                self._replace(nbytes)
                return
            self._block.resize(nbytes)
            self._bytes = None

    def resize_zeroed(self, nbytes: int) -> None:
        """Replace the block by one of zeros, whose pages take no room until they are written."""
        with self._lock:
            self._block = self._bytes = None
            self._block = Block(nbytes)

    def unshare(self) -> None:
        """Go on in a block of its own, with the same content, if anybody holds an array of this one."""
        with self._lock:
            if self.is_shared:
                self._replace(self.nbytes)

    def same(self) -> Memory:
        """Another memory that begins with the same block, which from now on is shared."""
        other = Memory()
        with self._lock:
            if self._bytes is None and self._block is not None:
                self._bytes = np.asarray(self._block)
            other._block, other._bytes = self._block, self._bytes
        return other

    def view(self, dtype: type, count: int) -> np.ndarray:
        """The first `count` elements."""
        if not count:
            return np.empty(0, dtype)
        with self._lock:
            if self._bytes is None:
                self._bytes = np.asarray(self._block)
            return np.ndarray(count, dtype, self._bytes)

    def _replace(self, nbytes: int) -> None:
        """Have another block with as much of the content as there is room for."""
        old, block = self._block, Block(nbytes)
        if old is not None:
            ctypes.memmove(block.address, old.address, min(old.nbytes, nbytes))
        self._block, self._bytes = block, None


def _references_of_unshared() -> int:
    """What `sys.getrefcount` says of a base that has no views; that depends on the interpreter."""
    memory = Memory()
    memory.resize(_LEAST_BYTES)
    memory.view(np.uint8, _LEAST_BYTES)
    return sys.getrefcount(memory._bytes)


_UNSHARED = _references_of_unshared()
