"""The words of a dictionary on a device, with their ids: what is computed there gets ids there."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.contract import Words
from gpuengine.kernels.cuda.columns import flag_equal
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.keyset import power_of_two
from gpuengine.kernels.cuda.set_kernels import EMPTY
from gpuengine.kernels.cuda.word_kernels import (
    claim_words,
    find_words,
    insert_word_numbers,
    settle_words,
    take_words,
)
from gpuengine.kernels.primitives import NONE


class WordMirror:
    """A copy of one space's words, as far as `follow` has come, and a hash table from words to ids.

    Words that only the device has seen cross the bus once, each alone: the host gives them their ids.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._known = device.empty(0, np.uint64)
        self._slots = device.full(1, EMPTY, np.uint64)
        self._count = 0

    def follow(self, table: Words) -> Array:
        """All words that the dictionary has now; uploads those that are missing here."""
        host, first = table.words, self._count
        if first < len(host):
            self._reserve(len(host))
            self._device.copy(self._known[first : len(host)], self._device.upload(host[first:]))
            self._count = len(host)
            self._enter(first)
        return self._known

    def ids(self, table: Words, words: Array, failed: Array) -> Array | None:
        """The ids of words, new ones added to the dictionary; None if `failed` says so.

        Waits once if no word is new.
        """
        device = self._device
        self.follow(table)
        ids = device.empty(len(words), np.uint32)
        self._find(table, words, ids, failed[1:])
        is_failed, is_missing = device.read(failed)
        if is_failed:
            return None
        if is_missing:
            unknown = device.empty(len(words), np.uint8)
            device.launch(flag_equal, len(words), ids, NONE, unknown)
            self._add(table, words, device.select(unknown))
            self._find(table, words, ids, failed[1:])
        return ids

    def _find(self, table: Words, words: Array, ids: Array, missing: Array) -> None:
        mask = len(self._slots) - 1
        args = words, table.identity, self._known, self._slots, mask, ids, missing
        self._device.launch(find_words, len(words), *args)

    def _add(self, table: Words, words: Array, asked: Array) -> None:
        """Have the dictionary give ids to the distinct words at the places asked for."""
        device = self._device
        self._make_slots(self._count + len(asked))
        places, new = device.empty(len(asked), np.uint64), device.empty(len(asked), np.uint8)
        mask = len(self._slots) - 1
        device.launch(claim_words, len(asked), asked, words, self._known, self._slots, mask, places, new)
        winners = device.select(new)
        fresh = device.empty(len(winners), np.uint64)
        device.launch(take_words, len(winners), winners, asked, words, fresh)
        given = table.intern(device.download(fresh))
        self._reserve(int(given.max()) + 1 - table.identity)
        ids = device.upload(given)
        args = winners, fresh, ids, table.identity, places, self._slots, self._known
        device.launch(settle_words, len(winners), *args)
        first = table.identity + self._count
        if np.array_equal(given, np.arange(first, first + len(given), dtype=np.uint32)):
            self._count += len(given)
        # Otherwise somebody else has added words meanwhile: `follow` copies them all, and enters the others.

    def _reserve(self, count: int) -> None:
        """Room for so many words."""
        if count > len(self._known):
            larger = self._device.empty(2 * count, np.uint64)
            self._device.copy(larger[: self._count], self._known[: self._count])
            self._known = larger

    def _make_slots(self, count: int) -> None:
        """Room for the numbers of so many words."""
        slots = power_of_two(2 * count)
        if slots > len(self._slots):
            self._slots = self._device.full(slots, EMPTY, np.uint64)
            args = 0, self._known, self._slots, slots - 1
            self._device.launch(insert_word_numbers, self._count, *args)

    def _enter(self, first: int) -> None:
        """Enter the words from number `first` on."""
        self._make_slots(self._count)
        args = first, self._known, self._slots, len(self._slots) - 1
        self._device.launch(insert_word_numbers, self._count - first, *args)
