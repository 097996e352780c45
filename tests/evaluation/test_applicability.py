"""Rules that read what has no facts are not planned, and apply once there are some."""

from __future__ import annotations

import pytest

from gpuengine import Engine
from gpuengine.evaluation.rules.variants import VariantRunner

PROGRAM = """
.decl a(x: number)
.decl b(x: number)
.decl c(x: number)
.decl d(x: number)
.decl e(x: number, y: number)
c(x) :- a(x).
c(x) :- b(x).
d(x) :- c(x), e(x, x).
c(x) :- d(x).
d(x) :- e(x, _), !a(x).
d(n) :- n = count : { b(_) }.
e(x, z) :- e(x, y), e(y, z), b(x).
"""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the rules that are compiled, in order."""
    texts: list[str] = []
    original = VariantRunner._compile

    def noted(runner: VariantRunner, variant: object) -> object:
        texts.append(variant.rule.text)  # type: ignore[attr-defined]
        return original(runner, variant)  # type: ignore[arg-type]

    monkeypatch.setattr(VariantRunner, "_compile", noted)
    return texts


def test_only_rules_that_can_apply_are_compiled(compiled: list[str]) -> None:
    kb = Engine(PROGRAM)
    kb.load("a", [(1,), (2,)])
    kb.materialise()
    assert set(compiled) == {"c(x) :- a(x).", "c(x) :- d(x).", "d(n) :- n = count : { b(_) }."}
    assert sorted(kb["c"].to_pylist()) == [(0,), (1,), (2,)]


def test_what_gets_facts_in_the_recursion_is_read_there(compiled: list[str]) -> None:
    kb = Engine(PROGRAM)
    kb.load("e", [(1, 2), (2, 3)])
    kb.load("b", [(1,)])
    kb.materialise()
    assert "c(x) :- a(x)." not in compiled
    assert "e(x, z) :- e(x, y), e(y, z), b(x)." in compiled
    assert sorted(kb["e"].to_pylist()) == [(1, 2), (1, 3), (2, 3)]
    assert sorted(kb["c"].to_pylist()) == [(1,), (2,)]


def test_rules_that_could_not_apply_do_after_an_update() -> None:
    kb = Engine(PROGRAM)
    kb.load("a", [(1,)])
    kb.materialise()
    with kb.update() as u:
        u.insert("b", [(7,)])
        u.insert("e", [(7, 7), (7, 8), (8, 9)])
    assert sorted(kb["c"].to_pylist()) == [(1,), (7,), (8,)]
    assert (7, 9) in kb["e"].to_pylist()


def test_nothing_is_held_back_for_rounds_that_do_not_come() -> None:
    """The best of many values are told first, and others in rounds: here no rule of the recursion applies."""
    kb = Engine("""
    .decl f(x: number, v: number)
    .decl e(x: number, y: number, w: number)
    .decl d(x: number, v: number)
    d(x, min v) :- f(x, v).
    d(y, min v + w) :- d(x, v), e(x, y, w).
    """)
    kb.load("f", [(x, 7 * x % 20_000) for x in range(20_000)])
    kb.materialise()
    assert sorted(kb["d"].to_pylist()) == sorted(kb["f"].to_pylist())
    with kb.update() as u:
        u.insert("e", [(0, 1, 3)])
    assert u.change["d"].inserted.to_pylist() == [(1, 3)]
