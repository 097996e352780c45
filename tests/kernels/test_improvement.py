"""Pipelines into best values, whatever their shape and however often suspended, against dictionaries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import (
    CalculationStep,
    Compute,
    Domain,
    Driver,
    Improve,
    IndexProbe,
    Operation,
    Operator,
    Pipeline,
    Probe,
    Status,
    Within,
    write,
)
from gpuengine.kernels.cpu import groups
from gpuengine.kernels.cpu.groups import BestValues
from gpuengine.kernels.cpu.improvement import BATCH_ROWS
from gpuengine.kernels.cpu.indexes import RowIndex
from gpuengine.kernels.cpu.merging import RoundMerge
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.language.program import FLOAT, NUMBER, UNSIGNED
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.ranks import order_keys

TYPES = {"number": NUMBER, "unsigned": UNSIGNED, "float": FLOAT}
FULL = (1 << 32) - 1
X, V, Y, W, SUM, Z = range(6)


class Kept:
    """The best values of a relation of so many columns, the last of which is the value."""

    def __init__(self, arity: int, space: str, *, largest: bool) -> None:
        self.arity, self.type, self.largest = arity, TYPES[space], largest
        self.dictionary = Dictionary()
        self.words = self.dictionary.word_tables[space]
        self.best = BestValues(max(1, arity - 1))
        self.merge = RoundMerge(self.best, arity, arity - 1, space, self.words, largest=largest)
        self.refresh()

    def ids(self, values: np.ndarray) -> np.ndarray:
        return self.words.intern(np.ascontiguousarray(values).view(np.uint64))

    def refresh(self) -> None:
        self.merge.refresh([(0, FULL)] * self.arity, np.full(len(self.best.ids) + 1, -1, np.int64))

    def order(self, ids: np.ndarray) -> np.ndarray:
        keys = order_keys(ids, self.type, self.dictionary, largest=self.largest)
        assert keys is not None
        return keys

    def take(self, out: Rows) -> None:
        columns = [column.copy() for column in out.columns()]
        keys = columns[:-1] or [np.zeros(out.count, np.uint32)]
        self.best.offer(keys, self.order(columns[-1]), columns[-1])
        out.count = 0
        self.refresh()

    def told(self) -> dict[tuple[int, ...], int]:
        """The key of each value that is told, and the integer that orders it."""
        improved = self.best.improved()
        keys = [self.best.keys.rows.column(j)[improved].tolist() for j in range(self.best.keys.rows.arity)]
        found = self.order(self.best.ids[improved]).tolist()
        made = dict(zip(zip(*keys, strict=True), found, strict=True))
        assert len(made) == len(found), "each key once"
        return made

    def run(self, program: Program, spans: list[tuple[int, int]], room: int) -> list[Status]:
        """Drive rows of a program; how often it was suspended, and why."""
        out, seen = Rows(self.arity, 1), []
        out.reserve(room)
        out.limit(room)
        for span in spans:
            status = program.run(out, *span)
            while status is not Status.DONE:
                seen.append(status)
                if status is Status.WORDS_FULL:
                    self.words.make_room()
                else:
                    assert status is Status.FULL
                    self.take(out)
                status = program.resume(out)
            self.take(out)
        return seen


def _rows(columns: list[np.ndarray]) -> Rows:
    made = Rows(len(columns), len(columns[0]))
    made.append([np.asarray(column, np.uint32) for column in columns], len(columns[0]))
    made.advance()
    return made


def _values(random: np.random.Generator, space: str, count: int, spread: int) -> np.ndarray:
    values = random.integers(-spread if space != "unsigned" else 0, spread, count)
    return values.astype({"number": np.int64, "unsigned": np.uint64, "float": np.float64}[space])


def _sum(kept: Kept, space: str) -> Compute:
    add = Operator.ADD_FLOAT if space == "float" else Operator.ADD
    loads = [CalculationStep(Operator.LOAD, register, kept.words) for register in (V, W)]
    return Compute((*loads, CalculationStep(add)), SUM, kept.words)


class Case:
    """A driver of (x, v), facts (x, y, w) found by x, and what a pipeline of a shape offers of them."""

    def __init__(self, seed: int, shape: str, kept: Kept, space: str) -> None:
        random = np.random.default_rng(seed)
        nodes = int(random.choice([3, 40, 400]))
        spread = int(random.choice([4, 1000, 1 << 40]))
        rows, facts = int(random.choice([1, 30, 500])), int(random.choice([2, 200, 3000]))
        step = int(random.choice([1, 1 << 21]))
        x = random.integers(0, nodes, rows) * step
        v = kept.ids(_values(random, space, rows, spread))
        a, y = random.integers(0, nodes, (2, facts)) * step
        w = kept.ids(_values(random, space, facts, spread))
        self.rows = rows
        driver = _rows([x, v])
        index = RowIndex(_rows([a, y, w]), [0], [(0, int(max(a.max(), x.max())) + 1), (0, FULL), (0, FULL)])
        index.build(exact=True)
        probe = Probe((IndexProbe(index, Domain.ALL, (X,), (write(Y), write(W))),))
        further = Probe((IndexProbe(index, Domain.ALL, (Y,), (write(Z), -1)),))
        one, other = np.nonzero(x[:, None] == a[None, :])
        operations: dict[str, tuple[Operation, ...]] = {
            "driver": (),
            "probe": (probe,),
            "found": (probe,),
            "sum": (probe, _sum(kept, space)),
            "within": (probe, _sum(kept, space), Within((SUM,), [(0, FULL)])),
            "two": (probe, further),
        }
        values = {"driver": V, "probe": V, "found": W, "two": V}
        value = values.get(shape, SUM)
        names = {"driver": [X, X, X], "two": [Z, X, Y]}.get(shape, [Y, X, Y])
        keys = names[: kept.arity - 1]
        sink = Improve(kept.merge, (*keys, value))
        self.pipeline = Pipeline(Driver(driver, (write(X), write(V))), operations[shape], sink, 6)
        columns: dict[int, np.ndarray] = {X: x[one], V: v[one], Y: y[other], W: w[other]}
        if shape == "driver":
            columns = {X: x, V: v}
        if shape in ("sum", "within"):
            known = [kept.dictionary.values(space, ids) for ids in (columns[V], columns[W])]
            columns[SUM] = kept.ids(known[0] + known[1])
        if shape == "two":
            first, second = np.nonzero(columns[Y][:, None] == a[None, :])
            columns = {name: column[first] for name, column in columns.items()} | {Z: y[second]}
        self.expected: dict[tuple[int, ...], int] = {}
        count = len(columns[value])
        parts = [columns[key].tolist() for key in keys] or [[0] * count]
        for row in zip(*parts, kept.order(columns[value]).tolist(), strict=True):
            key, found = row[:-1], row[-1]
            self.expected[key] = min(found, self.expected.get(key, found))


SHAPES = ["driver", "probe", "found", "sum", "within", "two"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("space", list(TYPES))
@pytest.mark.parametrize("seed", range(12))
def test_each_key_has_its_best_value_and_is_told_once(
    seed: int, space: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_DIRECT_IDS", [1 << 20, 1][seed % 2])
    kept = Kept(1 + seed % 4, space, largest=seed % 3 == 0)
    case = Case(seed, shape, kept, space)
    program = Program(case.pipeline)
    room = [1, 2, BATCH_ROWS, 1 << 16][seed % 4]
    cut = case.rows // 2
    kept.run(program, [(0, cut), (cut, case.rows)], room)
    assert kept.told() == case.expected
    kept.run(program, [(0, case.rows)], room)
    assert kept.told() == {}, "what is as good is not better"


def test_values_that_are_new_to_the_dictionary_suspend_a_run_in_the_midst_of_a_batch() -> None:
    kept = Kept(2, "number", largest=False)
    count = 30_000
    driver = _rows([np.arange(count), np.full(count, kept.ids(np.array([1 << 50]))[0])])
    index = RowIndex(
        _rows([np.arange(count), np.arange(count), kept.ids(np.arange(count)[::-1].copy())]),
        [0],
        [(0, count), (0, FULL), (0, FULL)],
    )
    index.build(exact=True)
    probe = Probe((IndexProbe(index, Domain.ALL, (X,), (write(Y), write(W))),))
    operations = (probe, _sum(kept, "number"))
    sink = Improve(kept.merge, (Y, SUM))
    program = Program(Pipeline(Driver(driver, (write(X), write(V))), operations, sink, 6))
    seen = kept.run(program, [(0, count)], 1000)
    assert Status.WORDS_FULL in seen and Status.FULL in seen
    assert kept.told() == {(n,): (1 << 50) + count - 1 - n for n in range(count)}
    known = len(kept.words.words)
    worse = _rows([np.arange(count), np.full(count, kept.ids(np.array([1 << 51]))[0])])
    pipeline = Pipeline(Driver(worse, (write(X), write(V))), operations, sink, 6)
    kept.run(Program(pipeline), [(0, count)], 1000)
    assert kept.told() == {} and len(kept.words.words) == known + 1, "only what is better is interned"


def test_a_value_outside_the_bounds_ends_the_run_with_its_row() -> None:
    kept = Kept(2, "number", largest=False)
    driver = _rows([np.array([7]), np.array([5])])
    index = RowIndex(_rows([np.array([7]), np.array([9]), np.array([4])]), [0], [(7, 8), (9, 10), (4, 5)])
    index.build(exact=True)
    probe = Probe((IndexProbe(index, Domain.ALL, (X,), (write(Y), write(W))),))
    operations = (probe, _sum(kept, "number"), Within((SUM,), [(0, 9)]))
    sink = Improve(kept.merge, (Y, SUM))
    program = Program(Pipeline(Driver(driver, (write(X), write(V))), operations, sink, 6))
    assert program.run(Rows(2, 10), 0, 1) is Status.OUTSIDE
    assert program.row() == (9, 9)


@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("space", list(TYPES))
def test_threads_improve_the_same_keys(arity: int, space: str) -> None:
    kept = Kept(arity, space, largest=False)
    random = np.random.default_rng(arity)
    nodes, count, threads = 50, 400_000, 4
    x = random.integers(0, nodes, count)
    values = kept.ids(_values(random, space, count, 1 << 40))
    driver = _rows([x, values])
    sink = Improve(kept.merge, (*[X] * (arity - 1), V))
    program = Program(Pipeline(Driver(driver, (write(X), write(V))), (), sink, 6))
    kept.run(program, [(0, 1000)], 100)
    before = kept.told()
    assert len(before) == nodes
    programs = [program.copy() for _ in range(threads)]
    outs = [Rows(arity, 10) for _ in range(threads)]
    spans = [(at, min(at + 1000, count)) for at in range(0, count, 1000)]

    def work(worker: int) -> list[Status]:
        return [programs[worker].run(outs[worker], *span) for span in spans[worker::threads]]

    with kept.merge.shared(), ThreadPoolExecutor(threads) as pool:
        seen: list[Any] = list(pool.map(work, range(threads)))
    assert {status for each in seen for status in each} == {Status.DONE}
    assert not any(out.count for out in outs), "every key is known"
    order = kept.order(values)
    best = {(node,) * (arity - 1): int(order[x == node].min()) for node in range(nodes)}
    assert kept.told() == {key: value for key, value in best.items() if value < before[key]}
    assert kept.told() == {}
