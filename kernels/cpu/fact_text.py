"""A kernel that reads lines of temporal facts, ``P(a,b)@[1,2.5)``, where they are plain.

It finds the places of names and constants in the text, and reads times that are whole numbers or short
decimals. All else (quotes, fractions, timestamps, mistakes) it leaves to whoever called it, line by line.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel

BLANK, READ, LEFT = 0, 1, 2
# Words for each line.
STATUS, LINE_START, LINE_END, NAME_END, FIRST_ARGUMENT, ARGUMENTS = 0, 1, 2, 3, 4, 5
LOW, LOW_DIGITS, LOW_KIND, HIGH, HIGH_DIGITS, HIGH_KIND, NAME_START = 6, 7, 8, 9, 10, 11, 12
WORDS = 13
CLOSED, OPEN, INFINITE = 0, 1, 2


@device
def skip_blanks(data, at, end):
    while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13):
        at += 1
    return at


@device
def is_name_byte(byte):
    return (
        (byte >= 97 and byte <= 122)
        or (byte >= 65 and byte <= 90)
        or (byte >= 48 and byte <= 57)
        or byte == 95
        or byte >= 128
    )


@device
def read_time(data, at, end, out, place):
    """A time at `at`: its digits as a number to out[place], decimals to out[place + 1].

    Where it ends, or -1.
    """
    sign = np.int64(1)
    if at < end and (data[at] == 45 or data[at] == 43):
        if data[at] == 45:
            sign = np.int64(-1)
        at += 1
    if at + 3 <= end and data[at] == 105 and data[at + 1] == 110 and data[at + 2] == 102:
        out[place + 2] = INFINITE
        out[place] = sign
        return at + 3
    value = np.int64(0)
    digits = 0
    decimals = np.int64(-1)
    while at < end:
        byte = data[at]
        if byte >= 48 and byte <= 57:
            value = value * 10 + np.int64(byte - 48)
            digits += 1
            if decimals >= 0:
                decimals += 1
            if digits > 17:
                return np.int64(-1)
        elif byte == 46 and decimals < 0:
            decimals = 0
        else:
            break
        at += 1
    if digits == 0 or decimals == 0:
        return np.int64(-1)
    if decimals > 0:
        # 20056.0 is whole.
        while decimals > 0 and value % 10 == 0:
            value //= 10
            decimals -= 1
    out[place] = sign * value
    out[place + 1] = max(decimals, np.int64(0))
    return at


@device
def read_line(data, start, end, out, base, spans, arguments):
    """Read one line into the words of `out` from `base` on, and the spans from number `arguments` on.

    How many spans there are then, or -1.
    """
    at = skip_blanks(data, start, end)
    out[base + NAME_START] = at
    while at < end and is_name_byte(data[at]):
        at += 1
    out[base + NAME_END] = at
    if at == out[base + NAME_START] or (
        data[out[base + NAME_START]] >= 48 and data[out[base + NAME_START]] <= 57
    ):
        return np.int64(-1)
    out[base + FIRST_ARGUMENT] = arguments
    at = skip_blanks(data, at, end)
    if at < end and data[at] == 40:
        at += 1
        while True:
            at = skip_blanks(data, at, end)
            begin = at
            while at < end and data[at] != 44 and data[at] != 41:
                byte = data[at]
                if byte == 34 or byte == 39 or byte == 92 or byte == 40 or byte == 64:
                    return np.int64(-1)
                at += 1
            if at >= end:
                return np.int64(-1)
            last = at
            while last > begin and (data[last - 1] == 32 or data[last - 1] == 9):
                last -= 1
            if last == begin:
                return np.int64(-1)
            spans[2 * arguments] = begin
            spans[2 * arguments + 1] = last
            arguments += 1
            at += 1
            if data[at - 1] == 41:
                break
    out[base + ARGUMENTS] = arguments - out[base + FIRST_ARGUMENT]
    at = skip_blanks(data, at, end)
    if at >= end or data[at] != 64:
        return np.int64(-1)
    at = skip_blanks(data, at + 1, end)
    if at >= end:
        return np.int64(-1)
    opening = data[at]
    if opening != 91 and opening != 40:
        out[base + LOW_KIND] = CLOSED
        at = read_time(data, at, end, out, base + LOW)
        if at < 0 or out[base + LOW_KIND] == INFINITE:
            return np.int64(-1)
        out[base + HIGH] = out[base + LOW]
        out[base + HIGH_DIGITS] = out[base + LOW_DIGITS]
        out[base + HIGH_KIND] = CLOSED
    else:
        out[base + LOW_KIND] = OPEN if opening == 40 else CLOSED
        at = read_time(data, skip_blanks(data, at + 1, end), end, out, base + LOW)
        if at < 0 or (out[base + LOW_KIND] == INFINITE and out[base + LOW] > 0):
            return np.int64(-1)
        at = skip_blanks(data, at, end)
        if at >= end or data[at] != 44:
            return np.int64(-1)
        at = read_time(data, skip_blanks(data, at + 1, end), end, out, base + HIGH)
        if at < 0 or (out[base + HIGH_KIND] == INFINITE and out[base + HIGH] < 0):
            return np.int64(-1)
        at = skip_blanks(data, at, end)
        if at >= end or (data[at] != 93 and data[at] != 41):
            return np.int64(-1)
        if out[base + HIGH_KIND] != INFINITE:
            out[base + HIGH_KIND] = OPEN if data[at] == 41 else CLOSED
        at += 1
    at = skip_blanks(data, at, end)
    if at < end and data[at] == 46:
        at = skip_blanks(data, at + 1, end)
    return arguments if at == end else np.int64(-1)


@kernel("i8(u1*, i8, i8, i8*, i8, i8*, i8, i8*)")
def scan_lines(data, begin, end, lines, most_lines, spans, most_spans, state):
    """Read lines from `begin` on; returns where it stopped for want of room, or `end`.

    state: lines written, spans written.
    """
    written = state[0]
    arguments = state[1]
    at = begin
    while at < end:
        stop = at
        commas = 1
        while stop < end and data[stop] != 10:
            commas += np.int64(data[stop] == 44)
            stop += 1
        if written == most_lines or arguments + commas > most_spans:
            break
        base = written * WORDS
        first = skip_blanks(data, at, stop)
        lines[base + LINE_START] = at
        lines[base + LINE_END] = stop
        if (
            first == stop
            or data[first] == 37
            or (data[first] == 47 and first + 1 < stop and data[first + 1] == 47)
        ):
            lines[base + STATUS] = BLANK
        else:
            lines[base + LOW_DIGITS] = 0
            lines[base + HIGH_DIGITS] = 0
            lines[base + HIGH_KIND] = CLOSED
            found = read_line(data, at, stop, lines, base, spans, arguments)
            lines[base + STATUS] = LEFT if found < 0 else READ
            if found >= 0:
                arguments = found
        written += 1
        at = stop + 1
    state[0] = written
    state[1] = arguments
    return min(at, end)


@kernel("i8(i8*, i8*, u1*, i8, i8*, i8*, u1*)")
def scan_times(starts, ends, data, count, words, values, status):
    """Read texts that are times: digits to `values`, how many are decimals to `words`, kinds behind these.

    `words` has room for 3 more than twice `count`. Texts of other forms are LEFT; returns how many.
    """
    left = 0
    out = 2 * count
    for k in range(count):
        first = skip_blanks(data, starts[k], ends[k])
        words[out] = 0
        words[out + 1] = 0
        words[out + 2] = CLOSED
        at = read_time(data, first, ends[k], words, out)
        if at >= 0 and skip_blanks(data, at, ends[k]) == ends[k]:
            status[k] = READ
            values[k] = words[out]
            words[k] = words[out + 1]
            words[count + k] = words[out + 2]
        else:
            status[k] = LEFT
            values[k] = 0
            words[k] = 0
            words[count + k] = CLOSED
            left += 1
    return left
