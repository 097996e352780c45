"""Reading facts: rows and megabytes a second from TSV and Parquet, ours against DuckDB."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench import svg
from bench.contenders import OURS
from bench.page import CLASSES, document, legend
from bench.page import table as html_table
from bench.results import Outcome, Report, WorkloadResult
from bench.table import megabytes, seconds, times

WORKLOADS = ("load-tsv", "load-parquet")
# Reading text may take this many times as long as DuckDB takes; 10 M rows of Parquet this many seconds.
TEXT_TARGET = 3.0
PARQUET_TARGET = 10.0
_HEADERS = ("file", "engine", "load s", "M rows/s", "whole s", "peak MB", "x DuckDB's load", "")


def load_seconds(outcome: Outcome) -> float | None:
    """Best time an engine reported for loading."""
    if outcome.status != "ok":
        return None
    return min((s.seconds["load"] for s in outcome.warm if "load" in s.seconds), default=None)


def _rows(report: Report) -> list[tuple[str, ...]]:
    return [
        _row(result, name, outcome)
        for result in report.workloads
        for name, outcome in result.outcomes.items()
    ]


def _row(result: WorkloadResult, name: str, outcome: Outcome) -> tuple[str, ...]:
    needed = load_seconds(outcome)
    peer = result.outcomes.get("duckdb-loop")
    theirs = load_seconds(peer) if peer else None
    ratio = needed / theirs if needed and theirs else None
    rate = f"{result.size / needed / 1e6:.1f}" if needed else "–"
    return (
        result.name, name, seconds(needed), rate, seconds(outcome.best), megabytes(outcome.peak_rss),
        times(ratio), _verdict(result, needed, ratio) if name == OURS else outcome.status,
    )  # fmt: skip


def _verdict(result: WorkloadResult, needed: float | None, ratio: float | None) -> str:
    """Whether reading is as fast as promised; empty where there is nothing to compare with."""
    if result.name.startswith("load-parquet"):
        text, holds = f"at most {PARQUET_TARGET:g} s", needed is not None and needed <= PARQUET_TARGET
    else:
        text, holds = f"at most {TEXT_TARGET:g}x", ratio is not None and ratio <= TEXT_TARGET
    return f"{'holds' if holds else 'missed'} ({text})" if ratio is not None else ""


def print_throughput(report: Report, console: Console) -> None:
    """The table on a terminal."""
    rows = report.workloads[0].size if report.workloads else 0
    table = Table(title=f"Reading {rows:,} rows of two integers", title_justify="left")
    for i, header in enumerate(_HEADERS):
        table.add_column(header, justify="left" if i < 2 else "right", no_wrap=True)
    for row in _rows(report):
        table.add_row(*row)
    console.print(table)
    for result in report.workloads:
        for problem in result.problems:
            console.print(f"[bold red]SIZES DISAGREE[/bold red] {result.name}: {problem}")
        if result.ours is not None and result.ours.status != "ok":
            console.print(f"[bold red]FAILED[/bold red] {result.name}: {result.ours.reason}")


def page(report: Report) -> str:
    """The same as a page."""
    groups = {
        r.name: {n: v for n, o in r.outcomes.items() if (v := load_seconds(o))} for r in report.workloads
    }
    names = list(dict.fromkeys(n for r in report.workloads for n in r.outcomes))
    plot = svg.bars({k: v for k, v in groups.items() if v}, CLASSES, "s")
    sections = [legend(names), f"<h2>Seconds to load</h2><figure>{plot}</figure>"]
    sections.append(html_table(_HEADERS, (("", row) for row in _rows(report))))
    return document("Reading facts", report, sections)
