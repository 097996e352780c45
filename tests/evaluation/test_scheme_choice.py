"""Which scheme a relation gets from the facts at hand, and that compact ones are not listed to be read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import EvaluationError, GpuEngineError, MemoryBudgetError, SchemeError
from gpuengine.evaluation.driver import small_rounds
from gpuengine.planning import scheme_costs
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.equivalence import Equivalence
from tests.differential.compare import oracle_facts, rows_of

Pairs = list[tuple[int, int]]
CLOSURE = "r(x, y) :- e(x, y). r(x, z) :- r(x, y), r(y, z)."
LINEAR = "r(x, y) :- e(x, y). r(x, z) :- e(x, y), r(y, z)."
INVERSE = CLOSURE + "s(y, x) :- r(x, y). r(y, x) :- s(x, y)."
NODES = 1000
PAIRS_OF_CHAIN = NODES * (NODES - 1) // 2


def chain(nodes: int = NODES, start: int = 0) -> Pairs:
    return [(x, x + 1) for x in range(start, start + nodes - 1)]


def program(rules: str, pairs: str = "r e s u") -> str:
    return (
        "".join(f".decl {name}(x: number, y: number)\n.output {name}\n" for name in pairs.split())
        + rules
        + "\n"
    )


def engine(rules: str, facts: dict[str, Pairs], **options: Any) -> ge.Engine:
    kb = ge.Engine(program(rules), **options)
    for name, rows in facts.items():
        kb.load(name, rows)
    return kb


def run(rules: str, facts: dict[str, Pairs], **options: Any) -> ge.Engine:
    return engine(rules, facts, **options).materialise()


def schemes(kb: ge.Engine) -> dict[str, str]:
    return {name: stored.scheme for name, stored in kb.storage.items() if stored.scheme != "table"}


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody lists a closure or an equivalence."""
    for kind in (Closure, Equivalence):
        monkeypatch.setattr(kind, "scan", lambda *_, **__: pytest.fail("all pairs are listed"))


@pytest.mark.parametrize("rules", [CLOSURE, LINEAR])
def test_dense_closures_are_closures_and_others_tables(rules: str) -> None:
    kb = run(rules, {"e": chain()})
    assert schemes(kb) == {"r": "closure"} and len(kb["r"]) == PAIRS_OF_CHAIN
    assert "makes it t" in kb.storage["r"].why and "pairs from 999 edges" in kb.storage["r"].why
    few = run(rules, {"e": chain(60)})
    assert schemes(few) == {} and len(few["r"]) == 1770
    assert few.storage["r"].why.endswith("but about 1,770 pairs from 59 edges are few")


def test_many_pairs_of_many_edges_are_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheme_costs, "LEAST_PAIRS", 100)
    sparse = run(CLOSURE, {"e": [(2 * x, 2 * x + 1) for x in range(500)]})
    assert schemes(sparse) == {} and "it is sparse" in sparse.storage["r"].why
    assert schemes(run(CLOSURE, {"e": chain(30)})) == {"r": "closure"}


@pytest.mark.parametrize("facts", [{"e": chain(5)}, {}, {"e": chain(5), "r": [(70, 71)]}])
def test_what_is_asked_for_is_done(facts: dict[str, Pairs]) -> None:
    forced = run(CLOSURE, facts, schemes={"r": "closure"})
    assert schemes(forced) == {"r": "closure"} and forced.storage["r"].why.endswith("; asked for")
    table = run(CLOSURE, facts, schemes={"r": "table"})
    assert schemes(table) == {} and set(table["r"]) == set(forced["r"])
    assert schemes(run(CLOSURE, {"e": chain()}, schemes={"r": "table"})) == {}


def test_facts_loaded_into_a_linear_closure_keep_it_a_table() -> None:
    """Linear recursion over e does not extend facts of r backwards: r is more than a closure."""
    facts = {"e": chain(), "r": [(NODES - 1, 5000), (5000, 0)]}
    kb = run(LINEAR, facts)
    assert schemes(kb) == {}
    assert len(kb["r"]) == PAIRS_OF_CHAIN + NODES + 1 and (5000, 1) not in kb["r"] and (0, 5000) in kb["r"]
    with pytest.raises(EvaluationError) as failure:
        run(LINEAR, facts, schemes={"r": "closure"})
    assert str(failure.value).startswith("r can't be stored as closure: facts were loaded into it")
    with pytest.raises(SchemeError, match="the fact r"):
        ge.Engine(program(LINEAR + "r(1, 2)."), schemes={"r": "closure"})


