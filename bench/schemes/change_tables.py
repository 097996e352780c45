"""The tables about updates and queries: 5.10, the rest of 5.12, and 5.14."""

from __future__ import annotations

from bench.harness.cells import Cell
from bench.harness.numbers import ratio
from bench.harness.sheets import (
    Sheet,
    count,
    megabytes,
    milliseconds,
    reported,
    seconds,
    text,
    times,
)
from bench.schemes import published
from bench.schemes.catalogue import (
    ADDITION_STEPS,
    BENCHMARKS,
    BROADER,
    MODES,
    MODULES,
    SCHEMES,
    SEMI_NAIVE,
    UPDATE_STEPS,
    UPDATED,
)
from bench.schemes.tables import PEAK_HEADER, RATIO_HEADERS, SECONDS_HEADERS, STORED_HEADER, Tables

UPDATE, REBUILD = "update", "rebuild"
_PAPERS = (published.INITIAL, published.SMALL_DELETION, published.SMALL_ADDITION, published.LARGE_DELETION)


def additions_510(tables: Tables) -> None:
    """Table 5.10: a transitive relation, then three times a thousand facts."""
    chosen = tables.available(BROADER)
    specs = {}
    for benchmark in chosen:
        for mode in MODES:
            kind = "additions" if mode == SCHEMES else "recompute"
            spec = tables.runner.benchmark_spec(kind, benchmark, mode, relation="broader")
            specs[Cell(benchmark.name, kind, mode)] = spec
    tables.runner.run(specs)
    headers = (
        "benchmark", "step", "facts", *SECONDS_HEADERS, *RATIO_HEADERS, STORED_HEADER, PEAK_HEADER,
        "thesis: MB",
    )  # fmt: skip
    sheet = Sheet("Table 5.10: additions to a transitive relation", headers)
    sheet.notes.append(
        "Semi-naive and modules compute all anew after each addition; schemes add to a Closure object."
    )
    order = ADDITION_STEPS
    for benchmark in chosen:
        cells = [cell for cell in specs if cell.workload == benchmark.name]
        outcomes = {cell.mode: tables.runner.outcomes[cell] for cell in cells}
        label = benchmark.name
        for i, step in enumerate(order):
            tables.check(benchmark.name, step, outcomes, {} if i or tables.quick else benchmark.expected)
            spent = {mode: outcomes[mode].elapsed(step, min, tables.timeout) for mode in MODES}
            paper = published.BROADER_SECONDS[benchmark.thesis][i]
            memory = published.BROADER_MEGABYTES[benchmark.thesis][i]
            sizes = outcomes[SCHEMES].sizes(step) or {}
            peaks = megabytes(outcomes[mode].peak_rss for mode in MODES) if i == 0 else text("")
            published_sizes = (memory.standard, memory.modules, memory.schemes)
            sheet.rows.append((
                text(label), text(step), count(sizes.get("broader")),
                *(seconds(outcomes[mode], step, tables.timeout) for mode in MODES),
                times(ratio(spent[SEMI_NAIVE], spent[SCHEMES])), times(paper.standard_ratio),
                times(ratio(spent[MODULES], spent[SCHEMES])), times(paper.modules_ratio),
                megabytes(outcomes[mode].best(step).get("nbytes") for mode in MODES), peaks,
                megabytes(None if size is None else size * 1e6 for size in published_sizes),
            ))  # fmt: skip
            label = ""
    tables.sheets.append(sheet)


def updates_512(tables: Tables) -> None:
    """Table 5.12, the rest: deleting and adding."""
    chosen = [one for one in UPDATED if tables.runner.size(one[0])]
    specs = {}
    for benchmark, relation, _ in chosen:
        for kind in (UPDATE, REBUILD):
            spec = tables.runner.benchmark_spec(kind, benchmark, SCHEMES, relation=relation)
            specs[Cell(benchmark.name, kind)] = spec
    tables.runner.run(specs)
    headers = (
        "benchmark", "step", "pairs", "update\ns", "anew\ns", "anew/\nupdate", "update\nMB", "anew\nMB",
        "thesis:\nrow", "standard\ns", "TCM\ns", "MS\ns", "TCM/\nMS",
    )  # fmt: skip
    sheet = Sheet("Table 5.12: updates of a transitive relation", headers)
    sheet.notes.append(
        "update: a Closure object takes the change; anew: one is built for the same facts. The thesis's "
        "DBpedia rows have more relations and rules."
    )
    for benchmark, relation, row in chosen:
        outcomes = {kind: tables.runner.outcomes[Cell(benchmark.name, kind)] for kind in (UPDATE, REBUILD)}
        label = benchmark.name
        for step, rows in zip(UPDATE_STEPS, _PAPERS, strict=True):
            paper = rows[row]
            tables.check(benchmark.name, step, outcomes, {})
            spent = {kind: outcomes[kind].elapsed(step, min, tables.timeout) for kind in outcomes}
            sizes = outcomes[UPDATE].sizes(step) or outcomes[REBUILD].sizes(step) or {}
            sheet.rows.append((
                text(label), text(step), count(sizes.get(relation)),
                *(seconds(outcomes[kind], step, tables.timeout) for kind in outcomes),
                times(ratio(spent[REBUILD], spent[UPDATE])),
                *(megabytes([outcomes[kind].best(step).get("nbytes")]) for kind in outcomes), text(row),
                *(reported(value) for value in (paper.standard, paper.modules, paper.schemes)),
                times(paper.modules_ratio),
            ))  # fmt: skip
            label = ""
    tables.sheets.append(sheet)


def queries_514(tables: Tables) -> None:
    """Table 5.14: query answering."""
    chosen = [b for b in tables.available(BENCHMARKS) if b.queries]
    answers = tables.results("queries", chosen, (MODULES, SCHEMES))
    headers = (
        "benchmark", "query", "answers", "tables\nms", "schemes\nms", "schemes/\ntables", "thesis:\nquery",
        "thesis:\nanswers", "thesis:\nMS/S",
    )  # fmt: skip
    sheet = Sheet("Table 5.14: queries", headers)
    sheet.notes.append(
        "A relation by its name is retrieved whole, as Arrow (best of 7); other queries have a bound "
        "argument (median of 21); each after one run that builds indexes."
    )
    for benchmark in chosen:
        results, label = answers[benchmark.name], benchmark.name
        for query in benchmark.queries:
            tables.check(benchmark.name, query.text, results, {})
            spent = {mode: results[mode].best(query.text).get("seconds") for mode in results}
            sizes = results[SCHEMES].sizes(query.text) or {}
            paper = published.QUERIES.get(query.row)
            sheet.rows.append((
                text(label), text(query.text.format(first="a", second="b")), count(sizes.get(query.text)),
                *(milliseconds(value) for value in spent.values()),
                times(ratio(spent[SCHEMES], spent[MODULES])),
                text(query.row or "–"), count(paper.answers if paper else None),
                times(paper.slowdown if paper else None),
            ))  # fmt: skip
            label = ""
    tables.sheets.append(sheet)
