"""The closure scheme: the thesis's example, components that merge and split, limits, threads, garbage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.position_sets import Stopped
from gpuengine.kernels.position_sets import PoolFull
from gpuengine.schemes import condensation, reachability
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.condensation import by_level
from gpuengine.schemes.estimate import estimate_closure
from gpuengine.schemes.table import Table
from tests.schemes.worlds import ALL, NEW, OLD, Facts, columns_of, contents, fixpoint, transitive

Edges = list[tuple[int, int]]
EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=14)


def insert(closure: Closure, edges: Iterable[tuple[int, ...]]) -> int:
    """Insert and advance; how much is NEW."""
    rows = list(edges)
    closure.insert(columns_of(rows, 2), len(rows))
    return closure.advance()


def delete(closure: Closure, edges: Edges) -> int:
    return closure.delete(columns_of(edges, 2), len(edges))


def closure_of(edges: Iterable[tuple[int, ...]], **options: int) -> Closure:
    closure = Closure("r", **options)  # type: ignore[arg-type]
    insert(closure, edges)
    closure.settle()
    return closure


def closed(edges: Iterable[tuple[int, ...]]) -> Facts:
    return fixpoint(transitive, set(edges))


@pytest.mark.parametrize("n", [3, 4, 9, 70])
def test_example_5(n: int) -> None:
    """Section 5.2 and table 5.8: the chain a_n, ..., a_1, then R(a_1, a_3); a_i is i."""
    chain = {(i, j) for i in range(1, n + 1) for j in range(1, i)}
    added = {(i, j) for i in range(1, 4) for j in range(i, 4)}
    closure = Closure("R")
    assert insert(closure, [(i, i - 1) for i in range(2, n + 1)]) == len(chain)
    assert (contents(closure, OLD), contents(closure, NEW)) == (set(), chain)
    asked = columns_of([(3, 1)], 2)
    assert closure.contains(asked, 1, NEW)[0], "(R7) derives A(a1, a3) from it"
    assert insert(closure, [(1, 3)]) == len(added)
    assert contents(closure, OLD) == chain
    assert contents(closure, NEW) == added, "a_4, ... reach nothing that they did not reach before"
    assert closure.advance() == 0 and contents(closure) == chain | added
    assert delete(closure, [(1, 3)]) == len(added) and contents(closure, NEW) == added
    closure.remove()
    assert contents(closure) == chain


def test_a_node_reaches_itself_only_on_a_cycle() -> None:
    closure = closure_of([(1, 2), (2, 3), (4, 4), (5, 6), (6, 5), (6, 7)])
    ids = np.arange(9, dtype=np.uint32)
    assert ids[closure.contains([ids, ids], 9)].tolist() == [4, 5, 6]
    assert contents(closure) == closed([(1, 2), (2, 3), (4, 4), (5, 6), (6, 5), (6, 7)])


def test_components_merge_and_split() -> None:
    """Two cycles with a way between them, a way back, and then without each edge in turn."""
    edges = [(1, 2), (2, 1), (2, 3), (3, 4), (4, 3)]
    closure = closure_of(edges)
    assert closure.mutual_pairs == 8
    assert insert(closure, [(4, 1)]) == 4 and contents(closure, NEW) == {
        (x, y) for x in (3, 4) for y in (1, 2)
    }
    assert closure.mutual_pairs == len(closure) == 16
    for edge in [(4, 1), (2, 1), (4, 3), (1, 2)]:
        before = contents(closure)
        edges = [kept for kept in edges if kept != edge]
        assert delete(closure, [edge]) == len(before - closed(edges))
        assert contents(closure, NEW) == before - closed(edges)
        closure.remove()
        assert contents(closure) == closed(edges)


@given(EDGES, EDGES)
def test_new_nodes_before_after_and_between(first: Edges, second: Edges) -> None:
    """Ids of the second batch are others, in part: they come at the end of the positions."""
    moved = [(x + 5, 2**31 + y) for x, y in second]
    closure = closure_of(first)
    insert(closure, moved)
    assert contents(closure) == closed([*first, *moved])
    assert contents(closure, NEW) == closed([*first, *moved]) - closed(first)


@given(EDGES, st.lists(EDGES, max_size=3))
def test_mutual_pairs(first: Edges, more: list[Edges]) -> None:
    closure = closure_of(first)
    for edges in more:
        insert(closure, edges)
    facts = contents(closure)
    assert closure.mutual_pairs == sum((y, x) in facts for x, y in facts)


@given(EDGES, st.lists(EDGES, max_size=4), st.booleans())
def test_the_external_table_has_the_edges(first: Edges, more: list[Edges], advanced: bool) -> None:
    closure, external = Closure("r"), Table("@r.external", 2, CPU)
    closure.insert(columns_of(first, 2), len(first))
    if advanced:
        closure.advance()
    closure.keep_external(external)
    for edges in ([], *more):
        insert(closure, edges)
        kept = set(zip(*(column.tolist() for column in closure.edges), strict=True))
        assert contents(external) == kept
        assert closed(kept) == contents(closure)


def test_facts_are_no_edges() -> None:
    closure = closure_of([(1, 2), (2, 3)])
    assert closure.insert(columns_of([(1, 3), (1, 2), (3, 4), (3, 4)], 2), 4) == 2
    closure.advance()
    assert set(zip(*(column.tolist() for column in closure.edges), strict=True)) == {(1, 2), (2, 3), (3, 4)}


def reached(edges: np.ndarray, starts: Iterable[int]) -> dict[int, set[int]]:
    """Breadth first from some nodes."""
    after: dict[int, list[int]] = {}
    for source, target in edges.tolist():
        after.setdefault(source, []).append(target)
    found = {}
    for start in starts:
        seen: set[int] = set()
        todo = [start]
        for node in todo:
            fresh = [other for other in after.get(node, ()) if other not in seen]
            seen.update(fresh)
            todo += dict.fromkeys(fresh)
        found[start] = seen
    return found


LONG = 5000


def ascending(rng: np.random.Generator, nodes: int, edges: int) -> np.ndarray:
    """Random edges of an acyclic graph."""
    return np.sort(rng.integers(0, nodes, (edges, 2)), axis=1) + np.array([0, 1])


def _families() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    chain = np.stack([np.arange(LONG - 1), np.arange(1, LONG)], axis=1)
    shuffled = rng.permutation(LONG)[chain]
    return {
        "chain": chain,
        "chain of shuffled ids": shuffled,
        "chain the other way": chain[:, ::-1],
        "cycle": np.concatenate([chain, [[LONG - 1, 0]]]),
        "chain into a cycle": np.concatenate([chain, [[LONG - 1, LONG - 200]]]),
        "star outward": np.stack([np.zeros(LONG, np.int64), np.arange(1, LONG + 1)], axis=1),
        "star inward": np.stack([np.arange(1, LONG + 1), np.zeros(LONG, np.int64)], axis=1),
        "bipartite": rng.integers(0, 700, (4000, 2)) * 2 + [0, 1],
        "sparse DAG": ascending(rng, LONG, LONG),
        "dense DAG": ascending(rng, 900, 9000),
        "random": rng.integers(0, 3000, (3300, 2)),
        "grid": np.concatenate([[[i, i + 1], [i, i + 40]] for i in range(1500)]),
    }


FAMILIES = _families()


@pytest.mark.parametrize("family", FAMILIES)
def test_families_of_graphs(family: str) -> None:
    """Made at once, and in two halves; asked in both directions for a sample of nodes."""
    edges = FAMILIES[family]
    half = np.random.default_rng(0).permutation(len(edges))
    whole, grown = Closure("r"), Closure("r")
    insert(whole, edges.tolist())
    for part in np.array_split(half, [len(edges) // 2, len(edges) - 3]):
        insert(grown, edges[part].tolist())
    starts = np.random.default_rng(1).choice(np.unique(edges), 12)
    for column, graph in ((0, edges), (1, edges[:, ::-1])):
        expected = reached(graph, starts.tolist())
        for closure in (whole, grown):
            keys = {column: starts.astype(np.uint32)}
            assert closure.degrees(keys, 12).tolist() == [len(expected[start]) for start in starts.tolist()]
            found: list[set[int]] = [set() for _ in starts]
            for places, (values,) in closure.expand(keys, 12, room=3000):
                for place, value in zip(places.tolist(), values.tolist(), strict=True):
                    found[place].add(value)
            assert found == [expected[start] for start in starts.tolist()]
    assert len(whole) == len(grown) == whole.degrees({0: whole.values(0)}, len(whole.values(0))).sum()
    if family.startswith("chain of") or family == "chain":
        assert len(whole) == LONG * (LONG - 1) // 2 and whole.nbytes < 300 * LONG
    if family == "cycle":
        assert len(whole) == LONG**2 == whole.mutual_pairs


def layered(layers: int, width: int) -> Edges:
    rng = np.random.default_rng(3)
    return [
        (layer * width + int(x), (layer + 1) * width + int(y))
        for layer in range(layers)
        for x, y in rng.integers(0, width, (3 * width, 2))
    ]


def test_threads_make_the_same_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[bool] = []

    def noted(*arguments: object) -> object:
        order, spans = by_level(*arguments)  # type: ignore[arg-type]
        shared.extend(in_parallel for _, _, in_parallel in spans)
        return order, spans

    monkeypatch.setattr(condensation, "WIDE_LEVEL", 16)
    monkeypatch.setattr(reachability, "by_level", noted)
    edges = layered(6, 120)
    alone, together = closure_of(edges), Closure("r", threads=2)
    assert not shared
    insert(together, edges)
    assert any(shared), "levels are wide enough to share"
    assert contents(together) == contents(alone)
    insert(together, [(900, 0), (900, 901), (700, 900)])
    insert(alone, [(900, 0), (900, 901), (700, 900)])
    assert contents(together, NEW) == contents(alone, NEW) and contents(together) == contents(alone)


def test_many_small_inserts_leave_no_garbage() -> None:
    chance = np.random.default_rng(0)
    closure = closure_of(FAMILIES["dense DAG"].tolist())
    for _ in range(150):
        insert(closure, chance.integers(900, size=(1, 2)).tolist())
    anew = Closure("r")
    anew.insert(closure.edges, len(closure.edges[0]))
    anew.settle()
    closure.settle()
    assert len(anew) == len(closure)
    assert closure.nbytes < 3 * anew.nbytes + (1 << 18)


def test_many_deletions_leave_no_garbage() -> None:
    closure = closure_of(FAMILIES["dense DAG"].tolist())
    full = closure.nbytes
    for edge in FAMILIES["dense DAG"][:60].tolist():
        delete(closure, [tuple(edge)])
        closure.remove()
    assert closure.nbytes < 3 * full + (1 << 18)


LIMIT = 1 << 16


def test_a_limit_that_is_too_small_from_the_start() -> None:
    closure = Closure("r", limit=LIMIT)
    with pytest.raises(PoolFull) as failure:
        insert(closure, FAMILIES["dense DAG"].tolist())
    assert failure.value.needed > LIMIT


def until_full(closure: Closure, *, rebuilding: bool) -> tuple[Facts, Edges]:
    """Insert until the pool is full; what there was before the last batch, and that batch."""
    rng = np.random.default_rng(0)
    insert(closure, [(x, x + 1) for x in range(400)])
    size = 400
    while True:
        before = contents(closure)
        size = 2 * size if rebuilding else 30
        more = ascending(rng, 400, size) + 500
        batch: Edges = [(x, y) for x, y in more.tolist()]
        try:
            insert(closure, batch)
        except PoolFull:
            return before, batch


@pytest.mark.parametrize("rebuilding", [False, True], ids=["extending", "rebuilding"])
def test_a_limit_that_is_reached_later_leaves_the_facts_as_they_were(rebuilding: bool) -> None:
    """All that there was can be read; it is not promised that more can be inserted."""
    closure = Closure("r", limit=LIMIT)
    before, _ = until_full(closure, rebuilding=rebuilding)
    assert contents(closure) == before and len(closure) == len(before)
    rows = sorted(before)[::97]
    assert closure.contains(columns_of(rows, 2), len(rows)).all()


@pytest.mark.parametrize("rebuilding", [False, True], ids=["extending", "rebuilding"])
def test_inserting_after_the_limit_was_reached_does_not_crash(rebuilding: bool) -> None:
    """In a process of its own: it once wrote where it must not. A Python exception would do."""
    program = f"""
