"""The unit of speed: seconds that ``np.sort`` takes for 10 M random ``uint64``, one core.

Run as a process (``python -m bench.unit``) so that the harness does not hold the array.
"""

from __future__ import annotations

import json
import time

KEYS = 10_000_000


def measure(repeat: int = 3) -> float:
    """Best of `repeat` sorts of fresh random keys."""
    import numpy as np

    rng = np.random.default_rng(1)
    best = float("inf")
    for _ in range(repeat):
        keys = rng.integers(0, 2**63, KEYS, dtype=np.uint64)
        start = time.perf_counter()
        np.sort(keys)
        best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    print(json.dumps({"seconds": measure()}))
