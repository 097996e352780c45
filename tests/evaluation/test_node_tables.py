"""Node tables: shared, freed and made again, given up for joins; and how evaluators are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpuengine as ge
from gpuengine.errors import EvaluatorError, MemoryBudgetError
from gpuengine.evaluation.driver.node_tables import StratumNodes
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.language.program import BodyOrder
from gpuengine.planning.evaluators import Evaluator
from gpuengine.planning.node_rules import is_node
from gpuengine.planning.plan import Variant
from gpuengine.schemes.contract import Scheme
from tests.cyclic_programs import Mode, hypertrees

DECLARED = """
.decl a, b, c, d(x: number, y: number)
.decl few(x: number)
.decl p, q, big(x: number, y: number)
"""
CYCLE = "a(x, u), b(u, y), c(x, v), d(v, y)"
TWO_READERS = f"""{DECLARED}
p(x, y) :- {CYCLE}.
big(x, y) :- p(x, _), few(y).
q(x, y) :- {CYCLE}, w = x + y, !big(w, 0).
"""
RECURSIVE = f"""{DECLARED}
p(x, y) :- a(x, u), p(u, y), c(x, v), p(v, y).
p(s, t) :- a(s, z), p(z, t), d(s, o), p(o, t).
"""
PATH = """
.decl edge, path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), path(x, w), edge(w, z).
"""


def loaded(program: str, evaluator: str = "hypertree", **options: Any) -> Any:
    """Every x has its own middles, so that a join pairs them up, and the nodes do not."""
    kb = ge.Engine(program, **{"evaluators": {"*": evaluator}, "threads": 1, **options})
    places = [(i, i * 6 + j, j) for i in range(100) for j in range(6)]
    for first, second in ("ab", "cd"):
        kb.load(first, [(i, at) for i, at, _ in places])
        kb.load(second, [(at, j) for _, at, j in places])
    kb.load("few", [(i,) for i in range(400)])
    return kb


def choices(kb: Any, relation: str) -> list[Any]:
    found = kb.database.evaluators.choices.items()
    return [choice for rule, choice in found if rule.head.relation == relation]


def nodes(kb: Any) -> list[str]:
    return [name for name in kb.database.tables if is_node(name)]


def rows(kb: Any) -> dict[str, set[Any]]:
    return {name: set(kb[name].to_pylist()) for name in ("p", "q", "big")}


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The nodes that are filled, as often as they are."""
    names: list[str] = []
    fill = StratumNodes._fill

    def seen(made: StratumNodes, node: Any, evaluation: Any) -> None:
        names.append(node.head.relation)
        fill(made, node, evaluation)

    monkeypatch.setattr(StratumNodes, "_fill", seen)
    yield names


def short_while(monkeypatch: pytest.MonkeyPatch, relation: str) -> None:
    """Have memory be short while a relation grows and there is a node."""
    check = Budget.check

    def checked(budget: Budget, tables: Any, growing: Scheme, *args: Any) -> None:
        if growing.name == relation and any(is_node(table.name) for table in tables):
            raise MemoryBudgetError("on purpose")
        check(budget, tables, growing, *args)

    monkeypatch.setattr(Budget, "check", checked)


# -- sharing -----------------------------------------------------------------------------------------


def test_rules_of_several_strata_share_nodes(filled: list[str]) -> None:
    kb = loaded(TWO_READERS).materialise()
    assert sorted(filled) == sorted(nodes(kb)) == ["@p.node1", "@p.node2"]
    assert rows(kb) == rows(loaded(TWO_READERS, "join").materialise())


def test_heads_of_a_clause_share_nodes(filled: list[str]) -> None:
    kb = loaded(f"{DECLARED}p(x, y), q(y, u), big(v, v) :- {CYCLE}.").materialise()
    assert choices(kb, "p")[0] is choices(kb, "q")[0] is choices(kb, "big")[0]
    assert sorted(filled) == sorted(nodes(kb))
    assert rows(kb) == rows(
        loaded(f"{DECLARED}p(x, y), q(y, u), big(v, v) :- {CYCLE}.", "join").materialise()
    )


def test_a_node_that_rules_of_one_stratum_share_has_one_rule() -> None:
    kb = loaded(RECURSIVE)
    kb.load("p", [(at, j) for at in range(0, 600, 5) for j in range(4)])
    kb.materialise()
    made = [rule for choice in choices(kb, "p") for rule in choice.node_rules.nodes]
    names = [rule.head.relation for rule in made]
    assert len(names) > len(set(names)), "the two rules have no node in common"
    assert len(set(made)) == len(set(names))
    with kb.update() as u:
        u.insert("a", [(1, 2)])
    maintained = [rule.head.relation for rule in kb._updater._maintainer.rules]
    assert sorted(filter(is_node, maintained)) == sorted(nodes(kb)) == sorted(set(names))


