"""What a plan says and draws of the evaluators of rules, and that a run chooses the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings

import gpuengine as ge
from gpuengine.planning.explain import explain
from gpuengine.planning.explanation import Explanation, RuleView, explain_plan
from gpuengine.planning.svg import draw
from tests.cyclic_programs import cyclic_programs
from tests.generated import Case

SPACE = "{http://www.w3.org/2000/svg}"
SYMBOLS = """\
.decl cw, ca(x: symbol, y: symbol)
.decl pc(x: symbol, y: symbol)
.decl known(x: symbol)
.input cw, ca
.output pc, known
pc(x, x) :- cw(x, _).
pc(x, y), known(x) :- cw(x, u), pc(u, y), ca(x, v), pc(v, y), x != "<&>".
"""
RING = """\
.decl e(x: number, y: number)
.decl ring(a: number, e: number)
.input e
.output ring
ring(a, e) :- e(a, b), e(b, c), e(c, d), e(d, e), e(e, f), e(f, g), e(g, h), e(h, a).
"""


def explanation(
    program: str, asked: Mapping[str, str] | None = None, facts: Mapping[str, np.ndarray] | None = None
) -> Explanation:
    engine = ge.Engine(program, evaluators=asked)
    for name, rows in (facts or {}).items():
        engine.load(name, rows)
    loaded = engine.loaded if facts is not None else None
    return explain_plan("<program>", engine.plan(), loaded, engine.prepared.chooser())


def rules(shown: Explanation) -> dict[str, RuleView]:
    return {rule.name: rule for stratum in shown.strata for rule in stratum.rules}


def section(shown: Explanation, number: int) -> str:
    """What is said of one stratum, without the costs: these are another test's."""
    text = explain(shown).split("\n\n")
    (found,) = (part for part in text if part.startswith(f"Stratum {number}:"))
    return re.sub(r"~[0-9.e+]+( [kMGT])?", "~N", found)


def test_text_of_a_hypertree() -> None:
    shown = explanation(SYMBOLS, {"pc:2": "hypertree"})
    assert (
        section(shown, 1)
        == """\
Stratum 1: pc  (recursive: repeated until a round derives nothing new)
  pc:1, line 6: pc(x, x) :- cw(x, _).
    by a join plan
    once, when the stratum begins: starts from cw (100,000 facts)
      1. drive     cw(x, _)  ~N bindings
  pc:2, line 7: pc(x, y), known(x) :- cw(x, u), pc(u, y), ca(x, v), pc(v, y), x != "<&>".
    by a hypertree of width 2: asked for
      ~N bindings expected, ~N by join plans
      node 1: @pc.node1(x, y)  ~N rows
        variables χ: x, u, y; kept: x, y
        atoms λ: cw(x, u), pc(u, y); x != "<&>"
        each round, for the new facts of pc: starts from the delta of pc; cheapest of the \
orders by expected bindings
          1. drive     pc(u, y) [new]    ~N bindings
          2. probe     cw(x, u)  by (y)  ~N bindings
          3. compute   x != "<&>"        ~N bindings
        node 2, below node 1 by x, y: @pc.node2(x, y)  ~N rows
          variables χ: x, y, v; kept: x, y
          atoms λ: ca(x, v), pc(v, y)
          each round, for the new facts of pc: starts from the delta of pc; cheapest of the \
orders by expected bindings
            1. drive     pc(v, y) [new]    ~N bindings
            2. probe     ca(x, v)  by (y)  ~N bindings
      over the nodes: pc(x, y) :- @pc.node1(x, y), @pc.node2(x, y).
        each round, for the new facts of @pc.node1, @pc.node2: reduced by semi-joins along the tree where \
that pays off, then joined
  indexes: ca by (y); cw by (y)"""
    )
    assert (
        section(shown, 2)
        == """\
Stratum 2: known  (evaluated once)
  known:1, line 7: pc(x, y), known(x) :- cw(x, u), pc(u, y), ca(x, v), pc(v, y), x != "<&>".
    by a hypertree of width 2: asked for
      ~N bindings expected, ~N by join plans
      shares the nodes of pc:2
      over the nodes: known(x) :- @pc.node1(x, y), @pc.node2(x, y).
        once, when the stratum begins"""
    )


