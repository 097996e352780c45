"""What stands in a place of a table: the text shown, and the number for machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench import table as style
from bench.schemes.published import MoreThan, Number
from bench.schemes.run import Result


@dataclass(frozen=True, slots=True)
class Value:
    text: str
    raw: Any = None


@dataclass(slots=True)
class Sheet:
    """A table: a row is a value for each header, whose line breaks are as shown. `notes` stand below it."""

    title: str
    headers: tuple[str, ...]
    rows: list[tuple[Value, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        keys = [header.replace("\n", " ") for header in self.headers]
        rows = [dict(zip(keys, (value.raw for value in row), strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": self.notes}


NOTHING = Value("–")


def text(value: str) -> Value:
    return Value(value, value)


def count(value: float | None) -> Value:
    """A number of facts, exact below ten million."""
    if value is None:
        return NOTHING
    if value < 1e7:
        return Value(f"{value:,.0f}", value)
    return Value(f"{value / 1e6:,.1f} M" if value < 1e9 else f"{value / 1e9:,.2f} B", value)


def elapsed(result: Result | None, step: str, timeout: float, order: Sequence[str] = ()) -> Number:
    """Seconds of a step; if the time ran out in it, `MoreThan` what was left of it. `order` are all steps."""
    if result is None or step in result.steps or result.status != "timeout":
        return result.seconds(step) if result is not None else None
    if next(s for s in order or (step,) if s not in result.steps) != step:
        return None
    left = timeout - sum(done["seconds"] for done in result.steps.values())
    return MoreThan(left) if left > 0 else None


def seconds(result: Result | None, step: str, timeout: float, order: Sequence[str] = ()) -> Value:
    """Seconds of a step, or why there are none."""
    if result is None:
        return NOTHING
    found = elapsed(result, step, timeout, order)
    if isinstance(found, MoreThan):
        return text(f"> {found:.0f}")
    if found is None:
        return text(result.status) if result.status in ("memory", "failed") else NOTHING
    return Value(style.seconds(found), found)


def reported(value: Number) -> Value:
    """Seconds that a paper reports."""
    if value is None:
        return NOTHING
    sign = "> " if isinstance(value, MoreThan) else ""
    return Value(f"{sign}{value:,.4g}" if value < 1e4 else f"{sign}{value:,.0f}", float(value))


def milliseconds(value: Number) -> Value:
    """Seconds shown as milliseconds."""
    if value is None:
        return NOTHING
    sign, shown = "> " if isinstance(value, MoreThan) else "", float(value) * 1e3
    return Value(f"{sign}{shown:,.3g}" if shown < 1000 else f"{sign}{shown:,.0f}", shown)


def times(value: Number) -> Value:
    """A ratio; a lower bound has its sign."""
    if value is None:
        return NOTHING
    sign = "> " if isinstance(value, MoreThan) else ""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return Value(f"{sign}{digits}x", f"> {float(value)}" if sign else float(value))


def megabytes(values: Iterable[float | None]) -> Value:
    """Bytes of several as megabytes beside each other."""
    known = list(values)
    shown = "/".join("–" if v is None else _size(v / 1e6) for v in known)
    return Value(shown, known if len(known) > 1 else known[0])


def _size(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
