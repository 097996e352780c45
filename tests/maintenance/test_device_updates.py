"""Updates of facts that are on a device: they stay there, and only what changes moves over the bus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import gpuengine as ge
from gpuengine.errors import MemoryBudgetError
from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.rows import Rows
from gpuengine.schemes.table import Table
from tests.differential.devices import EVERYWHERE, emulated, on, simulated
from tests.maintenance.streams import (
    ANY_CASE,
    NUMBERS,
    STRUCTURED,
    WIDE,
    Model,
    Stream,
    assert_follows,
    assert_is_difference,
    commit,
    fact_streams,
    facts_of,
    is_maintained,
    rule_streams,
    started,
    state_of,
)
from tests.maintenance.test_update_failures import GRAPH, POINTS, WORLDS, delete, fail_everywhere, insert

EMULATED = emulated()
PIECEMEAL = emulated(chunk_items=3)
SIMULATED = simulated()


def on_device(stream: Stream, backend: CudaBackend = EMULATED) -> Stream:
    options = {"counting": False, **on(backend)}
    return replace(stream, options={**stream.options, **options})


def assert_there(kb: Any, *, certainly: bool = False) -> None:
    """All facts of tables are on the device, unless there were few, or the host must maintain them."""
    if kb is None or kb.current.database is None or not is_maintained(kb):
        return
    backend = kb.options.accelerator.backend
    where = kb._updater.maintainer(kb.current).context.placement.current
    assert where is backend or not certainly
    if where is not backend:
        return
    tables = [*kb.current.database.all_tables(), *kb.loaded.values()]
    assert {table.name for table in tables if table.backend is not backend} == set()


@settings(max_examples=25)
@given(fact_streams(STRUCTURED))
def test_structured_programs(stream: Stream) -> None:
    assert_there(assert_follows(on_device(stream)))


@settings(max_examples=12)
@given(fact_streams(NUMBERS))
def test_programs_over_numbers(stream: Stream) -> None:
    assert_there(assert_follows(on_device(stream, PIECEMEAL)))


@settings(max_examples=10)
@given(fact_streams(ANY_CASE))
def test_programs_over_all_types(stream: Stream) -> None:
    assert_there(assert_follows(on_device(stream)))


@settings(max_examples=10)
@given(fact_streams(WIDE))
def test_wide_programs(stream: Stream) -> None:
    assert_there(assert_follows(on_device(stream)))


@settings(max_examples=12)
@given(rule_streams(STRUCTURED))
def test_rules_that_come_and_go(stream: Stream) -> None:
    assert_follows(on_device(stream), maintained=False)


@settings(max_examples=3)
@given(fact_streams(STRUCTURED))
def test_programs_in_the_simulator(stream: Stream) -> None:
    few = replace(stream, transactions=stream.transactions[:2])
    assert_there(assert_follows(on_device(few, SIMULATED)))


@settings(max_examples=10)
@given(fact_streams(STRUCTURED))
def test_counted_derivations_are_the_host_s(stream: Stream) -> None:
    counted = on_device(stream)
    assert_follows(replace(counted, options={**counted.options, "counting": True}))


# -- what moves --------------------------------------------------------------------------------------

PROGRAMS = {
    "a closure as a table": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).",
        {"*": "table"},
    ),
    "nonlinear, with negation": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z). q(x, y) :- p(y, x), !e(x, y), x != y.",
        {"*": "table"},
    ),
    "a closure as such": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z). q(x, z) :- e(x, y), p(y, z), !e(z, x).",
        {"p": "closure"},
    ),
    "an equivalence": (
        "p(x, y) :- e(x, y). p(y, x) :- p(x, y). p(x, z) :- p(x, y), p(y, z). q(x, y) :- e(x, y), p(y, x).",
        {"p": "equivalence"},
    ),
    "a union": (
        "u(x, y) :- e(x, y). u(y, x) :- f(x, y). q(x, z) :- e(x, y), u(y, z).",
        {"u": "union"},
    ),
    "arithmetic and aggregates": (
        "p(x, y + 1) :- e(x, y). q(x, n) :- e(x, _), n = count : { e(x, _) }.",
        {"*": "table"},
    ),
}
#: Rules that read how a closure or an equivalence has changed send the host what they join it with.
COMPACT = ("a closure as such", "an equivalence")
#: What went and what came, as the change, as row numbers, as bindings and as answers whether they are there.
BYTES_A_FACT = 200


def chains(count: int) -> list[tuple[int, int]]:
    """Paths of four edges."""
    return [(5 * n + k, 5 * n + k + 1) for n in range(count) for k in range(4)]


@contextmanager
def whole_columns(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How long the pieces are that come to the host."""
    pieces: list[int] = []
    download = EMULATED.device.download

    def watched(array: Any) -> np.ndarray:
        pieces.append(len(array))
        return download(array)

    with monkeypatch.context() as patch:
        patch.setattr(EMULATED.device, "download", watched)
        yield pieces


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in COMPACT])
def test_only_the_change_comes_to_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many facts there are: as many bytes for ten times as many."""
    rules, schemes = PROGRAMS[name]
    fetched = []
    for count in (300, 3000):
        declared = "".join(f".decl {relation}(x: number, y: number)\n" for relation in "efpqu")
        kb = ge.Engine(declared + rules.replace(". ", ".\n") + "\n", schemes=schemes, **on(EMULATED))
        kb.load("e", chains(count))
        kb.load("f", chains(count))
        kb.materialise()
        commit(kb, [delete("e", (1, 2)), insert("e", (2, 6))])  # brings what is stated there
        counts = EMULATED.device.statistics
        before = counts.downloaded
        with whole_columns(monkeypatch) as pieces:
            change = commit(kb, [delete("e", (11, 12), (16, 17)), insert("e", (12, 16), (1, 2))])
        fetched.append(counts.downloaded - before)
        changed = sum(len(change[one].inserted) + len(change[one].deleted) for one in change)
        touched = 4 * changed + 100  # what is overdeleted and comes back is not in the change
        assert max(pieces) <= touched
        assert fetched[-1] <= BYTES_A_FACT * touched
        assert is_maintained(kb)
        assert_there(kb, certainly=True)
    assert fetched[1] <= 1.5 * fetched[0]


@pytest.mark.parametrize("name", COMPACT)
def test_tables_beside_closures_stay(name: str) -> None:
    """Whoever derives from them."""
    rules, schemes = PROGRAMS[name]
    declared = "".join(f".decl {relation}(x: number, y: number)\n" for relation in "epq")
    clauses = tuple(f"{clause}." for clause in rules.rstrip(".").split(". "))
    transactions = ((delete("e", (11, 12), (16, 17)), insert("e", (12, 16))), (insert("e", (11, 12)),))
    stream = on_device(Stream(declared, clauses, {"e": chains(6)}, transactions, {"schemes": schemes}))
    assert_there(assert_follows(stream), certainly=True)


def test_no_table_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = ge.Engine(
        ".decl e, p(x: number, y: number)\np(x, y) :- e(x, y).\np(x, z) :- p(x, y), e(y, z).\n",
        schemes={"*": "table"},
        **on(EMULATED),
    )
    kb.load("e", chains(500))
    kb.materialise()
    column, read = Rows.column, []

    def watched(rows: Rows, j: int) -> np.ndarray:
        read.append(rows.count)
        return column(rows, j)

    with monkeypatch.context() as patch:
        patch.setattr(Rows, "column", watched)
        for step in range(10):
            commit(kb, [delete("e", (5 * step, 5 * step + 1)), insert("e", (5 * step, 5 * step + 2))])
    assert read and max(read) < 50


# -- readers, and what fails -------------------------------------------------------------------------


def test_views_stay_what_they_were() -> None:
    """Those from before an update, and those that somebody takes while it goes on."""
    kb = started(on_device(WORLDS["tables"]))
    model = Model(WORLDS["tables"])
    kept, taken = [], []
    delete_rows = Table.delete

    def reading(table: Table, columns: Any, count: int) -> int:
        done = delete_rows(table, columns, count)
        taken.append(({name: kb[name] for name in kb.relations}, before))
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "delete", reading)
        for transaction in (*WORLDS["tables"].transactions, [insert("e", (2, 9)), delete("e", (1, 2))]):
            before = model.state()
            kept.append(({name: kb[name] for name in kb.relations}, before))
            for call in transaction:
                model.take(call)
            commit(kb, transaction)
    assert len(taken) > 4
    for views, state in (*kept, *taken):
        assert {name: set(view) for name, view in views.items()} == state
    assert state_of(kb) == model.state()
    assert_there(kb, certainly=True)


@pytest.mark.parametrize(("point", "step"), [("rules", 5), ("tables", 9), ("strata", 2)])
@pytest.mark.parametrize("name", ["tables", "closures", "unions", "an alias", "rules"])
def test_an_update_that_fails_leaves_everything_as_it_was(name: str, point: str, step: int) -> None:
    assert fail_everywhere(on_device(WORLDS[name]), POINTS[point], MemoryError, step=step) > 0


@contextmanager
def out_of_memory_at(number: int) -> Iterator[list[int]]:
    """The device has no memory when it is asked for the `number`-th time, and from then on."""
    asked, empty = [0], EMULATED.device.empty

    def failing(count: int, dtype: Any) -> Any:
        asked[0] += 1
        if asked[0] >= number:
            raise DeviceMemoryError(count, 0)
        return empty(count, dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EMULATED.device, "empty", failing)
        yield asked


def points_of(stream: Stream) -> list[int]:
    """Some of the times at which an update asks for memory."""
    kb = started(stream)
    with out_of_memory_at(1 << 60) as asked:
        commit(kb, stream.transactions[0])
    return sorted({1, 7, *np.linspace(30, asked[0], 10).astype(int).tolist()})


@pytest.mark.parametrize("always", [False, True], ids=["or on the host", "only on the device"])
@pytest.mark.parametrize("name", ["tables", "unions", "rules"])
def test_device_memory_ends_midway(name: str, always: bool) -> None:
    """At whatever point: the update is done on the host, or, if it may not be, nothing has changed."""
    stream = on_device(WORLDS[name])
    model = Model(stream)
    before, stated = model.state(), model.shown_facts()
    for call in stream.transactions[0]:
        model.take(call)
    after = model.state()
    assert before is not None and after is not None
    failed = 0
    for number in points_of(stream):
        kb = started(stream)
        kb._updater.options = replace(kb._updater.options, always=always)
        with out_of_memory_at(number):
            try:
                change = commit(kb, stream.transactions[0])
            except MemoryBudgetError as error:
                assert always and "out of device memory" in str(error)
                failed += 1
                assert state_of(kb) == before and facts_of(kb) == stated
                change = None
        if change is None:
            change = commit(kb, stream.transactions[0])  # there is memory again
        assert state_of(kb) == after and facts_of(kb) == model.shown_facts()
        assert_is_difference(change, before, after)
        commit(kb, [delete("e", *GRAPH)])
    assert failed > 3 or not always


def test_updates_of_facts_that_are_on_the_host_stay_there() -> None:
    """A device may be used, but was not: nothing is copied to it for an update."""
    backend = emulated()
    stream = WORLDS["tables"]
    options = {"backend": backend, "thresholds": replace(EVERYWHERE, auto_facts=1 << 40, large_delta=1 << 40)}
    kb = assert_follows(replace(stream, options={**stream.options, **options}))
    assert backend.device.statistics.launches == 0
    assert all(table.backend.on_host for table in kb.current.database.all_tables())
