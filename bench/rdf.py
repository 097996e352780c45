"""``python -m bench table rdf``: LUBM as triples, beside what installs here.

Loading, reasoning, queries, updates, owl:sameAs and closures.
"""

from __future__ import annotations

import math
import re
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.harness.sheets import Sheet, Value
from bench.lubm import FOLDER
from bench.lubm.generator import universities

NAME = "rdf"
_UB = "http://swat.cse.lehigh.edu/onto/univ-bench.owl#"
_SAME = "<http://www.w3.org/2002/07/owl#sameAs>"
_OWL, _RDFS = "<http://www.w3.org/2002/07/owl#", "<http://www.w3.org/2000/01/rdf-schema#"
_SKOS = "<http://www.w3.org/2004/02/skos/core#"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_QUERIES = [
    f"PREFIX ub: <{_UB}>\n{query}" for query in re.split(r"# Q\d+\n", (FOLDER / "queries.rq").read_text())[1:]
]
_MEMBERS = "SELECT ?x { ?x <http://example.org/p> <http://example.org/c> }"
_MOST_QUERIED = 10
"""Queries and updates are of so many universities at most."""
_TOGETHER = 2_000_000
_PEER_SECONDS = 180
"""So long, by the processor, peers may reason; the bench tells where one was not done by then."""
_QUICK_PEER_SECONDS = 20
_RUNS = 3
SIZES = (1, 10)
"""Universities, unless others are asked for: 50 take minutes and 1.2 GB of text, 100 twice as much."""


