"""Triangles by our command line, DuckDB and Soufflé: whole processes on the same file."""

from __future__ import annotations

from bench import runner
from bench.catalogue import Source
from bench.catalogue import Workload as Prepared
from bench.contenders import Ours, choose_peers, present
from bench.cyclic.workloads import WORKLOADS
from bench.harness.cells import Settings
from bench.harness.sheets import Sheet, Value, megabytes, text, times
from bench.prepare import Places, prepare
from bench.results import Outcome, WorkloadResult
from bench.table import seconds, verdict

NAME = "Triangles"
PEERS = "duckdb,souffle-compiled"


def triangles(settings: Settings, places: Places, repeat: int) -> tuple[Sheet, list[str]]:
    """The sheet, and what is wrong."""
    workload = WORKLOADS[NAME]
    size = workload.quick if settings.quick else workload.size
    expected = {} if settings.quick else workload.expected
    source = Source("generated", workload.generator, size)
    prepared = Prepared(NAME, frozenset(), f"cyclic/{workload.files[0]}", source, expected)
    contenders, missing = present([Ours(), *choose_peers(PEERS)])
    how = runner.Settings(
        1 if settings.quick else repeat, settings.threads, settings.timeout, settings.memory, cold=False
    )
    result = runner.run_workload(prepare(prepared, places), contenders, how)
    headers = ("engine", "best s", "evaluate s", "cpu s", "peak MB", "x ours", "result")
    sheet = Sheet(f"{NAME} (size {size:,}): whole processes, from text files to the number of facts", headers)
    sheet.rows += [_row(result, name, outcome) for name, outcome in result.outcomes.items()]
    sheet.notes += [f"{name} did not run: {reason}" for name, reason in missing.items()]
    failed = result.ours is not None and result.ours.status != "ok"
    problems = [*result.problems, *([f"ours: {result.ours.reason}"] if failed and result.ours else [])]
    return sheet, [f"{NAME}, peers: {problem}" for problem in problems]


def _row(result: WorkloadResult, name: str, outcome: Outcome) -> tuple[Value, ...]:
    spent = (outcome.best, outcome.evaluate, outcome.cpu)
    return (
        text(name),
        *(Value(seconds(value), value) for value in spent),
        megabytes([outcome.peak_rss]),
        times(result.ratio(name)),
        text(verdict(result, name, outcome)),
    )
