"""The whole backend on `GpuDevice` with a stand-in for CuPy: what is left to a real GPU is CuPy itself.

Every launch checks its words against the kernel's parameters, every array is one that only CuPy's functions
read, and nothing is done before the stream is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices import hardware
from gpuengine.kernels.cuda.devices.assemble import symbol
from gpuengine.kernels.cuda.devices.hardware import GpuDevice
from gpuengine.kernels.cuda.primitives import CudaPrimitives
from gpuengine.kernels.cuda.selftest import Check, rounds, run_check
from gpuengine.kernels.cuda.spec import DeviceKernel
from gpuengine.kernels.primitives import Primitives
from tests.kernels.backends import REFERENCE, Backend, Row, drain, read_rows
from tests.kernels.cuda.stand_in import StandIn
from tests.kernels.join_cases import OPERATIONS as JOINS
from tests.kernels.pipelines import Built, Case, any_case, composition_case, last_probe_case
from tests.kernels.position_cases import OPERATIONS as POSITIONS
from tests.kernels.primitive_cases import OPERATIONS, assert_same, run
from tests.kernels.primitive_cases import REFERENCE as REFERENCE_PRIMITIVES
from tests.kernels.test_pipelines import outcome


@pytest.fixture(scope="module", autouse=True)
def _unassembled_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Files that name their kernel and hold no code: other tests assemble kernels, these run them."""
    folder = tmp_path_factory.mktemp("kernels")

    def module_file(kernel: DeviceKernel, capability: tuple[int, int]) -> Path:
        path = folder / f"{kernel.name}.cubin"
        path.write_bytes(b"\x7fELF" + symbol(kernel).encode())
        return path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hardware, "module_file", module_file)
        yield


def outcome_on(device: GpuDevice, case: Case, room: int, cut: int) -> tuple[list[Row], list[Row]]:
    """What comes out, and what the head holds afterwards; the driver's rows run in two spans."""
    backend = Backend("cuda", CudaBackend(device), in_order=False)
    built = Built(case, backend)
    count = built.rows[case.driver].count
    cut = min(cut, count)
    arity = len(case.sink)
    program, out = backend.program(built.pipeline), backend.output(arity, room)
    found = drain(program, [(0, cut), (cut, count)], out, arity, lambda rows: built.take(rows, room))
    built.take(found, 0)
    assert device.download(built.keyset.contains(built.head, 0, built.head.count)).all()
    return sorted(found), sorted(read_rows(built.head, arity))


@pytest.mark.parametrize("shape", [any_case, last_probe_case, composition_case])
@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**40),
    room=st.sampled_from([1, 3, 10_000]),
    cut=st.integers(0, 9),
    chunk=st.sampled_from([1, 7, 1 << 24]),
)
def test_random_pipelines(shape: Callable[[int], Case], seed: int, room: int, cut: int, chunk: int) -> None:
    device = GpuDevice(0, None, StandIn())
    device.chunk_items = chunk
    case = shape(seed)
    assert outcome_on(device, case, room, cut) == outcome(REFERENCE, case, 1, cut)


@pytest.mark.parametrize("check", rounds.CHECKS, ids=lambda check: check.name)
def test_rounds_that_run_ahead(check: Check) -> None:
    """Many are begun before the stream is waited for; nothing of them is done before."""
    assert run_check(check, GpuDevice(0, None, StandIn()), size=2000).message == ""


#: What a device has of the primitives.
PRIMITIVES = {
    name: made for name, made in (OPERATIONS | JOINS | POSITIONS).items() if hasattr(Primitives, name)
}


@pytest.mark.parametrize("operation", PRIMITIVES)
@settings(max_examples=20)
@given(data=st.data())
def test_primitives(operation: str, data: st.DataObject) -> None:
    args = data.draw(PRIMITIVES[operation])
    primitives = CudaPrimitives(GpuDevice(0, None, StandIn()))
    assert_same(run(primitives, operation, args), run(REFERENCE_PRIMITIVES, operation, args))


PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl cousin(x: number, y: number)
.decl far(x: number, y: number, z: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
cousin(x, y) :- edge(p, x), edge(p, y), x != y.
cousin(x, y) :- edge(a, x), cousin(a, b), edge(b, y).
far(x, y, z) :- path(x, y), path(y, z), !edge(x, y), x < z.
"""


@pytest.mark.parametrize("memory", [None, 1 << 20])
def test_a_whole_program(memory: int | None) -> None:
    """Threads of the engine bind themselves to the device; without that, the stand-in refuses."""
    random = Random(1)
    edges = [(random.randrange(40), random.randrange(40)) for _ in range(70)]
    backend = CudaBackend(GpuDevice(0, memory, StandIn()))
    on_gpu = ge.Engine(PROGRAM, backend=backend, thresholds=Thresholds(auto_facts=0, small_delta=0))
    on_cpu = ge.Engine(PROGRAM, backend="cpu")
    for engine in (on_gpu, on_cpu):
        for start in (0, 50):
            engine.load("edge", edges[start : start + 50])
            engine.materialise()
    for name in ("path", "cousin", "far"):
        assert sorted(on_gpu[name]) == sorted(on_cpu[name])
    assert backend.device.statistics.launches > 100
