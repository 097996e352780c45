"""What the compiler makes of the kernels does what their source says, however its threads interleave.

The PTX of every architecture is interpreted (see `ptx`): threads change at each access to memory, and an
access outside of the arrays that were passed is an error.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from gpuengine.kernels.cuda.atomics import atomic_add
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.assemble import ARCHITECTURES
from gpuengine.kernels.cuda.selftest import Check, positions, run_check
from gpuengine.kernels.cuda.spec import KERNELS, DeviceKernel, device_kernel
from tests.kernels.backends import REFERENCE, Backend, flags, make_rows
from tests.kernels.cuda import ptx
from tests.kernels.cuda.ptx_device import PtxDevice
from tests.kernels.pipelines import any_case, composition_case, last_probe_case
from tests.kernels.test_pipelines import outcome

on_every_architecture = pytest.mark.parametrize(
    "capability", ARCHITECTURES, ids=lambda capability: "sm_{}{}".format(*capability)
)
NEWEST = ARCHITECTURES[-1]


def on_ptx(device: PtxDevice) -> Backend:
    return Backend("cuda-ptx", CudaBackend(device), in_order=False, is_slow=True)


@on_every_architecture
def test_random_pipelines(capability: tuple[int, int]) -> None:
    backend = on_ptx(PtxDevice(capability, seed=capability[0]))
    for seed in range(capability[0] * 100, capability[0] * 100 + 2):
        for shape in (any_case, last_probe_case, composition_case):
            case = shape(seed)
            assert outcome(backend, case, 3, 4) == outcome(REFERENCE, case, 1, 4)


@pytest.mark.parametrize("bounds", [(0, 8), (0, 1 << 20)], ids=["bitmap", "hashed or wide"])
@pytest.mark.parametrize("arity", [1, 2, 3, 4])
def test_of_equal_rows_one_is_new(arity: int, bounds: tuple[int, int]) -> None:
    random = Random(arity)
    for seed in range(5):
        backend = on_ptx(PtxDevice(NEWEST, blocks=2, threads=8, seed=seed))
        rows = [tuple(random.choice((1, 5, bounds[1] - 1)) for _ in range(arity)) for _ in range(60)]
        # A row that does not pack into 64 bits takes four columns of twenty bits.
        keyset = backend.keyset(arity, [bounds] * arity, 128)
        new = keyset.insert(make_rows(backend, rows, arity), 0, len(rows))
        found = [row for row, is_new in zip(rows, flags(new), strict=True) if is_new]
        assert sorted(found) == sorted(set(rows))


@pytest.mark.slow
@pytest.mark.parametrize("check", positions.CHECKS, ids=lambda check: check.name)
def test_position_sets(check: Check) -> None:
    """As the newer of the compiler's code generators makes them; `test_every_kernel` has the older's."""
    assert run_check(check, PtxDevice(NEWEST), size=70).message == ""


@pytest.fixture
def made_up() -> DeviceKernel:
    """A kernel that counts without and with an atomic operation, and may reach beyond its array."""

    @device_kernel("u8*, i8", streamed=16)
    def made_up(i, counts, reach):
        counts[0] += np.uint64(1)
        atomic_add(counts, np.int64(1), np.uint64(1))
        counts[reach] = np.uint64(0)

    del KERNELS["made_up"]
    return made_up


def test_threads_interleave(made_up: DeviceKernel) -> None:
    device = PtxDevice()
    counts = device.full(3, 0, np.uint64)
    device.launch(made_up, 200, counts, 2)
    found = device.download(counts)
    assert found[1] == 200
    assert found[0] < 200


def test_an_access_outside_of_the_arrays_is_an_error(made_up: DeviceKernel) -> None:
    device = PtxDevice()
    with pytest.raises(IndexError, match="64 bits at 0x"):
        device.launch(made_up, 1, device.full(3, 0, np.uint64), 3)


def test_an_instruction_that_is_not_known_is_an_error() -> None:
    code = ".visible .entry x(\n.param .u64 x_param_0\n)\n{\nfrobnicate.b64 %rd1, %rd2;\nret;\n}"
    with pytest.raises(KeyError, match="frobnicate"):
        ptx.run(ptx.parse(code), [0], ptx.Memory([]), 1, 1, Random(0))


def test_words_are_taken_apart_shifted_and_put_together() -> None:
    memory = np.array([0x0123456789ABCDEF, 0, 0], np.uint64)
    code = """.visible .entry x(
        .param .u64 x_param_0
        )
        {
        ld.param.u64 %rd1, [x_param_0];
        ld.global.u64 %rd2, [%rd1];
        mov.b64 {%r1, %r2}, %rd2;
        mov.b64 {_, %r3}, %rd2;
        shf.l.wrap.b32 %r4, %r1, %r2, 8;
        mov.b64 %rd3, {%r4, %r3};
        st.global.u64 [%rd1+8], %rd3;
        ret;
        }"""
    address = memory.ctypes.data
    ptx.run(ptx.parse(code), [address], ptx.Memory([(address, memory.nbytes)]), 1, 1, Random(0))
    assert memory.tolist() == [0x0123456789ABCDEF, 0x0123456723456789, 0]
