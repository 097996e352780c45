"""Views are copied and pickled by value; what is tied to memory, files and threads refuses."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import gpuengine

PROGRAM = """
.type Pair = [left: number, right: symbol]
.type Shape = Circle { r: float } | Nothing {}
.decl f(x: number, s: symbol)
.decl typed(u: unsigned, d: float, p: Pair, a: Shape)
.decl path(x: number, y: number)
.decl same(x: number, y: number) eqrel
.decl holds()
.decl empty(x: number)
f(1, "one"). f(-5, "tab\\t"). f(20000000, "").
typed(7, 0.5, [1, "a"], $Circle(2.5)). typed(8, -1.5, nil, $Nothing()).
path(x, x + 1) :- x = range(0, 50).
path(x, z) :- path(x, y), path(y, z).
same(x, y) :- path(x, y), x < 5.
holds() :- f(_, _).
"""
NAMES = ("f", "typed", "path", "same", "holds", "empty")
READ = """
import pickle, sys
views = pickle.load(sys.stdin.buffer)
out = {name: (repr(view), view.columns, len(view), sorted(view), sorted(view.to_pylist()),
              view.to_arrow().to_pylist(), all(fact in view for fact in view),
              [batch.num_rows for batch in view.batches(rows=100)])
       for name, view in views.items()}
out["strangers"] = [(1, "two") in views["f"], (3,) in views["empty"], (99, 0) in views["path"]]
out["again"] = pickle.loads(pickle.dumps(views["f"])).to_pylist()
sys.stdout.buffer.write(pickle.dumps(out))
"""
TAKEN: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda one: pickle.loads(pickle.dumps(one)),
    lambda one: pickle.loads(pickle.dumps(one, protocol=2)),
]


@pytest.fixture
def kb() -> gpuengine.Engine:
    kb = gpuengine.Engine(PROGRAM)
    kb.materialise()
    return kb


@pytest.mark.parametrize("take", TAKEN)
@pytest.mark.parametrize("name", NAMES)
def test_a_view_is_taken_by_value(kb: gpuengine.Engine, name: str, take: Callable[[Any], Any]) -> None:
    view = kb[name]
    facts = sorted(view)
    other = take(view)
    with kb.update() as update:
        update.insert("f", [(2, "two")])
        update.delete("f", [(1, "one")])
    del kb, view
    assert sorted(other) == facts
    assert (len(other), all(fact in other for fact in facts)) == (len(facts), True)
    assert sorted(take(other)) == facts


def test_a_view_is_unpickled_in_another_process(kb: gpuengine.Engine) -> None:
    views = {name: kb[name] for name in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", READ], input=pickle.dumps(views), capture_output=True, check=True
    )
    found = pickle.loads(done.stdout)
    for name, view in views.items():
        shown, columns, count, facts, listed, rows, holds_all, sizes = found[name]
        assert (shown, columns, count) == (repr(view), view.columns, len(view))
        assert facts == listed == sorted(view)
        assert len(rows) == (len(view) if columns else 0) or not columns
        assert holds_all
        assert sum(sizes) == len(view)
    assert found["strangers"] == [False, False, False]
    assert sorted(found["again"]) == sorted(views["f"])


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_engine_refuses_and_says_what_to_do(kb: gpuengine.Engine, take: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"Engine objects can't be copied or pickled\n  hint: .*save\(path\)"):
        take(kb)
    with pytest.raises(TypeError, match="Engine objects can't be copied or pickled"):
        take([kb]) if take is not copy.copy else take(kb)
    assert len(kb["f"]) == 3


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_updates_and_schemes_refuse(kb: gpuengine.Engine, take: Callable[[Any], Any]) -> None:
    assert kb.database is not None
    for owner in (kb.update(), *kb.database.tables.values()):
        with pytest.raises(TypeError, match="can't be copied or pickled"):
            take(owner)


@pytest.mark.parametrize("take", TAKEN)
def test_a_change_is_taken_by_value(kb: gpuengine.Engine, take: Callable[[Any], Any]) -> None:
    with kb.update() as update:
        update.insert("f", [(2, "two")])
        update.insert("same", [(90, 91)])
        update.delete("f", [(1, "one")])
    shown = {name: (sorted(one.inserted), sorted(one.deleted)) for name, one in update.change.items()}
    assert {"f", "same"} <= shown.keys()
    other = take(update.change)
    with kb.update() as later:
        later.delete("f", [(2, "two")])
    assert {name: (sorted(one.inserted), sorted(one.deleted)) for name, one in other.items()} == shown
    assert repr(other) == repr(update.change) and not other["path"] and "path" not in list(other)
    with pytest.raises(KeyError):
        other["nothing"]
    assert sorted(take(other["f"]).inserted) == [(2, "two")]
