"""Bodies that compute in chunks: whatever the size of the buffers, and however the dictionary grows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import gpuengine as ge
from gpuengine.terms.tables import WordTable
from tests.evaluation.forced import forced


def facts(program: str, relation: str, **loads: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    engine = ge.Engine(program, threads=1)
    for name, rows in loads.items():
        engine.load(name, rows)
    return sorted(engine.materialise()[relation].to_pylist())


CHUNKS = pytest.mark.parametrize("chunk_rows", [1, 100, 1 << 16])


@CHUNKS
def test_several_stages(chunk_rows: int) -> None:
    program = """
    .decl q(x: number)
    .decl t(x: number)
    .decl p(x: number, y: number, z: number)
    .input q
    .input t
    .output p
    p(x, y, z) :- q(x), y = x * 2, t(y), z = range(y, y + 3), t(z), z != y.
    """
    with forced(chunk_rows=chunk_rows):
        found = facts(program, "p", q=[(i,) for i in range(300)], t=[(i,) for i in range(400)])
    assert found == [(x, 2 * x, z) for x in range(200) for z in (2 * x + 1, 2 * x + 2) if z < 400]


@CHUNKS
def test_aggregates_over_groups_that_span_chunks(chunk_rows: int) -> None:
    program = """
    .decl a(x: number, y: number)
    .decl n(x: number, n: number, s: number, m: number)
    .input a
    .output n
    n(x, n, s, m) :- a(x, _), n = count : { a(x, _) }, s = sum y : { a(x, y) },
        m = max y : { a(x, y), y < 90 }.
    """
    rows = [(i % 7, i) for i in range(500)]
    with forced(chunk_rows=chunk_rows):
        found = facts(program, "n", a=rows)
    groups = {x: [y for other, y in rows if other == x] for x in range(7)}
    assert found == [(x, len(g), sum(g), max(y for y in g if y < 90)) for x, g in sorted(groups.items())]


@CHUNKS
def test_products_larger_than_a_chunk(chunk_rows: int) -> None:
    program = """
    .decl q(x: number)
    .decl p(x: number, y: number)
    .input q
    .output p
    p(x, s) :- q(x), q(y), s = x * 1000 + y, s % 7 = 0.
    """
    with forced(chunk_rows=chunk_rows):
        found = facts(program, "p", q=[(i,) for i in range(60)])
    assert found == sorted((x, x * 1000 + y) for x in range(60) for y in range(60) if (x * 1000 + y) % 7 == 0)


@CHUNKS
def test_comparisons_after_values_have_been_computed(chunk_rows: int) -> None:
    """Interning moves the table of values that a later stage compares by."""
    program = """
    .decl q(x: number)
    .decl t(x: number)
    .decl p(y: number, z: number)
    .input q
    .output p
    t(5). t(300000001). t(100000002).
    p(y, z) :- q(x), y = x * 1000 + 100000000, t(z), z < y, z > 6.
    """
    with forced(chunk_rows=chunk_rows):
        found = facts(program, "p", q=[(i,) for i in range(5000)])
    assert found == [(x * 1000 + 100000000, 100000002) for x in range(1, 5000)]


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_constants_that_fill_the_table_of_values(room: int) -> None:
    """The rule's own constants are interned when it is compiled, and may move the table as well."""
    program = """
    .decl q(x: number)
    .decl p(x: number)
    .input q
    .output p
    p(x) :- q(x), x < 1000000000, x >= -5, x < 2000000000.
    """
    count = WordTable("number", 1 << 24)._limit - room
    rows = [(2**24 + i,) for i in range(count)]
    assert facts(program, "p", q=rows) == rows


@CHUNKS
def test_recursion_over_computed_values(chunk_rows: int) -> None:
    program = """
    .decl n(x: number, y: number)
    .output n
    n(0, 16777000).
    n(x + 1, y + 3) :- n(x, y), x < 500, y < 16778000.
    """
    with forced(chunk_rows=chunk_rows):
        found = facts(program, "n")
    assert found == [(i, 16777000 + 3 * i) for i in range(335)]
