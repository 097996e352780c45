"""Every kernel there is: importing this module completes `spec.KERNELS`."""

from __future__ import annotations

from gpuengine.kernels.cuda import (
    ahead_kernels,
    calculation_kernels,
    columns,
    exchange,
    group_kernels,
    index_kernels,
    join_kernels,
    removal_kernels,
    set_kernels,
    timeline_kernels,
    word_kernels,
)
from gpuengine.kernels.cuda.primitives import (
    labels,
    position_reads,
    sorted_sets,
)
from gpuengine.kernels.cuda.spec import KERNELS

MODULES = (
    ahead_kernels,
    calculation_kernels,
    columns,
    exchange,
    group_kernels,
    index_kernels,
    join_kernels,
    removal_kernels,
    set_kernels,
    labels,
    position_reads,
    sorted_sets,
    timeline_kernels,
    word_kernels,
)
"""The modules that declare kernels."""

__all__ = ["KERNELS", "MODULES"]
