"""The computing steps of a body that a device does itself: bindings stay in its memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpuengine.evaluation.host_work import HostOperation
from gpuengine.evaluation.rules.calculation import (
    defined_variable,
    is_calculable_on_columns,
    truth_steps,
    value_steps,
)
from gpuengine.evaluation.rules.compute import Bindings, apply_comparison
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.contract import Array, Backend, Compute
from gpuengine.kernels.primitives import Primitives
from gpuengine.language.program import (
    Atom,
    Comparison,
    Constant,
    Negation,
    Variable,
    literal_variables,
)
from gpuengine.planning.plan import Step
from gpuengine.schemes.contract import Domain
from gpuengine.schemes.pairs import as_pairs

_ROOM = 1 << 20
"""Bindings that a read makes at a time, at most."""

Steps = Sequence[tuple[Step, Domain]]


@dataclass
class DeviceBindings:
    """A table of bindings: for each variable a column of ids on a device, all of `rows` rows."""

    columns: dict[Variable, Array]
    rows: int

    def taken(self, places: Array, primitives: Primitives) -> DeviceBindings:
        """Rows by number, possibly repeated."""
        columns = {variable: primitives.take(column, places) for variable, column in self.columns.items()}
        return DeviceBindings(columns, len(places))

    def selected(self, mask: Array, backend: Backend) -> DeviceBindings:
        """The rows where the mask holds."""
        columns, rows = backend.select(list(self.columns.values()), mask)
        return DeviceBindings(dict(zip(self.columns, columns, strict=True)), rows)


def can_compute_on_device(
    steps: Steps, bound: Iterable[Variable], database: Database, backend: Backend
) -> bool:
    """Can the backend, which is no host, do all of these steps, given what is bound before the first?"""
    if backend.on_host or backend.primitives is None:
        return False
    known = set(bound)
    for step, _ in steps:
        if not (_is_calculable(step, known, backend) or _is_readable(step, known, database)):
            return False
        known |= literal_variables(step.literal)
    return True


def computed_on_device(
    steps: Steps, bindings: DeviceBindings, database: Database, backend: Backend, stop: np.ndarray
) -> Iterator[DeviceBindings]:
    """What is left of bindings after the given steps, in pieces; none are empty."""
    if not bindings.rows or stop[0]:
        return
    if not steps:
        yield bindings
        return
    (step, domain), *rest = steps
    if isinstance(step.literal, Comparison):
        made = _calculated(step.literal, bindings, database, backend)
        yield from computed_on_device(rest, made, database, backend, stop)
        return
    for made in _read(step, domain, bindings, database, backend):
        yield from computed_on_device(rest, made, database, backend, stop)


def _atom(step: Step) -> Atom | None:
    literal = step.literal.atom if isinstance(step.literal, Negation) else step.literal
    return literal if isinstance(literal, Atom) else None


def _is_readable(step: Step, bound: set[Variable], database: Database) -> bool:
    """Is it an atom of a closure or equivalence that only checks, or finds the partners of one column?"""
    atom = _atom(step)
    if atom is None or not database.tables[atom.relation].is_paired:
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
) -> DeviceBindings:
    """The bindings for which a comparison holds, or all of them with what it defines."""
    calculator, tables = backend.calculator, database.dictionary.word_tables
    assert calculator is not None
    variables = list(bindings.columns)
    columns = dict(enumerate(bindings.columns.values()))
    defined = defined_variable(literal, frozenset(variables))
    if defined is None:
        steps = truth_steps(literal, variables.index, tables.__getitem__)
        mask = calculator.mask(Compute(tuple(steps)), columns, bindings.rows)
        return (
            _failed(literal, bindings, database, backend)
            if mask is None
            else bindings.selected(mask, backend)
        )
    variable, term = defined
    steps = value_steps(term, variables.index, tables.__getitem__)
    compute = Compute(tuple(steps), len(variables), tables[variable.type.space])
    ids = calculator.ids(compute, columns, bindings.rows)
    if ids is None:
        return _failed(literal, bindings, database, backend)
    return DeviceBindings({**bindings.columns, variable: ids}, bindings.rows)


def _failed(
    literal: Comparison, bindings: DeviceBindings, database: Database, backend: Backend
) -> DeviceBindings:
    """What the host says of a comparison that the device could not compute: it raises what is wrong."""
    assert backend.primitives is not None
    columns = {name: backend.primitives.download(column) for name, column in bindings.columns.items()}
    fetched = Bindings(columns, bindings.rows)
    with database.host_work.counting(HostOperation.COMPUTATION, database.host_work.rule, bindings.rows):
        apply_comparison(literal, fetched, database.dictionary)
    sent = {name: backend.column(column) for name, column in fetched.columns.items()}
    return DeviceBindings(sent, fetched.rows)


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
