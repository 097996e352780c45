"""A GPU that can't be used says why, and what to do."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gpuengine.kernels.contract import DeviceUnavailable
from gpuengine.kernels.cuda import devices
from gpuengine.kernels.cuda.devices import hardware
from gpuengine.kernels.cuda.devices.hardware import open_gpu
from tests.kernels.cuda.stand_in import Properties, StandIn


def opening(calls: Any, monkeypatch: pytest.MonkeyPatch, index: int = 0) -> str:
    """Why a device can't be opened."""
    monkeypatch.setattr(hardware, "_cupy_calls", lambda: calls)
    with pytest.raises(DeviceUnavailable) as caught:
        open_gpu(index)
    return str(caught.value)


@pytest.mark.parametrize(
    ("set_up", "index", "reason"),
    [
        (
            {"driver": 0},
            0,
            "no NVIDIA driver was found: install one, and check that nvidia-smi lists the GPU",
        ),
        (
            {"driver": 12040},
            0,
            "the NVIDIA driver supports CUDA 12.4, but the installed CuPy needs CUDA 13: update the driver "
            "or pip install 'gpuengine[gpu12]' instead of 'gpuengine[gpu]'",
        ),
        (
            {"driver": 11080},
            0,
            "the NVIDIA driver supports CUDA 11.8, but the installed CuPy needs CUDA 13: update the driver",
        ),
        (
            {"properties": []},
            0,
            "no GPU can be used: cudaErrorNoDevice: no CUDA-capable device is detected "
            "(CUDA_VISIBLE_DEVICES is '')",
        ),
        ({}, 1, "there is no GPU 1: this machine has only GPU 0 (CUDA_VISIBLE_DEVICES is '')"),
        (
            {"properties": [Properties()] * 3},
            -1,
            "there is no GPU -1: this machine has GPUs 0 to 2 (CUDA_VISIBLE_DEVICES is '')",
        ),
        (
            {"properties": [Properties("Tesla V100", (7, 0))]},
            0,
            "GPU 0 (Tesla V100) has compute capability 7.0; kernels need 7.5 or later",
        ),
    ],
)
def test_a_device_that_cannot_be_used_says_why(
    set_up: dict[str, Any], index: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert opening(StandIn(**set_up), monkeypatch, index) == reason


def test_a_newer_minor_version_of_cuda_runs_on_an_older_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_cupy_calls", lambda: StandIn(driver=13000, runtime=13020))
    assert open_gpu(0, 1000).memory() == (0, 1000)


def test_a_device_that_fails_when_opened_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy(StandIn):
        def new_stream(self, index: int) -> Any:
            raise self.ERRORS[0]("cudaErrorDevicesUnavailable: devices are busy")

    assert (
        opening(Busy(), monkeypatch) == "GPU 0 can't be used: cudaErrorDevicesUnavailable: devices are busy"
    )


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("cupy", "cupy-cuda13x is not installed: pip install 'gpuengine[gpu]', or 'gpuengine[gpu12]'"),
        ("numba_cuda", "numba-cuda[cu13] is not installed: pip install 'gpuengine[gpu]', or"),
    ],
)
def test_a_missing_package_is_named(missing: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "find_spec", lambda name: None if name == missing else SimpleNamespace())
    with pytest.raises(DeviceUnavailable) as caught:
        open_gpu()
    assert str(caught.value).startswith(reason)


def test_a_package_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(devices, "cupy_calls", raising=False)
    monkeypatch.setitem(sys.modules, "gpuengine.kernels.cuda.devices.cupy_calls", None)
    with pytest.raises(DeviceUnavailable, match="CuPy is installed but does not load"):
        open_gpu()


def test_the_real_libraries_are_asked_first() -> None:
    """On any machine: there is no driver, no device, or no device with this number."""
    with pytest.raises(DeviceUnavailable, match=r"driver|GPU"):
        open_gpu(10**6)
