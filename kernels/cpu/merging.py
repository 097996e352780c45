"""The best value of each key, offered and told within the compiled loop over small rounds.

What pipelines derive for a relation that keeps a least or greatest value is collected in a buffer. `absorb`
offers it to the arrays of a `BestValues`, and `tell` appends what has got better to the relation's rows, as
`BestValues.offer` and `improved` do for columns. Whatever is rare is left to them: new keys without room,
many values that wait, and ids that the relation does not admit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.contract import Words
from gpuengine.kernels.cpu.atomics import as_i8, as_u1, as_u4
from gpuengine.kernels.cpu.best import (
    HAS_VALUE,
    IS_FAR,
    IS_NEAR,
    MOST,
    NO_NUMBER,
    THRESHOLD,
    improve_key,
    order_key,
)
from gpuengine.kernels.cpu.code import BY_FLOAT, BY_NUMBER, BY_UNSIGNED
from gpuengine.kernels.cpu.groups import BestValues
from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.cpu.layout import (
    MERGE_BEST,
    MERGE_BEST_IDS,
    MERGE_BOUNDS,
    MERGE_BUFFER,
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
    MERGE_RELEASED,
    MERGE_REPRESENTATION,
    MERGE_ROOM,
    MERGE_ROW_OF,
    MERGE_SHARED,
    MERGE_STATE,
    MERGE_WORDS,
    ROWS_CAPACITY,
    ROWS_COLUMNS,
    ROWS_COUNT,
)
from gpuengine.kernels.cpu.locator import home_of, is_same
from gpuengine.kernels.cpu.rows import Rows

HOLDING, LOWEST = 0, 2
TOLD = 0
ROWS_NEEDED = 1
NOT_HERE = 2
_BUFFER_ROWS = 1 << 12
_REPRESENTATIONS = {"number": BY_NUMBER, "unsigned": BY_UNSIGNED, "float": BY_FLOAT}


@device
def directly_numbered(merge, keys, id):
    """The number of a key of one id by its place; a new one if there is room, else NO_NUMBER."""
    if id >= merge[MERGE_PLACES_SIZE]:
        return np.int64(NO_NUMBER)
    places = as_u4(merge[MERGE_PLACES])
    if places[id] == np.uint32(0):
        known = keys[ROWS_COUNT]
        if known >= merge[MERGE_ROOM]:
            return np.int64(NO_NUMBER)
        as_u4(keys[ROWS_COLUMNS])[known] = np.uint32(id)
        keys[ROWS_COUNT] = known + 1
        places[id] = np.uint32(known + 1)
    return np.int64(places[id]) - 1


@device
def numbered(merge, keys, arity):
    """The number of the key that lies behind the last one; it stays there as a new one if it is none yet."""
    table = as_u4(merge[MERGE_LOCATOR])
    size = merge[MERGE_LOCATOR_SIZE]
    known = keys[ROWS_COUNT]
    place = home_of(keys, arity, known, size)
    while table[place] != np.uint32(0):
        number = np.int64(table[place]) - 1
        if is_same(keys, number, keys, known, arity):
            return number
        place = place + 1 if place + 1 < size else 0
    table[place] = np.uint32(known + 1)
    keys[ROWS_COUNT] = known + 1
    return known


@device
def number_of_row(merge, buffer, row, columns):
    """The number of the key of a row of the buffer, or NO_NUMBER if there is no room for a new one."""
    keys = as_i8(merge[MERGE_KEYS])
    if merge[MERGE_PLACES_SIZE] > 0:
        if columns == 1:  # there is one key only
            return directly_numbered(merge, keys, np.int64(0))
        column = ROWS_COLUMNS + (1 if merge[MERGE_COLUMN] == 0 else 0)
        return directly_numbered(merge, keys, np.int64(as_u4(buffer[column])[row]))
    known = keys[ROWS_COUNT]
    if known >= merge[MERGE_ROOM]:
        return np.int64(NO_NUMBER)
    key = 0
    for j in range(columns):
        if j != merge[MERGE_COLUMN]:
            as_u4(keys[ROWS_COLUMNS + key])[known] = as_u4(buffer[ROWS_COLUMNS + j])[row]
            key += 1
    if columns == 1:
        as_u4(keys[ROWS_COLUMNS])[known] = np.uint32(0)
        key = 1
    return numbered(merge, keys, key)


@device
def absorb(merge, columns):
    """Offer the rows of the buffer, of so many columns, and empty it; False if a new key has no room."""
    buffer = as_i8(merge[MERGE_BUFFER])
    ids = ROWS_COLUMNS + merge[MERGE_COLUMN]
    for row in range(buffer[ROWS_COUNT]):
        id = np.int64(as_u4(buffer[ids])[row])
        number = number_of_row(merge, buffer, row, columns)
        if number == NO_NUMBER:
            return False
        improve_key(merge, number, order_key(merge, id), id)
    buffer[ROWS_COUNT] = 0
    return True


@device
def release(merge):
    """Have all that is far be near, if that is not too much; False if it is."""
    counts = as_i8(merge[MERGE_COUNTS])
    near, far = as_u4(merge[MERGE_NEAR]), as_u4(merge[MERGE_FAR])
    state, best = as_u1(merge[MERGE_STATE]), as_i8(merge[MERGE_BEST])
    if counts[1] > merge[MERGE_RELEASED]:
        return False
    marks = as_i8(merge[MERGE_MARKS])
    found = 0
    for i in range(counts[1]):
        number = np.int64(far[i])
        if state[number] & (IS_NEAR | IS_FAR) == IS_FAR:
            marks[THRESHOLD] = best[number] if found == 0 else max(marks[THRESHOLD], best[number])
            state[number] = np.uint8(HAS_VALUE | IS_NEAR)
            near[found] = far[i]
            found += 1
    counts[0] = found
    counts[1] = 0
    return True


@device
def lowest_near(merge):
    near, best = as_u4(merge[MERGE_NEAR]), as_i8(merge[MERGE_BEST])
    lowest = MOST
    for i in range(as_i8(merge[MERGE_COUNTS])[0]):
        lowest = min(lowest, best[np.int64(near[i])])
    return lowest


@device
def admits(merge, column, id):
    return merge[MERGE_BOUNDS + 2 * column] <= id < merge[MERGE_BOUNDS + 2 * column + 1]


@device
def write_row(merge, rows, columns, number, row):
    """Write the fact of a key; False if the relation does not admit it."""
    keys = as_i8(merge[MERGE_KEYS])
    key = 0
    for j in range(columns):
        if j == merge[MERGE_COLUMN]:
            id = as_u4(merge[MERGE_BEST_IDS])[number]
        else:
            id = as_u4(keys[ROWS_COLUMNS + key])[number]
            key += 1
        if not admits(merge, j, np.int64(id)):
            return False
        as_u4(rows[ROWS_COLUMNS + j])[row] = id
    return True


@device
def tell(merge, rows, columns):
    """Append to the relation's rows what got better: TOLD, ROWS_NEEDED, or NOT_HERE, but by `improved`."""
    counts, marks = as_i8(merge[MERGE_COUNTS]), as_i8(merge[MERGE_MARKS])
    if marks[HOLDING] != 0:
        if counts[0] == 0 and counts[1] != 0 and not release(merge):
            return NOT_HERE
        if counts[0] > merge[MERGE_RELEASED]:
            return NOT_HERE
    if counts[0] == 0:
        return TOLD
    if rows[ROWS_COUNT] + counts[0] > rows[ROWS_CAPACITY]:
        return ROWS_NEEDED
    if marks[HOLDING] != 0 and lowest_near(merge) < marks[LOWEST]:
        return NOT_HERE
    near, state = as_u4(merge[MERGE_NEAR]), as_u1(merge[MERGE_STATE])
    start = rows[ROWS_COUNT]
    for i in range(counts[0]):
        if not write_row(merge, rows, columns, np.int64(near[i]), start + i):
            return NOT_HERE
    if marks[HOLDING] != 0:
        marks[LOWEST] = lowest_near(merge)
    for i in range(counts[0]):
        number = np.int64(near[i])
        state[number] = np.uint8(HAS_VALUE)
        as_i8(merge[MERGE_ROW_OF])[number] = start + i
    rows[ROWS_COUNT] = start + counts[0]
    counts[0] = 0
    return TOLD


