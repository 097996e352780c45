"""What schemes relations may have, by request and by shape, when they pay off, and linear transitivity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import SchemeError
from gpuengine.language import parse_program
from gpuengine.language.program import Program, Rule
from gpuengine.planning import scheme_costs
from gpuengine.planning.linearise import external_name, linear_rule, read_external, with_external_facts
from gpuengine.planning.plan import describe
from gpuengine.planning.scheme_costs import has_outgrown, is_worth_while
from gpuengine.planning.scheme_views import SchemeView, view_schemes
from gpuengine.planning.schemes import (
    SchemePlan,
    parse_override,
    plan_schemes,
    read_overrides,
    tables_only,
)
from gpuengine.planning.shapes import Shape
from gpuengine.planning.sharing import share_equal_relations
from gpuengine.schemes.estimate import ClosureEstimate
from tests.core_oracle import naive
from tests.planning.rewriting import rewrite

CLOSURE = "r(x, y) :- e(x, y). r(x, z) :- r(x, y), r(y, z)."
LINEAR = "r(x, y) :- e(x, y). r(x, z) :- e(x, y), r(y, z)."
SAME = "r(x, y) :- e(x, y). r(x, z) :- r(x, y), r(y, z). r(y, x) :- r(x, y)."
UNION = "u(x, y) :- e(x, y). u(x, y) :- f(y, x)."


def read(rules: str, header: str = "", pairs: str = "r e f u") -> Program:
    declared = [f".decl {name}(x: number, y: number)\n.output {name}" for name in pairs.split()]
    return rewrite(parse_program("\n".join([*declared, header, rules, ""])))


def planned(program: Program, given: Mapping[str, str] | None = None) -> dict[str, SchemePlan]:
    overrides = read_overrides(program, given)
    shared, aliases = share_equal_relations(program, tables_only(program, overrides))
    return plan_schemes(replace(shared, aliases=aliases), overrides)


def told(rule: Rule) -> str:
    return f"{describe(rule.head)} :- {', '.join(map(describe, rule.body))}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pats": "closure"}, "no relation 'pats' to choose a scheme for; did you mean 'path'?"),
        ({"zzz": "closure"}, "no relation 'zzz' to choose a scheme for"),
        (
            {"path": "closur"},
            "no scheme 'closur' for path; did you mean 'closure'?\n"
            "  hint: it is one of auto, table, closure, equivalence, union",
        ),
        (
            {"*": "tree"},
            "no scheme 'tree' for *\n  hint: it is one of auto, table, closure, equivalence, union",
        ),
    ],
)
def test_what_is_no_relation_or_no_scheme(given: dict[str, str], message: str) -> None:
    program = read("path(x, z) :- path(x, y), path(y, z).", pairs="path e")
    with pytest.raises(SchemeError) as failure:
        read_overrides(program, given)
    assert str(failure.value) == message


@pytest.mark.parametrize("text", ["path", "path=", "=closure", "", "="])
def test_what_is_no_override(text: str) -> None:
    with pytest.raises(SchemeError) as failure:
        parse_override(text)
    assert str(failure.value) == f"{text!r} is not RELATION=SCHEME; write it like path=closure"


def test_pragmas() -> None:
    header = '.pragma "scheme" "r=closure u=union"\n.pragma "scheme" "r=closure"\n.pragma "other" "e=x"'
    program = read(CLOSURE + UNION, header)
    assert read_overrides(program) == {"r": "closure", "u": "union"}
    assert read_overrides(program, {"r": "table", "*": "auto"}) == {"r": "table", "u": "union", "*": "auto"}
    with pytest.raises(SchemeError, match="'r' is not RELATION=SCHEME"):
        read_overrides(read(CLOSURE, '.pragma "scheme" "r closure"'))
    with pytest.raises(SchemeError, match="no relation 'q' to choose a scheme for"):
        read_overrides(read(CLOSURE, '.pragma "scheme" "q=closure"'))


def test_pragmas_that_contradict_each_other() -> None:
    header = '.pragma "scheme" "r=closure"\n.pragma "scheme" "r=table"'
    with pytest.raises(SchemeError) as failure:
        read_overrides(read(CLOSURE, header), {"r": "closure"})
    assert str(failure.value) == "two pragmas ask for different schemes of r: closure and table"


@pytest.mark.parametrize(
    ("rules", "given", "problem"),
    [
        (UNION, {"u": "closure"}, "no rule makes it transitive"),
        (CLOSURE, {"r": "equivalence"}, "no rule makes it symmetric"),
        (CLOSURE, {"e": "union"}, "no rule copies another relation into it"),
        (LINEAR + "r(1, 2).", {"r": "closure"}, "the fact r(1, 2) makes it more than the closure of e"),
        ("r(x, y) :- r(y, x).", {"r": "union"}, "is part of a cycle of rules that copy it to itself"),
    ],
)
def test_what_the_rules_do_not_allow(rules: str, given: dict[str, str], problem: str) -> None:
    ((relation, scheme),) = given.items()
    with pytest.raises(SchemeError) as failure:
        planned(read(rules), given)
    first, hint = str(failure.value).split("\n")
    assert first.startswith(f"{relation} can't be stored as {scheme}: ") and first.endswith(problem)
    assert hint == f"  hint: leave out {relation}={scheme}, or see what `gpuengine plan` chooses"


@pytest.mark.parametrize("given", [{"r": "table"}, {"r": "auto"}, {"r": "closure"}, {"*": "closure"}, {}])
def test_forced_and_free(given: dict[str, str]) -> None:
    plan = planned(read(CLOSURE), given)["r"]
    choice = given.get("r", given.get("*"))
    assert plan.forced == (None if choice in (None, "auto") else choice)
    assert plan.is_forced == (plan.forced is not None)
    assert (plan.candidate(Shape.CLOSURE) is not None) == (choice != "table")
    assert [candidate.shape for candidate in plan.candidates] == [Shape.CLOSURE, Shape.UNION]


def test_every_relation_where_the_rules_allow_it() -> None:
    program = read(CLOSURE + UNION)
    forced = {name: plan.forced for name, plan in planned(program, {"*": "union"}).items()}
    assert forced == {"r": "union", "e": None, "f": None, "u": "union"}
    forced = {name: plan.forced for name, plan in planned(program, {"*": "table", "r": "auto"}).items()}
    assert forced == {"r": None, "e": "table", "f": "table", "u": "table"}
    assert tables_only(program, {"*": "table", "r": "auto"}) == {"e", "f", "u"}
    assert tables_only(program, {"u": "table"}) == {"u"}


INVERSE = CLOSURE + "u(y, x) :- r(x, y). r(y, x) :- u(x, y)."


def test_aliases_ask_for_what_they_stand_for() -> None:
    assert planned(read(INVERSE), {"u": "closure"})["r"].forced == "closure"
    assert planned(read(INVERSE), {"u": "closure", "r": "closure"})["r"].forced == "closure"
    with pytest.raises(SchemeError) as failure:
        planned(read(INVERSE), {"u": "closure", "r": "union"})
    assert str(failure.value) == (
        "u and r hold the same facts and are stored once: u=closure and r=union contradict each other"
    )


def test_a_table_of_its_own_is_no_alias() -> None:
    program = read(INVERSE)
    assert share_equal_relations(program, tables_only(program, {"u": "table"}))[1] == {}
    plans = planned(program, {"u": "table", "r": "closure"})
    assert (plans["u"].forced, plans["r"].forced) == ("table", "closure")


@pytest.mark.parametrize(
    ("estimate", "worth", "why"),
    [
        (ClosureEstimate(10, 9, 299_999.0, True), False, "about 299,999 pairs from 10 edges are few"),
        (ClosureEstimate(10, 9, 300_000.0, True), True, "about 300,000 pairs from 10 edges"),
        (
            ClosureEstimate(200_000, 9, 799_999.0, True),
            False,
            "it is sparse: about 799,999 pairs from 200,000 edges",
        ),
        (ClosureEstimate(200_000, 9, 8e5, True), True, "about 800,000 pairs from 200,000 edges"),
        (ClosureEstimate(7, 9, 1e9, False), True, "at least about 1,000,000,000 pairs from 7 edges"),
        (ClosureEstimate(0, 0, 0.0, True), False, "about 0 pairs from 0 edges are few"),
    ],
)
def test_when_a_closure_pays_off(estimate: ClosureEstimate, worth: bool, why: str) -> None:
    assert is_worth_while(estimate) == (worth, why)


@given(st.integers(0, 10**8), st.floats(0, 1e7))
def test_outgrown(facts: int, pairs: float) -> None:
    outgrown = has_outgrown(facts, ClosureEstimate(1, 1, pairs, True))
    assert outgrown == (facts > 10 * max(pairs, 300_000))


def views(
    rules: str, loaded: dict[str, list[tuple[int, int]]] | None, **options: object
) -> dict[str, SchemeView]:
    declared = "".join(f".decl {name}(x: number, y: number)\n.output {name}\n" for name in "refu")
    engine = ge.Engine(declared + rules + "\n", **options)  # type: ignore[arg-type]
    for name, rows in (loaded or {}).items():
        engine.load(name, rows)
    return view_schemes(engine.plan(), engine.loaded if loaded is not None else None)


CHAIN = [(x, x + 1) for x in range(900)]


@pytest.mark.parametrize("rules", [CLOSURE, LINEAR])
def test_views_of_a_closure(rules: str) -> None:
    before = views(rules, None)["r"]
    assert before.scheme == "closure or table" and not before.is_decided and not before.is_compact
    assert before.why.endswith("; decided when its facts are known: from 300,000 pairs on")
    large = views(rules, {"e": CHAIN})["r"]
    assert (large.scheme, large.is_compact) == ("closure", True) and "pairs from 900 edges" in large.why
    assert [told(rule) for rule in large.handled] == [told(read(rules).rules[1])], "copies still have to run"
    small = views(rules, {"e": CHAIN[:50]})["r"]
    assert small.scheme == "table" and small.why.endswith("pairs from 50 edges are few")
    assert views(rules, {"e": CHAIN[:5]}, schemes={"r": "closure"})["r"].why.endswith("; asked for")
    forced = views(rules, {"e": CHAIN}, schemes={"r": "table"})["r"]
    assert (forced.scheme, forced.why, forced.handled) == ("table", "asked for", frozenset())


def test_a_closure_whose_edges_are_derived_is_open_with_facts_too() -> None:
    rules = CLOSURE + "e(x, y) :- f(x, y), x < y."
    assert views(rules, {"f": CHAIN})["r"].scheme == "closure or table"
    assert views(CLOSURE + "r(x, y) :- f(y, x).", {"e": CHAIN[:450], "f": []})["r"].scheme == "table"
    loaded = {"f": [(y, x) for x, y in CHAIN[450:]], "e": CHAIN[:450]}
    assert views(CLOSURE + "r(x, y) :- f(y, x).", loaded)["r"].scheme == "closure"
    assert views("r(x, z) :- r(x, y), r(y, z).", {"r": CHAIN})["r"].scheme == "closure"


def test_views_of_equivalences_aliases_and_unions() -> None:
    assert views(SAME, None)["r"].scheme == "equivalence"
    found = views(INVERSE, None)
    assert found["u"] == SchemeView("alias of r", "it holds the same facts as r, and is stored there")
    assert views(UNION, None)["u"].why.endswith("; no rule reads it")
    assert "u" not in views(UNION + "r(x, y) :- u(x, y), x < y.", None), "it is read, and of tables"
    assert "u" not in views("u(x, y) :- e(x, y).", None), "a single table is only copied"
    above = CLOSURE + "u(x, y) :- r(x, y). f(x, y) :- u(x, y), x < y."
    assert views(above, None)["u"].scheme == "union or table"
    assert views(above, {"e": CHAIN})["u"].scheme == "union"
    assert "u" not in views(above, {"e": CHAIN[:9]})


def test_views_by_small_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheme_costs, "LEAST_PAIRS", 0)
    monkeypatch.setattr(scheme_costs, "LEAST_GROWTH", 0)
    assert views(CLOSURE, {"e": CHAIN[:3]})["r"].scheme == "closure"


def rule_of(text: str) -> Rule:
    return read(text).rules[0]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("r(x, z) :- r(x, y), e(y, z).", "r(x, z) :- @r.external(x, y), e(y, z)"),
        ("r(x, z) :- e(x, y), r(y, z).", "r(x, z) :- e(x, y), @r.external(y, z)"),
        ("r(x, z) :- r(x, y), e(y, w), r(w, z).", "r(x, z) :- @r.external(x, y), e(y, w), @r.external(w, z)"),
        ("r(x, y) :- r(x, _), e(_, y).", "r(x, y) :- @r.external(x, _), e(_, y)"),
        # x stands elsewhere, or not where the head has it.
        ("r(x, z) :- r(x, y), e(x, z).", None),
        ("r(x, z) :- r(x, y), e(y, z), x < 9.", None),
        ("r(x, z) :- r(x, y), e(y, z), !f(x, z).", None),
        ("r(y, x) :- r(x, y), e(x, y).", None),
        ("r(x, x) :- r(x, y), e(y, y).", None),
        ("r(z, x) :- r(x, y), e(y, z).", None),
        ("u(x, z) :- r(x, y), e(y, z).", None),
        ("r(x, n) :- e(x, _), n = count : { e(x, _) }.", None),
        ("r(1, z) :- r(1, y), e(y, z).", None),
    ],
)
def test_reading_external_facts(rule: str, expected: str | None) -> None:
    before = rule_of(rule)
    after = read_external(before, "r", "@r.external")
    assert told(after) == (expected or told(before))


def test_the_linear_rule() -> None:
    program = read(CLOSURE)
    name = external_name("r")
    assert name == "@r.external"
    assert told(linear_rule(program.relations["r"], name)) == "r(x, z) :- r(x, y), @r.external(y, z)"
    assert told(linear_rule(program.relations["r"], "e", (1, 0))) == "r(x, z) :- r(x, y), e(z, y)"


def test_rules_with_external_facts() -> None:
    program = read(CLOSURE + "r(x, z) :- r(x, y), f(y, z). u(x, y) :- r(x, y).")
    rules = with_external_facts(program.rules, program.relations["r"], program.rules[1:2])
    assert [told(rule) for rule in rules] == [
        "@r.external(x, y) :- e(x, y), !r(x, y)",
        "@r.external(x, z) :- @r.external(x, y), f(y, z), !r(x, z)",
        "u(x, y) :- r(x, y)",
        "r(x, y) :- @r.external(x, y)",
        "r(x, z) :- r(x, y), @r.external(y, z)",
    ]


RULES = (
    "r(x, z) :- r(x, y), e(y, z).",
    "r(x, z) :- e(x, y), r(y, z).",
    "r(x, z) :- r(x, y), f(y, w), r(w, z).",
    "r(x, z) :- r(x, y), e(y, z), x < z.",
    "r(y, x) :- r(x, y), f(x, y).",
    "r(x, x) :- r(x, y), f(y, _).",
    "r(x, z) :- r(x, y), r(y, w), e(w, z).",
)
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)


@given(st.lists(st.sampled_from(RULES), max_size=3), PAIRS, PAIRS, PAIRS)
def test_reading_external_facts_derives_the_same(rules: list[str], e: list, f: list, r: list) -> None:
    """By the naive oracle, with external facts written as a relation of the program."""
    program = read(CLOSURE + "".join(rules), pairs="r e f ext")
    derived = [read_external(rule, "r", "ext") for rule in program.rules if rule != program.rules[1]]
    lines = [told(rule).replace("r(", "ext(", 1) + "." for rule in derived]
    lines += ["r(x, y) :- ext(x, y).", "r(x, z) :- r(x, y), ext(y, z)."]
    linear = read("\n".join(lines), pairs="r e f ext")
    expected = naive(program, {"e": e, "f": f, "r": r})["r"]
    assert naive(linear, {"e": e, "f": f, "ext": r})["r"] == expected


LISTED = {
    "r(x, y) :- r(z, x), r(z, y), e(x, _).": True,
    "e(x, y) :- r(x, y), x < y.": True,
    "e(x, z) :- r(x, y), s(y, z).": True,
    "e(x, y) :- r(y, x), s(x, y).": False,
    "e(x, y) :- s(x, y), r(x, 3).": False,
    "e(x, y) :- r(x, y), x = 3.": False,
    "r(x, z) :- r(x, y), s(y, z).": False,
    "s(x, y) :- r(x, y).": False,
}


@pytest.mark.parametrize("rule", LISTED)
def test_which_rules_list_a_closure(rule: str) -> None:
    """Those that take most pairs; not what looks some up, reads edges only, or copies into a union."""
    names = "".join(f".decl {name}(x: number, y: number)\n" for name in ("e", "r", "s"))
    text = names + "r(x, y) :- e(x, y). r(x, z) :- r(x, y), r(y, z).\n" + rule
    checked = rewrite(parse_program(text))
    plans = plan_schemes(checked, {})
    closure = plans["r"].candidate(Shape.CLOSURE)
    assert closure is not None
    recursive = [each for each in checked.rules if each.body]
    assert scheme_costs.lists_itself(closure, recursive, plans.values()) == LISTED[rule]
    few = ClosureEstimate(1000, 1000, 10**6, True)
    assert scheme_costs.is_worth_while(few, listed=True, budget=10**9)[0] is False
    assert scheme_costs.is_worth_while(few, listed=True, budget=10**6)[0] is True
