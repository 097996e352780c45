"""What a run did: as JSON, as tables, or as one line."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuengine.cli.live import Clock, count, peak_rss, size

if TYPE_CHECKING:
    from gpuengine.engine import Engine
    from gpuengine.errors import Diagnostic
    from gpuengine.evaluation.host_work import HostEntry
    from gpuengine.evaluation.materialisation import Storage
    from gpuengine.evaluation.progress import RuleStatistics, StratumStatistics
    from gpuengine.profiling.profile import Profile

_PLAIN_WIDTH = 140
_SLOWEST_RULES = 25


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What was asked of the accelerator, and what the host did of it; `rounds` are those that ran there."""

    name: str
    rounds: int
    launches: int
    syncs: int
    syncs_per_round: float
    uploaded_bytes: int
    downloaded_bytes: int
    peak_bytes: int
    host_work: tuple[HostEntry, ...]

    @classmethod
    def of(cls, engine: Engine, strata: Sequence[StratumStatistics]) -> DeviceReport | None:
        """The report of an engine that has materialised; None if it has opened no accelerator."""
        backend = engine.options.accelerator.backend
        statistics = backend.statistics() if backend is not None else None
        if backend is None or statistics is None:
            return None
        rounds = sum(stratum.rounds.get(backend.name, 0) for stratum in strata)
        return cls(
            backend.device_name,
            rounds,
            statistics.launches,
            statistics.syncs,
            statistics.syncs / max(rounds, 1),
            statistics.uploaded,
            statistics.downloaded,
            statistics.peak_bytes,
            engine.progress.host_work.entries if engine.progress is not None else (),
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers of one run; `seconds` has a key for each phase and ``total``.

    `storage` says how each relation is stored;
    `strata` say where each ran; `device` is None if there was no accelerator, or none was wanted;
    `device_problem` is why one that was wanted could not be used; `warnings` are about the program.
    """

    program: str
    relations: Mapping[str, int]
    storage: Mapping[str, Storage]
    skipped_rows: Mapping[str, int]
    seconds: Mapping[str, float]
    rounds: int
    facts: int
    peak_rss_bytes: int
    threads: int
    backend: str
    compiled_kernels: Mapping[str, float]
    strata: tuple[StratumStatistics, ...]
    device: DeviceReport | None
    device_problem: str | None
    rules: tuple[RuleStatistics, ...]
    warnings: tuple[Diagnostic, ...]

    @classmethod
    def of(
        cls, program: Path, engine: Engine, sizes: Mapping[str, int], skipped: Mapping[str, int], clock: Clock
    ) -> Report:
        """The report of an engine that has just materialised."""
        from gpuengine.kernels.cpu.jit import compile_seconds

        progress = engine.progress
        assert progress is not None
        return cls(
            str(program),
            sizes,
            {name: stored for name, stored in engine.storage.items() if name in sizes},
            skipped,
            {**clock.seconds, "total": clock.total},
            progress.rounds,
            progress.facts,
            peak_rss(),
            engine.options.threads,
            engine.backend,
            dict(compile_seconds),
            tuple(progress.placed),
            DeviceReport.of(engine, progress.placed),
            engine.options.accelerator.unavailable,
            tuple(sorted(progress.rules.values(), key=lambda rule: -rule.seconds)),
            engine.warnings,
        )

    def profile(self, engine: Engine) -> Profile:
        """The profile of the run, with what is known of the process."""
        process = {
            "peak_rss_bytes": self.peak_rss_bytes,
            "skipped_rows": dict(self.skipped_rows),
            "device": asdict(self.device) if self.device is not None else None,
            "device_problem": self.device_problem,
        }
        return engine.profile(program=self.program, seconds=self.seconds, process=process)

    def to_json(self, *, with_rules: bool) -> str:
        import json

        content: dict[str, Any] = asdict(self)
        if not with_rules:
            del content["rules"]
        return json.dumps(content, ensure_ascii=False)


def print_summary(report: Report) -> None:
    """One line for someone who watched."""
    shown = ", ".join(f"{name} {count(rows)}" for name, rows in list(report.relations.items())[:4])
    more = len(report.relations) - 4
    rest = f" and {more} more" if more > 0 else ""
    print(
        f"{shown}{rest}  ({report.seconds['total']:.2f} s, evaluation {report.seconds['evaluate']:.2f} s, "
        f"{size(report.peak_rss_bytes)})",
        file=sys.stderr,
    )


def print_tables(report: Report) -> None:
    """Relations, seconds and rules, on standard error."""
    from rich.console import Console

    terminal = sys.stderr.isatty()
    console = Console(stderr=True, highlight=False, width=None if terminal else _PLAIN_WIDTH)
    console.print(_relations_table(report))
    console.print(_seconds_table(report))
    if report.device is not None:
        console.print(_strata_table(report))
        console.print(_device_table(report.device))
        console.print(_host_table(report.device))
    if report.rules:
        console.print(_rules_table(report))


def _relations_table(report: Report) -> Any:
    table = table_of("relation", "facts", "stored as", "memory")
    for name, rows in report.relations.items():
        skipped = report.skipped_rows.get(name)
        stored = report.storage[name]
        facts = f"{rows:,}" + (f" ({skipped:,} bad rows skipped)" if skipped else "")
        table.add_row(name, facts, stored.scheme, size(stored.nbytes))
    return table


def _seconds_table(report: Report) -> Any:
    table = table_of("run", "")
    for phase, seconds in report.seconds.items():
        table.add_row(f"{phase} (s)", f"{seconds:.3f}")
    table.add_row("rounds", f"{report.rounds:,}")
    table.add_row("facts", f"{report.facts:,}")
    table.add_row("peak memory", size(report.peak_rss_bytes))
    table.add_row("threads", f"{report.threads} ({report.backend})")
    if report.device_problem is not None:
        table.add_row("GPU not used", report.device_problem)
    kernels = report.compiled_kernels
    compiled = (
        f"{len(kernels)} in {sum(kernels.values()):.1f} s, now cached" if kernels else "none, all were there"
    )
    table.add_row("kernels compiled", compiled)
    return table


def _strata_table(report: Report) -> Any:
    table = table_of("stratum", "rounds", "moves")
    table.add_column("relations", overflow="fold")
    for stratum in report.strata:
        rounds = ", ".join(f"{count:,} on {backend}" for backend, count in stratum.rounds.items())
        table.add_row(f"{stratum.number + 1}", rounds, f"{stratum.moves:,}", ", ".join(stratum.relations))
    return table


def _device_table(device: DeviceReport) -> Any:
    table = table_of("device", device.name)
    table.add_row("rounds", f"{device.rounds:,}")
    table.add_row("launches", f"{device.launches:,}")
    table.add_row("host syncs", f"{device.syncs:,} ({device.syncs_per_round:.1f} a round)")
    table.add_row("copied to the device", size(device.uploaded_bytes))
    table.add_row("copied to the host", size(device.downloaded_bytes))
    table.add_row("peak device memory", size(device.peak_bytes))
    return table


def _host_table(device: DeviceReport) -> Any:
    from rich.text import Text

    table = table_of("on the host", "rows", "seconds", "times")
    table.add_column("of", overflow="fold")
    for entry in device.host_work[:_SLOWEST_RULES]:
        numbers = (f"{entry.rows:,}", f"{entry.seconds:.3f}", f"{entry.times:,}")
        table.add_row(str(entry.operation), *numbers, Text(" ".join(entry.of.split())))
    if not device.host_work:
        table.add_row("nothing", "0", "0.000", "0", "")
    hidden = len(device.host_work) - _SLOWEST_RULES
    if hidden > 0:
        table.caption = f"{hidden} entries that took less not shown; --json has all"
    return table


def _rules_table(report: Report) -> Any:
    from rich.text import Text

    table = table_of("seconds", "candidates", "derived", "evaluations")
    table.add_column("rule, slowest first", overflow="fold")
    for rule in report.rules[:_SLOWEST_RULES]:
        numbers = [
            f"{rule.seconds:.3f}",
            f"{rule.candidates:,}",
            f"{rule.derived:,}",
            f"{rule.evaluations:,}",
        ]
        table.add_row(*numbers, Text(" ".join(rule.text.split())))
    hidden = len(report.rules) - _SLOWEST_RULES
    if hidden > 0:
        table.caption = f"{hidden} faster rules not shown; --json has all"
    return table


def table_of(*headers: str) -> Any:
    """An empty table, its numbers on the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, header in enumerate(headers):
        numeric = header in ("facts", "seconds", "candidates", "derived", "evaluations") or number > 0
        table.add_column(header, justify="right" if numeric else "left", no_wrap=True)
    return table
