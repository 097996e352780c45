"""Sums of doubles by group, each exact and rounded once: see `kernels.exact_sums`."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels import exact_sums
from gpuengine.kernels.cpu.atomics import prefetch
from gpuengine.kernels.cpu.code import AHEAD
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.exact_sums import PART_MASK, PARTS, ROWS_OF_ROOM, Window

flag_of = device(exact_sums.flag_of)
place_of = device(exact_sums.place_of)
significand_of = device(exact_sums.significand_of)
carry = device(exact_sums.carry)
rounded = device(exact_sums.rounded)


@kernel("i8(u8*, i8, i8)")
def find_parts(words, n, parts):
    """The least and the greatest part with the lowest bit of a finite double, in one number; -1: of none."""
    least = np.int64(parts)
    greatest = np.int64(-1)
    for i in range(n):
        if flag_of(words[i]) == np.uint32(0):
            part = place_of(words[i]) >> np.int64(5)
            least = min(least, part)
            greatest = max(greatest, part)
    if greatest < 0:
        return greatest
    return least * parts + greatest


@kernel("i8(u4*, u8*, i8, i8, i8, i8*, u4*, i8*)")
def add_exactly(groups, words, n, low, width, parts, flags, counts):
    """Add doubles to the parts of their groups, and to the counts."""
    for i in range(n):
        if i + AHEAD < n:
            later = np.int64(groups[i + AHEAD])
            prefetch(counts, later)
            prefetch(parts, later * width + (place_of(words[i + AHEAD]) >> np.int64(5)) - low)
        group = np.int64(groups[i])
        counts[group] += 1
        word = words[i]
        flag = flag_of(word)
        if flag != np.uint32(0):
            flags[group] |= flag
            continue
        place = place_of(word)
        shift = place & np.int64(31)
        at = group * width + (place >> np.int64(5)) - low
        significand = significand_of(word)
        lower = (significand & np.int64(PART_MASK)) << shift
        upper = (significand >> np.int64(32)) << shift
        first = lower & np.int64(PART_MASK)
        second = (lower >> np.int64(32)) + (upper & np.int64(PART_MASK))
        third = upper >> np.int64(32)
        if np.int64(word) < np.int64(0):
            parts[at] -= first
            parts[at + 1] -= second
            parts[at + 2] -= third
        else:
            parts[at] += first
            parts[at + 1] += second
            parts[at + 2] += third
    return n


@kernel("i8(i8*, i8, i8)")
def carry_all(parts, groups, width):
    """Pass the carries of all groups on."""
    for group in range(groups):
        carry(parts, group * width, width)
    return groups


@kernel("i8(i8*, u4*, i8, i8, i8, u8*)")
def round_all(parts, flags, groups, low, width, words):
    """The bits of the sums of all groups; carries are passed on."""
    for group in range(groups):
        start = group * width
        carry(parts, start, width)
        words[group] = rounded(parts, start, width, low, flags[group])
    return groups


class ExactSums:
    """The sum of the doubles of each of `groups` groups, and in `counts` how many they are."""

    def __init__(self, groups: int, *, room: int = ROWS_OF_ROOM) -> None:
        self._groups, self._room = groups, room
        self._window = Window(0, 0)
        self._parts = np.zeros(0, np.int64)
        self._flags = np.zeros(groups, np.uint32)
        self._rows = 0
        self.counts = np.zeros(groups, np.int64)

    def add(self, groups: np.ndarray, values: np.ndarray) -> None:
        """More doubles, and the number of each one's group."""
        for start in range(0, len(groups), self._room):
            piece = slice(start, start + self._room)
            self._add(
                np.ascontiguousarray(groups[piece], np.uint32),
                np.ascontiguousarray(values[piece], np.float64),
            )

    def _add(self, groups: np.ndarray, values: np.ndarray) -> None:
        words = values.view(np.uint64)
        self._make_room(words)
        add_exactly(
            groups, words, len(groups), self._window.low, self._window.width,
            self._parts, self._flags, self.counts,
        )  # fmt: skip

    def _make_room(self, words: np.ndarray) -> None:
        if self._rows + len(words) > self._room:
            carry_all(self._parts, self._groups, self._window.width)
            self._rows = 0
        self._rows += len(words)
        touched = find_parts(words, len(words), PARTS)
        if touched < 0:
            return
        window = self._window.holding(*divmod(touched, PARTS))
        if window == self._window:
            return
        parts = np.zeros((self._groups, window.width), np.int64)
        if self._window.width:
            first = self._window.low - window.low
            parts[:, first : first + self._window.width] = self._parts.reshape(self._groups, -1)
        self._window, self._parts = window, parts.reshape(-1)

    def results(self) -> np.ndarray:
        """The sum of each group; 0 of one without values."""
        words = np.zeros(self._groups, np.uint64)
        round_all(self._parts, self._flags, self._groups, self._window.low, self._window.width, words)
        return words.view(np.float64)
