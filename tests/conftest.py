"""Hypothesis profiles: ``fast`` by default, the same examples each time; HYPOTHESIS_PROFILE=deep searches."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "fast", max_examples=25, derandomize=True, deadline=None, suppress_health_check=QUIET
)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As scripts have it for what runs in the background. Tests send it, also to processes that inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
