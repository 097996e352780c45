"""Operations that filter a batch: contains, exists, compare. They clear marks; nothing moves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpuengine.kernels.contract import IGNORE, Compare, Contains, Exists, Representation
from gpuengine.kernels.cuda.batch import Batch
from gpuengine.kernels.cuda.columns import (
    compare_floats,
    compare_ids,
    compare_numbers,
    compare_unsigned,
    keep_nonzero,
    keep_zero,
    mark_origins,
)
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.expansion import count_found, expand_probe, find, pair_matches
from gpuengine.kernels.cuda.values import ValueMirror

_VALUE_KERNELS = {
    Representation.BY_NUMBER: compare_numbers,
    Representation.BY_UNSIGNED: compare_unsigned,
    Representation.BY_FLOAT: compare_floats,
}


class Filters:
    """Applies filters to batches on a device."""

    def __init__(self, device: Device, values: ValueMirror) -> None:
        self._device = device
        self._values = values

    def apply(self, operation: Contains | Exists | Compare, batch: Batch, chosen: Mapping[int, int]) -> None:
        """Unmark the bindings that fail; `chosen` are the alternatives that the batch's probes took."""
        if isinstance(operation, Contains):
            unless = operation.unless
            if unless is None or chosen.get(unless[0]) != unless[1]:
                columns = [batch.column(register) for register in operation.registers]
                operation.keyset.filter(columns, batch.count, batch.mask(), negated=operation.negated)
        elif isinstance(operation, Exists):
            wanted = keep_zero if operation.negated else keep_nonzero
            self._device.launch(wanted, batch.count, self._matched(operation, batch), batch.mask())
        else:
            self._compare(operation, batch)

    def _compare(self, operation: Compare, batch: Batch) -> None:
        left, right = batch.column(operation.left), batch.column(operation.right)
        comparator = int(operation.comparator)
        if operation.values is None or operation.representation is Representation.BY_ID:
            self._device.launch(compare_ids, batch.count, comparator, left, right, batch.mask())
        else:
            values = self._values.array(operation.values)
            kernel = _VALUE_KERNELS[operation.representation]
            self._device.launch(kernel, batch.count, comparator, left, right, values, batch.mask())

    def _matched(self, operation: Exists, batch: Batch) -> Array:
        """For each binding a number that is not 0 if it has a match."""
        device, probe = self._device, operation.probe
        matches = find(device, probe, batch)
        if not probe.index.verifies and all(binding == IGNORE for binding in probe.payload):
            return matches.counts
        found = count_found(device, probe, batch, matches)
        marks = device.full(batch.count, 0, np.uint32)
        for base in range(0, found.total, device.chunk_items):
            pairs = pair_matches(device, found, base, min(base + device.chunk_items, found.total))
            grown = expand_probe(found, pairs, ())
            device.launch(mark_origins, pairs.count, pairs.origins, grown.mask(), marks)
        return marks
