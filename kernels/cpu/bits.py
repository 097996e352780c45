"""Bit operations that processors have and Python has not; the Python bodies are what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuengine.kernels.cpu.jit import device, intrinsic_of

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def _build_unary(operation: str) -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def unary(context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if operation == "cttz":
                return builder.cttz(args[0], ir.IntType(1)(0))
            return builder.ctpop(args[0])

        return types.int64(types.uint64), generate

    return unary


@intrinsic_of(lambda: _build_unary("ctpop"))
def ones(word):
    """How many bits of a 64-bit word are set."""
    return int(word).bit_count()


@intrinsic_of(lambda: _build_unary("cttz"))
def trailing_zeros(word):
    """The place of the lowest bit that is set; 64 if none is."""
    return (int(word) & -int(word)).bit_length() - 1 if word else 64


@device
def fill_bits(words, first, last):
    """Set the bits from `first` to before `last`, which is greater."""
    word = first >> 6
    end = (last - 1) >> 6
    head = ALL << np.uint64(first & 63)
    tail = ALL >> np.uint64(63 - ((last - 1) & 63))
    if word == end:
        words[word] |= head & tail
    else:
        words[word] |= head
        for k in range(word + 1, end):
            words[k] = ALL
        words[end] |= tail


@device
def clear_bits(words, first, last):
    """Clear the bits from `first` to before `last`, which is greater."""
    word = first >> 6
    end = (last - 1) >> 6
    head = ALL << np.uint64(first & 63)
    tail = ALL >> np.uint64(63 - ((last - 1) & 63))
    if word == end:
        words[word] &= ~(head & tail)
    else:
        words[word] &= ~head
        for k in range(word + 1, end):
            words[k] = np.uint64(0)
        words[end] &= ~tail


@device
def bit_is_set(words, place):
    return (words[place >> 6] >> np.uint64(place & 63)) & np.uint64(1) != np.uint64(0)
