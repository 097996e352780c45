"""Kernels that compute on the values of ids: 64-bit words, those of floats by their bits.

`terms.arithmetic` says what operators mean. An operand that is the same for all bindings has one element and
a step of 0. Integers of either sign wrap around alike; what depends on the sign flips or looks at the first
bit, because in compiled code a uint64 and an int64 meet as floats.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.contract import Operator
from gpuengine.kernels.cuda.spec import device_function, device_kernel

SIGN = 1 << 63
ALL_BITS = (1 << 64) - 1

ADD = int(Operator.ADD)
SUBTRACT = int(Operator.SUBTRACT)
MULTIPLY = int(Operator.MULTIPLY)
DIVIDE = int(Operator.DIVIDE)
DIVIDE_UNSIGNED = int(Operator.DIVIDE_UNSIGNED)
REMAINDER = int(Operator.REMAINDER)
REMAINDER_UNSIGNED = int(Operator.REMAINDER_UNSIGNED)
BIT_AND = int(Operator.BIT_AND)
BIT_OR = int(Operator.BIT_OR)
BIT_XOR = int(Operator.BIT_XOR)
SHIFT_LEFT = int(Operator.SHIFT_LEFT)
SHIFT_RIGHT = int(Operator.SHIFT_RIGHT)
SHIFT_RIGHT_UNSIGNED = int(Operator.SHIFT_RIGHT_UNSIGNED)
AND = int(Operator.AND)
OR = int(Operator.OR)
XOR = int(Operator.XOR)
MINIMUM = int(Operator.MINIMUM)
MINIMUM_UNSIGNED = int(Operator.MINIMUM_UNSIGNED)
MAXIMUM = int(Operator.MAXIMUM)
MAXIMUM_UNSIGNED = int(Operator.MAXIMUM_UNSIGNED)
IS_EQUAL = int(Operator.IS_EQUAL)
IS_NOT_EQUAL = int(Operator.IS_NOT_EQUAL)
IS_LESS = int(Operator.IS_LESS)
IS_LESS_UNSIGNED = int(Operator.IS_LESS_UNSIGNED)
IS_LESS_EQUAL = int(Operator.IS_LESS_EQUAL)
ADD_FLOAT = int(Operator.ADD_FLOAT)
SUBTRACT_FLOAT = int(Operator.SUBTRACT_FLOAT)
MULTIPLY_FLOAT = int(Operator.MULTIPLY_FLOAT)
DIVIDE_FLOAT = int(Operator.DIVIDE_FLOAT)
MINIMUM_FLOAT = int(Operator.MINIMUM_FLOAT)
IS_EQUAL_FLOAT = int(Operator.IS_EQUAL_FLOAT)
IS_NOT_EQUAL_FLOAT = int(Operator.IS_NOT_EQUAL_FLOAT)
IS_LESS_FLOAT = int(Operator.IS_LESS_FLOAT)


@device_kernel("u4*, u8, u8*, u8*", streamed=28)
def load_words(i, ids, identity, values, out):
    """The words that ids stand for: themselves below `identity`."""
    id = np.uint64(ids[i])
    if id < identity:
        out[i] = id
    else:
        out[i] = values[np.int64(id - identity)]


@device_function
def truth(holds):
    if holds:
        return np.uint64(1)
    return np.uint64(0)


@device_function
def magnitude(word):
    """The absolute value of a signed number, as an unsigned one."""
    if word >= np.uint64(SIGN):
        return np.uint64(0) - word
    return word


@device_function
def quotient_of(operator, left, right):
    """Quotient or remainder, towards zero; the remainder has the dividend's sign. The divisor is not 0."""
    if operator == DIVIDE_UNSIGNED:
        return left // right
    if operator == REMAINDER_UNSIGNED:
        return left % right
    if operator == REMAINDER:
        found = magnitude(left) % magnitude(right)
        negative = left >= np.uint64(SIGN)
    else:
        found = magnitude(left) // magnitude(right)
        negative = (left ^ right) >= np.uint64(SIGN)
    if negative:
        return np.uint64(0) - found
    return found


@device_function
def shifted(operator, word, distance):
    """A shift by a distance below 64; SHIFT_RIGHT keeps the sign."""
    if operator == SHIFT_LEFT:
        return word << distance
    if operator == SHIFT_RIGHT and word >= np.uint64(SIGN):
        return ~(~word >> distance)
    return word >> distance


