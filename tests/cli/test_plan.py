"""`gpuengine plan` as text, JSON and drawing."""

from __future__ import annotations

import itertools
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.cli.processes import gpuengine, reach_project

POLICY = """
.decl user(u: symbol)
.decl grant(u: symbol, d: symbol)
.decl deny(u: symbol, d: symbol)
.input user, grant, deny
.decl allowed(u: symbol, d: symbol)
.decl documents(u: symbol, n: number)
.output documents
allowed(u, d) :- grant(u, d), !deny(u, d).
documents(u, n) :- user(u), n = count : { allowed(u, _) }.
.decl forgotten(u: symbol)
forgotten(u) :- user(u), u = "<&>".
"""


def test_text_without_facts(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("plan", "reach.dl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == """Plan of reach.dl
No facts were loaded: each input is assumed to hold 100,000 facts, and
derived relations are assumed to hold 1,000,000 facts. Give -F DIR for estimates from your facts.
Estimates of a delta rule are for all its rounds together. A run orders each rule, and chooses
what evaluates it, by what its relations hold at that time, so both can be others.

Relations
  edge(x, y)  input, about 100,000 facts assumed
  path(x, y)  derived, output
              stored as closure or table: path(x, z) :- path(x, y), edge(y, z) makes it the closure of edge; \
decided when its facts are known: from 300,000 pairs on

Stratum 1: path  (recursive: repeated until a round derives nothing new)
  path:1, line 6: path(x, y) :- edge(x, y).
    by a join plan
    once, when the stratum begins: starts from edge (100,000 facts)
      1. drive     edge(x, y)  ~100 k bindings
  path:2, line 7: path(x, z) :- path(x, y), edge(y, z).
    not evaluated if it becomes a closure: the closure implies it
    by a join plan
    each round, for the new facts of path: starts from the delta of path; cheapest of the orders by expected \
bindings
      1. drive     path(x, y) [new]    ~1 M bindings
      2. probe     edge(y, z)  by (x)  ~3.16 M bindings
  indexes: edge by (x)

Dropped rules: none

How a step reads
  drive      its facts start the rule, one binding each
  probe      find the matching facts by an index on the columns that are bound
"""
    )


def test_text_with_facts(tmp_path: Path) -> None:
    reach_project(tmp_path, [(x, x + 1) for x in range(12)])
    shown = gpuengine("plan", "reach.dl", "-F", "facts", cwd=tmp_path).stdout
    assert "edge(x, y)  input, 12 facts" in shown
    assert "1. drive     edge(x, y)  ~12 bindings" in shown


def test_plan_does_not_evaluate(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(".decl n(x: number)\n.output n\nn(0).\nn(x + 1) :- n(x).\n")
    assert gpuengine("plan", "p.dl", cwd=tmp_path).returncode == 0


def test_json(tmp_path: Path) -> None:
    (tmp_path / "policy.dl").write_text(POLICY)
    plan = json.loads(gpuengine("plan", "policy.dl", "--json", cwd=tmp_path).stdout)
    assert plan["statistics"] == "assumed"
    assert [stratum["relations"] for stratum in plan["strata"]] == [["allowed"], ["documents"]]
    first, second = plan["strata"]
    assert first["recursive"] is False
    assert {(r["relation"], r["how"]) for r in first["reads"]} == {("grant", "reads"), ("deny", "negates")}
    assert {(r["relation"], r["how"]) for r in second["reads"]} == {
        ("user", "reads"),
        ("allowed", "aggregates"),
    }
    steps = first["rules"][0]["variants"][0]["steps"]
    assert [(step["literal"], step["access"]) for step in steps] == [
        ("grant(u, d)", "drive"),
        ("!deny(u, d)", "check"),
    ]
    aggregate = second["rules"][0]["variants"][0]["steps"][-1]
    assert aggregate["access"] == "aggregate"
    assert aggregate["inner"][0]["relation"] == "allowed"
    assert second["indexes"] == ["allowed by (u)"]
    assert [(rule["text"], rule["why"]) for rule in plan["dropped"]] == [
        ('forgotten(u) :- user(u), u = "<&>".', "no output depends on forgotten")
    ]


def test_delta_variants_of_a_nonlinear_rule(tmp_path: Path) -> None:
    program = ".decl e(x: number, y: number)\n.decl p(x: number, y: number)\n.input e\n.output p\n"
    (tmp_path / "p.dl").write_text(program + "p(x, y) :- e(x, y).\np(x, z) :- p(x, y), p(y, z).\n")
    plan = json.loads(gpuengine("plan", "p.dl", "--json", cwd=tmp_path).stdout)
    (stratum,) = plan["strata"]
    variants = next(rule for rule in stratum["rules"] if "p(y, z)" in rule["text"])["variants"]
    assert [
        [(step["literal"], step["domain"], step["columns"]) for step in variant["steps"]]
        for variant in variants
    ] == [
        [("p(x, y)", "new", []), ("p(y, z)", "all", ["x"])],
        [("p(y, z)", "new", []), ("p(x, y)", "old", ["y"])],
    ]
    assert stratum["indexes"] == ["p by (x)", "p by (y)"]


def test_svg(tmp_path: Path) -> None:
    (tmp_path / "policy.dl").write_text(POLICY)
    done = gpuengine("plan", "policy.dl", "--svg", "plan.svg", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    text = (tmp_path / "plan.svg").read_text()
    root = ElementTree.fromstring(text)
    namespace = "{http://www.w3.org/2000/svg}"
    words = [element.text for element in root.iter(f"{namespace}text")]
    assert "Stratum 1: allowed  (once)" in words
    assert 'line 12: forgotten(u) :- user(u), u = "<&>".' in words
    arrows = [
        path.get("class")
        for path in root.iter(f"{namespace}path")
        if path.find(f"{namespace}title") is not None
    ]
    assert sorted(arrows) == ["arrow aggregates", "arrow negates", "arrow reads", "arrow reads"]
    assert gpuengine("plan", "policy.dl", "--svg", "-", cwd=tmp_path).stdout == text


def test_svg_boxes_do_not_overlap_and_hold_their_text(tmp_path: Path) -> None:
    (tmp_path / "policy.dl").write_text(POLICY)
    root = ElementTree.fromstring(gpuengine("plan", "policy.dl", "--svg", "-", cwd=tmp_path).stdout)
    namespace = "{http://www.w3.org/2000/svg}"
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    boxes = [
        tuple(float(box.get(key, 0)) for key in ("x", "y", "width", "height"))
        for box in root.iter(f"{namespace}rect")
        if box.get("rx")
    ]
    assert len(boxes) == 4
    for (_, upper, _, tall), (_, lower, _, _) in itertools.pairwise(boxes):
        assert upper + tall < lower
    for x, y, wide, tall in boxes:
        assert x + wide <= width
        assert y + tall <= height
    for text in root.iter(f"{namespace}text"):
        assert float(text.get("x", 0)) + 7 * len(text.text or "") <= width


def test_svg_into_a_missing_folder(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("plan", "reach.dl", "--svg", "nowhere/plan.svg", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: can't write nowhere/plan.svg: No such file or directory\n"


def test_the_program_after_a_pass(tmp_path: Path) -> None:
    (tmp_path / "same.dl").write_text(
        ".decl e(x: number, y: number)\n.input e\n.decl same(x: number, y: number) eqrel\n.output same\n"
        "same(x, y) :- e(x, y).\n"
    )
    done = gpuengine("plan", "same.dl", "--after", "close-equivalences", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "same(x, z) :- same(x, y), same(y, z)." in done.stdout.splitlines()
    done = gpuengine("plan", "same.dl", "--after", "closing", cwd=tmp_path)
    assert done.returncode == 2
    assert "no pass 'closing'; it is one of close-equivalences, name-what-is-added" in done.stderr


def test_analysed(tmp_path: Path) -> None:
    reach_project(tmp_path, [(1, 2), (2, 3), (3, 4)])
    told = ("plan", "reach.dl", "-F", "facts", "--analyse")
    done = gpuengine(*told, "--profile", "p.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for said in (
        "The program was evaluated",
        "edge(x, y)  input, 3 facts",
        "path(x, y)  derived, 6 facts, output",
        "3 candidates, 3 derived, 0 duplicates",
        "1. drive     edge(x, y)  ~3 bindings, 3 measured",
        "bindings, 6 measured",
    ):
        assert said in done.stdout, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facts", "p.json", "reach.dl"]
    steps = [
        step
        for rule in json.loads((tmp_path / "p.json").read_text())["rules"]
        for plan in rule["plans"]
        for step in plan["steps"]
    ]
    assert sorted(step["measured"] for step in steps) == [3, 3, 6]
    plan = json.loads(gpuengine(*told, "--json", cwd=tmp_path).stdout)
    assert plan["statistics"] == "measured"
    assert plan["strata"][0]["rules"][0]["measured"]["derived"] == 3
    drawn = gpuengine(*told, "--svg", "-", cwd=tmp_path).stdout
    ElementTree.fromstring(drawn)
    assert "6 measured" in drawn and "path is stored as table, 6 facts" in drawn


def test_profile_without_analyse(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("plan", "reach.dl", "--profile", "p.html", cwd=tmp_path)
    assert done.returncode == 2 and "--profile goes with --analyse only" in done.stderr


def test_long_rules_are_not_cut(tmp_path: Path) -> None:
    """All words of the rule are in the drawing, in lines that are not too long."""
    names = [f"a_relation_with_a_long_name_{k}" for k in range(12)]
    body = ", ".join(f"{name}(x{k}, x{k + 1})" for k, name in enumerate(names))
    lines = [f".decl {name}(x: number, y: number)\n.input {name}" for name in names]
    rule = f"p(x0, x12) :- {body}."
    (tmp_path / "p.dl").write_text(
        "\n".join([*lines, ".decl p(x: number, y: number)", ".output p", rule, ""])
    )
    drawn = gpuengine("plan", "p.dl", "--svg", "-", cwd=tmp_path).stdout
    elements = ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")
    shown = [element.text or "" for element in elements]
    assert " ".join(rule.split()) in " ".join(" ".join(shown).split())
    assert max(map(len, shown)) <= 120 and not any("…" in line for line in shown)