def test_a_failed_materialisation_leaves_what_there_was() -> None:
    kb = engine(LINEAR, {"e": chain(50)}, schemes={"r": "closure"}).materialise()
    kb.load("r", [(1, 0)])
    with pytest.raises(EvaluationError):
        kb.materialise()
    assert len(kb["r"]) == 50 * 49 // 2 and schemes(kb) == {"r": "closure"}
    assert (0, 49) in kb["r"] and set(kb.query("r(40, x)")) == {(x,) for x in range(41, 50)}


def test_too_large_a_closure_leaves_what_there_was() -> None:
    """Its sets do not fit the budget: refused, and the earlier closure still answers."""
    kb = engine(CLOSURE, {"e": chain()}, memory="3MB").materialise()
    rng = np.random.default_rng(0)
    kb.load("e", np.sort(rng.integers(0, 9000, (90_000, 2)), axis=1) + np.array([2000, 2001]))
    with pytest.raises(MemoryBudgetError):
        kb.materialise()
    assert len(kb["r"]) == PAIRS_OF_CHAIN and (0, NODES - 1) in kb["r"] and (2000, 11_000) not in kb["r"]


def test_a_query_for_which_the_way_back_does_not_fit_is_refused() -> None:
    """What nodes are reached from is made when first asked for; it may take more than what they reach."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4000, (12_000, 2)), rng.integers(4000, 4600, (3000, 2))
    first[:, 1] = 4000 + first[:, 1] % 600
    edges = np.concatenate([first, np.sort(second, axis=1) + np.array([0, 1])])[:, ::-1]
    answers = set()
    refused = 0
    for kilobytes in range(300, 3000, 60):
        kb = ge.Engine(program(CLOSURE), schemes={"r": "closure"}, memory=kilobytes << 10)
        kb.load("e", edges)
        kb.materialise()
        try:
            answers.add(len(kb.query("r(x, 700)")))
        except MemoryBudgetError as error:
            assert "kept as a closure" in str(error)
            refused += 1
    assert refused and len(answers) == 1, "all budgets that are large enough have the same answers"


GROWING = CLOSURE + "e(y, y + 1) :- r(x, y), y < 600, x = 0."


def test_a_table_that_outgrows_its_estimate_becomes_a_closure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single edge is there when the scheme is chosen; the rules make a chain of it."""
    monkeypatch.setattr(scheme_costs, "LEAST_PAIRS", 10_000)
    kb = run(GROWING, {"e": [(0, 1)]})
    assert schemes(kb) == {"r": "closure"} and len(kb["r"]) == 601 * 600 // 2
    assert "facts are more than expected" in kb.storage["r"].why
    monkeypatch.setattr(scheme_costs, "LEAST_PAIRS", 10**9)
    table = run(GROWING.replace("600", "300"), {"e": [(0, 1)]})
    assert schemes(table) == {} and len(table["r"]) == 301 * 300 // 2


def test_a_table_that_outgrows_its_estimate_with_other_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheme_costs, "LEAST_PAIRS", 5)
    monkeypatch.setattr(scheme_costs, "LEAST_GROWTH", 10**9)
    monkeypatch.setattr(scheme_costs, "OFF", 1)
    monkeypatch.setattr(small_rounds, "_TURN", 1)  # schemes are reconsidered between turns
    rules = GROWING.replace("600", "12") + "r(y, x) :- r(x, y), s(x, y). u(x, y) :- r(y, x), s(x, _)."
    facts = {"e": [(0, 1)], "s": [(7, 3), (2, 2), (3, 7)]}
    kb = run(rules, facts)
    expected = oracle_facts(program(rules), facts)
    assert expected is not None and {name: rows_of(kb, name) for name in expected} == expected
    assert schemes(kb)["r"] == "closure"


