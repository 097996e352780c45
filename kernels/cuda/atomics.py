"""Atomic operations of kernels. The Python bodies say what they mean; every device has its own form.

All are relaxed: they order nothing but the word they touch. What one kernel writes the next one sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuengine.kernels.cpu import checked
from gpuengine.kernels.cuda.spec import AtomicOperation


def _atomic(body: Any) -> AtomicOperation:
    return AtomicOperation(body.__name__, body)


@_atomic
def atomic_add(pointer, index, value):
    """Add, and return the word as it was."""
    old = pointer[index]
    pointer[index] = old + value
    return old


@_atomic
def atomic_or(pointer, index, value):
    """Set bits, and return the word as it was."""
    old = pointer[index]
    pointer[index] = old | value
    return old


@_atomic
def atomic_and(pointer, index, value):
    """Keep bits, and return the word as it was."""
    old = pointer[index]
    pointer[index] = old & value
    return old


@_atomic
def compare_and_swap(pointer, index, expected, desired):
    """Store `desired` if the place holds `expected`; return what it held."""
    old = pointer[index]
    if old == expected:
        pointer[index] = desired
    return old


READ_MODIFY_WRITE = {"atomic_add": "add", "atomic_or": "or", "atomic_and": "and"}
"""The LLVM operation of each atomic but `compare_and_swap`."""


def compiled_atomics(intrinsic: Callable[[Any], Any], index_type: Any) -> dict[str, Any]:
    """The atomics as intrinsics of a numba target; `intrinsic` is that target's decorator."""

    def read_modify_write(operation: str) -> Any:
        @intrinsic
        def atomic(context: Any, pointer: Any, index: Any, value: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                place = checked.place(context, builder, pointer, args[0], args[1])
                return builder.atomic_rmw(operation, place, args[2], "monotonic")

            return pointer.dtype(pointer, index_type, pointer.dtype), generate

        return atomic

    @intrinsic
    def swap(context: Any, pointer: Any, index: Any, expected: Any, desired: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = checked.place(context, builder, pointer, args[0], args[1])
            pair = builder.cmpxchg(place, args[2], args[3], "monotonic", "monotonic")
            return builder.extract_value(pair, 0)

        element = pointer.dtype
        return element(pointer, index_type, element, element), generate

    made = {name: read_modify_write(operation) for name, operation in READ_MODIFY_WRITE.items()}
    return made | {"compare_and_swap": swap}
