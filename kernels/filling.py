"""Which rows fill the places of those that go, so that rows stay side by side."""

from __future__ import annotations

import numpy as np


def fill_holes(rows: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of so many rows those at `places`, distinct and in any order, go: (movers, holes), int64, equally long.

    With n rows left, those of the last ones that stay move to the places below n.
    """
    gone = np.asarray(places, np.int64)
    left = rows - len(gone)
    stays = np.ones(len(gone), np.bool_)
    stays[gone[gone >= left] - left] = False
    movers = np.flatnonzero(stays).astype(np.int64, copy=False) + left
    return movers, gone[gone < left]
