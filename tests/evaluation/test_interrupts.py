"""Setting `stop` from another thread ends an evaluation soon, wherever it is."""

from __future__ import annotations

import threading
import time

import pytest

import gpuengine as ge
from gpuengine.errors import Interrupted
from gpuengine.evaluation.fixpoint import evaluate_plan
from gpuengine.evaluation.options import Options
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.database import Database
from tests.evaluation.forced import forced

CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.input edge
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
COUNTER = """
.decl edge(x: number, y: number)
.decl n(x: number)
.input edge
.output n
n(0).
n(x + 1) :- n(x), x < 4000000000.
"""
COLUMNS = COUNTER.replace("n(x + 1)", "n(x + 1 + 0 / (x + 1))")  # what can fail is computed on columns
PRODUCT = """
.decl edge(x: number, y: number)
.decl p(x: number)
.input edge
.output p
p(x) :- edge(x, a), edge(y, b), x < y, b < a.
"""
ONE_DRIVER = """
.decl edge(x: number, y: number)
.decl one(x: number)
.decl p(x: number)
.input edge
.output p
one(1).
p(u) :- one(u), edge(x, a), edge(y, b), x < y, b < a.
"""
AGGREGATE = """
.decl edge(x: number, y: number)
.decl p(x: number)
.input edge
.output p
p(n) :- n = count : { edge(x, a), edge(y, b), x < y, b < a }.
"""
LONG: dict[str, tuple[str, int]] = {
    "small rounds": (CLOSURE, 20_000),
    "large rounds": (CLOSURE, 50_000),
    "computing": (COUNTER, 0),
    "computing on columns": (COLUMNS, 0),
    "product": (PRODUCT, 200_000),
    "one driver row": (ONE_DRIVER, 200_000),
    "inside an aggregate": (AGGREGATE, 200_000),
}


def evaluation(program: str, edges: int, threads: int) -> Context:
    """A chain of edges, with y as large as x: what the products look for is not there."""
    engine = ge.Engine(program, threads=threads, schemes={"*": "table"})
    engine.load("edge", [(i, i + 1) for i in range(edges)])
    database = Database(engine.program, engine.dictionary)
    for name, table in engine.loaded.items():
        database.tables[name].insert(table.rows.columns(), len(table))
    return Context(engine.plan(), database, Options(threads))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LONG)
def test_stop_from_another_thread(name: str, threads: int) -> None:
    context = evaluation(*LONG[name], threads)
    stopped: list[float] = []

    def stop() -> None:
        stopped.append(time.process_time())
        context.stop[0] = 1

    small = 10**9 if name == "small rounds" else None
    threading.Timer(0.15, stop).start()
    with forced(small_delta=small, small_work=small), pytest.raises(Interrupted):
        evaluate_plan(context)
    # Of the processor: well within what an evaluation of this size would take, however busy the machine is.
    assert time.process_time() - stopped[0] < 5


def test_a_flag_that_is_set_before() -> None:
    context = evaluation(CLOSURE, 10, 1)
    context.stop[0] = 1
    with pytest.raises(Interrupted):
        evaluate_plan(context)