class Tables:
    """The sheets, one after the other; every peer runs in this process, on the same files."""

    def __init__(self, quick: bool, sizes: Sequence[int], status: Callable[[str], None]) -> None:
        self._quick = quick
        self._sizes = (1,) if quick else tuple(sizes)
        self._status = status
        self.problems: list[str] = []
        self.sheets: list[Sheet] = []

    def make(self, show: Callable[[Sheet], None]) -> None:
        """Measure everything, showing each sheet when it is done."""
        with tempfile.TemporaryDirectory(prefix="bench-rdf-") as folder:
            self._warm(Path(folder))
            files = {count: self._written(Path(folder), count) for count in self._sizes}
            few = {count: path for count, path in files.items() if count <= _MOST_QUERIED}
            for make, of in (
                (self._loads, files),
                (self._reasoning, files),
                (self._same_program, few),
                (self._queries, few),
                (self._updates, few),
                (self._equality, few),
                (self._closures, few),
            ):
                self.sheets.append(make(of))
                show(self.sheets[-1])

    def _written(self, folder: Path, count: int) -> Path:
        """The triples of so many universities as N-Triples, each once among those that are made together."""
        self._status(f"generating {count} universities")
        path = folder / f"lubm-{count}.nt"
        facts = universities(count)
        with path.open("w") as sink:
            while lines := dict.fromkeys(_line(fact) for fact in islice(facts, _TOGETHER)):
                sink.write("".join(lines))
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
        """Each cell in a process of its own, so that the memory is that of the cell."""
        headers = (
            *("LUBM", "by", "load s", "load cpu s", "materialise s", "materialise cpu s"),
            *("triples", "peak MB"),
            *("reasonable s", "reasonable / ours", "owlrl s", "owlrl / ours"),
        )
        sheet = Sheet("Materialising", headers)
        for count, path in files.items():
            for by in ("lubm-l", "lubm-lc", "owl2rl", "rdfs"):
                self._status(f"{by} {count}")
                if self._quick:
                    figures = measured(str(path), by)
                else:
                    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                        figures = pool.submit(measured, str(path), by).result()
                row = list(_row(count, by, *figures))
                for work, most in ((reasonable_seconds, _MOST_QUERIED), (owlrl_seconds, 1)):
                    asked = by == "owl2rl" and count <= most
                    row += _compared(self._peer(work, path) if asked else None, figures[3])
                sheet.rows.append(tuple(row))
        sheet.notes.append(
            "cpu: of the processor, as what reasonable and owlrl took over the same triples, and the ratios; "
            "> where one was ended before it was done; – for a peer that is not installed, or was not asked"
        )
        return sheet

    def _same_program(self, files: dict[int, Path]) -> Sheet:
        """lubm-l over triples, and what became of it as Datalog over fact files: evaluation alone, warm."""
        from gpuengine import Engine

        sheet = Sheet(
            "lubm-l: over triples, and over fact files", ("LUBM", "triples s", "facts s", "ratio", "facts")
        )
        for count, path in files.items():
            self._status(f"the same program {count}")
            ours, facts = [], []
            for _ in range(_RUNS):
                kb = _made(path, "lubm-l")
                assert kb.engine  # rules read, triples in their relations
                ours.append(_timed(kb.materialise)[1])
            with tempfile.TemporaryDirectory() as folder:
                text = kb.program()
                for name, table in kb.engine.loaded.items():
                    if len(table):
                        file = Path(folder) / f"{name}.facts"
                        columns = [kb.terms.texts(column) for column in table.columns()]
                        file.write_text("".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)))
                for _ in range(_RUNS):
                    plain = Engine(text)
                    for file in Path(folder).iterdir():
                        plain.load(file.stem, file)
                    facts.append(_timed(plain.materialise)[1])
            rows = sum(len(plain[name]) for name in plain.relations)
            if rows != sum(len(kb.engine[name]) for name in kb.engine.relations):
                self.problems.append(f"LUBM {count}: the same program has other facts over fact files")
            sheet.rows.append(_row(count, min(ours), min(facts), min(ours) / min(facts), rows))
        return sheet

    def _equality(self, files: dict[int, Path]) -> Sheet:
        """A chain of terms that are the same, each with a fact; it falls apart, and is whole again."""
        headers = (
            "members",
            "triples",
            "load ms",
            "materialise ms",
            "count ms",
            "split ms",
            "merge ms",
            "query ms",
        )
        sheet = Sheet("owl:sameAs: one class", headers)
        for size in (1_000,) if self._quick else (1_000, 10_000, 100_000):
            self._status(f"owl:sameAs {size:,}")
            members = [f"<http://example.org/m{number}>" for number in range(size)]
            chain = [(one, _SAME, other) for one, other in pairwise(members)]
            facts = [(one, "<http://example.org/p>", "<http://example.org/c>") for one in members]
            kb = _empty("owl2rl")
            _, load = _timed(kb.load, chain + facts)
            _, whole = _timed(kb.materialise)
            triples, count = _timed(kb.__len__)
            if triples != size * size + size:
                self.problems.append(f"owl:sameAs: {triples:,} triples of {size:,} members")
            middle = [chain[size // 2]]
            best: dict[str, float] = {}
            for _ in range(3):
                for what in ("delete", "insert"):
                    _, seconds = _timed(_update, kb, what, middle)
                    best[what] = min(seconds, best.get(what, seconds))
            _, asked = _best(lambda kb=kb: kb.sparql(_MEMBERS).rows())
            times = (load, whole, count, best["delete"], best["insert"], asked)
            sheet.rows.append(_row(size, triples, *(1000 * seconds for seconds in times)))
        return sheet

    def _closures(self, files: dict[int, Path]) -> Sheet:
        """A thesaurus, as tables 5.12 and 5.14 have them: skos:broaderTransitive through SPARQL."""
        import pyoxigraph

        sheet = Sheet(
            "A closure through SPARQL",
            ("concepts", "pairs", "materialise s", "query", "ours ms", "pyoxigraph ms"),
        )
        for size in (1_000,) if self._quick else (1_000, 10_000, 100_000):
            self._status(f"a thesaurus of {size:,}")
            broader = f"{_SKOS}broader>"
            # Each concept but the first has a broader one, and every third another.
            edges = [(number, number // 2) for number in range(1, size)]
            edges += [(number, number - 1) for number in range(3, size, 3)]
            rows = [
                (f"<http://example.org/c{one}>", broader, f"<http://example.org/c{other}>")
                for one, other in edges
            ]
            axioms = [
                (broader, f"{_RDFS}subPropertyOf>", f"{_SKOS}broaderTransitive>"),
                (f"{_SKOS}broaderTransitive>", _TYPE, f"{_OWL}TransitiveProperty>"),
            ]
            for _ in range(2):  # the first may have to compile the kernels of closures
                kb = _empty("owl2rl")
                kb.load(rows + axioms)
                _, seconds = _timed(kb.materialise)
            store = pyoxigraph.Store()
            text = "".join(f"{' '.join(row)} .\n" for row in rows)
            store.bulk_load(text.encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)
            pairs = None
            for name, head, one, other in (
                ("all, counted", "(COUNT(*) AS ?n)", "?x", "?y"),
                ("above one", "?y", f"<http://example.org/c{size - 1}>", "?y"),
                ("below one", "?x", "?x", "<http://example.org/c3>"),
            ):
                mine = f"SELECT {head} {{ {one} {_SKOS}broaderTransitive> {other} }}"
                theirs = f"SELECT {head} {{ {one} {broader}+ {other} }}"
                answer, ours = _best(lambda kb=kb, mine=mine: kb.sparql(mine).rows())
                peer = None
                if size <= 1_000 or name != "all, counted":  # all pairs are too many for it
                    rows_there, peer = _best(lambda store=store, theirs=theirs: list(store.query(theirs)))
                    if {str(row[0]) for row in rows_there} != {row[0] for row in answer}:
                        self.problems.append(f"a thesaurus of {size:,}: other answers for {name}")
                pairs = pairs or int(str(answer[0][0]).split('"')[1])
                sheet.rows.append(
                    _row(size, pairs, seconds, name, 1000 * ours, None if peer is None else 1000 * peer)
                )
        return sheet

    def _peer(self, work: Callable[[str, int], float], path: Path) -> tuple[float, bool] | None:
        """Seconds of the processor that a peer took, and whether it was done by then; None: not installed.

        It has a process of its own, which the system ends if it reasons too long.
        """
        self._status(work.__name__)
        limit = _QUICK_PEER_SECONDS if self._quick else _PEER_SECONDS
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_tell, args=(theirs, work, str(path), limit))
        process.start()
        theirs.close()
        try:
            return float(ours.recv()), True
        except EOFError:  # it was ended, failed, or is not installed
            process.join()
            return (float(limit), False) if process.exitcode == -signal.SIGXCPU else None
        finally:
            process.kill()
            process.join()

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


def measured(path: str, by: str) -> tuple[float, float, float, float, int, int]:
    """Seconds to load, and to materialise, each by the clock and by the processor; triples; and the most
    memory that this process had, in MB. Libraries are imported and kernels loaded before."""
    _warmed(by)
    times = [time.process_time()]
    kb, load = _timed(_made, Path(path), by)
    times.append(time.process_time())
    _, seconds = _timed(kb.materialise)
    times.append(time.process_time())
    return load, times[1] - times[0], seconds, times[2] - times[1], len(kb), _peak_megabytes()


def _warmed(by: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "few.nt"
        path.write_text("".join(_line(fact) for fact in islice(universities(1), 3000)))
        _engine(path, by)


def _compared(peer: tuple[float, bool] | None, ours: float) -> tuple[Value, ...]:
    """What a peer took and how many times that is what we took; at least, if it was not done."""
    if peer is None:
        return _row(None, None)
    seconds, is_done = peer
    mark = "" if is_done else "> "
    return tuple(Value(mark + _shown(value), value) for value in (seconds, seconds / ours))


def _peak_megabytes() -> int:
    """The most that this process held; what `getrusage` says begins with what its parent held."""
    status = Path("/proc/self/status")
    if status.exists() and (line := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(line[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def reasonable_seconds(path: str, limit: int) -> float:
    """How long the processor reasons by reasonable over triples and the ontology."""
    import rdflib
    import reasonable

    reasoner = reasonable.PyReasoner()
    reasoner.from_graph(rdflib.Graph().parse(FOLDER / "univ-bench.owl", format="xml"))
    turtle = Path(path).with_suffix(".ttl")  # it goes by the name, and N-Triples are Turtle
    turtle.unlink(missing_ok=True)
    turtle.hardlink_to(path)
    reasoner.load_file(str(turtle))
    return busy_seconds(limit, reasoner.reason)


def owlrl_seconds(path: str, limit: int) -> float:
    """How long the processor reasons by owlrl over triples and the ontology."""
    import owlrl
    import rdflib

    both = rdflib.Graph().parse(path, format="nt").parse(FOLDER / "univ-bench.owl", format="xml")
    return busy_seconds(limit, owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand, both)


def _tell(to: Connection, work: Callable[[str, int], float], path: str, limit: int) -> None:
    try:
        to.send(work(path, limit))
    except ImportError:
        to.close()


def busy_seconds(limit: int, work: Callable[..., Any], *arguments: Any) -> float:
    """Seconds of the processor; the system ends the process if they are more than `limit`."""
    start = time.process_time()
    end = math.ceil(start) + limit
    resource.setrlimit(resource.RLIMIT_CPU, (end, end + 5))
    work(*arguments)
    return time.process_time() - start


def _empty(profile: str) -> Any:
    from gpuengine.rdf.engine import RdfEngine

    return RdfEngine(profile=profile)


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
    result = work(*arguments)
    return result, time.perf_counter() - start


def _best(work: Callable[[], Any]) -> tuple[Any, float]:
    runs = [_timed(work) for _ in range(_RUNS)]
    return min(runs, key=lambda run: run[1])


def _row(*values: Any) -> tuple[Value, ...]:
    return tuple(Value(_shown(value), value) for value in values)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
