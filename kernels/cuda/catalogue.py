"""Every kernel there is: importing this module completes `spec.KERNELS`."""

from __future__ import annotations

from gpuengine.kernels.cuda import (
    bitmaps,
    columns,
    exchange,
    frontier,
    graphs,
    index_kernels,
    intervals,
    join_kernels,
    set_kernels,
    sorted_sets,
    strong,
)
from gpuengine.kernels.cuda.spec import KERNELS

MODULES = (
    bitmaps,
    columns,
    exchange,
    frontier,
    graphs,
    index_kernels,
    intervals,
    join_kernels,
    set_kernels,
    sorted_sets,
    strong,
)
"""The modules that declare kernels."""

__all__ = ["KERNELS", "MODULES"]
