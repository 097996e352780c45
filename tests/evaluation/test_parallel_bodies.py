"""Bodies that compute, on several threads: the same facts as on one, whatever is new to the dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import EvaluationError
from gpuengine.evaluation.rules import variants
from gpuengine.evaluation.rules.body import BodyProgram
from tests.differential.compare import assert_agrees
from tests.differential.test_computed_recursion import recursions
from tests.evaluation.forced import forced

ROWS = 200_000


@pytest.fixture
def parallel(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of the drivers that threads shared."""
    shared: list[int] = []
    insert = variants.insert_in_parallel

    def noted(body: BodyProgram, args: Any, head: Any, span: tuple[int, int], *rest: Any) -> int:
        shared.append(span[1] - span[0])
        return insert(body, args, head, span, *rest)

    monkeypatch.setattr(variants, "insert_in_parallel", noted)
    return shared


def columns_of(engine: ge.Engine, name: str) -> list[np.ndarray]:
    """The facts, in order."""
    columns = [column.to_numpy() for column in engine[name].to_arrow().columns]
    order = np.lexsort(columns[::-1])
    return [column[order] for column in columns]


def evaluated(program: str, threads: int = 2, **columns: dict[str, np.ndarray]) -> ge.Engine:
    engine = ge.Engine(program, threads=threads)
    for name, facts in columns.items():
        engine.load(name, pa.table(facts))
    engine.materialise()
    return engine


def test_integers_that_are_and_are_not_their_own_ids(parallel: list[int]) -> None:
    program = """
.decl a(i: number, x: number)
.decl d(i: number, z: number)
d(i, z) :- a(i, x), x % 3 != 1, z = x * 1000 - 5000000, z < 90000000.
"""
    i = np.arange(ROWS)
    x = i * 7919 % 100_003
    found = columns_of(evaluated(program, a={"i": i, "x": x}), "d")
    z = x * 1000 - 5000000
    kept = (x % 3 != 1) & (z < 90000000)
    assert found[0].tolist() == i[kept].tolist()
    assert found[1].tolist() == z[kept].tolist()
    assert parallel == [ROWS]


def test_floats_and_a_join_behind_them(parallel: list[int]) -> None:
    program = """
.decl a(i: number, x: float)
.decl b(i: number, y: float)
.decl d(i: number, z: float)
d(i, s + y) :- a(i, x), s = x * 0.5, s > 100.0, b(i, y), s + y < 50000.0.
"""
    i = np.arange(ROWS)
    x, y = i * 0.25, (i % 1000) * 1.5
    engine = evaluated(program, a={"i": i, "x": x}, b={"i": i, "y": y})
    found = columns_of(engine, "d")
    total = x * 0.5 + y
    kept = (x * 0.5 > 100.0) & (total < 50000.0)
    assert found[0].tolist() == i[kept].tolist()
    assert found[1].tolist() == total[kept].tolist()
    assert parallel


def test_strings(parallel: list[int]) -> None:
    program = """
.decl a(i: number)
.decl d(s: symbol, n: number)
d(cat("n", to_string(i % 1000)), strlen(to_string(i))) :- a(i), i % 7 < 6.
"""
    engine = evaluated(program, a={"i": np.arange(ROWS)})
    wanted = {(f"n{i % 1000}", len(str(i))) for i in range(ROWS) if i % 7 < 6}
    assert set(engine["d"]) == wanted and len(engine["d"]) == len(wanted)
    assert parallel == [ROWS]


def test_rounds_that_widen_their_head_again_and_again(parallel: list[int]) -> None:
    program = """
.decl a(x: number)
.decl d(x: number, n: number)
d(x, 0) :- a(x).
d(x * 3 + 1, n + 1) :- d(x, n), n < 6.
"""
    wanted = []
    x = np.arange(ROWS)
    found = columns_of(evaluated(program, a={"x": x}), "d")
    for n in range(7):
        wanted += [(value, n) for value in x.tolist()]
        x = x * 3 + 1
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(wanted)
    assert len(parallel) >= 6


def test_a_division_by_zero_is_an_error_and_the_next_run_is_right(parallel: list[int]) -> None:
    program = ".decl a(x: number, y: number)\n.decl d(x: number, z: number)\nd(x, x / y) :- a(x, y), x > 5.\n"
    x = np.arange(ROWS)
    y = np.where((x == ROWS - 3) | (x == 2), 0, x % 5 + 1)
    engine = ge.Engine(program, threads=2)
    engine.load("a", pa.table({"x": x, "y": y}))
    with pytest.raises(EvaluationError, match=f"division of {ROWS - 3} by zero") as caught:
        engine.materialise()
    assert any("d(x, x / y)" in note for note in caught.value.__notes__)
    with engine.update() as update:
        update.delete("a", [(ROWS - 3, 0)])
    engine.materialise()
    kept = (x > 5) & (y != 0)
    assert columns_of(engine, "d")[1].tolist() == (x[kept] // y[kept]).tolist()
    assert len(parallel) >= 2


@settings(max_examples=40)
@given(recursions(), st.sampled_from([1, 3, 1 << 16]), st.sampled_from([16, 100]))
def test_random_recursions(case: tuple[str, Any], chunk_rows: int, buffer_rows: int) -> None:
    program, facts = case
    with forced(small_delta=0, chunk_rows=chunk_rows, buffer_rows=buffer_rows):
        assert_agrees(program, facts, threads=3)