def test_text_of_equal_nodes_and_of_nodes_made_for_another_rule() -> None:
    again = "ring(e, a) :- e(a, b), e(b, c), e(c, d), e(d, e), e(e, f), e(f, g), e(g, h), e(h, a), a != e.\n"
    shown = explanation(RING + again, {"*": "hypertree"})
    first, second = rules(shown).values()
    assert first.hypertree is not None and second.hypertree is not None
    assert [node.same_as for node in first.hypertree.nodes] == ["", "node 1"]
    assert [node.relation for node in first.hypertree.nodes] == ["@ring.node1", "@ring.node1"]
    assert "ring:1" in [node.same_as for node in second.hypertree.nodes]
    text = explain(shown)
    assert "made as for node 1" in text and "made as for ring:1" in text
    assert text.count("drive     e(a, b)") <= 2


def test_text_of_a_join_and_of_what_is_written() -> None:
    shown = explanation(RING, {"ring": "written"})
    (rule,) = rules(shown).values()
    assert (rule.evaluator, rule.why, rule.hypertree, rule.split) == ("written", "asked for", None, None)
    steps = [step.literal for step in rule.variants[0].steps]
    assert steps == [f"e({a}, {b})" for a, b in pairwise("abcdefgha")]
    text = explain(shown)
    assert "    by a join plan, as written: asked for\n" in text
    assert "from left to right, as written" in text
    assert "    by a join plan: asked for\n" in explain(explanation(RING, {"ring": "join"}))
    acyclic = RING.replace(", e(h, a)", "")
    assert "    by a join plan: its body has no cycle\n" in explain(explanation(acyclic))


def test_limited_relations_are_joined_as_a_run_does() -> None:
    shown = explanation(f"{RING}.limitsize ring(n=10)\n", {"ring": "hypertree"})
    (rule,) = rules(shown).values()
    assert (rule.evaluator, rule.why) == ("join", "the program has a .limitsize")


def test_json() -> None:
    shown = json.loads(json.dumps(asdict(explanation(SYMBOLS, {"pc:2": "hypertree"}))))
    first, second = shown["strata"][0]["rules"]
    (other,) = shown["strata"][1]["rules"]
    assert (first["name"], first["evaluator"], first["hypertree"]) == ("pc:1", "join", None)
    assert (second["name"], second["evaluator"], second["why"]) == ("pc:2", "hypertree", "asked for")
    assert second["join_cost"] > second["tree_cost"] > 0 and second["variants"] == []
    tree = second["hypertree"]
    assert (tree["width"], tree["shared_with"], tree["deltas"]) == (2, "", ["@pc.node1", "@pc.node2"])
    assert tree["over"] == "pc(x, y) :- @pc.node1(x, y), @pc.node2(x, y)."
    top, below = tree["nodes"]
    rows, cost, variants = top.pop("rows"), top.pop("cost"), top.pop("variants")
    assert top == {
        "number": 1,
        "parent": 0,
        "relation": "@pc.node1",
        "atom": "@pc.node1(x, y)",
        "variables": ["x", "u", "y"],
        "kept": ["x", "y"],
        "shared": [],
        "atoms": ["cw(x, u)", "pc(u, y)"],
        "filters": ['x != "<&>"'],
        "same_as": "",
    }
    assert rows > 0 and cost > 0
    assert [[step["literal"] for step in one["steps"]] for one in variants] == [
        ["pc(u, y)", "cw(x, u)", 'x != "<&>"']
    ]
    assert (below["parent"], below["shared"]) == (1, ["x", "y"])
    assert (other["hypertree"]["shared_with"], other["hypertree"]["nodes"]) == ("pc:2", [])
    assert shown["strata"][0]["indexes"] == ["ca by (y)", "cw by (y)"]


def words(root: ElementTree.Element) -> str:
    return "\n".join("".join(part.itertext()) for part in root.iter(f"{SPACE}text"))


