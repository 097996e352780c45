"""Arrays of devices whose memory is the host's: as little NumPy's as CuPy's arrays are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np


class HostArray:
    """An array in a device's memory. It can be sliced, asked for its form, and handed to others by DLPack.

    What takes a NumPy array refuses it, and its elements are read by `Device.read` only: with CuPy's arrays
    the one is an error too, and the other waits for the device where nobody expects it. `content` is for
    the device only.
    """

    __slots__ = ("content",)

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, content: np.ndarray) -> None:
        self.content = content

    @property
    def dtype(self) -> np.dtype:
        return self.content.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.content.shape

    @property
    def ndim(self) -> int:
        return self.content.ndim

    @property
    def size(self) -> int:
        return self.content.size

    @property
    def itemsize(self) -> int:
        return self.content.itemsize

    @property
    def nbytes(self) -> int:
        return self.content.nbytes

    def __len__(self) -> int:
        return len(self.content)

    def __getitem__(self, part: slice) -> HostArray:
        if not isinstance(part, slice):
            self._refuse()
        return HostArray(self.content[part])

    def tolist(self) -> list[Any]:
        """The elements as Python values: what CuPy's arrays offer to whoever is handed one."""
        found: list[Any] = self.content.tolist()
        return found

    def __dlpack__(self, **options: Any) -> Any:
        return self.content.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.content.__dlpack_device__()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a device's array is no NumPy array: read it by the device's methods")

    __array__ = __iter__ = __bool__ = __int__ = __float__ = __index__ = __eq__ = __setitem__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _refuse


class CountedMemory(np.ndarray):
    """The content of an array that calls `gone` with its size when it and all views of it are collected."""

    gone: Callable[[int], None] | None = None

    def __array_finalize__(self, origin: Any) -> None:
        self.gone = None

    def __del__(self) -> None:
        if self.gone is not None:
            self.gone(self.nbytes)
