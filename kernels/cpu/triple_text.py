"""A kernel that reads lines of N-Triples and N-Quads where they are plain.

It finds the places of the terms, in the form that the dictionary of RDF terms keeps; what is not in that form
already, but for a language tag in capitals or a datatype ``xsd:string``, it leaves to whoever called it, line
by line, and so it does with mistakes. Every block ends with a line feed, which ends everything that is read.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel

IRI, BLANK, LITERAL, NONE = 0, 1, 2, 3
# Words of the state: where reading stopped, how many lines are left, and how many line feeds were passed.
STOPPED, LEFT, FEEDS, STATE = 0, 1, 2, 3

_ENDS_IRI, _ENDS_LITERAL, _NOT_IN_LABEL, _NOT_IN_SCHEME = 1, 2, 4, 8


def _classes() -> np.ndarray:
    """For each byte what it ends."""
    classes = np.zeros(256, np.uint8)
    classes[list(range(33)) + [ord(c) for c in '<>"{}|^`\\']] |= _ENDS_IRI
    classes[[*range(32), 127, ord('"'), ord("\\")]] |= _ENDS_LITERAL
    letters = [ord(c) for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"]
    inside = np.zeros(256, np.bool_)
    inside[[*letters, *(ord(c) for c in "_-."), *range(128, 256)]] = True
    classes[~inside] |= _NOT_IN_LABEL
    scheme = np.zeros(256, np.bool_)
    scheme[[*letters, *(ord(c) for c in "+-.")]] = True
    classes[~scheme] |= _NOT_IN_SCHEME
    return classes


CLASSES = _classes()
XSD_STRING = np.frombuffer(b"<http://www.w3.org/2001/XMLSchema#string>", np.uint8)


@device
def skip_spaces(data, at):
    while data[at] == 32 or data[at] == 9:
        at += 1
    return at


@device
def is_letter(byte):
    return (byte >= 97 and byte <= 122) or (byte >= 65 and byte <= 90)


@device
def iri_end(data, at, classes):
    """Behind the IRI that begins at `at`, or -1; it must be absolute and have no escapes."""
    at += 1
    if not is_letter(data[at]):
        return np.int64(-1)
    while (classes[data[at]] & np.uint8(8)) == 0:
        at += 1
    if data[at] != 58:
        return np.int64(-1)
    while (classes[data[at]] & np.uint8(1)) == 0:
        at += 1
    return at + 1 if data[at] == 62 else np.int64(-1)


@device
def blank_end(data, at, classes):
    """Behind the blank node that begins at `at`, or -1."""
    at += 2
    first = at
    while (classes[data[at]] & np.uint8(4)) == 0:
        at += 1
    while at > first and data[at - 1] == 46:
        at -= 1
    if at == first or data[first] == 45 or data[first] == 46:
        return np.int64(-1)
    return at


@device
def quote_end(data, at, classes):
    """Behind the closing quotation mark of the literal at `at`, or -1 if it is not as it is kept."""
    at += 1
    while True:
        while (classes[data[at]] & np.uint8(2)) == 0:
            at += 1
        byte = data[at]
        if byte == 34:
            return at + 1
        if byte != 92:
            return np.int64(-1)
        byte = data[at + 1]
        if byte != 34 and byte != 92 and byte != 110 and byte != 114:
            return np.int64(-1)
        at += 2


@device
def language_end(data, at):
    """Behind the language tag whose ``@`` is at `at`, or -1; its letters become small ones."""
    at += 1
    first = at
    in_first = True
    while True:
        byte = data[at]
        if byte >= 65 and byte <= 90:
            data[at] = byte + np.uint8(32)
        elif byte == 45 and at > first:
            in_first = False
            first = at + 1
        elif not (byte >= 97 and byte <= 122) and (in_first or byte < 48 or byte > 57):
            break
        at += 1
    return at if at > first else np.int64(-1)


@device
def is_same(data, at, end, other, length):
    if end - at != length:
        return False
    j = np.int64(0)
    while j < length and data[at + j] == other[j]:
        j += 1
    return j == length


@kernel("i8(u1*, i8, i8, i8, u1*, u1*, i8, i8*, i8*, u1*, i8*, i8*)")
def scan_quads(data, begin, end, room, classes, xsd_string, length, starts, ends, kinds, left, state):
    """The statements of the lines from `begin` on, at most `room` of statements and of lines that are left.

    The byte before `end` is a line feed. Term t of statement i is data[starts[t * room + i]:ends[t * room +
    i]], of kind kinds[t * room + i]; term 3 is the graph. Lines that are left are left[2 * k] to left[2 * k +
    1]. Returns how many statements there are.
    """
    rows = np.int64(0)
    lefts = np.int64(0)
    feeds = np.int64(0)
    at = begin
    while at < end and rows < room and lefts < room:
        place = skip_spaces(data, at)
        byte = data[place]
        if byte == 10 or byte == 13:
            feeds += byte == 10
            at = place + 1
            continue
        is_plain = byte != 35
        if is_plain:
            for term in range(4):
                slot = term * room + rows
                starts[slot] = place
                ends[slot] = place
                kinds[slot] = np.uint8(3)
                byte = data[place]
                kept = np.int64(-1)
                behind = np.int64(-1)
                if byte == 60:
                    behind = iri_end(data, place, classes)
                    kinds[slot] = np.uint8(0)
                    kept = behind
                elif byte == 95 and term != 1 and data[place + 1] == 58:
                    behind = blank_end(data, place, classes)
                    kinds[slot] = np.uint8(1)
                    kept = behind
                elif byte == 34 and term == 2:
                    behind = quote_end(data, place, classes)
                    kinds[slot] = np.uint8(2)
                    kept = behind
                    if behind >= 0:
                        if data[behind] == 64:
                            behind = language_end(data, behind)
                            kept = behind
                        elif data[behind] == 94:
                            datatype = behind + 2
                            if data[behind + 1] == 94 and data[datatype] == 60:
                                behind = iri_end(data, datatype, classes)
                                if behind >= 0 and not is_same(data, datatype, behind, xsd_string, length):
                                    kept = behind
                            else:
                                behind = np.int64(-1)
                elif byte == 46 and term == 3:
                    break
                if behind < 0:
                    is_plain = False
                    break
                ends[slot] = kept
                place = skip_spaces(data, behind)
            if is_plain and data[place] == 46:
                place = skip_spaces(data, place + 1)
                byte = data[place]
                is_plain = byte == 10 or byte == 13 or byte == 35
            else:
                is_plain = False
            if is_plain:
                rows += 1
        stop = place
        while data[stop] != 10 and data[stop] != 13:
            stop += 1
        if not is_plain and data[skip_spaces(data, at)] != 35:
            left[2 * lefts] = at
            left[2 * lefts + 1] = stop
            lefts += 1
        feeds += data[stop] == 10
        at = stop + 1
    state[STOPPED] = at
    state[LEFT] = lefts
    state[FEEDS] = feeds
    return rows
