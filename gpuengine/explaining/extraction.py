"""Make a `Proof` of what a search has found: choose an instance for each fact, and say it in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuengine.explaining.chains import Chain, find_walks, place_of
from gpuengine.explaining.folds import is_kept
from gpuengine.explaining.instances import Given, Questions, distinct_rows
from gpuengine.explaining.proof import (
    Absence,
    Condition,
    Derivation,
    Fact,
    FactPremise,
    Group,
    Premise,
    Step,
    spell_value,
)
from gpuengine.explaining.rounds import UNPROVED
from gpuengine.explaining.rules import WrittenRule
from gpuengine.explaining.search import Instances, Kind, Search, SoughtFacts
from gpuengine.explaining.words import is_named, spell, written_name
from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Negation,
    Type,
    Variable,
    Wildcard,
    literal_variables,
    term_variables,
)
from gpuengine.planning.plan import describe

GROUP_ROWS = 5
"""So many rows of what an aggregate ranges over are shown."""
_COUNTED = 1_000_000
"""So many are counted."""

Named = tuple[SoughtFacts, int]
Values = Mapping[Variable, Any]


@dataclass
class _Chosen:
    """Facts that follow by one rule, and for each which of its instances: columns of the rule's key."""

    rule: WrittenRule
    facts: list[Named] = field(default_factory=list)
    keys: list[tuple[int, ...]] = field(default_factory=list)


