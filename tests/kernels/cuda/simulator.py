"""Kernels in numba's CUDA simulator: Python threads in blocks and grids, items in a shuffled order."""

from __future__ import annotations

import types
from functools import cache
from typing import Any

import numpy as np

from gpuengine.kernels.cuda.devices.device import HostArrays
from gpuengine.kernels.cuda.spec import DeviceKernel, bind, entry_point

_ENTRY = """
def {name}(_order, _items, {parameters}):
    with wrapping():
        _item = cuda.grid(1)
        _step = cuda.gridsize(1)
        while _item < _items:
            body(_order[_item], {parameters})
            _item += _step
"""


class SimulatedDevice(HostArrays):
    """A device of `threads` simulated threads in blocks of `block`; `seed` shuffles who does what."""

    name = "simulator"

    def __init__(self, threads: int = 64, block: int = 32, seed: int = 0, budget: int | None = None) -> None:
        super().__init__(budget)
        self.threads, self.block = threads, block
        self.concurrency = threads
        self._random = np.random.default_rng(seed)

    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        order = self._random.permutation(items)
        blocks = -(-min(items, self.threads) // self.block)
        plain = [_FORMS.get(code, _in_place)(arg) for code, arg in zip(kernel.signature, args, strict=True)]
        simulated_kernel(kernel)[blocks, self.block](order, items, *plain)


def _in_place(array: np.ndarray) -> Any:
    """The array as the simulator's own kind: it would copy any other there and back, once an argument."""
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    return FakeCUDAArray(array)


_FORMS: dict[str, Any] = {"i8": np.int64, "u8": np.uint64}


@cache
def simulated_kernel(kernel: DeviceKernel) -> Any:
    """The kernel as the simulator launches it."""
    from numba import cuda
    from numba.cuda.simulator.api import jit

    # The simulator replaces the name `cuda` in the globals of what it runs, so all of it shares them.
    scope: dict[str, Any] = {"cuda": cuda, "wrapping": _wrapping}
    atomics = {name: types.FunctionType(body.__code__, scope) for name, body in _ATOMICS.items()}
    scope["body"] = bind(kernel.body, atomics, lambda function: function, {})
    return jit(entry_point(kernel, _ENTRY, scope))


def _wrapping() -> Any:
    """Integers wrap around silently, as they do in compiled code."""
    return np.errstate(over="ignore")


def _add(array, index, value):
    return cuda.atomic.add(array, index, value)  # noqa: F821


def _or(array, index, value):
    return cuda.atomic.or_(array, index, value)  # noqa: F821


def _and(array, index, value):
    return cuda.atomic.and_(array, index, value)  # noqa: F821


def _swap(array, index, expected, desired):
    return cuda.atomic.cas(array, index, expected, desired)  # noqa: F821


_ATOMICS: dict[str, Any] = {
    "atomic_add": _add,
    "atomic_or": _or,
    "atomic_and": _and,
    "compare_and_swap": _swap,
}
