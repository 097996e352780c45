"""Triples that a query makes: by a template (CONSTRUCT, updates), or about a resource (DESCRIBE)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.rdf.rules import Argument, Triple, Variable
from gpuengine.rdf.sparql.evaluation import Evaluation
from gpuengine.rdf.sparql.tables import UNBOUND, Table, concatenated, distinct

TRIPLE = ("subject", "predicate", "object")
QUAD = (*TRIPLE, "graph")


def constructed(evaluation: Evaluation, template: Sequence[Triple], solutions: Table) -> Table:
    """The triples of a template, each once; those that would be none (a literal as subject) are left out."""
    return distinct(instances(evaluation, template, solutions).project(TRIPLE))


def instances(evaluation: Evaluation, template: Sequence[Triple], solutions: Table) -> Table:
    """Quads of a template for all solutions; the graph is unbound for the default one."""
    terms = evaluation.view.terms
    blanks: dict[str, np.ndarray] = {}

    def column(argument: Argument) -> np.ndarray:
        if isinstance(argument, Variable):
            return solutions.column(argument.name)
        if argument.startswith("_:"):
            # A node of its own for each solution.
            if argument not in blanks:
                fresh = [evaluation.scope.fresh().text for _ in range(solutions.length)]
                blanks[argument] = terms.add(fresh)
            return blanks[argument]
        return np.full(solutions.length, terms.add([argument])[0], np.int64)

    parts = [Table.empty(QUAD)]
    for triple in template:
        arguments = (triple.subject, triple.predicate, triple.object)
        columns = dict(zip(TRIPLE, map(column, arguments), strict=True))
        kept = np.logical_and.reduce([ids >= 0 for ids in columns.values()])
        columns["graph"] = np.full(solutions.length, UNBOUND, np.int64)
        if triple.graph is not None:
            columns["graph"] = column(triple.graph)
            kept &= _begins(evaluation, columns["graph"], "<")
        kept &= _begins(evaluation, columns["subject"], "<_")
        kept &= _begins(evaluation, columns["predicate"], "<")
        parts.append(Table(columns, solutions.length).take(kept))
    return distinct(concatenated(parts))


def _begins(evaluation: Evaluation, ids: np.ndarray, characters: str) -> np.ndarray:
    """A mask of the terms whose text begins with one of some characters: IRIs, or nodes."""
    numbers, codes = np.unique(ids, return_inverse=True)
    bound = numbers >= 0
    right = np.zeros(len(numbers), bool)
    right[bound] = [text[0] in characters for text in evaluation.view.terms.texts(numbers[bound])]
    return right[codes]


def described(evaluation: Evaluation, resources: Sequence[Argument], solutions: Table) -> Table:
    """The triples of which a resource is the subject, and those of the blank nodes that they lead to."""
    terms = evaluation.view.terms
    wanted = [terms.add([resource]) for resource in resources if isinstance(resource, str)]
    names = [resource.name for resource in resources if isinstance(resource, Variable)]
    wanted += [solutions.columns[name] for name in names if name in solutions.columns]
    new = np.unique(np.concatenate(wanted)) if wanted else np.empty(0, np.int64)
    everything = evaluation.view.solve([Triple(*map(Variable, TRIPLE))], None).project(TRIPLE)
    reached = new
    while len(new):
        objects = np.unique(everything.columns["object"][np.isin(everything.columns["subject"], new)])
        blank = objects[_begins(evaluation, objects, "_")]
        new = np.setdiff1d(blank, reached)
        reached = np.union1d(reached, new)
    return everything.take(np.isin(everything.columns["subject"], reached))
