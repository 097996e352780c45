"""What users hand in (NumPy, Arrow, lists) as the plain arrays the term tables take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuengine.errors import DataError
from gpuengine.terms import text
from gpuengine.terms.text import Text


def pieces(values: Any) -> Sequence[Any]:
    """The chunks of an Arrow chunked array, or `values` alone."""
    chunks = getattr(values, "chunks", None)
    return [values] if chunks is None else chunks


def is_dictionary(values: Any) -> bool:
    """Is this a dictionary-encoded Arrow array?"""
    return hasattr(values, "dictionary") and hasattr(values, "indices")


def dictionary_parts(values: Any, space: str) -> tuple[np.ndarray, Any]:
    """(codes, entries) of a dictionary-encoded Arrow array without nulls."""
    _reject_nulls(values, space)
    return _fixed_width(values.indices), values.dictionary


def words(values: Any, space: str, dtype: Any) -> np.ndarray:
    """`values` as an array of `dtype` (int64, uint64 or float64), if it holds them exactly."""
    if _is_arrow(values):
        _reject_nulls(values, space)
        values = _fixed_width(values)
    array = np.asarray(values)
    if array.dtype == dtype:
        return array
    kind, wanted = array.dtype.kind, np.dtype(dtype).kind
    if array.size == 0:
        return np.zeros(0, dtype)
    if kind not in "iub" and not (kind == wanted == "f"):
        raise DataError(f"expected values of type {space}, got {array.dtype}")
    if wanted == "u" and kind == "i":
        _reject_rows(array < 0, array, space)
    if wanted == "i" and kind == "u" and array.dtype.itemsize == 8:
        _reject_rows(array > np.uint64(2**63 - 1), array, space)
    return array.astype(dtype)


def strings(values: Any, space: str) -> Text:
    """`values` (Arrow strings or bytes, a NumPy or Python sequence of str) as `Text`."""
    if not _is_arrow(values):
        # Not by pa.array: it imports pandas and pyarrow.compute, which takes longer than many programs.
        plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
        odd = next((row for row, value in enumerate(plain) if not isinstance(value, str)), None)
        if odd is not None:
            raise DataError(f"row {odd + 1}: expected text for type {space}, got {plain[odd]!r}")
        return text.from_strings(plain)
    _reject_nulls(values, space)
    if not str(values.type).startswith(("string", "large_string", "binary", "large_binary", "null")):
        raise DataError(f"expected text for values of type {space}, got {values.type}")
    return text.from_arrow(values)


def _is_arrow(values: Any) -> bool:
    return hasattr(values, "buffers") and hasattr(values, "null_count")


def _fixed_width(array: Any) -> np.ndarray:
    """The values of a primitive Arrow array without nulls, in place."""
    try:
        dtype = np.dtype(array.type.to_pandas_dtype())
    except NotImplementedError:
        dtype = np.dtype(object)
    if dtype.kind not in "iuf":
        raise DataError(f"expected numbers, got a column of {array.type}")
    if len(array) == 0:
        return np.zeros(0, dtype)
    # A buffer may end with bytes that are no whole number.
    return np.frombuffer(array.buffers()[1], dtype, array.offset + len(array))[array.offset :]


def _reject_nulls(array: Any, space: str) -> None:
    if array.null_count:
        row = 0
        validity = array.buffers()[0]
        if validity is not None:
            bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
            row = int(np.argmin(bits[array.offset : array.offset + len(array)]))
        raise DataError(f"row {row + 1} is null: a term of type {space} can't be")


def _reject_rows(bad: np.ndarray, array: np.ndarray, space: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(f"row {row + 1}: {array[row]} is out of range for type {space}")
