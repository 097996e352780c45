"""Probe and scan: from a batch of bindings to the batch of all their matches, a chunk at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.contract import IGNORE, IndexProbe, Probe
from gpuengine.kernels.cuda.batch import Batch, Gathered
from gpuengine.kernels.cuda.columns import choose_fewer, flag_equal, keep_equal, keep_matching
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.join_kernels import TILE, expand_matches, expand_product
from gpuengine.kernels.cuda.rowindex import Matches
from gpuengine.kernels.cuda.rows import Rows

UNKNOWN = -1
_FILTER_BYTES = 24
"""What a filter or a sink takes for a binding beside its columns."""


@dataclass(frozen=True)
class Pairs:
    """Candidates: `origins` are numbers of bindings, `matches` row numbers."""

    origins: Array
    matches: Array
    count: int


@dataclass(frozen=True)
class Found:
    """The matches of a batch's bindings for one probe; `total` candidates in all, `offsets` by binding.

    `total` is UNKNOWN if nobody has waited for it.
    """

    probe: IndexProbe
    batch: Batch
    matches: Matches
    offsets: Array
    total: int


def find(device: Device, probe: IndexProbe, batch: Batch) -> Matches:
    """Look the bindings' keys up."""
    keys = [batch.column(register) for register in probe.keys]
    matches: Matches = probe.index.find(keys, batch.count, probe.domain)
    return matches


def count_found(device: Device, probe: IndexProbe, batch: Batch, matches: Matches) -> Found:
    """Number the candidates; waits for their total."""
    offsets = device.offsets(matches.counts)
    total = int(device.read(offsets[batch.count :])[0])
    return Found(probe, batch, matches, offsets, total)


def number_found(device: Device, probe: IndexProbe, batch: Batch) -> Found:
    """Look up and number candidates without waiting for their total."""
    matches = find(device, probe, batch)
    return Found(probe, batch, matches, device.offsets(matches.counts), UNKNOWN)


def choose(
    device: Device, operation: Probe, batch: Batch, needed: Collection[int]
) -> Iterator[tuple[int, Found]]:
    """Part the batch by the alternative that has the fewest matches; each part with its number."""
    found = [find(device, probe, batch) for probe in operation.alternatives]
    if len(found) == 1:
        yield 0, count_found(device, operation.alternatives[0], batch, found[0])
        return
    least = device.empty(batch.count, np.uint32)
    device.copy(least, found[0].counts)
    chosen = device.full(batch.count, 0, np.uint32)
    for number, matches in enumerate(found[1:], 1):
        device.launch(choose_fewer, batch.count, matches.counts, number, least, chosen)
    for number, probe in enumerate(operation.alternatives):
        flags = device.empty(batch.count, np.uint8)
        device.launch(flag_equal, batch.count, chosen, number, flags)
        positions = device.select(flags)
        if len(positions):
            part = batch.take(positions, needed)
            matches = Matches(*(device.gather(column, positions) for column in found[number].arrays))
            yield number, count_found(device, probe, part, matches)


def pair_matches(device: Device, found: Found, base: int, end: int) -> Pairs:
    """Candidates [base, end) of a probe."""
    index = found.probe.index
    origins = device.empty(end - base, np.uint32)
    matches = device.empty(end - base, np.uint32)
    device.launch(
        expand_matches,
        -(-(end - base) // TILE),
        base,
        end,
        found.batch.count,
        found.offsets,
        *found.matches.starts,
        index.main.pairs,
        index.recent.pairs,
        origins,
        matches,
    )
    return Pairs(origins, matches, end - base)


def pair_all(device: Device, rows: int, base: int, end: int) -> Pairs:
    """Candidates [base, end) of every binding with each of `rows` rows."""
    origins = device.empty(end - base, np.uint32)
    matches = device.empty(end - base, np.uint32)
    device.launch(expand_product, end - base, base, rows, origins, matches)
    return Pairs(origins, matches, end - base)


def expand(
    batch: Batch,
    pairs: Pairs,
    rows: Rows,
    columns: Sequence[int],
    bindings: Sequence[int],
    needed: Collection[int],
) -> Batch:
    """The batch of the candidates: bound by `bindings` to the given columns of their matching rows."""
    device = batch.device
    # What comes next makes columns, keys and marks: a chunk for which there is no room is too large.
    device.ensure_room(pairs.count * (4 * len(needed) + _FILTER_BYTES))
    grown = Batch(device, pairs.count, {}, batch.constants)
    for register in [register for register in batch.columns if register in needed]:
        # Made here, where there are fewer of them than of the candidates.
        grown.columns[register] = Gathered(batch.column(register), pairs.origins)
    for position, (j, binding) in enumerate(zip(columns, bindings, strict=True)):
        if binding >= 0:
            grown.columns[binding] = Gathered(rows.device_column(j), pairs.matches)
        elif binding != IGNORE:
            register = -2 - binding
            bound_before = None if register in bindings[:position] else batch
            _check(grown, pairs, rows.device_column(j), register, bound_before)
    return grown


def _check(grown: Batch, pairs: Pairs, column: Array, register: int, bound_before: Batch | None) -> None:
    """Unmark the candidates whose matching row does not have the register's value in a column.

    The value is that of the batch they came from, or if that is None, one that they got from the same row.
    """
    device = grown.device
    if bound_before is None:
        again = device.gather(column, pairs.matches)
        device.launch(keep_equal, pairs.count, again, grown.column(register), grown.mask())
    else:
        expected = bound_before.column(register)
        device.launch(
            keep_matching, pairs.count, column, pairs.matches, expected, pairs.origins, grown.mask()
        )


def expand_probe(found: Found, pairs: Pairs, needed: Collection[int]) -> Batch:
    """The batch of the candidates of a probe, with hashed keys verified."""
    index = found.probe.index
    payload = [j for j in range(index.rows.arity) if j not in index.keys]
    bindings = list(found.probe.payload)
    if index.verifies:
        payload = [*index.keys, *payload]
        bindings = [*(-2 - register for register in found.probe.keys), *bindings]
    return expand(found.batch, pairs, index.rows, payload, bindings, needed)
