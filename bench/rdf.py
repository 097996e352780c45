"""``python -m bench table rdf``: LUBM as triples, beside what installs here.

Loading, reasoning, queries and updates.
"""

from __future__ import annotations

import re
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness.sheets import Sheet, Value
from bench.lubm import FOLDER
from bench.lubm.generator import universities

NAME = "rdf"
_UB = "http://swat.cse.lehigh.edu/onto/univ-bench.owl#"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_QUERIES = [
    f"PREFIX ub: <{_UB}>\n{query}" for query in re.split(r"# Q\d+\n", (FOLDER / "queries.rq").read_text())[1:]
]
_SLICE = 2_000
"""So many triples owlrl is given: it is too slow for more."""


class Tables:
    """The sheets, one after the other; every peer runs in this process, on the same files."""

    def __init__(self, quick: bool, status: Callable[[str], None]) -> None:
        self._sizes = (1,) if quick else (1, 10)
        self._status = status
        self.problems: list[str] = []
        self.sheets: list[Sheet] = []

    def make(self, show: Callable[[Sheet], None]) -> None:
        """Measure everything, showing each sheet when it is done."""
        with tempfile.TemporaryDirectory(prefix="bench-rdf-") as folder:
            self._warm(Path(folder))
            files = {count: self._written(Path(folder), count) for count in self._sizes}
            for make in (self._loads, self._reasoning, self._queries, self._updates):
                self.sheets.append(make(files))
                show(self.sheets[-1])

    def _written(self, folder: Path, count: int) -> Path:
        """The triples of so many universities, each once, as N-Triples."""
        self._status(f"generating {count} universities")
        path = folder / f"lubm-{count}.nt"
        lines = dict.fromkeys(_line(fact) for fact in universities(count))
        path.write_text("".join(lines))
        return path

    def _warm(self, folder: Path) -> None:
        """Have kernels compiled and libraries imported."""
        path = folder / "warm.nt"
        path.write_text("".join(_line(fact) for fact, _ in zip(universities(1), range(3000), strict=False)))
        for profile in (None, "owl2rl", "rdfs"):
            kb = _engine(path, profile)
            for query in _QUERIES:
                kb.sparql(query)

    def _loads(self, files: dict[int, Path]) -> Sheet:
        import pyoxigraph

        sheet = Sheet(
            "Loading N-Triples", ("LUBM", "triples", "ours s", "ours triples/s", "pyoxigraph s", "ratio")
        )
        for count, path in files.items():
            self._status(f"loading {count}")
            rows, ours = _timed(lambda path=path: _loaded(path))
            _, peer = _timed(
                lambda path=path: pyoxigraph.Store().bulk_load(
                    path=str(path), format=pyoxigraph.RdfFormat.N_TRIPLES
                )
            )
            sheet.rows.append(_row(count, rows, ours, round(rows / ours), peer, peer / ours))
        return sheet

    def _reasoning(self, files: dict[int, Path]) -> Sheet:
        headers = ("LUBM", "by", "load s", "materialise s", "triples", "peak MB", "reasonable s", "owlrl s")
        sheet = Sheet("Materialising", headers)
        for count, path in files.items():
            for by in ("lubm-l", "lubm-lc", "owl2rl", "rdfs"):
                self._status(f"{by} {count}")
                kb, load = _timed(lambda path=path, by=by: _made(path, by))
                _, seconds = _timed(kb.materialise)
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                reasonable = owlrl = None
                if by == "owl2rl" and count == 1:
                    reasonable, owlrl = self._peers(path)
                sheet.rows.append(_row(count, by, load, seconds, len(kb), peak, reasonable, owlrl))
        sheet.notes.append(
            f"reasonable: all triples of LUBM 1 and the ontology; owlrl: {_SLICE:,} of them and the ontology"
        )
        return sheet

    def _peers(self, path: Path) -> tuple[float | None, float | None]:
        import owlrl
        import rdflib
        import reasonable

        ontology = rdflib.Graph().parse(FOLDER / "univ-bench.owl", format="xml")
        data = rdflib.Graph().parse(path, format="nt")
        self._status("reasonable")
        reasoner = reasonable.PyReasoner()
        reasoner.from_graph(ontology + data)
        _, first = _timed(reasoner.reason)
        few = rdflib.Graph()
        for triple, _ in zip(data, range(_SLICE), strict=False):
            few.add(triple)
        self._status("owlrl")
        _, second = _timed(owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand, ontology + few)
        return first, second

    def _queries(self, files: dict[int, Path]) -> Sheet:
        """The 14 queries over the same closure."""
        import pyoxigraph

        sheet = Sheet(
            "The 14 queries, over the closure", ("LUBM", "query", "answers", "ours ms", "pyoxigraph ms")
        )
        for count, path in files.items():
            kb = _engine(path, "lubm-l")
            with tempfile.TemporaryDirectory() as folder:
                kb.write(Path(folder) / "closure.nt")
                store = pyoxigraph.Store()
                store.bulk_load(path=f"{folder}/closure.nt", format=pyoxigraph.RdfFormat.N_TRIPLES)
            totals = [0.0, 0.0]
            for number, query in enumerate(_QUERIES, 1):
                self._status(f"query {number}")
                answer, ours = _best(lambda query=query, kb=kb: kb.sparql(query).rows())
                rows, peer = _best(lambda query=query, store=store: list(store.query(query)))
                if len(answer) != len(rows):
                    self.problems.append(
                        f"LUBM {count}, query {number}: {len(answer)} and {len(rows)} answers"
                    )
                totals = [totals[0] + ours, totals[1] + peer]
                sheet.rows.append(_row(count, str(number), len(answer), 1000 * ours, 1000 * peer))
            sheet.rows.append(_row(count, "sum", None, 1000 * totals[0], 1000 * totals[1]))
        return sheet

    def _updates(self, files: dict[int, Path]) -> Sheet:
        sheet = Sheet("100 triples out and in, warm", ("LUBM", "by", "delete ms", "insert ms"))
        for count, path in files.items():
            lines = path.read_text().splitlines()
            step = len(lines) // 100
            rows = [tuple(re.match(r"(\S+) (\S+) (.*) \.$", line).groups()) for line in lines[::step][:100]]
            for by in ("lubm-l", "owl2rl"):
                self._status(f"updates {by} {count}")
                kb = _engine(path, by)
                best: dict[str, float] = {}
                for _ in range(4):
                    for what in ("delete", "insert"):
                        _, seconds = _timed(lambda kb=kb, what=what, rows=rows: _update(kb, what, rows))
                        best[what] = min(seconds, best.get(what, seconds))
                sheet.rows.append(_row(count, by, 1000 * best["delete"], 1000 * best["insert"]))
        return sheet


