"""Examples 1 to 4 of chapter 4 of the thesis, with the facts and instantiations they name written out.

A node keeps the variables that the head, or another node, needs: of the thesis's rule that is (x, y). With a
second head that tells z1 and z2 the nodes keep all of χ, as the thesis has them; both are tried.

What the thesis calls a round of rule application is two rounds of the engine: the nodes take in what is new,
and in the next one the rule is evaluated over what is new in the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import gpuengine as ge
from gpuengine.evaluation.driver.stratum import StratumEvaluation
from gpuengine.language.program import SYMBOL, Atom, Variable
from gpuengine.maintenance.stratum import StratumTables
from gpuengine.planning.node_rules import is_node
from gpuengine.schemes.table import Table
from tests.cyclic_programs import MODES, Mode, hypertrees
from tests.maintenance.node_invariant import node_rows, node_rule

Rows = set[tuple[str, ...]]
N, K = 6, 3
PROJECTED = """
.decl CW, CA, PC(x: symbol, y: symbol)
PC(x, y) :- CW(x, z1), CA(x, z2), PC(z1, y), PC(z2, y).
"""
WHOLE = """
.decl CW, CA, PC(x: symbol, y: symbol)
.decl By(x: symbol, z1: symbol, z2: symbol, y: symbol)
PC(x, y), By(x, z1, z2, y) :- CW(x, z1), CA(x, z2), PC(z1, y), PC(z2, y).
"""
AN = f"a{N}"


@pytest.fixture(params=MODES, ids=str)
def mode(request: pytest.FixtureRequest) -> Iterator[Mode]:
    with hypertrees(request.param):
        yield request.param


def engine(program: str, **options: Any) -> ge.Engine:
    """Example 1: the dataset E."""
    kb = ge.Engine(program, evaluators={"PC": "hypertree"}, threads=1, **options)
    places = [(i, i * K + j, j) for i in range(N) for j in range(1, K + 1)]
    kb.load("CW", [*((f"a{i}", f"b{at}") for i, at, _ in places), (AN, "a2")])
    kb.load("CA", [*((f"a{i}", f"c{at}") for i, at, _ in places), (AN, "a3")])
    kb.load("PC", [(f"{kind}{at}", f"d{j}") for _, at, j in places for kind in "bc"])
    return kb


def derived(first: int, last: int) -> Rows:
    """PC(ai, dj) for first <= i <= last."""
    return {(f"a{i}", f"d{j}") for i in range(first, last + 1) for j in range(1, K + 1)}


def instantiations(kind: str) -> Rows:
    """What a node holds after the first round: (ai, b_{i·k+j}, dj), or with c."""
    return {(f"a{i}", f"{kind}{i * K + j}", f"d{j}") for i in range(N) for j in range(1, K + 1)}


def through(z: str) -> Rows:
    """(an, z, dj) for all j."""
    return {(AN, z, f"d{j}") for j in range(1, K + 1)}


def nodes(kb: Any) -> dict[str, str]:
    """The node tables by the relation that they join with PC."""
    found = {}
    for name in filter(is_node, kb.database.tables):
        relations = [part.relation for part in node_rule(kb, name).body if isinstance(part, Atom)]
        other, recursive = sorted(relations)
        assert recursive == "PC"
        found[other] = name
    return found


def instances(kb: Any, relation: str) -> Rows:
    """The instantiations of the node that joins a relation with PC, as (x, z, y) or (x, y)."""
    rule = node_rule(kb, nodes(kb)[relation])
    names = [arg.name[0] for arg in rule.head.args if isinstance(arg, Variable)]
    order = sorted(range(len(names)), key=lambda at: "xzy".index(names[at]))
    return {tuple(row[at] for at in order) for row in node_rows(kb, nodes(kb)[relation])}


def pairs(rows: Rows) -> Rows:
    return {(row[0], row[-1]) for row in rows}


def facts(kb: Any, relation: str = "PC") -> Rows:
    return {(x, y) for x, y in kb[relation].to_pylist() if x.startswith("a")}


def test_the_decomposition_of_section_4_3() -> None:
    kb: Any = engine(WHOLE).materialise()
    choices = {rule.head.relation: choice for rule, choice in kb.database.evaluators.choices.items()}
    assert choices["PC"] is choices["By"]
    made = choices["PC"].node_rules
    assert [len(node.atoms) for node in made.decomposition.nodes] == [2, 2]
    assert {frozenset(variable.name for variable in node.variables) for node in made.decomposition.nodes} == {
        frozenset({"x", "z1", "y"}),
        frozenset({"x", "z2", "y"}),
    }
    assert made.decomposition.width == 2
    assert sorted(nodes(kb)) == ["CA", "CW"]


@pytest.mark.usefixtures("mode")
def test_example_1_all_that_is_derived() -> None:
    for program in (WHOLE, PROJECTED):
        kb = engine(program).materialise()
        assert facts(kb) == derived(0, N)
        assert len(facts(kb)) == N * K + K


def test_examples_1_and_2_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round derives PC(ai, dj) for i < n, the second PC(an, dj), each from what is new only."""
    rounds: list[tuple[Rows, Rows, Rows]] = []
    run_round = StratumEvaluation.run_round

    def seen(evaluation: StratumEvaluation) -> int:
        work = run_round(evaluation)
        new: dict[str, Rows] = {}
        running = SimpleNamespace(database=evaluation.database)
        for name in ("PC", *nodes(running).values()):
            table = evaluation.database.tables[name]
            assert isinstance(table, Table)
            start, end = table.rows.delta
            columns = [column[start:end] for column in table.columns()]
            decoded = [kb.dictionary.to_arrow(SYMBOL, column).to_pylist() for column in columns]
            new[name] = set(zip(*decoded, strict=True))
        rounds.append((new[nodes(running)["CW"]], new[nodes(running)["CA"]], new["PC"]))
        return work

    monkeypatch.setattr(StratumEvaluation, "run_round", seen)
    with hypertrees(Mode(True)):
        kb: Any = engine(PROJECTED)
        kb.materialise()
    first, last = derived(0, N - 1), derived(N, N)
    assert rounds == [
        (first, first, set()),
        (set(), set(), first),
        (last, last, set()),
        (set(), set(), last),
        (set(), set(), set()),
    ]


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("counting", [False, True])
def test_examples_2_to_4_updates(counting: bool) -> None:
    """CW(an, a4) and CA(an, a5) come; then CA(an, a3) goes, and PC(an, dj) is derived in another way."""
    kb: Any = engine(WHOLE, counting=counting).materialise()
    cw = instantiations("b") | through("a2")
    ca = instantiations("c") | through("a3")
    assert (instances(kb, "CW"), instances(kb, "CA")) == (cw, ca)

    with kb.update() as u:
        u.insert("CW", [(AN, "a4")])
        u.insert("CA", [(AN, "a5")])
    assert not u.change["PC"], "all that follows is known"
    assert (instances(kb, "CW"), instances(kb, "CA")) == (cw | through("a4"), ca | through("a5"))
    assert set(u.change["By"].inserted.to_pylist()) == {
        (AN, z1, z2, f"d{j}")
        for z1, z2 in (("a4", "a5"), ("a2", "a5"), ("a4", "a3"))
        for j in range(1, K + 1)
    }

    with kb.update() as u:
        u.delete("CA", [(AN, "a3")])
    assert not u.change["PC"], "overdeleted, and rederived by a2 and a5"
    assert (instances(kb, "CW"), instances(kb, "CA")) == (
        cw | through("a4"),
        ca - through("a3") | through("a5"),
    )
    assert facts(kb) == derived(0, N)

    with kb.update() as u:
        u.delete("CA", [(AN, "a5")])
    assert set(u.change["PC"].deleted.to_pylist()) == derived(N, N)
    assert facts(kb) == derived(0, N - 1)


