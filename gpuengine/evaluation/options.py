"""`Options`: what was asked of an engine when it was made, one checked value for everything below."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuengine.errors import GpuEngineError
from gpuengine.evaluation.placement.accelerator import Accelerator, find_accelerator
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.contract import Backend
from gpuengine.limits import parse_size
from gpuengine.machine import usable_cores


@dataclass(frozen=True, slots=True)
class Options:
    """`memory` is in bytes (None: most of what is free). With `always`, strata begin on the accelerator.

    `schemes` and `evaluators` are those that were asked for, by relation or rule. `modules` evaluates
    transitivity on tables in its own way. With `counting`, maintenance keeps derivation counters. `wait` is
    how many seconds a thread waits for others (None: as long as it takes).
    """

    threads: int = 1
    memory: int | None = None
    accelerator: Accelerator = field(default_factory=Accelerator)
    always: bool = False
    schemes: Mapping[str, str] = field(default_factory=dict)
    evaluators: Mapping[str, str] = field(default_factory=dict)
    modules: bool = True
    counting: bool = False
    wait: float | None = None

    @classmethod
    def read(
        cls,
        *,
        threads: int | None = None,
        memory: str | int | None = None,
        backend: str | Backend = "auto",
        device: int = 0,
        device_memory: str | int | None = None,
        thresholds: Thresholds | None = None,
        schemes: Mapping[str, str] | None = None,
        evaluators: Mapping[str, str] | None = None,
        modules: bool = True,
        counting: bool = False,
        wait: float | None = 60.0,
    ) -> Options:
        """Options as users give them; raises `GpuEngineError` for what can't be one."""
        cores = usable_cores() if threads is None else _thread_count(threads)
        size = parse_size(memory) if memory is not None else None
        device_size = parse_size(device_memory) if device_memory is not None else None
        _check_device(device)
        if thresholds is not None and not isinstance(thresholds, Thresholds):
            raise GpuEngineError(f"thresholds must be a Thresholds, not {thresholds!r}")
        return cls(
            cores,
            size,
            find_accelerator(backend, device, device_size, thresholds),
            backend == "cuda",
            _by_name("schemes", schemes, "path", "closure"),
            _by_name("evaluators", evaluators, "path", "join"),
            modules,
            counting,
            check_wait(wait),
        )


def check_wait(wait: float | None) -> float | None:
    """How long to wait, if it is a number of seconds; raises if not."""
    is_number = isinstance(wait, int | float) and not isinstance(wait, bool)
    if wait is not None and not (is_number and 0 <= wait < threading.TIMEOUT_MAX):
        raise GpuEngineError(
            f"wait must be a number of seconds, 0 or more, or None (as long as it takes), not {wait!r}"
        )
    return wait


def _thread_count(threads: int) -> int:
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise GpuEngineError(f"threads must be a whole number above 0, not {threads!r}")
    return threads


def _by_name(option: str, given: Mapping[str, str] | None, name: str, value: str) -> dict[str, str]:
    """What is asked for by name; `name` and `value` are an example of it."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise GpuEngineError(f"{option} go by name, as {option}={{{name!r}: {value!r}}}, not {given!r}")
    return dict(given)


def _check_device(device: int) -> None:
    if isinstance(device, bool) or not isinstance(device, int) or device < 0:
        raise GpuEngineError(f"device must be the number of a GPU, 0 or more, not {device!r}")