def test_unions() -> None:
    copies = "u(x, y) :- e(x, y). u(x, y) :- s(y, x)."
    facts = {"e": chain(5), "s": chain(3)}
    assert schemes(run(copies, facts)) == {"u": "union"}, "no rule reads it"
    read = copies + "r(x, z) :- u(x, y), u(y, z), x < z."
    assert schemes(run(read, facts)) == {}, "tables are read faster"
    assert schemes(run(read, facts, schemes={"u": "union"})) == {"u": "union"}
    assert schemes(run("u(x, y) :- e(x, y).", facts)) == {}, "one table is copied"
    above = CLOSURE + "u(x, y) :- r(y, x). s(x, y) :- u(x, y), x = 3."
    assert schemes(run(above, {"e": chain()})) == {"r": "closure", "u": "union"}
    assert schemes(run(above, {"e": chain(9)})) == {}
    assert schemes(run(above, {"e": chain()}, schemes={"u": "table"})) == {"r": "closure"}
    for kb in (run(above, {"e": chain(60)}), run(above, {"e": chain(60)}, schemes={"r": "closure"})):
        assert set(kb["s"]) == {(3, y) for y in range(3)}


PAIR = st.tuples(st.integers(0, 5), st.integers(0, 5))


@settings(max_examples=15)
@given(st.lists(PAIR, max_size=6), st.lists(PAIR, max_size=3), st.lists(PAIR, max_size=3), st.booleans())
def test_aliases_take_and_give_facts(e: Pairs, r: Pairs, s: Pairs, forced: bool) -> None:
    facts = {"e": e, "r": r, "s": s}
    kb = run(INVERSE, facts, schemes={"r": "closure"} if forced else None)
    expected = oracle_facts(program(INVERSE), facts)
    assert expected is not None
    assert {name: rows_of(kb, name) for name in "rs"} == {name: expected[name] for name in "rs"}
    assert kb.storage["s"].scheme == "alias" and kb.storage["s"].facts == len(expected["r"])
    assert set(kb.query("s(x, y), r(y, x)")) == expected["s"]
    assert set(kb.query("s(2, x)")) == {(y,) for x, y in expected["s"] if x == 2}
    assert [pair in kb["s"] for pair in expected["s"]] == [True] * len(expected["s"])


def test_an_alias_of_a_huge_closure(unlisted: None) -> None:
    kb = run(INVERSE, {"s": [(y, x) for x, y in chain()]})
    assert schemes(kb) == {"r": "closure", "s": "alias"}
    assert len(kb["s"]) == len(kb["r"]) == PAIRS_OF_CHAIN == len(kb.query("s(a, b)"))
    assert (9, 3) in kb["s"] and (3, 9) not in kb["s"] and (3, 9) in kb["r"]
    assert set(kb.query("s(3, x)")) == {(0,), (1,), (2,)}


NEVER_LISTED = {
    "u(x, n) :- e(x, _), n = count : { r(x, _) }.": {(x, NODES - 1 - x) for x in range(NODES - 1)},
    "u(x, n) :- e(x, _), n = count : { r(_, x) }.": {(x, x) for x in range(NODES - 1)},
    "u(0, n) :- n = count : { r(_, _) }.": {(0, PAIRS_OF_CHAIN)},
    "u(0, n) :- n = count : { r(a, b) }.": {(0, PAIRS_OF_CHAIN)},
    "u(x, n) :- e(x, y), x < 3, n = count : { r(y, x) }.": {(x, 0) for x in range(3)},
    "u(x, y) :- e(y, x), !r(x, y).": {(y, x) for x, y in chain()},
    "u(x, x) :- s(x, _), !r(x, _).": {(NODES - 1, NODES - 1)},
    "u(x, x) :- s(x, _), r(x, _).": {(0, 0)},
    "u(x, y) :- s(x, y), r(y, x).": {(NODES - 1, 5)},
    "u(1, 1) :- r(_, _).": {(1, 1)},
    "u(x, x) :- r(x, _), x < 2.": {(0, 0), (1, 1)},
    "u(x, y) :- s(x, _), r(x, y), y < 3.": {(0, 1), (0, 2)},
}


@pytest.mark.parametrize("rule", NEVER_LISTED)
@pytest.mark.parametrize("rules", [CLOSURE, LINEAR], ids=["closure", "linear"])
def test_rules_that_do_not_list_a_closure(unlisted: None, rules: str, rule: str) -> None:
    kb = run(rules + rule, {"e": chain(), "s": [(0, 7), (NODES - 1, 5)]})
    assert schemes(kb)["r"] == "closure" and set(kb["u"]) == NEVER_LISTED[rule]


