"""Sums of doubles that do not depend on the order in which they are added: exact, and rounded once.

A double is a whole number of 2**-1074. Its bits are added to 64-bit *parts*, one for each 32 bits of such a
number, the lowest first; a double touches three that follow each other. The upper half of a part is room for
carries: for those of `ROWS_OF_ROOM` doubles before they must be passed on. A group keeps the parts from the
lowest to the highest that its values, or those of its neighbours, touch, and one for the last carry; what is
no finite number is a flag.

The functions here are compiled for the host and for devices alike, so that both round the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

PART_BITS = 32
PART_MASK = (1 << PART_BITS) - 1
FRACTION_BITS = 52
FRACTION = (1 << FRACTION_BITS) - 1
EXPONENT = 0x7FF
SIGN = 1 << 63
INFINITE = EXPONENT << FRACTION_BITS
NOT_A_NUMBER = INFINITE | 1 << (FRACTION_BITS - 1)
IS_NAN, IS_INFINITE, IS_NEGATIVE_INFINITE = 1, 2, 4
ROWS_OF_ROOM = 1 << 29
PARTS = 64
"""The numbers of parts that the lowest bit of a double can stand in."""
_MORE_PARTS = 3
"""Besides the one with a double's lowest bit: two that it touches, and one for the carry."""


class Window(NamedTuple):
    """The parts that groups keep, side by side: `width` from the number `low` on."""

    low: int
    width: int

    def holding(self, least: int, greatest: int) -> Window:
        """As this, or wide enough for doubles whose lowest bits are in the parts from least to greatest."""
        if not self.width:
            return Window(least, greatest - least + 1 + _MORE_PARTS)
        low = min(self.low, least)
        return Window(low, max(self.low + self.width, greatest + 1 + _MORE_PARTS) - low)


def flag_of(word: Any) -> Any:
    """What to note of a double by its bits: 0 if it is finite."""
    if word & np.uint64(INFINITE) != np.uint64(INFINITE):
        return np.uint32(0)
    if word & np.uint64(FRACTION) != np.uint64(0):
        return np.uint32(IS_NAN)
    if word & np.uint64(SIGN) != np.uint64(0):
        return np.uint32(IS_NEGATIVE_INFINITE)
    return np.uint32(IS_INFINITE)


def place_of(word: Any) -> Any:
    """Where the lowest bit of a finite double's significand stands, counted from that of 2**-1074."""
    exponent = np.int64(word >> np.uint64(FRACTION_BITS) & np.uint64(EXPONENT))
    if exponent == np.int64(0):
        return exponent
    return exponent - np.int64(1)


def significand_of(word: Any) -> Any:
    """The significand of a finite double, as a whole number of 53 bits without its sign."""
    significand = np.int64(word & np.uint64(FRACTION))
    if word >> np.uint64(FRACTION_BITS) & np.uint64(EXPONENT) != np.uint64(0):
        significand |= np.int64(1 << FRACTION_BITS)
    return significand


def carry(parts: Any, start: Any, width: Any) -> Any:
    """Pass carries on, so that all parts but the last, which has the sign, are below 2**32.

    There may be none: where all values are zero, or not finite.
    """
    carried = np.int64(0)
    for place in range(start, start + width - 1):
        total = parts[place] + carried
        parts[place] = total & np.int64(PART_MASK)
        carried = total >> np.int64(PART_BITS)
    if width > 0:
        parts[start + width - 1] += carried
    return carried


def rounded(parts: Any, start: Any, width: Any, low: Any, flags: Any) -> Any:
    """The bits of the double nearest to a sum, to the even one of two, after `carry`.

    `low` is the number of the first part among those that there could be.
    """
    if flags != np.uint32(0):
        if flags == np.uint32(IS_INFINITE):
            return np.uint64(INFINITE)
        if flags == np.uint32(IS_NEGATIVE_INFINITE):
            return np.uint64(SIGN | INFINITE)
        return np.uint64(NOT_A_NUMBER)
    last = start + width - 1
    lowest = start
    while lowest <= last and parts[lowest] == np.int64(0):
        lowest += 1
    if lowest > last:
        return np.uint64(0)
    # Of a negative sum, the parts of what is as far from zero: negated with a borrow from the lowest that
    # is not zero on.
    negative = parts[last] < np.int64(0)
    highest = last
    top = np.int64(0)
    while top == np.int64(0):
        top = parts[highest]
        if negative:
            top = -top if highest == last else np.int64(PART_MASK) + np.int64(1) - top
            if highest > lowest:
                top -= np.int64(1)
        highest -= 1
    highest += 1
    # The first 64 bits from the highest one on, and in the last of them whether there is more below.
    second = np.int64(0)
    third = np.int64(0)
    if highest - 1 >= lowest:
        second = parts[highest - 1]
        if negative:
            second = np.int64(PART_MASK) - second
            if highest - 1 == lowest:
                second += np.int64(1)
    if highest - 2 >= lowest:
        third = parts[highest - 2]
        if negative:
            third = np.int64(PART_MASK) - third
            if highest - 2 == lowest:
                third += np.int64(1)
    shift = np.int64(0)
    while top << shift < np.int64(1 << (PART_BITS - 1)):
        shift += 1
    word = (np.uint64(top) << np.uint64(PART_BITS) | np.uint64(second)) << np.uint64(shift)
    rest = np.uint64(third) << np.uint64(shift)
    word |= rest >> np.uint64(PART_BITS)
    if rest & np.uint64(PART_MASK) != np.uint64(0) or lowest < highest - 2:
        word |= np.uint64(1)
    # Round to 53 bits.
    significand = word >> np.uint64(11)
    below = word & np.uint64(2047)
    if below > np.uint64(1024) or (below == np.uint64(1024) and significand & np.uint64(1) == np.uint64(1)):
        significand += np.uint64(1)
    place = (low + highest - start - 1) * np.int64(PART_BITS) - shift + np.int64(11)
    if significand == np.uint64(1 << (FRACTION_BITS + 1)):
        significand >>= np.uint64(1)
        place += 1
    if place < np.int64(0):
        # Below the least normal double; nothing was rounded, and nothing is lost.
        bits = significand >> np.uint64(-place)
    elif place + 1 >= np.int64(EXPONENT):
        bits = np.uint64(INFINITE)
    else:
        bits = np.uint64(place + 1) << np.uint64(FRACTION_BITS) | significand & np.uint64(FRACTION)
    if negative:
        bits |= np.uint64(SIGN)
    return bits