class RoundMerge:
    """What the compiled loop needs to know of a relation that keeps the best value of each key.

    `buffer` is what its pipelines write to. Whoever changes `best` otherwise calls `refresh` before the loop
    goes on, and `note_numbered` after it has ended.
    """

    def __init__(
        self, best: BestValues, arity: int, column: int, space: str, words: Words, *, largest: bool
    ) -> None:
        self.best = best
        self.words = words
        self.buffer = Rows(arity, _BUFFER_ROWS)
        self.row_of = np.zeros(0, np.int64)
        self.header = np.zeros(MERGE_BOUNDS + 2 * arity, np.int64)
        self.header[MERGE_REPRESENTATION] = _REPRESENTATIONS[space]
        self.header[MERGE_COLUMN] = column
        self.header[MERGE_LARGEST] = largest
        self.header[MERGE_WORDS] = address_of(words.header)
        self.header[MERGE_BUFFER] = self.buffer.address
        self.address = address_of(self.header)

    def refresh(self, bounds: list[tuple[int, int]], row_of: np.ndarray) -> None:
        """Where everything is by now, with the table's bounds, and its row for each key and some more."""
        self.row_of = row_of
        self.header[MERGE_BOUNDS:] = np.array(bounds, np.int64).ravel()
        self.header[MERGE_ROW_OF] = address_of(row_of)
        self.best.describe(self.header)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Have several threads improve values."""
        self.header[MERGE_SHARED] = 1
        try:
            yield
        finally:
            self.header[MERGE_SHARED] = 0

    def note_numbered(self) -> None:
        """The loop has numbered keys."""
        self.best.keys.note_numbered()
