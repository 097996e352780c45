"""Rounds in one compiled call against rounds of a Python loop, however often the call has to return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from gpuengine.kernels.contract import Domain, Driver, IndexProbe, Insert, Pipeline, Probe, write
from gpuengine.kernels.cpu import rounds
from gpuengine.kernels.cpu.indexes import RowIndex
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.sets import KeySet
from tests.kernels.backends import ID_END, columns_of

Pairs = set[tuple[int, int]]
State = dict[str, Pairs]
UNLIMITED = 1 << 62


class Relation:
    """A binary relation as a table keeps it: rows, their set, an index by each column."""

    def __init__(self, pairs: Pairs, end: int) -> None:
        self.rows = Rows(2)
        self.rows.append(columns_of(sorted(pairs), 2), len(pairs))
        self.rows.advance()
        self.keyset = KeySet(2, [(0, end)] * 2, len(pairs))
        self.keyset.insert(self.rows, 0, len(pairs))
        self.indexes = [RowIndex(self.rows, (column,), [(0, end)] * 2) for column in (0, 1)]
        for index in self.indexes:
            index.build(exact=False)
        self.make_room(1)

    def make_room(self, extra: int) -> None:
        """Room for `extra` rows and not one more."""
        count = self.rows.count + extra
        self.rows.reserve(count)
        self.keyset.reserve(count, self.rows)
        self.rows.limit(count)

    def pairs(self, start: int = 0, end: int | None = None) -> Pairs:
        first, second = (column.tolist() for column in self.rows.columns())
        return set(zip(first[start:end], second[start:end], strict=True))

    @property
    def delta(self) -> Pairs:
        return self.pairs(*self.rows.delta)


@dataclass
class Stratum:
    """Relations by name, and variants ``head(x, z) :- left(x, y), right(y, z)`` with their driver's side."""

    relations: dict[str, Relation]
    stop: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    programs: list[tuple[Program, Rows, str]] = field(default_factory=list)
    seen: Counter[int] = field(default_factory=Counter)

    def add_variant(self, head: str, left: str, right: str, delta: str, old: bool = False) -> None:
        """The delta drives from the `delta` side; the other atom reads OLD if `old`."""
        from_left = delta == "left"
        driver = self.relations[left if from_left else right]
        other = self.relations[right if from_left else left]
        bindings = (write(0), write(1)) if from_left else (write(1), write(2))
        index = other.indexes[0 if from_left else 1]
        target = 2 if from_left else 0
        probe = IndexProbe(index, Domain.OLD if old else Domain.ALL, (1,), (write(target),))
        sink = Insert(self.relations[head].keyset, (0, 2))
        pipeline = Pipeline(Driver(driver.rows, bindings), (Probe((probe,)),), sink, 3)
        self.programs.append((Program(pipeline, self.stop), driver.rows, head))

    def control(self, delta_limit: int = UNLIMITED, work_limit: int = UNLIMITED) -> np.ndarray:
        control = np.zeros(rounds.CONTROL_WORDS, np.int64)
        control[rounds.CONTROL_DELTA_LIMIT] = delta_limit
        control[rounds.CONTROL_WORK_LIMIT] = work_limit
        control[rounds.CONTROL_STOP] = self.stop.ctypes.data
        control[rounds.CONTROL_TURN] = UNLIMITED
        return control

    def plan(self, growing: list[str]) -> np.ndarray:
        words = [len(self.programs), len(growing)]
        for program, driver, head in self.programs:
            words += [program.code.ctypes.data, program.state.ctypes.data, driver.address]
            words += [self.relations[head].rows.address, 0]
        entries = len(words)
        words += [0] * len(growing)
        for number, name in enumerate(growing):
            relation = self.relations[name]
            words[entries + number] = len(words)
            words += [relation.rows.address, 0, 2, 2, *(index.address for index in relation.indexes)]
        return np.array(words, np.int64)

    def run(self, plan: np.ndarray, control: np.ndarray, growing: list[str], room: int) -> int:
        """Until something else than lack of room ends the call; rows grow by `room`."""
        while True:
            status = rounds.run_rounds(plan, control)
            self.seen[status] += 1
            if status == rounds.ROWS_FULL:
                self.relations[self.programs[control[rounds.CONTROL_VARIANT]][2]].make_room(room)
            elif status == rounds.INDEX_FULL:
                relation = self.relations[growing[control[rounds.CONTROL_RELATION]]]
                relation.indexes[control[rounds.CONTROL_INDEX]].make_room()
            else:
                return status


