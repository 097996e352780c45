"""Reading union views on a device: the parts in turn, each without what one before it has.

Closures and equivalences are read by their labels. Tables are probed by pipelines that bindings drive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.device_bindings import DeviceBindings
from gpuengine.kernels.contract import (
    MAX_KEYS,
    Array,
    Backend,
    Collect,
    Domain,
    Driver,
    Exists,
    IndexProbe,
    Operation,
    Pipeline,
    Probe,
    RowIndex,
    Rows,
    Status,
    check,
    write,
)
from gpuengine.language.program import Atom, Constant, Variable
from gpuengine.schemes.contract import Domain as Read
from gpuengine.schemes.pairs import as_pairs
from gpuengine.schemes.table import Table, as_table
from gpuengine.schemes.union import Part, Union

_ROOM = 1 << 20
"""Bindings that a read makes at a time, at most."""


def is_readable(union: Union, atom: Atom, bound: set[Variable], negated: bool, backend: Backend) -> bool:
    """Can a device check an atom of a union, or find the values of one column, and of several in tables?"""
    free = [arg for arg in atom.args if not isinstance(arg, Constant) and arg not in bound]
    if not all(isinstance(arg, Variable) for arg in free) or len(set(free)) < len(free):
        return False
    if len(free) == len(atom.args) or (negated and free):
        return False
    return parts_on(union, Read.ALL, backend) is not None


def parts_on(union: Union, domain: Read, backend: Backend) -> list[Part] | None:
    """The parts that have facts, if a device can read all of them where they are."""
    parts = [part for part in union.read_in(domain) if len(part.scheme)]
    for part in parts:
        is_there = part.scheme.is_listed and as_table(part.scheme).backend is backend
        if not (is_there or part.scheme.is_paired):
            return None
    return parts


@dataclass
class UnionRead:
    """One reading of a union by bindings: `columns` are the variables of the atom's columns.

    What only the read needs, as constants, are variables of its own.
    """

    union: Union
    parts: Sequence[Part]
    domain: Read
    columns: tuple[Variable, ...]
    backend: Backend
    stop: np.ndarray
    _news: dict[int, Rows] = field(default_factory=dict)

    def holding(self, bindings: DeviceBindings) -> Iterator[DeviceBindings]:
        """The bindings that are facts, each once: from the first part that has it."""
        rest = self._newer(bindings)
        for part in self.parts:
            if rest.rows:
                found = self._filtered(part, rest, self.domain, negated=False)
                rest = self._filtered(part, rest, self.domain, negated=True)
                if found.rows:
                    yield found

    def lacking(self, bindings: DeviceBindings) -> DeviceBindings:
        """The bindings that are no facts."""
        assert self.domain is not Read.NEW
        for part in self.parts:
            if bindings.rows:
                bindings = self._filtered(part, bindings, self.domain, negated=True)
        return bindings

    def expanded(self, bindings: DeviceBindings) -> Iterator[DeviceBindings]:
        """Each binding with each fact that matches it."""
        for number, part in enumerate(self.parts):
            for made in self._matches(part, bindings):
                for before in self.parts[:number]:
                    if made.rows:
                        made = self._filtered(before, made, self.domain, negated=True)
                made = self._newer(made)
                if made.rows:
                    yield made

    def _newer(self, bindings: DeviceBindings) -> DeviceBindings:
        """Of NEW facts those that no part had before."""
        if self.domain is Read.NEW:
            for part in self.parts:
                if bindings.rows:
                    bindings = self._filtered(part, bindings, Read.OLD, negated=True)
        return bindings

    def _filtered(
        self, part: Part, bindings: DeviceBindings, domain: Read, *, negated: bool
    ) -> DeviceBindings:
        """The bindings that a part has, or (`negated`) has not."""
        scheme, variables = part.scheme, [self.columns[place] for place in part.permutation]
        if scheme.is_paired:
            assert self.backend.primitives is not None
            source, target = (bindings.columns[variable] for variable in variables)
            labels = as_pairs(scheme).labels_on(self.backend.primitives)
            mask = labels.contains(source, target, domain, negated=negated)
            return bindings.selected(mask, self.backend)
        operation = Exists(self._probe(as_table(scheme), variables, bindings, domain), negated)
        found = list(self._run(operation, bindings, (), bindings.rows))
        return found[0] if found else DeviceBindings(dict(bindings.columns), 0)

    def _matches(self, part: Part, bindings: DeviceBindings) -> Iterator[DeviceBindings]:
        scheme, variables = part.scheme, [self.columns[place] for place in part.permutation]
        free = tuple(variable for variable in variables if variable not in bindings.columns)
        if scheme.is_listed:
            operation = Probe((self._probe(as_table(scheme), variables, bindings, self.domain),))
            yield from self._run(operation, bindings, free, _ROOM)
            return
        primitives = self.backend.primitives
        assert primitives is not None
        column = 0 if variables[0] in bindings.columns else 1
        given = bindings.columns[variables[column]]
        for places, values in (
            as_pairs(scheme).labels_on(primitives).partners(column, given, self.domain, _ROOM)
        ):
            made = bindings.taken(places, primitives)
            made.columns[variables[1 - column]] = values
            yield made

    def _probe(
        self, table: Table, variables: Sequence[Variable], bindings: DeviceBindings, domain: Read
    ) -> IndexProbe:
        """The rows of a table that match bindings; registers are the places of variables among them."""
        registers = {variable: place for place, variable in enumerate(bindings.columns)}
        keys = tuple(j for j, variable in enumerate(variables) if variable in registers)[:MAX_KEYS]
        payload, free = [], len(registers)
        for j, variable in enumerate(variables):
            if j in keys:
                continue
            if variable in registers:
                payload.append(check(registers[variable]))
            else:
                payload.append(write(free))
                free += 1
        asked = tuple(registers[variables[j]] for j in keys)
        kind = Domain.OLD if domain is Read.OLD else Domain.ALL
        return IndexProbe(self._index(table, keys, domain), kind, asked, tuple(payload))

    def _index(self, table: Table, keys: tuple[int, ...], domain: Read) -> RowIndex:
        if domain is not Read.NEW:
            return table.index(keys, growing=True)
        rows = self._news.get(id(table))
        if rows is None:
            start, end = table.rows.delta
            rows = self._news[id(table)] = self.backend.rows(table.arity, end - start)
            rows.append([column[start:end] for column in table.rows.device_columns()], end - start)
            rows.settle()
        index = self.backend.index(rows, keys, table.bounds)
        index.build(exact=True)
        return index

    def _run(
        self, operation: Operation, bindings: DeviceBindings, free: tuple[Variable, ...], room: int
    ) -> Iterator[DeviceBindings]:
        """What an operation leaves or makes of bindings, in pieces of at most `room`."""
        names = (*bindings.columns, *free)
        given = self.backend.rows(len(bindings.columns), bindings.rows)
        given.append(list(bindings.columns.values()), bindings.rows)
        driver = Driver(given, tuple(write(register) for register in range(len(bindings.columns))))
        sink = Collect(tuple(range(len(names))))
        pipeline = Pipeline(driver, (operation,), sink, len(names))
        program, out = self.backend.program(pipeline, self.stop), self.backend.rows(len(names), room + 1)
        status = program.run(out, 0, bindings.rows)
        while True:
            if status is Status.STOPPED:
                raise Interrupted("stopped")
            if out.count:
                yield DeviceBindings(dict(zip(names, out.device_columns(), strict=True)), out.count)
            if status is Status.DONE:
                return
            out.count = 0
            status = program.resume(out)


def read_union(
    union: Union,
    atom: Atom,
    negated: bool,
    domain: Read,
    bindings: DeviceBindings,
    database: Database,
    backend: Backend,
    stop: np.ndarray,
) -> Iterator[DeviceBindings] | None:
    """The bindings that an atom, or a negated one, leaves or makes; None if a part is elsewhere now."""
    parts = parts_on(union, domain, backend)
    if parts is None:
        return None
    given, columns = DeviceBindings(dict(bindings.columns), bindings.rows), []
    for number, arg in enumerate(atom.args):
        if isinstance(arg, Constant):
            variable = Variable(f"@constant{number}", arg.type)
            given.columns[variable] = _filled(
                database.dictionary.intern_constant(arg), bindings.rows, backend
            )
        else:
            assert isinstance(arg, Variable)
            variable = arg
        columns.append(variable)
    read = UnionRead(union, parts, union.read_as(domain), tuple(columns), backend, stop)
    if negated:
        return iter([read.lacking(given)])
    is_checked = all(variable in given.columns for variable in columns)
    return read.holding(given) if is_checked else read.expanded(given)


def _filled(id: int, count: int, backend: Backend) -> Array:
    assert backend.primitives is not None
    return backend.primitives.filled(id, count)
