"""The tables: which cells each needs, and what it shows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.agreement import disagreements
from bench.harness.cells import Cell, Outcome
from bench.harness.numbers import Number, ratio
from bench.harness.sheets import (
    NOTHING,
    Sheet,
    Value,
    count,
    megabytes,
    milliseconds,
    seconds,
    text,
    times,
)
from bench.schemes import published
from bench.schemes.catalogue import (
    BENCHMARKS,
    COMPONENT,
    GRAPHS,
    INITIAL,
    MODES,
    MODULES,
    SCHEMES,
    SEMI_NAIVE,
    Benchmark,
)
from bench.schemes.run import Runner

SPARSE_TARGET = 1.2
"""Where tables are the right choice, schemes may take so many times as long."""
SECONDS_HEADERS = ("semi-naive\ns", "modules\ns", "schemes\ns")
RATIO_HEADERS = (
    "semi-naive/\nschemes", "thesis:\nsemi-naive/\nschemes", "modules/\nschemes",
    "thesis:\nmodules/\nschemes",
)  # fmt: skip
STORED_HEADER = "MB:\nsemi-naive/\nmodules/schemes"
PEAK_HEADER = "peak MB:\nsemi-naive/\nmodules/schemes"
_INITIAL_HEADERS = ("benchmark", "facts out", *SECONDS_HEADERS, *RATIO_HEADERS, STORED_HEADER, PEAK_HEADER)


@dataclass(slots=True)
class Tables:
    """What was made so far: sheets, and every wrong or failed cell."""

    runner: Runner
    sheets: list[Sheet] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def timeout(self) -> float:
        return self.runner.settings.timeout

    @property
    def quick(self) -> bool:
        return self.runner.settings.quick

    def results(self, kind: str, benchmarks: Sequence[Benchmark], modes: Sequence[str] = MODES) -> _Found:
        """Materialise all benchmarks that can be, in all modes."""
        specs = {}
        for benchmark in benchmarks:
            for mode in modes:
                if self.quick or mode in benchmark.modes:
                    more = {"queries": [q.text for q in benchmark.queries], "key": benchmark.key}
                    spec = self.runner.benchmark_spec(kind, benchmark, mode, **more)
                    specs[Cell(benchmark.name, kind, mode)] = spec
        self.runner.run(specs)
        return {
            b.name: {m: self.runner.outcomes[cell] for m in modes if (cell := Cell(b.name, kind, m)) in specs}
            for b in benchmarks
        }

    def available(self, benchmarks: Sequence[Benchmark]) -> list[Benchmark]:
        """Without those that are left out of quick runs."""
        return [b for b in benchmarks if self.runner.size(b)]

    def check(
        self, name: str, step: str, results: Mapping[str, Outcome], expected: Mapping[str, int]
    ) -> None:
        """Sizes that differ or are wrong, and cells that failed, are problems."""
        given = {mode: result.sizes(step) for mode, result in results.items()}
        answers = {mode: sizes for mode, sizes in given.items() if sizes is not None}
        printed = tuple(dict.fromkeys(relation for sizes in answers.values() for relation in sizes))
        self.add_problems(f"{name}, {step}: {p}" for p in disagreements(expected, answers, printed))
        for mode, outcome in results.items():
            if outcome.status == "failed":
                self.add_problems([f"{name}, {mode}: {outcome.reason}"])
            elif outcome.steps.get(step) and given[mode] is None:
                self.add_problems([f"{name}, {mode}, {step}: two runs give different sizes"])

    def add_problems(self, found: Iterable[str]) -> None:
        for problem in found:
            if problem not in self.problems:
                self.problems.append(problem)


_Modes = Mapping[str, Outcome]
_Found = dict[str, dict[str, Outcome]]


def check_initial(tables: Tables, benchmark: Benchmark, results: Mapping[str, Outcome]) -> None:
    tables.check(benchmark.name, INITIAL, results, {} if tables.quick else benchmark.expected)


def done(results: Mapping[str, Outcome]) -> dict[str, Any]:
    """What the step of any mode that finished says; the schemes' if they did."""
    for mode in (SCHEMES, MODULES, SEMI_NAIVE):
        if mode in results and INITIAL in results[mode].steps:
            return results[mode].best(INITIAL)
    return {}


def least(outcome: Outcome | None, step: str, timeout: float) -> Number:
    """The least seconds of a step, or what they are more than; None where there is no cell."""
    return None if outcome is None else outcome.elapsed(step, min, timeout)


