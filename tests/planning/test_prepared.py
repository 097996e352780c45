"""A program is planned once, whoever asks for its plan."""

from __future__ import annotations

import pytest

import gpuengine as ge
from gpuengine.planning import prepared

PROGRAM = """
.decl e(x: number, y: number)
.decl p(x: number, y: number)
.decl q(x: number)
.input e
.output p, q
p(x, y) :- e(x, y).
p(x, z) :- p(x, y), e(y, z).
q(x) :- p(x, x).
"""


def test_the_plan_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make_plan = prepared.make_plan
    monkeypatch.setattr(prepared, "make_plan", lambda *args: made.append(args) or make_plan(*args))
    kb = ge.Engine(PROGRAM)
    kb.load("e", [(1, 2), (2, 1)])
    kb.materialise()
    assert len(kb["q"]) == 2
    with kb.update() as u:
        u.delete("e", [(2, 1)])
    assert not kb["q"]
    kb.materialise(wanted="p")
    with pytest.raises(ge.GpuEngineError, match="left out"):
        kb["q"]
    assert len(made) == 1


def test_a_restricted_plan() -> None:
    whole = ge.Engine(PROGRAM).plan()
    restricted = whole.restricted_to(["p"])
    assert [stratum.relations for stratum in restricted.strata] == [("p",)]
    assert [stratum.number for stratum in restricted.strata] == [0]
    assert restricted.left_out == {"q"} and whole.left_out == set()
    assert restricted.derived == {"p"}
    assert whole.restricted_to(["q"]).strata == whole.strata
