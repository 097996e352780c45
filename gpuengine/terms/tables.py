"""Append-only hash tables that give distinct values dense indexes in order of first sight.

`WordTable` holds 64-bit words, `StringTable` byte strings, `RowTable` rows of ids.  All of them grow by
doubling, never forget and never change an index.  Any number of threads may add to a table and read it:
one at a time adds or looks up, a piece of a large batch at a time; to decode what is known takes no lock.
Arrays handed out stay valid when it grows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from gpuengine.errors import EvaluationError
from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.cpu.layout import WORDS_HEADER
from gpuengine.limits import charge
from gpuengine.terms.text import Text

MAX_ID = 2**32 - 2
"""The largest id a term can have; the id above it stays free as a mark for "none"."""

_FIRST_BITS = 10
_PIECE = 1 << 16
"""How many values are looked up or added before others get their turn."""


class _Slots:
    """What the tables share: the slots, the count, and growth. At most half of the slots are used."""

    __slots__ = ("_bits", "_first_id", "_lock", "_slots", "_space", "_state")

    def __init__(self, space: str, first_id: int) -> None:
        self._space = space
        self._first_id = first_id
        self._bits = _FIRST_BITS
        self._slots = np.zeros(1 << self._bits, np.uint64)
        self._state = np.zeros(2, np.int64)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._state[0])

    @property
    def first_id(self) -> int:
        """The id of the value with number 0."""
        return self._first_id

    @property
    def bound(self) -> int:
        """Every id given so far is below this."""
        return self._first_id + len(self)

    @property
    def _limit(self) -> int:
        """How many values the table may hold before it must grow."""
        return self._limit_with(self._bits)

    def _limit_with(self, bits: int) -> int:
        return int(min(1 << (bits - 1), MAX_ID + 1 - self._first_id))

    def _fill(
        self,
        rows: int,
        step: Callable[[int, int], int],
        ahead: Callable[[int], int] = lambda begin: begin,
    ) -> None:
        """Call ``step(begin, end)``, which tells where it stopped, until all rows are in, growing between.

        ``ahead(begin)`` tells how far rows are in without it; meanwhile others may add.
        """
        before, begin = len(self), 0
        while (begin := ahead(begin)) < rows:
            with self._lock:
                end = min(begin + _PIECE, rows)
                begin = step(begin, end)
                if begin < end:
                    self._grow_for(rows, begin, len(self) - before)

    def _grow_for(self, rows: int, done: int, fresh: int) -> None:
        """Make room for what is left of a batch, of which so many rows were done and so many values new."""
        if self.bound > MAX_ID:
            raise EvaluationError(
                f"more than {MAX_ID:,} distinct terms of type {self._space}: term ids have 32 bits. "
                "Split the data into several engines, or drop columns that no rule needs."
            )
        expected = len(self) + int(fresh / max(done, 1) * (rows - done))
        self._grow(expected if len(self) == self._limit else 0)

    def _look_up(self, rows: int, find: Callable[[int, int], object]) -> None:
        """Call ``find(begin, end)`` for all rows, a piece at a time."""
        for begin in range(0, rows, _PIECE):
            with self._lock:
                find(begin, min(begin + _PIECE, rows))

    def _grow(self, expected: int) -> None:
        """Make room: twice the slots if they are used up, more if `expected` values are foreseen."""
        from gpuengine.kernels.cpu.intern import grow_slots

        if len(self) == self._limit:
            bits = max(self._bits + 1, min(int(expected).bit_length() + 1, self._bits + 4))
            limit = self._limit_with(bits)
            charge((8 << bits) + self._value_bytes * limit, f"{len(self):,} terms of type {self._space}")
            slots = np.zeros(1 << bits, np.uint64)
            self._enlarge(limit)  # kernels take the slots' word for how many values there is room for
            grow_slots(self._slots, self._bits, slots, bits)
            self._slots, self._bits = slots, bits

    @property
    def _value_bytes(self) -> int:
        """What a value takes besides its slots."""
        return 8

    def _enlarge(self, limit: int) -> None:
        """Make room for so many values."""
        raise NotImplementedError


def _enlarged(array: np.ndarray, used: int, size: int) -> np.ndarray:
    """A new array of `size` elements that begins with the first `used` of `array`."""
    larger = np.empty(size, array.dtype)
    larger[:used] = array[:used]
    return larger


class WordTable(_Slots):
    """64-bit words. Words below `identity` are their own ids and take no room; the others follow them.

    Compiled code finds the table by `header` (see `kernels.cpu.layout`), which stays where it is.
    """

    __slots__ = ("__weakref__", "_words", "header", "identity")

    def __init__(self, space: str, identity: int) -> None:
        super().__init__(space, identity)
        self.identity = identity
        self._words = np.empty(self._limit, np.uint64)
        self.header = np.zeros(WORDS_HEADER, np.int64)
        self._point_header()

    @property
    def lock(self) -> threading.Lock:
        """Held by who adds words through `header`."""
        return self._lock

    def _point_header(self) -> None:
        self.header[:] = (
            address_of(self._slots), self._bits, address_of(self._words), address_of(self._state),
            self._limit, self.identity,
        )  # fmt: skip

    def make_room(self) -> None:
        """Room for more words than there are; the lock is held."""
        self._grow_for(0, 0, 0)

    def _grow(self, expected: int) -> None:
        super()._grow(expected)
        self._point_header()

    @property
    def words(self) -> np.ndarray:
        """The words with ids identity, identity + 1, ..."""
        return self._words[: len(self)]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._slots.nbytes + len(self) * 8

    def since(self, begin: int) -> tuple[np.ndarray, ...]:
        """The words from number `begin` on."""
        with self._lock:
            return (self.words[begin:],)

    def intern(self, words: np.ndarray) -> np.ndarray:
        """Ids of a contiguous uint64 array."""
        from gpuengine.kernels.cpu.intern import intern_words

        rows = len(words)
        ids = np.empty(rows, np.uint32)
        self._fill(
            rows,
            lambda begin, end: intern_words(
                words, begin, end, self._slots, self._bits, self._words, self._state, self._limit,
                self.identity, ids,
            ),
        )  # fmt: skip
        return ids

    def find(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(ids, known?) of a contiguous uint64 array; an id counts only where known."""
        from gpuengine.kernels.cpu.intern import find_words

        rows = len(words)
        ids, is_known = np.empty(rows, np.uint32), np.empty(rows, np.uint8)
        self._look_up(
            rows,
            lambda begin, end: find_words(
                words[begin:end], end - begin, self._slots, self._bits, self._words, self.identity,
                ids[begin:end], is_known[begin:end],
            ),
        )  # fmt: skip
        return ids, is_known.view(np.bool_)

    def _enlarge(self, limit: int) -> None:
        self._words = _enlarged(self._words, len(self), limit)


