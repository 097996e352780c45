"""The axioms as rules, and the facts as columns of numbers.

``python -m bench.lubm.rules UNIVERSITIES OUT-FOLDER`` writes ``lubm.dl`` and ``facts.npz``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.lubm import read_axioms
from bench.lubm.generator import universities as facts_of


def rule(axiom: str) -> str:
    """One line of ``axioms.tsv`` as a rule."""
    kind, left, right = [*axiom.split("\t"), ""][:3]
    if kind == "contains":
        return f"{left}(x) :- {', '.join(_conjuncts(right))}."
    forms = {
        "subClassOf": f"{right}(x) :- {left}(x).",
        "domain": f"{right}(x) :- {left}(x,_).",
        "range": f"{right}(y) :- {left}(_,y).",
        "subPropertyOf": f"{right}(x,y) :- {left}(x,y).",
        "inverse": f"{right}(x,y) :- {left}(y,x).",
        "transitive": f"{left}(x,z) :- {left}(x,y), {left}(y,z).",
    }
    return forms[kind]


def _conjuncts(text: str) -> Iterable[str]:
    """``Person and some headOf and in Department``: a class of x, a property of x to y, a class of y."""
    for part in text.split(" and "):
        word, _, name = part.rpartition(" ")
        yield {"": f"{name}(x)", "some": f"{name}(x,y)", "in": f"{name}(y)"}[word]


def arities(axioms: Iterable[str]) -> dict[str, int]:
    """Every class and property that the axioms name, with its number of columns."""
    columns: dict[str, int] = {}
    for axiom in axioms:
        for atom in rule(axiom).rstrip(".").replace(" :- ", ", ").split(", "):
            name, _, arguments = atom.partition("(")
            columns[name] = arguments.count(",") + 1
    return columns


def program(axioms: Iterable[str], relations: dict[str, int]) -> str:
    """Declarations, a rule for each axiom, and the size of everything that has a rule."""
    rules = [rule(axiom) for axiom in axioms]
    heads = sorted({r.partition("(")[0] for r in rules})
    declared = (
        f".decl {name}({', '.join(f'a{i}:number' for i in range(arity))})"
        for name, arity in relations.items()
    )
    return "\n".join([*declared, *rules, *(f".printsize {head}" for head in heads), ""])


def write(universities: int, out: Path) -> None:
    """Generate the facts of so many universities and number their names."""
    axioms = read_axioms()
    rows: dict[str, dict[tuple[int, ...], None]] = {}
    numbers: dict[str, int] = {}
    for name, *values in facts_of(universities):
        fact = tuple(numbers.setdefault(value, len(numbers)) for value in values)
        rows.setdefault(name, {})[fact] = None
    columns = {name: np.array(list(facts), dtype=np.int64).T for name, facts in rows.items()}
    relations = arities(axioms) | {name: len(values) for name, values in columns.items()}
    (out / "lubm.dl").write_text(program(axioms, relations), encoding="utf-8")
    np.savez(out / "facts.npz", allow_pickle=False, **columns)


if __name__ == "__main__":
    write(int(sys.argv[1]), Path(sys.argv[2]))
