"""The benchmarks of the scheme tables: program, facts, sizes, right answers, and what papers to compare with.

Nothing here imports numpy: the process that starts the others must stay small.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SEMI_NAIVE, MODULES, SCHEMES = "semi-naive", "modules", "schemes"
MODES = (SEMI_NAIVE, MODULES, SCHEMES)
TABLES = ("5.10", "5.12", "5.11", "5.13", "5.14", "modular-1", "real", "eqrel")
"""In the order in which they are made: 5.12 runs the modes of a row in turns, 5.11 needs only one of them."""
LUBM = "lubm"
INITIAL = "initial"
ADDITION_STEPS = (INITIAL, "+1,000 (1)", "+1,000 (2)", "+1,000 (3)")
UPDATE_STEPS = (INITIAL, "-100", "+100", "-5 %")


@dataclass(frozen=True, slots=True)
class Query:
    """A query of table 5.14: its row there, and its text; without brackets it is the whole of a relation.

    ``{first}`` and ``{second}`` stand for the columns of the first fact of the benchmark's `key` relation.
    """

    row: str
    text: str

    @property
    def whole(self) -> bool:
        return "(" not in self.text


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A program on generated facts.

    `size` and `quick` are the generator's parameter as published and for ``--quick`` (0: left out there).
    `modes` are run at full size; the quick one runs all. `expected` has sizes at full size on which all modes
    agreed. `thesis` is the row of tables 5.10 to 5.13 to compare with, `modular` that of the modular paper's.
    """

    name: str
    program: str
    facts: str
    size: int
    quick: int
    thesis: str = ""
    modular: str = ""
    transitive: tuple[str, ...] = ()
    union: tuple[str, ...] = ()
    expected: dict[str, int] = field(default_factory=dict)
    queries: tuple[Query, ...] = ()
    key: str = ""
    sparse: bool = False
    modes: tuple[str, ...] = MODES


_SKOS_TRANSITIVE = ("broaderTransitive", "narrowerTransitive")
_SKOS_QUERIES = (
    Query("TC Q_0", "narrowerTransitive"),
    Query("TC Q_2", "narrowerTransitive({second}, x)"),
    Query("TC Q_7", "narrowerTransitive(x, {second})"),
    Query("TC Q_3", "subject({first}, c), broaderTransitive(c, x)"),
    Query("Union Q_0", "semanticRelation"),
    Query("Union Q_2", "semanticRelation({second}, x)"),
    Query("Union Q_7", "semanticRelation(x, {second})"),
)

BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "TC", "tc.dl", "dag", 10_000, 150, "TC", "DAG-R",
        transitive=("path",), key="edge", expected={"path": 22_766_788},
        queries=(Query("", "path({first}, x)"), Query("", "path(x, {second})")),
    ),
    Benchmark(
        "TC+", "tc-plus.dl", "tc-plus", 2000, 60, "TC+",
        transitive=("R", "R2"), key="A", expected=dict.fromkeys(("R", "R2", "X"), 3_972_013),
        queries=(Query("TC+ R", "R"), Query("", "R({first}, x)"), Query("", "R(x, {second})")),
    ),
    Benchmark(
        "U", "u.dl", "union", 500_000, 300, "U",
        union=("U",), key="A", expected={"U": 6_999_981},
        queries=(Query("U U", "U"), Query("", "U({first}, x)"), Query("", "U(x, {second})")),
    ),
    Benchmark(
        "TCU", "tcu.dl", "tcu", 2000, 60, "TCU",
        transitive=("A", "A2"), union=("U",), key="D",
        expected={"A": 3_543_811, "A2": 3_543_811, "B": 3_944_096, "C": 3_944_096, "U": 3_944_096, "F": 3462},
        queries=(
            Query("TCU A", "A"), Query("", "A({first}, x)"), Query("", "A(x, {second})"),
            Query("TCU U", "U"), Query("", "U({first}, x)"), Query("", "U(x, {second})"),
        ),
    ),
    Benchmark(
        "SKOS-like 0.2M", "skos.dl", "skos", 200_000, 600, "DB50%", "DBpedia-SKOS",
        transitive=_SKOS_TRANSITIVE, union=("semanticRelation",), key="subject", queries=_SKOS_QUERIES,
        expected=dict.fromkeys(_SKOS_TRANSITIVE, 29_885_731) | {"semanticRelation": 59_800_968},
    ),
    Benchmark(
        "SKOS-like 1.4M", "skos.dl", "skos", 1_400_000, 0, "DB75%",
        transitive=_SKOS_TRANSITIVE, union=("semanticRelation",),
    ),
    Benchmark(
        "Wikidata-like", "subclasses.dl", "subclasses", 200_000, 2000, "Wikidata",
        transitive=("subclassOf",), sparse=True, expected={"subclassOf": 696_607, "instanceOf": 4_482_583},
    ),
    Benchmark("LUBM-1", "", LUBM, 1, 1, "LUBM", "LUBM-LE", transitive=("subOrganizationOf",), sparse=True),
    Benchmark("LUBM-5", "", LUBM, 5, 0, "LUBM", "LUBM-LE", transitive=("subOrganizationOf",), sparse=True),
)  # fmt: skip

BROADER: tuple[Benchmark, ...] = (
    Benchmark(
        "broader 0.2M", "broader.dl", "broader", 200_000, 600, "0.2M", expected={"broader": 29_885_731}
    ),
    Benchmark("broader 1.4M", "broader.dl", "broader", 1_400_000, 0, "1.4M"),
)
COMPONENT = Benchmark(
    "one component", "component.dl", "component", 100_000, 300, expected={"same": 10**10}, modes=(SCHEMES,)
)  # fmt: skip

# Closures only, which a Closure object alone keeps up to date; and the thesis's row beside each.
UPDATED: tuple[tuple[Benchmark, str, str], ...] = (
    (BENCHMARKS[0], "edge", "TC"),
    (BROADER[0], "broader", "DB50%"),
    (BROADER[1], "broader", "DB75%"),
)
"""Benchmark, relation whose closure it is, row of table 5.12."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A real graph: its file, and the pairs of its closure."""

    name: str
    file: str
    pairs: int
    quick: bool = False


# Right answers: graphs/README.md.
GRAPHS: tuple[Graph, ...] = (
    Graph("usroads", "usroads.facts.gz", 871_365_688),
    Graph("SF.cedge", "SF.cedge.facts.gz", 80_498_014),
    Graph("CA-HepTh", "CA-HepTh.facts.gz", 74_619_885),
    Graph("OL", "OL.cedge.facts.gz", 146_120, quick=True),
    Graph("TG", "TG.cedge.facts.gz", 481_121, quick=True),
    Graph("cal", "cal.cedge.facts.gz", 501_755, quick=True),
)
