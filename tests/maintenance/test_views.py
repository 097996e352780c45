"""Views show the state that they were taken from, whatever becomes of the engine afterwards."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine import engine
from gpuengine.errors import EvaluationError
from gpuengine.evaluation import interruptible
from gpuengine.maintenance.stratum import StratumMaintenance
from gpuengine.relation import RelationView
from tests.maintenance.streams import STRUCTURED, Stream, commit, fact_streams, rule_streams, started
from tests.maintenance.thread_stress import PROGRAM, SCHEMES, TOGGLED

FACTS = {
    "edge": [(1, 2), (2, 3), (3, 1), (3, 4), (5, 5)],
    "link": [(1, 2), (4, 5), (5, 6), (9, 9)],
    "forth": [(1, 2), (2, 3)],
    "item": [(1, "a"), (2, "b"), (3, "a"), (4, "only here")],
    "owner": [("a", "Ann"), ("b", "Bob"), ("a", "Bob")],
}
QUERIES = ("edge(x, y), same(y, z), owned(x, w)", "path(x, 4)", "either(x, y)", "back(x, y)", "owned(x, _)")
Known = dict[str, tuple[RelationView, set[tuple[Any, ...]]]]


def filled(**options: Any) -> Any:
    kb = ge.Engine(PROGRAM, threads=1, schemes=SCHEMES, **options)
    for name, rows in FACTS.items():
        kb.load(name, rows)
    return kb.materialise()


def taken(kb: Any, *, is_read: bool = False) -> Known:
    """Views of everything, with what they show; `is_read`: what was made for that is kept, too."""
    views = {name: kb[name] for name in kb.relations}
    views |= {query: kb.query(query) for query in QUERIES}
    return {name: (view, set(view if is_read else kb[name] if name in kb.relations else kb.query(name)))
            for name, view in views.items()}  # fmt: skip


def assert_stand(known: Known) -> None:
    for name, (view, rows) in known.items():
        found = list(view)
        assert len(view) == len(found) == len(rows) and set(found) == rows, name
        assert set(zip(*(column.to_pylist() for column in view.to_arrow().columns), strict=True)) == rows
        assert all(row in view for row in rows), name
        for other in ((1, 2), (2, 1), (7, 8), (1, "a")):
            if [type(value) for value in other] == [type(value) for value in next(iter(rows), ())]:
                assert (other in view) == (other in rows), (name, other)


def insert(kb: Any) -> None:
    with kb.update() as u:
        u.insert("edge", [(4, 7), (7, 8)])
        u.insert("link", [(6, 1), (20, 21)])
        u.insert("item", [(9, "b"), (10, "unheard of")])
        u.insert("forth", [(8, 9)])


def delete(kb: Any) -> None:
    with kb.update() as u:
        u.delete("edge", [(3, 1), (5, 5)])
        u.delete("link", [(4, 5)])
        u.delete("item", [(1, "a")])
        u.delete("owner", [("b", "Bob")])
        u.delete("forth", [(1, 2)])


def exchange(kb: Any) -> None:
    """What goes leaves its place to what comes."""
    with kb.update() as u:
        for name, rows in FACTS.items():
            u.delete(name, rows[:2])
        u.insert("edge", [(11, 12), (12, 13)])
        u.insert("item", [(11, "a"), (12, "b")])


def change_rules(kb: Any) -> None:
    with kb.update() as u:
        u.add_rules(TOGGLED)
        u.remove_rules("either(x, y) :- link(x, y).")
        u.add_rules(".decl more(x: number)\nmore(x) :- owned(x, _).")


def add_rules(kb: Any) -> None:
    """Such that everything stays what it is stored as, and is maintained."""
    with kb.update() as u:
        u.add_rules(TOGGLED)
        u.add_rules("owned(x, group) :- item(x, group).")
        u.delete("edge", [(3, 1)])


def compute_anew(kb: Any) -> None:
    with kb.update() as u:
        u.delete("item", FACTS["item"][:2])
        u.insert("item", [(100 + k, "a") for k in range(1500)])


def load_and_materialise(kb: Any) -> None:
    kb.load("edge", [(4, 1)])
    kb.materialise()


CHANGES = [insert, delete, exchange, add_rules, change_rules, compute_anew, load_and_materialise]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_read", [False, True])
def test_views_stand(change: Callable[[Any], None], is_read: bool) -> None:
    kb = filled()
    insert(kb)
    known = taken(kb, is_read=is_read)
    change(kb)
    assert_stand(known)
    delete(kb)
    later = taken(kb, is_read=is_read)
    load_and_materialise(kb)
    insert(kb)
    assert_stand(later)
    assert_stand(known)


def test_a_view_outlives_the_engine() -> None:
    known = taken(filled())
    assert_stand(known)


@pytest.mark.parametrize("read_only", [False, True])
def test_views_of_a_knowledge_base_on_disk(tmp_path: Path, read_only: bool) -> None:
    filled().save(tmp_path / "kb")
    kb = ge.open(tmp_path / "kb", read_only=read_only, threads=1)
    known = taken(kb)
    if read_only:
        with pytest.raises(ge.StoreError), kb.update():
            pass
    else:
        for change in (insert, delete, change_rules, compute_anew, exchange):
            change(kb)
            assert_stand(known)
    kb.close()
    assert_stand(known)


@settings(max_examples=25)
@given(st.one_of(fact_streams(STRUCTURED), rule_streams(STRUCTURED)))
def test_views_of_every_state_of_a_stream(stream: Stream) -> None:
    """All schemes, by random rules: every view of every state, after the last transaction."""
    kb = started(stream)
    known: list[Known] = []
    for transaction in stream.transactions:
        known.append({name: (kb[name], set(kb[name])) for name in kb.relations})
        try:
            commit(kb, transaction)
        except ge.GpuEngineError:
            continue  # as the tests of streams show, nothing has changed
    for of_state in known:
        assert_stand(of_state)


# -- while an update is going on ------------------------------------------------------------------------


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Have something done by another thread each time a stratum has been maintained, in mid-update."""
    acts: list[Callable[[], None]] = []
    run = StratumMaintenance.run

    def run_and_act(stratum: StratumMaintenance, *args: Any) -> None:
        run(stratum, *args)
        for act in acts:
            in_thread(act)

    monkeypatch.setattr(StratumMaintenance, "run", run_and_act)
    yield acts.append


