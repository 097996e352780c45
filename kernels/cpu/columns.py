"""Operations on whole columns of ids: bounds, distinct rows, selection, how many distinct ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cpu import keyset

SAMPLE = 1 << 16


def bounds(columns: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    """For each column the least id and one past the greatest."""
    return [(int(column.min()), int(column.max()) + 1) for column in columns]


def select(columns: Sequence[np.ndarray], mask: np.ndarray) -> tuple[list[np.ndarray], int]:
    """The rows where the mask holds; nothing is copied if it holds everywhere."""
    count = int(np.count_nonzero(mask))
    if count == len(mask):
        return list(columns), count
    return [column[mask] for column in columns], count


def distinct_rows(columns: Sequence[np.ndarray], count: int) -> tuple[list[np.ndarray], int]:
    """Sort rows lexicographically and drop duplicates."""
    if not columns:
        return [], min(count, 1)
    if len(columns) == 1:
        ordered_ids = np.sort(columns[0])
        unique = ordered_ids[np.concatenate(([True], ordered_ids[1:] != ordered_ids[:-1]))]
        return [unique], len(unique)
    if len(columns) == 2:
        packed = columns[0].astype(np.uint64) << np.uint64(32)
        packed |= columns[1]
        if not _strictly_increasing(packed):
            packed.sort()
            packed = packed[np.concatenate(([True], packed[1:] != packed[:-1]))]
        return [(packed >> np.uint64(32)).astype(np.uint32), packed.astype(np.uint32)], len(packed)
    narrow = _packed(columns)
    if narrow is not None:
        return narrow
    order = np.lexsort(tuple(reversed(columns)))
    ordered = [column[order] for column in columns]
    keep = np.zeros(count, np.bool_)
    keep[0] = True
    for column in ordered:
        keep[1:] |= column[1:] != column[:-1]
    kept = [column[keep] for column in ordered]
    return kept, len(kept[0])


def _packed(columns: Sequence[np.ndarray]) -> tuple[list[np.ndarray], int] | None:
    """Distinct rows in order, if a row's ids fit one word: that is sorted faster than by columns."""
    widths = [int(column.max()).bit_length() for column in columns]
    if sum(widths) > 64:
        return None
    packed = columns[0].astype(np.uint64)
    for column, width in zip(columns[1:], widths[1:], strict=True):
        packed <<= np.uint64(width)
        packed |= column
    if not _strictly_increasing(packed):
        packed.sort()
        packed = packed[np.concatenate(([True], packed[1:] != packed[:-1]))]
    unpacked = []
    for width in reversed(widths):
        unpacked.append((packed & np.uint64((1 << width) - 1)).astype(np.uint32))
        packed = packed >> np.uint64(width)
    return unpacked[::-1], len(packed)


def _strictly_increasing(keys: np.ndarray) -> bool:
    return bool(np.all(keys[1:] > keys[:-1]))


def estimate_distinct(column: np.ndarray) -> float:
    """Distinct ids of a sample; if most of it is distinct, scaled up to the whole column."""
    count = len(column)
    sample = column if count <= SAMPLE else column[:: count // SAMPLE]
    low = int(sample.min())
    extent = int(sample.max()) - low + 1
    if extent <= 64 * len(sample) + 4096:
        bits = np.zeros(extent // 64 + 1, np.uint64)
        seen = keyset.count_distinct(np.ascontiguousarray(sample), len(sample), low, bits)
    else:
        ordered = np.sort(sample)
        seen = int(np.count_nonzero(ordered[1:] != ordered[:-1])) + 1
    if len(sample) == count or seen < len(sample) // 4:
        return float(seen)
    return float(min(count, seen * (count / len(sample)) ** 0.75))
