"""Numbers and places of a profile, as text and page show them."""

from __future__ import annotations

from gpuengine.planning.explain import rounded
from gpuengine.profiling.profile import PlanProfile, Profile, RuleProfile, StepProfile

__all__ = [
    "bindings",
    "count",
    "expected",
    "kernels",
    "nbytes",
    "rounded",
    "seconds",
    "spent_in",
    "step",
    "when",
]


def seconds(number: float) -> str:
    """``1.23 s``, ``4.5 ms`` or ``12 µs``."""
    if number >= 1:
        return f"{number:,.2f} s"
    return f"{number * 1e3:.1f} ms" if number >= 1e-3 else f"{number * 1e6:.0f} µs"


def count(number: int) -> str:
    return f"{number:,}"


def nbytes(number: float) -> str:
    """In units of 1024."""
    for unit in ("B", "KB", "MB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GB"


def expected(rule: RuleProfile) -> str:
    """What the plans of a rule expected to reach its head; empty if that is unknown."""
    return f"~{rounded(rule.expected)}" if rule.expected is not None else ""


def when(plan: PlanProfile) -> str:
    """When a plan is used, and how it came about."""
    begin = "once" if plan.delta is None else f"for the new facts of {plan.delta}"
    times = f", planned {plan.times:,} times" if plan.times > 1 and plan.steps else ""
    times += ", with sizes assumed" if plan.assumed else ""
    return f"{begin}{times}: {plan.how}" if plan.how else f"{begin}{times}"


def step(one: StepProfile) -> str:
    """What a step reads, and how."""
    domain = f" [{one.domain}]" if one.domain in ("new", "old") else ""
    by = f" by ({', '.join(one.columns)})" if one.columns and one.access in ("probe", "exists") else ""
    return f"{one.literal}{domain}{by}"


def bindings(one: StepProfile, plan: PlanProfile) -> str:
    """How many bindings a step had, if they were counted."""
    return "" if one.measured is None else f"{'≤ ' if plan.at_most else ''}{one.measured:,}"


def spent_in(rule: RuleProfile) -> str:
    """Where a rule ran: ``cpu``, or the seconds of each place."""
    if len(rule.backends) < 2:
        return ", ".join(rule.backends)
    return ", ".join(f"{name} {seconds(spent)}" for name, spent in rule.backends.items())


def kernels(profile: Profile) -> str:
    """How long compiling took."""
    compiled = profile.compiled_kernels
    if not compiled:
        return "none, all were there"
    return f"{len(compiled):,} in {seconds(sum(compiled.values()))}, now cached"
