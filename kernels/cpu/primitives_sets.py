"""What kernels over ascending keys share."""

from __future__ import annotations

from gpuengine.kernels.cpu.jit import device


@device
def gallop(keys, start, count, key):
    """The first place from `start` on whose key is not less than `key`; near ones are found sooner."""
    if start >= count or keys[start] >= key:
        return start
    low = start
    step = 1
    while low + step < count and keys[low + step] < key:
        low += step
        step += step
    high = low + step if low + step < count else count
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@device
def copy_keys(keys, start, count, out, written):
    """Append the keys from `start` on; how many are written then."""
    for place in range(start, count):
        out[written] = keys[place]
        written += 1
    return written
