"""Join trees: there is one exactly for acyclic bodies, and in it each variable's atoms are connected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.language import parse_program
from gpuengine.language.program import NUMBER, Atom, Literal, Variable
from gpuengine.planning.hypergraph import JoinTree, edges_of, is_cyclic, join_tree
from tests.planning import appendix_b
from tests.planning.appendix_b import rules_of
from tests.planning.random_bodies import bodies

Edges = Mapping[int, frozenset[Variable]]


def is_acyclic(edges: Edges) -> bool:
    """Bernstein and Goodman: a spanning tree of the largest weight, the number of variables shared, is a join
    tree if there is any; then every variable is shared along a tree edge for each occurrence but one."""
    weight = 0
    reached = set(list(edges)[:1])
    while len(reached) < len(edges):
        links = ((len(edges[i] & edges[j]), j) for i in reached for j in edges if j not in reached)
        shared, added = max(links)
        weight += shared
        reached.add(added)
    occurrences = Counter(variable for edge in edges.values() for variable in edge)
    return weight == sum(count - 1 for count in occurrences.values())


def connected(members: Iterable[int], parent: Mapping[int, int]) -> bool:
    """Do `members` induce a subtree? Then all of them but one have their parent among them."""
    among = set(members)
    return sum(parent.get(member) not in among for member in among) == 1


def assert_join_tree(tree: JoinTree, edges: Edges) -> None:
    assert tree.root not in tree.parent
    assert {tree.root, *tree.parent} == set(edges)
    order = tree.bottom_up()
    assert sorted(order) == sorted(edges) and order[-1] == tree.root
    for child, above in tree.parent.items():
        assert order.index(child) < order.index(above)
        assert child in tree.children(above)
    assert sum(len(tree.children(position)) for position in edges) == len(edges) - 1
    for variable in frozenset().union(*edges.values()):
        assert connected((i for i, edge in edges.items() if variable in edge), tree.parent)


@settings(max_examples=300)
@given(bodies(least=1, most=8), st.data())
def test_there_is_a_join_tree_exactly_if_the_body_is_acyclic(
    body: tuple[Literal, ...], data: st.DataObject
) -> None:
    edges = edges_of(body)
    tree = join_tree(edges)
    assert (tree is not None) == is_acyclic(edges) == (not is_cyclic(body))
    if tree is not None:
        assert_join_tree(tree, edges)
        root = data.draw(st.sampled_from(sorted(edges)))
        turned = tree.rerooted(root)
        assert turned.root == root
        assert_join_tree(turned, edges)
        links = {frozenset(link) for link in tree.parent.items()}
        assert {frozenset(link) for link in turned.parent.items()} == links


def test_only_positive_atoms_make_edges() -> None:
    text = """
    .decl r(x: number, y: number, z: number)
    .decl h(x: number)
    h(x) :- r(x, x, 1), !r(x, y, y), r(_, 2, 3), r(y, x, _), x < y, c = count : { r(x, y, z) }, c > 1.
    """
    body = parse_program(text).rules[0].body
    x, y = Variable("x", NUMBER), Variable("y", NUMBER)
    positions = [i for i, part in enumerate(body) if isinstance(part, Atom)]
    assert list(edges_of(body).items()) == list(
        zip(positions, [frozenset((x,)), frozenset(), frozenset((x, y))], strict=True)
    )
    assert not is_cyclic(body)


@pytest.mark.parametrize(
    ("body", "cyclic"),
    [
        ("r(x, y), r(y, z)", False),
        ("r(x, y), r(y, z), r(z, x)", True),
        ("r(x, y), r(y, z), r(z, x), t(x, y, z)", False),
        ("r(x, y), r(z, w), r(v, u), t(x, w, u)", False),
        ("r(a, b), r(x, y), r(y, z), r(z, x)", True),
        ('r(x, y), r(y, z), r(z, "c"), r("c", x)', False),
    ],
)
def test_well_known_shapes(body: str, cyclic: bool) -> None:
    assert is_cyclic(rules_of(f"h(x) :- {body}.")[0].body) is cyclic


def test_a_body_without_atoms_is_not_cyclic() -> None:
    assert not is_cyclic(())


def test_all_rules_of_the_appendix_are_cyclic() -> None:
    assert all(is_cyclic(rule.body) for rule in appendix_b.ALL)
