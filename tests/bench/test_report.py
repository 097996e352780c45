"""Reports: calibration, targets, JSON, HTML, exit code."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rich.console import Console

from bench import compare, drawing, page, published, svg, table
from bench.cli import main
from bench.prepare import Places
from bench.results import Outcome, Report, Sample, WorkloadResult, geometric_mean
from bench.scale import exponent
from tests.bench.conftest import PROGRAM
from tests.bench.stand_in import StandIn

MACHINE = {
    "time": "now", "system": "test", "processor": "abacus", "cores": 2, "memory_bytes": 8_000_000_000,
    "load_average": 0.0, "python": "3", "packages": {},
}  # fmt: skip


def outcome(wall: float, evaluate: float, rounds: int | None = None) -> Outcome:
    sample = Sample(wall, wall, 100_000_000, {"evaluate": evaluate}, rounds)
    return Outcome(sizes={"path": 7}, warm=[sample])


@pytest.fixture
def report() -> Report:
    """A machine half as fast as the published one; ours takes 2 s on the chain, 0.5 s of it evaluation."""
    chain = WorkloadResult("closure-chain", ["nine"], {"path": 7})
    chain.outcomes = {"gpuengine": outcome(2.0, 0.5), "duckdb-cte": outcome(0.99, 0.9)}
    rounds = WorkloadResult("reach-chain-100k", ["generated"], {})
    rounds.outcomes = {"gpuengine": outcome(5.0, 2.0, rounds=100_000)}
    return Report(MACHINE, {"threads": 2, "repeat": 1}, 0.188, {}, [chain, rounds])


def test_published_figures_cover_the_nine_programs() -> None:
    assert len(published.NINE) == 9
    for name in published.NINE:
        assert (
            {"souffle-compiled-2", "datafrog"} <= published.SECONDS[name].keys() <= published.COLUMNS.keys()
        )


def test_scales_and_ratios(report: Report) -> None:
    unit, duckdb = compare.scales(report)
    assert unit.factor == pytest.approx(2.0)
    assert duckdb.factor == pytest.approx(0.99 / 0.33)
    (row,) = compare.comparisons(report, unit)
    assert row.whole == pytest.approx(1.57 * 2 / 2.0)
    assert row.evaluation == pytest.approx(1.57 * 2 / 0.5)
    assert row.datafrog == pytest.approx(0.83 * 2 / 0.5)
    assert row.basis == "scaled"


def test_a_measured_souffle_replaces_the_scaled_one(report: Report) -> None:
    report.workloads[0].outcomes["souffle-compiled"] = outcome(3.0, 3.0)
    (row,) = compare.comparisons(report, compare.scales(report)[0])
    assert (row.basis, row.whole) == ("measured", pytest.approx(1.5))


def test_targets_hold_or_are_missed(report: Report) -> None:
    found = {t.text: t for t in compare.targets(report)}
    assert found["reach-chain-100k: tens of microseconds a round"].value == "20.0 µs"
    mean = next(
        t for text, t in found.items() if text.startswith("whole process at least 2x") and "unit" in text
    )
    assert (mean.value, mean.holds) == ("1.57x", False)


def test_page_is_self_contained_and_its_plots_are_well_formed(report: Report) -> None:
    html = page.run_page(report)
    assert "closure-chain" in html and "scaled, not measured here" in html
    assert "<script" not in html and "src=" not in html and "href=" not in html
    plots = [part.split("</svg>")[0] + "</svg>" for part in ("<svg" + p for p in html.split("<svg")[1:])]
    assert len(plots) >= 3
    for plot in plots:
        ElementTree.fromstring(plot)


def test_a_warm_run_that_compiled_is_marked(report: Report) -> None:
    ours = report.workloads[0].outcomes["gpuengine"]
    assert table.verdict(report.workloads[0], "gpuengine", ours) == "ok"
    ours.warm.append(Sample(9.0, 9.0, 1, {}, None, compiled_kernels=3))
    assert "compiled kernels" in table.verdict(report.workloads[0], "gpuengine", ours)


def test_lines_show_every_point() -> None:
    plot = svg.lines({"a": [(10, 1.0), (100, 9.0)], "b": [(10, 2.0)]}, {}, "out", "s", reference=True)
    root = ElementTree.fromstring(plot)
    assert sum(1 for e in root.iter() if e.tag == "circle") == 3


def test_exponent_and_mean() -> None:
    assert exponent([(1, 3.0), (2, 12.0), (4, 48.0)]) == pytest.approx(2.0)
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert geometric_mean([]) is None


def test_a_disagreement_is_loud_on_the_terminal(report: Report) -> None:
    report.workloads[0].problems = ["path: gpuengine says 8; 7 is right"]
    console = Console(record=True, width=150)
    table.print_report(report, console)
    text = console.export_text()
    assert "SIZES DISAGREE closure-chain: path: gpuengine says 8; 7 is right" in text
    assert report.failed


@pytest.fixture
def shared(tmp_path: Path) -> Places:
    """A stand-in for the shared workloads with a chain of three edges in place of the chain's facts."""
    import gzip

    folder = tmp_path / "workloads" / "closure-chain"
    folder.mkdir(parents=True)
    (folder / "closure-chain.dl").write_text(PROGRAM)
    with gzip.open(folder / "edge.facts.gz", "wt") as file:
        file.write("1\t2\n2\t3\n3\t4\n")
    return Places(tmp_path / "workloads", tmp_path / "graphs", tmp_path / "data")


@pytest.mark.parametrize(("extra", "code"), [(1_999_000 - 6, 0), (0, 1)])
def test_a_run_writes_its_reports_and_its_exit_code_tells(
    shared: Places,
    tmp_path: Path,
    extra: int,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.cli.measure_unit", lambda: 0.1)
    arguments = ["run", "closure-chain", "--peers", "none", "--repeat", "1", "--out", str(tmp_path / "out")]
    assert main(arguments, ours=StandIn(extra=extra), places=shared) == code
    (written,) = (tmp_path / "out").glob("run-*.json")
    data = json.loads(written.read_text())
    assert data["workloads"][0]["outcomes"]["gpuengine"]["sizes"] == {"path": 6 + extra}
    assert list((tmp_path / "out").glob("run-*.html"))
    assert ("SIZES DISAGREE" in capsys.readouterr().out) == (code == 1)


def test_a_wrong_name_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "closure-chian"]) == 2
    assert "no workload or group named 'closure-chian'" in capsys.readouterr().err


def test_drawing(report: Report) -> None:
    drawn = drawing.draw(report)
    root = ElementTree.fromstring(drawn)
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"closure-chain", "gpuengine", "duckdb-cte", "0.99"} <= set(texts)
    assert "processor seconds, least of 1; abacus" in drawn
    with pytest.raises(ValueError, match="nothing was measured"):
        drawing.draw(Report(MACHINE, {"threads": 2, "repeat": 1}, 0.188, {}, []))
