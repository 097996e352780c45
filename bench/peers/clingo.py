"""clingo on the workload programs: grounding a program without choices derives all its facts."""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path

import clingo

from bench.peers.protocol import Answer, NotApplicable, Task, main
from bench.rules import ANONYMOUS, Rule, Rules, is_variable

_OPERATORS = {"!=": "!=", "=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_BATCH = 65_536


def predicate(name: str) -> str:
    """A relation's name as clingo accepts it (predicates begin with a lower-case letter)."""
    return f"r_{name}"


def term(text: str) -> str:
    """A term: variables begin with an upper-case letter."""
    return text if text == ANONYMOUS or not is_variable(text) else f"V{text}"


def encode(rule: Rule) -> str:
    """One rule in clingo's syntax."""
    parts = [f"{predicate(a.name)}({','.join(map(term, a.terms))})" for a in rule.atoms]
    parts += [f"{term(c.left)} {_OPERATORS[c.operator]} {term(c.right)}" for c in rule.comparisons]
    return f"{predicate(rule.head.name)}({','.join(map(term, rule.head.terms))}) :- {', '.join(parts)}."


def facts(name: str, path: Path) -> str:
    """A tab-separated file as clingo facts, by text replacement."""
    if path.suffix == ".parquet":
        raise NotApplicable("clingo reads no Parquet")
    body = path.read_text(encoding="ascii").strip("\n")
    if not body:
        return ""
    between = f").\n{predicate(name)}("
    return f"{predicate(name)}({body.replace(chr(10), between).replace(chr(9), ',')})."


def count(control: clingo.Control, rules: Rules) -> dict[str, int]:
    """Sizes by relation. Iterating is slow, so the largest relation is what the others leave over."""
    atoms = control.symbolic_atoms
    left = len(atoms)
    sizes = dict.fromkeys(rules.arity, 0)
    iterators = {n: iter(atoms.by_signature(predicate(n), k)) for n, k in rules.arity.items()}
    while len(iterators) > 1:
        for name in list(iterators):
            got = sum(1 for _ in islice(iterators[name], _BATCH))
            sizes[name] += got
            if got < _BATCH and len(iterators) > 1:
                del iterators[name]
                left -= sizes[name]
    for name in iterators:
        sizes[name] = left
    return {name: sizes[name] for name in rules.printed}


def solve(task: Task) -> Answer:
    """Feed facts and rules, ground, count."""
    control = clingo.Control(["--warn=none"])
    start = time.perf_counter()
    for name, filename in task.rules.inputs.items():
        control.add("base", [], facts(name, task.facts / filename))
    control.add("base", [], "\n".join(map(encode, task.rules.rules)))
    loaded = time.perf_counter()
    control.ground([("base", [])])
    sizes = count(control, task.rules)
    done = time.perf_counter()
    return Answer(sizes, {"load": loaded - start, "evaluate": done - loaded}, clingo.__version__)


if __name__ == "__main__":
    sys.exit(main(solve))
