"""The golden programs of ``tests/programs``, by the command line, with their rules on an emulated device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import gpuengine.evaluation.options
from gpuengine.cli import main
from gpuengine.evaluation.placement.accelerator import Accelerator
from gpuengine.evaluation.thresholds import Thresholds
from tests.differential.devices import BACK_AND_FORTH, EVERYWHERE, emulated
from tests.test_programs import NAMES, PROGRAMS, _arguments, _files, _text

BACKEND = emulated()
Check = Callable[[str, Thresholds], None]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Check:
    """Runs a program and compares all that it prints and writes."""

    def run(name: str, thresholds: Thresholds) -> None:
        folder, out = PROGRAMS / name, tmp_path / "out"
        expected, errors = folder / "expected", folder / "expected.err"
        monkeypatch.setattr(
            gpuengine.evaluation.options, "find_accelerator", lambda *_: Accelerator(BACKEND, thresholds)
        )
        monkeypatch.chdir(folder)
        code = main(_arguments(folder, out))
        printed = capfd.readouterr()
        assert printed.err == _text(errors)
        assert sorted(printed.out.splitlines()) == sorted(_text(folder / "expected.out").splitlines())
        assert _files(out) == _files(expected)
        assert (code == 0) == (expected.exists() or not errors.exists())

    return run


@pytest.mark.parametrize("name", NAMES)
def test_program_on_a_device(name: str, check: Check) -> None:
    before = BACKEND.device.statistics.launches
    check(name, EVERYWHERE)
    if name.startswith(("recursion", "negation", "aggregates", "points-to")):
        assert BACKEND.device.statistics.launches > before, "nothing ran on the device"


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("error")])
def test_program_that_moves_before_each_round(name: str, check: Check) -> None:
    check(name, BACK_AND_FORTH)