@pytest.mark.usefixtures("mode")
def test_projected_nodes_do_not_change() -> None:
    """Of the rule as it stands nodes keep (x, y), which none of the three facts changes."""
    kb: Any = engine(PROJECTED).materialise()
    cw, ca = (pairs(instantiations(kind) | through("")) for kind in "bc")
    assert cw == ca == derived(0, N)
    for inserted, deleted in (([("CW", "a4"), ("CA", "a5")], []), ([], [("CA", "a3")])):
        with kb.update() as u:
            for relation, other in inserted:
                u.insert(relation, [(AN, other)])
            for relation, other in deleted:
                u.delete(relation, [(AN, other)])
        assert not u.change["PC"]
        assert (instances(kb, "CW"), instances(kb, "CA")) == (cw, ca)


@pytest.mark.usefixtures("mode")
def test_examples_3_and_4_what_is_overdeleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """inst_p2 loses (an, a3, dj), inst_p1 nothing, PC(an, dj) goes for a while; only the facts come back."""
    kb: Any = engine(WHOLE).materialise()
    with kb.update() as u:
        u.insert("CW", [(AN, "a4")])
        u.insert("CA", [(AN, "a5")])
    went: dict[str, int] = {}
    delete = StratumTables.delete

    def seen(tables: StratumTables, name: str, columns: Any, count: int) -> None:
        went[name] = went.get(name, 0) + count
        delete(tables, name, columns, count)

    monkeypatch.setattr(StratumTables, "delete", seen)
    before = {relation: instances(kb, relation) for relation in ("CW", "CA")}
    with kb.update() as u:
        u.delete("CA", [(AN, "a3")])
    assert went == {nodes(kb)["CA"]: K, "PC": K, "By": 2 * K}
    assert instances(kb, "CW") == before["CW"]
    assert before["CA"] - instances(kb, "CA") == through("a3")
    assert facts(kb) == derived(0, N)
