"""Why the answers of a query hold: from its text to a `Proof`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuengine.explaining.extraction import Extraction
from gpuengine.explaining.instances import Given, Questions
from gpuengine.explaining.proof import Derivation, Proof
from gpuengine.explaining.rounds import Rounds
from gpuengine.explaining.rules import WrittenRule, WrittenRules
from gpuengine.explaining.search import Kind, Search
from gpuengine.explaining.words import is_named
from gpuengine.language.program import Atom, Comparison, Program, Rule, Variable
from gpuengine.planning.plan import body_relations
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.terms.dictionary import Dictionary

MOST_DERIVATIONS = 1_000
"""So many derivations of one fact are listed when all are asked for."""


@dataclass(frozen=True)
class Known:
    """A program as it was written, and its materialisation, which stands as long as this is used.

    `kept` are heights that an explanation has computed, for the next one of the same materialisation.
    """

    program: Program
    dictionary: Dictionary
    relations: Mapping[str, Scheme]
    stated: Mapping[str, Table]
    kept: list[Rounds] = field(default_factory=list)


def asked_atom(query: Rule) -> Atom | None:
    """The atom that a query is, if it is one alone."""
    (first, *more) = query.body
    return first if isinstance(first, Atom) and not more else None


def asked_facts(query: Rule) -> Atom | None:
    """The atom whose facts a query asks for: it is the only one, and all else says what its arguments are."""
    atoms = [part for part in query.body if isinstance(part, Atom)]
    given = [part for part in query.body if isinstance(part, Comparison) and part.op == "="]
    if len(atoms) != 1 or len(given) != len(query.body) - 1:
        return None
    unnamed = {arg for arg in atoms[0].args if isinstance(arg, Variable) and not is_named(arg)}
    return atoms[0] if all(part.left in unnamed or part.right in unnamed for part in given) else None


def relations_for(query: Rule, program: Program) -> set[str]:
    """The relations that explaining a query may read."""
    return WrittenRules(program).needed(body_relations(query.body))


def explain(known: Known, query: Rule, text: str, *, all_derivations: bool, limit: int | None) -> Proof:
    """Proofs of the answers of a query, at most `limit` of them; of facts, if it is a single atom."""
    atom = asked_facts(query)
    rules = WrittenRules(known.program, None if atom is not None else query)
    questions = Questions(known.program, known.dictionary, known.relations)
    search = Search(rules, questions, known.stated, known.kept)
    if atom is not None:
        written = WrittenRules(known.program, query).rules[-1]
        (place,) = (at for at, part in enumerate(query.body) if part is atom)
        args, relation = written.atom(place).args, atom.relation
        variables = tuple(dict.fromkeys(arg for arg in args if isinstance(arg, Variable)))
        body = written.rule.body
    else:
        (written,) = rules.of(query.head.relation)
        args, relation = query.head.args, query.head.relation
        variables = tuple(dict.fromkeys(arg for arg in args if isinstance(arg, Variable)))
        body = written.rule.body
    rows = questions.ask(body, variables)
    count = rows.count if limit is None else min(rows.count, limit)
    columns = search.columns_of(args, variables, [column[:count] for column in rows.columns], count)
    numbers = search.add(relation, columns, count)
    others = _Others(search, relation, numbers) if all_derivations and count else None
    if count:
        search.run()
    extraction = Extraction(search)
    sought = search.of(Kind(relation))
    goals = tuple(extraction.step(sought, int(number)) for number in numbers)
    derivations = {} if others is None else others.derivations(extraction)
    steps = extraction.steps()
    return Proof(
        text.strip(),
        steps,
        goals,
        rows.count,
        {goals[j]: tuple(all) for j, all in derivations.items()},
        frozenset() if others is None else frozenset(goals[j] for j in others.cut),
        search.is_least,
    )


class _Others:
    """All instances of rules that derive some facts; what they rest on is added to the search."""

    def __init__(self, search: Search, relation: str, numbers: np.ndarray) -> None:
        self._search = search
        self._instances: list[tuple[WrittenRule, dict[Variable, np.ndarray], np.ndarray]] = []
        self.cut: set[int] = set()
        sought = search.of(Kind(relation))
        columns = sought.columns(numbers)
        table = search.stated.get(relation)
        self._count = len(numbers)
        if relation not in search.rules.derived:
            self._is_stated = np.ones(len(numbers), np.bool_)
        elif table is None or not len(table):
            self._is_stated = np.zeros(len(numbers), np.bool_)
        else:
            self._is_stated = np.asarray(table.contains(columns, len(numbers)), np.bool_)
        room = np.full(len(numbers), MOST_DERIVATIONS)
        for written in search.rules.of(relation):
            wanted = (*written.key, *written.rest)
            given = [Given(written.head.args, columns, len(numbers))]
            rows = search.questions.ask(written.body, wanted, given)
            heads = search.columns_of(written.head.args, wanted, rows.columns, rows.count)
            goals = np.searchsorted(numbers, sought.locate(heads, rows.count), sorter=np.argsort(numbers))
            goals = np.argsort(numbers)[goals]
            kept = self._within(goals, room)
            bindings = {one: column[kept] for one, column in zip(wanted, rows.columns, strict=True)}
            self._instances.append((written, bindings, goals[kept]))
            for place in written.deep:
                atom = written.atom(place)
                deep = search.columns_of(atom.args, wanted, tuple(bindings.values()), len(kept))
                search.add(atom.relation, deep, len(kept))

    def _within(self, goals: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Which rows are still within what is listed of their goal."""
        order = np.argsort(goals, kind="stable")
        ordered = goals[order]
        starts = np.searchsorted(ordered, ordered)
        rank = np.arange(len(ordered)) - starts
        fits = rank < left[ordered]
        self.cut.update(np.unique(ordered[~fits]).tolist())
        np.subtract.at(left, ordered[fits], 1)
        return np.sort(order[fits])

    def derivations(self, extraction: Extraction) -> dict[int, list[Derivation]]:
        """By the place of the goal, in the order of rules."""
        result: dict[int, list[Derivation]] = {j: [] for j in range(self._count)}
        for j in np.flatnonzero(self._is_stated).tolist():
            result[j].append(Derivation("stated"))
        for written, bindings, goals in self._instances:
            made = extraction.derivations(written, bindings, len(goals))
            for j, derivation in zip(goals.tolist(), made, strict=True):
                result[j].append(derivation)
        return result
