"""The full reducer of Yannakakis's algorithm over the atoms of an acyclic body, made incremental.

Each atom takes part with its *active* instantiations: those of the domain that a variant reads (the labels
I, Δ and I ∪ Δ of the thesis are OLD, NEW and ALL; what remains of I after a deletion is OLD as well). Three
passes of semi-joins leave only those that some result of the join uses:

1. from the atom that reads the delta outwards, if that is much smaller than another: matching facts are
   found by indexes, so that what this costs depends on the delta;
2. from the leaves up to the root;
3. from the root down, to the atoms that are asked for.

Where the facts of all atoms are on one device, instantiations are its columns, and semi-joins are its own: by
sets of the right ones, without indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.contract import (
    Array,
    Backend,
    Collect,
    Driver,
    Pipeline,
    Rows,
    Status,
    check,
    write,
)
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.language.program import Atom, Constant, Variable, Wildcard
from gpuengine.planning.hypergraph import JoinTree
from gpuengine.schemes.contract import Domain
from gpuengine.schemes.table import Table, as_table, tables_among

FIRST_PASS_RATIO = 3
"""The first pass is made if the delta is so many times smaller than the most active instantiations."""
_PRIMITIVES = CpuPrimitives()


@dataclass(frozen=True)
class Source:
    """The facts of a table that instantiations were read from, with the column of each variable."""

    table: Table
    domain: Domain
    columns: Mapping[Variable, int]


@dataclass(frozen=True)
class Instantiations:
    """Bindings of an atom's variables as columns; with a `source` they are all that it has.

    The columns are in the memory of `backend`.
    """

    columns: Mapping[Variable, Array]
    count: int
    is_distinct: bool
    source: Source | None = None
    backend: Backend = CPU

    def taken(self, places: Array) -> Instantiations:
        """Those at the given places, which are different ones."""
        if self.backend.on_host:
            columns = {variable: column[places] for variable, column in self.columns.items()}
        else:
            assert self.backend.primitives is not None
            take = self.backend.primitives.take
            columns = {variable: take(column, places) for variable, column in self.columns.items()}
        return Instantiations(columns, len(places), self.is_distinct, backend=self.backend)

    def none(self) -> Instantiations:
        """None of them."""
        return self.taken(self.backend.column(np.empty(0, np.uint32)))

    def projected(self, variables: Sequence[Variable]) -> Instantiations:
        """The distinct bindings of some of the variables."""
        columns, count = [self.columns[variable] for variable in variables], self.count
        if not columns:
            count = min(count, 1)
        elif count and not (self.is_distinct and len(columns) == len(self.columns)):
            columns, count = self.backend.distinct_rows(_contiguous(columns, self.backend), count)
        named = dict(zip(variables, columns, strict=True))
        return Instantiations(named, count, is_distinct=True, backend=self.backend)


def _contiguous(columns: Sequence[Array], backend: Backend) -> list[Array]:
    """Columns as kernels take them; a device's are."""
    return [np.ascontiguousarray(column) for column in columns] if backend.on_host else list(columns)


def common_backend(atoms: Iterable[Atom], database: Database) -> Backend:
    """Where reductions of these atoms are done: on the device that has all their facts, else on the host."""
    schemes = [database.tables[atom.relation] for atom in atoms]
    backends = [table.backend for table in tables_among(schemes)]
    first = backends[0]
    is_common = len(backends) == len(schemes) and all(backend is first for backend in backends)
    return first if is_common and not first.on_host and first.primitives is not None else CPU


def read_instantiations(
    atom: Atom, domain: Domain, database: Database, backend: Backend = CPU
) -> Instantiations:
    """The bindings of an atom's variables by the facts of its table; no copy unless some are left out."""
    table = as_table(database.tables[atom.relation])
    start, end = table.rows.delta
    start, end = {Domain.ALL: (0, end), Domain.OLD: (0, start), Domain.NEW: (start, end)}[domain]
    if not backend.on_host:
        return _read_on_device(atom, table.rows, start, end, database, backend)
    places: dict[Variable, int] = {}
    mask: np.ndarray | None = None
    facts = [column[start:end] for column in table.columns()]
    for column, arg in enumerate(atom.args):
        other: np.ndarray | np.uint32 | None = None
        if isinstance(arg, Constant):
            other = np.uint32(database.dictionary.intern_constant(arg))
        elif isinstance(arg, Variable) and arg in places:
            other = facts[places[arg]]
        elif isinstance(arg, Variable):
            places[arg] = column
        if other is not None:
            equal = facts[column] == other
            mask = equal if mask is None else mask & equal
    columns = {variable: facts[column] for variable, column in places.items()}
    is_distinct = not any(isinstance(arg, Wildcard) for arg in atom.args)
    if mask is not None:
        return Instantiations(columns, end - start, is_distinct).taken(np.flatnonzero(mask))
    return Instantiations(columns, end - start, is_distinct, Source(table, domain, places))


