"""Hypothesis profiles: ``fast`` by default, the same examples each time; HYPOTHESIS_PROFILE=deep searches."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "fast", max_examples=25, derandomize=True, deadline=None, suppress_health_check=QUIET
)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
