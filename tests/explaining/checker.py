"""Checks proofs by the oracle alone: every step is an instance of a rule whose body holds, leaves are stated.

It reads the program's text by itself, and takes of a proof only facts and numbers of steps. Positive atoms of
a rule read nothing but the premises of a step; negations and aggregates read what the oracle derives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuengine.explaining.proof import FactPremise, Proof
from tests import oracle
from tests.oracle.evaluation import Evaluator, Facts, Known
from tests.oracle.syntax import Atom, Rule, Var

Given = Mapping[str, Iterable[tuple[Any, ...]]]


class Checker:
    """For one program and its facts; steps of `chains` may be many applications of a rule."""

    def __init__(self, text: str, facts: Given, chains: Iterable[str] = ()) -> None:
        self.program = oracle.Program(text)
        self.chains = set(chains)
        self.model = self.program.derive(facts)
        self._shown: dict[str, dict[Any, Any]] = {}
        self.stated: Facts = {
            name: {self.program.row(name, row) for row in facts.get(name, ())}
            for name in self.program.relations
        }
        self.rules = []
        for rule in self.program.rules:
            row = oracle.fact_of(rule)
            if row is not None and rule.head.relation in self.stated:
                self.stated[rule.head.relation].add(row)
            elif rule.head.relation not in self.program.inlines:
                self.rules.append(rule)
        self._inlines = {
            name: [rule for rule in self.program.rules if rule.head.relation == name]
            for name in self.program.inlines
        }

    def apply(self, rules: Iterable[Rule], known: Facts) -> Facts:
        """What rules derive in one step if positive atoms read only `known`."""
        readable = {**self.model, **{f"+{name}": rows for name, rows in known.items()}}
        for name in self.program.relations:
            readable.setdefault(f"+{name}", set())
        evaluator = Evaluator(Known(readable), self._inlines)
        derived: Facts = {}
        for rule in rules:
            body = tuple(
                replace(part, relation=f"+{part.relation}")
                if isinstance(part, Atom) and part.relation not in self._inlines
                else part
                for part in rule.body
            )
            derived.setdefault(rule.head.relation, set()).update(
                evaluator.consequences(Rule(rule.head, body))
            )
        return derived

    def row(self, relation: str, values: tuple[Any, ...]) -> Any:
        """A row that the engine shows as the oracle holds it; of records the engine shows only the text."""
        if {*self.program.relations[relation]} <= {"number", "unsigned", "float", "symbol"}:
            return self.program.row(relation, values)
        if relation not in self._shown:
            self._shown[relation] = {tuple(map(oracle.shown, row)): row for row in self.model[relation]}
        return self._shown[relation].get(values)

    def check(self, proof: Proof) -> None:
        """Raise unless all of it is right."""
        held = [self.row(step.fact.relation, step.fact.values) for step in proof.steps]
        for number, step in enumerate(proof.steps):
            relation, row, derivation = step.fact.relation, held[number], step.derivation
            assert row in self.model[relation], f"{step.fact} does not hold"
            if derivation.kind == "stated":
                assert row in self.stated[relation], f"{step.fact} is not stated"
                assert step.height == 0
                continue
            below = [premise.step for premise in derivation.premises if isinstance(premise, FactPremise)]
            assert all(proof.steps[other].height < step.height for other in below), "it rests on itself"
            assert step.height == 1 + max((proof.steps[other].height for other in below), default=0)
            known: Facts = {}
            for other in below:
                known.setdefault(proof.steps[other].fact.relation, set()).add(held[other])
            own = [rule for rule in self.rules if rule.head.relation == relation]
            if derivation.kind == "rule":
                given = self.apply(own, known).get(relation, set())
                if relation in self.program.equivalences:  # has rules that are not written
                    given |= _equal(known.get(relation, set()))
                assert row in given, f"no rule gives {step.fact}"
            else:
                assert relation in self.chains, f"{relation} is no chain"
                assert row in self.closed(relation, own, known), f"nothing leads to {step.fact}"

    def closed(self, relation: str, own: list[Rule], known: Facts) -> set[Any]:
        """All facts of a relation that its rules give from some, applied again and again."""
        while True:
            rows = known.get(relation, set()) | self.apply(own, known).get(relation, set())
            if relation in self.program.equivalences:
                rows |= _equal(rows)
            if rows == known.get(relation, set()):
                return rows
            known = {**known, relation: rows}

    def least_heights(self, chain_rules: Mapping[str, list[Rule]] | None = None) -> dict[str, dict[Any, int]]:
        """The height of the lowest proof of every fact; rules of chains are applied many times at once."""
        chained = chain_rules or {}
        known: Facts = {name: set(rows) for name, rows in self.stated.items()}
        heights = {name: dict.fromkeys(rows, 0) for name, rows in known.items()}
        number = 0
        while True:
            number += 1
            derived = self.apply(self.rules, known)
            for name in self.chains:
                derived.setdefault(name, set()).update(self.closed(name, chained.get(name, []), dict(known)))
            new = {name: rows - known[name] for name, rows in derived.items()}
            if not any(new.values()):
                return heights
            for name, rows in new.items():
                known[name] = known[name] | rows
                heights[name].update(dict.fromkeys(rows, number))


def _equal(rows: set[Any]) -> set[Any]:
    """What an equivalence has with these pairs, in one step."""
    swapped, ends = {(b, a) for a, b in rows}, {(a, a) for pair in rows for a in pair}
    return swapped | ends | {(a, d) for a, b in rows for c, d in rows if b == c}


def composes_itself(rule: Rule) -> bool:
    """Does a rule join two atoms, one of them its own relation? Those may be shown as chains."""
    atoms = [part for part in rule.body if isinstance(part, Atom)]
    return (
        len(rule.body) == len(atoms) == 2
        and len(rule.head.args) == 2
        and rule.head.relation in {atom.relation for atom in atoms}
        and all(isinstance(arg, Var) for atom in (*atoms, rule.head) for arg in atom.args)
    )
