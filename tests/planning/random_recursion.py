"""Random recursive programs with long bodies over a few small binary relations."""

from __future__ import annotations

from random import Random
from typing import Any

DECLARATIONS = """
.decl e(x: number, y: number)
.decl f(x: number, y: number)
.decl u(x: number)
.decl p(x: number, y: number)
.decl q(x: number, y: number)
.input e
.input f
.input u
.output p
.output q
p(x, y) :- e(x, y).
q(x, y) :- f(x, y), !e(x, y).
"""
NAMES = ("a", "b", "c", "d", "v")


def recursive_program(seed: int) -> tuple[str, dict[str, list[tuple[Any, ...]]]]:
    """A program of one to three recursive rules of three or four atoms each, and facts for it."""
    random = Random(seed)
    rules = [_rule(random) for _ in range(random.randint(1, 3))]
    facts = {
        name: sorted({tuple(random.randrange(4) for _ in range(arity)) for _ in range(random.randint(0, 6))})
        for name, arity in (("e", 2), ("f", 2), ("u", 1))
    }
    return DECLARATIONS + "\n".join(rules) + "\n", facts


def _rule(random: Random) -> str:
    """``p(x, y) :- ...``: mostly a chain, so that a variable stands in two atoms and nowhere else."""
    length = random.randint(3, 4)
    relations = [random.choice("ppqqef") for _ in range(length)]
    relations[random.randrange(length)] = random.choice("pq")
    atoms = []
    for i, relation in enumerate(relations):
        left, right = NAMES[i], NAMES[i + 1]
        kind = random.random()
        if kind < 0.15:
            left, right = right, left
        elif kind < 0.25:
            right = random.choice(NAMES[: length + 1])
        elif kind < 0.33 and i:
            left, right = NAMES[i], NAMES[i - 1]
        elif kind < 0.36:
            left = str(random.randrange(4))
        elif kind < 0.4:
            right = "_"
        atoms.append(f"{relation}({left}, {right})")
    bound = sorted({c for atom in atoms for c in atom[2:-1].split(", ") if c in NAMES})
    first, second = (random.choice([bound[0], bound[-1], *bound]) for _ in range(2)) if bound else ("1", "2")
    filters = {0: f"{first} != {second}", 1: f"!u({first})", 2: f"u({second})", 3: f"{first} < {second}"}
    body = atoms + [filters[n] for n in random.sample(range(8), 1) if n in filters]
    random.shuffle(body)
    return f"{random.choice('pq')}({first}, {second}) :- {', '.join(body)}."