def time_values(tables: Tables, results: Mapping[str, Outcome], paper: published.Three | None) -> list[Value]:
    """Seconds of the three modes, and both ratios with the paper's beside them."""
    shown = [seconds(results.get(mode), INITIAL, tables.timeout) for mode in MODES]
    semi_naive, modules, schemes = (least(results.get(mode), INITIAL, tables.timeout) for mode in MODES)
    return [
        *shown,
        times(ratio(semi_naive, schemes)),
        times(paper.standard_ratio if paper else None),
        times(ratio(modules, schemes)),
        times(paper.modules_ratio if paper else None),
    ]


def stored_bytes(results: Mapping[str, Outcome]) -> list[int | None]:
    """Bytes of storage of the three modes."""
    steps = [results[mode].best(INITIAL) if mode in results else {} for mode in MODES]
    return [step.get("nbytes") for step in steps]


def memory_values(results: Mapping[str, Outcome]) -> list[Value]:
    """Bytes of storage, and peaks, of the three modes."""
    peaks = [results[mode].peak_rss if mode in results else None for mode in MODES]
    return [megabytes(stored_bytes(results)), megabytes(peaks)]


def benchmarks_511(tables: Tables) -> None:
    """Table 5.11: what the benchmarks are."""
    chosen = tables.available(BENCHMARKS)
    measured = tables.results("materialise", chosen, (SCHEMES,))
    headers = (
        "benchmark", "rules", "facts in", "facts out", "grows", "transitive", "union", "thesis:\nfacts in",
        "thesis:\nfacts out", "thesis:\ngrows", "schemes chosen",
    )  # fmt: skip
    sheet = Sheet("Table 5.11: the benchmarks", headers)
    for benchmark in chosen:
        results = measured[benchmark.name]
        check_initial(tables, benchmark, results)
        step = done(results)
        if not step:
            continue
        sizes, paper = step["relations"], published.SHAPES[benchmark.thesis]
        kept = ", ".join(f"{name} {scheme}" for name, scheme in step["schemes"].items())
        sheet.rows.append((
            text(benchmark.name), count(step["rules"]), count(step["facts_in"]), count(step["facts_out"]),
            times(ratio(step["facts_out"], step["facts_in"])),
            count(sum(sizes[name] for name in benchmark.transitive) or None),
            count(sum(sizes[name] for name in benchmark.union) or None),
            count(paper.before), count(paper.after), times(paper.after / paper.before),
            text(kept or "tables only"),
        ))  # fmt: skip
    tables.sheets.append(sheet)


def initial_512(tables: Tables) -> None:
    """Table 5.12, first part: initial materialisation."""
    chosen = tables.available(BENCHMARKS)
    measured = tables.results("materialise", chosen)
    sheet = Sheet("Table 5.12: initial materialisation", _INITIAL_HEADERS)
    for benchmark in chosen:
        results = measured[benchmark.name]
        check_initial(tables, benchmark, results)
        out = count(done(results).get("facts_out"))
        values = time_values(tables, results, published.INITIAL[benchmark.thesis])
        sheet.rows.append((text(benchmark.name), out, *values, *memory_values(results)))
        if benchmark.sparse:
            sheet.notes += _sparse_note(tables, benchmark, results)
    tables.sheets.append(sheet)


def _sparse_note(tables: Tables, benchmark: Benchmark, results: Mapping[str, Outcome]) -> list[str]:
    """How schemes do where tables are the right choice."""
    schemes, modules = (least(results.get(m), INITIAL, tables.timeout) for m in (SCHEMES, MODULES))
    quotient = ratio(schemes, modules)
    if quotient is None or tables.quick:
        return []
    verdict = "holds" if quotient <= SPARSE_TARGET else "missed"
    target = f"target at most {SPARSE_TARGET}: {verdict}"
    return [f"{benchmark.name} is sparse: schemes/modules {quotient:.2f}, {target}"]


def memory_513(tables: Tables) -> None:
    """Table 5.13: memory."""
    chosen = tables.available(BENCHMARKS)
    measured = tables.results("materialise", chosen)
    headers = (
        "benchmark", "semi-naive\nMB", "modules\nMB", "schemes\nMB", *RATIO_HEADERS, PEAK_HEADER,
    )  # fmt: skip
    sheet = Sheet("Table 5.13: memory of the materialisation", headers)
    for benchmark in chosen:
        results = measured[benchmark.name]
        check_initial(tables, benchmark, results)
        stored = stored_bytes(results)
        paper = published.MEGABYTES[benchmark.thesis]
        sheet.rows.append((
            text(benchmark.name),
            *(_stored(results.get(mode), nbytes) for mode, nbytes in zip(MODES, stored, strict=True)),
            times(ratio(stored[0], stored[2])), times(paper.standard_ratio),
            times(ratio(stored[1], stored[2])), times(paper.modules_ratio), memory_values(results)[1],
        ))  # fmt: skip
    tables.sheets.append(sheet)


