"""Relations whose facts are on a device: read, asked, added to, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import gpuengine as ge
from gpuengine.kernels.cpu.backend import CPU
from tests.evaluation.accelerator import EVERYWHERE, Accelerator

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl named(x: number, name: symbol)
.decl there()
.input edge
.output path
.output named
.output there
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
named(x, cat("n", to_string(x))) :- path(x, _).
there() :- path(1, 3).
"""


@pytest.fixture
def device() -> Accelerator:
    return Accelerator()


@pytest.fixture
def kb(device: Accelerator) -> ge.Engine:
    made = ge.Engine(PROGRAM, backend=device, thresholds=EVERYWHERE)
    made.load("edge", [(1, 2), (2, 3), (3, 4)])
    made.materialise()
    device.unbind()
    return made


def in_another_thread(action: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()
    thread.join()
    assert found, "the thread failed"
    return found[0]


PATHS = {(1, 2), (2, 3), (3, 4), (1, 3), (2, 4), (1, 4)}
READS: dict[str, Callable[[ge.Engine], Any]] = {
    "iterate": lambda kb: set(kb["path"]) == PATHS,
    "arrow": lambda kb: kb["path"].to_arrow().num_rows == 6,
    "numpy": lambda kb: {tuple(row) for row in kb["path"].to_numpy().tolist()} == PATHS,
    "symbols": lambda kb: set(kb["named"]) == {(1, "n1"), (2, "n2"), (3, "n3")},
    "nothing but a fact": lambda kb: list(kb["there"]) == [()],
    "length": lambda kb: len(kb["path"]) == 6,
    "contains": lambda kb: (1, 4) in kb["path"] and (4, 1) not in kb["path"] and (1, 99) not in kb["path"],
    "contains nothing": lambda kb: () in kb["there"],
    "query": lambda kb: set(kb.query("path(1, x), !edge(1, x)")) == {(3,), (4,)},
    "query of a fact": lambda kb: list(kb.query("path(1, 4)")) == [()],
    "query that computes": lambda kb: set(kb.query("path(1, x), y = x * 2, path(x, _)")) == {(2, 4), (3, 6)},
    "query that counts": lambda kb: list(kb.query("n = count : { path(_, _) }")) == [(6,)],
    "load and materialise": lambda kb: kb.load("edge", [(4, 5)]) and len(kb.materialise()["path"]) == 10,
}


@pytest.mark.parametrize("name", READS)
def test_from_another_thread(kb: ge.Engine, name: str) -> None:
    assert kb.database is not None
    assert all(kb.database.tables[relation].backend.name == "fake" for relation in ("edge", "path", "named"))
    assert in_another_thread(lambda: READS[name](kb))


@pytest.mark.parametrize("name", READS)
def test_from_the_main_thread(kb: ge.Engine, name: str) -> None:
    assert READS[name](kb)


def test_loaded_facts_are_read_from_the_copy_that_the_host_has(kb: ge.Engine, device: Accelerator) -> None:
    device.counts.downloaded = 0
    assert set(kb["edge"]) == {(1, 2), (2, 3), (3, 4)}
    assert device.counts.downloaded == 0


def test_results_stay_until_the_next_materialise(kb: ge.Engine) -> None:
    edges, paths = kb["edge"], kb["path"]
    kb.load("edge", [(4, 5)])
    assert set(kb["path"]) == set(paths) == PATHS
    assert set(kb["edge"]) == set(edges) == {(1, 2), (2, 3), (3, 4)}
    assert set(kb.query("edge(x, y)")) == {(1, 2), (2, 3), (3, 4)}
    assert (4, 5) not in kb["edge"] and (4, 5) not in edges
    kb.load("edge", [(5, 6), (1, 2)])
    assert kb.loaded["edge"].backend is CPU and len(kb.loaded["edge"]) == 5
    kb.materialise()
    assert len(kb["path"]) == 15 and len(kb["edge"]) == 5
    assert set(paths) == PATHS and set(edges) == {(1, 2), (2, 3), (3, 4)}


def test_a_query_over_tables_in_several_places(kb: ge.Engine) -> None:
    assert kb.database is not None
    kb.database.tables["edge"].move_to(CPU)
    assert set(kb.query("edge(x, y), path(y, z)")) == {(1, 2, 3), (1, 2, 4), (2, 3, 4)}
    assert kb.database.tables["path"].backend is CPU
    assert set(kb["path"]) == PATHS


def test_a_query_for_which_the_device_has_no_room(kb: ge.Engine, device: Accelerator) -> None:
    device.budget = 0
    assert set(kb.query("path(1, x), y = x + 1, path(x, y)")) == {(2, 3), (3, 4)}
    assert set(kb["path"]) == PATHS


def test_a_table_that_moves_while_it_is_read(kb: ge.Engine, device: Accelerator) -> None:
    assert kb.database is not None
    table = kb.database.tables["path"]
    found = []
    for batch, place in zip(kb["path"].batches(rows=1), [CPU, device, CPU, device, CPU, device], strict=True):
        found += batch.to_pylist()
        table.move_to(place)
        table.drop_copy()
    assert {(row["x"], row["y"]) for row in found} == PATHS and len(found) == 6


def test_another_engine_on_the_same_device(kb: ge.Engine, device: Accelerator) -> None:
    other = ge.Engine(PROGRAM, backend=device, thresholds=EVERYWHERE)
    other.load("edge", [(7, 8)])
    assert set(other.materialise()["path"]) == {(7, 8)} and set(kb["path"]) == PATHS
