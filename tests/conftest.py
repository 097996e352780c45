"""Hypothesis profiles: ``fast`` by default, the same examples each time; HYPOTHESIS_PROFILE=deep searches.

Memory of emulated devices is poisoned in all tests: what is read before it is written is never 0 by chance.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from gpuengine.kernels.cuda.devices.device import HostArrays

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "fast", max_examples=25, derandomize=True, deadline=None, suppress_health_check=QUIET
)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As scripts have it for what runs in the background. Tests send it, also to processes that inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Read by every JVM of Spark that a test starts.
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark_conf"))

POISON = 0xA5


@pytest.fixture(scope="session", autouse=True)
def _poisoned_device_memory() -> Iterator[None]:
    clean = HostArrays._empty

    def poisoned(self: HostArrays, count: int, dtype: Any) -> Any:
        array = clean(self, count, dtype)
        array.content.view(np.ndarray).view(np.uint8)[:] = POISON
        return array

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostArrays, "_empty", poisoned)
        yield
