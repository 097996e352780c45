"""The update benchmark: real runs on tiny facts, all results checked, what fails or is wrong is said."""

import copy
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.cli import main
from bench.harness.cells import ANEW, DUCKDB, UPDATE, Cell, Outcome, Settings, collect
from bench.harness.numbers import MoreThan
from bench.prepare import ROOT, Places
from bench.updates import facts, published, workloads
from bench.updates.facts import Pool
from bench.updates.run import Runner
from bench.updates.sheets import Report, add_workload, check
from bench.updates.workloads import FULL, LATENCIES, WORKLOADS, Workload

pytestmark = pytest.mark.filterwarnings("error")
DAG_R = next(workload for workload in WORKLOADS if workload.name == "DAG-R")
TINY = replace(DAG_R, size=40, quick=40, modes={"": None})


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What ``updates --quick`` prints and writes."""
    file = tmp_path_factory.mktemp("updates") / "all.json"
    command = [sys.executable, "-m", "bench", "updates", "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert file.exists(), done.stdout
    return done.stdout, json.loads(file.read_text())


def cell_of(written: dict[str, Any], workload: str, kind: str, mode: str = "") -> dict[str, Any]:
    (found,) = (
        cell
        for cell in written["cells"]
        if (cell["workload"], cell["kind"], cell["mode"]) == (workload, kind, mode)
    )
    return found


@pytest.mark.slow
def test_all_workloads_are_run_and_right(quick: tuple[str, dict[str, Any]]) -> None:
    printed, written = quick
    assert written["problems"] == []
    assert {cell["status"] for cell in written["cells"]} == {"ok"}
    for workload, table in zip(WORKLOADS, written["tables"], strict=True):
        assert table["title"].startswith(workload.name)
        assert workload.name in printed
        assert not any("Not checked" in note for note in table["notes"])


@pytest.mark.slow
def test_every_step_is_run_as_often_as_it_should_be(quick: tuple[str, dict[str, Any]]) -> None:
    for workload in WORKLOADS:
        kind = "latency" if workload.is_latency else UPDATE
        for mode in workload.modes:
            steps = cell_of(quick[1], workload.name, kind, mode)["steps"]
            assert {name: len(runs) for name, runs in steps.items()} == {
                s.name: s.runs for s in workload.steps
            }


@pytest.mark.slow
def test_contents_are_compared_and_not_only_sizes(quick: tuple[str, dict[str, Any]]) -> None:
    for workload in WORKLOADS:
        for mode in workload.modes:
            anew = cell_of(quick[1], workload.name, ANEW, mode)["steps"]
            assert all(runs[-1]["digests"].keys() == runs[-1]["sizes"].keys() for runs in anew.values())


@pytest.mark.slow
def test_columns_and_published_figures(quick: tuple[str, dict[str, Any]]) -> None:
    tables = {table["title"].partition(":")[0]: table["rows"] for table in quick[1]["tables"]}
    dag = {row["step"]: row for row in tables["DAG-R"]}
    small = dag["-1,000, median of 10"]
    assert {"closure update s", "closure anew s", "tables update s", "anew/ closure update"} <= small.keys()
    assert (small["paper: DRedc-Mod s"], small["paper: DRedc s"]) == (64.92, 3005.11)
    assert small["closure update: how"] == "maintained"
    assert small["anew/ closure update"] == pytest.approx(small["closure anew s"] / small["closure update s"])
    rdfs = {row["step"]: row for row in tables["LUBM-RDFS"]}
    assert rdfs["99 %: +1 %"]["paper: DYRE s"] == 0.007
    assert rdfs["50 %: +50 %"]["update: how"] == "anew"
    wide = {row["step"]: row for row in tables["wide"]}
    assert wide[f"10 facts, median of {LATENCIES}"]["facts changed"] == 10
    assert isinstance(wide["open again"]["durable s"], float)


@pytest.mark.slow
def test_processes_of_their_own_have_peaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "WORKLOADS", (TINY,))
    assert main(["updates", "--only", "DAG-R", "--json", str(tmp_path / "one.json")]) == 0
    written = json.loads((tmp_path / "one.json").read_text())
    assert all(cell["peak_rss"] > 1e6 for cell in written["cells"])
    assert "Peak MB: update" in written["tables"][0]["notes"][0]
    runs = cell_of(written, "DAG-R", ANEW)["steps"][FULL]
    assert len(runs) > 1, "what is short is run again"


# -- what is wrong -------------------------------------------------------------------------------------


def run(workload: Workload, **settings: Any) -> tuple[Runner, Report]:
    """One quick run of a workload."""
    runner = Runner(Settings(quick=True, **settings), Places())
    runner.run([workload])
    report = Report(300, quick=True)
    add_workload(report, workload, runner.outcomes)
    return runner, report


@pytest.fixture(scope="module")
def right() -> dict[Cell, Outcome]:
    runner, report = run(TINY)
    assert report.problems == []
    return runner.outcomes


def test_a_wrong_size_is_reported(right: dict[Cell, Outcome]) -> None:
    outcomes = copy.deepcopy(right)
    sizes = outcomes[Cell("DAG-R", UPDATE)].last("-100")["sizes"]
    size = sizes["path"]
    sizes["path"] += 1
    problems = check(TINY, outcomes)
    assert problems == [f"-100: path: engines disagree (anew, duckdb: {size:,}; update: {size + 1:,})"]


def test_wrong_contents_of_the_right_size_are_reported(right: dict[Cell, Outcome]) -> None:
    outcomes = copy.deepcopy(right)
    outcomes[Cell("DAG-R", UPDATE)].last("+25 %")["digests"]["edge"] = "0"
    assert check(TINY, outcomes) == [
        "+25 %: edge: update, anew have the same number of facts, but not the same ones"
    ]


def test_every_reinsertion_is_checked(right: dict[Cell, Outcome]) -> None:
    outcomes = copy.deepcopy(right)
    outcomes[Cell("DAG-R", UPDATE)].steps["+1,000"][3]["sizes"]["path"] -= 1
    assert len(check(TINY, outcomes)) == 1


def test_what_nobody_computed_anew_is_said(right: dict[Cell, Outcome]) -> None:
    outcomes = copy.deepcopy(right)
    for kind in (ANEW, DUCKDB):
        del outcomes[Cell("DAG-R", kind)].steps["-25 %"]
    report = Report(300)
    add_workload(report, TINY, outcomes)
    assert "Not checked, since nobody computed them anew: -25 %." in report.sheets[0].notes


def test_engines_that_disagree_make_the_command_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB is given a program that says something else."""
    other = ".decl edge(x:number, y:number)\n.decl path(x:number, y:number)\npath(x,y) :- edge(x,y).\n"
    monkeypatch.setattr(workloads, "WORKLOADS", (replace(TINY, peer_program=other),))
    assert main(["updates", "--quick"]) == 1
    assert "WRONG DAG-R, initial: path: engines disagree" in capsys.readouterr().out