class Extraction:
    """Numbers the steps of a proof as they are needed, and makes them."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._questions: Questions = search.questions
        self._numbers: dict[tuple[Kind, int], int] = {}
        self._order: list[Named] = []
        self._derivations: dict[int, Derivation] = {}
        self._batches: list[Instances] = []
        self._chosen_at: dict[Kind, tuple[np.ndarray, np.ndarray]] = {}
        self._choose()
        self._stated_places: dict[tuple[str, tuple[int, ...]], str] | None = None

    def step(self, sought: SoughtFacts, number: int) -> int:
        """The number of the step that proves a fact."""
        if sought.kind.is_external:
            # A fact of the relation itself that is no higher serves as well, and may be there already.
            whole = self._search.of(Kind(sought.kind.relation))
            at = int(whole.locate(sought.columns(np.array([number])), 1)[0])
            if at >= 0 and whole.heights[at] <= sought.heights[number]:
                sought, number = whole, at
        key = (sought.kind, number)
        if key not in self._numbers:
            self._numbers[key] = len(self._order)
            self._order.append((sought, number))
        return self._numbers[key]

    def steps(self) -> tuple[Step, ...]:
        """All steps that were asked for, and those that they rest on."""
        done = 0
        while done < len(self._order):
            wave = self._order[done:]
            done = len(self._order)
            self._derive(wave)
        facts = self._facts(self._order)
        return tuple(
            Step(fact, self._derivations[number], int(sought.heights[at]))
            for number, ((sought, at), fact) in enumerate(zip(self._order, facts, strict=True))
        )

    # -- choosing ------------------------------------------------------------------------------------------

    def _choose(self) -> None:
        """For each fact that needs one, an instance as low as can be: its batch, and its row there."""
        for layer in self._search.layers:
            for sought, instances in layer:
                where, row = self._chosen_at.setdefault(
                    sought.kind, (np.full(len(sought), -1, np.int64), np.zeros(len(sought), np.int64))
                )
                heights = instances.heights()
                heads = instances.heads
                fits = (heights == sought.heights[heads]) & (heights < UNPROVED) & (where[heads] < 0)
                # Assigned backwards, the first of a fact's instances stays.
                rows = np.flatnonzero(fits)[::-1]
                where[heads[rows]] = len(self._batches)
                row[heads[rows]] = rows
                self._batches.append(instances)

    def _instance(self, sought: SoughtFacts, number: int) -> tuple[Instances, int] | None:
        if sought.kind not in self._chosen_at:
            return None
        where, row = self._chosen_at[sought.kind]
        if number >= len(where) or where[number] < 0:
            return None
        return self._batches[int(where[number])], int(row[number])

    def _derive(self, wave: Sequence[Named]) -> None:
        chosen: dict[int, _Chosen] = {}
        along: dict[str, list[Named]] = {}
        for sought, number in wave:
            step = self._numbers[sought.kind, number]
            if not sought.heights[number]:
                self._derivations[step] = Derivation("stated", place=self._place(sought, number))
            elif sought.shallow[number] >= 0:
                rule = self._search.rules.rules[int(sought.shallow[number])]
                self._add(chosen, rule, sought, number, {})
            elif (instance := self._instance(sought, number)) is not None:
                instances, row = instance
                premises = {
                    place: [int(column[0]) for column in of.columns(numbers[row : row + 1])]
                    for place, (of, numbers) in zip(instances.rule.deep, instances.premises, strict=True)
                }
                self._add(chosen, instances.rule, sought, number, premises)
            else:
                along.setdefault(sought.kind.relation, []).append((sought, number))
        for one in chosen.values():
            for (sought, number), derivation in zip(one.facts, self._by_rule(one), strict=True):
                self._derivations[self._numbers[sought.kind, number]] = derivation
        for relation, facts in along.items():
            self._along(self._search.chains[relation], facts)

    def _add(
        self,
        chosen: dict[int, _Chosen],
        rule: WrittenRule,
        sought: SoughtFacts,
        number: int,
        premises: Mapping[int, Sequence[int]],
    ) -> None:
        one = chosen.setdefault(rule.number, _Chosen(rule))
        values: dict[Variable, int] = {}
        head = [int(column[0]) for column in sought.columns(np.array([number]))]
        for args, ids in (
            (rule.head.args, head),
            *((rule.atom(at).args, ids) for at, ids in premises.items()),
        ):
            for arg, id in zip(args, ids, strict=True):
                if isinstance(arg, Variable):
                    values[arg] = id
        one.facts.append((sought, number))
        one.keys.append(tuple(values[variable] for variable in rule.key))

    # -- by rules ------------------------------------------------------------------------------------------

    def _by_rule(self, chosen: _Chosen) -> list[Derivation]:
        """The instances of a rule with all their bindings; one of each that has several."""
        rule, count = chosen.rule, len(chosen.keys)
        keys = [np.array(column, np.uint32) for column in zip(*chosen.keys, strict=True)]
        bindings = dict(zip(rule.key, keys, strict=True))
        if rule.rest:
            wanted = (*rule.key, *rule.rest)
            given = [Given(rule.key, keys, count)]
            rows = self._questions.ask(rule.shallow_body, wanted, given)
            # Rows are in the order of their ids, so the first of a key is the least; keys ask in any order.
            width = len(rule.key)
            firsts = _firsts(rows.columns[:width], rows.count)
            ordered = [column[firsts] for column in rows.columns]
            asked, _ = distinct_rows(keys, count)
            places = _places(asked, keys, count)
            bindings = {variable: column[places] for variable, column in zip(wanted, ordered, strict=True)}
        return self.derivations(rule, bindings, count)

    def derivations(
        self, rule: WrittenRule, bindings: Mapping[Variable, np.ndarray], count: int
    ) -> list[Derivation]:
        """Instances of a rule, given by the ids of all their variables."""
        values = {variable: self._decoded(variable.type, ids) for variable, ids in bindings.items()}
        columns: list[list[Premise]] = []
        for literal in rule.rule.body:
            if is_kept(literal):
                continue
            if isinstance(literal, Atom):
                columns.append(self._facts_of(literal, bindings, count))
            else:
                columns.append(
                    [self._premise(literal, _row(values, j), _ids(bindings, j)) for j in range(count)]
                )
        shown = {variable: values[variable] for variable in values if is_named(variable)}
        return [
            Derivation(
                "rule",
                rule.text,
                rule.place,
                {variable.name: column[j] for variable, column in shown.items()},
                tuple(column[j] for column in columns),
            )
            for j in range(count)
        ]

    def _facts_of(self, atom: Atom, bindings: Mapping[Variable, np.ndarray], count: int) -> list[Premise]:
        columns = self._search.columns_of(atom.args, tuple(bindings), tuple(bindings.values()), count)
        sought = self._search.of(Kind(atom.relation))
        numbers = sought.number(columns, count)
        new = np.unique(numbers[sought.heights[numbers] >= UNPROVED])
        if len(new):
            self._search.settle(sought, new)
        text = describe(atom)
        return [FactPremise(text, self.step(sought, int(number))) for number in numbers]

    def _premise(self, literal: Any, values: Values, ids: Mapping[Variable, int]) -> Premise:
        words = {variable: spell_value(value, variable.type) for variable, value in values.items()}
        if isinstance(literal, Negation):
            return Absence(describe(literal), spell(literal.atom, words))
        if isinstance(literal, Comparison):
            return Condition(describe(literal), spell(literal, words))
        return self._group(literal, values, ids)

    def _group(self, literal: Aggregate, values: Values, ids: Mapping[Variable, int]) -> Group:
        inner: dict[Variable, None] = {}
        for part in literal.body:
            inner |= dict.fromkeys(sorted(literal_variables(part), key=lambda one: one.name))
        target = literal.target
        if target is not None:
            inner |= dict.fromkeys(sorted(term_variables(target), key=lambda one: one.name))
        wanted = tuple(variable for variable in inner if variable not in literal.outer)
        given = [Given((one,), [np.array([ids[one]], np.uint32)], 1) for one in literal.outer]
        rows = self._questions.ask(literal.body, wanted, given, most=_COUNTED)
        named = [(j, one) for j, one in enumerate(wanted) if is_named(one)] or list(enumerate(wanted))
        columns = [self._decoded(one.type, rows.columns[j][:GROUP_ROWS]) for j, one in named]
        shown = tuple(zip(*columns, strict=True)) if columns else ()
        return Group(
            describe(literal),
            values[literal.result],
            tuple(written_name(one) for _, one in named),
            shown,
            rows.count,
            not rows.is_whole,
        )

    # -- along chains ----------------------------------------------------------------------------------------

    def _along(self, chain: Chain, facts: Sequence[Named]) -> None:
        """Facts that follow along a chain: a shortest walk to each, among those that are as low as can be."""
        search = self._search
        sought = facts[0][0]
        numbers = np.array([number for _, number in facts])
        # Where nothing along the chain had to be searched, its facts are found now; all of them are low.
        is_searched = Kind(chain.relation, True) in search.sought
        own = Kind(chain.relation, is_searched)
        gathered = search.gather(chain, sought.columns(numbers), len(numbers), own)
        for _, of, members in gathered:
            new = members[of.heights[members] >= UNPROVED]
            if len(new) and not is_searched:
                search.settle(of, new)
        arcs = search.arcs(gathered)
        heights = sought.heights[numbers]
        for height in np.unique(heights).tolist():
            at = numbers[heights == height]
            first, second = sought.columns(at)
            allowed = arcs.up_to(height - 1)
            walks = find_walks(allowed, place_of(0, first), place_of(1, second))
            for number, walk in zip(at.tolist(), walks, strict=True):
                assert walk is not None, f"no walk to a fact of {chain.relation}"
                premises, rules = [], dict[str, WrittenRule]()
                for one in walk:
                    which, member = search.label(int(allowed.labels[one]))
                    arc, of, _ = gathered[which]
                    step = self.step(of, member)
                    rule = arc.rule or chain.implied[0]
                    if arc.rule is not None or not any(arc.rule for arc in chain.arcs):
                        rules[rule.text] = rule
                    premises.append(FactPremise(arc.relation, step, arc.is_reversed))
                if chain.kind == "chain":
                    rules = {rule.text: rule for rule in chain.implied}
                if not rules:
                    rules = {chain.implied[0].text: chain.implied[0]}
                first_rule = next(iter(rules.values()))
                self._derivations[self._numbers[sought.kind, number]] = Derivation(
                    chain.kind, "  ".join(rules), first_rule.place, {}, tuple(premises)
                )

    # -- facts and values ----------------------------------------------------------------------------------

    def _facts(self, named: Sequence[Named]) -> list[Fact]:
        result: list[Fact | None] = [None] * len(named)
        by_kind: dict[Kind, list[int]] = {}
        for at, (sought, _) in enumerate(named):
            by_kind.setdefault(sought.kind, []).append(at)
        for kind, places in by_kind.items():
            sought = self._search.sought[kind]
            columns = sought.columns(np.array([named[at][1] for at in places]))
            types = self._types(kind.relation)
            values = [self._decoded(type, ids) for type, ids in zip(types, columns, strict=True)]
            for j, at in enumerate(places):
                row = tuple(column[j] for column in values)
                words = ", ".join(spell_value(value, type) for value, type in zip(row, types, strict=True))
                result[at] = Fact(kind.relation, row, f"{kind.relation}({words})")
        return [fact for fact in result if fact is not None]

    def _types(self, relation: str) -> list[Type]:
        program = self._search.rules.program
        if relation in program.relations:
            return [attribute.type for attribute in program.relations[relation].attributes]
        (rule,) = self._search.rules.of(relation)
        return [arg.type for arg in rule.head.args if not isinstance(arg, Wildcard)]

    def _decoded(self, type: Type, ids: np.ndarray) -> list[Any]:
        return list(self._questions.dictionary.to_arrow(type, np.ascontiguousarray(ids)).to_pylist())

    def _place(self, sought: SoughtFacts, number: int) -> str | None:
        """Where the program states a fact, if it does."""
        if self._stated_places is None:
            dictionary = self._questions.dictionary
            self._stated_places = {}
            for rule in self._search.rules.program.rules:
                if not rule.body:
                    ids = tuple(
                        dictionary.intern_constant(arg) for arg in rule.head.args if isinstance(arg, Constant)
                    )
                    self._stated_places.setdefault((rule.head.relation, ids), str(rule.span))
        if not self._stated_places:
            return None
        ids = tuple(int(column[0]) for column in sought.columns(np.array([number])))
        return self._stated_places.get((sought.kind.relation, ids))


def _row(values: Mapping[Variable, Sequence[Any]], j: int) -> dict[Variable, Any]:
    return {variable: column[j] for variable, column in values.items()}


def _ids(bindings: Mapping[Variable, np.ndarray], j: int) -> dict[Variable, int]:
    return {variable: int(column[j]) for variable, column in bindings.items()}


def _firsts(columns: Sequence[np.ndarray], count: int) -> np.ndarray:
    """Where in ordered rows another one begins."""
    first = np.zeros(count, np.bool_)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(first)


def _places(ordered: Iterable[np.ndarray], columns: Sequence[np.ndarray], count: int) -> np.ndarray:
    """The place of each row among rows that are distinct and in order."""
    if not columns:
        return np.zeros(count, np.int64)
    order = np.lexsort(tuple(reversed(columns)))
    first = np.zeros(count, np.int64)
    for column in columns:
        sorted_column = column[order]
        first[1:] |= (sorted_column[1:] != sorted_column[:-1]).astype(np.int64)
    places = np.empty(count, np.int64)
    places[order] = np.cumsum(first)
    return places