def test_svg_of_a_hypertree() -> None:
    text = draw(explanation(SYMBOLS, {"pc:2": "hypertree"}))
    root = ElementTree.fromstring(text)
    assert "&lt;&amp;&gt;" in text and '"<&>"' in words(root)
    titles = [one.text or "" for one in root.iter(f"{SPACE}text") if one.get("class") == "title"]
    assert re.sub("~[0-9.e+]+( [kMGT])?", "~N", titles[-1]) == (
        "Hypertree of pc:2, width 2: ~N bindings expected, ~N by join plans"
    )
    assert sum(title.startswith("Hypertree of ") for title in titles) == 1, "known:1 shares its nodes"
    assert "over the nodes of pc:2:  known(x) :- @pc.node1(x, y), @pc.node2(x, y)." in words(root)
    assert [one.text for one in root.iter(f"{SPACE}text") if one.get("class") == "shared"] == ["x, y"]
    assert [one.text for one in root.iter(f"{SPACE}tspan")] == ["x", "y", "x", "y"], "what is kept"
    (edge,) = root.iter(f"{SPACE}line")
    upper, lower = node_boxes(root)
    assert float(edge.get("y1", 0)) == upper[1] + upper[3] and float(edge.get("y2", 0)) == lower[1]


def test_svg_cuts_long_texts_and_keeps_them_as_tooltips() -> None:
    long = {name: f"{name}_{'long_' * 12}name" for name in "abcdfgh"}
    program = re.sub(r"\b([abcdfgh])\b(?!:)", lambda found: long[found[1]], RING)
    shown = explanation(program, {"ring": "hypertree"})
    root = ElementTree.fromstring(draw(shown))
    (rule,) = rules(shown).values()
    assert rule.hypertree is not None
    everything = "\n".join(root.itertext())
    for node in rule.hypertree.nodes:
        assert all(name in everything for name in (*node.variables, *node.atoms, node.atom))
    in_boxes = [one for group in root.iter(f"{SPACE}g") for one in group.iter(f"{SPACE}text")]
    cut = [one for one in in_boxes if "…" in (one.text or "")]
    assert cut and all(one.find(f"{SPACE}title") is not None for one in cut)
    check_boxes(root)


def node_boxes(root: ElementTree.Element) -> list[tuple[float, ...]]:
    return [
        tuple(float(box.get(key, 0)) for key in ("x", "y", "width", "height"))
        for box in root.iter(f"{SPACE}rect")
        if box.get("class") == "node"
    ]


def check_boxes(root: ElementTree.Element) -> None:
    """Boxes of one drawing are apart, within the page, and as wide as what stands in them."""
    page = float(root.get("width", 0)), float(root.get("height", 0))
    for group in root.iter(f"{SPACE}g"):
        found = re.fullmatch(r"translate\(([\d.]+),([\d.]+)\)", group.get("transform", ""))
        assert found is not None
        left, top = float(found[1]), float(found[2])
        boxes = node_boxes(group)
        for x, y, wide, tall in boxes:
            assert left + x + wide <= page[0] and top + y + tall <= page[1]
        for (x, y, wide, tall), (u, v, other_wide, other_tall) in combinations(boxes, 2):
            assert x + wide < u or u + other_wide < x or y + tall < v or v + other_tall < y
        for text in group.iter(f"{SPACE}text"):
            x, y = float(text.get("x", 0)), float(text.get("y", 0))
            shown = (text.text or "") + "".join(
                (part.text or "") + (part.tail or "") for part in text if part.tag == f"{SPACE}tspan"
            )
            home = [box for box in boxes if box[0] <= x <= box[0] + box[2] and box[1] <= y <= box[1] + box[3]]
            assert len(home) == (0 if text.get("class") in ("title", "rule", "shared") else len(home))
            for box in home:
                assert x + 7 * len(shown) <= box[0] + box[2]


def folded(text: str) -> str:
    """Without white space: a picture breaks long rules into lines."""
    return "".join(text.split())


