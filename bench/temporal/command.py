"""``python -m bench table mtl``: figure 1 of the paper as tables and a plot, sizes, iTemporal, weather."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.harness.sheets import Sheet, Value, text
from bench.svg import lines
from bench.temporal import others
from bench.temporal.cell import Cell, measure, save, whole_process, write_csv
from bench.temporal.lubm import generate

NAME = "mtl"
PROCEDURES = ("naive", "seminaive", "optimised")
_PROGRAMS = Path(__file__).parents[1] / "programs" / "temporal"
_RESULTS = Path(__file__).parents[1] / "results"
_STYLE = (
    "svg{max-width:60em} text{font:12px sans-serif} .grid{stroke:#ddd} .line{fill:none;stroke-width:2}"
    ".s0{stroke:#b33;fill:#b33;color:#b33} .s1{stroke:#36b;fill:#36b;color:#36b}"
    ".s2{stroke:#283;fill:#283;color:#283}"
    ".line.s0,.line.s1,.line.s2{fill:none}"
)
_PLOT_ROUNDS = (1, 5, 9, 15, 20, 30)


class Tables:
    """The sheets, one after the other; `facts` is the size of the largest."""

    def __init__(self, quick: bool, facts: int, timeout: float, status: Callable[[str], None]) -> None:
        self._quick = quick
        self._facts = 10_000 if quick else facts
        self._timeout = timeout
        self._status = status
        self.problems: list[str] = []
        self.sheets: list[Sheet] = []

    def make(self, show: Callable[[Sheet], None]) -> None:
        """Measure everything, showing each sheet when it is done."""
        with tempfile.TemporaryDirectory(prefix="bench-mtl-") as folder:
            place = Path(folder)
            for make in (self._rounds, self._constants, self._sizes, self._others):
                self.sheets.append(make(place))
                show(self.sheets[-1])

    def _cells(self, program: str, facts: Path, rounds: int) -> dict[str, Cell | None]:
        cells = {}
        for procedure in PROCEDURES:
            self._status(f"{program} {procedure}")
            cells[procedure] = measure(_PROGRAMS / f"{program}.mtl", facts, procedure, rounds, self._timeout)
        sizes = {cell.facts[-1] for cell in cells.values() if cell is not None}
        if len(sizes) > 1:
            self.problems.append(f"{program}: the procedures disagree: {sizes}")
        return cells

    def _rounds(self, place: Path) -> Sheet:
        """Figure 1 (a) and (b): one data set, thirty rounds."""
        self._status("generating")
        save(generate(self._facts, 4), place / "rounds.npz")
        cells = self._cells("lubm", place / "rounds.npz", 30)
        rows = []
        for procedure, cell in cells.items():
            if cell is None:
                rows.append((text(procedure), *[text("too long")] * (len(_PLOT_ROUNDS) + 3)))
                continue
            at = [cell.seconds[min(k, len(cell.seconds)) - 1] for k in _PLOT_ROUNDS]
            rows.append(
                (
                    text(procedure),
                    *map(_seconds, at),
                    _seconds(cell.cpu),
                    text(f"{cell.facts[-1]:,}"),
                    text(f"{cell.peak_rss / 1e6:,.0f} MB"),
                )
            )
        self._plot(cells)
        return Sheet(
            f"figure 1 (a), (b): lubm, {self._facts:,} facts, 30 rounds: seconds after round",
            ("engine", *map(str, _PLOT_ROUNDS), "processor", "stored facts", "memory"),
            rows,
            ["what the paper plots as memory is the number of stored facts"],
        )

    def _plot(self, cells: dict[str, Cell | None]) -> None:
        series = {
            name: [(number, max(s, 1e-4)) for number, s in enumerate(cell.seconds, 1)]
            for name, cell in cells.items()
            if cell is not None
        }
        style = {name: f"s{number}" for number, name in enumerate(PROCEDURES)}
        drawn = lines(series, style, "round", "seconds since the first", reference=False)
        named = ", ".join(f'<span class="{style[name]}">{name}</span>' for name in series)
        _RESULTS.mkdir(parents=True, exist_ok=True)
        page = f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style><p>{named}</p>{drawn}"
        (_RESULTS / "mtl.html").write_text(page, encoding="utf-8")

    def _constants(self, place: Path) -> Sheet:
        """Figure 1 (c) and (d): as many facts about more and more constants, fifteen rounds."""
        count = max(1000, self._facts // 3)
        rows = []
        for per_atom in (12, 1) if self._quick else (12, 8, 4, 2, 1):
            self._status("generating")
            facts = generate(count, per_atom)
            save(facts, place / "constants.npz")
            cells = self._cells("lubm", place / "constants.npz", 15)
            rows.append(
                (
                    text(f"{facts.constants:,}"),
                    *(_seconds(cell.cpu if cell else None) for cell in cells.values()),
                    text(next((f"{cell.facts[-1]:,}" for cell in cells.values() if cell), "")),
                    _ratio(cells["naive"], cells["seminaive"]),
                    _ratio(cells["seminaive"], cells["optimised"]),
                )
            )
        return Sheet(
            f"figure 1 (c), (d): lubm, {count:,} facts, 15 rounds, more constants: processor seconds",
            ("constants", *PROCEDURES, "stored facts", "naive / seminaive", "seminaive / optimised"),
            rows,
            [],
        )

    def _sizes(self, place: Path) -> Sheet:
        """Is it linear? And 100,000 facts in five rounds, for which the published reasoner takes 34 s."""
        rows = []
        for share in (0.1,) if self._quick else (0.1, 0.2, 0.4, 0.8):
            count = round(self._facts * share)
            save(generate(count, 2), place / "sizes.npz")
            self._status(f"lubm {count:,}")
            cell = measure(_PROGRAMS / "lubm.mtl", place / "sizes.npz", "optimised", 5, self._timeout)
            rows.append(
                (
                    text(f"{count:,}"),
                    _seconds(cell.total if cell else None),
                    _seconds(cell.cpu if cell else None),
                    text(f"{1e6 * cell.cpu / count:.2f} µs" if cell else ""),
                )
            )
        return Sheet(
            "lubm, optimised, 5 rounds: seconds by number of facts",
            ("facts", "seconds", "processor", "processor / fact"),
            rows,
            ["MeTeoR: 34 processor seconds for 100,000 facts (semi-naïve), 65 (naïve), as published"],
        )

    def _others(self, place: Path) -> Sheet:
        count = 1_000 if self._quick else 100_000
        rows = []
        for name, facts in (("itemporal", others.itemporal(count)), ("weather", others.weather(count))):
            save(facts, place / f"{name}.npz")
            write_csv(facts, place / name)
            cells = self._cells(name, place / f"{name}.npz", 0)
            self._status(f"{name} whole process")
            runs = [
                whole_process(_PROGRAMS / f"{name}.mtl", place / name, place / "out")
                for _ in range(1 if self._quick else 3)
            ]
            rows.append(
                (
                    text(name),
                    text(f"{len(facts):,}"),
                    *(_seconds(cell.cpu if cell else None) for cell in cells.values()),
                    _seconds(min(cpu for _, cpu in runs)),
                    _seconds(min(seconds for seconds, _ in runs)),
                )
            )
        return Sheet(
            "iTemporal and weather, until nothing new follows: processor seconds",
            ("benchmark", "facts", *PROCEDURES, "whole process", "its seconds"),
            rows,
            ["whole process: gpuengine run, from CSV to Parquet, best of three"],
        )


def _seconds(value: float | None) -> Value:
    return text("too long" if value is None else f"{value:.3f}")


def _ratio(one: Cell | None, other: Cell | None) -> Value:
    return text(f"{one.cpu / other.cpu:.2f}×" if one and other else "")
