"""Arrow arrays from Python and NumPy values and back, without `pa.array` and `to_numpy`.

Those import pandas wherever it is installed, to ask whether they deal with a Series: half a second
that reading a fact file or a list of tuples need not pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_MAX_STRING_BYTES = 2**31 - 1


def column(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """An array of `values`, which are all int (and fit), float, or str, as `type` says.

    A string array whose text exceeds 2 GB is a large_string array. Raises `OverflowError` for an int
    that does not fit, `UnicodeEncodeError` for a str that is not Unicode.
    """
    if pa.types.is_string(type):
        return _strings([value.encode() for value in values])
    return from_numpy(np.array(values, type.to_pandas_dtype()))


def from_numpy(values: np.ndarray) -> pa.Array:
    """An array over the memory of a NumPy column, of the type its dtype says."""
    if values.dtype.kind not in "iuf" or isinstance(values, np.ma.MaskedArray):
        return pa.array(values)
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    type = pa.from_numpy_dtype(native.dtype)
    return pa.Array.from_buffers(type, len(native), [None, pa.py_buffer(native)])


def values(array: pa.Array, dtype: type[np.generic], more: int = 0) -> np.ndarray:
    """The first data buffer of an array without nulls: its numbers, or with `more` = 1 its offsets."""
    buffer = array.buffers()[1]
    whole = buffer.size // np.dtype(dtype).itemsize  # it may end with bytes that are no whole number
    return np.frombuffer(buffer, dtype, whole)[array.offset :][: len(array) + more]


def _strings(encoded: list[bytes]) -> pa.Array:
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    data = pa.py_buffer(b"".join(encoded))
    if offsets[-1] > _MAX_STRING_BYTES:
        return pa.LargeStringArray.from_buffers(len(encoded), pa.py_buffer(offsets), data)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets.astype(np.int32)), data)
