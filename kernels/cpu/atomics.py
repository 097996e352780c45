"""Atomic, pointer and bit operations that kernels use; the Python bodies are what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuengine.kernels.addresses import CHECKED
from gpuengine.kernels.cpu import checked
from gpuengine.kernels.cpu.jit import intrinsic_of


def _build_atomic(operation: str) -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def atomic(context: Any, pointer: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = checked.place(context, builder, pointer, args[0], args[1])
            return builder.atomic_rmw(operation, place, args[2], "monotonic")

        return pointer.dtype(pointer, types.int64, pointer.dtype), generate

    return atomic


def _build_compare_and_swap() -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def compare_and_swap(context: Any, pointer: Any, index: Any, expected: Any, desired: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = checked.place(context, builder, pointer, args[0], args[1])
            pair = builder.cmpxchg(place, args[2], args[3], "acq_rel", "acquire")
            return builder.extract_value(pair, 0)

        element = pointer.dtype
        return element(pointer, types.int64, element, element), generate

    return compare_and_swap


def _build_pointer(code: str) -> Any:
    import numba
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    if CHECKED:
        return checked.numba_parts().pointer_to(code)
    element = getattr(numba.types, code)
    bits = element.bitwidth

    @intrinsic
    def pointer(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element_ir = ir.DoubleType() if code == "float64" else ir.IntType(bits)
            return builder.inttoptr(args[0], element_ir.as_pointer())

        return types.CPointer(element)(types.int64), generate

    return pointer


def _build_bits(result: str, argument: str) -> Any:
    import numba
    from numba.extending import intrinsic

    made, given = getattr(numba.types, result), getattr(numba.types, argument)

    @intrinsic
    def bits(context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(made))

        return made(given), generate

    return bits


def _build_prefetch() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def prefetch(context: Any, pointer: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if CHECKED:
                return context.get_dummy_value()
            byte = ir.IntType(8).as_pointer()
            word = ir.IntType(32)
            function = builder.module.declare_intrinsic(
                "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            )
            place = builder.bitcast(builder.gep(args[0], [args[1]]), byte)
            builder.call(function, [place, word(0), word(3), word(1)])
            return context.get_dummy_value()

        return types.void(pointer, types.int64), generate

    return prefetch


@intrinsic_of(_build_prefetch)
def prefetch(pointer, index):
    """Ask for the cache line of an element; changes nothing."""


@intrinsic_of(lambda: _build_atomic("or"))
def atomic_or(pointer, index, value):
    """Set bits and return the word as it was."""
    old = pointer[index]
    pointer[index] = old | value
    return old


@intrinsic_of(lambda: _build_atomic("add"))
def atomic_add(pointer, index, value):
    """Add to a place and return what it held."""
    old = pointer[index]
    pointer[index] = old + value
    return old


@intrinsic_of(lambda: _build_atomic("min"))
def atomic_min(pointer, index, value):
    """Leave the lesser of a place's signed integer and `value`; return what it held."""
    old = pointer[index]
    pointer[index] = min(old, value)
    return old


@intrinsic_of(_build_compare_and_swap)
def compare_and_swap(pointer, index, expected, desired):
    """Store `desired` if the place holds `expected`; return what it held."""
    old = pointer[index]
    if old == expected:
        pointer[index] = desired
    return old


@intrinsic_of(lambda: _build_bits("float64", "uint64"))
def float_of(word):
    """The double of 64 bits."""
    return np.uint64(word).view(np.float64)


@intrinsic_of(lambda: _build_bits("uint64", "float64"))
def bits_of(value):
    """The 64 bits of a double."""
    return np.float64(value).view(np.uint64)


@intrinsic_of(lambda: _build_pointer("uint8"))
def as_u1(address):
    """The array of bytes at an address."""
    raise RuntimeError("addresses exist only in compiled kernels")


@intrinsic_of(lambda: _build_pointer("uint32"))
def as_u4(address):
    """The array of 32-bit ids at an address."""
    raise RuntimeError("addresses exist only in compiled kernels")


@intrinsic_of(lambda: _build_pointer("int64"))
def as_i8(address):
    """The array of 64-bit integers at an address."""
    raise RuntimeError("addresses exist only in compiled kernels")


@intrinsic_of(lambda: _build_pointer("uint64"))
def as_u8(address):
    """The array of 64-bit words at an address."""
    raise RuntimeError("addresses exist only in compiled kernels")


@intrinsic_of(lambda: _build_pointer("float64"))
def as_f8(address):
    """The array of doubles at an address."""
    raise RuntimeError("addresses exist only in compiled kernels")
