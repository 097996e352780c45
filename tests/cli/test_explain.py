"""`gpuengine explain`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.cli.processes import gpuengine, reach_project


def test_a_tree_of_facts_down_to_stated_ones(tmp_path: Path) -> None:
    reach_project(tmp_path, [(1, 2), (2, 3), (3, 4)])
    done = gpuengine("explain", "reach.dl", "-F", "facts", "path(1, 4)", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("path(1, 4)  along 3 facts by ")
    assert "reach.dl:" in done.stdout
    assert "edge(1, 2)  stated" in done.stdout and "edge(3, 4)  stated" in done.stdout


def check_paths(proofs: dict[str, Any], edges: set[tuple[int, ...]]) -> None:
    """Every step of a file of proofs is an edge, or a way along others that lead to edges."""
    steps = {int(number): step for number, step in proofs["steps"].items()}
    for step in steps.values():
        values = tuple(step["values"])
        if step["by"] == "stated":
            assert step["relation"] == "edge" and values in edges and step["height"] == 0
            continue
        assert step["relation"] == "path"
        below = [steps[premise["step"]] for premise in step["premises"]]
        assert step["height"] == 1 + max(other["height"] for other in below)
        ways = [other["values"] for other in below]
        assert (ways[0][0], ways[-1][1]) == values
        assert all(one[1] == other[0] for one, other in pairwise(ways))


def test_every_answer_into_a_file(tmp_path: Path) -> None:
    reach_project(tmp_path, [(1, 2), (2, 3), (3, 4)])
    saved = gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", "--save", "kb", cwd=tmp_path)
    assert saved.returncode == 0, saved.stderr
    done = gpuengine("explain", "kb", "path(x, y)", "-o", "proofs.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    proofs = json.loads((tmp_path / "proofs.json").read_text())
    assert (proofs["count"], len(proofs["goals"]), proofs["is_least"]) == (6, 6, True)
    check_paths(proofs, {(1, 2), (2, 3), (3, 4)})
    facts = {proofs["steps"][str(goal)]["fact"] for goal in proofs["goals"]}
    assert facts == {f"path({a}, {b})" for a in (1, 2, 3) for b in (2, 3, 4) if a < b}


def test_drawing_and_page(tmp_path: Path) -> None:
    reach_project(tmp_path)
    drawn = gpuengine("explain", "reach.dl", "-F", "facts", "path(1, 3)", "--svg", cwd=tmp_path)
    assert ET.fromstring(drawn.stdout).tag.endswith("svg")
    page = gpuengine("explain", "reach.dl", "-F", "facts", "path(1, 3)", "-o", "p.html", cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    assert "<details open>" in (tmp_path / "p.html").read_text()


def test_why_not(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("explain", "reach.dl", "-F", "facts", "path(3, 1)", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "path(3, 1) does not hold\n")
    assert "--why-not" in done.stderr
    done = gpuengine("explain", "reach.dl", "-F", "facts", "path(3, 1)", "--why-not", cwd=tmp_path)
    assert done.returncode == 0
    assert "fails: edge(x, y)   there is no edge(3, 1)" in done.stdout


def test_what_does_not_go_together(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("explain", "reach.dl", "path(1, 3)", "--why-not", "--all", cwd=tmp_path)
    assert done.returncode == 2
    assert "--why-not goes with text or --json only" in done.stderr
