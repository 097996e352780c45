"""Published figures of GPUs, the least time that counted traffic takes on them, and one to expect: a model.

Between two waits of the host, launches and work on the device overlap, so that such a span takes as long as
the slower of the two; then the host waits. A GPU whose caches hold what is asked for again is faster than
the model, and a kernel that does not reach the full bandwidth is slower: nothing here is measured.
The sources named below were not at hand when their figures were written down: check one before relying on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuengine.kernels.cuda.traffic import Span

# NVIDIA Technical Blog, "Getting Started with CUDA Graphs": short kernels launched one after the other take
# 3.8 µs each; 9.6 µs if the host waits for each.
LAUNCH_SECONDS = 3.8e-6
WAIT_SECONDS = 9.6e-6 - LAUNCH_SECONDS


@dataclass(frozen=True, slots=True)
class Gpu:
    """Bytes a second of its memory, and over the bus in one direction; bytes that its memory holds."""

    name: str
    memory_rate: float
    bus_rate: float
    capacity: float


GPUS = (
    # NVIDIA T4 Tensor Core GPU datasheet: 320 GB/s, PCIe 3.0 x16.
    Gpu("T4", 320e9, 16e9, 16e9),
    # NVIDIA Ada GPU Architecture whitepaper, GeForce RTX 4090: 1008 GB/s, PCIe 4.0 x16.
    Gpu("RTX 4090", 1008e9, 32e9, 24e9),
    # NVIDIA A100 Tensor Core GPU datasheet: 1,555 GB/s (40 GB), 2,039 GB/s (80 GB SXM), PCIe 4.0 x16.
    Gpu("A100-40GB", 1555e9, 32e9, 40e9),
    Gpu("A100-80GB", 2039e9, 32e9, 80e9),
    # NVIDIA H100 Tensor Core GPU datasheet, H100 SXM: 3.35 TB/s, PCIe 5.0 x16.
    Gpu("H100 SXM", 3350e9, 64e9, 80e9),
    # NVIDIA DGX B200 datasheet: 64 TB/s and 1,440 GB for eight; PCIe 5.0 x16.
    Gpu("B200", 8000e9, 64e9, 180e9),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """The least seconds that a model allows: `total`, and of what they are made if nothing overlapped.

    `with_host` takes as many `host` seconds to ask for it all as were measured where it was emulated. The
    host goes on while kernels run, so that a span takes as long as the slower of the two.
    """

    total: float
    with_host: float
    memory: float
    launches: float
    waits: float
    bus: float
    host: float


def bound(gpu: Gpu, spans: Iterable[Span]) -> Bound:
    """The least time for spans, each up to a wait of the host."""
    total = with_host = memory = launches = waits = bus = host = 0.0
    for span in spans:
        moving, launching = span.moved / gpu.memory_rate, span.kernels * LAUNCH_SECONDS
        waiting, crossing = span.waits * WAIT_SECONDS, (span.sent + span.fetched) / gpu.bus_rate
        total += max(moving, launching) + waiting + crossing
        with_host += max(moving, launching, span.host_seconds) + waiting + crossing
        memory += moving
        launches += launching
        waits += waiting
        bus += crossing
        host += span.host_seconds
    return Bound(total, with_host, memory, launches, waits, bus, host)
