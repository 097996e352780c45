"""Kernels of `WordMirror`: from the words of a space to their ids, by a hash table of the words' numbers.

A slot is EMPTY, or has the number of a word in `known`. While a batch is added it may have a candidate's
place in that batch with `CANDIDATE` set; winners' slots get numbers afterwards. All words are possible keys,
so slots have numbers instead.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.atomics import compare_and_swap
from gpuengine.kernels.cuda.set_kernels import CANDIDATE, EMPTY, mix
from gpuengine.kernels.cuda.spec import device_kernel
from gpuengine.kernels.primitives import NONE


@device_kernel("u8*, u8, u8*, u8*, u8, u4*, u4*", streamed=12, random=2)
def find_words(i, words, identity, known, slots, mask, ids, missing):
    """The ids of words; NONE for one that is not known, which sets `missing`."""
    word = words[i]
    if word < identity:
        ids[i] = np.uint32(word)
    else:
        slot = np.int64(mix(word) & mask)
        while True:
            seen = slots[slot]
            if seen == np.uint64(EMPTY):
                ids[i] = np.uint32(NONE)
                missing[0] = np.uint32(1)
                break
            if known[np.int64(seen)] == word:
                ids[i] = np.uint32(seen + identity)
                break
            slot = np.int64(np.uint64(slot + 1) & mask)


@device_kernel("u4*, u8*, u8*, u8*, u8, u8*, u1*", streamed=13, random=4)
def claim_words(i, asked, words, known, slots, mask, places, new):
    """new[i]: is the word at ``asked[i]`` not known, and the one of its equals that got the slot?"""
    word = words[asked[i]]
    slot = np.int64(mix(word) & mask)
    new[i] = 0
    while True:
        seen = slots[slot]
        if seen == np.uint64(EMPTY):
            mine = np.uint64(CANDIDATE) | np.uint64(asked[i])
            seen = compare_and_swap(slots, slot, np.uint64(EMPTY), mine)
            if seen == np.uint64(EMPTY):
                places[i] = np.uint64(slot)
                new[i] = 1
                break
        number = np.int64(seen & np.uint64(CANDIDATE - 1))
        if seen >= np.uint64(CANDIDATE):
            if words[number] == word:
                break
        elif known[number] == word:
            break
        slot = np.int64(np.uint64(slot + 1) & mask)


@device_kernel("u4*, u4*, u8*, u8*", streamed=12, random=1)
def take_words(i, winners, asked, words, out):
    """The words of those that won, for the dictionary."""
    out[i] = words[asked[winners[i]]]


@device_kernel("u4*, u8*, u4*, u8, u8*, u8*, u8*", streamed=16, random=3)
def settle_words(i, winners, fresh, ids, identity, places, slots, known):
    """Winner i has got an id: say so in its slot, and what it stands for."""
    number = np.uint64(ids[i]) - identity
    known[np.int64(number)] = fresh[i]
    slots[np.int64(places[winners[i]])] = number


@device_kernel("i8, u8*, u8*, u8", streamed=8, random=2)
def insert_word_numbers(i, first, known, slots, mask):
    """Insert the number ``first + i`` of a word, unless it is there."""
    word = known[first + i]
    slot = np.int64(mix(word) & mask)
    while True:
        seen = compare_and_swap(slots, slot, np.uint64(EMPTY), np.uint64(first + i))
        if seen == np.uint64(EMPTY) or known[np.int64(seen)] == word:
            break
        slot = np.int64(np.uint64(slot + 1) & mask)
