"""`gpuengine run` with a device: the flags, and what is told of it. The device is the tests' own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuengine.cli import main
from gpuengine.evaluation.placement import accelerator
from gpuengine.kernels.contract import DeviceUnavailable
from tests.cli.processes import reach_project
from tests.evaluation.accelerator import Accelerator


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[int, int | None]]:
    """A machine with a device; the arguments of each time it is opened."""
    calls: list[tuple[int, int | None]] = []

    def open_cuda(number: int, memory: int | None) -> Any:
        calls.append((number, memory))
        return Accelerator()

    monkeypatch.setattr(accelerator, "_open_cuda", open_cuda)
    monkeypatch.setattr(accelerator, "gpu_present", lambda: True)
    monkeypatch.setenv("GPUENGINE_CONFIG_DIR", str(tmp_path / "config"))
    reach_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return calls


def tune(folder: Path, **numbers: float) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "thresholds.json").write_text(json.dumps({Accelerator.device_name: numbers}))


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(("run", "reach.dl", "-F", "facts", "-D", "out", "--json", *arguments)) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_json_says_where_it_ran(
    opened: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tune(tmp_path, small_delta=0)
    found = report(capsys, "--backend", "cuda")
    assert found["backend"] == "fake" and found["relations"] == {"path": 3}
    assert found["strata"] == [{"number": 0, "relations": ["path"], "rounds": {"fake": 3}, "moves": 0}]
    device = found["device"]
    assert device["name"] == "Fake 9000" and device["rounds"] == found["rounds"] == 3
    assert device["launches"] > 0 and device["uploaded_bytes"] > 0
    assert device["syncs_per_round"] == pytest.approx(device["syncs"] / 3)
    assert device["peak_bytes"] > 0 and device["downloaded_bytes"] > 0
    (planning,) = device["host_work"]
    assert planning.pop("seconds") > 0
    assert planning == {"operation": "statistics", "of": "path", "rows": 2, "times": 1}
    assert opened == [(0, None)]


def test_which_device_and_how_much_of_it(opened: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    report(capsys, "--backend", "cuda", "--device", "3", "--device-memory", "2GB")
    assert opened == [(3, 2 << 30)]
    assert main(("query", "reach.dl", "path(1, x)", "-F", "facts", "--backend", "cuda", "--device", "1")) == 0
    assert opened[1:] == [(1, None)]
    assert sorted(capsys.readouterr().out.split()) == ["2", "3", "x"]


@pytest.mark.parametrize("flags", [(), ("--backend", "auto"), ("--backend", "cpu")])
def test_small_data_stays_on_the_host(
    opened: list[Any], capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    found = report(capsys, *flags)
    assert found["backend"] == "cpu" and found["device"] is None and not opened
    assert found["strata"] == [{"number": 0, "relations": ["path"], "rounds": {"cpu": 3}, "moves": 0}]


def test_auto_goes_by_what_was_tuned(
    opened: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tune(tmp_path, auto_facts=2, small_delta=0)
    assert report(capsys)["strata"][0]["rounds"] == {"fake": 3}


def test_statistics_show_strata_and_device(
    opened: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tune(tmp_path, small_delta=0)
    assert main(("run", "reach.dl", "-F", "facts", "-D", "out", "--stats", "--backend", "cuda")) == 0
    shown = capsys.readouterr().err
    for words in (
        "3 on fake",
        "moves",
        "Fake 9000",
        "launches",
        "host syncs",
        "a round",
        "peak device memory",
        "on the host",
        "statistics",
    ):
        assert words in shown
    assert main(("run", "reach.dl", "-F", "facts", "-D", "out", "--stats", "--backend", "cpu")) == 0
    assert "launches" not in capsys.readouterr().err


def test_why_a_gpu_was_not_used(
    opened: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(number: int, memory: int | None) -> Any:
        raise DeviceUnavailable("the driver is too old")

    monkeypatch.setattr(accelerator, "_open_cuda", unavailable)
    tune(tmp_path, auto_facts=0)
    found = report(capsys)
    assert found["device_problem"] == "the driver is too old" and found["relations"] == {"path": 3}
    assert main(("run", "reach.dl", "-F", "facts", "-D", "out", "--stats")) == 0
    assert "the driver is too old" in capsys.readouterr().err


def test_a_bad_file_of_thresholds(
    opened: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tune(tmp_path, auto_facts=-1)
    assert main(("run", "reach.dl", "-F", "facts", "-D", "out")) == 1
    message = capsys.readouterr().err
    assert str(tmp_path / "config" / "thresholds.json") in message and "auto_facts is -1" in message
    assert not (tmp_path / "out").exists()
