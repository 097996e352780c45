"""SPARQL 1.1: queries over the triples of a `Graph`, and updates as changes to be applied.

Text → `parser` → `algebra` → `evaluation` on columns of ids → `Answer`.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuengine.rdf.graph import Graph
from gpuengine.rdf.sparql.answers import FORMATS, Answer
from gpuengine.rdf.sparql.evaluation import Evaluation
from gpuengine.rdf.sparql.parser import parse_query
from gpuengine.rdf.sparql.triples import constructed, described

__all__ = ["FORMATS", "Answer", "answer"]


def answer(
    text: str,
    graph: Graph,
    *,
    name: str = "query",
    base: str | None = None,
    prefixes: Mapping[str, str] | None = None,
) -> Answer:
    """The answer of a query over a graph.

    `name` is what messages call the text; `prefixes` need no declaration.
    """
    query = parse_query(text, name, base, tuple((prefixes or {}).items()))
    evaluation = Evaluation(graph, query.dataset, query.base)
    if query.form == "SELECT":
        table = evaluation.select(query.select)
    elif query.form == "ASK":
        table = evaluation.select(query.select).project(())
    elif query.form == "CONSTRUCT":
        table = constructed(evaluation, query.template, evaluation.select(query.select))
    else:
        table = described(evaluation, query.described, evaluation.select(query.select))
    return Answer(query.form, table, evaluation.view.terms.texts, query.prefixes)
