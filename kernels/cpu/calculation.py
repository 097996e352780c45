"""Arithmetic on the values of ids, one binding at a time; `terms.arithmetic` says what it means.

Values are 64-bit words. Signed and unsigned integers wrap around alike; operators of which the sign of a
number matters come in two kinds. Divisors are not 0. Floats are the bits of doubles, and have operators of
their own.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import as_i8, as_u8, bits_of, float_of
from gpuengine.kernels.cpu.code import (
    ADD,
    ADD_FLOAT,
    AND,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    COMPLEMENT,
    COMPUTE,
    CONSTANT,
    DIVIDE_FLOAT,
    DIVIDE_UNSIGNED,
    DONE,
    FAILED,
    FLOAT_OF_NUMBER,
    IS_EQUAL,
    IS_EQUAL_FLOAT,
    IS_LESS,
    IS_LESS_EQUAL_UNSIGNED,
    IS_LESS_FLOAT,
    IS_LESS_UNSIGNED,
    IS_NOT_EQUAL,
    IS_NOT_EQUAL_FLOAT,
    LOAD,
    MAXIMUM,
    MAXIMUM_FLOAT,
    MAXIMUM_UNSIGNED,
    MINIMUM,
    MINIMUM_FLOAT,
    MINIMUM_UNSIGNED,
    MULTIPLY,
    MULTIPLY_FLOAT,
    NEGATE,
    NEGATE_FLOAT,
    NO_TARGET,
    OR,
    OUTSIDE,
    REMAINDER,
    REMAINDER_UNSIGNED,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    SHIFT_RIGHT_UNSIGNED,
    STEP_WORDS,
    SUBTRACT,
    SUBTRACT_FLOAT,
    WORDS_FULL,
    XOR,
)
from gpuengine.kernels.cpu.intern import NO_ID, intern_word
from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.cpu.layout import WORDS_DATA, WORDS_IDENTITY

ZERO = np.uint64(0)
ONE = np.uint64(1)
SHIFT_MASK = np.uint64(63)


@device
def word_of(header, id):
    """The word of an id, by its space's words header."""
    identity = header[WORDS_IDENTITY]
    return np.uint64(id) if id < identity else as_u8(header[WORDS_DATA])[id - identity]


@device
def truth(holds):
    return ONE if holds else ZERO


@device
def magnitude(word):
    return ZERO - word if np.int64(word) < 0 else word


@device
def apply_to_one(operator, word):
    if operator == NEGATE:
        return ZERO - word
    if operator == COMPLEMENT:
        return ~word
    if operator >= NEGATE_FLOAT:
        return apply_to_float(operator, word)
    return truth(word == ZERO)


@device
def apply_to_float(operator, word):
    if operator == NEGATE_FLOAT:
        return bits_of(-float_of(word))
    return bits_of(np.float64(np.int64(word)) if operator == FLOAT_OF_NUMBER else np.float64(word))


@device
def divide(operator, left, right):
    """Quotient or remainder, truncated towards zero; the remainder has the sign of the dividend."""
    if operator == DIVIDE_UNSIGNED:
        return left // right
    if operator == REMAINDER_UNSIGNED:
        return left % right
    if operator == REMAINDER:
        rest = magnitude(left) % magnitude(right)
        return ZERO - rest if np.int64(left) < 0 else rest
    quotient = magnitude(left) // magnitude(right)
    return ZERO - quotient if (np.int64(left) < 0) != (np.int64(right) < 0) else quotient


@device
def compare_words(operator, left, right):
    if operator == IS_EQUAL:
        return left == right
    if operator == IS_NOT_EQUAL:
        return left != right
    if operator == IS_LESS:
        return np.int64(left) < np.int64(right)
    if operator == IS_LESS_UNSIGNED:
        return left < right
    if operator == IS_LESS_EQUAL_UNSIGNED:
        return left <= right
    return np.int64(left) <= np.int64(right)


