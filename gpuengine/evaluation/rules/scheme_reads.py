"""Atoms over relations that are not tables: their schemes answer for whole columns of bindings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from gpuengine.evaluation.rules.compute import Bindings
from gpuengine.evaluation.rules.database import Database
from gpuengine.language.program import Atom, Constant, Negation, Variable, Wildcard
from gpuengine.planning.plan import Step
from gpuengine.schemes.contract import Domain, Scheme

ROOM = 1 << 16
"""Bindings that a read makes at a time, about."""


def read_scheme(
    step: Step, domain: Domain, bindings: Bindings, database: Database, stop: np.ndarray
) -> Iterator[Bindings]:
    """The bindings that an atom, or a negated one, leaves or makes of those given."""
    literal = step.literal
    negated = isinstance(literal, Negation)
    atom = literal.atom if isinstance(literal, Negation) else literal
    assert isinstance(atom, Atom)
    scheme = database.tables[atom.relation]
    bound = bound_columns(atom, bindings, database)
    if len(bound) == scheme.arity:
        holds = scheme.contains([bound[c] for c in range(scheme.arity)], bindings.rows, domain)
    elif negated or all(column in bound or isinstance(arg, Wildcard) for column, arg in enumerate(atom.args)):
        holds = _exists(scheme, bound, bindings.rows, domain)
    else:
        yield from _expand(atom, scheme, bound, domain, bindings, stop)
        return
    bindings.filter(~holds if negated else holds)
    if bindings.rows:
        yield bindings


def bound_columns(atom: Atom, bindings: Bindings, database: Database) -> dict[int, np.ndarray]:
    """The ids of the columns that are known."""
    ids_of: dict[int, np.ndarray] = {}
    for column, arg in enumerate(atom.args):
        if isinstance(arg, Constant):
            id = database.dictionary.intern_constant(arg)
            ids_of[column] = np.full(bindings.rows, id, np.uint32)
        elif isinstance(arg, Variable) and arg in bindings.columns:
            ids_of[column] = bindings.columns[arg]
    return ids_of


def _exists(scheme: Scheme, bound: dict[int, np.ndarray], rows: int, domain: Domain) -> np.ndarray:
    if bound:
        return scheme.exists(bound, rows, domain)
    return np.full(rows, scheme.count(domain) > 0, np.bool_)


def _expand(
    atom: Atom,
    scheme: Scheme,
    bound: dict[int, np.ndarray],
    domain: Domain,
    bindings: Bindings,
    stop: np.ndarray,
) -> Iterator[Bindings]:
    """Each binding with each fact that matches it."""
    free = [arg for column, arg in enumerate(atom.args) if column not in bound]
    if bound:
        matches = scheme.expand(bound, bindings.rows, domain, ROOM)
    else:
        named = [column for column, arg in enumerate(atom.args) if isinstance(arg, Variable)]
        if len(named) == 1:
            free = [atom.args[named[0]]]
            facts = _pieces(scheme.values(named[0], domain))
        else:
            facts = scheme.scan(domain, ROOM)
        matches = _crossed(facts, bindings.rows)
    for places, columns in matches:
        result = Bindings(dict(bindings.columns), bindings.rows)
        result.take(places)
        for arg, column in zip(free, columns, strict=True):
            if isinstance(arg, Wildcard):
                continue
            assert isinstance(arg, Variable)
            _bind(result, arg, column)
        if result.rows:
            yield result
        if stop[0]:
            return


def _bind(bindings: Bindings, variable: Variable, column: np.ndarray) -> None:
    """Bind a variable, or keep the rows where it has that value already (it stands in the atom twice)."""
    if variable in bindings.columns:
        bindings.filter(bindings.columns[variable] == column)
    else:
        bindings.columns[variable] = column


def _pieces(ids: np.ndarray) -> Iterator[list[np.ndarray]]:
    for start in range(0, len(ids), ROOM):
        yield [ids[start : start + ROOM]]


def _crossed(facts: Iterable[list[np.ndarray]], rows: int) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Every fact for each of `rows` bindings."""
    for batch in facts:
        count = len(batch[0])
        if rows == 1:
            yield np.zeros(count, np.uint32), batch
            continue
        at_once = max(1, ROOM // count)
        for start in range(0, rows, at_once):
            some = np.arange(start, min(start + at_once, rows), dtype=np.uint32)
            yield np.repeat(some, count), [np.tile(column, len(some)) for column in batch]
