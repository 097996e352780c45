"""Updates by an engine on the driver, without Spark: after each one, what follows from all facts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuengine.language.editing import ProgramText
from gpuengine.planning.prepared import Prepared, prepare
from gpuengine.spark_bridge.carriers import column, find_carriers
from gpuengine.spark_bridge.driver_updates import DriverState, Piece
from gpuengine.spark_bridge.placement import carry
from tests.spark_bridge.test_insertion import MUTUAL
from tests.spark_bridge.test_materialise import engine_of

CHOOSING = """
.decl edge(a: number, b: number)
.decl dist(a: number, d: number)
.decl far(a: number)
.decl degree(a: number, n: number)
dist(0, min 0) :- edge(_, _).
dist(y, min d + 1) :- dist(x, d), edge(x, y), d < 9.
far(x) :- edge(x, _), !dist(x, _).
degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
"""
PAIRS = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6)
STEPS = st.lists(st.tuples(PAIRS, PAIRS), min_size=1, max_size=4)
Facts = dict[str, set[tuple[Any, ...]]]


def derived_by(prepared: Prepared) -> set[str]:
    return {rule.head.relation for rule in prepared.program.rules if rule.body}


def carried(rows: Iterable[tuple[int, ...]], arity: int) -> list[pa.Table]:
    """Facts as carriers; those of a relation without columns are rows of a column."""
    listed = sorted(rows)
    if not arity:
        return [pa.table({column(0): pa.array([0] * len(listed), pa.int64())})]
    columns = [pa.array([row[j] for row in listed], pa.int64()) for j in range(arity)]
    return [pa.Table.from_arrays(columns, names=[column(j) for j in range(arity)])]


def follow(saved: Facts, name: str, piece: Piece, arity: int) -> None:
    listed = [] if piece.table is None else piece.table.to_pylist()
    rows = {tuple(row.values())[:arity] for row in listed}
    assert len(rows) == len(listed)
    if not piece.replaces:
        assert not rows & saved.get(name, set())
    saved[name] = rows if piece.replaces else saved.get(name, set()) | rows


@pytest.mark.parametrize("text", [MUTUAL, CHOOSING], ids=["mutual", "choosing"])
@given(steps=STEPS, stating=st.booleans())
def test_updates_are_what_an_engine_derives(
    text: str, steps: list[tuple[set[tuple[int, int]], set[tuple[int, int]]]], stating: bool
) -> None:
    plain = prepare(ProgramText.read(text), None)
    carriers = find_carriers(plain.program)
    prepared = carry(plain, carriers, {})
    arity = {name: relation.arity for name, relation in prepared.program.relations.items()}
    stated: Facts = {}
    relations: Facts = {}
    for step, (plus, minus) in enumerate(steps):
        # A derived relation may be stated as well.
        target = "odd" if stating and "odd" in arity and step % 2 else "edge"
        state = DriverState(
            prepared,
            carriers,
            {name: carried(rows, arity[name]) for name, rows in stated.items()},
            {name: carried(relations.get(name, ()), arity[name]) for name in derived_by(prepared)},
        )
        minus = minus - plus
        found = state.update({target: carried(plus, 2)}, {target: carried(minus, 2)} if minus else {})
        expected_stated = (stated.get(target, set()) - minus) | plus
        for name, piece in found.stated.items():
            follow(stated, name, piece, arity[name])
        for name, piece in found.relations.items():
            follow(relations, name, piece, arity[name])
        assert stated.get(target, set()) == expected_stated
        engine = engine_of(text, {name: sorted(rows) for name, rows in stated.items()})
        for name in engine.relations:
            assert relations.get(name, set()) == set(engine[name]), name
