"""Random recursive join programs over hundreds and thousands of facts, against a semi-naive evaluator.

Rules of two to four atoms over data of this size make the planner reorder, split and reuse bodies,
which the small cases of the naive oracle never do.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from random import Random

import pytest

import gpuengine as ge

Row = tuple[int, ...]
Atom = tuple[str, tuple[str, ...]]
SEEDS = range(600 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 40)
MOST_STEPS = 100_000


class TooBigError(Exception):
    """The random program derives more than a test should."""


@dataclass
class Example:
    arities: dict[str, int]
    facts: dict[str, set[Row]]
    rules: list[tuple[Atom, list[Atom]]]

    def text(self) -> str:
        declared = [
            f".decl {name}({', '.join(f'a{i}: number' for i in range(arity))})\n.output {name}"
            for name, arity in self.arities.items()
        ]
        rules = [f"{_atom(head)} :- {', '.join(map(_atom, body))}." for head, body in self.rules]
        return "\n".join([*declared, *rules]) + "\n"


def _atom(atom: Atom) -> str:
    return f"{atom[0]}({', '.join(atom[1])})"


def example(seed: int) -> Example:
    random = Random(seed)
    nodes = random.choice([40, 200, 600, 1500])
    loaded, derived = ["e0", "e1", "e2"][: random.randint(1, 3)], ["h0", "h1"][: random.randint(1, 2)]
    arities = dict.fromkeys([*loaded, *derived], 2)
    arities[random.choice([*arities])] = random.randint(1, 3)
    base = random.choice([0, 2**24 - 20])  # ids are the numbers themselves up to 2^24
    facts = {}
    for name in loaded:
        size = random.choice([50, nodes, int(nodes * 1.3), 2500])
        facts[name] = {
            tuple(base + random.randrange(nodes) for _ in range(arities[name])) for _ in range(size)
        }

    def rule(head: str, readable: list[str], size: int) -> tuple[Atom, list[Atom]]:
        variables = "vwxyz"[: random.randint(2, 5)]
        names = [random.choice(readable) for _ in range(size)]
        body = [(name, tuple(random.choice(variables) for _ in range(arities[name]))) for name in names]
        bound = sorted({variable for _, args in body for variable in args})
        return (head, tuple(random.choice(bound) for _ in range(arities[head]))), body

    rules = []
    for head in derived:
        rules.append(rule(head, loaded, random.randint(1, 2)))
        rules += [rule(head, [*loaded, *derived], random.randint(2, 4)) for _ in range(random.randint(1, 2))]
    return Example(arities, facts, rules)


class SemiNaive:
    """Facts by relation, with hash indexes that grow with them."""

    def __init__(self, given: Example) -> None:
        self.rules = given.rules
        self.known = {name: set(given.facts.get(name, ())) for name in given.arities}
        self._rows = {name: list(rows) for name, rows in self.known.items()}
        self._indexes: dict[tuple[str, tuple[int, ...]], tuple[dict[Row, list[Row]], list[int]]] = {}
        self._steps = 0

    def run(self) -> dict[str, set[Row]]:
        delta = {name: list(rows) for name, rows in self._rows.items()}
        while any(delta.values()):
            new: dict[str, set[Row]] = defaultdict(set)
            for (head, wanted), body in self.rules:
                for i, (name, args) in enumerate(body):
                    for row in delta.get(name, ()):
                        binding = _unify(args, row, {})
                        if binding is not None:
                            self._join([*body[:i], *body[i + 1 :]], binding, wanted, new[head])
            delta = {name: list(rows - self.known[name]) for name, rows in new.items()}
            for name, rows in delta.items():
                self.known[name].update(rows)
                self._rows[name].extend(rows)
        return self.known

    def _join(
        self, body: list[Atom], binding: dict[str, int], wanted: tuple[str, ...], out: set[Row]
    ) -> None:
        if not body:
            out.add(tuple(binding[variable] for variable in wanted))
            return
        name, args = best = max(body, key=lambda atom: sum(variable in binding for variable in atom[1]))
        rest = [atom for atom in body if atom is not best]
        for row in self._matches(name, args, binding):
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise TooBigError
            extended = _unify(args, row, binding)
            if extended is not None:
                self._join(rest, extended, wanted, out)

    def _matches(self, name: str, args: tuple[str, ...], binding: dict[str, int]) -> list[Row]:
        places = tuple(i for i, variable in enumerate(args) if variable in binding)
        index, indexed = self._indexes.setdefault((name, places), (defaultdict(list), [0]))
        rows = self._rows[name]
        for row in rows[indexed[0] :]:
            index[tuple(row[i] for i in places)].append(row)
        indexed[0] = len(rows)
        return index.get(tuple(binding[args[i]] for i in places), [])


def _unify(args: tuple[str, ...], row: Row, binding: dict[str, int]) -> dict[str, int] | None:
    extended = dict(binding)
    agrees = all(extended.setdefault(arg, value) == value for arg, value in zip(args, row, strict=True))
    return extended if agrees else None


@cache
def _small_enough() -> list[tuple[int, dict[str, set[Row]]]]:
    found = []
    for seed in SEEDS:
        try:
            found.append((seed, SemiNaive(example(seed)).run()))
        except TooBigError:
            continue
    return found


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2, "memory": "64MB"}])
def test_recursive_joins(options: dict[str, object]) -> None:
    answers = _small_enough()
    assert len(answers) > len(SEEDS) / 3, "most random programs are too big to say anything"
    for seed, expected in answers:
        given = example(seed)
        kb = ge.Engine(given.text(), **options)  # type: ignore[arg-type]
        for name, rows in given.facts.items():
            kb.load(name, sorted(rows))
        kb.materialise()
        for name in given.arities:
            found = kb[name].to_pylist()
            assert len(found) == len(set(found)), f"seed {seed}: {name} holds a fact twice\n{given.text()}"
            assert set(found) == expected[name], f"seed {seed}: {name} differs\n{given.text()}"
