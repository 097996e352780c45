"""Decompositions fulfil the definition, and are the cheapest of all that there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, permutations, product
from math import isclose, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.language.program import Atom, Literal, Rule, Variable, literal_variables
from gpuengine.planning import hypertree
from gpuengine.planning.hypergraph import edges_of, is_cyclic
from gpuengine.planning.hypertree import NEARLY, Decomposition, Node, Search, decompose
from gpuengine.planning.join_size import JoinSizes
from gpuengine.planning.order import Statistics
from tests.planning import appendix_b
from tests.planning.appendix_b import rules_of
from tests.planning.random_bodies import VARIABLES, bodies
from tests.planning.statistics import RandomSizes, Sizes


class Uniform:
    """Every relation has as many facts, every column as many distinct values."""

    def __init__(self, count: float = 1e5, distinct: float = 1e4) -> None:
        self._count, self._distinct = count, distinct

    def count(self, relation: str) -> float:
        return self._count

    def distinct(self, relation: str, column: int) -> float:
        return self._distinct

    def skew(self, relation: str, column: int) -> float:
        return 1.0


def wanted_of(rule: Rule) -> frozenset[Variable]:
    others = [literal_variables(part) for part in rule.body if not isinstance(part, Atom)]
    return literal_variables(rule.head).union(*others)


def decomposed(rule: Rule, statistics: Statistics, most: int = 3) -> Decomposition:
    found = decompose(rule.body, statistics, wanted_of(rule), most=most)
    assert found is not None
    assert_hypertree(found, rule.body)
    return found


def subtree(node: Node) -> list[Node]:
    return [node, *(below for child in node.children for below in subtree(child))]


def covered_variables(nodes: Sequence[Node]) -> frozenset[Variable]:
    return frozenset().union(*(node.variables for node in nodes))


def assert_hypertree(found: Decomposition, body: Sequence[Literal]) -> None:
    """The four conditions of definition 3, completeness, and what `Node` promises besides."""
    edges = edges_of(body)
    nodes = subtree(found.root)
    assert list(found.nodes) == nodes
    for edge in edges.values():
        assert any(edge <= node.variables for node in nodes), "condition 1"
    for variable in frozenset().union(*edges.values()):
        holders = [node for node in nodes if variable in node.variables]
        inner = sum(variable in child.variables for node in holders for child in node.children)
        assert inner == len(holders) - 1, "condition 2: all holders but the topmost hang below one"
    for node in nodes:
        for atoms in (node.cover, node.atoms):
            mentioned = frozenset().union(*(edges[position] for position in atoms))
            assert node.variables <= mentioned, "condition 3"
            assert mentioned & covered_variables(subtree(node)) <= node.variables, "condition 4"
        assert set(node.cover) <= set(node.atoms)
        assert all(edges[position] <= node.variables for position in set(node.atoms) - set(node.cover))
        assert list(node.cover) == sorted(set(node.cover)) and list(node.atoms) == sorted(set(node.atoms))
    for position, edge in edges.items():
        assert any(position in node.atoms and edge <= node.variables for node in nodes), "complete"
    assert found.width == max(len(node.cover) for node in nodes)


def join_values(atoms: Sequence[Atom], statistics: Statistics) -> tuple[float, dict[Variable, float]]:
    """The size of a join and the number of values of each variable."""
    variables = list(dict.fromkeys(v for atom in atoms for v in atom.args if isinstance(v, Variable)))
    vertices = {variable: 1 << i for i, variable in enumerate(variables)}
    sizes = JoinSizes(atoms, vertices, statistics)
    everything = (1 << len(atoms)) - 1
    return sizes.size(everything), {v: sizes.projected(everything, bit) for v, bit in vertices.items()}


def join_cost(atoms: Sequence[Atom], statistics: Statistics) -> float:
    def size(places: Sequence[int]) -> float:
        return join_values([atoms[place] for place in sorted(places)], statistics)[0]

    return min(
        sum(size(order[:i]) for i in range(1, len(order) + 1)) for order in permutations(range(len(atoms)))
    )


def assert_costs(
    found: Decomposition, body: Sequence[Literal], statistics: Statistics, wanted: frozenset[Variable]
) -> None:
    total = 0.0
    for node in found.nodes:
        atoms = [part for i, part in enumerate(body) if i in node.atoms and isinstance(part, Atom)]
        size, values = join_values(atoms, statistics)
        elsewhere = covered_variables([other for other in found.nodes if other is not node])
        needed = node.variables & (wanted | elsewhere)
        assert isclose(node.rows, min(size, prod(values[variable] for variable in needed)))
        if len(atoms) <= 4:
            assert isclose(node.cost, join_cost(atoms, statistics))
        total += node.cost + sum(2 * (node.rows + child.rows) for child in node.children)
    assert isclose(found.cost, total)


def statistics() -> st.SearchStrategy[Statistics]:
    """Any sizes; those that are uniform have more facts than distinct rows are possible, or fewer."""
    random: st.SearchStrategy[Statistics] = st.integers(0, 10**9).map(RandomSizes)
    return random | st.sampled_from([3.0, 100.0, 5e5]).map(lambda distinct: Uniform(1e6, distinct))


@settings(max_examples=200)
@given(bodies(least=2), statistics(), st.sets(st.sampled_from(VARIABLES)), st.integers(1, 3))
def test_random_bodies(
    body: tuple[Literal, ...], sizes: Statistics, wanted: set[Variable], most: int
) -> None:
    found = decompose(body, sizes, frozenset(wanted), most=most)
    assert found is not None
    assert_hypertree(found, body)
    assert_costs(found, body, sizes, frozenset(wanted))


@settings(max_examples=200)
@given(bodies(least=2, most=6), statistics())
def test_width_one_is_found_exactly_for_acyclic_bodies(body: tuple[Literal, ...], sizes: Statistics) -> None:
    search = Search(body, sizes, frozenset())
    widths = {width: search.cheapest(width) for width in range(1, search.atoms + 1)}
    assert (widths[1] is None) == is_cyclic(body)
    found = {width: best for width, best in widths.items() if best is not None}
    for width, best in found.items():
        assert_hypertree(best, body)
        assert best.width <= width
    chosen = decompose(body, sizes, frozenset())
    assert chosen is not None
    costs = {width: best.cost for width, best in found.items() if width <= max(min(found) + 1, 3)}
    assert NEARLY * NEARLY * chosen.cost <= min(costs.values())
    assert all(chosen.cost < NEARLY * cost for width, cost in costs.items() if width < chosen.width)


@settings(max_examples=150, deadline=None)
@given(bodies(least=2, most=4), statistics(), st.sets(st.sampled_from(VARIABLES)))
def test_none_of_all_decompositions_is_cheaper(
    body: tuple[Literal, ...], sizes: Statistics, wanted: set[Variable]
) -> None:
    """Of those without cross products, and without atoms in a cover that it does not need."""
    edges = edges_of(body)
    found = Search(body, sizes, frozenset(wanted)).cheapest(len(edges))
    assert found is not None
    totals = every_subtree(body, frozenset(edges), frozenset(), sizes, frozenset(wanted))
    if totals:
        assert isclose(found.cost, min(total for total, _ in totals))


def every_subtree(
    body: Sequence[Literal],
    part: frozenset[int],
    above: frozenset[Variable],
    sizes: Statistics,
    wanted: frozenset[Variable],
) -> set[tuple[float, float]]:
    """Cost and rows of the root of all subtrees for the atoms in `part`, below a node with χ = `above`."""
    edges = edges_of(body)
    mentioned = variables_of(edges, part)
    connecting = mentioned & above
    found = set()
    for cover in subsets(edges):
        chi = variables_of(edges, cover) & mentioned
        if not cover & part or not connecting <= chi:
            continue
        if any(connecting <= variables_of(edges, cover - {position}) for position in cover - part):
            continue
        done = frozenset(position for position in part if edges[position] <= chi)
        atoms = [part for i, part in enumerate(body) if i in cover | done and isinstance(part, Atom)]
        if not joins([atom for atom in atoms if literal_variables(atom)] or atoms):
            continue
        parts = components(edges, part - done, chi)
        size, values = join_values(atoms, sizes)
        needed = wanted | connecting | variables_of(edges, part - done)
        rows = min(size, prod(values[variable] for variable in chi & needed))
        below = [every_subtree(body, each, chi, sizes, wanted) for each in parts]
        cost = join_cost(atoms, sizes)
        for children in product(*below):
            links = sum(total + 2 * (rows + child) for total, child in children)
            found.add((cost + links, rows))
    return found


def subsets(positions: Iterable[int]) -> Iterator[frozenset[int]]:
    items = list(positions)
    for count in range(1, len(items) + 1):
        yield from map(frozenset, combinations(items, count))


def variables_of(edges: Mapping[int, frozenset[Variable]], positions: Iterable[int]) -> frozenset[Variable]:
    return frozenset().union(*(edges[position] for position in positions))


def components(
    edges: Mapping[int, frozenset[Variable]], positions: frozenset[int], separator: frozenset[Variable]
) -> list[frozenset[int]]:
    """Unite what shares a variable outside of `separator` until nothing does."""
    groups = [frozenset((position,)) for position in positions]
    while True:
        pair = next(
            (
                (one, other)
                for one, other in combinations(groups, 2)
                if variables_of(edges, one) & variables_of(edges, other) - separator
            ),
            None,
        )
        if pair is None:
            return groups
        groups = [group for group in groups if group not in pair] + [pair[0] | pair[1]]


def joins(atoms: Sequence[Atom]) -> bool:
    """Are the atoms connected by their variables?"""
    reached = literal_variables(atoms[0])
    for _ in atoms:
        for atom in atoms:
            if literal_variables(atom) & reached:
                reached |= literal_variables(atom)
    return all(literal_variables(atom) & reached for atom in atoms)


def lambdas(found: Decomposition) -> set[tuple[int, ...]]:
    return {node.atoms for node in found.nodes}


def test_example_1_of_the_thesis() -> None:
    rule = rules_of("PC(x, y) :- CW(x, z1), CA(x, z2), PC(z1, y), PC(z2, y).")[0]
    n, k = 1000.0, 100.0
    sizes = Sizes({"CW": (n * k, (n, n * k)), "CA": (n * k, (n, n * k)), "PC": (2 * n * k, (2 * n * k, k))})
    found = decomposed(rule, sizes)
    assert lambdas(found) == {(0, 2), (1, 3)} and found.width == 2
    names = {frozenset(variable.name for variable in node.variables) for node in found.nodes}
    assert names == {frozenset(("x", "z1", "y")), frozenset(("x", "z2", "y"))}
    assert found.cost < 20 * n * k, "neither node pairs the z1 with the z2 of an x"


def test_a_triangle_has_width_two() -> None:
    found = decomposed(rules_of("h(x) :- r(x, y), r(y, z), r(z, x).")[0], Uniform())
    assert found.width == 2 and lambdas(found) == {(0, 1, 2)}


def cycle(length: int) -> Rule:
    return rules_of(f"h(x0) :- {', '.join(f'r(x{i}, x{(i + 1) % length})' for i in range(length))}.")[0]


@pytest.mark.parametrize(("length", "width"), [(4, 2), (6, 2), (8, 3), (10, 3)])
def test_a_cycle_is_cut_into_two_paths(length: int, width: int) -> None:
    """A path of three atoms is covered by its ends, and complete only with the one in between."""
    rule = cycle(length)
    found = decomposed(rule, Uniform())
    assert found.width == width and len(found.nodes) == 2
    for node in found.nodes:
        assert len(node.atoms) == length // 2
        assert joins([part for i, part in enumerate(rule.body) if i in node.atoms and isinstance(part, Atom)])


def test_of_a_longer_cycle_a_width_of_two_makes_cross_products() -> None:
    rule = cycle(8)
    search = Search(rule.body, Uniform(), wanted_of(rule))
    narrow, wide = search.cheapest(2), search.cheapest(3)
    assert narrow is not None and wide is not None and 10 * wide.cost < narrow.cost


@pytest.mark.parametrize(
    "rule", [rule for rule in rules_of(appendix_b.YAGO) if rule.head.relation.endswith("x4x5")]
)
def test_cycles_of_yago_are_never_joined_in_one(rule: Rule) -> None:
    found = decomposed(rule, Uniform())
    assert len(found.nodes) >= 2
    for node in found.nodes:
        assert joins([part for i, part in enumerate(rule.body) if i in node.atoms and isinstance(part, Atom)])


@pytest.mark.parametrize("rule", rules_of(appendix_b.EXP))
def test_the_two_sides_of_an_expression_are_joined_on_it_and_the_instance(rule: Rule) -> None:
    n, i = 1e4, 20.0
    sizes = Sizes(
        {
            "hasType": (n, (n, 4.0)),
            "hasLhs": (n, (n, n)),
            "hasRhs": (n, (n, n)),
            "eval": (n * i, (n, n * i)),
            "value": (n * i, (n * i, 1000.0)),
            "instance": (n * i, (n * i, i)),
        }
    )
    found = decomposed(rule, sizes)
    left = [node for node in found.nodes if "elhs" in {variable.name for variable in node.variables}]
    right = [node for node in found.nodes if "erhs" in {variable.name for variable in node.variables}]
    assert left and right and not set(map(id, left)) & set(map(id, right))
    shared = covered_variables(left) & covered_variables(right)
    assert {variable.name for variable in shared} == {"s", "i"}


@pytest.mark.parametrize("statistics", [Uniform(), Uniform(1e6, 1e6), RandomSizes(1), RandomSizes(2)])
def test_the_rules_of_the_appendix_are_far_from_the_limit(
    statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hypertree, "MOST_CANDIDATES", 1500)
    for rule in appendix_b.ALL:
        search = Search(rule.body, statistics, wanted_of(rule))
        for width in (1, 2, 3):
            search.cheapest(width)
        assert decomposed(rule, statistics).width in (2, 3)


def test_a_larger_cost_below_can_pay_off_in_the_semi_joins() -> None:
    """Joining r and s costs more than two nodes for them do, but leaves p fewer rows to be compared with."""
    rule = rules_of("h(z, w) :- p(x, u), r(x, y), s(y, z), r(u, v), s(v, w).")[0]
    sizes = Sizes({"p": (100.0, (10.0, 10.0)), "r": (1000.0, (10.0, 100.0)), "s": (996.0, (166.0, 6.0))})
    found = decomposed(rule, sizes)
    assert lambdas(found) == {(0,), (1, 2), (3, 4)}
    assert_costs(found, rule.body, sizes, wanted_of(rule))


@pytest.mark.parametrize(
    ("body", "seed"),
    [
        ("d(x0, x2), e(x3, x3), c(x3, x2), e(x1, x4), b(x2, x1)", 0),
        ("e(x2, x2), b(x1, x0), c(x4, x3), e(x0, x2), e(x4, x0)", 9),
        ("d(x3, x2), d(x1, x3), a(x3, x2), b(x1, x0), c(x2, x2)", 16),
    ],
)
def test_a_cover_may_have_variables_that_the_node_projects_away(body: str, seed: int) -> None:
    rule = rules_of(f'h("c") :- {body}.')[0]
    found = Search(rule.body, RandomSizes(seed), frozenset()).cheapest(3)
    assert found is not None
    assert_hypertree(found, rule.body)
    edges = edges_of(rule.body)
    assert any(not edges[position] <= node.variables for node in found.nodes for position in node.cover)


def test_a_cheap_width_is_kept_when_a_larger_one_must_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = cycle(8)
    monkeypatch.setattr(hypertree, "MOST_CANDIDATES", 1000)
    assert decomposed(rule, Uniform()).width == 2
    monkeypatch.setattr(hypertree, "MOST_CANDIDATES", 100)
    assert decompose(rule.body, Uniform(), wanted_of(rule)) is None


def test_long_bodies_are_searched_less() -> None:
    chain = rules_of(f"h(x0) :- {', '.join(f'r(x{i}, x{i + 1})' for i in range(20))}.")[0]
    assert decomposed(chain, Uniform()).width <= 2
    assert decompose(cycle(20).body, Uniform(), frozenset()) is None, "its nodes would be cross products"
    assert decompose(cycle(31).body, Uniform(), frozenset()) is None


def test_one_node_covers_any_number_of_atoms() -> None:
    same = rules_of(f"h(x0) :- {', '.join(f'r(x{i % 2}, x{i % 3})' for i in range(20))}.")[0]
    assert lambdas(decomposed(same, Uniform())) == {tuple(range(20))}


def test_fewer_than_two_atoms_are_not_decomposed() -> None:
    assert decompose((), Uniform(), frozenset()) is None
    rule = rules_of("h(x) :- r(x, y), !s(x, y), x != y.")[0]
    assert decompose(rule.body, Uniform(), wanted_of(rule)) is None


def test_parts_without_shared_variables_and_atoms_without_variables() -> None:
    found = decomposed(rules_of('h(x) :- r(x, y), s(z), t("a"), t(_).')[0], Uniform())
    assert {2, 3} <= set(found.root.atoms) and len(found.nodes) == 2
    found = decomposed(rules_of('h("x") :- t("a"), t(_).')[0], Uniform())
    assert lambdas(found) == {(0, 1)} and not found.root.variables
