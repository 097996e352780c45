"""The best value of each key, improved in place by atomic operations: any number of threads may do so.

`improve_key` offers one value. A value is kept as its id; `best` has an integer for each that is less for
the better one, and never grows, so that a thread that reads it late only takes pains for nothing. Keys get
numbers elsewhere, while no thread is here.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import (
    as_i8,
    as_u1,
    as_u4,
    atomic_add,
    atomic_min,
    atomic_or,
    compare_and_swap,
    float_of,
    prefetch,
)
from gpuengine.kernels.cpu.calculation import word_of
from gpuengine.kernels.cpu.code import BY_FLOAT, BY_UNSIGNED
from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.cpu.keyset import mix, place_of
from gpuengine.kernels.cpu.layout import (
    MERGE_BEST,
    MERGE_BEST_IDS,
    MERGE_COLUMN,
    MERGE_COUNTS,
    MERGE_FAR,
    MERGE_KEYS,
    MERGE_LARGEST,
    MERGE_LOCATOR,
    MERGE_LOCATOR_SIZE,
    MERGE_MARKS,
    MERGE_NEAR,
    MERGE_PLACES,
    MERGE_PLACES_SIZE,
    MERGE_REPRESENTATION,
    MERGE_SHARED,
    MERGE_STATE,
    MERGE_WORDS,
    ROWS_COLUMNS,
)

THRESHOLD = 1
NO_NUMBER = -1
NO_VALUE = 0xFFFFFFFF
"""The id of a key that has no value yet."""
MOST = np.int64(np.iinfo(np.int64).max)
SIGN = np.uint64(1 << 63)
HAS_VALUE, IS_NEAR, IS_FAR = 1, 2, 4
"""The state of a key: it has a value, is to be found among those to be told next, and among the others."""


@device
def order_of_word(merge, word):
    """`order_key` of a value by its word."""
    key = np.int64(word)
    if merge[MERGE_REPRESENTATION] == BY_UNSIGNED:
        key = np.int64(word ^ SIGN)
    elif merge[MERGE_REPRESENTATION] == BY_FLOAT:
        value = float_of(word)
        if value != value:  # NaN comes last
            return MOST
        if key < 0:
            key ^= MOST
    return ~key if merge[MERGE_LARGEST] != 0 else key


@device
def order_key(merge, id):
    """An integer that is less for the better of two values, as `terms.ranks.order_keys` makes them."""
    return order_of_word(merge, word_of(as_i8(merge[MERGE_WORDS]), id))


@device
def note_improved(merge, number, value):
    """Have a key be told of, soon if its value is not above the threshold; for one thread."""
    state, counts = as_u1(merge[MERGE_STATE]), as_i8(merge[MERGE_COUNTS])
    flags = state[number]
    if value <= as_i8(merge[MERGE_MARKS])[THRESHOLD]:
        if not flags & IS_NEAR:
            as_u4(merge[MERGE_NEAR])[counts[0]] = np.uint32(number)
            counts[0] += 1
        state[number] = np.uint8(flags | HAS_VALUE | IS_NEAR)
    else:
        if not flags & IS_FAR:
            as_u4(merge[MERGE_FAR])[counts[1]] = np.uint32(number)
            counts[1] += 1
        state[number] = np.uint8(flags | HAS_VALUE | IS_FAR)


@device
def note_among_others(merge, number, value):
    """`note_improved` for one of several threads. Flags are only set meanwhile: what is seen is there."""
    state, counts = as_u1(merge[MERGE_STATE]), as_i8(merge[MERGE_COUNTS])
    if value <= as_i8(merge[MERGE_MARKS])[THRESHOLD]:
        if not state[number] & IS_NEAR:
            flags = atomic_or(state, number, np.uint8(HAS_VALUE | IS_NEAR))
            if not flags & IS_NEAR:
                as_u4(merge[MERGE_NEAR])[atomic_add(counts, 0, 1)] = np.uint32(number)
    elif not state[number] & IS_FAR:
        flags = atomic_or(state, number, np.uint8(HAS_VALUE | IS_FAR))
        if not flags & IS_FAR:
            as_u4(merge[MERGE_FAR])[atomic_add(counts, 1, 1)] = np.uint32(number)


@device
def improve_key(merge, number, value, id):
    """Offer a value to a key, as its integer and as its id.

    Atomic operations have a processor wait for all that it has read: one thread by itself does without.
    """
    best, ids = as_i8(merge[MERGE_BEST]), as_u4(merge[MERGE_BEST_IDS])
    if value >= best[number] and best[number] < MOST:
        return
    if merge[MERGE_SHARED] == 0:
        if value < best[number] or ids[number] == np.uint32(NO_VALUE):
            best[number] = value
            ids[number] = np.uint32(id)
            note_improved(merge, number, value)
        return
    seen = ids[number]
    while seen == np.uint32(NO_VALUE) or value < order_key(merge, np.int64(seen)):
        found = compare_and_swap(ids, number, seen, np.uint32(id))
        if found == seen:
            atomic_min(best, number, value)
            note_among_others(merge, number, value)
            return
        seen = found


@device
def key_home(merge, row, columns):
    """Where the search for the key of a row of ids begins, as `locator.home_of` has it for a row of keys."""
    arity = columns - 1
    hashed = np.uint64(arity)
    for k in range(0, arity, 2):
        word = np.uint64(row[k if k < merge[MERGE_COLUMN] else k + 1])
        if k + 1 < arity:
            word |= np.uint64(row[k + 1 if k + 1 < merge[MERGE_COLUMN] else k + 2]) << np.uint64(32)
        hashed = mix(hashed ^ word)
    return place_of(hashed, merge[MERGE_LOCATOR_SIZE])


@device
def is_key_of(merge, number, row, columns):
    """Is a row of ids one of the key with this number?"""
    keys = as_i8(merge[MERGE_KEYS])
    for k in range(columns - 1):
        id = row[k if k < merge[MERGE_COLUMN] else k + 1]
        if np.int64(as_u4(keys[ROWS_COLUMNS + k])[number]) != id:
            return False
    return True


@device
def expect_key(merge, row, columns):
    """Have the place in memory where a row's key is looked up fetched ahead."""
    if merge[MERGE_PLACES_SIZE] > 0:
        id = row[1 if merge[MERGE_COLUMN] == 0 else 0] if columns > 1 else np.int64(0)
        if id < merge[MERGE_PLACES_SIZE]:
            prefetch(as_u4(merge[MERGE_PLACES]), id)
    elif columns > 1 and merge[MERGE_LOCATOR_SIZE] > 0:
        prefetch(as_u4(merge[MERGE_LOCATOR]), key_home(merge, row, columns))


