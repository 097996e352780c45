"""Updates as deltas: the triples that go and those that come, for the engine to apply as one transaction."""

from __future__ import annotations

from dataclasses import dataclass

from gpuengine.rdf.graph import Graph
from gpuengine.rdf.rules import Triple, Variable
from gpuengine.rdf.sparql.algebra import Basic, Clear, Dataset, Group, Modify, Operation, Transfer
from gpuengine.rdf.sparql.evaluation import Evaluation
from gpuengine.rdf.sparql.tables import Table
from gpuengine.rdf.sparql.triples import QUAD, TRIPLE, instances

_ANY = Triple(*map(Variable, TRIPLE))

Quad = tuple[str, str, str, str | None]


@dataclass(frozen=True)
class QuadDelta:
    """Quads of texts, first what goes, then what comes; the graph is None for the default one."""

    minus: tuple[Quad, ...]
    plus: tuple[Quad, ...]


def delta_of(operation: Operation, graph: Graph) -> QuadDelta:
    """What an operation changes in the state of a graph."""
    if isinstance(operation, Modify):
        return _modified(operation, graph)
    evaluation = Evaluation(graph, Dataset(), None)
    if isinstance(operation, Clear):
        return QuadDelta(_cleared(evaluation, operation.graph), ())
    return _transferred(evaluation, operation)


def reads(operation: Operation) -> bool:
    """Whether what an operation changes depends on the state that it finds."""
    return not isinstance(operation, Modify) or operation.pattern is not None


def _modified(modify: Modify, graph: Graph) -> QuadDelta:
    evaluation = Evaluation(graph, modify.dataset, modify.base)
    solutions = Table.unit()
    if modify.pattern is not None:
        solutions = evaluation.group(modify.pattern, None)
    return QuadDelta(
        _quads(evaluation, instances(evaluation, modify.delete, solutions)),
        _quads(evaluation, instances(evaluation, modify.insert, solutions)),
    )


def _quads(evaluation: Evaluation, table: Table) -> tuple[Quad, ...]:
    texts = evaluation.view.terms.texts
    columns: list[list[str | None]] = [list(texts(table.columns[name])) for name in TRIPLE]
    graphs = table.columns["graph"]
    names = iter(texts(graphs[graphs >= 0]))
    columns.append([None if number < 0 else next(names) for number in graphs.tolist()])
    return tuple(zip(*columns, strict=True))


def _content(evaluation: Evaluation, name: str | None) -> tuple[Quad, ...]:
    """All triples of a graph."""
    group = Group((Basic((_ANY,)),))
    table = evaluation.group(group, name)
    number = -1 if name is None else int(evaluation.view.terms.add([name])[0])
    whole = Table({**table.columns, "graph": table.columns["subject"] * 0 + number}, table.length)
    return _quads(evaluation, whole.project(QUAD))


def _cleared(evaluation: Evaluation, which: str) -> tuple[Quad, ...]:
    names = evaluation.view.terms.texts(evaluation.view.names())
    groups: dict[str, list[str | None]] = {"DEFAULT": [None], "NAMED": [*names], "ALL": [None, *names]}
    graphs = groups.get(which, [which])
    return tuple(quad for name in graphs for quad in _content(evaluation, name))


def _transferred(evaluation: Evaluation, transfer: Transfer) -> QuadDelta:
    if transfer.source == transfer.target:
        return QuadDelta((), ())
    source = _content(evaluation, transfer.source)
    delete = _content(evaluation, transfer.target) if transfer.replaces else ()
    if transfer.moves:
        delete = (*delete, *source)
    return QuadDelta(delete, tuple((s, p, o, transfer.target) for s, p, o, _ in source))
