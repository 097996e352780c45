"""Where things go wrong first: many tiles at one cursor, full tables, numbers of 33 bits, no room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import (
    Collect,
    Domain,
    Driver,
    IndexProbe,
    Insert,
    Pipeline,
    Probe,
    Status,
    write,
)
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.device import HostArrays
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.join_kernels import TILE, expand_matches
from gpuengine.kernels.cuda.set_kernels import HASHED, WIDE
from tests.kernels.cuda.ptx_device import PtxDevice
from tests.kernels.cuda.simulator import SimulatedDevice

#: Many more threads than a tile has candidates.
MANY = [
    lambda: PtxDevice((7, 5), blocks=3, threads=5, seed=1),
    lambda: PtxDevice((12, 0), blocks=4, threads=8, seed=2),
    lambda: SimulatedDevice(threads=16, block=4),
    lambda: EmulatedDevice(threads=4),
]
NEAR = (2**31 - 1, 2**31, 2**32 - 2)


def composition(backend: CudaBackend, spread: int, room: int) -> tuple[Any, Any, set[tuple[int, int]]]:
    """A join of 15 with 40 rows that ends in a probe into a set: 120 candidates, 15 tiles of them."""
    left = [(n, n % 5) for n in range(15)]
    right = [(n % 5, spread * n) for n in range(40)]
    made = []
    for pairs in (left, right):
        rows = backend.rows(2, len(pairs))
        rows.append([np.array(column, np.uint32) for column in zip(*pairs, strict=True)], len(pairs))
        rows.settle()
        made.append(rows)
    end = 40 * spread + 1
    index = backend.index(made[1], (0,), [(0, 5), (0, end)])
    index.build(exact=True)
    keyset = backend.keyset(2, [(0, 15), (0, end)], 200)
    probe = Probe((IndexProbe(index, Domain.ALL, (1,), (write(2),)),))
    pipeline = Pipeline(Driver(made[0], (write(0), write(1))), (probe,), Insert(keyset, (0, 2)), 3)
    out = backend.rows(2, room)
    expected = {(x, z) for x, y in left for w, z in right if y == w}
    assert len(expected) > 10 * TILE
    return backend.program(pipeline, np.zeros(1, np.int64)), out, expected


def pairs_in(out: Any) -> list[tuple[int, int]]:
    return list(zip(out.column(0).tolist(), out.column(1).tolist(), strict=True))


@pytest.mark.parametrize("make", MANY, ids=["sm_75", "sm_120", "simulated", "threads"])
@pytest.mark.parametrize("spread", [1, 50_000_000], ids=["bitmap", "hashed"])
def test_many_tiles_take_rows_of_one_output(make: Any, spread: int) -> None:
    """Each takes its own rows from the cursor: none twice, none left out."""
    program, out, expected = composition(CudaBackend(make()), spread, 200)
    assert program.run(out, 0, 15) is Status.DONE
    found = pairs_in(out)
    assert len(found) == len(expected) and set(found) == expected


@pytest.mark.parametrize("room", [16, 17, 31])
@pytest.mark.parametrize("spread", [1, 50_000_000], ids=["bitmap", "hashed"])
def test_a_chunk_with_more_rows_than_there_is_room_for(room: int, spread: int) -> None:
    """The interpreter fails on what is written beyond an array; the program stops for more room instead."""
    program, out, expected = composition(CudaBackend(PtxDevice(blocks=2, threads=4)), spread, room)
    found: list[tuple[int, int]] = []
    status = program.run(out, 0, 15)
    stops = 0
    while True:
        assert out.count <= out.capacity
        found += pairs_in(out)
        if status is Status.DONE:
            break
        out.count = 0
        stops += 1
        status = program.resume(out)
    assert stops >= len(expected) // out.capacity and sorted(found) == sorted(expected)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "device", [EmulatedDevice(2), PtxDevice(blocks=2, threads=4)], ids=["threads", "ptx"]
)
@pytest.mark.parametrize(("arity", "kind"), [(2, HASHED), (3, WIDE)])
def test_a_set_as_full_as_it_may_be_still_ends_its_searches(
    device: HostArrays, arity: int, kind: int
) -> None:
    """A table without an empty slot would be searched for ever."""
    backend = CudaBackend(device)
    for wanted in (1, 3, 8, 30):
        keyset = backend.keyset(arity, [(0, 2**32 - 1)] * arity, wanted)
        assert keyset.kind == kind
        count = keyset.capacity
        numbers = np.arange(2 * count, dtype=np.uint32) * np.uint32(40_503)
        rows = backend.rows(arity, 2 * count)
        rows.append([numbers] * arity, 2 * count)
        new = keyset.insert(rows, 0, count)
        assert np.all(device.download(new) != 0)
        there = device.download(keyset.contains(rows, 0, 2 * count))
        assert there.tolist() == [True] * count + [False] * count


@pytest.mark.parametrize("first", [2**31 - 4, 2**32 - 4, 2**32 + 9, 2**40])
@pytest.mark.parametrize("device", [EmulatedDevice(2), PtxDevice((7, 5)), PtxDevice((12, 0))])
def test_candidates_whose_numbers_need_more_than_32_bits(device: HostArrays, first: int) -> None:
    """Two bindings behind one with that many candidates; and rows whose numbers have the highest bit."""
    upload = device.upload
    offsets = upload(np.array([0, first, first + 3, first + 12], np.uint64))
    starts = upload(np.array([0, 0, 3], np.uint32))
    counts = upload(np.array([0, 3, 9], np.uint32))
    rows = np.array([NEAR[k % 3] - k for k in range(12)], np.uint64)
    main = upload(np.uint64(7 << 32) | rows)
    origins, matches = device.empty(12, np.uint32), device.empty(12, np.uint32)
    device.launch(
        expand_matches,
        2,
        first,
        first + 12,
        3,
        offsets,
        starts,
        counts,
        starts,
        main,
        main[:0],
        origins,
        matches,
    )
    assert device.download(origins).tolist() == [1] * 3 + [2] * 9
    assert device.download(matches).tolist() == rows.tolist()


def test_sums_of_counts_beyond_32_bits() -> None:
    device = EmulatedDevice(1)
    counts = device.upload(np.array([2**31, 2**32 - 1, 5], np.uint32))
    assert device.download(device.offsets(counts)).tolist() == [
        0,
        2**31,
        2**31 + 2**32 - 1,
        2**31 + 2**32 + 4,
    ]


@pytest.mark.parametrize("end", NEAR)
def test_ids_near_the_ends_are_joined_and_told_apart(end: int) -> None:
    backend = CudaBackend(PtxDevice((12, 0)))
    rows = backend.rows(2, 4)
    ids = np.array([end - 2, end - 1, end, 0], np.uint32)
    rows.append([ids, ids[::-1].copy()], 4)
    rows.settle()
    index = backend.index(rows, (0,), [(0, 2**32 - 1)] * 2)
    index.build(exact=True)
    keyset = backend.keyset(2, [(0, 2**32 - 1)] * 2, 16)
    probe = Probe((IndexProbe(index, Domain.ALL, (1,), (write(2),)),))
    pipeline = Pipeline(Driver(rows, (write(0), write(1))), (probe,), Insert(keyset, (0, 2)), 3)
    out = backend.rows(2, 16)
    assert backend.program(pipeline, np.zeros(1, np.int64)).run(out, 0, 4) is Status.DONE
    assert sorted(pairs_in(out)) == sorted((int(x), int(x)) for x in ids)


def test_memory_that_was_not_written_is_never_0_by_chance() -> None:
    for device in (EmulatedDevice(1), SimulatedDevice(4, 2), PtxDevice()):
        assert set(device.download(device.empty(50, np.uint8)).tolist()) == {0xA5}


@pytest.mark.parametrize("is_set", [False, True], ids=["collected", "inserted"])
@pytest.mark.parametrize("room", [1, 7, 39, 40])
def test_what_comes_out_never_exceeds_the_room(is_set: bool, room: int) -> None:
    """Bindings that reach the sink by themselves come out in pieces, each as large as there is room."""
    backend = CudaBackend(EmulatedDevice(threads=1))
    rows = [(n, n // 2) for n in range(40)]
    driver = backend.rows(2, len(rows))
    driver.append([np.array(column, np.uint32) for column in zip(*rows, strict=True)], len(rows))
    keyset = backend.keyset(2, [(0, 1 << 31)] * 2, 1)
    sink = Insert(keyset, (1, 0)) if is_set else Collect((1, 0))
    program = backend.program(Pipeline(Driver(driver, (write(0), write(1))), (), sink, 2))
    out, stops = backend.rows(2, 16), 0
    out.reserve(room)
    out.limit(room)
    keyset.reserve(room, out)
    status = program.run(out, 0, len(rows))
    while status is Status.FULL:
        stops += 1
        assert out.room == 0, "it stops when there is no room left, and not before"
        out.reserve(out.count + room)
        keyset.reserve(out.count + room, out)
        out.limit(out.count + room)
        status = program.resume(out)
    assert out.room >= 0
    assert stops == -(-len(rows) // room) - 1
    assert sorted(zip(*(column.tolist() for column in out.columns()), strict=True)) == sorted(
        (y, x) for x, y in rows
    )
