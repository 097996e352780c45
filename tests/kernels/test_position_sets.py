"""Position sets of chosen shapes: sizes around blocks, runs that are just too many, graphs of all kinds."""

from __future__ import annotations

import numpy as np
import pytest

from gpuengine.kernels.position_sets import BLOCK_RUNS, BLOCK_SIZE
from gpuengine.kernels.primitives import NONE, Primitives
from tests.kernels.position_cases import family, reaching
from tests.kernels.primitive_cases import CPU, EMULATED, REFERENCE, Args, assert_same, ids, run
from tests.kernels.test_primitives_shapes import agree

where_they_are_made = pytest.mark.parametrize("primitives", [REFERENCE, CPU], ids=["reference", "cpu"])

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


@where_they_are_made
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


@where_they_are_made
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
    assert sum(len(blocks) for _, blocks, _, _ in expected[0]) > 500
    if seed == 0:
        assert_same(run(REFERENCE, "reached_sets", args), expected)


def test_two_threads_at_once_on_a_large_graph() -> None:
    rng = np.random.default_rng(8)
    count = 12_000
    edges = [(c, int(d)) for c in range(400, count) for d in c - 1 - rng.integers(0, 400, 2)]
    sets = CPU.reached_sets(*reaching(edges, [[int(p)] for p in rng.permutation(count)]))
    owners = rng.integers(0, count, 400).astype(np.uint32)
    values = rng.permutation(count).astype(np.uint32)
    assert_same(
        run(EMULATED, "sets_list", (sets, owners, values, 5000)),
        run(CPU, "sets_list", (sets, owners, values, 1 << 30)),
    )


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
    if primitives is CPU:
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
        agree("sets_list", sets, owners, values, 50)
    agree("sets_list", family([]), ids([NONE]), values, 50)
