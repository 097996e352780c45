"""Aggregates of numbers on a device: groups, the inner body for each, and what is made of it stay there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuengine.evaluation.rules.calculation import is_number_term, value_steps
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.device_bindings import DeviceBindings
from gpuengine.kernels.contract import (
    Backend,
    CalculationStep,
    Compute,
    Operator,
    Reducer,
    Representation,
    Words,
)
from gpuengine.language.program import (
    NUMBER,
    Aggregate,
    Atom,
    Kind,
    Literal,
    Negation,
    Variable,
    term_variables,
)

_GROUP = Variable("@group", NUMBER)
_RESULT = Variable("@result", NUMBER)
_REDUCERS = {
    "count": Reducer.COUNT,
    "sum": Reducer.SUM,
    "min": Reducer.LEAST,
    "max": Reducer.GREATEST,
    "mean": Reducer.MEAN,
}
_REPRESENTATIONS = {
    Kind.NUMBER: Representation.BY_NUMBER,
    Kind.UNSIGNED: Representation.BY_UNSIGNED,
    Kind.FLOAT: Representation.BY_FLOAT,
}

CollectOnDevice = Callable[
    [tuple[Literal, ...], DeviceBindings, tuple[Variable, ...]], Iterator[DeviceBindings]
]
"""Evaluates a body for given bindings and yields the wanted variables, in any order."""


def is_reducible(literal: Aggregate, bound: set[Variable], database: Database, backend: Backend) -> bool:
    """Can the backend evaluate an aggregate: one of numbers, over tables that are there?

    A scheme that knows how many facts match without listing them is asked on the host.
    """
    if literal.op not in _REDUCERS or not set(literal.outer) <= bound:
        return False
    if literal.target is not None and literal.op != "count" and not is_number_term(literal.target):
        return False
    if any(isinstance(part, Aggregate) for part in literal.body):
        return False
    parts = [part.atom if isinstance(part, Negation) else part for part in literal.body]
    atoms = [part for part in parts if isinstance(part, Atom)]
    return bool(atoms) and all(database.is_on(atom.relation, backend) for atom in atoms)


def reduced(
    literal: Aggregate,
    bindings: DeviceBindings,
    database: Database,
    backend: Backend,
    collect: CollectOnDevice,
) -> DeviceBindings | None:
    """The bindings for which an aggregate holds, with its result; None if the host must say what is wrong."""
    calculator, primitives = backend.calculator, backend.primitives
    assert calculator is not None and primitives is not None
    outer = [bindings.columns[variable] for variable in literal.outer]
    numbers, places = calculator.number_rows(outer, bindings.rows)
    groups = DeviceBindings(dict(zip(literal.outer, outer, strict=True)), bindings.rows)
    asked = groups.taken(places, primitives)
    asked.columns[_GROUP] = primitives.take(numbers, places)
    target = literal.target if literal.op != "count" else None
    kind = literal.result.type.kind if target is None else target.type.kind
    reduction = calculator.reduction(_REDUCERS[literal.op], _REPRESENTATIONS[kind], len(places))
    wanted = () if target is None else tuple(sorted(term_variables(target), key=str))
    compute = None
    if target is not None:
        steps = value_steps(target, wanted.index, database.dictionary.word_tables.__getitem__)
        compute = Compute(tuple(steps))
    for chunk in collect(literal.body, asked, (_GROUP, *wanted)):
        columns = {register: chunk.columns[variable] for register, variable in enumerate(wanted)}
        if not reduction.add(chunk.columns[_GROUP], compute, columns, chunk.rows):
            return None
    words = database.dictionary.word_tables[literal.result.type.space]
    column, holds = primitives.take(reduction.ids(words), numbers), reduction.holds(numbers)
    is_bound = literal.result in bindings.columns
    result = _RESULT if is_bound else literal.result
    made = DeviceBindings({**bindings.columns, result: column}, bindings.rows)
    if holds is not None:
        made = made.selected(holds, backend)
    return _with_equal(made, literal.result, words, backend) if is_bound else made


def _with_equal(
    bindings: DeviceBindings, variable: Variable, words: Words, backend: Backend
) -> DeviceBindings:
    """The bindings in which a variable is what was aggregated."""
    assert backend.calculator is not None
    columns = {0: bindings.columns[variable], 1: bindings.columns.pop(_RESULT)}
    loads = (CalculationStep(Operator.LOAD, register, words) for register in columns)
    same = Compute((*loads, CalculationStep(Operator.IS_EQUAL)))
    mask = backend.calculator.mask(same, columns, bindings.rows)
    assert mask is not None
    return bindings.selected(mask, backend)