@settings(max_examples=40)
@given(cyclic_programs())
def test_any_hypertree_can_be_told_and_drawn(case: Case) -> None:
    shown = explanation(str(case), {"*": "hypertree"})
    text, root = explain(shown), ElementTree.fromstring(draw(shown))
    drawn = "\n".join(root.itertext())
    boxes = 0
    described = {name for name, rule in rules(shown).items() if rule.hypertree and rule.hypertree.nodes}
    for rule in rules(shown).values():
        if rule.hypertree is None:
            continue
        assert f"{rule.name}, " in text and rule.hypertree.over in text
        assert folded(rule.hypertree.over) in folded(drawn)
        assert bool(rule.hypertree.nodes) != (rule.hypertree.shared_with in described)
        boxes += len(rule.hypertree.nodes)
        for node in rule.hypertree.nodes:
            assert set(node.kept) <= set(node.variables) and set(node.shared) <= set(node.variables)
            assert node.parent < node.number and node.rows >= 0
            assert bool(node.variants) == (node.relation.startswith("@") and not node.same_as)
            for part in (*node.atoms, *node.filters, *node.variables, node.atom):
                assert part in text and part in drawn
    assert len(node_boxes(root)) == boxes
    check_boxes(root)


CHOICES = """\
.decl a, b(x: number, y: number)
.decl far, near, ring, path(x: number, y: number)
.decl known(x: number)
.input a, b
far(x, z), known(x) :- a(x, u), b(u, y), a(x, v), b(v, y), u < v, z = y + 1.
near(x, y) :- a(x, y), b(y, z), b(z, x).
ring(x, y) :- a(x, y), b(y, z), a(z, w), b(w, x).
ring(x, y) :- a(x, z), b(z, y).
path(x, y) :- a(x, y).
path(x, y) :- a(x, u), path(u, y), b(x, v), path(v, y).
"""


@pytest.mark.parametrize("asked", [None, {"*": "hypertree"}, {"far": "join", "ring:1": "written"}])
@pytest.mark.parametrize(("nodes", "rows"), [(150, 6_000), (20, 30)])
def test_a_run_chooses_what_the_plan_says(nodes: int, rows: int, asked: dict[str, str] | None) -> None:
    """And by the same nodes, but where a rule reads its own stratum: a run knows more of that."""
    random = np.random.default_rng(1)
    facts = {name: random.integers(0, nodes, (rows, 2)) for name in "ab"}
    shown = rules(explanation(CHOICES, asked, facts))
    engine = ge.Engine(CHOICES, evaluators=asked)
    for name, pairs in facts.items():
        engine.load(name, pairs)
    engine.materialise()
    assert engine.database is not None
    chosen = engine.database.evaluators.choices
    for (rule, choice), view in zip(chosen.items(), shown.values(), strict=True):
        assert view.head == rule.head.relation
        if rule.head.relation == "path":
            assert view.why == choice.why or not asked or "*" not in asked
            continue
        assert (view.evaluator, view.why) == (choice.evaluator.value, choice.why)
        assert (view.join_cost, view.tree_cost) == (choice.join_cost, choice.tree_cost)
        assert (view.hypertree is None) == (choice.node_rules is None)
        if choice.node_rules is not None and view.hypertree is not None and view.hypertree.nodes:
            assert [node.relation for node in view.hypertree.nodes] == list(choice.node_rules.relations)
    if rows > 1000 and asked is None:
        assert shown["far:1"].evaluator == "hypertree", "thousands of times cheaper"
    if rows < 100 and asked is None:
        assert all(view.evaluator == "join" for view in shown.values())


def test_two_nodes_that_are_the_same_atom_are_told_apart() -> None:
    """The rule over them reads it once."""
    declared = ".decl a, b, p(x: number, y: number)\n.input a, b\n.output p\n"
    rule = "p(x, y) :- a(x, u), b(u, y), a(x, v), b(v, y), n = count : { a(x, _), b(_, y) }, n < 5.\n"
    view = rules(explanation(declared + rule, {"*": "hypertree"}))["p:1"]
    assert view.hypertree is not None
    first, second = view.hypertree.nodes
    assert first.atom == second.atom == "@p.node1(x, y)"
    assert set(first.variables) | set(second.variables) == {"x", "y", "u", "v"}
    assert second.same_as == "node 1" and view.hypertree.over.count("@p.node1") == 1
