"""What passes over edges of a closure or an equivalence that go.

If rules of its own stratum read a relation, what an edge supports may be what supports the edge. Then all
that passes over an edge loses a derivation, also where other edges still lead from one end to the other:

    r(x, y) :- e(x, y).   r(x, z) :- r(x, y), r(y, z).   r(y, x) :- r(x, y).          e(1, 2) goes:
    r(1, 1) passes over (1, 2), and (1, 2), by (2, 1), over (1, 1).
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.contract import Columns, Scheme
from gpuengine.schemes.pairs import BACKWARD, FORWARD
from gpuengine.schemes.table import Table


def facts_over(state: Scheme, edges: Columns, most: int) -> Table | None:
    """The facts of a relation that pass over some of its edges; None if they are more than `most`."""
    count = len(edges[0])
    sources, source_starts = _ends(state, BACKWARD, edges[0])
    targets, target_starts = _ends(state, FORWARD, edges[1])
    if int((np.diff(source_starts) * np.diff(target_starts)).sum()) > most:
        return None
    before, after = np.diff(source_starts), np.diff(target_starts)
    pairs = before * after
    edge = np.repeat(np.arange(count), pairs)
    number = np.arange(len(edge)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    first = sources[source_starts[edge] + number // after[edge]]
    last = targets[target_starts[edge] + number % after[edge]]
    found = Table(state.name, 2, CPU)
    found.insert([first, last], len(edge))
    found.settle()
    return found


def _ends(state: Scheme, column: int, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each id and its partners by a column, side by side, and where those of each begin."""
    places, partners = [np.arange(len(ids))], [ids]
    for found, (values,) in state.expand({column: ids}, len(ids)):
        places.append(found.astype(np.int64))
        partners.append(values)
    place = np.concatenate(places)
    order = np.argsort(place, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(ids)))])
    return np.concatenate(partners)[order], starts
