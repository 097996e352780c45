"""LUBM: the axioms as rules, and the generator's facts as columns of numbers.

Run as a process, ``python -m bench.schemes.lubm LUBM-FOLDER UNIVERSITIES OUT-FOLDER``: writes ``lubm.dl``
and ``facts.npz``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np


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
    found: dict[str, int] = {}
    for axiom in axioms:
        for atom in rule(axiom).rstrip(".").replace(" :- ", ", ").split(", "):
            name, _, arguments = atom.partition("(")
            found[name] = arguments.count(",") + 1
    return found


def program(axioms: Iterable[str], relations: dict[str, int]) -> str:
    """Declarations, a rule for each axiom, and the size of everything that has a rule."""
    rules = [rule(axiom) for axiom in axioms]
    heads = sorted({r.partition("(")[0] for r in rules})
    declared = (
        f".decl {name}({', '.join(f'a{i}:number' for i in range(arity))})"
        for name, arity in relations.items()
    )
    return "\n".join([*declared, *rules, *(f".printsize {head}" for head in heads), ""])


def write(folder: Path, universities: int, out: Path) -> None:
    """Generate the facts of so many universities and number their names."""
    axioms = (folder / "axioms.tsv").read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "facts.tsv"
        subprocess.run(
            [sys.executable, str(folder / "lubm_gen.py"), str(universities), str(text)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        rows: dict[str, dict[tuple[int, ...], None]] = {}
        numbers: dict[str, int] = {}
        with text.open(encoding="utf-8") as lines:
            for line in lines:
                name, *values = line.rstrip("\n").split("\t")
                fact = tuple(numbers.setdefault(value, len(numbers)) for value in values)
                rows.setdefault(name, {})[fact] = None
    columns = {name: np.array(list(facts), dtype=np.int64).T for name, facts in rows.items()}
    relations = arities(axioms) | {name: len(values) for name, values in columns.items()}
    (out / "lubm.dl").write_text(program(axioms, relations), encoding="utf-8")
    np.savez(out / "facts.npz", allow_pickle=False, **columns)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
