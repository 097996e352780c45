"""Reductions leave exactly the instantiations that are part of a result of the join: by brute force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpuengine.errors import Interrupted
from gpuengine.evaluation.rules import reduction
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.reduction import (
    Instantiations,
    Reduction,
    Source,
    read_instantiations,
    semi_join,
)
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import NUMBER, Atom, Constant, Variable
from gpuengine.planning.hypergraph import JoinTree, edges_of, join_tree
from gpuengine.schemes.contract import Domain
from gpuengine.schemes.table import Table
from gpuengine.terms.dictionary import Dictionary
from tests.differential.compare import checked
from tests.planning.random_bodies import NOWHERE, VARIABLES, bodies

Row = tuple[int, ...]
Binding = dict[Variable, int]
GO_ON = np.zeros(1, np.int64)
VALUES = (0, 1, 2, 7)
RATIOS = (0, 1, 3, 1 << 30)
DOMAINS = (Domain.ALL, Domain.OLD, Domain.NEW)
A, B, C = VARIABLES[:3]


def columns_of(rows: Sequence[Row], arity: int) -> list[np.ndarray]:
    return [np.array([row[column] for row in rows], np.uint32) for column in range(arity)]


def came(arity: int, old: Sequence[Row], new: Sequence[Row]) -> Table:
    """A table in which some facts are NEW because they came."""
    table = Table("t", arity, CPU)
    old = list(dict.fromkeys(old))
    table.restore(columns_of(old, arity), len(old))
    table.insert(columns_of(new, arity), len(new))
    table.advance()
    return table


def goes(arity: int, old: Sequence[Row], new: Sequence[Row]) -> Table:
    """A table in which some facts are NEW because they go."""
    table = Table("t", arity, CPU)
    table.maintained = True
    everything = list(dict.fromkeys((*old, *new)))
    table.restore(columns_of(everything, arity), len(everything))
    table.delete(columns_of(new, arity), len(new))
    return table


def facts(table: Table, domain: Domain) -> list[Row]:
    start, end = table.rows.delta
    first, last = {Domain.ALL: (0, end), Domain.OLD: (0, start), Domain.NEW: (start, end)}[domain]
    return [
        tuple(int(column[place]) for column in table.columns()) if table.arity else ()
        for place in range(first, last)
    ]


def matches(atom: Atom, rows: Sequence[Row]) -> Iterator[Binding]:
    for row in rows:
        binding: Binding = {}
        for arg, value in zip(atom.args, row, strict=True):
            if isinstance(arg, Constant) and arg.value != value:
                break
            if isinstance(arg, Variable) and binding.setdefault(arg, value) != value:
                break
        else:
            yield binding


def join(atoms: Mapping[int, Atom], rows: Mapping[int, Sequence[Row]]) -> list[Binding]:
    """All results of a join, by trying everything."""
    found: list[Binding] = [{}]
    for position, atom in atoms.items():
        bindings = list(matches(atom, rows[position]))
        found = [
            {**one, **other}
            for one, other in product(found, bindings)
            if all(one.get(variable, value) == value for variable, value in other.items())
        ]
        assume(len(found) < 3000)
    return found


def rows_of(found: Instantiations) -> list[Row]:
    return [
        tuple(int(column[place]) for column in found.columns.values()) if found.columns else ()
        for place in range(found.count)
    ]


def database_with(tables: Mapping[str, Table]) -> Database:
    database = Database(checked(""), Dictionary())
    database.tables.update(tables)
    return database


@st.composite
def tables_for(draw: st.DrawFn, atoms: Sequence[Atom]) -> dict[str, Table]:
    """A table for every relation that the atoms read; all with facts that came, or all with some that go."""
    make = draw(st.sampled_from([came, goes]))
    found = {}
    for atom in atoms:
        if atom.relation not in found:
            row = st.tuples(*(st.sampled_from(VALUES) for _ in atom.args))
            old, new = draw(st.lists(row, max_size=8)), draw(st.lists(row, max_size=3))
            found[atom.relation] = make(len(atom.args), old, new)
    return found


@st.composite
def reducible(
    draw: st.DrawFn,
) -> tuple[dict[int, Atom], JoinTree, Database, dict[int, Domain]]:
    """An acyclic body, its tree, tables for it, and for each atom a label besides Δ."""
    body = draw(bodies(least=2, most=5))
    atoms = {position: part for position, part in enumerate(body) if isinstance(part, Atom)}
    tree = join_tree(edges_of(body))
    assume(tree is not None)
    assert tree is not None
    database = database_with(draw(tables_for(list(atoms.values()))))
    labels = {position: draw(st.sampled_from([Domain.ALL, Domain.OLD])) for position in atoms}
    return atoms, tree, database, labels


@settings(max_examples=200)
@given(reducible(), st.sampled_from(RATIOS))
def test_what_is_left_is_what_takes_part(
    given_body: tuple[dict[int, Atom], JoinTree, Database, dict[int, Domain]], ratio: int
) -> None:
    """For every atom as the one that reads the delta, or none, and every atom as the root."""
    atoms, tree, database, others = given_body
    for delta in (None, *atoms):
        labels = others if delta is None else {**others, delta: Domain.NEW}
        rows = {
            position: facts(database.tables[atom.relation], labels[position])  # type: ignore[arg-type]
            for position, atom in atoms.items()
        }
        results = join(atoms, rows)
        active = {at: read_instantiations(atom, labels[at], database) for at, atom in atoms.items()}
        for root in atoms:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(reduction, "FIRST_PASS_RATIO", ratio)
                made = Reduction(tree.rerooted(root), active, delta, GO_ON)
                left = {position: made.reduced(position) for position in atoms}
            for position, found in left.items():
                expected = {tuple(one[variable] for variable in found.columns) for one in results}
                assert set(rows_of(found)) == expected, f"atom {position}, delta {delta}, root {root}"
                assert not found.is_distinct or len(expected) == found.count


@settings(max_examples=100)
@given(st.data())
def test_reading_instantiations(data: st.DataObject) -> None:
    (part,) = data.draw(bodies(least=1, most=1).filter(lambda body: len(body) == 1))
    assert isinstance(part, Atom)
    database = database_with(data.draw(tables_for([part])))
    table = database.tables[part.relation]
    assert isinstance(table, Table)
    for domain in DOMAINS:
        found = read_instantiations(part, domain, database)
        expected = [
            tuple(binding[v] for v in found.columns) for binding in matches(part, facts(table, domain))
        ]
        assert sorted(rows_of(found)) == sorted(expected)
        assert not found.is_distinct or len(set(expected)) == len(expected)
        if found.source is not None:
            assert found.source == Source(table, domain, found.source.columns)
            assert found.count == len(facts(table, domain))
        for kept in (list(found.columns)[:1], list(found.columns)):
            projected = found.projected(kept)
            rows = rows_of(projected)
            assert projected.is_distinct and len(rows) == len(set(rows))
            assert set(rows) == {
                tuple(dict(zip(found.columns, row, strict=True))[v] for v in kept) for row in expected
            }


@settings(max_examples=200)
@given(st.data(), st.booleans(), st.sampled_from(RATIOS))
def test_semi_joins(data: st.DataObject, by_index: bool, ratio: int) -> None:
    """By an index or by all of both sides, the same is left; nothing is copied if nothing goes."""
    left, right = data.draw(bodies(least=2, most=2).filter(lambda body: len(body) == 2))
    assert isinstance(left, Atom) and isinstance(right, Atom)
    database = database_with(data.draw(tables_for([left, right])))
    for of_left, of_right in product(DOMAINS, DOMAINS):
        ours = read_instantiations(left, of_left, database)
        theirs = read_instantiations(right, of_right, database)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reduction, "FIRST_PASS_RATIO", ratio)
            found = semi_join(ours, theirs, by_index=by_index)
        shared = [variable for variable in ours.columns if variable in theirs.columns]
        keys = {
            tuple(dict(zip(theirs.columns, row, strict=True))[v] for v in shared) for row in rows_of(theirs)
        }
        expected = [
            row
            for row in rows_of(ours)
            if tuple(dict(zip(ours.columns, row, strict=True))[v] for v in shared) in keys
        ]
        assert sorted(rows_of(found)) == sorted(expected)
        assert found.is_distinct == ours.is_distinct or len(set(expected)) == len(expected)


def test_atoms_that_share_nothing() -> None:
    """They keep all of each other, or nothing."""
    tables = {"e": came(2, [(0, 1), (1, 2)], []), "f": came(2, [], [(7, 7)]), "r1": came(1, [], [])}
    database = database_with(tables)
    e, f, r = Atom("e", (A, B), NOWHERE), Atom("f", (C, C), NOWHERE), Atom("r1", (A,), NOWHERE)
    tree = join_tree({0: frozenset((A, B)), 1: frozenset((C,))})
    assert tree is not None
    active = {at: read_instantiations(atom, Domain.ALL, database) for at, atom in enumerate((e, f))}
    made = Reduction(tree, active, 1, GO_ON)
    assert (made.reduced(0).count, made.reduced(1).count) == (2, 1)
    nothing = read_instantiations(r, Domain.ALL, database)
    made = Reduction(tree, {0: active[0], 1: nothing}, None, GO_ON)
    assert (made.reduced(0).count, made.reduced(1).count) == (0, 0)


def test_a_constant_that_no_fact_has() -> None:
    database = database_with({"e": came(2, [(0, 1)], [(1, 2)])})
    found = read_instantiations(Atom("e", (A, Constant(9, NUMBER)), NOWHERE), Domain.ALL, database)
    assert found.count == 0 and found.source is None


def test_an_atom_without_columns() -> None:
    database = database_with({"z": came(0, [], [()])})
    atom = Atom("z", (), NOWHERE)
    assert read_instantiations(atom, Domain.NEW, database).count == 1
    assert read_instantiations(atom, Domain.OLD, database).count == 0


def test_the_stop_flag_ends_a_reduction() -> None:
    database = database_with({"e": came(2, [(0, 1), (1, 2)], [])})
    tree = JoinTree(0, {1: 0})
    atoms = (Atom("e", (A, B), NOWHERE), Atom("e", (B, C), NOWHERE))
    active = {at: read_instantiations(atom, Domain.ALL, database) for at, atom in enumerate(atoms)}
    with pytest.raises(Interrupted):
        Reduction(tree, active, None, np.ones(1, np.int64))


def test_a_small_delta_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """From one new fact outwards only what it leads to is read, through indexes, atom by atom."""
    chain = [(i, i + 1) for i in range(1000)]
    tables = {"e": came(2, [], [(500, 501)]), "f": came(2, chain, []), "g": came(2, chain, [])}
    database = database_with(tables)
    atoms = (Atom("e", (A, B), NOWHERE), Atom("f", (B, C), NOWHERE), Atom("g", (C, VARIABLES[3]), NOWHERE))
    labels = (Domain.NEW, Domain.ALL, Domain.ALL)
    active = {at: read_instantiations(atom, labels[at], database) for at, atom in enumerate(atoms)}
    tree = join_tree(edges_of(atoms))
    assert tree is not None
    monkeypatch.setattr(reduction._PRIMITIVES, "semi_join", _refuse_large(reduction._PRIMITIVES.semi_join))
    for root in range(3):
        made = Reduction(tree.rerooted(root), active, 0, GO_ON)
        assert [rows_of(made.reduced(at)) for at in range(3)] == [[(500, 501)], [(501, 502)], [(502, 503)]]


def _refuse_large(method: object) -> object:
    def call(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> object:
        assert len(left[0]) <= 1 and len(right[0]) <= 1, "all facts of a table were read"
        assert callable(method)
        return method(left, right)

    return call
