"""What stands in a place of a table: the text shown, and the number for machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import table as style
from bench.harness.cells import Outcome
from bench.harness.numbers import MoreThan, Number


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


@dataclass(slots=True)
class Report:
    """Sheets and everything that is wrong."""

    timeout: float
    quick: bool = False
    sheets: list[Sheet] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


_WORDS = (
    "benchmark", "graph", "step", "query", "schemes chosen", "thesis:\nrow", "thesis:\nquery", "workload",
    "engine", "result",
)  # fmt: skip


def print_sheet(sheet: Sheet, console: Console) -> None:
    """A table in the style of the other reports."""
    shown = Table(title=sheet.title, title_justify="left")
    for i, header in enumerate(sheet.headers):
        shown.add_column(header, justify="left" if header in _WORDS else "right", no_wrap=i == 0)
    for row in sheet.rows:
        shown.add_row(*(value.text for value in row))
    console.print(shown)
    for note in sheet.notes:
        console.print(f"[dim]{note}[/dim]", highlight=False)


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


_REASONS = {"skipped": text("n/a"), "memory": text("memory"), "failed": text("failed")}


def shown_seconds(outcome: Outcome | None, value: Number) -> Value:
    """Seconds, or why there are none."""
    if value is None:
        status = outcome.status if outcome is not None else ""
        return {"skipped": text("n/a"), "memory": text("memory"), "failed": text("failed")}.get(
            status, NOTHING
        )
    sign = "> " if isinstance(value, MoreThan) else ""
    return Value(f"{sign}{style.seconds(value)}", f"> {float(value)}" if sign else float(value))


def seconds(outcome: Outcome | None, step: str, timeout: float) -> Value:
    """The least seconds of a step, or why there are none."""
    return NOTHING if outcome is None else shown_seconds(outcome, outcome.elapsed(step, min, timeout))


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
