"""A device that runs what kernels compile to: their PTX, interpreted, with threads interleaved at random."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np

from gpuengine.kernels.cuda.devices.assemble import to_ptx
from gpuengine.kernels.cuda.devices.device import HostArrays
from gpuengine.kernels.cuda.spec import DeviceKernel
from tests.kernels.cuda import ptx


class PtxDevice(HostArrays):
    """A device of `blocks` × `threads` interpreted threads of one compute capability."""

    name = "ptx"

    def __init__(
        self,
        capability: tuple[int, int] = (9, 0),
        blocks: int = 2,
        threads: int = 4,
        seed: int = 0,
        budget: int | None = None,
    ) -> None:
        super().__init__(budget)
        self.capability, self.blocks, self.threads = capability, blocks, threads
        self.concurrency = blocks * threads
        self._random = Random(seed)

    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        words, spans = [items], []
        for code, argument in zip(kernel.signature, args, strict=True):
            if code.endswith("*"):
                assert isinstance(argument, np.ndarray) and argument.itemsize == int(code[1]), (
                    kernel.name,
                    code,
                )
                words.append(argument.ctypes.data)
                spans.append((argument.ctypes.data, argument.nbytes))
            else:
                words.append(int(argument) & (1 << 64) - 1)
        entry = compiled(kernel, self.capability)
        ptx.run(entry, words, ptx.Memory(spans), self.blocks, self.threads, self._random)


@cache
def compiled(kernel: DeviceKernel, capability: tuple[int, int]) -> ptx.Entry:
    return ptx.parse(to_ptx(kernel, capability))
