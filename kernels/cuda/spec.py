"""Kernels written once, as what happens to one item; each kind of device makes its own launchable form.

    @device_kernel("u4*, u4*, u4*", streamed=12, random=1)
    def gather(i, source, rows, out):
        out[i] = source[rows[i]]

A launch over `n` items calls the body for every ``0 <= i < n``, in any order and many at a time. Pointers
are indexed like arrays; scalars are 64-bit integers; bodies talk to each other through `atomics`
only and never wait for one another, so that the same source runs compiled on a GPU, in numba's CUDA
simulator, and compiled for the host (see `hardware`, `emulated`).

In compiled code a uint64 and an int64 meet as floating point or as signed numbers: cast first.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

KERNELS: dict[str, DeviceKernel] = {}
"""Every kernel by name; complete once `gpuengine.kernels.cuda.catalogue` is imported."""


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel's body and the types of its parameters after the item number.

    `streamed` are the bytes that an item reads and writes next to its neighbours', `random` the places
    anywhere in memory that it touches; both are what the cost model of `bench/gpu_model.py` counts.
    """

    name: str
    body: types.FunctionType
    signature: tuple[str, ...]
    streamed: int
    random: int

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters after the item number."""
        return self.body.__code__.co_varnames[1 : self.body.__code__.co_argcount]


@dataclass(frozen=True)
class DeviceFunction:
    """A function that kernels call; `body` is its source."""

    body: types.FunctionType

    def __call__(self, *args: Any) -> Any:
        return self.body(*args)


@dataclass(frozen=True)
class AtomicOperation:
    """An operation that each kind of device has its own form of; see `atomics`."""

    name: str
    body: types.FunctionType = field(compare=False)

    def __call__(self, *args: Any) -> Any:
        return self.body(*args)


def device_kernel(signature: str, *, streamed: int, random: int = 0) -> Callable[[Any], DeviceKernel]:
    """Declare a kernel; `signature` lists u1* u4* u8* i8* f8* i8 u8."""
    types_ = tuple(part.strip() for part in signature.split(","))

    def register(body: Any) -> DeviceKernel:
        kernel = DeviceKernel(body.__name__, body, types_, streamed, random)
        if len(kernel.parameters) != len(types_):
            raise TypeError(
                f"kernel {body.__name__}: {len(types_)} types for {len(kernel.parameters)} parameters"
            )
        if KERNELS.setdefault(kernel.name, kernel) is not kernel:
            raise TypeError(f"two kernels are named {kernel.name}")
        return kernel

    return register


def device_function(body: Any) -> DeviceFunction:
    """Declare a function that kernels may call."""
    return DeviceFunction(body)


def bind(
    body: types.FunctionType,
    atomics: Mapping[str, Any],
    compile_function: Callable[[types.FunctionType], Any],
    made: dict[int, Any],
) -> types.FunctionType:
    """`body` with the device functions and atomics that it names replaced by one device's forms of them.

    `made` remembers the device functions that were compiled already.
    """
    names = dict(body.__globals__)
    for name in body.__code__.co_names:
        value = names.get(name)
        if isinstance(value, AtomicOperation):
            names[name] = atomics[value.name]
        elif isinstance(value, DeviceFunction):
            if id(value) not in made:
                made[id(value)] = compile_function(bind(value.body, atomics, compile_function, made))
            names[name] = made[id(value)]
    return types.FunctionType(body.__code__, names, body.__name__)


def entry_point(kernel: DeviceKernel, template: str, scope: dict[str, Any]) -> types.FunctionType:
    """The function that walks the items: `template` with its ``{parameters}`` and ``{name}`` filled in.

    `scope` becomes its globals. Only names from this package's own source go into it.
    """
    parameters = ", ".join(kernel.parameters)
    source = template.format(name=kernel.name, parameters=parameters)
    exec(compile(source, f"<entry of {kernel.name}>", "exec"), scope)
    entry: types.FunctionType = scope[kernel.name]
    return entry