def join(left: Pairs, right: Pairs) -> Pairs:
    by_first: dict[int, list[int]] = {}
    for y, z in right:
        by_first.setdefault(y, []).append(z)
    return {(x, z) for x, y in left for z in by_first.get(y, ())}


def loop(state: State, step: Callable[[State], State]) -> list[State]:
    """The new pairs of each round, in plain Python; the last round has none."""
    deltas: list[State] = []
    while not deltas or any(deltas[-1].values()):
        derived = step(state)
        deltas.append({name: derived[name] - state[name] for name in derived})
        state = {name: state[name] | derived.get(name, set()) for name in state}
    return deltas


def linear(edges: Pairs, end: int) -> tuple[Stratum, list[str], list[State]]:
    stratum = Stratum({"edge": Relation(edges, end), "path": Relation(edges, end)})
    stratum.add_variant("path", "path", "edge", "left")
    state = {"edge": edges, "path": edges}
    return stratum, ["path"], loop(state, lambda s: {"path": join(s["path"], s["edge"])})


def nonlinear(edges: Pairs, end: int) -> tuple[Stratum, list[str], list[State]]:
    stratum = Stratum({"path": Relation(edges, end)})
    stratum.add_variant("path", "path", "path", "left")
    stratum.add_variant("path", "path", "path", "right", old=True)
    return stratum, ["path"], loop({"path": edges}, lambda s: {"path": join(s["path"], s["path"])})


def mutual(edges: Pairs, end: int) -> tuple[Stratum, list[str], list[State]]:
    """Walks of odd and of even length."""
    stratum = Stratum(
        {"edge": Relation(edges, end), "odd": Relation(edges, end), "even": Relation(set(), end)}
    )
    stratum.add_variant("even", "odd", "edge", "left")
    stratum.add_variant("odd", "edge", "even", "right")
    state: State = {"edge": edges, "odd": edges, "even": set()}

    def step(s: State) -> State:
        return {"even": join(s["odd"], s["edge"]), "odd": join(s["edge"], s["even"])}

    return stratum, ["odd", "even"], loop(state, step)


def joined(edges: Pairs, end: int) -> tuple[Stratum, list[str], list[State]]:
    """One pair that is old from the second round on, and what it leads to: only OLD facts tell it."""
    first = min(edges)[0] if edges else 0
    names: State = {"edge": edges, "entry": {(end - 1, first)}, "path": edges, "both": set()}
    stratum = Stratum({name: Relation(pairs, end) for name, pairs in names.items()})
    stratum.add_variant("path", "path", "edge", "left")
    stratum.add_variant("both", "entry", "path", "left")
    stratum.add_variant("both", "entry", "path", "right", old=True)

    def step(s: State) -> State:
        return {"entry": s["entry"], "path": join(s["path"], s["edge"]), "both": join(s["entry"], s["path"])}

    return stratum, ["entry", "path", "both"], loop(names, step)


def random_graph(seed: int, nodes: int, count: int, spread: int) -> Pairs:
    rng = np.random.default_rng(seed)
    numbers = (rng.integers(0, nodes, (count, 2)) * spread).tolist()
    return {(x, y) for x, y in numbers}


CHAIN: Pairs = {(i, i + 1) for i in range(60)}
GRAPHS = {
    "empty": (set(), 4),
    "one edge": ({(0, 1)}, 4),
    "loop": ({(1, 1)}, 4),
    "two edges": ({(0, 1), (1, 3)}, 4),
    "chain": (CHAIN, 61),
    "cycle": ({(i, (i + 1) % 23) for i in range(23)}, 23),
    "random, dense ids": (random_graph(1, 45, 90, 1), 45),
    "random, spread ids": (random_graph(2, 60, 100, 70_000_001), ID_END),
    "many short chains": ({(3 * i + j, 3 * i + j + 1) for i in range(900) for j in range(2)}, 1 << 20),
}
SHAPES = pytest.mark.parametrize(
    "shape", [linear, nonlinear, mutual, joined], ids=lambda shape: shape.__name__
)
Shape = Callable[[Pairs, int], tuple[Stratum, list[str], list[State]]]


