"""Where a graph breaks the constraints of its ontology: each case with the rule's name and the triples
that make it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpuengine.rdf.datatypes import ILL_TYPED, DataRange
from gpuengine.rdf.graph import Among, Graph
from gpuengine.rdf.ontology import AUXILIARY, Statement
from gpuengine.rdf.owl import NOT_MEMBER, OTHER_VALUE, Compiled
from gpuengine.rdf.rules import Argument, Call, Constraint, Expression, Filter, Triple, Variable
from gpuengine.rdf.terms import is_literal

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Inconsistency:
    """One case: the rule of OWL 2 RL that fires (``cax-dw``), and the triples of its body."""

    rule: str
    triples: tuple[Statement, ...]

    def __str__(self) -> str:
        return f"{self.rule}: " + ", ".join(" ".join(triple) for triple in self.triples)


def inconsistencies(graph: Graph, compiled: Compiled) -> Iterator[Inconsistency]:
    """All cases, one after the other; the graph is the closure under the compiled rules."""
    seen: set[tuple[str, frozenset[Statement]]] = set()
    for case in _cases(graph, compiled):
        key = (case.rule, frozenset(case.triples))
        if key not in seen:
            seen.add(key)
            yield case


def _cases(graph: Graph, compiled: Compiled) -> Iterator[Inconsistency]:
    for constraint in compiled.constraints:
        yield from _violations(graph, constraint, compiled)
    yield from _ill_typed(graph, compiled)


def _ill_typed(graph: Graph, compiled: Compiled) -> Iterator[Inconsistency]:
    """Literals that denote nothing, by the triples that have them."""
    s, p, o = Variable("s"), Variable("p"), Variable("o")
    columns = graph.solve([Triple(s, p, o)], {"o": partial(_are_literals, graph)})
    ids, places = np.unique(columns["o"], return_inverse=True)
    texts = graph.terms.texts(ids)
    bad = np.array(
        [text.endswith(">") and compiled.literals.value(text) is ILL_TYPED for text in texts], dtype=bool
    )
    rows = np.flatnonzero(bad[places])
    names = [graph.terms.texts(columns[name][rows]) for name in ("s", "p", "o")]
    for triple in zip(*names, strict=True):
        if not is_literal(triple[0]):
            yield Inconsistency("dt-not-type", (triple,))


def _violations(graph: Graph, constraint: Constraint, compiled: Compiled) -> Iterator[Inconsistency]:
    triples = [item for item in constraint.body if isinstance(item, Triple)]
    conditions = [item.condition for item in constraint.body if isinstance(item, Filter)]
    constants = {
        condition.arguments[0]: condition.arguments[1:]
        for condition in conditions
        if isinstance(condition, Call) and condition.function == "IN"
    }
    columns = _solved(graph, triples, constants, _among(graph, conditions))
    if not _rows(columns):
        return
    mask = np.ones(_rows(columns), dtype=bool)
    for condition in conditions:
        mask &= _holds(graph, condition, columns, compiled)
    rows = np.flatnonzero(mask)
    texts = {name: graph.terms.texts(column[rows]) for name, column in columns.items()}
    for i in range(rows.size):
        binding = {name: column[i] for name, column in texts.items()}
        yield Inconsistency(
            constraint.name,
            tuple(
                triple
                for triple in (_instance(triple, binding) for triple in triples)
                if not any(place.startswith(AUXILIARY) for place in triple)
            ),
        )


def _are_literals(graph: Graph, ids: np.ndarray) -> np.ndarray:
    numbers, places = np.unique(ids, return_inverse=True)
    return np.array([is_literal(text) for text in graph.terms.texts(numbers)], dtype=bool)[places]


def _among(graph: Graph, conditions: Sequence[Expression]) -> Among:
    """What conditions ask of variables, so that no large class of equal terms is listed for nothing."""
    among: dict[str, Callable[[np.ndarray], np.ndarray]] = {}

    for condition in conditions:
        if not isinstance(condition, Call):
            continue
        places = [one.name for one in condition.arguments if isinstance(one, Variable)]
        if condition.function == OTHER_VALUE:
            among |= dict.fromkeys(places, partial(_are_literals, graph))
        elif condition.function == "IN":
            texts = [text for text in condition.arguments[1:] if isinstance(text, str)]
            numbers = np.array([n for n in map(graph.terms.lookup, texts) if n is not None], np.int64)
            among[places[0]] = partial(np.isin, test_elements=numbers)
    return among


def _instance(triple: Triple, binding: Mapping[str, str]) -> Statement:
    def text(argument: Argument) -> str:
        return binding[argument.name] if isinstance(argument, Variable) else argument

    return (text(triple.subject), text(triple.predicate), text(triple.object))


def _solved(
    graph: Graph,
    triples: Sequence[Triple],
    constants: Mapping[Expression, Sequence[Expression]],
    among: Among,
) -> Columns:
    """The bindings of triples. Where a class or property is one of a list, the triples are asked for each."""
    listed = {
        place
        for triple in triples
        for place in (triple.predicate, triple.object)
        if place in constants and (place == triple.predicate or triple.predicate not in constants)
    }
    if len(listed) != 2 or len(triples) != 2:
        return dict(graph.solve(triples, among))
    parts = []
    for triple, place in zip(
        triples, [t.predicate if t.predicate in listed else t.object for t in triples], strict=True
    ):
        assert isinstance(place, Variable)
        parts.append(_union(graph, triple, place, constants[place]))
    return _joined(parts[0], parts[1])


def _union(graph: Graph, triple: Triple, place: Variable, texts: Sequence[Expression]) -> Columns:
    parts: list[Columns] = []
    for text in texts:
        assert isinstance(text, str)
        number = graph.terms.lookup(text)
        if number is None:
            continue
        chosen = Triple(
            *(text if part == place else part for part in (triple.subject, triple.predicate, triple.object))
        )
        columns = dict(graph.solve([chosen]))
        columns[place.name] = np.full(_rows(columns), number)
        parts.append(columns)
    names = [
        part.name for part in (triple.subject, triple.predicate, triple.object) if isinstance(part, Variable)
    ]
    return {
        name: np.concatenate([f[name] for f in parts]) if parts else np.empty(0, np.int64) for name in names
    }


def _joined(left: Columns, right: Columns) -> Columns:
    """The join of two tables on the columns that they share."""
    shared = [name for name in left if name in right]
    keys = np.concatenate(
        [np.stack([side[name] for name in shared], axis=1).astype(np.int64) for side in (left, right)]
    )
    _, groups = np.unique(keys, axis=0, return_inverse=True)
    groups = groups.reshape(-1)
    split = _rows(left)
    order = np.argsort(groups[split:], kind="stable")
    sorted_groups = groups[split:][order]
    start = np.searchsorted(sorted_groups, groups[:split], side="left")
    stop = np.searchsorted(sorted_groups, groups[:split], side="right")
    counts = stop - start
    rows = np.repeat(np.arange(split), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    matches = order[np.repeat(start, counts) + within]
    return {name: column[rows] for name, column in left.items()} | {
        name: column[matches] for name, column in right.items() if name not in left
    }


def _rows(columns: Columns) -> int:
    return next(iter(columns.values())).size if columns else 0


def _holds(graph: Graph, condition: Expression, columns: Columns, compiled: Compiled) -> np.ndarray:
    assert isinstance(condition, Call)
    one = condition.arguments[0]
    if condition.function == "!":
        assert isinstance(one, Call) and one.function == "SAMETERM"
        first, second = one.arguments
        assert isinstance(first, Variable) and isinstance(second, Variable)
        return columns[first.name] != columns[second.name]
    assert isinstance(one, Variable)
    column = columns[one.name]
    if condition.function == "IN":
        numbers = [graph.terms.lookup(text) for text in condition.arguments[1:] if isinstance(text, str)]
        return np.isin(column, [number for number in numbers if number is not None])
    other = condition.arguments[1]
    if condition.function == NOT_MEMBER:
        assert isinstance(other, str)
        return _without_value_in(graph, column, compiled.ranges[other], compiled)
    assert condition.function == OTHER_VALUE and isinstance(other, Variable)
    first_values, second_values = (_values(graph, columns[name], compiled) for name in (one.name, other.name))
    pairs = zip(first_values, second_values, strict=True)
    return np.array([isinstance(v, tuple) and isinstance(w, tuple) and v != w for v, w in pairs], dtype=bool)


def _values(graph: Graph, column: np.ndarray, compiled: Compiled) -> list[object]:
    ids, places = np.unique(column, return_inverse=True)
    texts = graph.terms.texts(ids)
    read = [compiled.literals.value(text) for text in texts]
    return [read[place] for place in places]


def _without_value_in(
    graph: Graph, column: np.ndarray, data_range: DataRange, compiled: Compiled
) -> np.ndarray:
    def is_outside(read: object) -> bool:
        return read is ILL_TYPED or (isinstance(read, tuple) and data_range.contains(read) is False)

    return np.array([is_outside(read) for read in _values(graph, column, compiled)], dtype=bool)
