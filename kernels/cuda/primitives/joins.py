"""Semi-joins and anti-joins on a device: a set of the right rows, in which the left ones are looked up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.keyset import KeySet


def matching(device: Device, left: Sequence[Array], right: Sequence[Array], *, negated: bool) -> Array:
    """The places of the left rows that equal a right one, or (`negated`) none.

    Waits for the bounds of each right column and for the result; once more if rows don't pack into 64 bits.
    """
    count, others = len(left[0]), len(right[0])
    if not count or not (others or negated):
        return device.empty(0, np.uint32)
    keep = device.full(count, 1, np.uint8)
    if others:
        bounds = [(least, greatest + 1) for least, greatest in map(device.least_and_greatest, right)]
        held = KeySet(device, len(right), bounds, others)
        held.insert_columns(right, others, device.full(others, 1, np.uint8))
        held.filter(left, count, keep, negated=negated)
    return device.select(keep)
