"""Arrays of emulated devices refuse what CuPy's refuse, so that no test passes that a GPU would fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.cuda.columns import take_every
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice

MISUSES: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "array": np.array,
    "function": np.flatnonzero,
    "concatenate": lambda array: np.concatenate([array, array]),
    "ufunc": lambda array: np.ones(3, np.uint32) + array,
    "reflected": lambda array: array + np.ones(3, np.uint32),
    "assignment to NumPy's": lambda array: np.zeros(3, np.uint32).__setitem__(slice(None), array),
    "element": lambda array: array[0],
    "elements": lambda array: array[np.array([0, 1])],
    "iteration": list,
    "all": all,
    "truth": bool,
    "number": int,
    "equality": lambda array: array == array,
    "order": lambda array: array < 1,
    "membership": lambda array: 1 in array,
    "writing": lambda array: array.__setitem__(slice(None), 0),
    "hash": hash,
}


@pytest.mark.parametrize("misuse", MISUSES)
@pytest.mark.parametrize("count", [1, 3])
def test_refused(misuse: str, count: int) -> None:
    array = EmulatedDevice(1).upload(np.arange(count, dtype=np.uint32))
    with pytest.raises(TypeError):
        MISUSES[misuse](array)


def test_what_is_allowed() -> None:
    device = EmulatedDevice(1)
    array = device.upload(np.arange(6, dtype=np.uint32))
    part = array[1:4]
    assert (len(part), part.dtype, part.nbytes, part.shape, part.ndim) == (3, np.uint32, 12, (3,), 1)
    assert device.owns(part)
    device.copy(part, device.full(3, 9, np.uint32))
    assert device.download(array).tolist() == [0, 9, 9, 9, 4, 5]
    assert np.from_dlpack(part).tolist() == [9, 9, 9]


def test_a_kernel_takes_arrays_of_the_device_for_pointers_and_for_nothing_else() -> None:
    device = EmulatedDevice(1)
    array = device.upload(np.arange(6, dtype=np.uint32))
    out = device.empty(3, np.uint32)
    device.launch(take_every, 3, array, 2, out)
    assert device.download(out).tolist() == [0, 2, 4]
    with pytest.raises(TypeError, match="not ndarray"):
        device.launch(take_every, 3, np.arange(6, dtype=np.uint32), 2, out)
    with pytest.raises(TypeError, match="takes i8, not HostArray"):
        device.launch(take_every, 3, array, array, out)
    with pytest.raises(ValueError, match="longer"):
        device.launch(take_every, 3, array, 2, out, out)


def test_memory_is_counted_until_the_last_slice_and_the_last_borrower_are_gone() -> None:
    device = EmulatedDevice(1)
    array = device.empty(100, np.uint32)
    part, borrowed = array[10:20][2:4], np.from_dlpack(array)
    del array
    assert device.memory()[0] == 400
    del part
    assert device.memory()[0] == 400
    del borrowed
    assert device.memory()[0] == 0