def test_counting_classes_does_not_list_them(unlisted: None) -> None:
    rules = "r(x, y) :- e(x, y). r(y, x) :- r(x, y). r(x, z) :- r(x, y), r(y, z)."
    kb = run(rules + "u(x, n) :- e(x, _), x < 2, n = count : { r(x, _) }.", {"e": chain()})
    assert schemes(kb) == {"r": "equivalence"} and len(kb["r"]) == NODES**2
    assert set(kb["u"]) == {(0, NODES), (1, NODES)}


def test_a_huge_relation_is_streamed_but_not_listed_at_once() -> None:
    nodes = 30_000
    kb = run(CLOSURE, {"e": chain(nodes)}, memory="200MB")
    pairs = nodes * (nodes - 1) // 2
    view = kb["r"]
    assert len(view) == pairs
    for read in (view.to_arrow, view.to_pandas, view.to_numpy, kb.query("r(x, y)").to_arrow):
        with pytest.raises(MemoryBudgetError) as failure:
            read()
        assert f"has {pairs:,} facts: listed at once they take" in str(failure.value)
        assert "more than the memory budget of 200 MB" in str(failure.value)
    first = next(view.batches(1000))
    assert 0 < first.num_rows <= 1000
    assert all(x < y for x, y in zip(*(column.to_pylist() for column in first.columns), strict=True))
    assert kb.storage["r"].nbytes < 20 * 10**6


def test_reading_before_and_after_loading_more() -> None:
    kb = engine(CLOSURE, {"e": chain()}).materialise()
    before = kb["r"]
    kb.load("e", [(NODES - 1, 5000), (5000, 5001)])
    kb.materialise()
    assert (len(before), len(kb["r"])) == (PAIRS_OF_CHAIN, (NODES + 2) * (NODES + 1) // 2)
    assert (0, 5001) in kb["r"] and (0, 5001) not in before


def test_what_is_not_wanted_is_not_there() -> None:
    kb = engine(INVERSE + "u(x, y) :- r(x, y), x = 1.", {"e": chain(9)})
    kb.materialise(wanted=["s"])
    assert len(kb["s"]) == len(kb["r"]) == 36
    with pytest.raises(GpuEngineError, match="u was left out of the last materialisation"):
        kb["u"]


RECURSIVE = (
    "e(y, x) :- r(x, y), s(x, y).",
    "e(x, z) :- r(x, y), s(y, z).",
    "s(x, z) :- u(x, y), e(y, z).",
    "u(x, y) :- r(y, x).",
    "u(x, y) :- s(x, y).",
    "e(x, n) :- s(x, _), r(x, n), r(n, x).",
)


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(RECURSIVE), min_size=1, max_size=5, unique=True),
    st.lists(PAIR, max_size=8),
    st.lists(PAIR, max_size=5),
    st.sampled_from([{"r": "closure"}, {"*": "union"}, {"*": "table"}, {}]),
)
def test_schemes_that_depend_on_each_other(
    rules: list[str], e: Pairs, s: Pairs, given: dict[str, str]
) -> None:
    text, facts = program(CLOSURE + "".join(rules)), {"e": e, "s": s}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheme_costs, "LEAST_PAIRS", 0)
        patch.setattr(scheme_costs, "LEAST_GROWTH", 0)
        kb = run(CLOSURE + "".join(rules), facts, schemes=given)
    expected = oracle_facts(text, facts)
    assert expected is not None
    assert {name: rows_of(kb, name) for name in expected} == expected


def test_ids_of_a_class_reach_both_columns_of_what_copies_it() -> None:
    """An equivalence has ids in columns where they were not inserted; its readers must hold them."""
    rules = """
    r(x, y) :- e(x, y). r(y, x) :- r(x, y). r(x, z) :- r(x, y), r(y, z).
    u(x, y) :- r(x, y), x != y, s(_, _).
    """
    edges = [(x, 10**6 + 37 * x) for x in range(300)]
    kb = run(rules, {"e": edges, "s": [(1, 1)]})
    assert set(kb["u"]) == set(edges) | {(y, x) for x, y in edges}


def test_nothing_is_handed_out_of_an_empty_compact_relation() -> None:
    kb = ge.Engine(".decl r(x: number, y: number) eqrel").materialise()
    assert schemes(kb) == {"r": "equivalence"}
    assert np.from_dlpack(kb["r"]).shape == (0, 2) and kb["r"].to_arrow().num_rows == 0
