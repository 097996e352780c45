"""The workloads of the update benchmark: program, facts, sizes, and which steps are run on them.

Nothing here imports numpy: the process that starts the others must stay small.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.catalogue import PROGRAMS

FULL, WITH_RULE = "full", "with rule"
SMALL, MEDIUM, LARGE = "-1,000", "-100", "-25 %"
BATCHES = 10
LATENCIES = 50
"""How many small updates `wide` takes after the first."""
LUBM, RDFS = "lubm", "rdfs"

Schemes = dict[str, str] | None


@dataclass(frozen=True, slots=True)
class Step:
    """One measured change, and the state that it leads to: what anybody computes anew to have the same."""

    name: str
    state: str
    runs: int = 1


STEPS = (
    Step("initial", FULL),
    Step("first: -1", "-1"),
    Step("+1", FULL),
    Step("first: -100", MEDIUM),
    Step("first: +100", FULL),
    Step("-100", MEDIUM),
    Step("+100", FULL),
    Step("-1,000", SMALL, BATCHES),
    Step("+1,000", FULL, BATCHES),
    Step("+ rule", WITH_RULE),
    Step("- rule", FULL),
    Step("-25 %", LARGE),
    Step("+25 %", FULL),
)
SHARE_STEPS = (
    Step("99 %", "99 %"),
    Step("99 %: +1 %", FULL),
    Step("99 %: -1 %", "99 %"),
    Step("99 %: +1 % again", FULL),
    Step("50 %", "50 %"),
    Step("50 %: +50 %", FULL),
    Step("50 %: -50 %", "50 %"),
)
LAST = "at the end"
LATENCY_STEPS = (
    Step("initial", FULL),
    Step("first update", "after the first"),
    Step("10 facts", LAST, LATENCIES),
)
DURABLE_STEPS = (
    Step("initial", FULL),
    Step("save", FULL),
    Step("open", FULL),
    *LATENCY_STEPS[1:],
    Step("open again", LAST),
)

_CLOSURE_DECLS = ".decl edge(x:number, y:number)\n.decl path(x:number, y:number)\npath(x,y) :- edge(x,y).\n"
_FORWARD = _CLOSURE_DECLS + "path(x,z) :- path(x,y), edge(y,z).\n"
_BACKWARD = _CLOSURE_DECLS + "path(x,z) :- edge(x,y), path(y,z).\n"
_HOP = ".decl hop(x:number, y:number)\n"
_SKOS_DECLS = "".join(
    f".decl {name}(x:number, y:number)\n"
    for name in (
        "subject", "broader", "narrower", "broaderTransitive", "narrowerTransitive", "related",
        "semanticRelation",
    )
)  # fmt: skip
_SKOS_LINEAR = """
narrower(x,y) :- broader(y,x).
broaderTransitive(x,y) :- broader(x,y).
broaderTransitive(x,z) :- broaderTransitive(x,y), broader(y,z).
narrowerTransitive(x,y) :- broaderTransitive(y,x).
related(x,y) :- related(y,x).
semanticRelation(x,y) :- broaderTransitive(x,y).
semanticRelation(x,y) :- narrowerTransitive(x,y).
semanticRelation(x,y) :- related(x,y).
"""
# The vocabulary as numbers; see `facts.rdfs`.
TYPE, SUBCLASS, SUBPROPERTY, DOMAIN, RANGE, PART = range(1, 7)
_RDFS = f"""
.decl ontology(s:number, p:number, o:number)
.decl T(s:number, p:number, o:number)
T(s,p,o) :- ontology(s,p,o).
T(y,{TYPE},x) :- T(a,{DOMAIN},x), T(y,a,z).
T(z,{TYPE},x) :- T(a,{RANGE},x), T(y,a,z).
T(x,{SUBPROPERTY},z) :- T(x,{SUBPROPERTY},y), T(y,{SUBPROPERTY},z).
T(x,{SUBCLASS},z) :- T(x,{SUBCLASS},y), T(y,{SUBCLASS},z).
T(z,{TYPE},y) :- T(x,{SUBCLASS},y), T(z,{TYPE},x).
T(x,b,y) :- T(a,{SUBPROPERTY},b), T(x,a,y).
"""
_WIDE = """
.decl person(p:number, city:number)
.decl knows(a:number, b:number)
.decl partOf(place:number, larger:number)
.decl livesIn(p:number, place:number)
.decl neighbour(a:number, b:number)
.decl friend(a:number, b:number)
.decl sociable(a:number)
livesIn(p,c) :- person(p,c).
livesIn(p,r) :- livesIn(p,c), partOf(c,r).
neighbour(a,b) :- knows(a,b), person(a,c), person(b,c).
friend(a,b) :- knows(a,b), knows(b,a).
sociable(a) :- friend(a,_).
"""


def _as_chosen() -> dict[str, Schemes]:
    return {"": None}


_AND_TABLES: dict[str, Schemes] = {"auto": None, "tables": {"*": "table"}}


@dataclass(frozen=True, slots=True)
class Workload:
    """A program on generated facts.

    `size` and `quick` are the generator's parameter as measured and for ``--quick``. `program` is empty if it
    comes with the facts. `rule` is added and removed; `peer_program` says the same as `program` in linear
    rules; `modes` are the storage schemes to measure with, by name. Facts of `fixed` relations stay.
    """

    name: str
    about: str
    facts: str
    size: int
    quick: int
    program: str = ""
    declared: str = ""
    rule: str = ""
    peer_program: str = ""
    modes: dict[str, Schemes] = field(default_factory=_as_chosen)
    fixed: tuple[str, ...] = ()
    modular: str = ""
    dynamic: str = ""
    """Rows of the papers to compare with; workloads of the dynamic paper also load shares of the facts."""
    is_latency: bool = False

    @property
    def steps(self) -> tuple[Step, ...]:
        if self.is_latency:
            return LATENCY_STEPS
        return STEPS + (SHARE_STEPS if self.dynamic else ())

    @property
    def states(self) -> tuple[str, ...]:
        """What is computed anew, each once."""
        return tuple(dict.fromkeys(step.state for step in self.steps))


def _program(name: str) -> str:
    return (PROGRAMS / "schemes" / name).read_text(encoding="utf-8")


_MEMBER_RULE = "memberOf(x,y) :- advisor(x,z), worksFor(z,y)."

WORKLOADS: tuple[Workload, ...] = (
    Workload(
        "DAG-R", "an acyclic random graph, 10 edges a node; path is transitive", "dag", 10_000, 150,
        _program("tc.dl"), _HOP, "hop(x,z) :- edge(x,y), edge(y,z).", _FORWARD,
        {"closure": {"path": "closure"}, "tables": {"*": "table"}}, modular="DAG-R",
    ),
    Workload(
        "SKOS-like", "categories with cycles, related pairs, articles; a Datalog subset of SKOS", "skos",
        200_000, 600, _program("skos.dl"), "", "related(x,y) :- subject(a,x), subject(a,y).",
        _SKOS_DECLS + _SKOS_LINEAR, modular="DBpedia-SKOS",
    ),
    Workload(
        "LUBM-like", "LUBM, 40 universities, 98 rules of its ontology", LUBM, 40, 1,
        rule=_MEMBER_RULE, modular="LUBM-LE",
    ),
    Workload(
        "RAND1K", "a dense graph: each pair of nodes is an edge with a chance of 1 %", "dense", 1000, 60,
        _BACKWARD, "", "path(x,z) :- edge(x,y), edge(z,y).", modes=_AND_TABLES, dynamic="RAND1K",
    ),
    Workload(
        "RMAT1K", "a sparse graph with a power law (R-MAT), 10 edges a node", "rmat", 1000, 60,
        _BACKWARD, "", "path(x,z) :- edge(x,y), edge(z,y).", modes=_AND_TABLES, dynamic="RMAT1K",
    ),
    Workload(
        "LUBM-RDFS", "LUBM, 10 universities, as triples with the six RDFS rules", RDFS, 10, 1,
        _RDFS, "", f"T(x,{PART},z) :- T(x,{PART},y), T(y,{PART},z).",
        fixed=("ontology",), dynamic="RDFS",
    ),
    Workload(
        "LUBM-OWL", "LUBM, 10 universities, with OWL 2 RL rules: 98 rules of its ontology", LUBM, 10, 1,
        rule=_MEMBER_RULE, dynamic="OWL2RL",
    ),
    Workload(
        "wide", "people, whom they know and where they live; 10 facts an update", "people", 5_000_000, 2000,
        _WIDE, fixed=("partOf",), is_latency=True,
    ),
)  # fmt: skip
