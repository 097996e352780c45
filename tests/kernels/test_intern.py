"""Interning kernels against a Python dict, with hashes that collide on purpose."""

from __future__ import annotations

import numpy as np
import pytest

from gpuengine.kernels.cpu import intern

MASK = 2**64 - 1


def unmix(y: int) -> int:
    """The inverse of `intern.mix`."""
    y = y ^ (y >> 31) ^ (y >> 62)
    y = y * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    y = y ^ (y >> 27) ^ (y >> 54)
    y = y * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    return y ^ (y >> 30) ^ (y >> 60)


def words_with_hash(hash_: int, count: int) -> np.ndarray:
    """Distinct words whose 32-bit hash is `hash_`."""
    words = [(unmix(hash_ << 32 | low) - 0x9E3779B97F4A7C15) & MASK for low in range(count)]
    return np.array(words, np.uint64)


def first_seen(values: list[object]) -> list[int]:
    known: dict[object, int] = {}
    return [known.setdefault(value, len(known)) for value in values]


def test_the_colliding_words_do_collide() -> None:
    with np.errstate(over="ignore"):
        hashes = {int(intern.hash_word(word)) for word in words_with_hash(0xDEADBEEF, 5)}
    assert hashes == {0xDEADBEEF}


@pytest.mark.parametrize("hash_", [0, 1, 0xFFFFFFFF, 0x80000000])
def test_words_with_one_hash(hash_: int) -> None:
    distinct = words_with_hash(hash_, 400)
    words = np.concatenate([distinct, distinct[::-1], words_with_hash(hash_ ^ 1, 50)])
    slots, table, state = np.zeros(1024, np.uint64), np.empty(512, np.uint64), np.zeros(2, np.int64)
    ids = np.empty(len(words), np.uint32)
    assert intern.intern_words(words, 0, len(words), slots, 10, table, state, 512, 0, ids) == len(words)
    assert ids.tolist() == first_seen(words.tolist()) and state[0] == 450
    larger = np.zeros(4096, np.uint64)
    intern.grow_slots(slots, 10, larger, 12)
    again, found = np.empty(len(words), np.uint32), np.empty(len(words), np.uint8)
    assert intern.find_words(words, len(words), larger, 12, table, 0, again, found) == len(words)
    assert again.tolist() == ids.tolist()
    strangers = words_with_hash(hash_, 420)[400:]
    assert intern.find_words(strangers, 20, larger, 12, table, 0, again, found) == 0
    assert not found[:20].any()


def test_a_full_table_stops_at_the_row_that_does_not_fit() -> None:
    words = np.arange(100, 700, dtype=np.uint64) % np.uint64(400) + np.uint64(100)
    slots, table, state = np.zeros(512, np.uint64), np.empty(256, np.uint64), np.zeros(2, np.int64)
    ids = np.empty(len(words), np.uint32)
    assert intern.intern_words(words, 0, len(words), slots, 9, table, state, 256, 0, ids) == 256
    assert state[0] == 256 and ids[:256].tolist() == list(range(256))


def test_words_below_identity_are_their_own_ids() -> None:
    words = np.array([5, 2**63, 9, 10, 5, 10], np.uint64)
    slots, table, state = np.zeros(1024, np.uint64), np.empty(512, np.uint64), np.zeros(2, np.int64)
    ids = np.empty(6, np.uint32)
    intern.intern_words(words, 0, 6, slots, 10, table, state, 512, 10, ids)
    assert ids.tolist() == [5, 10, 9, 11, 5, 11] and table[:2].tolist() == [2**63, 10]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 40])
def test_strings_that_differ_in_one_byte(length: int) -> None:
    base = bytes(range(65, 65 + length))
    values = [base, base + b"\0", *(base[:i] + b"!" + base[i + 1 :] for i in range(length)), base]
    data = np.frombuffer(b"#".join(values) + b"#", np.uint8)
    ends = np.cumsum([len(v) + 1 for v in values]) - 1
    starts = ends - [len(v) for v in values]
    n = len(values)
    slots, offsets, arena = np.zeros(1024, np.uint64), np.zeros(513, np.int64), np.empty(4096, np.uint8)
    state, ids = np.zeros(2, np.int64), np.empty(n, np.uint32)
    done = intern.intern_strings(
        starts, ends, data, 0, n, slots, 10, offsets, arena, len(arena), state, 512, ids
    )
    assert done == n and ids.tolist() == first_seen(list(values))
    kept = [arena[offsets[i] : offsets[i + 1]].tobytes() for i in range(state[0])]
    assert kept == list(dict.fromkeys(values))


def test_a_full_arena_stops_at_the_row_that_does_not_fit() -> None:
    data = np.frombuffer(b"aaaabbbbcccc", np.uint8)
    starts, ends = np.array([0, 4, 0, 8]), np.array([4, 8, 4, 12])
    slots, offsets, arena = np.zeros(1024, np.uint64), np.zeros(513, np.int64), np.empty(10, np.uint8)
    state, ids = np.zeros(2, np.int64), np.empty(4, np.uint32)
    assert (
        intern.intern_strings(starts, ends, data, 0, 4, slots, 10, offsets, arena, 10, state, 512, ids) == 3
    )
    assert ids[:3].tolist() == [0, 1, 0] and state[0] == 2


@pytest.mark.parametrize("width", [1, 2, 5])
def test_rows(width: int) -> None:
    rng = np.random.default_rng(width)
    rows = rng.integers(0, 4, (600, width)).astype(np.uint32)
    slots, table = np.zeros(4096, np.uint64), np.empty((2048, width), np.uint32)
    state, ids = np.zeros(2, np.int64), np.empty(600, np.uint32)
    assert intern.intern_rows(rows, width, 0, 600, slots, 12, table, state, 2048, ids) == 600
    assert ids.tolist() == first_seen([tuple(row) for row in rows.tolist()])
    found = np.empty(1, np.uint8)
    strange = np.full((1, width), 9, np.uint32)
    assert intern.find_rows(strange, width, 1, slots, 12, table, ids, found) == 0 and found[0] == 0
