"""A 100-rule ontology-like program: one relation for each class and property, and facts for it.

Class and property hierarchies, domains, ranges, inverses, symmetric and transitive properties,
existential restrictions, intersections and property chains, as an OWL 2 RL rewriting yields them.
"""

from __future__ import annotations

import numpy as np

from bench.random_numbers import below

CLASSES = 30
PROPERTIES = 20
_DOMAINS = 12
_TREE, _RUN = 18, 19  # the transitive properties: a shallow tree, and runs of sixteen
_FANOUT, _RUN_LENGTH = 4, 16

Columns = tuple[np.ndarray, ...]


def rules() -> list[str]:
    """The hundred rules, grouped by kind."""
    subclass = [f"C{(i - 1) // 2}(x) :- C{i}(x)." for i in range(1, CLASSES)]
    subclass += [f"C{i // 3}(x) :- C{i}(x)." for i in (10, 13, 16, 19, 22, 25)]
    subproperty = [f"P{(i - 1) // 3}(x,y) :- P{i}(x,y)." for i in range(1, 13)]
    domains = [f"C{15 + i}(x) :- P{i}(x,y)." for i in range(_DOMAINS)]
    ranges = [f"C{29 - i}(y) :- P{i}(x,y)." for i in range(_DOMAINS)]
    inverse = [f"P{a}(y,x) :- P{b}(x,y)." for a, b in ((13, 14), (14, 13), (15, 16), (16, 15))]
    symmetric = ["P17(y,x) :- P17(x,y)."]
    transitive = [f"P{p}(x,z) :- P{p}(x,y), P{p}(y,z)." for p in (_TREE, _RUN)]
    restrictions = [f"C{2 * i}(x) :- P{5 + i}(x,y), C{20 + i}(y)." for i in range(10)]
    intersections = [f"C{7 + i}(x) :- C{16 + 2 * i}(x), C{17 + 2 * i}(x)." for i in range(6)]
    chains = [f"P{i}(x,z) :- P{13 + i}(x,y), P{5 + i}(y,z)." for i in range(4)]
    located = [f"P4(x,z) :- P4(x,y), P{p}(y,z)." for p in (_TREE, _RUN)]
    return [
        *subclass, *subproperty, *domains, *ranges, *inverse, *symmetric, *transitive,
        *restrictions, *intersections, *chains, *located,
    ]  # fmt: skip


def program() -> str:
    """The whole program text; every relation has input facts, and its size is printed."""
    relations = {f"C{i}": "a0:number" for i in range(CLASSES)}
    relations |= {f"P{i}": "a0:number, a1:number" for i in range(PROPERTIES)}
    lines = [f".decl {name}({columns})\n.input {name}" for name, columns in relations.items()]
    lines += rules()
    lines += [f".printsize {name}" for name in relations]
    return "\n".join(lines) + "\n"


def facts(individuals: int) -> dict[str, Columns]:
    """Class members and property pairs over `individuals` things; grows linearly."""
    members, pairs = individuals // 20, individuals // 4
    tables: dict[str, Columns] = {
        f"C{i}": (np.unique(below(100 + i, members, individuals)),) for i in range(CLASSES)
    }
    for i in range(PROPERTIES):
        tables[f"P{i}"] = (below(200 + i, pairs, individuals), below(300 + i, pairs, individuals))
    partner = np.arange(0, individuals - 1, 2, dtype=np.int64)
    tables["P17"] = (partner, partner + 1)
    child = np.arange(1, pairs, dtype=np.int64)
    tables[f"P{_TREE}"] = (child, child // _FANOUT)
    step = np.arange(individuals // 2, dtype=np.int64)
    step = step[step % _RUN_LENGTH != _RUN_LENGTH - 1]
    tables[f"P{_RUN}"] = (step, step + 1)
    return tables