def _read_on_device(
    atom: Atom, rows: Rows, start: int, end: int, database: Database, backend: Backend
) -> Instantiations:
    """The same of rows on a device: a pipeline leaves out what constants and repeated variables do."""
    registers: dict[Variable, int] = {}
    constants: dict[int, int] = {}
    bindings: list[int] = []
    places: dict[Variable, int] = {}
    count = len(atom.args)
    for column, arg in enumerate(atom.args):
        if isinstance(arg, Constant):
            register = count + len(constants)
            constants[register] = database.dictionary.intern_constant(arg)
            bindings.append(check(register))
        elif isinstance(arg, Variable) and arg in registers:
            bindings.append(check(registers[arg]))
        else:
            bindings.append(write(column))
            if isinstance(arg, Variable):
                registers[arg], places[arg] = column, column
    is_distinct = not any(isinstance(arg, Wildcard) for arg in atom.args)
    if all(binding >= 0 for binding in bindings):
        facts = [column[start:end] for column in rows.device_columns()]
        columns = {variable: facts[column] for variable, column in places.items()}
        return Instantiations(columns, end - start, is_distinct, backend=backend)
    sink = Collect(tuple(registers.values()))
    pipeline = Pipeline(
        Driver(rows, tuple(bindings)), (), sink, count + len(constants), tuple(constants.items())
    )
    out = backend.rows(len(registers), end - start + 1)
    status = backend.program(pipeline, np.zeros(1, np.int64)).run(out, start, end)
    assert status is Status.DONE
    named = dict(zip(registers, out.device_columns(), strict=True))
    return Instantiations(named, out.count, is_distinct, backend=backend)


def semi_join(left: Instantiations, right: Instantiations, *, by_index: bool) -> Instantiations:
    """The instantiations on the left that agree with some on the right.

    O(left + right); `by_index`, if the left ones are all of a table's and the right ones few, O(right +
    result), once the table has the index.
    """
    shared = [variable for variable in left.columns if variable in right.columns]
    if not shared:
        return left if right.count else left.none()
    if not (left.count and right.count):
        return left.none()
    if by_index and left.source is not None and right.count * FIRST_PASS_RATIO < left.count:
        return _looked_up(left, left.source, right.projected(shared))
    keys = _contiguous([left.columns[variable] for variable in shared], left.backend)
    others = _contiguous([right.columns[variable] for variable in shared], left.backend)
    primitives = _PRIMITIVES if left.backend.on_host else left.backend.primitives
    assert primitives is not None
    places = primitives.semi_join(keys, others)
    return left if len(places) == left.count else left.taken(places)


def _looked_up(left: Instantiations, source: Source, keys: Instantiations) -> Instantiations:
    """The facts of a table that have one of the keys, by an index."""
    bound = {source.columns[variable]: keys.columns[variable] for variable in keys.columns}
    table, count = source.table, keys.count
    if not count:
        return left.none()
    if len(bound) == table.arity:
        columns = [bound[column] for column in range(table.arity)]
        return keys.taken(np.flatnonzero(table.contains(columns, count, source.domain)))
    free = [column for column in range(table.arity) if column not in bound]
    pieces: dict[Variable, list[np.ndarray]] = {variable: [] for variable in left.columns}
    for places, others in table.expand(bound, count, source.domain):
        for variable, column in source.columns.items():
            part = bound[column][places] if column in bound else others[free.index(column)]
            pieces[variable].append(part)
    empty = [np.empty(0, np.uint32)]
    columns_of = {variable: np.concatenate(parts or empty) for variable, parts in pieces.items()}
    return Instantiations(columns_of, len(next(iter(columns_of.values()))), left.is_distinct)


class Reduction:
    """The passes over one join tree; what `reduced` gives is what takes part in some result.

    `delta` is the position of the atom that reads the delta, if one does.
    """

    def __init__(
        self, tree: JoinTree, active: Mapping[int, Instantiations], delta: int | None, stop: np.ndarray
    ) -> None:
        self._tree = tree
        self._active = dict(active)
        self._stop = stop
        self._by_index = delta is not None
        self._reduced: dict[int, Instantiations] = {}
        if delta is not None:
            self._spread(delta)
        self._gather()

    @property
    def backend(self) -> Backend:
        """Where what is reduced is."""
        return self._active[self._tree.root].backend

    def _semi_join(self, left: int, right: Instantiations) -> Instantiations:
        if self._stop[0]:
            raise Interrupted("stopped")
        return semi_join(self._active[left], right, by_index=self._by_index)

    def _spread(self, delta: int) -> None:
        """From the delta outwards."""
        largest = max(one.count for one in self._active.values())
        if self._active[delta].count * FIRST_PASS_RATIO >= largest:
            return
        outwards = self._tree.rerooted(delta)
        for position in reversed(outwards.bottom_up()[:-1]):
            above = self._active[outwards.parent[position]]
            self._active[position] = self._semi_join(position, above)

    def _gather(self) -> None:
        """From the leaves to the root."""
        for position in self._tree.bottom_up()[:-1]:
            above = self._tree.parent[position]
            self._active[above] = self._semi_join(above, self._active[position])

    def reduced(self, position: int) -> Instantiations:
        """The instantiations of an atom that are part of a result."""
        if position == self._tree.root:
            return self._active[position]
        if position not in self._reduced:
            above = self.reduced(self._tree.parent[position])
            self._reduced[position] = self._semi_join(position, above)
        return self._reduced[position]
