"""Every kernel there is: importing this module completes `spec.KERNELS`."""

from __future__ import annotations

from gpuengine.kernels.cuda import (
    columns,
    exchange,
    index_kernels,
    join_kernels,
    set_kernels,
    timeline_kernels,
)
from gpuengine.kernels.cuda.primitives import (
    bitmaps,
    condense,
    frontier,
    graphs,
    intervals,
    position_difference,
    position_packing,
    position_pool,
    position_reads,
    reached_kernels,
    sorted_runs,
    sorted_sets,
    strong,
)
from gpuengine.kernels.cuda.spec import KERNELS

MODULES = (
    columns,
    exchange,
    index_kernels,
    join_kernels,
    set_kernels,
    bitmaps,
    condense,
    frontier,
    graphs,
    intervals,
    position_difference,
    position_packing,
    position_pool,
    position_reads,
    reached_kernels,
    sorted_runs,
    sorted_sets,
    strong,
    timeline_kernels,
)
"""The modules that declare kernels."""

__all__ = ["KERNELS", "MODULES"]
