"""What a device is, whether it computes what it should, and how fast: for a report that a user can send."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

from gpuengine import __version__
from gpuengine.engine import Engine
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.contract import (
    Collect,
    Domain,
    Driver,
    IndexProbe,
    Pipeline,
    Probe,
    Status,
    write,
)

if TYPE_CHECKING:
    from gpuengine.kernels.cuda.backend import CudaBackend

ALWAYS_ON_DEVICE = Thresholds(auto_facts=0, small_delta=0, large_delta=0)
"""With these all rounds of an evaluation are on the accelerator, whatever their size."""
_REPEAT = 3
_PACKAGES = (
    "numpy",
    "numba",
    "numba-cuda",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "cuda-bindings",
    "rmm-cu13",
    "rmm-cu12",
)
_CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the benchmark: `amount` of `unit` in `seconds`."""

    name: str
    amount: int
    unit: str
    seconds: float

    @property
    def rate(self) -> float:
        """Amount a second."""
        return self.amount / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the benchmark's inputs are."""

    elements: int
    nodes: int
    degree: int


SIZES = Sizes(elements=1 << 22, nodes=10_000, degree=10)
"""A few seconds on a CPU, and 22 million facts."""


def versions() -> dict[str, str]:
    """Of everything that takes part."""
    versions_of = {
        "gpuengine": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for package in _PACKAGES:
        try:
            versions_of[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions_of


def describe(backend: CudaBackend) -> dict[str, str]:
    """What is known of the device."""
    device = backend.device
    used, usable = device.memory()
    properties = {"name": device.name, "threads under way": f"{device.concurrency:,}"}
    capability = getattr(device, "capability", None)
    if capability is not None:
        properties["compute capability"] = ".".join(map(str, capability))
    properties["memory to use"] = f"{usable / 2**30:.1f} GB" if usable < 1 << 60 else "not limited"
    properties["memory in use"] = f"{used / 2**30:.1f} GB"
    return properties


def benchmark(backend: CudaBackend, sizes: Sizes, clock: Clock = time.perf_counter) -> Iterator[Measurement]:
    """Throughput of what evaluation is made of, then a closure on the CPU and on the device."""
    backend.bind_thread()
    timed = _Stopwatch(backend, clock)
    yield from _operations(backend, sizes.elements, timed)
    yield from _joins(backend, sizes.elements, timed)
    yield from _closures(backend, sizes, clock)


class _Stopwatch:
    """Times an action on a device, from idle to idle; the best of a few."""

    def __init__(self, backend: CudaBackend, clock: Clock) -> None:
        self._device, self._clock = backend.device, clock

    def __call__(self, action: Callable[[], object]) -> float:
        best = float("inf")
        for _ in range(_REPEAT):
            self._device.wait()
            started = self._clock()
            action()
            self._device.wait()
            best = min(best, self._clock() - started)
        return best


def _operations(backend: CudaBackend, count: int, timed: _Stopwatch) -> Iterator[Measurement]:
    random, device = np.random.default_rng(1), backend.device
    host = random.integers(0, 2**64, count, dtype=np.uint64)
    keys = device.upload(host)
    yield Measurement("to the device", host.nbytes, "bytes", timed(lambda: device.upload(host)))
    yield Measurement("from the device", host.nbytes, "bytes", timed(lambda: device.download(keys)))
    copy = device.empty(count, np.uint64)
    yield Measurement("copy", 2 * host.nbytes, "bytes", timed(lambda: device.copy(copy, keys)))
    yield Measurement("sort", count, "keys", timed(lambda: device.sort(keys)))
    counts = device.upload(random.integers(0, 9, count, dtype=np.uint32))
    yield Measurement("scan", count, "counts", timed(lambda: device.offsets(counts)))
    flags = device.upload(random.integers(0, 2, count, dtype=np.uint8))
    yield Measurement("select", count, "flags", timed(lambda: device.select(flags)))


def _joins(backend: CudaBackend, count: int, timed: _Stopwatch) -> Iterator[Measurement]:
    random = np.random.default_rng(2)
    sparse = [random.integers(0, 2**32 - 1, count, dtype=np.uint32) for _ in range(2)]
    given = backend.rows(2, count)
    given.append(sparse, count)

    def insert() -> None:
        backend.keyset(2, [(0, 2**32)] * 2, count).insert(given, 0, count)

    yield Measurement("insert into a hashed set", count, "rows", timed(insert))
    dense = [random.integers(0, count // 4, count, dtype=np.uint32) for _ in range(2)]
    rows = backend.rows(2, count)
    rows.append(dense, count)
    rows.advance()
    index = backend.index(rows, (0,), [(0, count)] * 2)
    yield Measurement("build an index", count, "rows", timed(lambda: index.build(exact=True)))
    probe = Probe((IndexProbe(index, Domain.ALL, (1,), (write(2),)),))
    pipeline = Pipeline(Driver(rows, (write(0), write(1))), (probe,), Collect((0, 2)), 3)
    found = 0

    def join() -> None:
        nonlocal found
        out = backend.rows(2, 6 * count)
        program = backend.program(pipeline, np.zeros(1, np.int64))
        status = program.run(out, 0, count)
        while status is Status.FULL:
            out.grow(count)
            status = program.resume(out)
        found = out.count

    seconds = timed(join)
    yield Measurement("join", found, "matches", seconds)


def _closures(backend: CudaBackend, sizes: Sizes, clock: Clock) -> Iterator[Measurement]:
    """The closure of a random acyclic graph; the device's comes with its CPU's, to compare."""
    edges = random_dag(sizes.nodes, sizes.degree)
    engines = {
        "closure, CPU": Engine(_CLOSURE, backend="cpu"),
        "closure, device": Engine(_CLOSURE, backend=backend, thresholds=ALWAYS_ON_DEVICE),
    }
    for name, engine in engines.items():
        engine.load("edge", edges)
        best = float("inf")
        for _ in range(2):
            started = clock()
            engine.materialise()
            best = min(best, clock() - started)
        yield Measurement(name, len(engine["path"]), "facts", best)


def random_dag(nodes: int, degree: int) -> np.ndarray:
    """`degree` edges a node, each to a later one at random."""
    random = np.random.default_rng(3)
    sources = np.repeat(np.arange(nodes - 1, dtype=np.int64), degree)
    targets = sources + 1 + (random.random(len(sources)) * (nodes - 1 - sources)).astype(np.int64)
    return np.stack([sources, targets], axis=1)
