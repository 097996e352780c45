"""Programs that compute beside DuckDB: a quick run, and what is said of wrong answers."""

import json
from pathlib import Path

import pytest

from bench.cli import main
from bench.harness.cells import Cell, Outcome
from bench.harness.sheets import Report
from bench.wide.command import add_sheet
from bench.wide.workloads import COMPUTE, DUCKDB, LOAD, OURS, WORKLOADS

FIRST = WORKLOADS[0]


def test_all_answers_are_those_of_duckdb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "all.json"
    assert main(["wide", "--quick", "--json", str(file)]) == 0
    printed, written = capsys.readouterr().out, json.loads(file.read_text())
    assert written["problems"] == []
    assert {cell["status"] for cell in written["cells"]} == {"ok"}
    (sheet,) = written["tables"]
    assert [row["workload"] for row in sheet["rows"]] == [workload.name for workload in WORKLOADS]
    for row in sheet["rows"]:
        assert row["workload"] in printed
        assert row["facts"] > 0 and row["duckdb/ ours"] > 0


def _outcome(check: int) -> Outcome:
    step = {"seconds": 2.0, "cpu": 3.0, "sizes": {"facts": 5, "check": check}}
    return Outcome("ok", (LOAD, COMPUTE), {LOAD: [{"seconds": 1.0, "cpu": 1.0}], COMPUTE: [step]})


def _problems(ours: Outcome, peer: Outcome) -> list[str]:
    report = Report(300)
    outcomes = {Cell(FIRST.name, OURS): ours, Cell(FIRST.name, DUCKDB): peer}
    add_sheet(report, [FIRST], {FIRST.name: 5}, outcomes)
    return report.problems


def test_other_answers_than_duckdbs_are_reported() -> None:
    assert _problems(_outcome(1), _outcome(1)) == []
    (problem,) = _problems(_outcome(1), _outcome(2))
    assert problem.startswith(FIRST.name)
    assert _problems(Outcome("failed", reason="no memory"), _outcome(1)) == ["counter: failed no memory"]
    assert _problems(_outcome(1), Outcome("skipped", reason="not installed")) == []
