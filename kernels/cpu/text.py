"""Byte strings by the row: row i of a column is data[starts[i]:ends[i]]."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel


@kernel("i8(i8*, i8*, u1*, i8, i8, i8*, u1*)")
def append_rows(starts, ends, data, step, n, cursor, out):
    """Copy row i * step to out[cursor[i]:] and move cursor[i] behind it; with step 0, row 0 throughout."""
    for i in range(n):
        to = cursor[i]
        start = starts[i * step]
        length = ends[i * step] - start
        for j in range(length):
            out[to + j] = data[start + j]
        cursor[i] = to + length
    return np.int64(0)


@kernel("i8(i8*, i8*, u1*, i8*, i8*, u1*, i8, i4*)")
def compare_rows(a_starts, a_ends, a_data, b_starts, b_ends, b_data, n, order):
    """order[i] is -1, 0 or 1: how row i of `a` stands to row i of `b`, byte by byte, a prefix first."""
    for i in range(n):
        a, b = a_starts[i], b_starts[i]
        a_length, b_length = a_ends[i] - a, b_ends[i] - b
        sign = np.int32(0)
        for j in range(min(a_length, b_length)):
            left, right = a_data[a + j], b_data[b + j]
            if left != right:
                sign = np.int32(-1) if left < right else np.int32(1)
                break
        if sign == 0 and a_length != b_length:
            sign = np.int32(-1) if a_length < b_length else np.int32(1)
        order[i] = sign
    return np.int64(0)


@kernel("i8(i8*, i8*, u1*, i8*, i8*, u1*, i8, u1*)")
def contains_rows(needle_starts, needle_ends, needles, starts, ends, data, n, found):
    """found[i]: does row i of the text contain row i of the needles? The empty needle is everywhere."""
    for i in range(n):
        needle = needle_starts[i]
        length = needle_ends[i] - needle
        hit = length == 0
        if not hit:
            first = needles[needle]
            for at in range(starts[i], ends[i] - length + 1):
                if data[at] == first:
                    j = np.int64(1)
                    while j < length and data[at + j] == needles[needle + j]:
                        j += 1
                    if j == length:
                        hit = True
                        break
        found[i] = np.uint8(1) if hit else np.uint8(0)
    return np.int64(0)


@device
def is_space(byte):
    """C's isspace in the C locale."""
    return byte == 32 or (byte >= 9 and byte <= 13)


@kernel("i8(i8*, i8*, u1*, i8, u8*, u1*, i8*)")
def parse_integers(starts, ends, data, n, magnitudes, status, stops):
    """The decimal integer each row begins with, as C's strtoll reads it: spaces, sign, digits, then anything.

    status[i] is 0 for digits without minus, 1 with minus, 2 for no digits, 3 for a magnitude past 64 bits;
    stops[i] is where the digits end.
    """
    for i in range(n):
        at, end = starts[i], ends[i]
        while at < end and is_space(data[at]):
            at += 1
        outcome = np.uint8(0)
        if at < end and (data[at] == 45 or data[at] == 43):
            if data[at] == 45:
                outcome = np.uint8(1)
            at += 1
        first = at
        value = np.uint64(0)
        over = False
        while at < end and data[at] >= 48 and data[at] <= 57:
            digit = np.uint64(data[at] - 48)
            if value > (np.uint64(0xFFFFFFFFFFFFFFFF) - digit) // np.uint64(10):
                over = True
            value = value * np.uint64(10) + digit
            at += 1
        if at == first:
            outcome = np.uint8(2)
        elif over:
            outcome = np.uint8(3)
        magnitudes[i] = value
        status[i] = outcome
        stops[i] = at
    return np.int64(0)


@device
def digit_of(byte):
    """What a byte counts for as a hexadecimal digit, or 16."""
    if byte >= 48 and byte <= 57:
        return byte - 48
    if byte >= 97 and byte <= 102:
        return byte - 87
    if byte >= 65 and byte <= 70:
        return byte - 55
    return 16


@kernel("i8(i8*, i8*, u1*, i8, u8*, u1*)")
def parse_prefixed_integers(starts, ends, data, n, magnitudes, status):
    """Rows that begin with ``0x`` or ``0b``, a minus before it or not, as `parse_integers` has the others.

    Other rows stay as they are. A ``0x`` without digits after it is 0, as strtoll has it.
    """
    for i in range(n):
        at, end = starts[i], ends[i]
        outcome = np.uint8(0)
        if at < end and data[at] == 45:
            outcome = np.uint8(1)
            at += 1
        if at + 2 > end or data[at] != 48 or (data[at + 1] != 120 and data[at + 1] != 98):
            continue
        base = 16 if data[at + 1] == 120 else 2
        at += 2
        first = at
        value = np.uint64(0)
        over = False
        while at < end and digit_of(data[at]) < base:
            if value > np.uint64(0xFFFFFFFFFFFFFFFF) // np.uint64(base):
                over = True
            value = value * np.uint64(base) + np.uint64(digit_of(data[at]))
            at += 1
        if at == first and base == 2:
            outcome = np.uint8(2)
        elif over:
            outcome = np.uint8(3)
        magnitudes[i] = value
        status[i] = outcome
    return np.int64(0)


@device
def digits_end(data, at, end):
    """The end of the run of decimal digits from `at`."""
    while at < end and data[at] >= 48 and data[at] <= 57:
        at += 1
    return at


@kernel("i8(i8*, i8*, u1*, i8, i8*, i8*)")
def float_prefixes(starts, ends, data, n, out_starts, out_ends):
    """Where the decimal floating-point number each row begins with lies (C's strtod; sign ``+`` left out).

    An empty stretch where there is none. ``inf``, ``infinity`` and ``nan`` are left to the caller.
    """
    for i in range(n):
        at, end = starts[i], ends[i]
        while at < end and is_space(data[at]):
            at += 1
        begin = at
        if at < end and (data[at] == 45 or data[at] == 43):
            if data[at] == 43:
                begin += 1
            at += 1
        whole = at
        at = digits_end(data, at, end)
        digits = at - whole
        if at < end and data[at] == 46:
            fraction = at + 1
            after = digits_end(data, fraction, end)
            digits += after - fraction
            if digits > 0:
                at = after
        if digits == 0:
            begin = at = starts[i]
        elif at < end and (data[at] == 101 or data[at] == 69):
            exponent = at + 1
            if exponent < end and (data[exponent] == 45 or data[exponent] == 43):
                exponent += 1
            after = digits_end(data, exponent, end)
            if after > exponent:
                at = after
        out_starts[i] = begin
        out_ends[i] = at
    return np.int64(0)


@kernel("i8(u8*, u1*, i8, u1*, i8*, i8*)")
def format_integers(magnitudes, negative, n, out, starts, ends):
    """Decimal digits, right-aligned in 20 + 1 bytes a row of `out`; [starts[i], ends[i]) holds row i."""
    for i in range(n):
        value = magnitudes[i]
        at = i * 21 + 21
        ends[i] = at
        while True:
            rest = value // np.uint64(10)
            at -= 1
            out[at] = np.uint8(value - rest * np.uint64(10) + np.uint64(48))
            value = rest
            if value == 0:
                break
        if negative[i] != 0:
            at -= 1
            out[at] = np.uint8(45)
        starts[i] = at
    return np.int64(0)
