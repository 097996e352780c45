"""What is shown of a workload, whether all contenders have the same facts, and whether targets are met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.agreement import disagreements
from bench.harness import sheets
from bench.harness.cells import Cell, Outcome
from bench.harness.numbers import Number, ratio
from bench.harness.sheets import NOTHING, Sheet, Value, count, shown_seconds, text, times
from bench.spark import workloads as w
from bench.spark.run import CALLS, steps_of
from bench.spark.workloads import Workload

FASTER_THAN_PLAIN, FASTER_ON_TWO, OVER_ARROW, OVERHEAD_SECONDS = 10.0, 1.6, 3.0, 4.0
EXCHANGE_FASTER, OVER_LOADING, OF_ANEW = 3.0, 3.0, 0.2
EXCHANGE_TARGETS = ("same-generation", "andersen")
"""The workloads for which it is stated how much faster than the plain loop an exchange is."""
DECOMPOSED_TARGET = "closure-random"
"""The workload for which it is stated how much faster than the plain loop a decomposed closure is."""

INSERT_TARGET = "insert-closure"

Outcomes = Mapping[Cell, Outcome]


@dataclass(slots=True)
class Report(sheets.Report):
    """Also targets as (what, found, whether it holds)."""

    targets: list[tuple[str, Value, bool]] = field(default_factory=list)

    def aim(self, what: str, found: Number, show: Callable[[Number], Value], holds: bool) -> None:
        if found is not None and not self.quick:
            self.targets.append((what, show(found), holds))


def add_workload(report: Report, workload: Workload, outcomes: Outcomes) -> None:
    """The sheet of a workload, checked."""
    report.problems += [
        f"{workload.name}, {label(cell)}: failed: {outcome.reason}"
        for cell, outcome in outcomes.items()
        if outcome.status == "failed"
    ]
    report.problems += [f"{workload.name}, {problem}" for problem in check(workload, outcomes)]
    sheet = _SHEETS[workload.kind](report, workload, outcomes)
    sheet.notes += [
        f"{label(cell)}: {o.status}{f': {o.reason}' if o.reason else ''}"
        for cell, o in outcomes.items()
        if o.status != "ok"
    ]
    report.sheets.append(sheet)


def label(cell: Cell) -> str:
    return f"{cell.kind} on {cell.mode}" if cell.kind else cell.mode


# -- checking ------------------------------------------------------------------------------------------


def check(workload: Workload, outcomes: Outcomes) -> list[str]:
    """One line for each relation that two contenders, or two runs of one, do not agree on."""
    problems: list[str] = []
    by_relation: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    digests: dict[str, list[str]] = {}
    for cell, outcome in outcomes.items():
        for step in steps_of(workload):
            for number, run in enumerate(outcome.steps.get(step, []), 1):
                group = step if workload.kind in (w.FIXPOINT, w.SCALING) else ""
                who = f"{label(cell)}, {step} {number}"
                for relation in run.get("sizes", {}):
                    by_relation.setdefault((group, relation), {})[who] = run["sizes"]
                if "digest" in run:
                    digests.setdefault(str(run["digest"]), []).append(label(cell))
    for (_, relation), answers in by_relation.items():
        problems += disagreements({}, answers, (relation,))
    if len(digests) > 1:
        sides = "; ".join(", ".join(labels) for labels in digests.values())
        problems.append(f"{workload.relation}: the facts of a few edges are not the same ones ({sides})")
    return problems


# -- showing -------------------------------------------------------------------------------------------


def _fixpoint(report: Report, workload: Workload, outcomes: Outcomes) -> Sheet:
    headers = (
        "contender", "master", "method", "facts", "s", "processor\ns", "materialise\ns", "rounds", "jobs",
        "shuffled\nMB", "in rounds\nMB", "loop/\nthis", "processor:\nloop/this", "this/\ndriver",
    )  # fmt: skip
    sheet = Sheet(f"{workload.name}: {workload.about}", headers)
    spent = {cell: outcome.elapsed("run", min, report.timeout) for cell, outcome in outcomes.items()}
    processor = {cell: outcome.best("run").get("processor") for cell, outcome in outcomes.items()}
    loops = {cell.mode: cell for cell in outcomes if cell.kind in (w.PLAIN, w.LABELS)}
    driver = next((s for cell, s in spent.items() if cell.kind == w.DRIVER), None)
    for cell, outcome in outcomes.items():
        run = outcome.best("run")
        peer = loops.get(cell.mode)
        loop = None if peer is None else spent[peer]
        faster = ratio(loop, spent[cell])
        by_processor = None if peer is None else ratio(processor[peer], processor[cell])
        sheet.rows.append((
            text(cell.kind), text(cell.mode), text(run.get("method", "–")),
            count(run.get("sizes", {}).get(workload.relation)), shown_seconds(outcome, spent[cell]),
            shown_seconds(outcome, processor[cell]), shown_seconds(outcome, run.get("materialise")),
            count(run.get("rounds")), count(run.get("jobs")),
            _megabytes(run.get("shuffle_bytes")), _megabytes(run.get("round_bytes")), times(faster),
            times(by_processor), times(ratio(spent[cell], driver)),
        ))  # fmt: skip
        if workload.name == DECOMPOSED_TARGET and cell.kind == w.DECOMPOSED:
            report.aim(
                f"decomposed closure on {cell.mode}, at least {FASTER_THAN_PLAIN:.0f}x the loop",
                faster, times, faster is not None and faster >= FASTER_THAN_PLAIN,
            )  # fmt: skip
            moved = run.get("moved")
            report.aim(f"decomposed closure on {cell.mode}, rows shuffled by its fixpoint: none", moved,
                       count, moved == 0)  # fmt: skip
        if workload.name in EXCHANGE_TARGETS and cell.kind == w.EXCHANGED:
            report.aim(
                f"{workload.name} by exchange on {cell.mode}, at least {EXCHANGE_FASTER:.0f}x the loop",
                faster, times, faster is not None and faster >= EXCHANGE_FASTER,
            )  # fmt: skip
    sheet.notes.append(
        "s: from Parquet to the number of facts; materialise: what `materialise` itself took of it; "
        "processor: of the driver, its JVM, executors and Python workers together, in the best run."
    )
    if any(cell.kind == w.LABELS for cell in outcomes):
        sheet.notes.append(
            "label propagation finds labels, and its pairs are only added up; others list pairs."
        )
    return sheet


def _pipeline(report: Report, workload: Workload, outcomes: Outcomes) -> Sheet:
    peers = [step for step in ("toArrow", "Engine.load") if step in steps_of(workload)]
    headers = ("step", "master", "rows", "s", *(f"over\n{peer}" for peer in peers), "jobs", "shuffled\nMB")
    sheet = Sheet(f"{workload.name}: {workload.about}", headers)
    for cell, outcome in outcomes.items():
        spent = {step: outcome.elapsed(step, min, report.timeout) for step in steps_of(workload)}
        for step in steps_of(workload):
            run = outcome.best(step)
            over = ratio(spent[step], spent["toArrow"])
            sheet.rows.append((
                text(step), text(cell.mode), count(next(iter(run.get("sizes", {}).values()), None)),
                shown_seconds(outcome, spent[step]),
                *(times(ratio(spent[step], spent[peer])) for peer in peers),
                count(run.get("jobs")), _megabytes(run.get("shuffle_bytes")),
            ))  # fmt: skip
            if workload.kind == w.INGEST and step == "ingest":
                report.aim(f"ingest on {cell.mode}, at most {OVER_ARROW:.0f} times toArrow", over, times,
                           over is not None and over <= OVER_ARROW)  # fmt: skip
            if workload.kind == w.ENCODE and step == "encode":
                over = ratio(spent[step], spent["Engine.load"])
                report.aim(f"encode on {cell.mode}, at most {OVER_LOADING:.0f} times Engine.load", over,
                           times, over is not None and over <= OVER_LOADING)  # fmt: skip
    return sheet


def _scaling(report: Report, workload: Workload, outcomes: Outcomes) -> Sheet:
    headers = ("master", "method", "facts", "s", "tasks", "longest/\nmean", "first/\nthis", "shuffled\nMB")
    sheet = Sheet(f"{workload.name}: {workload.about}", headers)
    spent = {cell: outcome.elapsed("run", min, report.timeout) for cell, outcome in outcomes.items()}
    first = next(iter(spent.values()), None)
    for cell, outcome in outcomes.items():
        run, faster = outcome.best("run"), ratio(first, spent[cell])
        sheet.rows.append((
            text(cell.mode), text(run.get("method", "–")),
            count(run.get("sizes", {}).get(workload.relation)), shown_seconds(outcome, spent[cell]),
            count(run.get("tasks")), times(run.get("uneven")), times(faster),
            _megabytes(run.get("shuffle_bytes")),
        ))  # fmt: skip
        if cell.mode == w.TWO and len(outcomes) > 1:
            report.aim(f"two executors, at least {FASTER_ON_TWO} times as fast as one", faster, times,
                       faster is not None and faster >= FASTER_ON_TWO)  # fmt: skip
    return sheet


def _overhead(report: Report, workload: Workload, outcomes: Outcomes) -> Sheet:
    headers = ("where", "master", "session\ns", *(f"{call}\ns" for call in CALLS), "jobs")
    sheet = Sheet(f"{workload.name}: {workload.about}", headers)
    for cell, outcome in outcomes.items():
        spent = [outcome.elapsed(call, min, report.timeout) for call in CALLS]
        started = outcome.elapsed("session", min, report.timeout)
        sheet.rows.append((
            text(cell.kind), text(cell.mode),
            *(shown_seconds(outcome, found) for found in (started, *spent)),
            count(outcome.last(CALLS[-1]).get("jobs")),
        ))  # fmt: skip
        report.aim(
            f"first call of materialise ({cell.kind}) on {cell.mode}, at most {OVERHEAD_SECONDS:.0f} s",
            spent[0], lambda found: shown_seconds(None, found),
            spent[0] is not None and spent[0] <= OVERHEAD_SECONDS,
        )  # fmt: skip
    return sheet


def _insert(report: Report, workload: Workload, outcomes: Outcomes) -> Sheet:
    headers = ("step", "master", "facts", "s", "processor\ns", "anew/\nthis", "jobs", "shuffled\nMB")
    sheet = Sheet(f"{workload.name}: {workload.about}", headers)
    for cell, outcome in outcomes.items():
        spent = {step: outcome.elapsed(step, min, report.timeout) for step in steps_of(workload)}
        for step in steps_of(workload):
            run = outcome.best(step)
            facts = run.get("sizes", run.get("before", {})).get(workload.relation)
            against = ratio(spent["anew"], spent[step]) if step == "insert" else None
            sheet.rows.append((
                text(step), text(cell.mode), count(facts), shown_seconds(outcome, spent[step]),
                shown_seconds(outcome, run.get("processor")), times(against), count(run.get("jobs")),
                _megabytes(run.get("shuffle_bytes")),
            ))  # fmt: skip
        part = ratio(spent["insert"], spent["anew"])
        if workload.name == INSERT_TARGET:
            report.aim(f"{workload.name} on {cell.mode}, at most {OF_ANEW} of anew", part, times,
                       part is not None and part <= OF_ANEW)  # fmt: skip
    sheet.notes.append(
        "save and anew: computed and written to a new directory; insert: written beside the old."
    )
    return sheet


_SHEETS: dict[str, Callable[[Report, Workload, Outcomes], Sheet]] = {
    w.FIXPOINT: _fixpoint,
    w.INGEST: _pipeline,
    w.ENCODE: _pipeline,
    w.SCALING: _scaling,
    w.OVERHEAD: _overhead,
    w.INSERT: _insert,
}


def targets(report: Report) -> Sheet:
    """Every target that this run could say something of."""
    sheet = Sheet("Targets", ("target", "found", "result"))
    for what, value, holds in report.targets:
        sheet.rows.append((text(what), value, text("holds" if holds else "missed")))
    return sheet


def _megabytes(value: float | None) -> Value:
    return NOTHING if value is None else Value(f"{value / 1e6:,.3g}", value)
