"""The scheme tables: they run as a process, sizes agree, and what is wrong or slow is said."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from bench.harness.cells import Cell, Outcome, Settings, collect
from bench.harness.numbers import MoreThan, ratio
from bench.harness.sheets import seconds, times
from bench.prepare import ROOT, Places
from bench.schemes import facts, published, tables
from bench.schemes.catalogue import BENCHMARKS, BROADER, COMPONENT, SCHEMES, TABLES, UPDATED
from bench.schemes.command import MAKERS
from bench.schemes.published import Three
from bench.schemes.run import Runner
from bench.schemes.tables import Tables, least
from tests.bench.test_scheme_facts import closure, pairs

MODES_SHOWN = ("semi-naive s", "modules s", "schemes s")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What ``table --quick`` prints and writes of all tables on schemes."""
    file = tmp_path_factory.mktemp("tables") / "all.json"
    command = [sys.executable, "-m", "bench", "table", *TABLES, "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads(file.read_text())


def test_all_tables_are_made_and_agree(quick: tuple[str, dict[str, Any]]) -> None:
    printed, written = quick
    assert written["problems"] == []
    titles = [table["title"] for table in written["tables"]]
    for name in ("5.10", "5.11", "5.12", "5.13", "5.14", "table 1", "Real graphs", "eqrel"):
        assert any(name in title for title in titles)
        assert name in printed
    assert {cell["status"] for cell in written["cells"]} == {"ok"}


def test_sizes_are_those_of_a_search_from_every_node(quick: tuple[str, dict[str, Any]]) -> None:
    """Modes that agree may share a mistake."""
    edges, links = facts.dag(BENCHMARKS[0].quick)["edge"], facts.categories(BROADER[0].quick)
    right = {"TC": len(closure(pairs(edges))), "broader 0.2M": len(closure(pairs(links)))}
    found = {
        (cell["workload"], size)
        for cell in quick[1]["cells"]
        if cell["workload"] in right and "initial" in cell["steps"]
        for run in cell["steps"]["initial"]
        for size in run["sizes"].values()
    }
    assert found == set(right.items())


def test_columns_are_named(quick: tuple[str, dict[str, Any]]) -> None:
    tables = {table["title"]: table["rows"] for table in quick[1]["tables"]}
    initial = tables["Table 5.12: initial materialisation"]
    assert {*MODES_SHOWN, "semi-naive/ schemes", "thesis: modules/ schemes"} <= initial[0].keys()
    assert all(isinstance(row[mode], float) for row in initial for mode in MODES_SHOWN)
    assert [row["benchmark"] for row in initial][:4] == ["TC", "TC+", "U", "TCU"]
    assert initial[0]["thesis: semi-naive/ schemes"] == pytest.approx(3869.66 / 22.639)
    assert {"update s", "anew s"} <= tables["Table 5.12: updates of a transitive relation"][0].keys()
    assert {"tables ms", "schemes ms", "answers"} <= tables["Table 5.14: queries"][0].keys()
    assert tables["Table 5.10: additions to a transitive relation"][0]["step"] == "initial"


def test_a_wrong_size_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The union of U's relations, if 14 facts were right."""
    wrong = replace(BENCHMARKS[2], size=BENCHMARKS[2].quick, expected={"U": 14}, modes=(SCHEMES,))
    monkeypatch.setattr(tables, "BENCHMARKS", (wrong,))
    assert main(["table", "5.11"]) == 1
    assert "U, initial: U: schemes says 4,177; 14 is right" in capsys.readouterr().out


def made(outcomes: dict[Cell, Outcome]) -> Tables:
    runner = Runner(Settings(timeout=300), Places(Path("none"), Path("none")))
    runner.outcomes = outcomes
    return Tables(runner)


def initial(*runs: dict[str, Any], status: str = "ok") -> Outcome:
    return Outcome(status, ("initial",), {"initial": list(runs)} if runs else {})


def test_modes_that_disagree_and_cells_that_fail_are_problems() -> None:
    sheet = made({})
    one, other, again = ({"seconds": 1.0, "sizes": {"path": n}} for n in (3, 4, 5))
    found = {"modules": initial(one), "schemes": initial(other), "semi-naive": initial(status="timeout")}
    sheet.check("TC", "initial", found, {})
    sheet.check("TC", "initial", {"modules": Outcome("failed", reason="out of luck")}, {})
    sheet.check("TCU", "initial", {"modules": initial(one, again)}, {})
    assert sheet.problems == [
        "TC, initial: path: engines disagree (modules: 3; schemes: 4)",
        "TC, modules: out of luck",
        "TCU, modules, initial: two runs give different sizes",
    ]


def test_a_time_out_is_a_lower_bound() -> None:
    ended, fast = initial(status="timeout"), initial({"seconds": 0.5}, {"seconds": 0.7})
    assert seconds(ended, "initial", 300).text == "> 300"
    assert times(ratio(least(ended, "initial", 300), least(fast, "initial", 300))).text == "> 600x"
    assert times(ratio(least(fast, "initial", 300), least(ended, "initial", 300))).text == "–"
    # In the second of three steps: what was left of the time, and nothing is known of the third.
    ended = Outcome("timeout", ("one", "two", "three"), {"one": [{"seconds": 100.0}]})
    assert [seconds(ended, step, 300).text for step in ended.order] == ["100", "> 200", "–"]


def test_a_process_that_runs_too_long_is_ended() -> None:
    runner = Runner(Settings(timeout=-29.9), Places())
    cell = Cell(COMPONENT.name, "materialise", SCHEMES)
    runner.run({cell: runner.benchmark_spec("materialise", COMPONENT, SCHEMES)})
    assert runner.outcomes[cell].status == "timeout"


def test_of_several_runs_the_fastest_counts() -> None:
    lines = ['{"cell": 0, "step": "a", "seconds": 2, "sizes": {"p": 1}}',
             '{"cell": 0, "step": "a", "seconds": 1, "sizes": {"p": 1}}',
             '{"cell": 1, "error": "out of luck"}', '{"cell": 1, "st']  # fmt: skip
    one, other = collect([("a",), ("a",)], lines)
    assert (one.status, one.best("a")["seconds"], one.sizes("a")) == ("ok", 1, {"p": 1})
    assert (other.status, other.reason, other.best("a")) == ("failed", "out of luck", {})
    (disagreeing,) = collect([("a",)], [lines[0], lines[1].replace('"p": 1', '"p": 2')])
    assert disagreeing.sizes("a") is None


def test_an_unknown_table_is_a_wrong_call() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["table", "5.99"])
    assert ended.value.code == 2


