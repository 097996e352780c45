"""Checks of rows that are taken out: of sets of every kind, of a locator and its rows, and of indexes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuengine.kernels.contract import Backend, Domain, IndexProbe, Probe, write
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cuda.selftest import Check, Kit, Mismatch, expect
from gpuengine.kernels.cuda.selftest.pipelines import index_of, pipeline_of, result
from gpuengine.kernels.filling import fill_holes
from gpuengine.kernels.primitives import NONE

_GOING = 10
"""One row in so many goes: so few that indexes are written again and not sorted anew."""
# For each kind of set: arity, and the end of the ids.
_SETS: dict[str, tuple[int, int]] = {
    "bitmap": (2, 1 << 9),
    "hashed pairs": (2, (1 << 32) - 1),
    "hashed triples": (3, 1 << 20),
    "wide rows": (5, (1 << 32) - 1),
}
# For each kind of index: its keys, and what their ids are multiples of.
_INDEXES: dict[str, tuple[tuple[int, ...], int]] = {
    "one column": ((0,), 1),
    "two columns in one key": ((0, 1), 1),
    "two columns, hashed": ((0, 1), 1 << 12),
}


def _distinct(kit: Kit, size: int, arity: int, end: int) -> list[np.ndarray]:
    rows = np.unique(np.stack([kit.ids(size, end) for _ in range(arity)]), axis=1)
    return [np.ascontiguousarray(column) for column in kit.random.permutation(rows.T).T]


def _places(kit: Kit, count: int) -> np.ndarray:
    return kit.random.permutation(count)[: count // _GOING].astype(np.uint32)


def _taken(kit: Kit, rows: Any, places: np.ndarray) -> Any:
    """The rows at some places."""
    batch = kit.backend.rows(rows.arity, len(places))
    batch.append(rows.taken(places), len(places))
    return batch


def _set_check(name: str, arity: int, end: int) -> Check:
    def run(kit: Kit) -> None:
        columns = _distinct(kit, kit.size, arity, end)
        count = len(columns[0])
        rows = kit.backend.rows(arity)
        rows.append(columns, count)
        keyset = kit.backend.keyset(arity, [(0, end)] * arity, count)
        keyset.insert(rows, 0, count)
        places = _places(kit, count)
        gone, batch = np.isin(np.arange(count), places), _taken(kit, rows, places)
        keyset.erase(batch, 0, batch.count)
        expect(kit.fetch(keyset.contains(rows, 0, count)).astype(bool), ~gone, "what is left")
        expect(kit.fetch(keyset.insert(rows, 0, count)).astype(bool), gone, "what is new again")
        expect(kit.fetch(keyset.contains(rows, 0, count)).astype(bool), np.ones(count, bool), "all of it")

    return Check(f"set: rows out of a {name}", run)


def moved_rows(kit: Kit) -> None:
    """Rows are found, and others move into the places of those that go."""
    for arity in (1, 3):
        columns = _distinct(kit, kit.size, arity, (1 << 32) - 1)
        count = len(columns[0])
        rows = kit.backend.rows(arity)
        rows.append(columns, count)
        rows.settle()
        locator: Any = kit.backend.locator(rows)
        locator.append(0, count)
        places, frozen = _places(kit, count), rows.frozen(count)
        batch = _taken(kit, rows, places)
        expect(locator.locate(batch, 0, batch.count), places, "where rows are")
        rows.unshare()
        locator.remove(places)
        movers, holes = fill_holes(count, places)
        expected = np.stack(columns)
        expected[:, holes] = expected[:, movers]
        expected = expected[:, : count - len(places)]
        expect(np.stack(rows.columns()), expected, "rows after some went")
        expect(np.stack(frozen.columns()), np.stack(columns), "rows that were frozen before")
        expect(locator.locate(batch, 0, batch.count), np.full(batch.count, NONE), "rows that went")
        left = rows.count - rows.count // _GOING
        tail = _taken(kit, rows, np.arange(left, rows.count, dtype=np.uint32))
        locator.truncate(left)
        expect(locator.locate(tail, 0, tail.count), np.full(tail.count, NONE), "rows that were cut off")
        expect(locator.locate(rows, 0, left), np.arange(left), "where the others are")


def _index_check(name: str, keys: tuple[int, ...], factor: int) -> Check:
    def run(kit: Kit) -> None:
        end = max(kit.size // 8 if len(keys) == 1 else int(kit.size**0.5), 16)
        columns = _distinct(kit, max(kit.size, 64), 3, end)
        columns[:2] = [column * np.uint32(factor) for column in columns[:2]]
        places = _places(kit, len(columns[0]))
        asked = [column[:: 1 + len(column) // 5000] for column in columns[:2]]
        payload = tuple(write(2 + n) for n in range(3 - len(keys)))

        def scenario(backend: Backend, domain: Domain) -> np.ndarray:
            index = index_of(backend, columns, keys)
            rows = index.rows
            rows.settle()
            index.ensure()
            locator = backend.locator(rows)
            locator.append(0, rows.count)
            batch = backend.rows(3, len(places))
            batch.append(rows.taken(places), len(places))
            can_follow = index.erase(batch, 0, batch.count, places)
            locator.remove(places)
            rows.append(batch.device_columns(), batch.count)
            rows.advance()
            if not (can_follow and index.ensure()):
                if not backend.on_host:
                    raise Mismatch("an index did not follow rows that went")
                index = backend.index(rows, keys, [(0, int(column.max()) + 1) for column in columns])
                index.build(exact=False)
            start = rows.delta[0]
            index.retract(start)
            rows.count = start
            rows.settle()
            rows.append([column[places[::2]] for column in columns], len(places[::2]))
            rows.advance()
            index.ensure()
            probe = IndexProbe(index, domain, tuple(range(len(keys))), payload)
            return result(backend, pipeline_of(backend, asked, (Probe((probe,)),), (0, 1, *payload)))

        for domain in Domain:
            found, expected = scenario(kit.backend, domain), scenario(CPU, domain)
            expect(found, expected, f"matches in {domain.name} after rows went and came")

    return Check(f"index: rows out of one by {name}", run)


CHECKS = (
    *(_set_check(name, *shape) for name, shape in _SETS.items()),
    Check("rows: moved into the places of others", moved_rows),
    *(_index_check(name, *shape) for name, shape in _INDEXES.items()),
)
