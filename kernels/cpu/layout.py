"""The headers through which kernels find arrays: each is one int64 array of counts and addresses.

A header outlives the arrays it points to (they move when they grow), so everything compiled into
a pipeline refers to headers and never to the arrays themselves.

rows    count, capacity, delta start, delta end, then the address of each column (uint32)
set     see `keyset`: kind, data, capacity, columns, refused, then (base, stride, extent) for each column
index   see `rowindex`
words   a dictionary's table of 64-bit words, see `intern`
merge   a relation that keeps the best value of each key, see `best` and `merging`
"""

from __future__ import annotations

ROWS_COUNT = 0
ROWS_CAPACITY = 1
ROWS_DELTA_START = 2
ROWS_DELTA_END = 3
ROWS_COLUMNS = 4

SET_KIND = 0
SET_DATA = 1
SET_CAPACITY = 2
SET_ARITY = 3
SET_REFUSED = 4  # not 0: a row with an id outside the extents was to be inserted, and was not
SET_COLUMNS = 5
BITMAP = 0
HASHED = 1
WIDE = 2

INDEX_SLOTS = 0  # uint32 words: the slots, one after the other
INDEX_SLOT_COUNT = 1
INDEX_SLOT_CAPACITY = 2
INDEX_PAYLOAD = 3  # uint32 rows of the columns that are not keys
INDEX_PAYLOAD_USED = 4
INDEX_PAYLOAD_CAPACITY = 5
INDEX_WIDTH = 6
INDEX_HASHED = 7  # 0: a slot is addressed by its key; 1: slots are an open-addressing table
INDEX_FREE = 8  # uint32 heads of the lists of free blocks, by size class
INDEX_ROUND = 9
INDEX_KEYS = 10
INDEX_COLUMNS = 11  # (column, base, stride, extent) for each key, then the payload's column numbers

SLOT_START = 0
SLOT_LENGTH = 1
SLOT_OLD = 2
SLOT_ROUND = 3
SLOT_WORDS = 4
KEY_WORDS = 2  # a hashed slot has its key + 1 before it, low word first; 0 is an empty slot
HASHED_WORDS = 6

WORDS_SLOTS = 0  # uint64
WORDS_BITS = 1
WORDS_DATA = 2  # uint64: the words, in the order of their ids
WORDS_STATE = 3  # int64: the first is the number of words
WORDS_LIMIT = 4  # how many words there may be before the table must grow
WORDS_IDENTITY = 5  # words below are their own ids, the others' follow
WORDS_HEADER = 6

MERGE_REPRESENTATION = 0  # how values compare, as of `code.COMPARE`
MERGE_LARGEST = 1  # 1: the greater value is the better one
MERGE_COLUMN = 2  # of the value
MERGE_WORDS = 3  # header of the words that values are
MERGE_BUFFER = 4  # header of the rows that are offered
MERGE_KEYS = 5  # header of the rows of keys, by number
MERGE_LOCATOR = 6  # uint32: by content, the number of a key + 1
MERGE_LOCATOR_SIZE = 7
MERGE_PLACES = 8  # uint32: by id, the number of a key + 1
MERGE_PLACES_SIZE = 9  # 0: keys are found by content
MERGE_ROOM = 10  # how many keys there may be
MERGE_BEST = 11  # int64, by number
MERGE_BEST_IDS = 12  # uint32, by number
MERGE_STATE = 13  # uint8, by number: see `best`
MERGE_NEAR = 14  # uint32 numbers
MERGE_FAR = 15  # uint32 numbers
MERGE_COUNTS = 16  # int64: how many are near, and far
MERGE_MARKS = 17  # int64: is anything held back, threshold, lowest value told
MERGE_RELEASED = 18  # so many keys at most are told at once, if anything is held back
MERGE_ROW_OF = 19  # int64: the row of each key's fact
MERGE_SHARED = 20  # 1: several threads improve values
MERGE_BOUNDS = 21  # (least id, one past the greatest) for each column of the relation
