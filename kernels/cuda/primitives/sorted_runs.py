"""Runs of ascending values by owner on a device: made from pairs, and intersected.

An intersection takes the values of each binding's shortest run for candidates and searches the other runs for
each of them. Items are candidates, not bindings: one with a million and a million with one are the same work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cuda.columns import mark_first_of_equal, pack_pairs
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives.intervals import interval_offsets
from gpuengine.kernels.cuda.search import first_not_less, span_after, span_of
from gpuengine.kernels.cuda.spec import device_kernel
from gpuengine.kernels.primitives import NONE, Run

TILE = 8
"""Candidates that one item lists."""


def from_pairs(device: Device, keys: Array, values: Array, n_owners: int) -> tuple[Array, Array]:
    """Offsets and values of the pairs, each once. Waits once, to learn how many there are."""
    pairs, flags = device.empty(len(keys), np.uint64), device.empty(len(keys), np.uint8)
    device.launch(pack_pairs, len(keys), keys, values, pairs)
    pairs = device.sort(pairs)
    device.launch(mark_first_of_equal, len(pairs), pairs, flags)
    firsts = device.select(flags)
    offsets, out = device.empty(n_owners + 1, np.uint64), device.empty(len(firsts), np.uint32)
    device.launch(interval_offsets, n_owners + 1, pairs, firsts, len(firsts), offsets)
    device.launch(run_value, len(firsts), pairs, firsts, out)
    return offsets, out


def intersect(device: Device, runs: Sequence[Run]) -> tuple[Array, Array]:
    """The values that are in all runs of a binding, with its place beside each.

    Candidates are listed `chunk_items` at a time. Waits to learn how many there are, and with each chunk to
    learn how many stay.
    """
    bindings = len(runs[0].owners)
    least, chosen = device.full(bindings, NONE, np.uint32), device.full(bindings, 0, np.uint32)
    for number, run in enumerate(runs):
        device.launch(run_shortest, bindings, run.offsets, run.owners, number, least, chosen)
    scan = device.offsets(least)
    total = int(device.read(scan[-1:])[0])
    step = device.chunk_items
    parts = [
        _common(device, runs, scan, chosen, first, min(first + step, total))
        for first in range(0, total, step)
    ]
    if len(parts) == 1:
        return parts[0]
    return _joined(device, [places for places, _ in parts]), _joined(device, [values for _, values in parts])


def _common(
    device: Device, runs: Sequence[Run], scan: Array, chosen: Array, first: int, end: int
) -> tuple[Array, Array]:
    """What stays of the candidates [first, end)."""
    count, bindings = end - first, len(chosen)
    places, values = (device.empty(count, np.uint32) for _ in range(2))
    for number, run in enumerate(runs):
        device.launch(
            run_take,
            -(-count // TILE),
            scan,
            bindings,
            first,
            end,
            run.offsets,
            run.owners,
            run.values,
            number,
            chosen,
            places,
            values,
        )
    if len(runs) == 1:
        return places, values
    keep = device.full(count, 1, np.uint8)
    for number, run in enumerate(runs):
        device.launch(
            run_keep, count, run.offsets, run.owners, run.values, number, chosen, places, values, keep
        )
    staying = device.select(keep)
    return device.gather(places, staying), device.gather(values, staying)


def _joined(device: Device, parts: Sequence[Array]) -> Array:
    """Arrays of ids one behind the other."""
    out = device.empty(sum(map(len, parts)), np.uint32)
    start = 0
    for part in parts:
        device.copy(out[start : start + len(part)], part)
        start += len(part)
    return out


@device_kernel("u8*, u4*, u4*", streamed=8, random=1)
def run_value(i, pairs, firsts, values):
    """The value of the i-th of the pairs that differ from the one before."""
    values[i] = np.uint32(pairs[np.int64(firsts[i])] & np.uint64(0xFFFFFFFF))


@device_kernel("u8*, u4*, i8, u4*, u4*", streamed=12, random=1)
def run_shortest(i, offsets, owners, number, least, chosen):
    """Choose this run for a binding if it is shorter than the least so far."""
    length = np.uint32(0)
    if owners[i] != np.uint32(NONE):
        owner = np.int64(owners[i])
        length = np.uint32(offsets[owner + 1] - offsets[owner])
    if length < least[i]:
        least[i] = length
        chosen[i] = np.uint32(number)


@device_kernel("u8*, i8, i8, i8, u8*, u4*, u4*, i8, u4*, u4*, u4*", streamed=12 * TILE, random=4)
def run_take(i, scan, bindings, first, end, offsets, owners, values, number, chosen, places, found):
    """A tile of candidates from `first` on: the values of bindings that chose this run."""
    place = first + i * TILE
    stop = min(place + TILE, end)
    binding = span_of(scan, bindings, place)
    while place < stop:
        binding = span_after(scan, binding, place)
        if np.int64(chosen[binding]) == number:
            k = np.int64(offsets[np.int64(owners[binding])]) + place - np.int64(scan[binding])
            places[place - first] = np.uint32(binding)
            found[place - first] = values[k]
        place += 1


@device_kernel("u8*, u4*, u4*, i8, u4*, u4*, u4*, u1*", streamed=9, random=1)
def run_keep(i, offsets, owners, values, number, chosen, places, found, keep):
    """Drop a candidate that this run has not; the candidates of those who chose this run are from there."""
    binding = np.int64(places[i])
    if keep[i] and np.int64(chosen[binding]) != number:
        owner = np.int64(owners[binding])
        end = np.int64(offsets[owner + 1])
        place = first_not_less(values, np.int64(offsets[owner]), end, found[i])
        if place == end or values[place] != found[i]:
            keep[i] = np.uint8(0)