def _line(fact: tuple[str, ...]) -> str:
    """A fact of the generator as a line of N-Triples."""
    name = f"<{_UB}{fact[0]}>"
    if len(fact) == 2:
        return f"<{fact[1]}> {_TYPE} {name} .\n"
    is_thing = fact[2].startswith("http://")
    return f"<{fact[1]}> {name} {f'<{fact[2]}>' if is_thing else _quoted(fact[2])} .\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _loaded(path: Path) -> int:
    from gpuengine.rdf.engine import RdfEngine

    kb = RdfEngine()
    rows = kb.load(path)
    kb.materialise()
    return rows


def _made(path: Path, by: str | None) -> Any:
    from gpuengine.rdf.engine import RdfEngine

    if by in ("owl2rl", "rdfs"):
        kb = RdfEngine(ontology=FOLDER / "univ-bench.owl", profile=by)
    else:
        kb = RdfEngine(None if by is None else FOLDER / f"{by}.dlog")
    kb.load(path)
    return kb


def _engine(path: Path, by: str | None) -> Any:
    return _made(path, by).materialise()


def _update(kb: Any, what: str, rows: list[Any]) -> None:
    with kb.update() as update:
        getattr(update, what)(rows)


def _timed(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work(*arguments)
    return found, time.perf_counter() - start


def _best(work: Callable[[], Any]) -> tuple[Any, float]:
    runs = [_timed(work) for _ in range(3)]
    return min(runs, key=lambda run: run[1])


def _row(*values: Any) -> tuple[Value, ...]:
    return tuple(Value(_shown(value), value) for value in values)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