def _stored(result: Outcome | None, nbytes: int | None) -> Value:
    if nbytes is not None:
        return megabytes([nbytes])
    return text(result.status) if result is not None else NOTHING


def modular_1(tables: Tables) -> None:
    """Table 1 of the modular paper: with modules (Mat-Mod) and without (Mat)."""
    wanted = [b for b in BENCHMARKS if b.modular]
    chosen = tables.available(wanted)
    measured = tables.results("materialise", chosen)
    headers = (
        "benchmark", "facts out", "Mat:\nsemi-naive\ns", "Mat-Mod:\nmodules\ns", "schemes\ns",
        "Mat/\nMat-Mod", "paper:\nMat/\nMat-Mod", "semi-naive/\nschemes", "modules/\nschemes", STORED_HEADER,
        PEAK_HEADER,
    )  # fmt: skip
    sheet = Sheet("Modular materialisation, table 1", headers)
    for benchmark in chosen:
        results = measured[benchmark.name]
        check_initial(tables, benchmark, results)
        paper = published.MODULAR[benchmark.modular]
        values = time_values(tables, results, None)
        spent = [least(results.get(mode), INITIAL, tables.timeout) for mode in MODES]
        sheet.rows.append((
            text(f"{benchmark.name} ({benchmark.modular})"), count(done(results).get("facts_out")),
            *values[:3], times(ratio(spent[0], spent[1])), times(ratio(paper.without, paper.with_modules)),
            values[3], values[5], *memory_values(results),
        ))  # fmt: skip
    tables.sheets.append(sheet)


def eqrel(tables: Tables) -> None:
    """A relation declared eqrel, one component."""
    results = tables.results("materialise", [COMPONENT])[COMPONENT.name]
    nodes = tables.runner.size(COMPONENT)
    tables.check(COMPONENT.name, INITIAL, results, {"same": nodes * nodes})
    headers = ("nodes", "pairs", *SECONDS_HEADERS, STORED_HEADER, PEAK_HEADER)
    sheet = Sheet("A relation declared eqrel: one component", headers)
    shown = [seconds(results.get(mode), INITIAL, tables.timeout) for mode in MODES]
    pairs = done(results).get("relations", {}).get("same")
    sheet.rows.append((count(nodes), count(pairs), *shown, *memory_values(results)))
    tables.sheets.append(sheet)


def real(tables: Tables) -> None:
    """Real graphs: building the closure against scipy's strong components."""
    graphs = [g for g in GRAPHS if g.quick or not tables.quick]
    specs = {Cell(g.name, "graph"): tables.runner.graph_spec(g) for g in graphs}
    tables.runner.run(specs)
    headers = (
        "graph", "edges", "pairs", "closure\nms", "scipy\nms", "closure/\nscipy", "closure\nMB",
        "as pairs\nMB", "peak MB", "GPU engines\non an A100\ns",
    )  # fmt: skip
    sheet = Sheet("Real graphs: closure against scipy's strong components (best of 5 each)", headers)
    sheet.notes.append("scipy, if installed, gets a csr matrix made before; the closure gets columns of ids.")
    for graph in graphs:
        result = tables.runner.outcomes[Cell(graph.name, "graph")]
        tables.check(graph.name, "closure", {"closure": result}, {"path": graph.pairs})
        if "closure" not in result.steps:
            continue
        closure, scipy = result.best("closure"), result.best("scipy").get("seconds")
        sheet.rows.append((
            text(graph.name), count(closure["facts_in"]), count(closure["sizes"]["path"]),
            milliseconds(closure["seconds"]), milliseconds(scipy), times(ratio(closure["seconds"], scipy)),
            megabytes([closure["nbytes"]]), megabytes([8 * closure["sizes"]["path"]]),
            megabytes([result.peak_rss]), text(published.GPU_CLOSURE_SECONDS.get(graph.name, "–")),
        ))  # fmt: skip
    tables.sheets.append(sheet)
