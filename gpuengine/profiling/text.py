"""A profile as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuengine.profiling import words
from gpuengine.profiling.profile import Profile, RuleProfile, ThreadProfile

_RULES, _STRATA, _RELATIONS, _PLANS = 25, 15, 15, 5


def told(profile: Profile) -> str:
    """Phases, strata, rules and relations, what took most of each, and the plans of the slowest rules."""
    return "\n".join(_lines(profile)) + "\n"


def _lines(profile: Profile) -> Iterator[str]:
    yield f"Profile of {profile.program}" if profile.program else "Profile"
    if profile.work != "evaluation":
        yield f"  {profile.work}"
    yield "  " + ", ".join(f"{name} {words.seconds(spent)}" for name, spent in profile.seconds.items())
    yield (
        f"  {profile.rounds:,} rounds, {profile.facts:,} facts, {profile.threads} threads, "
        f"{profile.backend}; kernels compiled: {words.kernels(profile)}"
    )
    yield f"  outside rules (schemes, indexes, planning): {words.seconds(profile.outside_rules)}"
    yield ""
    strata = sorted(profile.strata, key=lambda one: -one.seconds)
    rows = [
        (
            f"{one.number}",
            words.seconds(one.began),
            words.seconds(one.seconds),
            ", ".join(f"{n:,} on {where}" for where, n in one.rounds.items()),
            _cut(", ".join(one.relations)),
        )
        for one in strata[:_STRATA]
    ]
    yield from _table(("stratum", "began at", "took", "rounds", "relations"), rows, "rrrll")
    yield from _rest(len(strata), _STRATA, "strata")
    if len(profile.threads_busy) > 1:
        yield ""
        for number, thread in enumerate(profile.threads_busy, 1):
            yield f"thread {number:2} worked {words.seconds(thread.seconds):>8}  {_bar(thread)}"
    yield ""
    has_lost = any(rule.lost for rule in profile.rules)
    lost = ("lost",) if has_lost else ()
    yield from _table(
        ("time", "candidates", "derived", *lost, "duplicates", "expected", "on", "rule"),
        [(*_numbers(rule, has_lost=has_lost), _cut(_rule_line(rule))) for rule in profile.rules[:_RULES]],
        "rrrr" + "r" * has_lost + "rll",
    )
    yield from _rest(len(profile.rules), _RULES, "rules")
    yield ""
    yield from _table(
        ("memory", "facts", "stored as", "relation"),
        [
            (words.nbytes(one.nbytes + one.counter_nbytes), f"{one.facts:,}", one.scheme, one.name)
            for one in profile.relations[:_RELATIONS]
        ],
        "rrll",
    )
    yield from _rest(len(profile.relations), _RELATIONS, "relations")
    yield f"{words.nbytes(profile.terms_nbytes)} of terms"
    for rule in profile.rules[:_PLANS]:
        if rule.plans:
            yield ""
            yield _rule_line(rule)
            yield from _plans(rule)


def _bar(thread: ThreadProfile) -> str:
    """How busy a thread was, from the beginning to the end: a full block all of the time, a blank never."""
    marks = " ▁▂▃▄▅▆▇█"
    most = len(marks) - 1
    return "".join(marks[min(round(most * busy / thread.stretch), most)] for busy in thread.busy)


def _plans(rule: RuleProfile) -> Iterator[str]:
    if rule.evaluator:
        yield f"  {rule.evaluator}"
    for plan in rule.plans:
        yield f"  {words.when(plan)}"
        for number, step in enumerate(plan.steps, 1):
            facts = f", {step.facts:,} facts there" if step.facts is not None else ""
            there = words.bindings(step, plan)
            there = f", {there} there were" if there else ""
            told = f"~{words.rounded(step.expected)} bindings expected{there}{facts}"
            yield f"    {number}. {step.access:9} {words.step(step)}  {told}"


def _rule_line(rule: RuleProfile) -> str:
    text = " ".join(rule.text.split())
    return f"{rule.places[0]}: {text}" if rule.places else text


def _numbers(rule: RuleProfile, *, has_lost: bool) -> tuple[str, ...]:
    return (
        words.seconds(rule.seconds),
        f"{rule.candidates:,}",
        f"{rule.derived:,}{'+' if rule.uncounted else ''}",
        *([f"{rule.lost:,}"] if has_lost else []),
        f"{rule.duplicates:,}{'+' if rule.uncounted else ''}",
        words.expected(rule),
        words.spent_in(rule),
    )


def _cut(text: str, width: int = 100) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _rest(total: int, shown: int, what: str) -> Iterator[str]:
    if total > shown:
        yield f"… {total - shown:,} more {what} that took less; JSON has all"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    for row in (headers, *rows):
        cells = (
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        )
        yield "  ".join(cells).rstrip()
