"""A plan in words and as a drawing."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

import gpuengine as ge
from gpuengine.language import parse_program
from gpuengine.planning.explain import explain
from gpuengine.planning.explanation import Explanation, explain_plan
from gpuengine.planning.strata import make_plan
from gpuengine.planning.svg import draw
from tests.generated import Case
from tests.planning.rewriting import rewrite
from tests.strategies import cases

PROGRAM = """\
.decl edge(x: number, y: number)
.decl node(x: number)
.decl path(x: number, y: number)
.decl apart(x: number, y: number)
.decl degree(x: number, n: number)
.decl unused(x: number)
.input edge
.output apart
.output degree
node(x) :- edge(x, _).
node(x) :- edge(_, x).
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
apart(x, y) :- node(x), node(y), !path(x, y), x < y.
degree(x, n) :- node(x), n = count : { edge(x, _) }.
unused(x) :- node(x), x > 3.
"""


def explanation(text: str, wanted: list[str] | None = None) -> Explanation:
    program = rewrite(parse_program(text))
    return explain_plan("program.dl", make_plan(program, wanted))


@pytest.fixture(scope="module")
def plan() -> Explanation:
    return explanation(PROGRAM, ["apart", "degree"])


def test_strata_rules_and_variants(plan: Explanation) -> None:
    by_relation = {relation: stratum for stratum in plan.strata for relation in stratum.relations}
    assert set(by_relation) == {"node", "path", "apart", "degree"}
    assert [s.number for s in plan.strata] == [1, 2, 3, 4]
    assert by_relation["path"].recursive and not by_relation["node"].recursive
    once, recursive = by_relation["path"].rules
    assert [variant.delta for variant in once.variants] == [None]
    assert [variant.delta for variant in recursive.variants] == ["path", "path"]
    first, second = recursive.variants
    assert [(step.literal, step.domain) for step in first.steps] == [
        ("path(x, y)", "new"),
        ("path(y, z)", "all"),
    ]
    assert [(step.literal, step.domain) for step in second.steps] == [
        ("path(y, z)", "new"),
        ("path(x, y)", "old"),
    ]
    assert by_relation["path"].indexes == ("path by (x)", "path by (y)")


def test_what_is_read_and_how(plan: Explanation) -> None:
    reads = {s.relations: {(d.relation, d.how) for d in s.reads} for s in plan.strata}
    assert reads["apart",] == {("node", "reads"), ("path", "negates")}
    assert reads["degree",] == {("node", "reads"), ("edge", "aggregates")}


def test_dropped_rules_say_why(plan: Explanation) -> None:
    (dropped,) = plan.dropped
    assert dropped.text == "unused(x) :- node(x), x > 3." and "unused" in dropped.why


def test_the_text_tells_all_of_it(plan: Explanation) -> None:
    text = explain(plan)
    for expected in (
        "Plan of program.dl",
        "path  (recursive: repeated until a round derives nothing new)",
        "each round, for the new facts of path",
        "path(y, z) [new]",
        "path(x, y) [old]  by (y)",
        "!path(x, y)",
        "x < y",
        "aggregate",
        "Dropped rules (not evaluated)",
        "no output depends on unused",
        "indexes: path by (x); path by (y)",
        "input, about 100,000 facts assumed",
    ):
        assert expected in text, expected


def test_loaded_facts_give_the_sizes() -> None:
    engine = ge.Engine(PROGRAM)
    engine.load("edge", [(1, 2), (2, 3)])
    shown = explain_plan("program.dl", engine.plan(), engine.loaded)
    edge = next(relation for relation in shown.relations if relation.name == "edge")
    assert edge.facts == 2 and edge.known and shown.statistics == "loaded"
    assert "input, 2 facts" in explain(shown)


def test_rivals_are_named() -> None:
    text = """
    .decl e(x: number, y: number)
    .decl t(x: number, y: number, z: number)
    .input e
    .output t
    t(x, y, z) :- e(x, y), e(y, z), e(z, x).
    """
    shown = explanation(text)
    steps = shown.strata[0].rules[0].variants[0].steps
    assert len(steps) == 2 and len(steps[1].rivals) == 1
    assert shown.strata[0].indexes == ("e by (x)", "e by (y)")
    assert f"or {steps[1].rivals[0]}" in explain(shown)


def test_a_program_without_rules() -> None:
    assert "No rules to evaluate" in explain(explanation(".decl a(x: number)\na(1).\n.output a"))


@settings(max_examples=25)
@given(cases(compound=True))
def test_any_program_can_be_explained_and_drawn(case: Case) -> None:
    shown = explanation(str(case))
    text = explain(shown)
    for stratum in shown.strata:
        for rule in stratum.rules:
            assert rule.text in text
            for variant in rule.variants:
                assert all(step.literal in text for step in variant.steps)
    root = ElementTree.fromstring(draw(shown))
    drawn = "".join(root.itertext())
    for stratum in shown.strata:
        assert f"Stratum {stratum.number}" in drawn


def test_the_drawing_has_a_box_for_each_stratum_and_an_arrow_for_each_dependency(plan: Explanation) -> None:
    root = ElementTree.fromstring(draw(plan))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [rect for rect in root.iter(f"{space}rect") if "box" in (rect.get("class") or "")]
    assert len(boxes) == len(plan.strata) + 2, "one for the facts, one for the dropped rules"
    arrows = [path for path in root.iter(f"{space}path") if path.find(f"{space}title") is not None]
    titles = sorted(str(path.findtext(f"{space}title")) for path in arrows)
    assert titles == sorted(
        f"{d.how} {d.relation}" for s in plan.strata for d in s.reads if d.relation not in s.relations
    )
