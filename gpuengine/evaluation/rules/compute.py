"""The steps of a body that compute on values: equations, comparisons, patterns, ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from gpuengine.language.program import (
    Comparison,
    Constant,
    Functor,
    Pack,
    Term,
    Variable,
    Wildcard,
    term_variables,
)
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.functors import (
    evaluate,
    evaluate_partly,
    expand_equal,
    expand_range,
    holds,
    is_partial,
)


@dataclass
class Bindings:
    """A table of bindings: for each variable a column of ids, all of `rows` rows."""

    columns: dict[Variable, np.ndarray]
    rows: int

    def filter(self, mask: np.ndarray) -> None:
        """Keep the rows where `mask` holds."""
        kept = int(np.count_nonzero(mask))
        if kept < self.rows:
            self.columns = {variable: column[mask] for variable, column in self.columns.items()}
            self.rows = kept

    def halves(self) -> tuple[Bindings, Bindings]:
        """The first rows and the others."""
        middle = self.rows // 2
        first = {variable: column[:middle] for variable, column in self.columns.items()}
        others = {variable: column[middle:] for variable, column in self.columns.items()}
        return Bindings(first, middle), Bindings(others, self.rows - middle)

    def take(self, index: np.ndarray) -> None:
        """Rows by number, possibly repeated."""
        self.columns = {variable: column[index] for variable, column in self.columns.items()}
        self.rows = len(index)


def apply_comparison(literal: Comparison, bindings: Bindings, dictionary: Dictionary) -> None:
    """Filter by a comparison, or bind what an equation without a range defines."""
    for target, source in ((literal.left, literal.right), (literal.right, literal.left)):
        if is_partial(source):
            assert isinstance(source, Functor)
            index, ids = evaluate_partly(source, bindings.columns, bindings.rows, dictionary)
            bindings.take(index)
            _match(target, ids, bindings, dictionary)
            return
    if literal.op in ("=", "=="):
        for target, source in ((literal.left, literal.right), (literal.right, literal.left)):
            known = bindings.columns.keys()
            if (term_variables(source) <= known and not term_variables(target) <= known) or (
                isinstance(target, Pack) and _has_wildcard(target) and term_variables(source) <= known
            ):
                if literal.op == "==":
                    index, ids = expand_equal(source, bindings.columns, bindings.rows, dictionary)
                    bindings.take(index)
                else:
                    ids = evaluate(source, bindings.columns, bindings.rows, dictionary)
                _match(target, ids, bindings, dictionary)
                return
    bindings.filter(holds(literal, bindings.columns, bindings.rows, dictionary))


def _has_wildcard(pack: Pack) -> bool:
    return any(
        isinstance(arg, Wildcard) or (isinstance(arg, Pack) and _has_wildcard(arg)) for arg in pack.args
    )


def is_range(literal: Comparison) -> bool:
    """Does an equation give a variable the values of a range?"""
    return literal.op == "=" and any(
        isinstance(side, Functor) and side.op == "range" for side in (literal.left, literal.right)
    )


def ranged(literal: Comparison, bindings: Bindings, dictionary: Dictionary) -> Iterator[Bindings]:
    """The bindings with each value that an equation with a range gives them, in pieces."""
    target, source = literal.left, literal.right
    if not (isinstance(source, Functor) and source.op == "range"):
        target, source = source, target
    assert isinstance(source, Functor)
    for index, ids in expand_range(source, bindings.columns, bindings.rows, dictionary):
        piece = Bindings(bindings.columns, bindings.rows)
        piece.take(index)
        _match(target, ids, piece, dictionary)
        yield piece


def _match(target: Term | Wildcard, ids: np.ndarray, bindings: Bindings, dictionary: Dictionary) -> None:
    """Unify a pattern with a column of ids: bind its new variables, keep the rows where the rest agrees.

    The ids ride along as a column of their own, so that filtering one part filters all.
    """
    pending: list[tuple[Term | Wildcard, Variable]] = []
    numbers = count()

    def ride(part: Term | Wildcard, column: np.ndarray) -> None:
        if not isinstance(part, Wildcard):
            name = Variable(f"@match{next(numbers)}", part.type)
            bindings.columns[name] = column
            pending.append((part, name))

    ride(target, ids)
    while pending:
        part, name = pending.pop()
        column = bindings.columns[name]
        if isinstance(part, Variable) and part not in bindings.columns:
            bindings.columns[part] = column
        elif isinstance(part, Pack):
            bindings.filter(_of_shape(part, column, dictionary))
            column = bindings.columns[name]
            _, fields = dictionary.unpack(part.type.space, column)
            for arg, values in zip(part.args, fields, strict=False):
                ride(arg, values)
        elif isinstance(part, Constant):
            bindings.filter(column == np.uint32(dictionary.intern_constant(part)))
        else:
            assert not isinstance(part, Wildcard)
            wanted = evaluate(part, bindings.columns, bindings.rows, dictionary)
            bindings.filter(column == wanted)
        del bindings.columns[name]


def _of_shape(pack: Pack, ids: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """Which ids are values of the pattern's branch (for records: not nil)."""
    if pack.branch is None:
        return ids != 0
    tags, _ = dictionary.unpack(pack.type.space, ids)
    names = [branch.name for branch in dictionary.branches(pack.type.space)]
    return tags == names.index(pack.branch)