def in_thread(act: Callable[[], Any]) -> Any:
    """Do something in another thread; its result, or its error."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            results.append(act())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


@pytest.mark.parametrize("change", [insert, delete, exchange, add_rules])
def test_who_comes_in_mid_update_sees_the_state_before(
    change: Callable[[Any], None], between: Callable[[Callable[[], None]], None]
) -> None:
    kb = filled()
    insert(kb)
    before = {name: rows for name, (_, rows) in taken(kb).items()}
    sizes = {name: storage.facts for name, storage in kb.storage.items()}
    seen: list[Known] = []

    def look() -> None:
        assert {name: storage.facts for name, storage in kb.storage.items()} == sizes
        seen.append(taken(kb))
        assert {name: rows for name, (_, rows) in seen[-1].items()} == before
        assert (1, 2) in kb["edge"] and (1, 4) in kb["path"] and (77, 78) not in kb["path"]

    between(look)
    change(kb)
    assert len(seen) >= 3
    for known in seen:
        assert_stand(known)


def test_an_update_that_fails_after_somebody_has_looked(
    between: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = filled()
    insert(kb)
    known, seen = taken(kb), []

    def look_and_fail() -> None:
        seen.append(taken(kb))
        if len(seen) == 3:
            raise EvaluationError("no more")

    between(look_and_fail)
    with pytest.raises(EvaluationError, match="no more"):
        exchange(kb)
    for views in (known, *seen, taken(kb)):
        assert_stand(views)
        assert {name: rows for name, (_, rows) in views.items()} == {
            name: rows for name, (_, rows) in known.items()
        }
    seen.clear()
    monkeypatch.undo()
    exchange(kb)
    assert_stand(known)


def test_an_update_that_is_interrupted(between: Callable[[Callable[[], None]], None]) -> None:
    kb = filled()
    insert(kb)
    known, seen = taken(kb), []

    def look_and_interrupt() -> None:
        seen.append(taken(kb))
        if len(seen) == 1:  # another one could come after the update, and end the tests
            signal.raise_signal(signal.SIGINT)
        threading.Event().wait(interruptible._WATCH_SECONDS)

    between(look_and_interrupt)
    with pytest.raises((ge.Interrupted, KeyboardInterrupt)):
        exchange(kb)
    assert_stand(known)
    assert_stand(seen[0])
    assert {name: rows for name, (_, rows) in seen[0].items()} == {
        name: rows for name, (_, rows) in known.items()
    }


def test_materialise_in_mid_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes while everything is computed anew sees what was computed before."""
    kb = filled()
    before = {name: rows for name, (_, rows) in taken(kb).items()}
    seen: list[Known] = []
    evaluate = engine.evaluate

    def evaluate_and_look(*args: Any, **options: Any) -> Any:
        found = evaluate(*args, **options)
        seen.append(in_thread(lambda: taken(kb)))
        return found

    monkeypatch.setattr(engine, "evaluate", evaluate_and_look)
    kb.load("edge", [(4, 1)])
    kb.materialise()
    assert {name: rows for name, (_, rows) in seen[0].items()} == before
    assert_stand(seen[0])
    assert (4, 2) in kb["path"]
