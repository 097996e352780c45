"""The join of the atoms of a compiled rule, by the pipelines that every rule runs on.

A join is driven by some atoms of one relation and probes the tables of the others, which have the number of
each atom as their last column. What comes out is, for each match, the number of every atom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuengine.errors import Span
from gpuengine.kernels.contract import (
    IGNORE,
    MAX_KEYS,
    Collect,
    Domain,
    Driver,
    IndexProbe,
    Operation,
    Pipeline,
    Probe,
    Scan,
    Status,
    check,
    write,
)
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language import program as planned
from gpuengine.planning.order import order_body
from gpuengine.temporal.relations import TemporalRelation
from gpuengine.temporal.syntax import Constant, Relational, Term, Variable

MATCHES_AT_ONCE = 1 << 18


class _Registers:
    """Registers of variables, constants and atoms."""

    def __init__(self, find_constant: Callable[[str], int | None]) -> None:
        self._find = find_constant
        self.count = 0
        self.variables: dict[Variable, int] = {}
        self.constants: dict[int, int] = {}
        self.impossible = False

    def new(self) -> int:
        self.count += 1
        return self.count - 1

    def is_known(self, term: Term) -> bool:
        return isinstance(term, Constant) or term in self.variables

    def of(self, term: Term) -> int:
        if isinstance(term, Variable):
            return self.variables[term]
        number = self._find(term.text)
        if number is None:
            self.impossible = True
            number = 0
        if number not in self.constants:
            self.constants[number] = self.new()
        return self.constants[number]

    def binding(self, term: Term) -> int:
        """What to do with a column of this term."""
        if self.is_known(term):
            return check(self.of(term))
        assert isinstance(term, Variable)
        if term.name.startswith("_ "):
            return IGNORE
        self.variables[term] = self.new()
        return write(self.variables[term])


def matches(
    atoms: Sequence[Relational],
    relations: Mapping[str, TemporalRelation],
    driver: int,
    rows: np.ndarray,
    find_constant: Callable[[str], int | None],
) -> Iterator[list[np.ndarray]]:
    """For each match of all atoms: the place in `rows` of the driver's atom, the numbers of the others.

    `rows` are the numbers of the atoms that drive. In batches, each a list of columns in the order of
    `atoms`.
    """
    atom = atoms[driver]
    places = np.arange(len(rows), dtype=np.uint32)
    if len(atoms) == 1 and is_plain(atom):
        yield [places]
        return
    registers = _Registers(find_constant)
    driving = CPU.rows(len(atom.terms) + 1, len(rows))
    relation = relations[atom.predicate]
    driving.append([*(relation.column(j, rows) for j in range(relation.arity)), places], len(rows))
    bindings = [registers.binding(term) for term in atom.terms]
    numbers = {driver: registers.new()}
    bindings.append(write(numbers[driver]))
    operations: list[Operation] = []
    for position in _order(atoms, relations, driver):
        numbers[position] = registers.new()
        operations.append(_operation(atoms[position], relations, registers, numbers[position]))
    if registers.impossible or not len(rows):
        return
    pipeline = Pipeline(
        Driver(driving, tuple(bindings)),
        tuple(operations),
        Collect(tuple(numbers[position] for position in range(len(atoms)))),
        registers.count,
        tuple((register, number) for number, register in registers.constants.items()),
    )
    program = CPU.program(pipeline, np.zeros(1, np.int64))
    room = min(MATCHES_AT_ONCE, max(1024, 4 * len(rows)))
    out = CPU.rows(len(atoms), room)
    status = program.run(out, 0, len(rows))
    while True:
        if out.count:
            yield [out.column(j).copy() for j in range(len(atoms))]
        if status is Status.DONE:
            return
        # There are many: fewer and larger batches cost less.
        room = min(MATCHES_AT_ONCE, 8 * room)
        out = CPU.rows(len(atoms), room)
        status = program.resume(out)


def is_plain(atom: Relational) -> bool:
    """Distinct variables only: every atom matches."""
    return len(set(atom.terms)) == len(atom.terms) and not any(isinstance(t, Constant) for t in atom.terms)


def _order(atoms: Sequence[Relational], relations: Mapping[str, TemporalRelation], driver: int) -> list[int]:
    """The other atoms, in the planner's order: the cheapest by expected matches."""
    if len(atoms) == 2:
        return [1 - driver]
    sizes = tuple(relations[atom.predicate].atoms.bit_length() for atom in atoms)
    key = (tuple(atoms), driver, sizes)
    if key not in _orders:
        if len(_orders) >= _MOST_ORDERS:
            _orders.clear()
        plan = order_body(list(map(_planned, atoms)), _Sizes(relations), driver=driver)
        placed = [place for step in plan.steps for place in (step.position, *step.alternatives)]
        _orders[key] = [place for place in dict.fromkeys(placed) if place != driver]
    return _orders[key]


_orders: dict[tuple[tuple[Relational, ...], int, tuple[int, ...]], list[int]] = {}
"""Orders by atoms, driver and the magnitudes of the relations: rounds ask for the same ones again."""
_MOST_ORDERS = 1 << 12


@dataclass(frozen=True)
class _Sizes:
    """What the planner asks of temporal relations; facts count as atoms, whenever they hold."""

    relations: Mapping[str, TemporalRelation]

    def count(self, relation: str) -> float:
        return float(self.relations[relation].atoms)

    def distinct(self, relation: str, column: int) -> float:
        return self.relations[relation].table.distinct(column)

    def skew(self, relation: str, column: int) -> float:
        return self.relations[relation].table.skew(column)


def _planned(atom: Relational) -> planned.Atom:
    """An atom as the planner knows them."""

    def argument(term: Term) -> planned.Variable | planned.Wildcard | planned.Constant:
        if isinstance(term, Constant):
            return planned.Constant(term.text, planned.SYMBOL)
        if term.name.startswith("_ "):
            return planned.Wildcard()
        return planned.Variable(term.name, planned.SYMBOL)

    return planned.Atom(atom.predicate, tuple(map(argument, atom.terms)), _NOWHERE)


_NOWHERE = Span("", 0, 0, 0, 0)


def _operation(
    atom: Relational, relations: Mapping[str, TemporalRelation], registers: _Registers, number: int
) -> Operation:
    table = relations[atom.predicate].table
    bound = [column for column, term in enumerate(atom.terms) if registers.is_known(term)]
    if not bound:
        bindings = [registers.binding(term) for term in atom.terms]
        return Scan(table.rows, Domain.ALL, (*bindings, write(number)))
    if len(bound) > MAX_KEYS:
        bound = sorted(sorted(bound, key=lambda column: -table.distinct(column))[:MAX_KEYS])
    keys = tuple(registers.of(atom.terms[column]) for column in bound)
    payload = [registers.binding(term) for column, term in enumerate(atom.terms) if column not in bound]
    index = table.index(tuple(bound), growing=True)
    return Probe((IndexProbe(index, Domain.ALL, keys, (*payload, write(number))),))