@device
def known_number(merge, row, columns):
    """The number of the key of a row of ids, NO_NUMBER if it has none yet."""
    if merge[MERGE_PLACES_SIZE] > 0:
        id = np.int64(0)
        if columns > 1:
            id = row[1 if merge[MERGE_COLUMN] == 0 else 0]
        if id >= merge[MERGE_PLACES_SIZE]:
            return np.int64(NO_NUMBER)
        return np.int64(as_u4(merge[MERGE_PLACES])[id]) - 1
    table = as_u4(merge[MERGE_LOCATOR])
    size = merge[MERGE_LOCATOR_SIZE]
    if columns == 1 or size == 0:
        return np.int64(NO_NUMBER)
    place = key_home(merge, row, columns)
    while table[place] != np.uint32(0):
        number = np.int64(table[place]) - 1
        if is_key_of(merge, number, row, columns):
            return number
        place = place + 1 if place + 1 < size else 0
    return np.int64(NO_NUMBER)


@device
def improves_known(merge, row, columns):
    """Offer the value of a row of ids to its key; False if that has no number, and the row must be kept."""
    number = known_number(merge, row, columns)
    if number == NO_NUMBER:
        return False
    id = row[merge[MERGE_COLUMN]]
    improve_key(merge, number, order_key(merge, id), id)
    return True
