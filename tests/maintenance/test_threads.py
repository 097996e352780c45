"""Several threads on one engine: who waits for whom, and what they see."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuengine as ge
from gpuengine.errors import Busy
from gpuengine.maintenance.change import RelationChange
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.persistence import export_terms
from tests.maintenance import thread_stress
from tests.maintenance.test_update_transactions import EDGES, PROGRAM, closure, engine
from tests.maintenance.test_views import in_thread


@pytest.mark.parametrize("seed", range(4))
def test_readers_see_states_that_were_there(seed: int) -> None:
    assert thread_stress.run(seed, transactions=30) > 30


def test_the_stress_is_about_every_scheme() -> None:
    kb = ge.Engine(thread_stress.PROGRAM, threads=1, schemes=thread_stress.SCHEMES).materialise()
    assert {storage.scheme for storage in kb.storage.values()} == {
        "table", "closure", "equivalence", "union", "alias",
    }  # fmt: skip


def test_updates_queue() -> None:
    """What one reads in an update's block is what the next transaction is built on."""
    kb = ge.Engine(".decl n(x: number)\n", threads=1).materialise()
    with kb.update() as u:
        u.insert("n", [(0,)])

    def count() -> None:
        for _ in range(20):
            with kb.update() as u:
                ((last,),) = kb["n"]
                u.delete("n", [(last,)])
                u.insert("n", [(last + 1,)])

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(kb["n"]) == [(80,)]


@pytest.mark.parametrize(
    "act",
    [
        lambda kb: kb.update(wait=0.01).__enter__(),
        lambda kb: kb.load("edge", [(8, 9)]),
        lambda kb: kb.materialise(),
        lambda kb: kb.save("kb"),
    ],
)
def test_who_waits_too_long_is_told(act: Callable[[Any], Any]) -> None:
    kb = engine(wait=0.02)
    with kb.update() as u:
        u.insert("edge", [(4, 5)])
        with pytest.raises(Busy, match=r"waited 0.0\d s for another thread \(MainThread\)"):
            in_thread(lambda: act(kb))
        assert in_thread(lambda: set(kb["edge"])) == set(EDGES)
    assert set(kb["edge"]) == {*EDGES, (4, 5)}
    in_thread(lambda: kb.load("edge", [(8, 9)]))


@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), "long", True])
def test_how_long_to_wait(wait: Any) -> None:
    with pytest.raises(ge.GpuEngineError, match="wait must be a number of seconds"):
        engine(wait=wait)
    with pytest.raises(ge.GpuEngineError, match="wait must be a number of seconds"):
        engine().update(wait=wait)


def test_one_may_wait_as_long_as_it_takes() -> None:
    kb = engine(wait=0.01)
    began, done = threading.Event(), []

    def update() -> None:
        began.set()
        with kb.update(wait=None) as u:
            u.insert("edge", [(8, 9)])
        done.append(True)

    with kb.update() as u:
        u.insert("edge", [(4, 5)])
        thread = threading.Thread(target=update)
        thread.start()
        began.wait()
        thread.join(0.1)
        assert not done
    thread.join()
    assert set(kb["edge"]) == {*EDGES, (4, 5), (8, 9)}


def test_a_failed_update_lets_others_go_on() -> None:
    kb = engine(wait=0.1)
    for _ in range(2):
        with pytest.raises(RuntimeError), kb.update() as u:
            u.insert("edge", [(4, 5)])
            raise RuntimeError
    with kb.update() as u, pytest.raises(ge.GpuEngineError):
        u.insert("nothing", [(1,)])
    in_thread(lambda: kb.load("edge", [(8, 9)]))


