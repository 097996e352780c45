"""Table 4.3: it runs as a process, all columns agree, and what is wrong or slow is said."""

import copy
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from bench.cyclic import published, workloads
from bench.cyclic.run import COMBINED, HYPERTREE, JOIN, KINDS, STEPS, WRITTEN, Choice, Runner
from bench.cyclic.sheets import Report, add_workload, better, check, summary, total
from bench.cyclic.workloads import WORKLOADS
from bench.harness.cells import Cell, Outcome, Settings
from bench.harness.numbers import MoreThan
from bench.prepare import ROOT, Places

pytestmark = pytest.mark.filterwarnings("error")
CHOSEN = ("Example-1", "YAGO-cliques", "LUBM-L+C", "Triangles")
EXAMPLE = WORKLOADS["Example-1"]


def run_table(file: Path, *options: str) -> tuple[str, dict[str, Any]]:
    command = [sys.executable, "-m", "bench", "table", "4.3", "--quick", "--json", str(file), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0, done.stdout
    return done.stdout, json.loads(file.read_text())


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What ``table 4.3 --quick`` prints and writes of some workloads."""
    return run_table(tmp_path_factory.mktemp("cyclic") / "some.json", "--only", *CHOSEN)


def test_columns_agree_at_every_step(quick: tuple[str, dict[str, Any]]) -> None:
    printed, written = quick
    assert written["problems"] == []
    assert {cell["status"] for cell in written["cells"]} == {"ok"}
    assert {(cell["workload"], cell["mode"]) for cell in written["cells"]} == {
        (name, column) for name in CHOSEN for column in KINDS
    }
    assert all(tuple(cell["steps"]) == STEPS for cell in written["cells"])
    assert all(f"Table 4.3, {name}" in printed for name in CHOSEN)


def test_what_is_shown(quick: tuple[str, dict[str, Any]]) -> None:
    tables = {table["title"].partition(":")[0]: table["rows"] for table in quick[1]["tables"]}
    first, *_, last = tables["Table 4.3, LUBM-L+C"]
    assert [row["step"] for row in tables["Table 4.3, LUBM-L+C"]] == list(STEPS)
    assert all(isinstance(first[f"{column} s"], float) for column in KINDS)
    assert first["written/ combined"] == pytest.approx(first["written s"] / first["combined s"])
    least = min(last["join s"], last["hypertree s"])
    assert last["combined/ better"] == pytest.approx(last["combined s"] / least)
    assert (first["thesis: standard s"], last["thesis: combined s"]) == (29_577.90, 195.51)
    assert "thesis: HD s" not in tables["Table 4.3, Example-1"][0]
    ratios = {row["workload"]: row for row in tables["Table 4.3"]}
    assert ratios["LUBM-L+C"]["thesis: combined/ standard"] == pytest.approx(16.5 / 8.4)
    engines = [row["engine"] for row in tables["Triangles (size 60)"]]
    assert engines[0] == "gpuengine"
    assert {row["result"] for row in tables["Triangles (size 60)"]} == {"ok"}


@pytest.mark.slow
def test_all_workloads_are_run_and_right(tmp_path: Path) -> None:
    rest = [name for name in WORKLOADS if name not in CHOSEN]
    _, written = run_table(tmp_path / "rest.json", "--only", *rest)
    assert written["problems"] == []
    assert {cell["workload"] for cell in written["cells"]} == set(rest)


@pytest.mark.slow
def test_processes_of_their_own_have_peaks() -> None:
    runner = Runner(Settings(), Places(), choice=Choice((JOIN, COMBINED), repeat=1))
    tiny = replace(EXAMPLE, size=EXAMPLE.quick, expected={})
    runner.run([tiny])
    report = Report(120)
    add_workload(report, tiny, runner.of(tiny))
    assert report.problems == []
    for outcome in runner.outcomes.values():
        peaks = [outcome.last(step)["peak"] for step in STEPS]
        # The system counts pages for the peak in batches.
        assert 1e6 < outcome.last("initial")["loaded"] <= 1.01 * peaks[0]
        assert peaks == sorted(peaks)
    (row,) = summary(report).rows
    assert row[-3].raw == pytest.approx(1, rel=0.5)
    assert row[-1].text == "holds"


# -- what is wrong -------------------------------------------------------------------------------------


def outcome(*seconds: float, status: str = "ok", facts: int = 9) -> Outcome:
    """The first steps, with so many seconds each."""
    steps = {step: [{"seconds": s, "sizes": {"pc": facts}}] for step, s in zip(STEPS, seconds, strict=False)}
    return Outcome(status, STEPS, copy.deepcopy(steps))


def test_columns_that_disagree_and_fail_are_problems() -> None:
    columns = {JOIN: outcome(1, 1, 1, 1), HYPERTREE: outcome(1, facts=8), WRITTEN: outcome(status="timeout")}
    problems = list(check(columns | {COMBINED: Outcome("failed", STEPS, reason="out of luck")}, {"pc": 7}))
    assert problems[0] == "combined: failed: out of luck"
    assert problems[1] == "initial: pc: hypertree says 8; 7 is right"
    assert problems[2] == "initial: pc: join says 9; 7 is right"
    assert problems[3] == "initial: total: engines disagree (hypertree: 8; join: 9)"
    assert len(problems) == 6, "and what hypertree had at first is not what join has after +1,000"


def test_facts_that_do_not_come_back_are_a_problem() -> None:
    changed = outcome(1, 1, 1, 1)
    changed.last("+1,000")["sizes"]["pc"] -= 1
    (of_relation, of_all) = check({JOIN: changed}, {})
    assert of_relation == "+1,000: pc: engines disagree (join: 8; join at first: 9)"
    assert "total" in of_all


def test_a_wrong_number_of_facts_makes_the_command_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = replace(EXAMPLE, size=EXAMPLE.quick, expected={"pc": 14})
    monkeypatch.setattr(workloads, "WORKLOADS", {wrong.name: wrong})
    assert main(["table", "4.3", "--columns", "join", "--repeat", "1"]) == 1
    assert "WRONG Example-1, initial: pc: join says 3,660; 14 is right" in capsys.readouterr().out


def test_a_program_that_is_wrong_is_shown() -> None:
    runner = Runner(Settings(quick=True), Places())
    specs = {cell: spec | {"program": "nothing"} for cell, spec in runner.specs(EXAMPLE).items()}
    runner.specs = lambda workload: specs  # type: ignore[method-assign]
    runner.run([EXAMPLE])
    report = Report(120, quick=True)
    add_workload(report, EXAMPLE, runner.of(EXAMPLE))
    assert len(report.problems) == len(KINDS)
    assert report.problems[0].startswith("Example-1, written: failed: ")
    assert report.sheets[0].rows[0][3].text == "failed"


def test_a_process_that_runs_too_long_is_ended_and_shown() -> None:
    runner = Runner(Settings(quick=True, timeout=-29.9), Places())
    runner.run([EXAMPLE])
    assert {found.status for found in runner.outcomes.values()} == {"timeout"}
    report = Report(120, quick=True)
    add_workload(report, EXAMPLE, runner.of(EXAMPLE))
    assert report.problems == []
    assert [value.text for value in report.sheets[0].rows[0][3:7]] == ["> 120"] * 4


def test_a_time_out_is_a_lower_bound() -> None:
    columns = {
        WRITTEN: outcome(status="timeout"), JOIN: outcome(8, 1, status="timeout"),
        HYPERTREE: outcome(1, 1, 1, 1), COMBINED: outcome(2, 1, 1, 1),
    }  # fmt: skip
    report = Report(120)
    add_workload(report, EXAMPLE, columns)
    initial, _, back, _ = report.sheets[0].rows
    assert (initial[3].text, initial[7].text, initial[8].text) == ("> 120", "> 60x", "2x")
    assert (back[4].text, back[8].text) == ("> 111", "1x")
    assert "written: timeout" in report.sheets[0].notes
    (row,) = summary(report).rows
    assert [value.text for value in row[1:7]] == ["> 60x", "> 24x", "–", "2x", "1.25x", "missed"]


def test_the_better_one_is_one_that_ended() -> None:
    assert better({JOIN: 3.0, HYPERTREE: 2.0, COMBINED: 1.0}) == 2
    assert better({JOIN: MoreThan(1), HYPERTREE: 2.0}) == 2
    assert better({JOIN: MoreThan(1), HYPERTREE: None}) is None


def test_a_total_needs_all_steps() -> None:
    assert total(outcome(1, 2, 3, 4), 120) == 10
    assert total(outcome(1, 2, status="failed"), 120) is None
    assert isinstance(total(outcome(1, status="timeout"), 120), MoreThan)


def test_an_update_that_computes_anew_is_said() -> None:
    columns = {JOIN: outcome(1, 1, 1, 1), COMBINED: outcome(1, 1, 1, 1)}
    columns[COMBINED].last("-25 %")["maintained"] = False
    report = Report(120)
    add_workload(report, EXAMPLE, columns)
    assert report.sheets[0].notes == ["-25 %: combined computed everything anew."]


def test_wrong_calls(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "5.11", "--quick", "--only", "Exp"]) == 2
    assert "--only: only table 4.3 has that" in capsys.readouterr().err
    for option, value in (("--only", "nothing"), ("--columns", "nothing")):
        with pytest.raises(SystemExit) as ended:
            main(["table", "4.3", option, value])
        assert ended.value.code == 2


def test_published_numbers_are_complete() -> None:
    rows = {workload.thesis for workload in WORKLOADS.values()} - {""}
    assert rows == published.SHAPES.keys() == published.SECONDS.keys() == published.PEAK_GIGABYTES.keys()
    assert all(tuple(steps) == STEPS for steps in published.SECONDS.values())
    assert published.SECONDS["YAGO"]["-25 %"].speed_up == pytest.approx(793.8, rel=1e-3)
    assert set(Runner(Settings(quick=True), Places()).specs(EXAMPLE)) == {
        Cell("Example-1", "update", column) for column in KINDS
    }