@SHAPES
@pytest.mark.parametrize("room", [1, 3, 5000])
@pytest.mark.parametrize("graph", GRAPHS)
def test_to_the_fixpoint(shape: Shape, graph: str, room: int) -> None:
    stratum, growing, deltas = shape(*GRAPHS[graph])
    start = {name: stratum.relations[name].pairs() for name in growing}
    control = stratum.control()
    assert stratum.run(stratum.plan(growing), control, growing, room) == rounds.FIXPOINT
    for name in growing:
        relation = stratum.relations[name]
        derived = relation.pairs()
        assert derived == start[name].union(*(delta[name] for delta in deltas))
        assert len(derived) == relation.rows.count, "no pair twice"
        assert relation.delta == set()
    assert control[rounds.CONTROL_ROUNDS] == len(deltas)
    derived_pairs = sum(len(delta[name]) for delta in deltas for name in delta)
    if room == 1 and derived_pairs > 20:
        assert stratum.seen[rounds.ROWS_FULL] > 0
    if derived_pairs > 1500:
        assert stratum.seen[rounds.INDEX_FULL] > 0


@SHAPES
@pytest.mark.parametrize("graph", ["chain", "cycle", "random, dense ids", "random, spread ids"])
def test_a_limit_of_nothing_returns_after_every_round(shape: Shape, graph: str) -> None:
    """The deltas are those of the Python loop, round by round, and the indexes know them."""
    stratum, growing, deltas = shape(*GRAPHS[graph])
    plan, control = stratum.plan(growing), stratum.control(-1, -1)
    for number, delta in enumerate(deltas, 1):
        status = stratum.run(plan, control, growing, room=2)
        assert status == (rounds.FIXPOINT if number == len(deltas) else rounds.LARGE)
        assert control[rounds.CONTROL_ROUNDS] == number
        assert {name: stratum.relations[name].delta for name in growing} == delta
        for name in growing:
            for index in stratum.relations[name].indexes:
                index.note_current()
                assert index.ensure()


@pytest.mark.parametrize("limits", [(20, UNLIMITED), (UNLIMITED, 30)])
def test_a_round_over_a_limit_is_the_last_one(limits: tuple[int, int]) -> None:
    edges, end = GRAPHS["random, dense ids"]
    stratum, growing, deltas = nonlinear(edges, end)
    control = stratum.control(*limits)
    plan = stratum.plan(growing)
    assert stratum.run(plan, control, growing, room=5000) == rounds.LARGE
    done = int(control[rounds.CONTROL_ROUNDS])
    assert stratum.relations["path"].delta == deltas[done - 1]["path"]
    if limits[0] == 20:
        sizes = [len(delta["path"]) for delta in deltas]
        assert done == 1 + next(number for number, size in enumerate(sizes) if size > 20)
    control[rounds.CONTROL_DELTA_LIMIT] = control[rounds.CONTROL_WORK_LIMIT] = UNLIMITED
    assert stratum.run(plan, control, growing, room=5000) == rounds.FIXPOINT
    assert stratum.relations["path"].pairs() == edges.union(*(delta["path"] for delta in deltas))


@SHAPES
def test_the_stop_flag_halts_and_nothing_is_lost(shape: Shape) -> None:
    stratum, growing, deltas = shape(*GRAPHS["chain"])
    start = {name: stratum.relations[name].pairs() for name in growing}
    plan, control = stratum.plan(growing), stratum.control()
    stratum.stop[0] = 1
    assert stratum.run(plan, control, growing, room=7) == rounds.HALTED
    assert {name: stratum.relations[name].pairs() for name in growing} == start
    stratum.stop[0] = 0
    assert stratum.run(plan, control, growing, room=7) == rounds.FIXPOINT
    for name in growing:
        expected = start[name].union(*(delta[name] for delta in deltas))
        assert stratum.relations[name].pairs() == expected