def test_an_update_waits_for_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that read tables as they stand; others, that come then, have snapshots and do not wait."""
    from gpuengine import engine as facade

    kb = engine(wait=0.05)
    asking, go_on = threading.Event(), threading.Event()
    answer = facade.answer
    found = []

    def slow_answer(*args: Any) -> Any:
        asking.set()
        go_on.wait()
        return answer(*args)

    monkeypatch.setattr(facade, "answer", slow_answer)
    thread = threading.Thread(target=lambda: found.append(set(kb.query("path(1, x)"))))
    thread.start()
    asking.wait()
    monkeypatch.undo()
    with pytest.raises(Busy, match="queries"), kb.update() as u:
        u.insert("edge", [(4, 5)])
    assert set(kb["edge"]) == set(EDGES) and (1, 4) in kb["path"]
    go_on.set()
    thread.join()
    assert found == [{(2,), (3,), (4,)}]
    with kb.update() as u:
        u.insert("edge", [(4, 5)])
    assert set(kb["path"]) == closure({*EDGES, (4, 5)})


# -- callbacks ------------------------------------------------------------------------------------------


def test_a_subscriber_may_read_and_update() -> None:
    """What it changes is told when all know of the change that it was told of."""
    kb = engine()
    heard: list[tuple[str, list[Any]]] = []

    def follow(change: RelationChange) -> None:
        heard.append(("follow", sorted(change.inserted)))
        assert set(change.inserted) <= set(kb["edge"])
        last = max(y for _, y in kb["edge"])
        if last < 10:
            with kb.update() as u:
                u.insert("edge", [(last, last + 1)])
            assert (last, last + 1) in kb["edge"]

    kb.subscribe("edge", follow)
    kb.subscribe("edge", lambda change: heard.append(("listen", sorted(change.inserted))))
    with kb.update() as u:
        u.insert("edge", [(7, 8)])
    told = [[(7, 8)], [(8, 9)], [(9, 10)]]
    assert heard == [(name, rows) for rows in told for name in ("follow", "listen")]
    assert (7, 10) in kb["path"]


def test_errors_of_subscribers_to_what_subscribers_change() -> None:
    kb = engine()

    def follow(change: RelationChange) -> None:
        if (7, 8) in change.inserted:
            with kb.update() as u:
                u.insert("edge", [(8, 9)])
        else:
            raise RuntimeError("not that one")

    kb.subscribe("edge", follow)
    with pytest.raises(RuntimeError, match="not that one"), kb.update() as u:
        u.insert("edge", [(7, 8)])
    assert {(7, 8), (8, 9)} <= set(kb["edge"])
    in_thread(lambda: kb.load("edge", [(9, 10)]))


def test_a_subscriber_that_waits_for_another_thread() -> None:
    """An update of that thread can't begin before this one has been told: it is told so, in time."""
    kb = engine(wait=0.05)
    errors: list[BaseException] = []

    def update_elsewhere(change: RelationChange) -> None:
        with pytest.raises(Busy) as caught:
            in_thread(lambda: kb.load("edge", [(8, 9)]))
        errors.append(caught.value)

    kb.subscribe("edge", update_elsewhere)
    with kb.update() as u:
        u.insert("edge", [(7, 8)])
    assert len(errors) == 1


def test_what_watches_may_read_but_not_change() -> None:
    kb = engine()
    seen: list[set[Any]] = []

    def watch(_: object) -> None:
        seen.append(set(kb["edge"]))
        if len(seen) == 1:
            for change in (lambda: kb.load("edge", [(8, 9)]), kb.materialise, update):
                with pytest.raises(ge.GpuEngineError, match="may read"):
                    change()

    def update() -> None:
        with kb.update() as u:
            u.insert("edge", [(8, 9)])

    with kb.update(watch=watch) as u:
        u.insert("edge", [(4, 5)])
    assert seen and seen[0] == set(EDGES)
    assert set(kb["edge"]) == {*EDGES, (4, 5)}


# -- what is made when it is first asked for ------------------------------------------------------------


def test_readers_that_are_the_first_to_ask() -> None:
    """Sets, indexes, backward closures and classes are made by whoever comes first, once or alike."""
    for schemes in ({"path": "table"}, {"path": "closure"}):
        kb = ge.Engine(PROGRAM, threads=1, schemes=schemes)
        kb.load("edge", [(k, k + 1) for k in range(400)])
        kb.materialise()
        start = threading.Barrier(8)
        found: list[tuple[bool, int, int]] = []

        def ask(kb: Any = kb, start: threading.Barrier = start, found: list[Any] = found) -> None:
            start.wait()
            view = kb["path"]
            found.append(((3, 390) in view, len(kb.query("path(x, 300)")), len(kb.query("path(300, x)"))))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [(True, 300, 100)] * 8


def test_a_dictionary_that_threads_share() -> None:
    """Each text has one id, whoever came first, and is read while others come."""
    dictionary = Dictionary()
    ids: list[dict[str, int]] = [{} for _ in range(4)]
    errors: list[str] = []

    def intern(own: dict[str, int], shift: int) -> None:
        for block in range(0, 30_000, 500):
            texts = [f"text {(k * 7 + shift) % 20_000} {'x' * (k % 40)}" for k in range(block, block + 500)]
            found = dictionary.encode("symbol", np.array(texts, object))
            own |= dict(zip(texts, found.tolist(), strict=True))
            if dictionary.strings(found).to_pylist() != texts:
                errors.append("decoded to something else")
            again, known = dictionary.find("symbol", np.array(texts, object))
            if not known.all() or not np.array_equal(again, found):
                errors.append("not found again")
            exported = export_terms(dictionary, {})["symbol"]
            if exported.count != len(exported.arrays[0]) - 1 or exported.arrays[0][-1] != exported.size:
                errors.append("exported in part")

    threads = [threading.Thread(target=intern, args=(own, 1000 * k)) for k, own in enumerate(ids)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    merged: dict[str, int] = {}
    for own in ids:
        assert all(merged.setdefault(text, number) == number for text, number in own.items())
    assert sorted(merged.values()) == list(range(dictionary.bound("symbol")))