class StringTable(_Slots):
    """Byte strings in one arena; ids from 0."""

    __slots__ = ("_arena", "_offsets")

    def __init__(self, space: str) -> None:
        super().__init__(space, 0)
        self._offsets = np.zeros(self._limit + 1, np.int64)
        self._arena = np.empty(1 << 14, np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._slots.nbytes + (len(self) + 1) * 8 + int(self._offsets[len(self)])

    def since(self, begin: int) -> tuple[np.ndarray, ...]:
        """The strings with ids begin, begin + 1, ...: (offsets[n + 1] from 0, bytes); moves no bytes."""
        with self._lock:
            offsets = self._offsets[begin : len(self) + 1]
            return offsets - offsets[0], self._arena[int(offsets[0]) : int(offsets[-1])]

    def text(self, ids: np.ndarray) -> Text:
        """The strings of these ids; moves no bytes."""
        return Text(self._offsets[ids], self._offsets[1:][ids], self._arena)

    def intern(self, text: Text) -> np.ndarray:
        """Ids of strings."""
        from gpuengine.kernels.cpu.intern import intern_strings

        rows = len(text)
        ids = np.empty(rows, np.uint32)
        start, before = 0, len(self)

        def ahead(begin: int) -> int:
            """Pass over pieces like the last one, if that had few new strings: to look up takes no lock."""
            nonlocal start, before
            fresh = len(self) - before
            while start < begin < rows and 2 * fresh < begin - start:
                end = min(begin + _PIECE, rows)
                unknown = begin + np.flatnonzero(~self._find(text, begin, end, ids))
                ids[unknown] = self.intern(text.take(unknown))
                fresh, start, begin = len(unknown), begin, end
            start, before = begin, len(self)
            return begin

        def step(begin: int, end: int) -> int:
            stopped = intern_strings(
                text.starts, text.ends, text.data, begin, end, self._slots, self._bits,
                self._offsets, self._arena, len(self._arena), self._state, self._limit, ids,
            )  # fmt: skip
            if stopped < end:
                self._reserve(int(text.ends[stopped] - text.starts[stopped]))
            return stopped

        self._fill(rows, step, ahead)
        return ids

    def find(self, text: Text) -> tuple[np.ndarray, np.ndarray]:
        """(ids, known?) of strings; an id counts only where known."""
        ids = np.empty(len(text), np.uint32)
        return ids, self._find(text, 0, len(text), ids)

    def _find(self, text: Text, begin: int, end: int, ids: np.ndarray) -> np.ndarray:
        """Write the ids of the strings [begin, end) that are known now, and tell which those are.

        Strings that are there stay where they are in these arrays, whoever adds others.
        """
        from gpuengine.kernels.cpu.intern import find_strings

        with self._lock:
            slots, bits, offsets, arena = self._slots, self._bits, self._offsets, self._arena
            known = len(self)
        is_known = np.empty(end - begin, np.uint8)
        find_strings(
            text.starts[begin:end], text.ends[begin:end], text.data, end - begin, slots, bits,
            offsets, arena, known, ids[begin:end], is_known,
        )  # fmt: skip
        return is_known.view(np.bool_)

    def _reserve(self, length: int) -> None:
        """Room in the arena for one more string of `length` bytes, and for many when it must grow."""
        used = int(self._offsets[len(self)])
        if used + length > len(self._arena):
            size = max(2 * len(self._arena), used + 2 * length)
            charge(size, f"{len(self):,} terms of type {self._space}")
            self._arena = _enlarged(self._arena, used, size)

    def _enlarge(self, limit: int) -> None:
        self._offsets = _enlarged(self._offsets, len(self) + 1, limit + 1)


class RowTable(_Slots):
    """Rows of `width` ids; ids from `first_id`."""

    __slots__ = ("_rows", "width")

    def __init__(self, space: str, width: int, first_id: int) -> None:
        super().__init__(space, first_id)
        self.width = width
        self._rows = np.empty((self._limit, width), np.uint32)

    @property
    def rows(self) -> np.ndarray:
        """The rows with ids first_id, first_id + 1, ..."""
        return self._rows[: len(self)]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._slots.nbytes + self.rows.nbytes

    def since(self, begin: int) -> tuple[np.ndarray, ...]:
        """The rows from number `begin` on."""
        with self._lock:
            return (self.rows[begin:],)

    def intern(self, rows: np.ndarray) -> np.ndarray:
        """Ids of a C-contiguous uint32 matrix."""
        from gpuengine.kernels.cpu.intern import intern_rows

        count = len(rows)
        ids = np.empty(count, np.uint32)
        self._fill(
            count,
            lambda begin, end: intern_rows(
                rows, self.width, begin, end, self._slots, self._bits, self._rows, self._state,
                self._limit, ids,
            ),
        )  # fmt: skip
        ids += np.uint32(self._first_id)
        return ids

    def find(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(ids, known?) of a C-contiguous uint32 matrix; an id counts only where known."""
        from gpuengine.kernels.cpu.intern import find_rows

        count = len(rows)
        ids, is_known = np.empty(count, np.uint32), np.empty(count, np.uint8)
        self._look_up(
            count,
            lambda begin, end: find_rows(
                rows[begin:end], self.width, end - begin, self._slots, self._bits, self._rows,
                ids[begin:end], is_known[begin:end],
            ),
        )  # fmt: skip
        ids += np.uint32(self._first_id)
        return ids, is_known.view(np.bool_)

    @property
    def _value_bytes(self) -> int:
        return 4 * self.width

    def _enlarge(self, limit: int) -> None:
        larger = np.empty((limit, self.width), np.uint32)
        larger[: len(self)] = self._rows[: len(self)]
        self._rows = larger
