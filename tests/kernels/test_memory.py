"""Arrays own the memory that they show: it is neither moved nor freed before they are gone."""

import copy
import ctypes
import gc
import mmap
import pickle
import resource
from itertools import pairwise

import numpy as np
import pytest

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.memory import _MAPPED_BYTES, Memory
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.sets import KeySet
from gpuengine.schemes.table import Table

SIZES = (10, 1000, 100_000, 3_000_000)
"""From small blocks of the heap to pages of their own."""


def numbers(count: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + count, dtype=np.uint32)


def memory_of(count: int) -> Memory:
    memory = Memory()
    memory.resize(4 * count)
    memory.view(np.uint32, count)[:] = numbers(count)
    return memory


def rows_of(count: int) -> Rows:
    rows = Rows(2, count)
    rows.append([numbers(count), numbers(count, 7)], count)
    return rows


def overwrite_what_is_free(count: int) -> list[np.ndarray]:
    """Take memory of the sizes that were given back, and write to it."""
    gc.collect()
    return [np.full(count, 0xDEAD, np.uint32) for _ in range(8)]


@pytest.mark.parametrize("count", SIZES)
def test_a_column_outlives_its_table(count: int) -> None:
    def column() -> np.ndarray:
        table = Table("t", 1, CPU)
        table.insert([numbers(count)], count)
        return table.column(0)

    shown = column()
    taken = overwrite_what_is_free(count)
    assert np.array_equal(np.sort(shown), numbers(count))
    assert taken


@pytest.mark.parametrize("count", SIZES)
def test_growing_leaves_arrays_what_they_showed(count: int) -> None:
    memory = memory_of(count)
    whole, part = memory.view(np.uint32, count), memory.view(np.uint32, count)[count // 2 :]
    for factor in (2, 4, 8):
        memory.resize(4 * count * factor)
        memory.view(np.uint32, count)[:] = factor
        taken = overwrite_what_is_free(count)
        assert np.array_equal(whole, numbers(count))
        assert np.array_equal(part, numbers(count)[count // 2 :])
        assert taken


@pytest.mark.parametrize("count", SIZES)
def test_shrinking_and_clearing_leave_arrays_what_they_showed(count: int) -> None:
    for change in (lambda memory: memory.resize(8), lambda memory: memory.resize_zeroed(4 * count)):
        memory = memory_of(count)
        shown = memory.view(np.uint32, count)
        change(memory)
        taken = overwrite_what_is_free(count)
        assert np.array_equal(shown, numbers(count))
        assert taken


def test_memory_knows_whether_arrays_show_it() -> None:
    memory = memory_of(1000)
    assert not memory.is_shared
    shown = memory.view(np.uint32, 1000)
    assert memory.is_shared
    part = shown[10:20].reshape(2, 5).view(np.uint8)
    del shown
    assert memory.is_shared
    exported = memoryview(part)
    del part
    assert memory.is_shared
    del exported
    assert not memory.is_shared


def test_memory_that_nobody_looks_at_grows_in_place() -> None:
    memory = memory_of(10)
    block = memory._block
    for factor in (10, 1000, 100_000):
        memory.resize(40 * factor)
        assert np.array_equal(memory.view(np.uint32, 10), numbers(10))
    assert memory._block is block


def test_sets_grow_in_place() -> None:
    """A table of keys that nobody looks at is not copied: a view that is still held would have it so."""
    rows, keyset = rows_of(100), CPU.keyset(2, [(0, 1 << 31)] * 2, 100)
    assert isinstance(keyset, KeySet)
    keyset.insert(rows, 0, 100)
    block = keyset._memory._block
    for capacity in (1000, 10_000, 100_000):
        keyset.reserve(capacity, rows)
    assert keyset._memory._block is block
    assert keyset.contains(rows, 0, 100).all()


def test_views_can_not_be_longer_than_their_block() -> None:
    with pytest.raises(TypeError):
        memory_of(10).view(np.uint32, 11)


def test_rows_go_on_in_memory_of_their_own() -> None:
    rows = rows_of(1000)
    shown = rows.columns()
    assert rows.is_shared
    rows.unshare()
    assert not rows.is_shared
    rows.count = 0
    rows.append([np.zeros(500, np.uint32)] * 2, 500)
    assert np.array_equal(shown[0], numbers(1000))
    assert np.array_equal(shown[1], numbers(1000, 7))
    assert not rows.column(0).any()


def test_rows_that_nobody_looks_at_stay_where_they_are() -> None:
    rows = rows_of(1000)
    before = rows.header.copy()
    rows.unshare()
    assert np.array_equal(rows.header, before)


def test_rows_can_be_appended_to_themselves() -> None:
    rows = rows_of(1000)
    for _ in range(6):
        rows.append(rows.columns(), rows.count)
    assert np.array_equal(rows.column(1), np.tile(numbers(1000, 7), 64))


def test_trimming_leaves_arrays_what_they_showed() -> None:
    rows = rows_of(100_000)
    shown = rows.column(0)
    rows.count = 10
    rows.trim()
    taken = overwrite_what_is_free(100_000)
    assert np.array_equal(shown, numbers(100_000))
    assert taken
    del shown
    rows.trim()
    assert rows.capacity == 10


def test_kernels_see_rows_that_moved() -> None:
    rows = rows_of(1000)
    shown = rows.columns()
    rows.reserve(1 << 16)
    keyset = CPU.keyset(2, [(0, 2000)] * 2, 1000)
    assert keyset.insert(rows, 0, 1000).all()
    rows.unshare()
    assert keyset.contains(rows, 0, 1000).all()
    assert np.array_equal(shown[0], rows.column(0))


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_memory_is_not_copied_by_its_address(take: object) -> None:
    rows = rows_of(10)
    index = CPU.index(rows, (0,), [(0, 20)] * 2)
    for owner in (memory_of(10), rows, index, CPU.keyset(1, [(0, 9)], 10), Table("t", 1, CPU)):
        with pytest.raises(TypeError, match="can't be copied or pickled"):
            take(owner)  # type: ignore[operator]


def test_content_stays_while_a_block_becomes_a_mapping_and_back() -> None:
    memory = Memory()
    sizes = (
        8,
        1 << 12,
        _MAPPED_BYTES - 1,
        _MAPPED_BYTES,
        _MAPPED_BYTES + 1,
        1 << 22,
        _MAPPED_BYTES,
        1 << 12,
        8,
    )
    memory.resize(sizes[0])
    memory.view(np.uint8, sizes[0])[:] = np.arange(sizes[0])
    for before, size in pairwise(sizes):
        memory.resize(size)
        kept = min(before, size)
        assert np.array_equal(memory.view(np.uint8, kept), np.arange(kept).astype(np.uint8))
        memory.view(np.uint8, size)[:] = np.arange(size).astype(np.uint8)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mremap"), reason="this system moves no pages")
def test_large_blocks_grow_without_fresh_pages_whatever_was_freed_before() -> None:
    """A heap that has given large blocks back keeps later ones, and copies them when they grow."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    libc.free(libc.malloc(ctypes.c_size_t(30 << 20)))
    memory = Memory()
    memory.resize(8 << 20)
    memory.view(np.uint8, 8 << 20)[:] = 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    others = []
    for megabytes in range(9, 25):
        others.append(libc.malloc(ctypes.c_size_t(1 << 20)))  # in the way
        memory.resize(megabytes << 20)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    for other in others:
        libc.free(other)
    assert faults * mmap.PAGESIZE < 8 << 20
