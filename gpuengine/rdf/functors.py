"""Expressions of rules as functors of the engine: ``@rdf_value(expression, x, …)`` and ``@rdf_holds(…)``.

The first argument is an expression as `gpuengine.rdf.translation` writes it, the others are the columns of
its variables, in order of first appearance. An expression without a value for a row (a type error) drops the
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from gpuengine.language.extensions import register_aggregate, register_functor
from gpuengine.rdf.rules import Expression
from gpuengine.rdf.translation import AGGREGATE, HOLDS, VALUE, expression_of, variables_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_AGGREGATES = ("SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")


def register() -> None:
    """Have rules compute with terms."""
    register_functor(VALUE, _values)
    register_functor(HOLDS, _holding)
    for name in _AGGREGATES:
        register_aggregate(f"{AGGREGATE}_{name}", _Reducing(name))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Expression:
    return expression_of(text)


def _computed(columns: Sequence[pa.Array]) -> pa.Array:
    """The values of an expression, which is in the first column, the same in all rows."""
    from gpuengine.rdf.expressions import evaluate

    expression = _parsed(columns[0][0].as_py())
    names = [variable.name for variable in variables_of(expression)]
    return evaluate(expression, dict(zip(names, columns[1:], strict=True)), len(columns[0]))


def _values(columns: Sequence[pa.Array]) -> pa.Array:
    return _computed(columns)


def _holding(columns: Sequence[pa.Array]) -> pa.Array:
    import pyarrow as pa

    from gpuengine.rdf.expressions import holds

    expression = _parsed(columns[0][0].as_py())
    names = [variable.name for variable in variables_of(expression)]
    mask = holds(expression, dict(zip(names, columns[1:], strict=True)), len(columns[0]))
    return pa.array([("true" if one else None) for one in mask], pa.large_string())


class _Reducing:
    """An aggregate of SPARQL over the groups of a column."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, values: pa.Array, groups: np.ndarray, count: int) -> pa.Array:
        from gpuengine.rdf.aggregates import aggregate

        return aggregate(self._name, values, groups, count)
