"""A GPU with a stand-in for CuPy."""

from __future__ import annotations

import pytest

from gpuengine.kernels.cuda.devices.hardware import GpuDevice
from tests.kernels.cuda.stand_in import StandIn


@pytest.fixture
def calls() -> StandIn:
    return StandIn()


@pytest.fixture
def gpu(calls: StandIn) -> GpuDevice:
    return GpuDevice(0, None, calls)