@device_function
def bits_of(operator, left, right):
    """The operators on bits and truth values."""
    if operator == BIT_AND:
        return left & right
    if operator == BIT_OR:
        return left | right
    if operator == BIT_XOR:
        return left ^ right
    if operator <= SHIFT_RIGHT_UNSIGNED:
        return shifted(operator, left, right & np.uint64(63))
    one = left != np.uint64(0)
    other = right != np.uint64(0)
    if operator == AND:
        return truth(one and other)
    if operator == OR:
        return truth(one or other)
    return truth(one != other)


@device_function
def ordered(operator, left, right):
    """The less or the greater of two, or whether they stand in a relation."""
    if operator == IS_EQUAL:
        return truth(left == right)
    if operator == IS_NOT_EQUAL:
        return truth(left != right)
    # With the sign bit flipped, signed numbers compare as unsigned ones do.
    flipped = np.uint64(0)
    # No tuple of operators: that would be local memory.
    if operator == MINIMUM or operator == MAXIMUM or operator == IS_LESS or operator == IS_LESS_EQUAL:  # noqa: SIM109
        flipped = np.uint64(SIGN)
    less = (left ^ flipped) < (right ^ flipped)
    greater = (right ^ flipped) < (left ^ flipped)
    if operator <= MINIMUM_UNSIGNED:
        if greater:
            return right
        return left
    if operator <= MAXIMUM_UNSIGNED:
        if less:
            return right
        return left
    if operator <= IS_LESS_UNSIGNED:
        return truth(less)
    return truth(not greater)


@device_kernel("i8, u8*, i8, u8*, i8, u8*, u4*", streamed=24)
def combine_words(i, operator, left, left_step, right, right_step, out, failed):
    """An operator on integers; a division by zero sets `failed`: all that write it, write the same."""
    one = left[i * left_step]
    other = right[i * right_step]
    if operator == ADD:
        out[i] = one + other
    elif operator == SUBTRACT:
        out[i] = one - other
    elif operator == MULTIPLY:
        out[i] = one * other
    elif operator <= REMAINDER_UNSIGNED:
        if other == np.uint64(0):
            failed[0] = np.uint32(1)
            out[i] = np.uint64(0)
        else:
            out[i] = quotient_of(operator, one, other)
    elif operator <= XOR:
        out[i] = bits_of(operator, one, other)
    else:
        out[i] = ordered(operator, one, other)


@device_kernel("i8, f8*, i8, f8*, i8, f8*", streamed=24)
def combine_floats(i, operator, left, left_step, right, right_step, out):
    """An operator on floats. One at a time, so that no two are contracted into one with a rounding less."""
    one = left[i * left_step]
    other = right[i * right_step]
    if operator == ADD_FLOAT:
        out[i] = one + other
    elif operator == SUBTRACT_FLOAT:
        out[i] = one - other
    elif operator == MULTIPLY_FLOAT:
        out[i] = one * other
    elif operator == DIVIDE_FLOAT:
        out[i] = one / other
    elif operator == MINIMUM_FLOAT:
        if other < one:
            out[i] = other
        else:
            out[i] = one
    else:
        if one < other:
            out[i] = other
        else:
            out[i] = one


@device_kernel("i8, f8*, i8, f8*, i8, u8*", streamed=24)
def relate_floats(i, operator, left, left_step, right, right_step, out):
    """Whether two floats stand in a relation, by value: 0 or 1."""
    one = left[i * left_step]
    other = right[i * right_step]
    if operator == IS_EQUAL_FLOAT:
        out[i] = truth(one == other)
    elif operator == IS_NOT_EQUAL_FLOAT:
        out[i] = truth(one != other)
    elif operator == IS_LESS_FLOAT:
        out[i] = truth(one < other)
    else:
        out[i] = truth(one <= other)


@device_kernel("i8*, f8*", streamed=16)
def floats_of_numbers(i, values, out):
    out[i] = np.float64(values[i])


@device_kernel("u8*, f8*", streamed=16)
def floats_of_unsigned(i, values, out):
    out[i] = np.float64(values[i])


@device_kernel("u8*, i8, u1*", streamed=9)
def mark_true(i, words, step, flags):
    """Flag the words that are not 0."""
    if words[i * step] != np.uint64(0):
        flags[i] = 1
    else:
        flags[i] = 0