@pytest.mark.parametrize(
    "alternatives", ["(d(y, _) ; d(y, 3))", "(d(y, _) ; d(y, x))", "(d(_, _) ; d(y, y))", "(few(y) ; few(_))"]
)
def test_alternatives_of_a_clause_are_different_bodies(alternatives: str) -> None:
    """A wildcard of one is not what another has in its place."""
    program = f"{DECLARED}p(x, y) :- a(x, y), c(y, z), a(z, x), {alternatives}."
    found = []
    for evaluator in ("join", "hypertree"):
        kb = ge.Engine(program, evaluators={"*": evaluator})
        kb.load("a", [(1, 2), (2, 3), (3, 1), (1, 1)])
        kb.load("c", [(3, 1), (1, 2), (2, 3)])
        kb.load("d", [(2, 5), (3, 1), (1, 7)])
        kb.load("few", [(2,)])
        found.append(set(kb.materialise()["p"].to_pylist()))
    assert found[0] == found[1] != set()


# -- memory ------------------------------------------------------------------------------------------


def test_nodes_are_freed_and_made_again(filled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rows(loaded(TWO_READERS, "join").materialise())
    short_while(monkeypatch, "big")
    kb = loaded(TWO_READERS).materialise()
    assert filled == ["@p.node1", "@p.node2"] * 2
    assert rows(kb) == expected
    assert all(choice.evaluator is Evaluator.HYPERTREE for name in "pq" for choice in choices(kb, name))


def test_nodes_that_do_not_fit_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rows(loaded(TWO_READERS, "join").materialise())
    short_while(monkeypatch, "@p.node2")
    kb = loaded(TWO_READERS).materialise()
    assert nodes(kb) == [] and rows(kb) == expected
    for name in "pq":
        assert [choice.evaluator for choice in choices(kb, name)] == [Evaluator.JOIN]
        assert choices(kb, name)[0].why == "its nodes do not fit the memory budget"
    with kb.update() as u:
        u.insert("a", [(99, 2)])
    again = loaded(TWO_READERS, "join")
    again.load("a", [(99, 2)])
    assert nodes(kb) == [] and rows(kb) == rows(again.materialise())


def test_a_shared_node_stays_when_another_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that shares it has been made over it already, and is evaluated after that."""
    program = f"{DECLARED}p(x, y) :- {CYCLE}.\np(s, t) :- a(s, k), b(k, t), c(s, l), d(l, t), s < 50.\n"
    expected = rows(loaded(program, "join").materialise())
    kb = loaded(program).materialise()
    first, second = ({node.head.relation for node in one.node_rules.nodes} for one in choices(kb, "p"))
    assert first & second and second - first
    (other,) = second - first
    short_while(monkeypatch, other)
    kb = loaded(program).materialise()
    assert [choice.evaluator for choice in choices(kb, "p")] == [Evaluator.HYPERTREE, Evaluator.JOIN]
    assert sorted(nodes(kb)) == sorted(first) and rows(kb) == expected


def test_nodes_below_a_recursion_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is filled at once does not fit; the one that grows in rounds is not begun."""
    program = f"{DECLARED}p(x, y) :- a(x, y).\np(x, y) :- {CYCLE}, p(x, t), a(t, k), p(k, y).\n"
    expected = rows(loaded(program, "join").materialise())
    kb = loaded(program).materialise()
    made = choices(kb, "p")[-1].node_rules
    fixed = [rule.head.relation for rule in made.nodes if all(part.relation != "p" for part in rule.body)]
    assert fixed and len(fixed) < len(made.nodes)
    short_while(monkeypatch, fixed[0])
    kb = loaded(program).materialise()
    assert nodes(kb) == [] and rows(kb) == expected


def test_any_budget_gives_the_same_or_an_error() -> None:
    expected = rows(loaded(TWO_READERS, "join").materialise())
    outcomes = set()
    for size in (100, 200, 260, 320, 400, 500, 640, 800, 1000, 2000, 8000):
        kb = loaded(TWO_READERS, memory=size << 10)
        try:
            kb.materialise()
        except MemoryBudgetError:
            outcomes.add("error")
            continue
        assert rows(kb) == expected
        outcomes.add("kept" if nodes(kb) else "freed")
    assert outcomes >= {"error", "kept"}


def test_nodes_that_are_missing_are_made_for_updates() -> None:
    kb, other = loaded(TWO_READERS).materialise(), loaded(TWO_READERS, "join").materialise()
    for name in nodes(kb):
        del kb.database.tables[name]
    for one in (kb, other):
        with one.update() as u:
            u.delete("b", [(0, 0), (9, 3)])
            u.insert("a", [(5, 9)])
    assert len(nodes(kb)) == 2 and rows(kb) == rows(other)


def test_the_nodes_do_not_fit_beside_what_is_maintained(monkeypatch: pytest.MonkeyPatch) -> None:
    kb, other = loaded(TWO_READERS).materialise(), loaded(TWO_READERS, "join").materialise()
    for name in nodes(kb):
        del kb.database.tables[name]
    with hypertrees(Mode(True)):
        short_while(monkeypatch, "@p.node1")
        short_while(monkeypatch, "@p.node2")
        for one in (kb, other):
            with one.update() as u:
                u.delete("b", [(0, 0), (9, 3)])
    assert nodes(kb) == [] and rows(kb) == rows(other)
    assert all(choice.evaluator is Evaluator.JOIN for name in "pq" for choice in choices(kb, name))


def test_limits_are_kept_by_joins() -> None:
    """Which facts there are when a limit is reached depends on the order in which rules are evaluated."""
    kb = loaded(f"{TWO_READERS}.limitsize big(n=10)\n").materialise()
    assert nodes(kb) == []
    assert rows(kb) == rows(loaded(f"{TWO_READERS}.limitsize big(n=10)\n", "join").materialise())


# -- reductions that heads share ---------------------------------------------------------------------


def test_a_reduction_is_shared_until_the_facts_change() -> None:
    """What it reads owns its memory: making room for more facts does no harm."""
    with hypertrees(Mode(True)):
        kb = loaded(f"{DECLARED}p(x, y), q(y, x) :- {CYCLE}.").materialise()
        maintainer = kb._updater.maintainer(kb.current)
        context = maintainer.context
        first, second = (rule for rule in maintainer.rules if rule.order is BodyOrder.TREE)
        runner = maintainer.strata[0].derivations.runner
        kept = []
        for rule in (first, second, first, second):
            runner.run(Variant(rule, None, frozenset()))
            kept.append(context.last_reduction[1])
            for table in (kb.database.tables[name] for name in nodes(kb)):
                if len(kept) == 2:
                    table.rows.reserve(1 << 22)
                if len(kept) == 3:
                    table.insert([np.full(1, 7, np.uint32)] * table.arity, 1)
        assert kept[0] is kept[1] is kept[2] is not kept[3]


# -- asking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"pat": "join"}, "no rules for 'pat' to choose an evaluator for; did you mean 'path'?"),
        ({"path": "hypertre"}, "no evaluator 'hypertre' for path; did you mean 'hypertree'?"),
        ({"path:9": "join"}, "no rule 'path:9' to choose an evaluator for; did you mean 'path:"),
        ({"edge": "join"}, "no rules for 'edge'"),
        (
            {"path": "fast"},
            "no evaluator 'fast' for path\n  hint: it is one of auto, join, hypertree, written",
        ),
    ],
)
def test_what_is_no_rule_or_evaluator_is_refused(asked: dict[str, str], message: str) -> None:
    with pytest.raises(EvaluatorError) as raised:
        ge.Engine(PATH, evaluators=asked)
    assert message in str(raised.value)


