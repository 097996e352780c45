"""Position sets of chosen shapes: sizes around blocks, runs that are just too many, graphs of all kinds."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.primitives import CudaPrimitives
from gpuengine.kernels.cuda.primitives.reached_kernels import reached_words
from gpuengine.kernels.position_sets import BLOCK_RUNS, BLOCK_SIZE
from gpuengine.kernels.primitives import NONE, Primitives
from tests.kernels.interleaved import InterleavedDevice
from tests.kernels.position_cases import family, reaching
from tests.kernels.primitive_cases import (
    CPU,
    EMULATED,
    FAST,
    REFERENCE,
    Args,
    assert_same,
    csr,
    ids,
    keys,
    run,
)
from tests.kernels.test_primitives_shapes import GRAPHS, agree, large_graph, on_every_backend

Sets = list[set[int]]


def singles(count: int, first: int = 0) -> set[int]:
    """As many runs of one position."""
    return set(range(first, first + 2 * count, 2))


#: Sets with what can go wrong about blocks.
SHAPES: dict[str, set[int]] = {
    "empty": set(),
    "one position": {700},
    "eight runs": singles(8, 512),
    "nine runs": singles(9, 512),
    "the first of nine runs": {512},
    "nine runs over a border": singles(9, 504),
    "eight runs and one from the block before": singles(8, 530) | set(range(500, 520)),
    "seven runs and one from the block before": singles(7, 530) | set(range(500, 520)),
    "nine runs, the first from before and the last into the next": (
        singles(7, 530) | set(range(500, 520)) | set(range(1010, 1100))
    ),
    "crowded at both ends, whole between": singles(20, 0) | set(range(300, 1300)) | singles(20, 1310),
    "all crowded": singles(800),
    "crowded and whole by turns": singles(256) | set(range(512, 1024)) | singles(256, 1024),
    "two whole blocks": set(range(512, 1536)),
    "all but one position": set(range(1600)) - {700},
    "first and last of blocks": {0, 511, 512, 1023, 1024, 1535},
    "crowded at the very end of a block": singles(9, 494),
    "words that are full": singles(9, 512) | set(range(576, 704)),
    "sparse over many blocks": set(range(0, 1700, 70)),
}
ALL = list(SHAPES.values())
EVERYBODY = ids(range(len(ALL)))


def reaching_sets(sets: Sets) -> Args:
    """A graph with leaves for all positions, a component for each set, one above each two neighbours."""
    leaves = sorted(set().union(*sets))
    number = {position: c for c, position in enumerate(leaves)}
    first = len(leaves)
    edges = [(first + k, number[p]) for k, each in enumerate(sets) for p in sorted(each)]
    above = first + len(sets)
    for k in range(len(sets)):
        edges += [(above + k, first + k), (above + k, first + (k + 1) % len(sets))]
    own = [[p] for p in leaves] + [[10_000 + 2 * k] for k in range(2 * len(sets))]
    return reaching(edges, own)


# What the sets look like.


@on_every_backend
@pytest.mark.parametrize(
    ("name", "intervals", "blocks"),
    [
        ("empty", [], []),
        ("eight runs", [(512 + 2 * k, 513 + 2 * k) for k in range(8)], []),
        ("nine runs", [], [1]),
        ("eight runs and one from the block before", [(500, 512)], [1]),
        ("nine runs, the first from before and the last into the next", [(500, 512), (1024, 1100)], [1]),
        ("crowded at both ends, whole between", [(512, 1024)], [0, 2]),
        ("two whole blocks", [(512, 1536)], []),
        ("first and last of blocks", [(0, 1), (511, 513), (1023, 1025), (1535, 1536)], []),
        ("nine runs over a border", [(504 + 2 * k, 505 + 2 * k) for k in range(9)], []),
    ],
)
def test_a_block_is_words_exactly_if_more_runs_than_eight_meet_it(
    primitives: Primitives, name: str, intervals: list[tuple[int, int]], blocks: list[int]
) -> None:
    """Twice: as a difference from nothing, and as what a component reaches."""
    sets = family([SHAPES[name], set()])
    ((found,),) = run(primitives, "sets_difference", (sets, ids([0]), sets, ids([1])))
    assert (found[0], found[1], found[3]) == (intervals, blocks, len(SHAPES[name]))
    leaves = sorted(SHAPES[name])
    args = reaching([(len(leaves), c) for c in range(len(leaves))], [*([p] for p in leaves), [5000]])
    (reached,) = run(primitives, "reached_sets", args)
    assert reached[-1] == found


def test_the_limit_is_the_one_that_the_shapes_are_made_for() -> None:
    assert (BLOCK_RUNS, BLOCK_SIZE) == (8, 512)


@on_every_backend
def test_crowded_blocks_that_fill_each_other_become_an_interval(primitives: Primitives) -> None:
    even, odd = singles(256), singles(256, 1)
    args = reaching_sets([even, odd])
    (found,) = run(primitives, "reached_sets", args)
    assert [one[1] for one in found[512:514]] == [[0], [0]]
    assert found[514][0] == [(0, 512), (10_000, 10_001), (10_002, 10_003)]
    assert found[514][1] == [] and found[514][3] == 514


# Making them.


def test_unions_of_all_shapes() -> None:
    agree("reached_sets", *reaching_sets(ALL))
    agree("reached_sets", *reaching_sets(ALL[::2]))


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1025])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_component_with_as_many_children(size: int, step: int) -> None:
    """Positions beside each other, with gaps, and from the middle of a block on; one of them is cyclic."""
    for first in (0, 300):
        own = [[first + step * c] for c in range(size)]
        edges = [(size, c) for c in range(size)]
        agree("reached_sets", *reaching(edges, [*own, [9000, 7000]], [size, 0]))


LAYERS = {
    "no components": reaching([], []),
    "one": reaching([], [[0]]),
    "one that is cyclic": reaching([], [[3, 1, 700]], [0]),
    "none has edges": reaching([], [[c] for c in range(33)]),
    "a chain": reaching([(c + 1, c) for c in range(256)], [[c] for c in range(257)]),
    "a chain with gaps": reaching([(c + 1, c) for c in range(256)], [[2 * c] for c in range(257)]),
    "a chain, all cyclic": reaching(
        [(c + 1, c) for c in range(40)], [[c, 100 + 2 * c, 300 - c] for c in range(41)], range(41)
    ),
    "every edge three times": reaching([(c + 1, c) for c in range(40)] * 3, [[7 * c] for c in range(41)]),
    "one that leads to all": reaching([(299, c) for c in range(299)], [[3 * c] for c in range(300)]),
    "all lead to one": reaching([(c, 0) for c in range(1, 300)], [[c] for c in range(300)], [0]),
    "all lead to all below": reaching(
        [(c, d) for c in range(60) for d in range(c)], [[2 * (c * 7 % 60)] for c in range(60)]
    ),
    "two sides": reaching([(30 + c, d) for c in range(30) for d in range(30)], [[3 * c] for c in range(60)]),
    "a ladder": reaching(
        [edge for c in range(2, 80) for edge in ((c, c - 1), (c, c - 2))],
        [[5 * c % 79 * 2] for c in range(80)],
    ),
    "cyclic ones that own positions between": reaching(
        [(c, c - 20) for c in range(20, 40)],
        [[c, 40 + c] if c % 2 == 0 else [c] for c in range(40)],
        range(0, 40, 2),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_graphs_of_all_shapes(name: str) -> None:
    agree("reached_sets", *LAYERS[name])


def dense(count: int, seed: int) -> Args:
    """A random graph in which most reach half of all positions, in no order."""
    rng = np.random.default_rng(seed)
    edges = [(c, int(d)) for c in range(1, count) for d in rng.integers(0, c, 3)]
    places = rng.permutation(count + count // 2)
    return reaching(edges, [[int(p)] for p in places[:count]])


@pytest.mark.parametrize("seed", range(3))
def test_random_sets_are_mostly_words(seed: int) -> None:
    args = dense(900, seed)
    expected = run(CPU, "reached_sets", args)
    assert_same(run(EMULATED, "reached_sets", args), expected)
    assert sum(len(blocks) for _, blocks, _, _ in expected[0]) > 500
    if seed == 0:
        assert_same(run(REFERENCE, "reached_sets", args), expected)


def test_levels_are_made_in_parts_if_they_are_too_much_at_once() -> None:
    device = EmulatedDevice(threads=1)
    device.chunk_items = 20
    for args in (dense(80, 5), LAYERS["two sides"], LAYERS["one that leads to all"]):
        assert_same(run(CudaPrimitives(device), "reached_sets", args), run(CPU, "reached_sets", args))


def test_only_sizes_come_back_from_each_level() -> None:
    device = EmulatedDevice(threads=1)
    primitives = CudaPrimitives(device)
    *arrays, positions = LAYERS["a chain"]
    given = [primitives.upload(array) for array in arrays]
    primitives.reached_sets(*given, positions)
    levels = 257
    assert device.statistics.syncs <= (3 + 1) * levels + 6
    assert device.statistics.downloaded <= (16 + 16 + 12) * levels + 100


def test_two_threads_at_once_on_a_large_graph() -> None:
    rng = np.random.default_rng(8)
    count = 12_000
    edges = [(c, int(d)) for c in range(400, count) for d in c - 1 - rng.integers(0, 400, 2)]
    args = reaching(edges, [[int(p)] for p in rng.permutation(count)])
    *arrays, positions = args
    given = [EMULATED.upload(array) for array in arrays]
    found, expected = EMULATED.reached_sets(*given, positions), CPU.reached_sets(*args)
    assert np.array_equal(EMULATED.download(found.sizes), expected.sizes)
    owners = rng.integers(0, count, 400).astype(np.uint32)
    values = rng.permutation(count).astype(np.uint32)
    sent = EMULATED.upload(owners), EMULATED.upload(values)
    for one, other in zip(
        EMULATED.sets_list(found, *sent), CPU.sets_list(expected, owners, values), strict=True
    ):
        assert np.array_equal(np.sort(EMULATED.download(one)), np.sort(other))
    kept, taken = (rng.integers(0, count, 500).astype(np.uint32) for _ in range(2))
    less = EMULATED.sets_difference(found, EMULATED.upload(kept), found, EMULATED.upload(taken))
    sizes = CPU.sets_difference(expected, kept, expected, taken).sizes
    assert np.array_equal(EMULATED.download(less.sizes), sizes)


# Taking away.


def test_differences_of_all_shapes() -> None:
    a, b = family(ALL), family(ALL)
    kept, taken = np.repeat(EVERYBODY, len(ALL)), np.tile(EVERYBODY, len(ALL))
    agree("sets_difference", a, kept, a, taken)
    agree("sets_difference", a, kept, b, taken)


def test_differences_of_what_one_pool_has_and_another_has_not() -> None:
    """No intervals or no blocks in one of the pools, or nothing at all."""
    pools = [family([singles(40)]), family([{3, 5}]), family([set()])]
    for a in pools:
        for b in pools:
            agree("sets_difference", a, ids([0, 0]), b, ids([0, 0]))
            agree("sets_difference", a, ids([]), b, ids([]))


@pytest.mark.parametrize("primitives", [CPU, EMULATED], ids=["cpu", "emulated"])
def test_the_greatest_positions(primitives: Primitives) -> None:
    """The end of the last block does not fit into 32 bits."""
    end = NONE
    given = [
        singles(30, end - 100),
        set(range(end - 700, end)),
        {end - 1},
        set(range(end - 90, end)),
        singles(9, end - 18),
        singles(8, end - 17),
    ]
    sets, everybody = family(given), ids(range(len(given)))
    kept, taken = np.repeat(everybody, len(given)), np.tile(everybody, len(given))
    expected = run(REFERENCE, "sets_difference", (sets, kept, sets, taken))
    assert_same(run(primitives, "sets_difference", (sets, kept, sets, taken)), expected)
    positions = np.arange(end - 109, end + 1, dtype=np.uint32)
    asked = np.repeat(everybody, len(positions)), np.tile(positions, len(given))
    found = run(primitives, "sets_contain", (sets, *asked))
    assert_same(found, run(REFERENCE, "sets_contain", (sets, *asked)))


# Reading.


def test_look_ups_of_all_shapes() -> None:
    sets = family(ALL)
    positions = ids([*range(0, 1700, 1), NONE])
    owners = np.repeat(ids([*range(len(ALL)), NONE]), len(positions))
    agree("sets_contain", sets, owners, np.tile(positions, len(ALL) + 1))
    agree("sets_contain", sets, ids([]), ids([]))


@pytest.mark.parametrize("step", [1, 2, 1700])
def test_lists_of_all_shapes(step: int) -> None:
    """Of owners that repeat and of none; with every value there, with half of them, and with none."""
    values = np.arange(1700, dtype=np.uint32) + np.uint32(1 << 31)
    values[::step] = NONE
    sets = family(ALL)
    for owners in (EVERYBODY, EVERYBODY[::-1].copy(), ids([]), ids([NONE]), ids([5, NONE, 5, 0, 0, NONE])):
        agree("sets_list", sets, owners, values)
    agree("sets_list", family([]), ids([NONE]), values)


# Condensations.


@pytest.mark.parametrize("name", GRAPHS)
def test_condensations_of_all_shapes(name: str) -> None:
    edges, nodes = GRAPHS[name]
    agree("condense", *csr(edges, nodes), nodes)


@on_every_backend
def test_a_condensation_by_hand(primitives: Primitives) -> None:
    """0 → 1 ⇄ 2 → 3, and 4 → 3: the numbers of 0 and 4 are above that of {1, 2} or of 3."""
    offsets, targets = csr([(0, 1), (1, 2), (2, 1), (2, 3), (4, 3)], 5)
    found, count = primitives.condense(primitives.upload(offsets), primitives.upload(targets), 5)
    zero, one, two, three, four = primitives.download(found).tolist()
    assert count == 4 and one == two and zero > one > three == 0 and four > three
    assert sorted({zero, one, three, four}) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["skewed", "sparse", "acyclic"])
def test_large_condensations(kind: str) -> None:
    edges, nodes = large_graph(kind)
    args = *csr(edges, nodes), nodes
    assert_same(run(EMULATED, "condense", args), run(CPU, "condense", args))


@pytest.mark.parametrize("primitives", FAST, ids=["cpu", "emulated"])
def test_from_a_graph_to_what_its_nodes_reach(primitives: Primitives) -> None:
    """Condensed, with the positions of nodes by component: as a search from each node finds it."""
    rng = np.random.default_rng(2)
    nodes = 60
    offsets, targets = csr([(int(x), int(y)) for x, y in rng.integers(0, nodes, (75, 2))], nodes)
    numbers, count = primitives.condense(primitives.upload(offsets), primitives.upload(targets), nodes)
    of_node = primitives.download(numbers)
    sources = np.repeat(np.arange(nodes), np.diff(offsets).astype(np.int64))
    above, below = of_node[sources], of_node[targets]
    edges = {(int(c), int(d)) for c, d in zip(above, below, strict=True) if c != d}
    cyclic = {int(c) for c, d in zip(above, below, strict=True) if c == d}
    own = [np.flatnonzero(of_node == c).tolist() for c in range(count)]
    *arrays, positions = reaching(sorted(edges), own, cyclic)
    sets = primitives.reached_sets(*map(primitives.upload, arrays), positions)
    values = primitives.upload(np.arange(nodes, dtype=np.uint32))
    asked, listed = map(primitives.download, primitives.sets_list(sets, numbers, values))
    for x in range(nodes):
        after = targets[int(offsets[x]) : int(offsets[x + 1])]
        levels = REFERENCE.breadth_first(offsets, targets, after, nodes)
        assert sorted(listed[asked == x].tolist()) == np.flatnonzero(levels != NONE).tolist()


# Items that meet in the same words.


@pytest.mark.parametrize("seed", range(10))
def test_blocks_that_many_add_to_one_slot(seed: int) -> None:
    device = InterleavedDevice(seed)
    blocks, slots = 7, [3 << 32 | 5, 4 << 32 | 1]
    pool = np.array([1 << 9 * k | 1 << 60 for k in range(blocks) for _ in range(8)], np.uint64)
    given = keys([slots[k % 2] for k in range(blocks)]), keys(range(blocks)), pool, keys(slots)
    words = device.full(16, 0, np.uint64)
    on_device = [device.upload(array) for array in given]
    device.launch(reached_words, blocks, *on_device, 2, words)
    wanted = [sum(1 << 9 * k for k in range(slot, blocks, 2)) | 1 << 60 for slot in range(2)]
    assert device.download(words).tolist() == [wanted[0]] * 8 + [wanted[1]] * 8


@pytest.mark.parametrize("seed", range(4))
def test_crowded_unions_in_any_order(seed: int) -> None:
    sets: Iterable[set[int]] = (singles(10, 3 * k) for k in range(4))
    args = reaching_sets(list(sets))
    primitives = CudaPrimitives(InterleavedDevice(seed))
    assert_same(run(primitives, "reached_sets", args), run(REFERENCE, "reached_sets", args))