from tests.schemes.test_closure import LIMIT, Closure, insert, until_full
closure = Closure("r", limit=LIMIT)
until_full(closure, rebuilding={rebuilding})
for node in range(600):
    try:
        insert(closure, [(node, 5000 + node)])
    except Exception as error:
        print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size", [30, 3000], ids=["extending", "rebuilding"])
def test_the_stop_flag_ends_an_insertion(size: int) -> None:
    stop = np.zeros(1, np.int64)
    closure = Closure("r", stop=stop)
    insert(closure, [(x, x + 1) for x in range(900)])
    before = contents(closure)
    stop[0] = 1
    with pytest.raises(Stopped):
        insert(closure, (FAMILIES["dense DAG"][:size] + 1000).tolist())
    stop[0] = 0
    assert contents(closure) == before


@given(EDGES, st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=30))
def test_nodes_that_come_one_by_one(first: Edges, more: list[tuple[int, bool]]) -> None:
    """Each is led to from an older node, or leads to one: the first kind may find room between others."""
    closure, edges = closure_of(first), list(first)
    for number, (other, leads) in enumerate(more):
        old = edges[other % len(edges)][other % 2] if edges else 0
        edge = (100 + number, old) if leads else (old, 100 + number)
        before = contents(closure)
        edges.append(edge)
        insert(closure, [edge])
        assert contents(closure) == closed(edges) and contents(closure, NEW) == closed(edges) - before
        assert len(closure) == len(closed(edges)) and contents(closure, OLD) == before
        backward = closure.degrees({1: np.array([100 + number], np.uint32)}, 1)[0]
        assert backward == sum(y == 100 + number for _, y in closed(edges))


