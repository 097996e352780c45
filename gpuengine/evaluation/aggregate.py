"""Aggregates: evaluate the inner body once for each distinct binding of its outer variables, then reduce."""

from __future__ import annotations

import numpy as np

from gpuengine.evaluation.compute import Bindings
from gpuengine.evaluation.database import Database
from gpuengine.language.program import NUMBER, Aggregate, Variable, term_variables
from gpuengine.planning.order import order_body
from gpuengine.terms.aggregates import identity, reduce
from gpuengine.terms.functors import evaluate

_GROUP = Variable("@group", NUMBER)


def apply_aggregate(literal: Aggregate, bindings: Bindings, database: Database) -> None:
    """Bind the aggregate's result; rows for which it does not hold are dropped."""
    groups, group_of_row = _groups(literal.outer, bindings)
    found, ids = _reduce_groups(literal, groups, database)
    default = identity(literal.op, literal.result.type, database.dictionary)
    results = np.full(groups.rows, default or 0, np.uint32)
    results[found] = ids
    column = results[group_of_row]
    if default is None:
        holds = np.zeros(groups.rows, np.bool_)
        holds[found] = True
        mask = holds[group_of_row]
        bindings.filter(mask)
        column = column[mask]
    if literal.result in bindings.columns:
        bindings.filter(bindings.columns[literal.result] == column)
    else:
        bindings.columns[literal.result] = column


def _groups(outer: tuple[Variable, ...], bindings: Bindings) -> tuple[Bindings, np.ndarray]:
    """The distinct bindings of `outer`, numbered, and the number of each row's."""
    if not outer:
        return Bindings({_GROUP: np.zeros(1, np.uint32)}, 1), np.zeros(bindings.rows, np.int64)
    columns = np.stack([bindings.columns[variable] for variable in outer], axis=1)
    distinct, inverse = np.unique(columns, axis=0, return_inverse=True)
    grouped = {variable: np.ascontiguousarray(distinct[:, j]) for j, variable in enumerate(outer)}
    grouped[_GROUP] = np.arange(len(distinct), dtype=np.uint32)
    return Bindings(grouped, len(distinct)), inverse.reshape(-1)


def _reduce_groups(literal: Aggregate, groups: Bindings, database: Database) -> tuple[np.ndarray, np.ndarray]:
    """The groups whose body has bindings, and the aggregate's id for each of them."""
    from gpuengine.evaluation.body import compile_body

    target = () if literal.target is None else tuple(sorted(term_variables(literal.target), key=str))
    given = tuple(groups.columns)
    plan = order_body(literal.body, database, given=frozenset(given))
    kept = (_GROUP, *target)
    body = compile_body(literal.body, plan, database, sink=kept, stop=np.zeros(1, np.int64), given=given)
    numbers: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    for chunk in body.collect(*body.feed(groups)):
        numbers.append(chunk.columns[_GROUP])
        if literal.target is not None:
            targets.append(evaluate(literal.target, chunk.columns, chunk.rows, database.dictionary))
    if not numbers:
        return np.zeros(0, np.int64), np.zeros(0, np.uint32)
    group = np.concatenate(numbers)
    starts = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
    ids = np.concatenate(targets) if targets else None
    kind = literal.result.type if literal.target is None or literal.op == "count" else literal.target.type
    return group[starts].astype(np.int64), reduce(
        literal.op, kind, ids, starts, len(group), database.dictionary
    )
