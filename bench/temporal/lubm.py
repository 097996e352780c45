"""LUBM with times: the facts of universities, each with random intervals.

Intervals are like those of MeTeoR's data: two different times of 0 to 50. Constants are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.lubm.generator import universities

LAST_TIME = 50


@dataclass
class TemporalFacts:
    """Facts by predicate: columns of constants (uint32), and start and end of closed intervals (int64)."""

    tables: dict[str, tuple[list[np.ndarray], np.ndarray, np.ndarray]]
    constants: int

    def __len__(self) -> int:
        return sum(len(start) for _, start, _ in self.tables.values())


def generate(facts: int, per_atom: float, seed: int = 1) -> TemporalFacts:
    """`facts` facts, with so many intervals for each atom.

    Fewer of them for the same facts are more constants.
    """
    numbers: dict[str, int] = {}
    rows: dict[str, list[tuple[int, ...]]] = {}
    seen: set[tuple[str, ...]] = set()
    wanted = max(1, round(facts / per_atom))
    for atom in universities(wanted):
        if atom in seen:
            continue
        seen.add(atom)
        name, *terms = atom
        rows.setdefault(name, []).append(tuple(numbers.setdefault(term, len(numbers)) for term in terms))
        if len(seen) == wanted:
            break
    random = np.random.default_rng(seed)
    tables = {}
    left = facts
    for place, (name, listed) in enumerate(rows.items()):
        atoms = np.array(listed, np.uint32)
        many = left if place == len(rows) - 1 else min(left, round(len(atoms) * per_atom))
        left -= many
        chosen = np.arange(many) % len(atoms)
        first = random.integers(0, LAST_TIME + 1, many)
        second = (first + random.integers(1, LAST_TIME + 1, many)) % (LAST_TIME + 1)
        columns = [np.ascontiguousarray(atoms[chosen, j]) for j in range(atoms.shape[1])]
        tables[name] = columns, np.minimum(first, second), np.maximum(first, second)
    return TemporalFacts(tables, len(numbers))
