"""Which device an engine may use, by the name of a backend and by what the machine shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuengine.evaluation.placement import accelerator
from gpuengine.evaluation.placement.accelerator import find_accelerator, gpu_present
from gpuengine.evaluation.thresholds import Thresholds
from tests.evaluation.accelerator import Accelerator as Device


@pytest.fixture(autouse=True)
def untuned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUENGINE_CONFIG_DIR", str(tmp_path))


def test_a_driver_leaves_signs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(accelerator, "_EVIDENCE", (str(tmp_path / "nvidiactl"), str(tmp_path / "version")))
    assert not gpu_present()
    (tmp_path / "version").touch()
    assert gpu_present()


@pytest.mark.parametrize(
    ("backend", "present", "possible", "opened"),
    [
        ("cpu", False, False, False),
        ("cpu", True, False, False),
        ("auto", False, False, False),
        ("auto", True, True, False),
        ("cuda", False, True, True),
        ("cuda", True, True, True),
    ],
)
def test_by_name(
    monkeypatch: pytest.MonkeyPatch, backend: str, present: bool, possible: bool, opened: bool
) -> None:
    calls: list[tuple[int, int | None]] = []

    def open_cuda(number: int, memory: int | None) -> Any:
        calls.append((number, memory))
        return Device()

    monkeypatch.setattr(accelerator, "gpu_present", lambda: present)
    monkeypatch.setattr(accelerator, "_open_cuda", open_cuda)
    found = find_accelerator(backend, 1, 100, None)
    assert found.is_possible == possible and calls == [(1, 100)] * opened
    assert (found.backend is not None) == opened
    if possible:
        assert found.open() is found.open() is not None and calls == [(1, 100)]
    else:
        assert found.open() is None and not calls


def test_a_backend_of_ones_own() -> None:
    device, limits = Device(), Thresholds(auto_facts=3)
    found = find_accelerator(device, 0, None, limits)
    assert found.open() is device and found.thresholds == limits


def test_auto_without_a_driver_imports_nothing_of_cuda() -> None:
    program = (
        "import sys, gpuengine as ge\n"
        "from gpuengine.evaluation.placement import accelerator\n"
        "accelerator._EVIDENCE = ()\n"
        "kb = ge.Engine('.decl a(x: number)\\n.decl b(x: number)\\na(1).\\nb(x) :- a(x).')\n"
        "assert len(kb.materialise()['b']) == 1\n"
        "print([name for name in sys.modules if name.startswith(('cupy', 'gpuengine.kernels.cuda'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