def test_a_contender_that_fails_is_shown_and_so_is_what_it_did_before() -> None:
    runner, report = run(replace(TINY, rule="path(x,y) :- nowhere(x,y)."))
    outcome = runner.outcomes[Cell("DAG-R", UPDATE)]
    assert outcome.status == "failed"
    assert "ProgramErrors" in outcome.reason and "nowhere" in outcome.reason
    assert any(problem.startswith("DAG-R, update: failed: ProgramErrors") for problem in report.problems)
    shown = {row[0].text: row[3].text for row in report.sheets[0].rows}
    assert float(shown["-100"]) > 0
    assert shown["+ rule"] == shown["-25 %"] == "failed"


def test_a_program_that_duckdb_cannot_be_given_is_left_out_with_the_reason() -> None:
    negated = TINY.program + "alone(x) :- edge(x,_), !path(x,x).\n"
    runner, report = run(replace(TINY, program=negated, declared=".decl alone(x:number)\n" + TINY.declared,
                                 peer_program="", rule="path(x,y) :- edge(y,x)."))  # fmt: skip
    assert runner.outcomes[Cell("DAG-R", DUCKDB)].status == "skipped"
    assert report.problems == []
    assert {row[-4].text for row in report.sheets[0].rows} == {"n/a"}
    assert any(
        note.startswith("duckdb: skipped: outside the peers' subset") for note in report.sheets[0].notes
    )


