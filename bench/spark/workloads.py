"""What is measured: programs, facts of two sizes, who computes them, and on which masters."""

from __future__ import annotations

from dataclasses import dataclass

LOCAL, CLUSTER = "local[2]", "local-cluster[2,1,2048]"
ONE, TWO = "local-cluster[1,1,2048]", "local-cluster[2,1,2048]"

# Who computes a fixpoint: the bridge by the method it chooses or is told, one engine, and loops of joins.
CHOSEN, DECOMPOSED, CONDENSED, ROUNDS = "chosen", "decomposed", "condensed", "rounds"
EXCHANGED = "exchanged"
DRIVER, PLAIN, LABELS = "driver", "plain loop", "label propagation"
OURS = (CHOSEN, CONDENSED, DECOMPOSED, EXCHANGED, ROUNDS)

# What a cell measures.
FIXPOINT, INGEST, ENCODE, SCALING, OVERHEAD, INSERT = (
    "fixpoint", "ingest", "encode", "scaling", "overhead", "insert",
)  # fmt: skip

_PATH = """\
.decl edge(a: number, b: number)
.input edge
.decl path(a: number, b: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z){filter}.
.output path
"""
CLOSURE = _PATH.format(filter="")
FILTERED = _PATH.format(filter=", x != z")
SAME_GENERATION = """\
.decl edge(a: number, b: number)
.input edge
.decl sg(a: number, b: number)
sg(x, y) :- edge(p, x), edge(p, y), x != y.
sg(x, y) :- edge(a, x), sg(a, b), edge(b, y).
.output sg
"""
ANDERSEN = """\
.decl addressOf(a: number, b: number)
.decl assign(a: number, b: number)
.decl load(a: number, b: number)
.decl store(a: number, b: number)
.input addressOf, assign, load, store
.decl pointsTo(a: number, b: number)
pointsTo(y, x) :- addressOf(y, x).
pointsTo(y, x) :- assign(y, z), pointsTo(z, x).
pointsTo(y, w) :- load(y, x), pointsTo(x, z), pointsTo(z, w).
pointsTo(z, w) :- store(y, x), pointsTo(y, z), pointsTo(x, w).
.output pointsTo
"""
COMPONENTS = """\
.decl edge(a: number, b: number)
.input edge
.decl same(a: number, b: number) eqrel
same(x, y) :- edge(x, y).
.output same
"""
LOOPS = """\
.decl edge(a: number, b: number)
.input edge
.decl loop(a: number)
loop(x) :- edge(x, x).
.output loop
"""
TRIPLES = """\
.decl triple(s: symbol, p: symbol, o: symbol)
.input triple
.decl inverse(o: symbol, p: symbol, s: symbol)
inverse(o, p, s) :- triple(s, p, o).
.output inverse
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """`size` is what the generator of `facts` is given, `quick` for quick runs and to warm up.

    `contenders` run on every one of `masters`, `once` on the first one only.
    """

    name: str
    kind: str
    about: str
    program: str
    relation: str
    facts: str
    size: int
    quick: int
    masters: tuple[str, ...] = (LOCAL,)
    contenders: tuple[str, ...] = ("",)
    once: tuple[str, ...] = ()

    def scaled(self, factor: float) -> int:
        return max(self.quick, int(self.size * factor))


_BOTH = (LOCAL, CLUSTER)
_METHODS = (CHOSEN, CONDENSED, DECOMPOSED, EXCHANGED, ROUNDS, PLAIN)

WORKLOADS = (
    Workload(
        "ingest", INGEST, "integer edges into an engine on the driver, against toArrow of the same frame",
        LOOPS, "edge", "edges", 10_000_000, 20_000,
    ),
    Workload(
        "encode", ENCODE, "string triples to ids, against an engine that loads the same files",
        TRIPLES, "triple", "triples", 2_000_000, 5_000,
    ),
    Workload(
        "closure-random", FIXPOINT, "closure of a random digraph of 5 edges a node",
        CLOSURE, "path", "sparse", 1_000, 60, _BOTH, _METHODS, (DRIVER,),
    ),
    Workload(
        "closure-chain", FIXPOINT, "closure of a chain: many rounds, each of few facts",
        CLOSURE, "path", "chain", 200, 12, _BOTH, _METHODS, (DRIVER,),
    ),
    Workload(
        "closure-dag", FIXPOINT, "closure of a random acyclic graph of 10 edges a node",
        CLOSURE, "path", "dag", 10_000, 100, _BOTH, _METHODS, (DRIVER,),
    ),
    Workload(
        "same-generation", FIXPOINT, "same generation of a random tree: no key to decompose by",
        SAME_GENERATION, "sg", "tree", 4_000, 60, _BOTH, (EXCHANGED, ROUNDS, PLAIN), (DRIVER,),
    ),
    Workload(
        "andersen", FIXPOINT, "inclusion-based points-to analysis: rules that join two new facts",
        ANDERSEN, "pointsTo", "andersen", 60_000, 240, _BOTH, (EXCHANGED, ROUNDS, PLAIN), (DRIVER,),
    ),
    Workload(
        "components", FIXPOINT, "connected components of trees of 16 nodes, as pairs of an equivalence",
        COMPONENTS, "same", "blocks", 320_000, 160, _BOTH, (CHOSEN, LABELS), (DRIVER,),
    ),
    Workload(
        "scaling", SCALING, "filtered closure of a random digraph of 100 edges a node, by tasks of their own",
        FILTERED, "path", "dense", 6_000, 30, (ONE, TWO), (DECOMPOSED,),
    ),
    Workload(
        "overhead", OVERHEAD, "four facts on an idle session", CLOSURE, "path", "chain", 5, 5,
        _BOTH, ("auto", "cluster"),
    ),
    Workload(
        "insert-closure", INSERT, "1,000 edges into the saved closure of a random acyclic graph",
        CLOSURE, "path", "dag-and-more", 2_000, 60,
    ),
    Workload(
        "insert-same-generation", INSERT, "1,000 edges into the saved same generation of a random tree",
        SAME_GENERATION, "sg", "tree-and-more", 4_000, 60,
    ),
)  # fmt: skip
