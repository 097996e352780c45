"""The CPU backend: kernels compiled by numba once, loaded through LLVM, run on threads without the GIL."""

from __future__ import annotations

from gpuengine.kernels.cpu.jit import Kernel


def evaluation_kernels() -> tuple[Kernel, ...]:
    """The kernels that nearly every evaluation needs."""
    from gpuengine.kernels.cpu import keyset, pipeline, rounds, rowindex

    return (
        pipeline.run,
        rounds.run_rounds,
        keyset.insert_rows,
        keyset.after_gap,
        keyset.move_keys,
        keyset.count_distinct,
        rowindex.assign_slots,
        rowindex.place_blocks,
        rowindex.fill_blocks,
        rowindex.append,
        rowindex.rehash,
    )


def all_kernels() -> tuple[Kernel, ...]:
    """Every kernel that there is, those of nearly every evaluation first."""
    from importlib import import_module
    from pkgutil import iter_modules

    kernels = {id(one): one for one in evaluation_kernels()}
    for module in iter_modules(__path__):
        for one in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(one, Kernel):
                kernels.setdefault(id(one), one)
    return tuple(kernels.values())