def test_a_process_that_runs_too_long_is_ended_and_shown() -> None:
    runner, report = run(TINY, timeout=-29.9)
    assert {outcome.status for outcome in runner.outcomes.values()} == {"timeout"}
    assert "update: timeout" in report.sheets[0].notes
    assert all(row[3].text in ("–", "> 300") for row in report.sheets[0].rows)


def test_a_time_out_is_a_lower_bound() -> None:
    line = '{"cell": 0, "step": "a", "seconds": 100}'
    (ended,) = collect([("a", "b", "c")], [line, '{"cell": 0, "st'])
    ended.status = "timeout"
    left = ended.elapsed("b", min, 300)
    assert isinstance(left, MoreThan)
    assert (ended.elapsed("a", min, 300), left, ended.elapsed("c", min, 300)) == (100, 200, None)
    # In the second of two runs of a step nothing is known of the next one.
    (ended,) = collect([("a", "a", "b")], [line])
    ended.status = "timeout"
    assert (ended.next_step, ended.elapsed("b", min, 300)) == ("a", None)


def test_of_two_processes_the_faster_step_counts() -> None:
    lines = ['{"cell": 0, "step": "a", "seconds": 2}', '{"cell": 0, "step": "b", "seconds": 1}']
    one = collect([("a", "b")], lines)[0]
    other = collect([("a", "b")], [lines[0].replace("2", "1"), lines[1].replace("1", "3")])[0]
    best = one.with_again(other)
    assert (best.seconds("a"), best.seconds("b")) == ([1], [1])
    assert one.with_again(Outcome("memory")).status == "memory"


def test_an_unknown_workload_is_a_wrong_call() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["updates", "--only", "nothing"])
    assert ended.value.code == 2


# -- facts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(facts.GENERATORS))
def test_facts_are_distinct_and_the_same_every_time(name: str) -> None:
    made, again = (facts.GENERATORS[name](400) for _ in range(2))
    for relation, columns in made.items():
        rows = np.stack(columns, axis=1)
        assert len(np.unique(rows, axis=0)) == len(rows) > 0
        assert all(np.array_equal(a, b) for a, b in zip(columns, again[relation], strict=True))


def test_sizes_of_the_published_graphs() -> None:
    assert len(facts.dense(1000)["edge"][0]) == pytest.approx(10_000, rel=0.05)
    left, right = facts.rmat(1000)["edge"]
    assert len(left) == 10_000
    assert max(left.max(), right.max()) < 1000
    degrees = np.sort(np.bincount(left, minlength=1000))
    assert degrees[-100:].sum() > 3 * degrees[450:550].sum(), "a few nodes have most edges"


def test_a_pool_takes_from_all_relations_but_the_fixed_ones() -> None:
    pool = Pool({"a": (np.arange(60),), "b": (np.arange(40), np.arange(40)), "c": (np.arange(9),)}, ["c"])
    assert pool.total == 100
    gone = pool.missing("-25 %")
    assert (sum(map(len, gone.values())), sorted(gone)) == (25, ["a", "b"])
    left = pool.without(gone)
    assert facts.count(left) == 109 - 25
    assert len(left["c"][0]) == 9
    assert not set(left["a"][0]) & set(pool.facts(gone)["a"][0])
    assert pool.missing(FULL) == {}


def test_a_digest_is_of_the_rows_and_not_of_their_order() -> None:
    one, other = np.array([1, 2, 3]), np.array([4, 5, 6])
    assert facts.digest([one, other]) == facts.digest([one[::-1], other[::-1]])
    assert facts.digest([one, other]) != facts.digest([one, other[::-1]])
    assert facts.digest([one, other]) != facts.digest([other, one])


def test_published_figures_have_a_workload() -> None:
    assert {w.modular for w in WORKLOADS if w.modular} == published.MODULAR.keys() - {"Claros-LE"}
    assert published.DYNAMIC.keys() <= {w.dynamic for w in WORKLOADS}
    names = {step.name for w in WORKLOADS for step in w.steps}
    rows = [*published.MODULAR.values(), *published.DYNAMIC.values()]
    assert {step for row in rows for step in row} <= names