def path_choices(kb: Any) -> list[Evaluator]:
    kb.load("edge", [(i, i + k) for i in range(20) for k in (1, 2)])
    kb.materialise()
    return [choice.evaluator for choice in choices(kb, "path")]


def test_pragmas_choose_evaluators() -> None:
    pragma = '.pragma "evaluator" "path=join"\n'
    assert path_choices(ge.Engine(pragma + PATH)) == [Evaluator.JOIN, Evaluator.JOIN]
    pragma = '.pragma "evaluator" "path:2=hypertree path:1=written"\n'
    assert path_choices(ge.Engine(pragma + PATH)) == [Evaluator.WRITTEN, Evaluator.HYPERTREE]
    given = ge.Engine(pragma + PATH, evaluators={"path:2": "written"})
    assert path_choices(given) == [Evaluator.WRITTEN, Evaluator.WRITTEN]
    for wrong in ("path", "path=", "=join"):
        with pytest.raises(EvaluatorError, match="write it like path=hypertree"):
            ge.Engine(f'.pragma "evaluator" "{wrong}"\n{PATH}')


def test_a_rule_before_its_relation_before_all() -> None:
    asked = {"*": "written", "path": "join", "path:2": "hypertree"}
    assert path_choices(ge.Engine(PATH, evaluators=asked)) == [Evaluator.JOIN, Evaluator.HYPERTREE]
