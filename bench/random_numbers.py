"""Random integers that are the same on every machine and with every numpy: splitmix64 by position.

Recorded result sizes rest on them, so they must not depend on a library's choice of generator.
"""

from __future__ import annotations

import numpy as np


def words(seed: int, count: int) -> np.ndarray:
    """`count` random 64-bit words of the stream `seed`."""
    with np.errstate(over="ignore"):
        state = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 40)
        state *= np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def below(seed: int, count: int, bound: int) -> np.ndarray:
    """`count` random int64 in ``[0, bound)``; `bound` below 2**32."""
    high = words(seed, count) >> np.uint64(32)
    return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def unit(seed: int, count: int) -> np.ndarray:
    """`count` random float64 in ``[0, 1)``."""
    return (words(seed, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
