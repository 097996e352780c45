"""``autoinc()`` and ``$``: numbers that are all different, and stay with what they number."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from tests.language.rendering import codes_of

PROGRAM = """
.decl e(x: number, y: number)
.input e
.decl id(n: number, x: number, y: number)
id($, x, y) :- e(x, y), x != y.
.decl from(n: number, x: number)
from(autoinc(), x) :- e(x, _).
.decl step(n: number, m: number, x: number)
step($, autoinc(), z) :- e(x, y), z = range(x, y).
"""


def numbers(kb: ge.Engine) -> list[int]:
    found = [row[0] for name in ("id", "from", "step") for row in kb[name].to_pylist()]
    return found + [row[1] for row in kb["step"].to_pylist()]


def test_each_way_of_a_body_to_hold_has_its_number() -> None:
    kb = ge.Engine(PROGRAM)
    kb.load("e", [(1, 2), (1, 3), (2, 2)])
    kb.materialise()
    assert {row[1:] for row in kb["id"].to_pylist()} == {(1, 2), (1, 3)}
    assert sorted(row[1] for row in kb["from"].to_pylist()) == [1, 1, 2]
    assert sorted(row[2] for row in kb["step"].to_pylist()) == [1, 1, 2]
    assert sorted(numbers(kb)) == list(range(2 + 3 + 2 * 3))


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=8, unique=True), st.data()
)
def test_numbers_stay_with_what_they_number(edges: list[tuple[int, int]], data: st.DataObject) -> None:
    gone = data.draw(st.lists(st.sampled_from(edges), unique=True))
    kb = ge.Engine(PROGRAM)
    kb.load("e", edges)
    kb.materialise()
    before = {name: set(kb[name].to_pylist()) for name in ("id", "from", "step")}
    with kb.update() as update:
        update.delete("e", gone)
    left = set(edges) - set(gone)
    assert {row[1:] for row in kb["id"].to_pylist()} == {(x, y) for x, y in left if x != y}
    assert len(kb["from"]) == len(left)
    for name, rows in before.items():
        assert set(kb[name].to_pylist()) <= rows
    with kb.update() as update:
        update.insert("e", gone)
    assert {name: set(kb[name].to_pylist()) for name in before} == before
    assert len(set(numbers(kb))) == len(numbers(kb))


def test_numbers_are_saved(tmp_path: Path) -> None:
    kb = ge.Engine(PROGRAM)
    kb.load("e", [(1, 2), (3, 4)])
    kb.materialise()
    kb.save(tmp_path / "kb")
    again = ge.open(tmp_path / "kb")
    before = set(again["id"].to_pylist())
    assert before == set(kb["id"].to_pylist())
    with again.update() as update:
        update.insert("e", [(5, 6)])
        update.delete("e", [(1, 2)])
    assert {row[1:] for row in again["id"].to_pylist()} == {(3, 4), (5, 6)}
    assert len(set(again["id"].to_pylist()) & before) == 1
    assert len(set(numbers(again))) == len(numbers(again))


def test_rules_with_counters_come_and_go() -> None:
    kb = ge.Engine(PROGRAM)
    kb.load("e", [(1, 2), (3, 4)])
    kb.materialise()
    with kb.update() as update:
        update.add_rules(".decl more(n: number, x: number)\nmore($, y) :- e(_, y).")
    assert sorted(row[1] for row in kb["more"].to_pylist()) == [2, 4]
    assert not {row[0] for row in kb["more"].to_pylist()} & set(numbers(kb))
    with kb.update() as update:
        update.remove_rules("more($, y) :- e(_, y).")
    assert len(kb["more"]) == 0


def test_where_nothing_can_be_counted() -> None:
    declared = ".decl a(x: number)\n.decl b(x: number)\nb(1).\n"
    assert codes_of(declared + "a($) :- b(_), a(_).") == ["E0505"]
    assert codes_of(declared + "a($) :- b(_).\nb(x) :- a(x).") == ["E0505"]
    assert codes_of(declared + "a(x) :- x = count : { b(y), y = $ }.") == ["E0505"]
