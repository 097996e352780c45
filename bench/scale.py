"""How time grows: generated workloads at n, 2n, 4n, 8n, time against output size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from bench import svg
from bench.catalogue import Workload, catalogue, choose, scale_sizes
from bench.contenders import OURS
from bench.page import CLASSES, document, legend, table
from bench.results import Report, WorkloadResult
from bench.table import megabytes, seconds

_HEADERS = ("workload", "n", "facts out", "whole s", "evaluate s", "peak MB", "ns a fact", "exponent")


def choose_sizes(names: Iterable[str]) -> list[Workload]:
    """Each named workload at its four sizes; `UnknownWorkload` if one is not generated."""
    everything = catalogue()
    return [
        everything[workload.name].at(size)
        for workload in choose(names)
        for size in scale_sizes(workload.name)
    ]


def base_name(result: WorkloadResult) -> str:
    """The workload's name without its size."""
    return result.name.partition("@")[0]


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """Least-squares slope of log time over log output: 1 means that time grows like the output."""
    if len(points) < 2:
        return None
    xs, ys = [math.log(p[0]) for p in points], [math.log(p[1]) for p in points]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mx) ** 2 for x in xs)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / spread if spread else None


def growth(report: Report) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """For each workload and engine the points (facts out, seconds); ours by evaluation time as well."""
    points: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for result in report.workloads:
        series = points.setdefault(base_name(result), {})
        for name, outcome in result.outcomes.items():
            rows = sum(outcome.sizes.values())
            for label, value in ((name, outcome.best), (f"{name}, evaluation", outcome.evaluate)):
                if value and rows and (name == OURS or label == name):
                    series.setdefault(label, []).append((rows, value))
    return points


def _rows(report: Report) -> list[tuple[str, ...]]:
    """One row for each size of each workload, for our engine or, without it, the first that ran."""
    growths = growth(report)
    rows: list[tuple[str, ...]] = []
    for result in report.workloads:
        series = growths[base_name(result)]
        name = OURS if OURS in result.outcomes else next(iter(result.outcomes))
        outcome = result.outcomes[name]
        evaluate = outcome.evaluate
        points = series.get(f"{name}, evaluation") or series.get(name, [])
        slope = exponent(points)
        last = result.output_rows == points[-1][0] if points else False
        each = evaluate / result.output_rows * 1e9 if evaluate and result.output_rows else None
        rows.append(
            (
                base_name(result), f"{result.size:,}", f"{result.output_rows:,}", seconds(outcome.best),
                seconds(evaluate), megabytes(outcome.peak_rss), seconds(each),
                f"{slope:.2f}" if slope is not None and last else "",
            )
        )  # fmt: skip
    return rows


def print_growth(report: Report, console: Console) -> None:
    """Sizes and times; an exponent near one means that time grows like the output."""
    shown = Table(title="Time against output size (exponent 1: grows like its output)", title_justify="left")
    for i, header in enumerate(_HEADERS):
        shown.add_column(header, justify="left" if i == 0 else "right", no_wrap=True)
    previous = ""
    for row in _rows(report):
        if previous and row[0] != previous:
            shown.add_section()
        shown.add_row("" if row[0] == previous else row[0], *row[1:])
        previous = row[0]
    console.print(shown)
    for result in report.workloads:
        for problem in result.problems:
            console.print(f"[bold red]SIZES DISAGREE[/bold red] {result.name}: {problem}")
        if result.ours is not None and result.ours.status != "ok":
            console.print(f"[bold red]FAILED[/bold red] {result.name}: {result.ours.reason}")


def page(report: Report) -> str:
    """One plot a workload and the table."""
    sections = []
    for name, series in growth(report).items():
        plot = svg.lines(series, CLASSES, "facts in the result", "seconds", reference=True)
        sections.append(f"<h2>{name}</h2>{legend(series)}<figure>{plot}</figure>")
    note = '<p class="note">Dashed: as much longer as the output is larger, from the first point.</p>'
    sections.append(note + table(_HEADERS, (("", row) for row in _rows(report))))
    return document("How time grows", report, sections)
