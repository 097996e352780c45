"""Checks of rounds that a device runs ahead of the host: what they derive is what single rounds derive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuengine.kernels.contract import (
    IGNORE,
    Backend,
    Domain,
    Driver,
    IndexProbe,
    Insert,
    Pipeline,
    Probe,
    RoundsEnd,
    Status,
    check,
    write,
)
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cuda.selftest import Check, Kit, Mismatch, expect
from gpuengine.kernels.cuda.selftest.pipelines import index_of

Columns = Sequence[np.ndarray]
_ROOM = 16
_ROUNDS = 4


class _Head:
    """A relation with a set that is made anew when it may hold what the rows do not."""

    def __init__(self, backend: Backend, columns: Columns, bounds: Sequence[tuple[int, int]]) -> None:
        self.backend, self.bounds = backend, bounds
        self.rows = backend.rows(len(columns))
        distinct, count = backend.distinct_rows([backend.column(one) for one in columns], len(columns[0]))
        self.rows.append(distinct, count)
        self.rows.advance()
        self.make_room()

    def make_room(self) -> None:
        """Room for a few more rows than there are."""
        self.rows.reserve(self.rows.count + _ROOM)
        self.keyset = self.backend.keyset(len(self.bounds), self.bounds, self.rows.capacity)
        self.keyset.insert(self.rows, 0, self.rows.count)

    def double(self) -> None:
        self.rows.reserve(2 * self.rows.count)
        self.make_room()

    def found(self) -> np.ndarray:
        found = np.stack(self.rows.columns(), axis=1)
        return found[np.lexsort(found.T[::-1])]


def _pipelines(heads: Sequence[_Head], index: Any, *, checked: bool) -> list[tuple[Pipeline, Any]]:
    """far(x, z) :- near(x, y), edge(y, z) and the other way round; `checked` has y among a third column."""
    made = []
    for driver, head in zip(heads, (*heads[1:], heads[0]), strict=True):
        payload = (write(2), check(0)) if checked else (write(2), IGNORE)
        probe = Probe((IndexProbe(index, Domain.ALL, (1,), payload),))
        sink = Insert(head.keyset, (0, 2))
        pipeline = Pipeline(Driver(driver.rows, (write(0), write(1))), (probe,), sink, 3)
        made.append((pipeline, head.rows))
    return made


def _single_rounds(heads: Sequence[_Head], index: Any, *, checked: bool) -> None:
    while any(head.rows.delta[0] < head.rows.delta[1] for head in heads):
        for pipeline, out in _pipelines(heads, index, checked=checked):
            program = CPU.program(pipeline, np.zeros(1, np.int64))
            status = program.run(out, *pipeline.driver.rows.delta)
            while status is Status.FULL:
                out.reserve(2 * out.capacity)
                for head in heads:
                    head.keyset.reserve(head.rows.capacity, head.rows)
                status = program.resume(out)
        for head in heads:
            head.rows.advance()


def _rounds_ahead(heads: Sequence[_Head], index: Any, *, checked: bool) -> None:
    while True:
        ahead = heads[0].backend.rounds_ahead(_pipelines(heads, index, checked=checked))
        if ahead is None:
            raise Mismatch("rounds can't be run ahead")
        end, rounds = ahead.run(_ROUNDS)
        while end is RoundsEnd.MORE:
            end, rounds = ahead.run(_ROUNDS)
        if end is RoundsEnd.FIXPOINT:
            return
        if end is RoundsEnd.FULL:
            for head in heads:
                head.double()
        elif not rounds:
            raise Mismatch("no round is complete, and none had too little room")


def _rounds_check(name: str, relations: int, factor: int, *, checked: bool) -> Check:
    def run(kit: Kit) -> None:
        nodes = max(int(kit.size**0.5) // 2, 8)
        ends = [kit.ids(2 * nodes, nodes) * np.uint32(factor) for _ in range(2)]
        edges = [*ends, kit.random.permutation(ends[0])] if checked else [*ends, ends[0]]
        bounds = [(0, int(max(end.max() for end in ends)) + 1)] * 2
        outcomes = []
        for backend in (kit.backend, CPU):
            index = index_of(backend, edges, (0,))
            heads = [_Head(backend, ends, bounds)]
            heads += [_Head(backend, [end[:1] for end in ends], bounds) for _ in range(relations - 1)]
            (_single_rounds if backend is CPU else _rounds_ahead)(heads, index, checked=checked)
            outcomes.append([head.found() for head in heads])
        for number, (found, expected) in enumerate(zip(*outcomes, strict=True)):
            expect(found, expected, f"relation {number}")

    return Check(f"rounds ahead: {name}", run)


CHECKS = (
    _rounds_check("a closure, bitmap", 1, 1, checked=False),
    _rounds_check("a closure, hashed", 1, 20_000_003, checked=False),
    _rounds_check("two relations by turns", 2, 1, checked=False),
    _rounds_check("matches with a check", 1, 20_000_003, checked=True),
)
