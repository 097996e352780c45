"""Least and greatest values in recursion beside SciPy: a quick run, and what is said of wrong answers."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench.cli import main
from bench.harness.cells import Cell, Outcome
from bench.harness.sheets import Report
from bench.recursive.command import add_changes, add_sheet
from bench.recursive.graphs import WEIGHTS, random_graph
from bench.recursive.workloads import (
    ANEW,
    CHANGED,
    COMPUTE,
    DELETE,
    FIRST,
    INSERT,
    LOAD,
    OURS,
    SCIPY,
    WORKLOADS,
)

SHORTEST = WORKLOADS[0]


def test_all_answers_are_those_of_scipy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "all.json"
    assert main(["recursive", "--quick", "--json", str(file)]) == 0
    printed, written = capsys.readouterr().out, json.loads(file.read_text())
    assert written["problems"] == []
    assert {cell["status"] for cell in written["cells"]} == {"ok"}
    sheet, changes = written["tables"]
    assert [row["workload"] for row in changes["rows"]] == [one.name for one in WORKLOADS if one.changes]
    assert all(row["insert/anew by processor"] > 0 for row in changes["rows"])
    assert [row["workload"] for row in sheet["rows"]] == [workload.name for workload in WORKLOADS]
    for row, workload in zip(sheet["rows"], WORKLOADS, strict=True):
        assert workload.name in printed
        assert row["facts"] > workload.quick / 2
        assert row["ours/ scipy"] > 0


def _outcome(check: int) -> Outcome:
    step = {"seconds": 2.0, "cpu": 3.0, "sizes": {"facts": 5, "check": check}}
    return Outcome("ok", (LOAD, COMPUTE), {LOAD: [{"seconds": 1.0, "cpu": 1.0}], COMPUTE: [step]})


def _problems(ours: Outcome, peer: Outcome) -> list[str]:
    report = Report(300)
    add_sheet(report, [SHORTEST], {Cell(SHORTEST.name, OURS): ours, Cell(SHORTEST.name, SCIPY): peer})
    return report.problems


def test_other_answers_than_scipys_are_reported() -> None:
    assert _problems(_outcome(1), _outcome(1)) == []
    (problem,) = _problems(_outcome(1), _outcome(2))
    assert problem.startswith(SHORTEST.name)
    assert "'check': 1" in problem and "'check': 2" in problem


def test_what_fails_is_reported_and_a_missing_scipy_is_not() -> None:
    assert _problems(Outcome("failed", reason="no memory"), _outcome(1)) == [
        "shortest-0.1M: failed no memory"
    ]
    assert _problems(_outcome(1), Outcome("failed", reason="?")) == ["shortest-0.1M: scipy failed ?"]
    assert _problems(_outcome(1), Outcome("skipped", reason="not installed")) == []


def test_updates_that_do_not_come_to_the_same_are_reported() -> None:
    workload = next(one for one in WORKLOADS if one.changes)
    steps = (FIRST, INSERT, DELETE, ANEW)
    for different, expected in ((None, []), (DELETE, ["after delete"]), (ANEW, ["after insert"])):
        measured = {
            step: [{"seconds": 1.0, "cpu": 1.0, "sizes": {"facts": 5, "check": int(step == different)}}]
            for step in steps
        }
        report = Report(300)
        add_changes(report, WORKLOADS, {Cell(workload.name, CHANGED): Outcome("ok", steps, measured)})
        assert [problem.partition("} ")[2][:12].strip() for problem in report.problems] == expected


@pytest.mark.parametrize("both_ways", [False, True])
def test_graphs_have_no_loops_and_no_edge_twice(both_ways: bool) -> None:
    graph = random_graph(500, 10, both_ways=both_ways)
    edges = set(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert len(edges) == graph.edges
    assert 4_500 < graph.edges <= 5_000
    assert all(x != y and 0 <= x < 500 and 0 <= y < 500 for x, y in edges)
    assert {(y, x) for x, y in edges} == edges if both_ways else True
    assert graph.weights.min() >= 1 and graph.weights.max() <= WEIGHTS
    again = random_graph(500, 10, both_ways=both_ways)
    assert np.array_equal(graph.weights, again.weights) and np.array_equal(graph.sources, again.sources)
