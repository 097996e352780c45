"""Estimates of joins: the textbook's where its assumptions hold, more for skewed and correlated values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose, prod, sqrt

from hypothesis import given
from hypothesis import strategies as st

from gpuengine.language import parse_program
from gpuengine.language.program import Atom, Variable
from gpuengine.planning.join_size import JoinSizes, join_cost
from gpuengine.planning.order import Statistics
from tests.planning.appendix_b import rules_of


@dataclass(frozen=True)
class Graph:
    """Every relation has as many facts, values and as much skew in each column."""

    facts: float = 1000.0
    values: float = 100.0
    skewed: float = 1.0

    def count(self, relation: str) -> float:
        return self.facts

    def distinct(self, relation: str, column: int) -> float:
        return self.values

    def skew(self, relation: str, column: int) -> float:
        return self.skewed


def atoms_of(body: str) -> list[Atom]:
    (rule,) = rules_of(f"h(x) :- {body}.")
    return [part for part in rule.body if isinstance(part, Atom)]


def size_of(atoms: Sequence[Atom], statistics: Statistics) -> float:
    variables = list(dict.fromkeys(v for atom in atoms for v in atom.args if isinstance(v, Variable)))
    vertices = {variable: 1 << i for i, variable in enumerate(variables)}
    return JoinSizes(atoms, vertices, statistics).size((1 << len(atoms)) - 1)


@given(st.integers(1, 6), st.floats(1, 1e5), st.floats(1, 1e5))
def test_the_size_of_a_path_is_the_textbooks(length: int, facts: float, values: float) -> None:
    statistics = Graph(facts, min(facts, values))
    body = ", ".join(f"e{k}({'x' if not k else f'y{k}'}, y{k + 1})" for k in range(length))
    pairs = min(facts, statistics.values**2)
    expected = pairs**length / statistics.values ** (length - 1)
    assert isclose(size_of(atoms_of(body), statistics), max(expected, 1.0), rel_tol=1e-6)


def test_the_order_of_the_atoms_does_not_close_cycles() -> None:
    """The middle of a path, taken in last, shares two variables, but with atoms that nothing connects yet."""
    first = size_of(atoms_of("e(x, y), f(y, z), g(z, w)"), Graph())
    assert isclose(first, size_of(atoms_of("f(y, z), e(x, y), g(z, w)"), Graph()))


def test_a_skewed_column_joined_with_itself_has_as_many_pairs_as_the_skew_says() -> None:
    pairs = size_of(atoms_of("e(x, y), e(x, z)"), Graph(1000, 100, skewed=9))
    assert isclose(pairs, 9 * 1000 * 1000 / 100)


def test_values_that_many_pairs_share_are_more_skewed() -> None:
    three = size_of(atoms_of("e(x, y), e(x, z), e(x, w)"), Graph(1000, 100, skewed=4))
    assert isclose(three, 1000**3 / 100**2 * 4 * sqrt(16 * 4))


def test_no_more_pairs_than_a_product() -> None:
    assert size_of(atoms_of("e(x, y), e(x, z)"), Graph(1000, 100, skewed=1e9)) <= 1000 * 1000


def test_an_atom_that_closes_a_cycle_is_less_selective_than_its_columns() -> None:
    closed = size_of(atoms_of("e(x, y), f(y, z), g(z, x)"), Graph())
    path = size_of(atoms_of("e(x, y), f(y, z)"), Graph())
    assert isclose(closed, path * 1000 / (100 * sqrt(100)))


def test_the_cost_is_that_of_the_cheapest_order() -> None:
    """A constant leaves ten facts of e; each has ten of f."""
    (rule,) = rules_of('h(y, z) :- f(y, z), e("5", y).')
    assert isclose(join_cost(rule, Graph()), 10 + prod((10, 1000 / 100)))


def test_facts_that_are_found_again_and_again_cost_less() -> None:
    (both, one) = rules_of("h(x, z) :- e(x, y), f(y, z).\nh(x, x) :- e(x, y), f(y, z).")
    assert isclose(join_cost(both, Graph()), 1000 + 10_000)
    assert isclose(join_cost(one, Graph()), 100 + 11_000 / 100)


def test_not_if_they_are_computed() -> None:
    text = ".decl e, f, h(a: number, b: number)\nh(v, v) :- e(x, y), f(y, z), v = x + 1.\n"
    (rule,) = (rule for rule in parse_program(text).rules if rule.body)
    assert isclose(join_cost(rule, Graph()), 1000 + 10_000)


def test_nor_if_only_frequent_values_are() -> None:
    (rule,) = rules_of("h(x, y) :- e(x, y), f(y, z).")
    few = Graph(1000, 1000, skewed=100)
    assert isclose(join_cost(rule, few), 1000 + 1000 * 100)
