"""The computing steps of a body that a device does itself: bindings stay in its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpuengine.evaluation.rules import device_unions
from gpuengine.evaluation.rules.calculation import (
    defined_variable,
    is_calculable_on_columns,
    truth_steps,
    value_steps,
)
from gpuengine.evaluation.rules.compute import Bindings
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.device_aggregates import CollectOnDevice, is_reducible, reduced
from gpuengine.evaluation.rules.device_bindings import DeviceBindings
from gpuengine.kernels.contract import Array, Backend, Compute
from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Variable,
    literal_variables,
)
from gpuengine.planning.plan import Step
from gpuengine.schemes.contract import Domain
from gpuengine.schemes.pairs import as_pairs
from gpuengine.schemes.union import as_union

_ROOM = 1 << 20
"""Bindings that a read makes at a time, at most."""

Steps = Sequence[tuple[Step, Domain]]


@dataclass(frozen=True, slots=True)
class Helpers:
    """What computing steps ask of whoever has the body: to evaluate others, and to do one on the host."""

    collect: CollectOnDevice
    apply_on_host: Callable[[Literal, Bindings], None]
    read_on_host: Callable[[Step, Domain, Bindings], Iterator[Bindings]]


def can_compute_on_device(
    steps: Steps, bound: Iterable[Variable], database: Database, backend: Backend
) -> bool:
    """Can the backend, which is no host, do all of these steps, given what is bound before the first?"""
    if backend.primitives is None:
        return False
    variables = set(bound)
    for step, _ in steps:
        if not _is_possible(step, variables, database, backend):
            return False
        variables |= literal_variables(step.literal)
    return True


def _is_possible(step: Step, bound: set[Variable], database: Database, backend: Backend) -> bool:
    if isinstance(step.literal, Aggregate):
        return backend.calculator is not None and is_reducible(step.literal, bound, database, backend)
    return _is_calculable(step, bound, backend) or _is_readable(step, bound, database, backend)


def computed_on_device(
    steps: Steps,
    bindings: DeviceBindings,
    database: Database,
    backend: Backend,
    stop: np.ndarray,
    helpers: Helpers,
) -> Iterator[DeviceBindings]:
    """What is left of bindings after the given steps, in pieces; none are empty."""
    if not bindings.rows or stop[0]:
        return
    if not steps:
        yield bindings
        return
    (step, domain), *rest = steps
    for made in _made(step, domain, bindings, database, backend, stop, helpers):
        yield from computed_on_device(rest, made, database, backend, stop, helpers)


def _made(
    step: Step,
    domain: Domain,
    bindings: DeviceBindings,
    database: Database,
    backend: Backend,
    stop: np.ndarray,
    helpers: Helpers,
) -> Iterator[DeviceBindings]:
    """What one step leaves or makes of bindings, in pieces."""
    literal, known = step.literal, set(bindings.columns)
    if not isinstance(literal, Aggregate | Comparison):
        yield from _read_where_it_is(step, domain, bindings, database, backend, stop, helpers)
        return
    made = None
    if isinstance(literal, Comparison):
        made = _calculated(literal, bindings, database, backend)
    elif is_reducible(literal, known, database, backend):  # its tables may have moved meanwhile
        made = reduced(literal, bindings, database, backend, helpers.collect)
    yield made if made is not None else _by_host(literal, bindings, backend, helpers)


def _read_where_it_is(
    step: Step,
    domain: Domain,
    bindings: DeviceBindings,
    database: Database,
    backend: Backend,
    stop: np.ndarray,
    helpers: Helpers,
) -> Iterator[DeviceBindings]:
    """What an atom of a scheme leaves or makes; the parts of a union may have moved to the host."""
    atom = _atom(step)
    assert atom is not None
    scheme = database.tables[atom.relation]
    if not scheme.is_view:
        yield from _read(step, domain, bindings, database, backend)
        return
    union, negated = as_union(scheme), isinstance(step.literal, Negation)
    facts = device_unions.read_union(union, atom, negated, domain, bindings, database, backend, stop)
    if facts is not None:
        yield from facts
        return
    for made in helpers.read_on_host(step, domain, _fetched(bindings, backend)):
        yield _sent(made, backend)


def _fetched(bindings: DeviceBindings, backend: Backend) -> Bindings:
    assert backend.primitives is not None
    columns = {name: backend.primitives.download(column) for name, column in bindings.columns.items()}
    return Bindings(columns, bindings.rows)


def _sent(bindings: Bindings, backend: Backend) -> DeviceBindings:
    sent = {name: backend.column(column) for name, column in bindings.columns.items()}
    return DeviceBindings(sent, bindings.rows)


def _by_host(
    literal: Literal, bindings: DeviceBindings, backend: Backend, helpers: Helpers
) -> DeviceBindings:
    """What the host makes of bindings: it can say what is wrong, too."""
    fetched = _fetched(bindings, backend)
    helpers.apply_on_host(literal, fetched)
    return _sent(fetched, backend)


def _atom(step: Step) -> Atom | None:
    literal = step.literal.atom if isinstance(step.literal, Negation) else step.literal
    return literal if isinstance(literal, Atom) else None


def _is_readable(step: Step, bound: set[Variable], database: Database, backend: Backend) -> bool:
    """Is it an atom of a closure or equivalence that only checks, or finds the partners of one column?

    Or one of a union of such, and of tables.
    """
    atom = _atom(step)
    if atom is None:
        return False
    scheme = database.tables[atom.relation]
    if scheme.is_view:
        is_negated = isinstance(step.literal, Negation)
        return device_unions.is_readable(as_union(scheme), atom, bound, is_negated, backend)
    if not scheme.is_paired:
        return False
    free = [arg for arg in atom.args if not isinstance(arg, Constant) and arg not in bound]
    if isinstance(step.literal, Negation):
        return not free
    return not free or (len(free) == 1 and isinstance(free[0], Variable))


def _is_calculable(step: Step, bound: set[Variable], backend: Backend) -> bool:
    return (
        backend.calculator is not None
        and isinstance(step.literal, Comparison)
        and is_calculable_on_columns(step.literal, frozenset(bound))
    )


def _calculated(
    literal: Comparison, bindings: DeviceBindings, database: Database, backend: Backend
) -> DeviceBindings | None:
    """The bindings for which a comparison holds, or all of them with what it defines; None if it fails."""
    calculator, tables = backend.calculator, database.dictionary.word_tables
    assert calculator is not None
    variables = list(bindings.columns)
    columns = dict(enumerate(bindings.columns.values()))
    defined = defined_variable(literal, frozenset(variables))
    if defined is None:
        steps = truth_steps(literal, variables.index, tables.__getitem__)
        mask = calculator.mask(Compute(tuple(steps)), columns, bindings.rows)
        return None if mask is None else bindings.selected(mask, backend)
    variable, term = defined
    steps = value_steps(term, variables.index, tables.__getitem__)
    compute = Compute(tuple(steps), len(variables), tables[variable.type.space])
    ids = calculator.ids(compute, columns, bindings.rows)
    if ids is None:
        return None
    return DeviceBindings({**bindings.columns, variable: ids}, bindings.rows)


def _read(
    step: Step, domain: Domain, bindings: DeviceBindings, database: Database, backend: Backend
) -> Iterator[DeviceBindings]:
    """The bindings that an atom, or a negated one, leaves or makes of those given."""
    atom, primitives = _atom(step), backend.primitives
    assert atom is not None and primitives is not None
    labels = as_pairs(database.tables[atom.relation]).labels_on(primitives)
    columns: list[Array | None] = []
    for arg in atom.args:
        if isinstance(arg, Constant):
            id = database.dictionary.intern_constant(arg)
            columns.append(primitives.filled(id, bindings.rows))
        else:
            columns.append(bindings.columns.get(arg) if isinstance(arg, Variable) else None)
    source, target = columns
    if source is not None and target is not None:
        mask = labels.contains(source, target, domain, negated=isinstance(step.literal, Negation))
        yield bindings.selected(mask, backend)
        return
    column = 0 if source is not None else 1
    free = atom.args[1 - column]
    assert isinstance(free, Variable)
    for places, values in labels.partners(column, columns[column], domain, _ROOM):
        made = bindings.taken(places, primitives)
        made.columns[free] = values
        yield made
