"""Nodes of hypertrees follow their strata to a device and back; what a run does not want has no nodes."""

from __future__ import annotations

from typing import Any

import pytest

import gpuengine as ge
from gpuengine.evaluation.rules.tree_join import TreeJoin
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.language.program import Atom
from gpuengine.planning.node_rules import is_node
from gpuengine.schemes.table import Table
from tests.evaluation.accelerator import EVERYWHERE, NEVER, Accelerator

CYCLE = "a(x, u), b(u, y), c(x, v), d(v, y)"
PAIRS = ".decl a, b, c, d(x: number, y: number)\n"
LATER_ON_THE_DEVICE = f"""{PAIRS}
.decl p, q(x: number, y: number, u: number, v: number)
.decl big(x: number)
p(x, y, u, v) :- {CYCLE}.
big(x + y) :- a(x, _), b(_, y).
q(x, y, u, v) :- {CYCLE}, !big(u).
"""
INTO_A_CLOSURE = f"""{PAIRS}
.decl p, q, m(x: number, y: number)
m(1, 2).
p(x, y) :- {CYCLE}, !m(u, v).
p(x, z) :- p(x, y), p(y, z).
q(x, y) :- p(x, y).
"""


def materialised(program: str, **options: Any) -> Any:
    kb = ge.Engine(program, threads=1, evaluators={"*": "hypertree"}, **options)
    places = [(i, i * 6 + j, j) for i in range(100) for j in range(6)]
    for first, second in ("ab", "cd"):
        kb.load(first, [(i, at) for i, at, _ in places])
        kb.load(second, [(at, j) for _, at, j in places])
    return kb.materialise()


def test_a_node_follows_the_stratum_that_reads_it_next() -> None:
    """The second stratum reads more, so that it begins on the device, where the node of the first is not."""
    thresholds = Thresholds(auto_facts=2450, small_delta=0, large_delta=NEVER)
    there = materialised(LATER_ON_THE_DEVICE, backend=Accelerator(), thresholds=thresholds)
    placed = {tuple(one.relations): set(one.rounds) for one in there.progress.placed}
    assert placed[("p",)] == {"cpu"} and placed[("q",)] != {"cpu"}, "as this test needs it"
    here = materialised(LATER_ON_THE_DEVICE, backend="cpu")
    assert set(there["q"]) == set(here["q"]) and len(here["q"]) == 495


def test_what_is_reduced_meets_tables_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the head is no table, and so is nowhere itself."""

    def is_acyclic(self: TreeJoin, variant: Any, cost: float) -> bool:
        atoms = [part for part in variant.rule.body if isinstance(part, Atom)]
        tables = [self._database.tables[atom.relation] for atom in atoms]
        return self._shape(variant.rule) is not None and all(isinstance(t, Table) for t in tables)

    monkeypatch.setattr(TreeJoin, "is_worth_while", is_acyclic)
    there = materialised(
        INTO_A_CLOSURE, backend=Accelerator(), thresholds=EVERYWHERE, schemes={"p": "closure"}
    )
    here = materialised(INTO_A_CLOSURE, backend="cpu", schemes={"p": "table"})
    assert set(there["q"]) == set(here["q"]) and len(here["q"]) == 600


def test_a_head_that_is_not_wanted_asks_for_no_nodes() -> None:
    program = f"{PAIRS}.decl p(x: number)\n.decl q(x: number, y: number, u: number, v: number)\n"
    program += f"p(x), q(x, y, u, v) :- {CYCLE}."
    kb = ge.Engine(program, threads=1)
    for first, second in ("ab", "cd"):
        kb.load(first, [(i, i * 30 + j) for i in range(3000) for j in range(30)])
        kb.load(second, [(i * 30 + j, j % 4) for i in range(3000) for j in range(30)])
    kb.materialise(wanted=["p"])
    assert len(kb["p"]) == 3000 and kb.database is not None
    assert not [name for name in kb.database.tables if is_node(name)]
