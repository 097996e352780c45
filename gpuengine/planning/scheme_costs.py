"""When a compact scheme costs less than a table."""

from __future__ import annotations

from gpuengine.schemes.estimate import ClosureEstimate

LEAST_PAIRS = 300_000
"""A closure of fewer pairs is small, and fast, as a table."""
LEAST_GROWTH = 4
"""A closure with fewer pairs than so many times its edges is as small as a table."""
OFF = 10
"""An estimate that is wrong by such a factor is made again."""


def is_worth_while(estimate: ClosureEstimate) -> tuple[bool, str]:
    """Is a closure better than a table, and why?"""
    about = f"about {estimate.pairs:,.0f} pairs from {estimate.edges:,} edges"
    if not estimate.complete:
        about = f"at least {about}"
    if estimate.pairs < LEAST_PAIRS:
        return False, f"{about} are few"
    if estimate.pairs < LEAST_GROWTH * estimate.edges:
        return False, f"it is sparse: {about}"
    return True, about


def has_outgrown(facts: int, estimate: ClosureEstimate) -> bool:
    """Does a table hold far more than was expected of its closure when it became a table?"""
    return facts > OFF * max(estimate.pairs, LEAST_PAIRS)
