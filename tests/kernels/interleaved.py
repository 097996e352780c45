"""A device that lets items take turns at every access to memory, in an order drawn from a seed.

Where compiled threads or the simulator's would have to meet by luck, here any item can be stopped between
reading a word and writing it. Atomic operations are one access. The same seed gives the same order.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gpuengine.kernels.cuda import atomics
from gpuengine.kernels.cuda.devices.device import HostArrays
from gpuengine.kernels.cuda.spec import AtomicOperation, DeviceKernel, bind


class InterleavedDevice(HostArrays):
    """A device of `lanes` items at a time."""

    name = "interleaved"

    def __init__(self, seed: int, lanes: int = 6) -> None:
        super().__init__()
        self.concurrency = lanes
        self._random = np.random.default_rng(seed)

    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        turns = _Turns(min(self.concurrency, items), self._random)
        given = [
            _Watched(arg, turns) if isinstance(arg, np.ndarray) else _SCALARS[code](arg)
            for code, arg in zip(kernel.signature, args, strict=True)
        ]
        body = bind(kernel.body, _ATOMICS, lambda function: function, {})
        waiting = self._random.permutation(items).tolist()

        def work() -> None:
            while waiting:
                body(np.int64(waiting.pop()), *given)

        turns.run(work)


class _Turns:
    """Threads of which one goes on at a time; at each `pause` the next one is drawn."""

    def __init__(self, lanes: int, random: np.random.Generator) -> None:
        self._random = random
        self._gates = {lane: threading.Semaphore(0) for lane in range(lanes)}
        self._lane = threading.local()
        self._errors: list[BaseException] = []

    def run(self, work: Any) -> None:
        threads = [threading.Thread(target=self._go, args=(lane, work)) for lane in self._gates]
        for thread in threads:
            thread.start()
        self._draw().release()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def pause(self) -> None:
        own, following = self._gates[self._lane.number], self._draw()
        if following is not own:
            following.release()
            own.acquire()

    def _draw(self) -> threading.Semaphore:
        lanes = list(self._gates)
        return self._gates[lanes[self._random.integers(len(lanes))]]

    def _go(self, lane: int, work: Any) -> None:
        self._lane.number = lane
        self._gates[lane].acquire()
        try:
            with np.errstate(over="ignore"):
                work()
        except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
            self._errors.append(error)
        finally:
            del self._gates[lane]
            if self._gates:
                self._draw().release()


class _Watched:
    """An array whose every access gives others their turn first."""

    def __init__(self, array: np.ndarray, turns: _Turns) -> None:
        self.array, self.turns = array, turns

    def __getitem__(self, index: Any) -> Any:
        self.turns.pause()
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.turns.pause()
        self.array[index] = value


def _at_once(operation: AtomicOperation) -> Any:
    def perform(watched: _Watched, *args: Any) -> Any:
        watched.turns.pause()
        return operation.body(watched.array, *args)

    return perform


_SCALARS = {"i8": np.int64, "u8": np.uint64}
_ATOMICS = {
    operation.name: _at_once(operation)
    for operation in vars(atomics).values()
    if isinstance(operation, AtomicOperation)
}
