"""What is shown of a workload, and whether all contenders have the same facts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bench.agreement import disagreements
from bench.harness.cells import ANEW, DUCKDB, DURABLE, Cell, Outcome
from bench.harness.numbers import MoreThan, Number, ratio
from bench.harness.sheets import NOTHING, Report, Sheet, Value, count, reported, shown_seconds, text, times
from bench.schemes.published import MODULAR as MODULAR_INITIAL
from bench.table import megabytes
from bench.updates import published
from bench.updates.workloads import DURABLE_STEPS, Step, Workload

Of = Callable[[list[float]], float]


def add_workload(report: Report, workload: Workload, outcomes: Mapping[Cell, Outcome]) -> None:
    """The sheet of a workload, checked."""
    own = {cell: outcome for cell, outcome in outcomes.items() if cell.workload == workload.name}
    report.problems += _failures(own)
    report.problems += [f"{workload.name}, {problem}" for problem in check(workload, own)]
    report.sheets.append(_sheet(report, workload, own))


# -- checking ------------------------------------------------------------------------------------------


def _failures(outcomes: Mapping[Cell, Outcome]) -> Iterator[str]:
    for cell, outcome in outcomes.items():
        if cell.is_ours and outcome.status == "failed":
            yield f"{cell.workload}, {cell.label}: failed: {outcome.reason}"


def check(workload: Workload, outcomes: Mapping[Cell, Outcome]) -> list[str]:
    """One line for each relation that after some step is not what it is when computed anew."""
    problems: list[str] = []
    computed = {cell: outcome for cell, outcome in outcomes.items() if cell.kind in (ANEW, DUCKDB)}
    for cell, outcome in outcomes.items():
        if cell in computed:
            continue
        right = {c.label: o for c, o in computed.items() if c.mode in ("", cell.mode)}
        for step in steps_of(workload, cell):
            # Each run of a step that leads back to where all began; of others only the last is computed anew.
            runs = outcome.steps.get(step.name, [])
            for run in runs if step.state == workload.steps[0].state else runs[-1:]:
                others = {label: o.last(step.state) for label, o in right.items() if o.last(step.state)}
                problems += [f"{step.name}: {p}" for p in _differences({cell.label: run, **others})]
    return list(dict.fromkeys(problems))


def _differences(runs: Mapping[str, Mapping[str, dict[str, int]]]) -> list[str]:
    sizes = {label: run["sizes"] for label, run in runs.items()}
    relations = tuple(dict.fromkeys(relation for given in sizes.values() for relation in given))
    problems = disagreements({}, sizes, relations)
    for relation in relations:
        digests = {label: run.get("digests", {}).get(relation) for label, run in runs.items()}
        known = {label: digest for label, digest in digests.items() if digest is not None}
        same_size = len({sizes[label].get(relation) for label in known}) == 1
        if same_size and len(set(known.values())) > 1:
            problems.append(
                f"{relation}: {', '.join(known)} have the same number of facts, but not the same ones"
            )
    return problems


def _unchecked(workload: Workload, outcomes: Mapping[Cell, Outcome]) -> list[str]:
    """Steps whose result nobody computed anew."""
    states = {s for cell, o in outcomes.items() if cell.kind in (ANEW, DUCKDB) for s in o.steps}
    done = {
        step.name: step.state
        for cell, outcome in outcomes.items()
        if cell.kind not in (ANEW, DUCKDB)
        for step in steps_of(workload, cell)
        if step.name in outcome.steps
    }
    return [name for name, state in done.items() if state not in states]


def steps_of(workload: Workload, cell: Cell) -> tuple[Step, ...]:
    return DURABLE_STEPS if cell.kind == DURABLE else workload.steps


# -- showing -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """A line: a step, how it is called there, and what is made of the seconds of its runs."""

    label: str
    step: Step
    of: Of
    times: int = 1
    """How often everything would have to be computed anew for it."""


def _rows(steps: tuple[Step, ...]) -> Iterator[_Row]:
    for step in steps:
        if step.runs == 1:
            yield _Row(step.name, step, min)
        else:
            yield _Row(f"{step.name}, median of {step.runs}", step, statistics.median)
            yield _Row(f"{step.name}, total of {step.runs}", step, sum, step.runs)


def _all_steps(workload: Workload, outcomes: Mapping[Cell, Outcome]) -> tuple[Step, ...]:
    """The longest list of them that a contender has."""
    return max((steps_of(workload, cell) for cell in outcomes), key=len)


def _sheet(report: Report, workload: Workload, outcomes: Mapping[Cell, Outcome]) -> Sheet:
    updaters = [cell for cell in outcomes if cell.kind not in (ANEW, DUCKDB)]
    names = _paper_names(workload)
    headers = ["step", "facts\nchanged", "facts\nafter"]
    for cell in updaters:
        headers += [f"{cell.label}\ns", f"{cell.label}:\nhow"]
        if cell.kind != DURABLE:
            headers.append(f"{cell.mode}\nanew s".strip())
        headers.append(f"anew/\n{cell.label}")
    headers += ["DuckDB\nanew s", f"DuckDB/\n{updaters[0].label}", *(f"paper:\n{name} s" for name in names)]
    size = workload.quick if report.quick else workload.size
    sheet = Sheet(f"{workload.name}: {workload.about} (size {size:,})", tuple(headers))
    for row in _rows(_all_steps(workload, outcomes)):
        shown = [text(row.label), *_facts(row.step, [outcomes[cell] for cell in updaters])]
        duckdb = outcomes.get(Cell(workload.name, DUCKDB), Outcome("skipped"))
        of_duckdb = _anew(duckdb, row, report.timeout)
        first: Number = None
        for cell in updaters:
            outcome, anew = outcomes[cell], outcomes[Cell(workload.name, ANEW, cell.mode)]
            spent = outcome.elapsed(row.step.name, row.of, report.timeout)
            first = spent if cell is updaters[0] else first
            shown += [shown_seconds(outcome, spent), text(_how(outcome, row.step.name))]
            again = _anew(anew, row, report.timeout)
            if cell.kind != DURABLE:
                shown.append(shown_seconds(anew, again))
            shown.append(_ratio(row, again, spent))
        shown += [shown_seconds(duckdb, of_duckdb), _ratio(row, of_duckdb, first)]
        shown += [reported(value) for value in _reported(workload, row)]
        sheet.rows.append(tuple(shown))
    sheet.notes += _notes(workload, outcomes)
    return sheet


def _anew(outcome: Outcome, row: _Row, timeout: float) -> Number:
    """Seconds to compute the state anew, as often as the row has steps."""
    once = outcome.elapsed(row.step.state, min, timeout)
    if once is None or row.times == 1:
        return once
    return MoreThan(once * row.times) if isinstance(once, MoreThan) else once * row.times


def _facts(step: Step, outcomes: list[Outcome]) -> list[Value]:
    done = next((outcome.last(step.name) for outcome in outcomes if outcome.last(step.name)), None)
    if done is None:
        return [NOTHING, NOTHING]
    return [count(done.get("changed")), count(sum(done["sizes"].values()))]


def _ratio(row: _Row, anew: Number, update: Number) -> Value:
    return NOTHING if row.step.name in ("initial", "save", "99 %", "50 %") else times(ratio(anew, update))


def _how(outcome: Outcome, step: str) -> str:
    """Whether the engine maintained what it had, or computed anew."""
    known = [run["maintained"] for run in outcome.steps.get(step, []) if "maintained" in run]
    if not known:
        return ""
    if all(known):
        return "maintained"
    return "anew" if not any(known) else f"anew {known.count(False)} of {len(known)}"


def _paper_names(workload: Workload) -> tuple[str, ...]:
    if workload.modular:
        return published.MODULAR_NAMES
    return published.DYNAMIC_NAMES if workload.dynamic in published.DYNAMIC else ()


def _reported(workload: Workload, row: _Row) -> tuple[float | None, ...]:
    """What the paper says of a row."""
    if not _paper_names(workload):
        return ()
    none: tuple[float | None, ...] = (None, None)
    if row.times > 1:
        return none
    if workload.modular and row.step.name == "initial":
        initial = MODULAR_INITIAL[workload.modular]
        return (initial.with_modules, initial.without)
    rows = published.MODULAR.get(workload.modular) or published.DYNAMIC[workload.dynamic]
    figures = rows.get(row.step.name)
    return (figures.ours, figures.other) if figures else none


def _notes(workload: Workload, outcomes: Mapping[Cell, Outcome]) -> list[str]:
    notes = []
    peaks = [f"{cell.label} {megabytes(o.peak_rss)}" for cell, o in outcomes.items() if o.peak_rss]
    if peaks:
        notes.append(f"Peak MB: {', '.join(peaks)}.")
    for cell, outcome in outcomes.items():
        if outcome.status != "ok":
            why = f": {outcome.reason}" if outcome.reason else ""
            notes.append(f"{cell.label}: {outcome.status}{why}")
        disk = outcome.last("open again").get("disk_bytes")
        if disk is not None:
            notes.append(f"{cell.label}: {megabytes(disk)} MB on disk at the end.")
        stored = outcome.last(workload.steps[0].name).get("schemes")
        if stored:
            chosen = ", ".join(f"{name} {scheme}" for name, scheme in stored.items())
            notes.append(f"{cell.label}: {chosen}; others are tables.")
    unchecked = _unchecked(workload, outcomes)
    if unchecked:
        notes.append(f"Not checked, since nobody computed them anew: {', '.join(unchecked)}.")
    return notes
