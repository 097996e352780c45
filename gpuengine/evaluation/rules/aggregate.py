"""Aggregates: evaluate the inner body once for each distinct binding of its outer variables, then reduce."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gpuengine.errors import EvaluationError
from gpuengine.evaluation.rules.compute import Bindings
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.known_groups import KnownGroups
from gpuengine.evaluation.rules.scheme_reads import bound_columns
from gpuengine.evaluation.rules.table_groups import group_table
from gpuengine.language.program import NUMBER, Aggregate, Atom, Literal, Variable, term_variables
from gpuengine.terms.aggregates import Fold, PythonReduction, Reduction, identity
from gpuengine.terms.functors import evaluate, value

_GROUP = Variable("@group", NUMBER)

CollectBody = Callable[[tuple[Literal, ...], Bindings, tuple[Variable, ...]], Iterator[Bindings]]
"""Evaluates a body for given bindings and yields the wanted variables, in any order."""


def apply_aggregate(
    literal: Aggregate,
    bindings: Bindings,
    database: Database,
    collect: CollectBody,
    known: KnownGroups,
    stop: np.ndarray,
    *,
    once: bool,
) -> None:
    """Bind the aggregate's result; rows for which it does not hold are dropped.

    Groups that are `known` are not evaluated again, and others are known from then on. If bindings are
    nothing but groups and `once` is enough, those that were known are dropped as well.
    """
    first, asked = known.evaluated, bindings.rows
    numbers = known.number([bindings.columns[variable] for variable in literal.outer], bindings.rows)
    if once and bindings.columns.keys() == set(literal.outer):
        columns, bindings.rows = known.new()
        bindings.columns = dict(zip(literal.outer, columns, strict=True))
        numbers = np.arange(first, first + bindings.rows)
    try:
        if known.in_table is None:
            known.in_table = group_table(literal, database, asked, stop)
        _evaluate_new(literal, database, collect, known)
    except EvaluationError:
        known.clear()  # some may be tried again without the others
        raise
    column, holds = known.results(numbers)
    if not holds.all():
        bindings.filter(holds)
        column = column[holds]
    if literal.result in bindings.columns:
        bindings.filter(bindings.columns[literal.result] == column)
    else:
        bindings.columns[literal.result] = column


def _evaluate_new(literal: Aggregate, database: Database, collect: CollectBody, known: KnownGroups) -> None:
    """Evaluate the groups that have no result yet."""
    columns, count = known.new()
    if not count:
        return
    groups = Bindings(dict(zip(literal.outer, columns, strict=True)), count)
    groups.columns[_GROUP] = np.arange(count, dtype=np.uint32)
    if known.in_table is not None:
        occupied, ids = known.in_table.results(columns, count)
    else:
        occupied, ids = _reduce_groups(literal, groups, database, collect)
    default = identity(literal.op, literal.result.type, database.dictionary)
    results = np.full(count, default or 0, np.uint32)
    results[occupied] = ids
    holds = np.full(count, default is not None)
    holds[occupied] = True
    known.add(results, holds)


def _counts_by_scheme(literal: Aggregate, groups: Bindings, database: Database) -> np.ndarray | None:
    """How many facts of a relation that is no table match each group, if that is all that is counted.

    Such a relation knows it without listing them.
    """
    if literal.op != "count" or len(literal.body) != 1 or not isinstance(literal.body[0], Atom):
        return None
    atom = literal.body[0]
    scheme = database.tables[atom.relation]
    local = [arg for arg in atom.args if isinstance(arg, Variable) and arg not in groups.columns]
    if scheme.is_listed or len(set(local)) < len(local):
        return None
    bound = bound_columns(atom, groups, database)
    if not bound:
        return np.full(groups.rows, len(scheme), np.uint64)
    if len(bound) == scheme.arity:
        return scheme.contains([bound[c] for c in range(scheme.arity)], groups.rows).astype(np.uint64)
    return scheme.degrees(bound, groups.rows)


def _reduce_groups(
    literal: Aggregate, groups: Bindings, database: Database, collect: CollectBody
) -> tuple[np.ndarray, np.ndarray]:
    """The groups whose body has bindings, and the aggregate's id for each of them."""
    counts = _counts_by_scheme(literal, groups, database)
    if counts is not None:
        occupied = np.flatnonzero(counts)
        space = literal.result.type.space
        return occupied, database.dictionary.encode(space, counts[occupied].astype(np.int64))
    target = () if literal.target is None else tuple(sorted(term_variables(literal.target), key=str))
    kind = literal.result.type if literal.target is None or literal.op == "count" else literal.target.type
    reduction: Reduction | PythonReduction | Fold
    if literal.initial is not None:
        reduction = Fold(literal, groups.rows, database.dictionary)
    else:
        make = PythonReduction if literal.op.startswith("@@") else Reduction
        reduction = make(literal.op, kind, groups.rows, database.dictionary)
    for chunk in collect(literal.body, groups, (_GROUP, *target)):
        values = None
        if literal.target is not None and literal.initial is not None:
            values = evaluate(literal.target, chunk.columns, chunk.rows, database.dictionary)
        elif literal.target is not None and literal.op != "count":
            values = value(literal.target, chunk.columns, chunk.rows, database.dictionary)
            if values is None:
                values = evaluate(literal.target, chunk.columns, chunk.rows, database.dictionary)
        reduction.add(chunk.columns[_GROUP], values)
    return reduction.results()
