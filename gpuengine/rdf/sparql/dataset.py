"""What one query sees: the triples of a graph, restricted by FROM, and terms that only it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuengine.rdf.graph import Graph, Terms
from gpuengine.rdf.rules import Argument, Triple, Variable
from gpuengine.rdf.sparql.algebra import HIDDEN, Dataset
from gpuengine.rdf.sparql.tables import Table, distinct, join

LOCAL = 1 << 32
"""Ids from here on are of terms that a query computes: the dictionary does not grow by queries."""


class LocalTerms:
    """The dictionary of a store, and behind it the terms of one query."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._local: dict[str, int] = {}
        self._texts: list[str] = []

    def lookup(self, text: str) -> int | None:
        return self._local.get(text) or self.terms.lookup(text)

    def add(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([self._added(text) for text in texts], np.int64)

    def _added(self, text: str) -> int:
        local = self._local.get(text)
        if local is not None:
            return local
        number = self.terms.lookup(text)
        if number is None:
            number = LOCAL + len(self._texts)
            self._texts.append(text)
        self._local[text] = number
        return number

    def texts(self, ids: np.ndarray) -> list[str]:
        mine = ids >= LOCAL
        if not mine.any():
            return self.terms.texts(ids)
        result = np.empty(len(ids), object)
        result[mine] = [self._texts[number - LOCAL] for number in ids[mine].tolist()]
        result[~mine] = self.terms.texts(ids[~mine])
        return result.tolist()


class View:
    """The dataset of a query over a graph."""

    def __init__(self, graph: Graph, dataset: Dataset) -> None:
        self.graph = graph
        self.terms = LocalTerms(graph.terms)
        self.dataset = dataset
        self._nodes: dict[Argument | None, np.ndarray] = {}

    def solve(self, triples: Sequence[Triple], active: Argument | None) -> Table:
        """The solutions of a basic graph pattern in the default graph (None), in one, or in any named one."""
        default = self.dataset.default
        if active is None and default is not None:
            if not default:
                return Table.empty(_names(triples))
            if len(default) > 1:
                return self._merged(triples, default)
            active = default[0]
        elif isinstance(active, Variable) and self.dataset.named is not None:
            table = self._solved([replace(triple, graph=active) for triple in triples])
            return table.take(np.isin(table.column(active.name), self.names()))
        elif isinstance(active, str) and self.dataset.named is not None and active not in self.dataset.named:
            return Table.empty(_names(triples))
        return self._solved([replace(triple, graph=active) for triple in triples] if active else triples)

    def _solved(self, triples: Sequence[Triple]) -> Table:
        names = _names(triples)
        columns = self.graph.solve(triples)
        if not names:
            return Table({}, len(columns[""]))
        return Table(
            {name: np.asarray(columns[name]).astype(np.int64, copy=False) for name in names},
            len(columns[names[0]]),
        )

    def _merged(self, triples: Sequence[Triple], graphs: tuple[str, ...]) -> Table:
        """In the union of some graphs: a triple that two of them have counts once."""
        hidden = Variable(f"{HIDDEN}graph")
        ids = np.array([n for name in graphs if (n := self.graph.terms.lookup(name)) is not None], np.int64)
        result = Table.unit()
        for triple in triples:
            solutions = self._solved([replace(triple, graph=hidden)])
            solutions = solutions.take(np.isin(solutions.column(hidden.name), ids)).without([hidden.name])
            result = join(result, distinct(solutions))
        return result

    def names(self) -> np.ndarray:
        """Ids of the names of the graphs that GRAPH sees."""
        stored = np.asarray(self.graph.graphs()).astype(np.int64, copy=False)
        if self.dataset.named is None:
            return stored
        numbers = (self.graph.terms.lookup(name) for name in self.dataset.named)
        return np.array([number for number in numbers if number is not None and number in stored], np.int64)

    def nodes(self, active: Argument | None) -> np.ndarray:
        """Ids of all subjects and objects of a graph."""
        if active not in self._nodes:
            table = self.solve([Triple(Variable("s"), Variable("p"), Variable("o"))], active)
            self._nodes[active] = np.union1d(table.column("s"), table.column("o"))
        return self._nodes[active]


def _names(triples: Sequence[Triple]) -> list[str]:
    names = (
        argument.name
        for triple in triples
        for argument in (triple.subject, triple.predicate, triple.object, triple.graph)
        if isinstance(argument, Variable)
    )
    return list(dict.fromkeys(names))
