"""The Spark benchmark: a real run on tiny facts, and what is said of wrong, slow and missing results."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from bench.harness.cells import Cell, Outcome, Settings
from bench.prepare import ROOT, Places
from bench.spark import facts, workloads
from bench.spark.run import Choice, Runner, steps_of
from bench.spark.sheets import Report, add_workload, check, targets
from bench.spark.workloads import DECOMPOSED, DRIVER, LOCAL, PLAIN, WORKLOADS, Workload

BY_NAME = {workload.name: workload for workload in WORKLOADS}
RANDOM = BY_NAME["closure-random"]


def ran(seconds: float, size: int = 10, digest: int = 7, **more: Any) -> Outcome:
    step = {"seconds": seconds, "sizes": {"path": size}, "shuffle_bytes": 10, "jobs": 2, **more}
    return Outcome("ok", ("start", "run"), {"start": [step | {"digest": digest}], "run": [step]})


def closure(**outcomes: Outcome) -> dict[Cell, Outcome]:
    kinds = {"decomposed": DECOMPOSED, "plain": PLAIN, "driver": DRIVER}
    return {Cell(RANDOM.name, kinds[name], LOCAL): outcome for name, outcome in outcomes.items()}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    folder = tmp_path_factory.mktemp("spark")
    return Places(folder, folder, folder / "data")


@pytest.fixture(scope="module")
def measured(places: Places) -> tuple[Runner, list[Workload]]:
    """All kinds of cells on a few facts, in one session."""
    runner = Runner(Settings(quick=True, timeout=120), places, Choice(masters=("local[1]",)))
    chosen = [
        replace(BY_NAME["closure-random"], quick=8, contenders=(DECOMPOSED, PLAIN)),
        replace(BY_NAME["same-generation"], quick=8, contenders=(PLAIN,)),
        replace(BY_NAME["components"], quick=32),
        *(replace(BY_NAME[name], quick=40) for name in ("ingest", "encode", "overhead", "insert-closure")),
    ]
    runner.run(chosen)
    return runner, chosen


@pytest.mark.slow
def test_all_kinds_of_cells_end_well_and_agree(measured: tuple[Runner, list[Workload]]) -> None:
    runner, chosen = measured
    report = Report(120, quick=True)
    for workload in chosen:
        add_workload(report, workload, runner.of(workload))
    assert report.problems == []
    assert {outcome.status for outcome in runner.outcomes.values()} == {"ok"}
    assert [sheet.title.partition(":")[0] for sheet in report.sheets] == [w.name for w in chosen]
    assert report.targets == []
    json.dumps([sheet.to_json() for sheet in report.sheets])


@pytest.mark.slow
def test_rounds_shuffles_and_methods_are_counted(measured: tuple[Runner, list[Workload]]) -> None:
    runner, _ = measured
    run = runner.outcomes[Cell("closure-random", DECOMPOSED, "local[1]")].last("run")
    assert (run["method"], run["rounds"], run["round_bytes"]) == (DECOMPOSED, 0, 0)
    assert run["shuffle_bytes"] > 0
    assert run["tasks"] >= 1
    assert run["jobs"] > 0
    loop = runner.outcomes[Cell("closure-random", PLAIN, "local[1]")].last("run")
    assert loop["rounds"] > 1
    assert loop["shuffle_bytes"] > run["shuffle_bytes"]


def test_the_plain_loops_are_the_peers_of_the_programs() -> None:
    """Each fixpoint has a peer, and nothing that is measured has a step that no cell prints."""
    for workload in WORKLOADS:
        assert workload.facts in facts.GENERATORS
        assert workload.quick <= workload.size
        assert steps_of(workload)
        if workload.kind == workloads.FIXPOINT:
            assert {PLAIN, workloads.LABELS} & set(workload.contenders)


def test_facts_are_written_as_directories_of_the_declared_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for name in facts.GENERATORS:
        facts.write(facts.GENERATORS[name](40), tmp_path / name)
        for folder in (tmp_path / name).iterdir():
            assert len(list(folder.iterdir())) == facts.FILES
            table = pq.read_table(folder)
            assert table.column_names == (["s", "p", "o"] if name == "triples" else ["a", "b"])
            assert table.num_rows > 0


def test_components_are_of_sixteen_nodes() -> None:
    edges = facts.blocks(64)["edge"]
    assert edges.num_rows == 60
    assert {a // 16 for a in edges["a"].to_pylist()} == {0, 1, 2, 3}
    assert all(a // 16 == b // 16 and a != b for a, b in zip(*edges.to_pydict().values(), strict=True))


def test_contenders_that_disagree_are_wrong() -> None:
    problems = check(RANDOM, closure(decomposed=ran(1, 10), plain=ran(1, 11)))
    assert any("path: engines disagree" in problem for problem in problems)
    (problem,) = check(RANDOM, closure(decomposed=ran(1, digest=1), plain=ran(1, digest=2)))
    assert "not the same ones" in problem
    assert check(RANDOM, closure(decomposed=ran(1), plain=ran(2), driver=ran(3))) == []


def test_a_failure_is_a_problem_and_a_limit_is_a_bound() -> None:
    late = Outcome("timeout", ("start", "run"), {"start": [{"seconds": 10.0}]})
    report = Report(60)
    failed = Outcome("failed", reason="SparkError: no")
    add_workload(report, RANDOM, closure(decomposed=ran(2, moved=0), plain=late, driver=failed))
    (problem,) = report.problems
    assert problem == "closure-random, driver on local[2]: failed: SparkError: no"
    rows = {row["contender"]: row for row in report.sheets[0].to_json()["rows"]}
    assert rows[DECOMPOSED]["loop/ this"] == "> 25.0"
    assert rows[PLAIN]["s"] == "> 50.0"
    assert "plain loop on local[2]: timeout" in report.sheets[0].notes
    assert [(row[1].text, row[2].text) for row in targets(report).rows] == [
        ("> 25x", "holds"),
        ("0", "holds"),
    ]


def test_targets_that_are_missed_are_said() -> None:
    report = Report(60)
    add_workload(report, RANDOM, closure(decomposed=ran(2, moved=5), plain=ran(10)))
    assert [row[2].text for row in targets(report).rows] == ["missed", "missed"]


def test_masters_and_sizes_can_be_chosen(places: Places) -> None:
    small = replace(RANDOM, size=100, quick=8)
    runner = Runner(Settings(), places, Choice(scale=0.5, masters=("local[1]",)))
    assert runner.size(small) == 50
    specs = runner.specs(small)
    assert {cell.mode for cell in specs} == {"local[1]"}
    assert {cell.kind for cell in specs} == {*RANDOM.contenders, *RANDOM.once}
    assert all(Path(spec["facts"]).name.startswith("sparse-50-") for spec in specs.values())


def test_wrong_calls(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "--scale", "0"]) == 2
    assert "--scale 0" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["spark", "--only", "nothing"])
    assert ended.value.code == 2


def test_the_harness_imports_no_spark() -> None:
    code = "import sys; import bench.cli; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_what_is_aimed_at_besides() -> None:
    """An exchange against the loop, by the clock and by processors; strings; an insertion against anew."""

    def steps(**spent: float) -> dict[str, list[dict[str, Any]]]:
        return {
            name.replace("_", " "): [{"seconds": s, "sizes": {"path": 3}, "processor": 2 * s}]
            for name, s in spent.items()
        }

    report = Report(60)
    andersen = {
        Cell("andersen", kind, LOCAL): ran(seconds, processor=seconds * seconds)
        for kind, seconds in ((workloads.EXCHANGED, 2.0), (PLAIN, 5.0))
    }
    add_workload(report, BY_NAME["andersen"], andersen)
    inserted = steps(save=3, insert=1, anew=6)
    add_workload(report, BY_NAME["insert-closure"], {Cell("", "", LOCAL): Outcome("ok", (), inserted)})
    encoded = steps(Engine_load=1, encode=4, toArrow=1, ingest=1) | {"Engine.load": steps(a=2)["a"]}
    add_workload(report, BY_NAME["encode"], {Cell("", "", LOCAL): Outcome("ok", (), encoded)})
    rows = {row["contender"]: row for row in report.sheets[0].to_json()["rows"]}
    assert rows[workloads.EXCHANGED]["processor: loop/this"] == 6.25
    assert [(row[1].text, row[2].text) for row in targets(report).rows] == [
        ("2.5x", "missed"),
        ("0.167x", "holds"),
        ("2x", "holds"),
    ]


def test_what_processes_compute_is_counted_with_those_that_they_start() -> None:
    def spin(seconds: float) -> str:
        return f"import time; e = time.process_time() + {seconds}\nwhile time.process_time() < e: pass"

    from bench.spark.session import processor_seconds

    before = processor_seconds()
    assert before is not None
    subprocess.run([sys.executable, "-c", spin(0.5)], check=True)
    after = processor_seconds()
    assert after is not None and after - before >= 0.45
