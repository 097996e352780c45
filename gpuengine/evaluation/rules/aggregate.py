"""Aggregates: evaluate the inner body once for each distinct binding of its outer variables, then reduce."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gpuengine.evaluation.rules.compute import Bindings
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.known_groups import KnownGroups
from gpuengine.evaluation.rules.scheme_reads import bound_columns
from gpuengine.language.program import NUMBER, Aggregate, Atom, Literal, Variable, term_variables
from gpuengine.terms.aggregates import Fold, PythonReduction, Reduction, identity
from gpuengine.terms.functors import evaluate, value

_GROUP = Variable("@group", NUMBER)

CollectBody = Callable[[tuple[Literal, ...], Bindings, tuple[Variable, ...]], Iterator[Bindings]]
"""Evaluates a body for given bindings and yields the wanted variables, in any order."""


def apply_aggregate(
    literal: Aggregate, bindings: Bindings, database: Database, collect: CollectBody, known: KnownGroups
) -> None:
    """Bind the aggregate's result; rows for which it does not hold are dropped.

    Groups that are `known` are not evaluated again, and others are known from then on.
    """
    groups, group_of_row = _groups(literal.outer, bindings)
    results, holds = _results_of_groups(literal, groups, database, collect, known)
    column = results[group_of_row]
    if not holds.all():
        mask = holds[group_of_row]
        bindings.filter(mask)
        column = column[mask]
    if literal.result in bindings.columns:
        bindings.filter(bindings.columns[literal.result] == column)
    else:
        bindings.columns[literal.result] = column


def _results_of_groups(
    literal: Aggregate, groups: Bindings, database: Database, collect: CollectBody, known: KnownGroups
) -> tuple[np.ndarray, np.ndarray]:
    """For each group the id of the aggregate's result, and whether it holds."""
    codes = known.find([groups.columns[variable] for variable in literal.outer], groups.rows)
    new = codes < 0
    results, holds = np.zeros(groups.rows, np.uint32), np.zeros(groups.rows, np.bool_)
    results[~new], holds[~new] = known.results(codes[~new])
    if new.any():
        asked = Bindings(dict(groups.columns), groups.rows)
        asked.filter(new)
        asked.columns[_GROUP] = np.arange(asked.rows, dtype=np.uint32)
        occupied, ids = _reduce_groups(literal, asked, database, collect)
        default = identity(literal.op, literal.result.type, database.dictionary)
        made = np.full(asked.rows, default or 0, np.uint32)
        made[occupied] = ids
        made_holds = np.full(asked.rows, default is not None)
        made_holds[occupied] = True
        known.add([asked.columns[variable] for variable in literal.outer], made, made_holds)
        results[new], holds[new] = made, made_holds
    return results, holds


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


def _groups(outer: tuple[Variable, ...], bindings: Bindings) -> tuple[Bindings, np.ndarray]:
    """The distinct bindings of `outer`, numbered, and the number of each row's."""
    if not outer:
        return Bindings({_GROUP: np.zeros(1, np.uint32)}, 1), np.zeros(bindings.rows, np.int64)
    columns = [bindings.columns[variable] for variable in outer]
    order = np.lexsort(columns)
    starts = np.ones(bindings.rows, np.bool_)
    starts[1:] = False
    for column in columns:
        ordered = column[order]
        starts[1:] |= ordered[1:] != ordered[:-1]
    group_of_row = np.empty(bindings.rows, np.int64)
    group_of_row[order] = np.cumsum(starts) - 1
    first = order[starts]
    grouped = {variable: column[first] for variable, column in zip(outer, columns, strict=True)}
    grouped[_GROUP] = np.arange(len(first), dtype=np.uint32)
    return Bindings(grouped, len(first)), group_of_row


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
