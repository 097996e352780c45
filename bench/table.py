"""The report on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench import compare
from bench.contenders import OURS
from bench.results import Outcome, Report, WorkloadResult


def seconds(value: float | None) -> str:
    """Seconds with three significant digits."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def megabytes(value: int | None) -> str:
    return "–" if value is None else f"{value / 1e6:,.0f}"


def times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}x"


def verdict(result: WorkloadResult, name: str, outcome: Outcome) -> str:
    """``ok`` or what is wrong, in a few words."""
    if outcome.status != "ok":
        return f"{outcome.status}: {outcome.reason.splitlines()[-1][:80] if outcome.reason else ''}"
    wrong = any(name in problem for problem in result.problems)
    if wrong:
        return "WRONG SIZE"
    return "ok, but compiled kernels in a warm run" if outcome.lukewarm else "ok"


RUN_HEADERS = (
    "workload", "engine", "best s", "median s", "cold s", "evaluate s", "cpu s", "peak MB", "x ours",
    "result",
)  # fmt: skip


def run_cells(result: WorkloadResult, name: str, outcome: Outcome) -> tuple[str, ...]:
    """What is shown of one engine on one workload, after the workload's name."""
    cold = outcome.cold.wall if outcome.cold else None
    walls = (outcome.best, outcome.median, cold, outcome.evaluate, outcome.cpu)
    return (
        name,
        *map(seconds, walls),
        megabytes(outcome.peak_rss),
        times(result.ratio(name)),
        verdict(result, name, outcome),
    )


def print_report(report: Report, console: Console) -> None:
    """All tables of a run."""
    _print_runs(report, console)
    for scale in compare.scales(report):
        _print_published(report, scale, console)
    _print_targets(report, console)
    for name, reason in report.missing.items():
        console.print(f"[dim]{name} did not run: {reason}[/dim]")
    _print_problems(report, console)


def _print_runs(report: Report, console: Console) -> None:
    machine = report.machine
    console.print(
        f"{machine['processor']}, {machine['cores']} cores; {report.settings['threads']} threads, best of "
        f"{report.settings['repeat']}; np.sort of 10 M uint64: {report.unit_seconds:.3f} s "
        f"({report.unit_factor:.2f} x the published machine)"
    )
    table = Table(title="Whole processes", title_justify="left")
    for header in RUN_HEADERS:
        number = header not in ("workload", "engine", "result")
        table.add_column(header, justify="right" if number else "left", no_wrap=header != "result")
    for workload in report.workloads:
        label = f"{workload.name}\n{workload.output_rows:,} facts"
        for name, outcome in workload.outcomes.items():
            style = "bold" if name == OURS else ("" if outcome.status == "ok" else "dim")
            table.add_row(label, *run_cells(workload, name, outcome), style=style)
            label = ""
        table.add_section()
    console.print(table)


def _print_published(report: Report, scale: compare.Scale, console: Console) -> None:
    rows = compare.comparisons(report, scale)
    if not rows:
        return
    table = Table(
        title=f"Against published figures x {scale.factor:.2f} ({scale.meaning}): scaled, not measured here",
        title_justify="left",
    )
    table.add_column("workload", no_wrap=True)
    for header in ("Soufflé compiled -j2, whole", "the same / our evaluation", "datafrog / our evaluation"):
        table.add_column(header, justify="right")
    table.add_column("basis")
    for row in rows:
        table.add_row(row.workload, times(row.whole), times(row.evaluation), times(row.datafrog), row.basis)
    table.add_section()
    means = (times(compare.mean_over_nine(rows, c)) for c in ("whole", "evaluation", "datafrog"))
    table.add_row("geometric mean (without nonlinear)", *means, "", style="bold")
    console.print(table)


def _print_targets(report: Report, console: Console) -> None:
    targets = compare.targets(report)
    if not targets:
        return
    table = Table(title="Targets", title_justify="left")
    table.add_column("")
    table.add_column("target")
    table.add_column("measured", justify="right")
    for target in targets:
        mark = "[green]holds[/green]" if target.holds else "[red]missed[/red]"
        table.add_row(mark, target.text, target.value)
    console.print(table)


def _print_problems(report: Report, console: Console) -> None:
    for workload in report.workloads:
        for problem in workload.problems:
            console.print(f"[bold red]SIZES DISAGREE[/bold red] {workload.name}: {problem}")
        if workload.ours is not None and workload.ours.status != "ok":
            console.print(
                f"[bold red]FAILED[/bold red] {workload.name}: {OURS}: {workload.ours.status}: "
                f"{workload.ours.reason}",
            )
