"""Rules over triples by their definition: apply all until nothing new comes. Shares no code with the product.

Negation, aggregates and expressions other than those of OWL's rules are not read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from gpuengine.rdf.rules import Call, Filter, Rule, Triple, Variable


class Index:
    """Triples by each set of places that may be bound."""

    def __init__(self, triples: Iterable[tuple[str, str, str]] = ()) -> None:
        self.all: set[tuple[str, str, str]] = set()
        self.by: dict[tuple, set[tuple[str, str, str]]] = defaultdict(set)
        for triple in triples:
            self.add(triple)

    def add(self, triple: tuple[str, str, str]) -> bool:
        if triple in self.all:
            return False
        self.all.add(triple)
        s, p, o = triple
        for key in (
            (s, None, None),
            (None, p, None),
            (None, None, o),
            (s, p, None),
            (None, p, o),
            (s, None, o),
        ):
            self.by[key].add(triple)
        return True

    def match(self, pattern: tuple[str | None, str | None, str | None]) -> list[tuple[str, str, str]]:
        if None not in pattern:
            return [pattern] if pattern in self.all else []  # type: ignore[list-item]
        if pattern == (None, None, None):
            return list(self.all)
        return list(self.by.get(pattern, ()))


def bindings(
    index: Index, items: list, binding: Mapping[str, str], delta: Index | None = None
) -> Iterator[dict[str, str]]:
    """All ways to satisfy a body; with a delta, one triple of it at least is in that."""
    triples = [item for item in items if isinstance(item, Triple)]
    filters = [item for item in items if isinstance(item, Filter)]
    if delta is None:
        yield from _search(index, triples, filters, dict(binding), {})
        return
    for i in range(len(triples)):
        yield from _search(index, triples, filters, dict(binding), {id(triples[i]): delta})


def _search(index, triples, filters, binding, sources):  # type: ignore[no-untyped-def]
    if not triples:
        if all(_holds(item.condition, binding) for item in filters):
            yield dict(binding)
        return

    def bound(triple: Triple) -> tuple:
        return tuple(
            binding.get(p.name) if isinstance(p, Variable) else p
            for p in (triple.subject, triple.predicate, triple.object)
        )

    def cost(triple: Triple) -> int:
        pattern = bound(triple)
        source = sources.get(id(triple), index)
        if None not in pattern:
            return 0
        return len(source.all) if pattern == (None, None, None) else len(source.by.get(pattern, ()))

    chosen = min(triples, key=cost)
    rest = [triple for triple in triples if triple is not chosen]
    for found in sources.get(id(chosen), index).match(bound(chosen)):
        extended = dict(binding)
        for place, text in zip((chosen.subject, chosen.predicate, chosen.object), found, strict=True):
            if isinstance(place, Variable) and extended.setdefault(place.name, text) != text:
                break
        else:
            yield from _search(index, rest, filters, extended, sources)


def _holds(condition: object, binding: Mapping[str, str]) -> bool:
    assert isinstance(condition, Call)
    if condition.function == "!":
        return not _holds(condition.arguments[0], binding)
    terms = [binding[a.name] if isinstance(a, Variable) else a for a in condition.arguments]
    if condition.function == "SAMETERM":
        return terms[0] == terms[1]
    assert condition.function == "IN", condition.function
    return terms[0] in terms[1:]


def closure(triples: Iterable[tuple[str, str, str]], rules: Iterable[Rule]) -> set[tuple[str, str, str]]:
    """All that follows."""
    index = Index(triples)
    delta = Index(index.all)
    rules = list(rules)
    for rule in rules:
        if not rule.body:
            for head in rule.heads:
                if index.add((head.subject, head.predicate, head.object)):  # type: ignore[arg-type]
                    delta.add((head.subject, head.predicate, head.object))  # type: ignore[arg-type]
    while delta.all:
        derived: set[tuple[str, str, str]] = set()
        for rule in rules:
            for binding in bindings(index, list(rule.body), {}, delta) if rule.body else ():
                for head in rule.heads:
                    derived.add(
                        tuple(
                            binding[p.name] if isinstance(p, Variable) else p
                            for p in (head.subject, head.predicate, head.object)
                        )  # type: ignore[arg-type]
                    )
        delta = Index(triple for triple in derived if index.add(triple))
    return index.all


class NaiveTerms:
    """Numbers for texts."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.known: list[str] = []

    def lookup(self, text: str) -> int | None:
        return self.numbers.get(text)

    def add(self, texts: Iterable[str]) -> np.ndarray:
        return np.array([self._number(text) for text in texts], dtype=np.int64)

    def _number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = len(self.known)
            self.known.append(text)
        return self.numbers[text]

    def texts(self, ids: np.ndarray) -> list[str]:
        return [self.known[i] for i in ids]


class NaiveGraph:
    """A set of triples as a `gpuengine.rdf.graph.Graph`."""

    def __init__(self, triples: Iterable[tuple[str, str, str]]) -> None:
        self.index = Index(triples)
        self.terms = NaiveTerms()
        for triple in self.index.all:
            self.terms.add(triple)

    def solve(self, patterns: list[Triple], among: object = None) -> dict[str, np.ndarray]:
        names = dict.fromkeys(
            place.name
            for pattern in patterns
            for place in (pattern.subject, pattern.predicate, pattern.object)
            if isinstance(place, Variable)
        )
        rows = list(bindings(self.index, list(patterns), {}))
        if not names:
            return {"": np.zeros(len(rows), dtype=np.int64)}
        return {name: self.terms.add(row[name] for row in rows) for name in names}
