"""The examples run as their READMEs say, and give exactly these results."""

from __future__ import annotations

import gzip
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("road-graph", "points-to", "same-generation", "access-policy", "sensor-alarms")
OF_TRIPLES = ("food",)
"""Whose commands are tested with RDF's: tests/rdf/test_cli.py."""


def run(name: str, tmp_path: Path) -> dict[str, set[tuple[str, ...]]]:
    """The outputs of the first command of an example's README, by file name."""
    readme = (EXAMPLES / name / "README.md").read_text()
    (command,) = re.findall(r"^    gpuengine (run .+)$", readme, re.MULTILINE)
    arguments = shlex.split(command)
    assert arguments[-2:] == ["-D", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "gpuengine", *arguments[:-1], str(tmp_path)],
        cwd=EXAMPLES / name,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    results = {
        path.stem: {tuple(line.split("\t")) for line in path.read_text().splitlines()}
        for path in tmp_path.iterdir()
    }
    printed = {tuple(line.split("\t")) for line in done.stdout.splitlines()}
    return {**results, "printed": printed}


def rows(text: str) -> set[tuple[str, ...]]:
    return {tuple(line.split()) for line in text.strip().splitlines()}


def test_every_example_is_tested() -> None:
    assert sorted(path.parent.name for path in EXAMPLES.glob("*/README.md")) == sorted(NAMES + OF_TRIPLES)


def test_road_graph(tmp_path: Path) -> None:
    results = run("road-graph", tmp_path)
    roads: dict[int, set[int]] = {}
    with gzip.open(EXAMPLES / "road-graph" / "facts" / "road.facts.gz", "rt") as lines:
        for line in lines:
            start, end = map(int, line.split())
            roads.setdefault(start, set()).add(end)
    expected = {(x, y) for x in roads for y in reached(roads, x)}
    assert {(int(x), int(y)) for x, y in results["reach"]} == expected
    assert len(expected) == 146_120
    ends = {y for targets in roads.values() for y in targets} - roads.keys()
    assert results["printed"] == {("dead_end", str(len(ends)))}
    counts = {x: len(reached(roads, x)) for x in roads}
    most = max(counts.values())
    assert results["farthest"] == {(str(x), str(most)) for x, n in counts.items() if n == most}


def reached(roads: dict[int, set[int]], start: int) -> set[int]:
    """Where the roads lead from `start`, by breadth-first search."""
    found: set[int] = set()
    frontier = set(roads.get(start, ()))
    while frontier:
        found |= frontier
        frontier = {y for x in frontier for y in roads.get(x, ())} - found
    return found


def test_points_to(tmp_path: Path) -> None:
    results = run("points-to", tmp_path)
    assert results["points_to"] == rows(
        """
        list List
        first Node
        node Node
        data Data
        next Node2
        cursor Node
        cursor Node2
        other Data2
        result Data
        result Data2
        """
    )
    assert results["heap"] == rows(
        """
        List head Node
        Node value Data
        Node value Data2
        Node next Node2
        Node2 value Data2
        """
    )
    assert results["alias"] == rows(
        """
        cursor first
        cursor next
        cursor node
        data result
        first node
        other result
        """
    )


def test_same_generation(tmp_path: Path) -> None:
    results = run("same-generation", tmp_path)
    generations = [
        ["berta", "carl", "dora"],
        ["emil", "frida", "gustav", "hanna", "ida"],
        ["jakob", "karla", "ludwig", "maria"],
    ]
    pairs = {(x, y) for people in generations for x in people for y in people if x != y}
    siblings = [{"berta", "carl", "dora"}, {"emil", "frida"}, {"hanna", "ida"}]
    assert results["same_generation"] == pairs
    assert results["cousin"] == {(x, y) for x, y in pairs if not any({x, y} <= group for group in siblings)}


def test_access_policy(tmp_path: Path) -> None:
    results = run("access-policy", tmp_path)
    assert results["allowed"] == rows(
        """
        ada read handbook
        ada read roadmap
        ada read salaries
        ada write handbook
        ada write roadmap
        ada write salaries
        bob read handbook
        bob read roadmap
        bob write handbook
        bob write roadmap
        cleo read handbook
        cleo read roadmap
        cleo read tickets
        dan read handbook
        dan write handbook
        dan write roadmap
        """
    )
    assert results["readable"] == rows("ada 3\nbob 2\ncleo 3\ndan 1\neve 0")
    assert results["blind_writer"] == {("dan", "roadmap")}
    assert results["busiest"] == {("ada",), ("cleo",)}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "sensor-alarms"])
def test_every_program_has_a_plan(name: str) -> None:
    from gpuengine import Engine
    from gpuengine.planning.explain import explain
    from gpuengine.planning.explanation import explain_plan

    (program,) = (EXAMPLES / name).glob("*.dl")
    assert "Stratum 1" in explain(explain_plan(program.name, Engine(program).plan()))


def test_sensor_alarms(tmp_path: Path) -> None:
    results = run("sensor-alarms", tmp_path)
    day = "2026-03-01T"
    assert results["Alarm"] == {
        (f"Alarm(east)@[{day}15:10:00Z,{day}17:00:00Z)",),
        (f"Alarm(north)@[{day}12:10:00Z,{day}13:20:00Z)",),
    }
    assert results["Escalated"] == {(f"Escalated(north)@[{day}12:35:00Z,{day}13:20:00Z]",)}
    assert results["Lost"] == {(f"Lost(east)@[{day}16:10:00Z,{day}17:00:00Z)",)}
    assert results["CheckSensor"] == {(f"CheckSensor(east)@[{day}15:55:00Z,{day}16:00:00Z)",)}
    assert ("Alarm", "2") in results["printed"]