def test_published_numbers_are_complete() -> None:
    rows = published.SHAPES.keys()
    assert len(rows) == 11
    by_row = (
        published.INITIAL, published.SMALL_DELETION, published.LARGE_DELETION, published.SMALL_ADDITION,
        published.MEGABYTES,
    )  # fmt: skip
    assert all(table.keys() == rows for table in by_row)
    assert all(isinstance(three, Three) and three.schemes for table in by_row for three in table.values())
    assert {b.thesis for b in BENCHMARKS} | {row for _, _, row in UPDATED} <= rows
    assert {b.thesis for b in BROADER} == published.BROADER_SECONDS.keys()
    assert {b.modular for b in BENCHMARKS if b.modular} <= published.MODULAR.keys()
    assert len(published.QUERIES) == 26
    assert {q.row for b in BENCHMARKS for q in b.queries if q.row} <= published.QUERIES.keys()
    assert MAKERS.keys() == set(TABLES)


def test_published_ratios() -> None:
    assert published.INITIAL["TCU"].standard_ratio == pytest.approx(275.0, rel=1e-3)
    assert isinstance(published.INITIAL["DB75%"].modules_ratio, MoreThan)
    assert published.INITIAL["DBpedia"].modules_ratio is None
    assert published.QUERIES["U U"].slowdown == pytest.approx(78.28, rel=1e-3)
    assert published.QUERIES["TC Q_5"].slowdown is None
