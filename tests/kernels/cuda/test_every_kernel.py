"""No kernel is left out: the self test runs each of them in the simulator, and what each compiles to.

That each is there for some program, `tests.differential.test_every_kernel` holds.
"""

from __future__ import annotations

import pytest

from gpuengine.kernels.cuda.catalogue import KERNELS
from gpuengine.kernels.cuda.devices.device import Device
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.selftest import run_checks
from tests.kernels.cuda import kernel_table
from tests.kernels.cuda.ptx_device import PtxDevice
from tests.kernels.cuda.simulator import SimulatedDevice

#: The least size of inputs with which the self test launches every kernel.
SIZE = 70


@pytest.mark.slow
@pytest.mark.parametrize(
    "device",
    [EmulatedDevice(2), SimulatedDevice(threads=8, block=4), PtxDevice()],
    ids=lambda device: device.name,
)
def test_every_kernel_passes(device: Device) -> None:
    failed = [outcome for outcome in run_checks(device, size=SIZE) if not outcome.passed]
    assert failed == []
    assert set(KERNELS) <= set(device.statistics.items)


def test_the_table_of_kernels_is_current() -> None:
    assert kernel_table.TABLE.read_text() == kernel_table.render(), f"run {kernel_table.COMMAND}"
    readme = (kernel_table.TABLE.parents[1] / "README.md").read_text()
    assert f"each of the {len(KERNELS)} kernels" in " ".join(readme.split())
