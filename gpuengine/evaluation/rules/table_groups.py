"""An aggregate over the facts of one table, evaluated for all groups that there are in one pass.

    r(c, n) :- t(_, c), n = count : { t(_, c) }.

Where many groups are asked for, that takes less than an index by which the facts of each would be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.cpu.groups import KeyNumbers
from gpuengine.language.program import Aggregate, Atom, Constant, Variable, term_variables
from gpuengine.planning.fallible import can_fail
from gpuengine.schemes.table import Table, as_table
from gpuengine.terms.aggregates import Reduction
from gpuengine.terms.functors import evaluate, value

_SHARE = 256
_MANY = 1 << 15
"""A pass pays off for bindings of one in so many facts, or for so many bindings."""
_PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class TableGroups:
    """The groups of a table: their keys, which of them have a result, and its id."""

    keys: KeyNumbers
    has_result: np.ndarray
    ids: np.ndarray

    def results(self, columns: list[np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
        """Which of the groups that are asked for have facts, and the aggregate's id for each of these."""
        known = len(self.ids)
        number = self.keys.number(columns, count)
        is_known = number < known
        is_known[is_known] = self.has_result[number[is_known]]
        return np.flatnonzero(is_known), self.ids[number[is_known]]


def group_table(literal: Aggregate, database: Database, rows: int, stop: np.ndarray) -> TableGroups | None:
    """All groups of an aggregate, if it is one of a table alone and `rows` bindings ask for some of them."""
    found = _table_of(literal, database)
    if found is None or rows < min(len(found[0]) // _SHARE, _MANY):
        return None
    table, places = found
    outer = tuple(places[variable] for variable in literal.outer)
    if any(index.keys == tuple(sorted(outer)) for index in table.indexes):
        return None
    columns, count = table.columns(), len(table)
    keys = KeyNumbers(len(outer))
    numbers = np.empty(count, np.uint32)
    for start in _pieces(count, stop):
        piece = [columns[j][start : start + _PIECE] for j in outer]
        numbers[start : start + _PIECE] = keys.number(piece, len(piece[0]))
    kind = literal.result.type if literal.target is None or literal.op == "count" else literal.target.type
    reduction = Reduction(literal.op, kind, len(keys), database.dictionary)
    for start in _pieces(count, stop):
        group = numbers[start : start + _PIECE]
        given = {variable: columns[j][start : start + _PIECE] for variable, j in places.items()}
        reduction.add(group, _values(literal, given, len(group), database))
    has_result, ids = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.uint32)
    reduced, results = reduction.results()
    has_result[reduced], ids[reduced] = True, results
    return TableGroups(keys, has_result, ids)


def _pieces(count: int, stop: np.ndarray) -> Iterator[int]:
    for start in range(0, count, _PIECE):
        if stop[0]:
            raise Interrupted("stopped")
        yield start


def _table_of(literal: Aggregate, database: Database) -> tuple[Table, dict[Variable, int]] | None:
    """The table of whose facts each is one binding of the aggregate's body, and the columns of variables."""
    if len(literal.body) != 1 or not literal.outer or literal.op[0] == "@" or can_fail(literal):
        return None
    atom = literal.body[0]
    if not isinstance(atom, Atom) or not database.tables[atom.relation].is_listed:
        return None
    table = as_table(database.tables[atom.relation])
    if not table.backend.on_host:
        return None
    variables = [arg for arg in atom.args if isinstance(arg, Variable)]
    is_plain = len(set(variables)) == len(variables) and not any(isinstance(a, Constant) for a in atom.args)
    needed = {*literal.outer, *(() if literal.target is None else term_variables(literal.target))}
    # Facts that are only scheduled do not count yet.
    if not is_plain or not needed <= set(variables) or table.rows.delta[1] != table.rows.count:
        return None
    return table, {arg: j for j, arg in enumerate(atom.args) if isinstance(arg, Variable)}


def _values(
    literal: Aggregate, columns: dict[Variable, np.ndarray], rows: int, database: Database
) -> np.ndarray | None:
    if literal.target is None or literal.op == "count":
        return None
    values = value(literal.target, columns, rows, database.dictionary)
    return evaluate(literal.target, columns, rows, database.dictionary) if values is None else values