@device
def apply_to_bits(operator, left, right):
    if operator == BIT_AND:
        return left & right
    if operator == BIT_OR:
        return left | right
    if operator == BIT_XOR:
        return left ^ right
    distance = right & SHIFT_MASK
    if operator == SHIFT_LEFT:
        return left << distance
    if operator == SHIFT_RIGHT:
        return np.uint64(np.int64(left) >> np.int64(distance))
    return left >> distance


@device
def compare_floats(operator, left, right):
    if operator == IS_LESS_FLOAT:
        return left < right
    if operator == IS_EQUAL_FLOAT:
        return left == right
    return left != right if operator == IS_NOT_EQUAL_FLOAT else left <= right


@device
def apply_to_floats(operator, left, right):
    if operator == ADD_FLOAT:
        return bits_of(left + right)
    if operator == SUBTRACT_FLOAT:
        return bits_of(left - right)
    if operator == MULTIPLY_FLOAT:
        return bits_of(left * right)
    if operator == DIVIDE_FLOAT:
        return bits_of(left / right)
    if operator == MINIMUM_FLOAT:
        return bits_of(right if right < left else left)
    if operator == MAXIMUM_FLOAT:
        return bits_of(right if left < right else left)
    return truth(compare_floats(operator, left, right))


@device
def apply_to_two(operator, left, right):
    if operator >= ADD_FLOAT:
        return apply_to_floats(operator, float_of(left), float_of(right))
    if operator == ADD:
        return left + right
    if operator == SUBTRACT:
        return left - right
    if operator == MULTIPLY:
        return left * right
    if operator <= REMAINDER_UNSIGNED:
        return divide(operator, left, right)
    if operator <= SHIFT_RIGHT_UNSIGNED:
        return apply_to_bits(operator, left, right)
    if operator == AND:
        return truth(left != ZERO and right != ZERO)
    if operator == OR:
        return truth(left != ZERO or right != ZERO)
    if operator == XOR:
        return truth((left != ZERO) != (right != ZERO))
    if operator == MINIMUM:
        return right if np.int64(right) < np.int64(left) else left
    if operator == MINIMUM_UNSIGNED:
        return right if right < left else left
    if operator == MAXIMUM:
        return right if np.int64(left) < np.int64(right) else left
    if operator == MAXIMUM_UNSIGNED:
        return right if left < right else left
    return truth(compare_words(operator, left, right))


@device
def calculate(code, at, registers, scratch):
    """The value of the steps of the operation at `at`; `scratch` has room for what they hold on to."""
    top = np.int64(-1)
    step = at + 5
    for _ in range(code[at + 4]):
        operator = code[step]
        if operator == LOAD:
            top += 1
            scratch[top] = np.int64(word_of(as_i8(code[step + 2]), registers[code[step + 1]]))
        elif operator == CONSTANT:
            top += 1
            scratch[top] = code[step + 1]
        elif operator < ADD:
            scratch[top] = np.int64(apply_to_one(operator, np.uint64(scratch[top])))
        else:
            top -= 1
            left, right = np.uint64(scratch[top]), np.uint64(scratch[top + 1])
            scratch[top] = np.int64(apply_to_two(operator, left, right))
        step += STEP_WORDS
    return np.uint64(scratch[0])


@device
def compute(code, at, registers, scratch):
    """Do a COMPUTE or a WITHIN: DONE, FAILED if the binding does not pass, WORDS_FULL or OUTSIDE."""
    if code[at] == COMPUTE:
        word = calculate(code, at, registers, scratch)
        if code[at + 2] == NO_TARGET:
            return FAILED if word == ZERO else DONE
        id = intern_word(as_i8(code[at + 3]), word)
        if id == NO_ID:
            return WORDS_FULL
        registers[code[at + 2]] = id
        return DONE
    for j in range(code[at + 2]):
        entry = at + 3 + 3 * j
        id = registers[code[entry]]
        if id < code[entry + 1] or id >= code[entry + 2]:
            return OUTSIDE
    return DONE
