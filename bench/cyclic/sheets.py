"""What is shown of the workloads, and whether all columns have the same facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bench.agreement import disagreements
from bench.cyclic import published
from bench.cyclic.run import COMBINED, HYPERTREE, JOIN, STEPS, WRITTEN
from bench.cyclic.workloads import Workload
from bench.harness import sheets
from bench.harness.cells import Outcome
from bench.harness.numbers import MoreThan, Number, ratio
from bench.harness.sheets import NOTHING, Sheet, Value, count, megabytes, reported, shown_seconds, text, times

BETTER_TARGET = 1.1
"""So many times the better of join plans and decompositions may the combined run take."""
MEMORY_TARGET = 2.3
"""And so many times the memory of join plans: what the thesis needs at most."""
_TOTAL = "total"

Columns = Mapping[str, Outcome]


@dataclass(slots=True)
class Report(sheets.Report):
    """Also what the columns of each workload gave."""

    found: dict[str, tuple[Workload, Columns]] = field(default_factory=dict)


def add_workload(report: Report, workload: Workload, columns: Columns) -> None:
    """The sheet of a workload, checked."""
    report.found[workload.name] = workload, columns
    expected = {} if report.quick else workload.expected
    report.problems += [f"{workload.name}, {problem}" for problem in check(columns, expected)]
    report.sheets.append(_sheet(report, workload, columns))


# -- checking ------------------------------------------------------------------------------------------


def check(columns: Columns, expected: Mapping[str, int]) -> Iterator[str]:
    """A line for each failure, and for each number of facts that is wrong or not the same everywhere."""
    for column, outcome in columns.items():
        if outcome.status == "failed":
            yield f"{column}: failed: {outcome.reason}"
    for step in STEPS:
        answers = {column: sizes(outcome, step) for column, outcome in columns.items()}
        if step == "+1,000":
            # Here everything is as it was at first.
            answers |= {f"{column} at first": sizes(outcome, STEPS[0]) for column, outcome in columns.items()}
        known = {column: given for column, given in answers.items() if given}
        relations = tuple(dict.fromkeys(relation for given in known.values() for relation in given))
        right = expected if step == STEPS[0] else {}
        yield from (f"{step}: {problem}" for problem in disagreements(right, known, relations))


def sizes(outcome: Outcome, step: str) -> dict[str, int]:
    """The number of facts of each relation after a step, and of all; empty if it was not reached."""
    given: dict[str, int] = outcome.last(step).get("sizes", {})
    return given | {_TOTAL: sum(given.values())} if given else {}


# -- showing -------------------------------------------------------------------------------------------


def _sheet(report: Report, workload: Workload, columns: Columns) -> Sheet:
    names = "/\n".join(columns)
    headers = [
        "step", "facts\nchanged", "facts\nafter", *(f"{column}\ns" for column in columns),
        "written/\ncombined", "combined/\nbetter", f"peak MB:\n{names}",
    ]  # fmt: skip
    if workload.thesis:
        headers += ["thesis:\nstandard s", "thesis:\nHD s", "thesis:\ncombined s", "standard/\ncombined"]
    size = workload.quick if report.quick else workload.size
    sheet = Sheet(f"Table 4.3, {workload.name}: {workload.about} (size {size:,})", tuple(headers))
    for step in STEPS:
        spent = _elapsed(columns, step, report.timeout)
        row = [text(step), *_facts(columns, step)]
        row += [shown_seconds(outcome, spent[column]) for column, outcome in columns.items()]
        row += [
            times(ratio(spent.get(WRITTEN), spent.get(COMBINED))),
            times(ratio(spent.get(COMBINED), better(spent))),
            megabytes(peak(outcome, step) for outcome in columns.values()),
        ]
        if workload.thesis:
            paper = published.SECONDS[workload.thesis][step]
            row += [reported(value) for value in (paper.standard, paper.hypertree, paper.combined)]
            row.append(times(paper.speed_up))
        sheet.rows.append(tuple(row))
    sheet.notes += _notes(columns)
    return sheet


def _elapsed(columns: Columns, step: str, timeout: float) -> dict[str, Number]:
    return {column: outcome.elapsed(step, min, timeout) for column, outcome in columns.items()}


def _facts(columns: Columns, step: str) -> list[Value]:
    done = next((outcome for outcome in columns.values() if outcome.last(step)), None)
    if done is None:
        return [NOTHING, NOTHING]
    return [count(done.last(step).get("changed")), count(sizes(done, step)[_TOTAL])]


def _notes(columns: Columns) -> Iterator[str]:
    for column, outcome in columns.items():
        if outcome.status != "ok":
            yield f"{column}: {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}"
    for step in STEPS[1:]:
        anew = [column for column, o in columns.items() if o.last(step).get("maintained") is False]
        if anew:
            yield f"{step}: {', '.join(anew)} computed everything anew."


def better(spent: Mapping[str, Number]) -> Number:
    """The faster of join plans and decompositions, if any of them came to its end."""
    known = [spent.get(column) for column in (JOIN, HYPERTREE)]
    return min((s for s in known if s is not None and not isinstance(s, MoreThan)), default=None)


def peak(outcome: Outcome, step: str) -> int | None:
    """The most bytes until the end of a step; unknown of processes that cells share."""
    return outcome.last(step).get("peak") if outcome.peak_rss is not None else None


def total(outcome: Outcome, timeout: float) -> Number:
    """Seconds of all steps; a lower bound if the time ran out, unknown if it did not end otherwise."""
    spent = [outcome.elapsed(step, min, timeout) for step in STEPS]
    if outcome.status == "timeout":
        return MoreThan(timeout)
    return None if None in spent else sum(s for s in spent if s is not None)


def summary(report: Report) -> Sheet:
    """The combined run against the others, by workload."""
    headers = (
        "workload", "written/\ncombined:\ninitial", "written/\ncombined:\nall steps",
        "thesis:\nstandard/\ncombined:\ninitial",
        "combined/\nbetter:\ninitial", "combined/\nbetter:\nall steps", f"at most\n{BETTER_TARGET}",
        "peak:\ncombined/\njoin", "thesis:\ncombined/\nstandard", f"at most\n{MEMORY_TARGET}",
    )  # fmt: skip
    sheet = Sheet("Table 4.3: the combined run against the others", headers)
    sheet.notes.append(
        "better: the faster of join and hypertree. Peaks are those of whole processes while materialising."
    )
    for workload, columns in report.found.values():
        first = _elapsed(columns, STEPS[0], report.timeout)
        every = {column: total(outcome, report.timeout) for column, outcome in columns.items()}
        slower = [ratio(spent.get(COMBINED), better(spent)) for spent in (first, every)]
        peaks = {column: peak(outcome, STEPS[0]) for column, outcome in columns.items()}
        memory = ratio(peaks.get(COMBINED), peaks.get(JOIN))
        speed_up, paper_memory = _paper(workload)
        sheet.rows.append((
            text(workload.name), *(times(ratio(s.get(WRITTEN), s.get(COMBINED))) for s in (first, every)),
            times(speed_up), *map(times, slower), _verdict(report, slower[1], BETTER_TARGET),
            times(memory), times(paper_memory), _verdict(report, memory, MEMORY_TARGET),
        ))  # fmt: skip
    return sheet


def _paper(workload: Workload) -> tuple[Number, Number]:
    """The ratios of the thesis: time of standard by combined, peak memory of combined by standard."""
    if not workload.thesis:
        return None, None
    gigabytes = published.PEAK_GIGABYTES[workload.thesis]
    seconds = published.SECONDS[workload.thesis][STEPS[0]]
    return seconds.speed_up, ratio(gigabytes.combined, gigabytes.standard)


def _verdict(report: Report, value: Number, target: float) -> Value:
    if value is None or report.quick:
        return NOTHING
    return text("holds" if value <= target else "missed")