@given(EDGES)
def test_a_small_estimate_is_exact(edges: Edges) -> None:
    sources, targets = columns_of(edges, 2)
    estimate = estimate_closure(sources, targets)
    assert estimate.edges == len(edges) and estimate.complete
    assert estimate.nodes == len({node for edge in edges for node in edge})
    assert round(estimate.pairs) == len(closed(edges))


@pytest.mark.parametrize("family", ["chain", "cycle", "sparse DAG", "dense DAG", "random", "grid"])
def test_a_large_estimate_is_near(family: str) -> None:
    edges = FAMILIES[family].astype(np.uint32)
    estimate = estimate_closure(edges[:, 0].copy(), edges[:, 1].copy())
    exact = len(closure_of(FAMILIES[family].tolist()))
    assert exact / 5 <= estimate.pairs <= exact * 5


def test_reading_does_not_change_what_is_there() -> None:
    """Backward reads make a second index; both have the same two versions."""
    closure = closure_of(layered(3, 30))
    insert(closure, [(0, 200), (200, 1)])
    every, new = contents(closure), contents(closure, NEW)
    for domain, facts in ((ALL, every), (NEW, new), (OLD, every - new)):
        found = {
            (value, key)
            for key in range(260)
            for _, (values,) in closure.expand({1: np.array([key], np.uint32)}, 1, domain)
            for value in values.tolist()
        }
        assert found == facts
