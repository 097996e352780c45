"""Runs of ascending values by owner: made from pairs, and intersected, as worst-case optimal joins do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.cpu.atomics import as_u4, as_u8, prefetch
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.primitives_sets import copy_keys, gallop
from gpuengine.kernels.primitives import NONE, Run

DIGIT_BITS = 11
"""Bits that one pass of sorting orders by: so many places as it then writes to stay in the first cache."""
FIELDS = 3
"""Addresses for each run: of its offsets, values and owners."""
AHEAD = 8
"""How many bindings before its turn the values of one are asked for; its offsets as many earlier."""
GALLOP_RATIO = 4
"""From so many times as many values on, galloping through them for each of the few beats reading them all."""
WRITTEN, NEEDED = 0, 1
"""Places of the state: how many results there are; how many more the next binding may have."""


def sorted_runs(keys: np.ndarray, values: np.ndarray, n_owners: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and values of the pairs, each once: sorted digit by digit, of as many bits as they take."""
    value_bits = int(values.max(initial=0)).bit_length()
    pairs = keys.astype(np.uint64)
    pairs <<= np.uint64(value_bits)
    pairs |= values
    bits = value_bits + max(n_owners - 1, 0).bit_length()
    other, counts = np.empty_like(pairs), np.empty(1 << DIGIT_BITS, np.uint64)
    for shift in range(0, bits, DIGIT_BITS):
        sort_by_digit(pairs, len(pairs), shift, counts, other)
        pairs, other = other, pairs
    offsets, out = np.empty(n_owners + 1, np.uint64), np.empty(len(pairs), np.uint32)
    out.resize(cut_runs(pairs, len(pairs), value_bits, n_owners, offsets, out), refcheck=False)
    return offsets, out


def intersect_runs(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """The values that are in all runs of a binding, with its place beside each; makes room as it goes."""
    addresses = [address_of(array) for run in runs for array in (run.offsets, run.values, run.owners)]
    header, spans = np.array(addresses, np.int64), np.empty(2 * len(runs), np.int64)
    state, done, bindings = np.zeros(2, np.int64), 0, len(runs[0].owners)
    room = bindings
    places, values = (np.empty(room, np.uint32) for _ in range(2))
    while True:
        done = intersect_bindings(header, len(runs), done, bindings, room, spans, places, values, state)
        written, needed = state.tolist()
        room = max(2 * room, written + needed) if done < bindings else written
        for array in (places, values):
            array.resize(room, refcheck=False)
        if done == bindings:
            return places, values


@kernel("i8(u8*, i8, i8, u8*, u8*)")
def sort_by_digit(pairs, count, shift, counts, out):
    """Order pairs by `DIGIT_BITS` bits from `shift` on; those alike stay in order."""
    mask = np.uint64((1 << DIGIT_BITS) - 1)
    for digit in range(1 << DIGIT_BITS):
        counts[digit] = np.uint64(0)
    for k in range(count):
        counts[(pairs[k] >> np.uint64(shift)) & mask] += np.uint64(1)
    before = np.uint64(0)
    for digit in range(1 << DIGIT_BITS):
        here = counts[digit]
        counts[digit] = before
        before += here
    for k in range(count):
        digit = (pairs[k] >> np.uint64(shift)) & mask
        out[counts[digit]] = pairs[k]
        counts[digit] += np.uint64(1)
    return 0


@kernel("i8(u8*, i8, i8, i8, u8*, u4*)")
def cut_runs(pairs, count, value_bits, n_owners, offsets, values):
    """Runs of ascending pairs of a key and a value of so many bits; returns how many values there are."""
    mask = (np.uint64(1) << np.uint64(value_bits)) - np.uint64(1)
    written = 0
    owner = 0
    offsets[0] = np.uint64(0)
    for k in range(count):
        if k == 0 or pairs[k] != pairs[k - 1]:
            while owner < np.int64(pairs[k] >> np.uint64(value_bits)):
                owner += 1
                offsets[owner] = np.uint64(written)
            values[written] = np.uint32(pairs[k] & mask)
            written += 1
    while owner < n_owners:
        owner += 1
        offsets[owner] = np.uint64(written)
    return written


@device
def expect_runs(runs, count, binding, end):
    """Have what bindings a little further on will read fetched ahead: offsets, and then values."""
    for r in range(count):
        offsets = as_u8(runs[FIELDS * r])
        owners = as_u4(runs[FIELDS * r + 2])
        if binding + 2 * AHEAD < end:
            prefetch(offsets, np.int64(owners[binding + 2 * AHEAD]))
        if binding + AHEAD < end and owners[binding + AHEAD] != np.uint32(NONE):
            prefetch(as_u4(runs[FIELDS * r + 1]), np.int64(offsets[owners[binding + AHEAD]]))


@device
def shortest_run(runs, count, binding, spans):
    """Write where each run of a binding begins and ends; return the number of the shortest."""
    shortest = 0
    for r in range(count):
        owner = np.int64(as_u4(runs[FIELDS * r + 2])[binding])
        spans[2 * r] = 0
        spans[2 * r + 1] = 0
        if owner != NONE:
            offsets = as_u8(runs[FIELDS * r])
            spans[2 * r] = np.int64(offsets[owner])
            spans[2 * r + 1] = np.int64(offsets[owner + 1])
        if spans[2 * r + 1] - spans[2 * r] < spans[2 * shortest + 1] - spans[2 * shortest]:
            shortest = r
    return shortest


@device
def intersect_two(few, x, few_end, many, y, many_end, out, written):
    """Append the values that are in both; how many are written then. `out` may be `few`, from `x` on.

    Which of two values is the lesser can't be foreseen, so comparisons are added instead of branched on.
    """
    if (few_end - x) * GALLOP_RATIO < many_end - y:
        while x < few_end:
            value = few[x]
            y = gallop(many, y, many_end, value)
            if y == many_end:
                break
            out[written] = value
            written += np.int64(many[y] == value)
            x += 1
        return written
    while x < few_end and y < many_end:
        value = few[x]
        other = many[y]
        out[written] = value
        written += np.int64(value == other)
        x += np.int64(value <= other)
        y += np.int64(other <= value)
    return written


@kernel("i8(i8*, i8, i8, i8, i8, i8*, u4*, u4*, i8*)")
def intersect_bindings(runs, count, start, end, room, spans, places, values, state):
    """Append the results of bindings from `start` on; returns the first for which there may be no room.

    What the shortest run has in common with one other lies where the results go, and shrinks there with each
    further run.
    """
    written = state[WRITTEN]
    for binding in range(start, end):
        expect_runs(runs, count, binding, end)
        shortest = shortest_run(runs, count, binding, spans)
        low = spans[2 * shortest]
        high = spans[2 * shortest + 1]
        if written + high - low > room:
            state[WRITTEN] = written
            state[NEEDED] = high - low
            return binding
        first = written
        source = as_u4(runs[FIELDS * shortest + 1])
        if count == 1:
            written = copy_keys(source, low, high, values, first)
        for r in range(count):
            if r != shortest:
                other = as_u4(runs[FIELDS * r + 1])
                written = intersect_two(
                    source, low, high, other, spans[2 * r], spans[2 * r + 1], values, first
                )
                source = values
                low = first
                high = written
        for place in range(first, written):
            places[place] = np.uint32(binding)
    state[WRITTEN] = written
    return end
