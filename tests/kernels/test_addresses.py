"""The addresses that kernels are handed are those of the arrays."""

from __future__ import annotations

import numpy as np
import pytest

from gpuengine.kernels.addresses import address_of, data_address


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(5, np.uint32),
        np.zeros(0, np.int64),
        np.arange(10, dtype=np.uint8)[3:7],
        np.arange(12, dtype=np.int64).reshape(3, 4).T,
        np.arange(12, dtype=np.int64)[::-2],
        np.frombuffer(b"read only", np.uint8),
        np.zeros(3, np.float64).view(np.recarray),
    ],
    ids=lambda array: f"{type(array).__name__}-{array.dtype}-{array.shape}-{array.strides}",
)
def test_an_address_is_what_numpy_says(array: np.ndarray) -> None:
    assert data_address(array) == address_of(array) == array.ctypes.data
    assert data_address(array) == array.__array_interface__["data"][0]
