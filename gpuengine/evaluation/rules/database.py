"""The relations of one evaluation, the dictionary their ids belong to, and what the planner asks of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuengine.evaluation.host_work import HostOperation, HostWork
from gpuengine.evaluation.rules.evaluators import Evaluators
from gpuengine.kernels.contract import Backend, ValueTable
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Program
from gpuengine.planning.evaluators import Chooser
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table, as_table, tables_among
from gpuengine.terms.dictionary import Dictionary

_UNKNOWN_FACTS = 1_000_000.0
_TOO_FEW = 1000


class Database:
    """Relations by name: tables, or other schemes in their place. Implements the planner's `Statistics`.

    A relation of the stratum under evaluation that is still nearly empty says nothing of what it will
    be; the cost model then assumes it large (`growing` names those relations). Tables are made on
    `backend`, and may move. `evaluators` know by what each rule is evaluated; the nodes of hypertrees are
    relations here as well, as long as there is room for them. Given `tables`, it has these only: a query
    reads a few relations of a program that may have thousands. `host_work` is where who evaluates over it
    counts what the host does.
    """

    def __init__(
        self,
        program: Program,
        dictionary: Dictionary,
        backend: Backend = CPU,
        tables: Mapping[str, Scheme] | None = None,
    ) -> None:
        self.program = program
        self.dictionary = dictionary
        self.backend = backend
        self.tables: dict[str, Scheme] = (
            {name: Table(name, relation.arity, backend) for name, relation in program.relations.items()}
            if tables is None
            else dict(tables)
        )
        self.growing: frozenset[str] = frozenset()
        self.evaluators = Evaluators(Chooser((), {}))
        self.host_work = HostWork()
        self._values: dict[str, ValueTable] = {}
        self._sizes: dict[str, int] = {}

    def count(self, relation: str) -> float:
        size = self._size(relation)
        if relation in self.growing and size < _TOO_FEW:
            return _UNKNOWN_FACTS
        return float(size)

    def is_assumed(self, relation: str) -> bool:
        """Is the size of a relation assumed, since it only begins to grow?"""
        return relation in self.growing and self._size(relation) < _TOO_FEW

    def _size(self, relation: str) -> int:
        return self.tables[relation].rough_count

    def distinct(self, relation: str, column: int) -> float:
        table = self.tables[relation]
        if self.is_assumed(relation):
            low, high = table.bounds[column]
            return min(float(max(high - low, 1)), _UNKNOWN_FACTS**0.75)
        return table.distinct(column)

    def skew(self, relation: str, column: int) -> float:
        """1 if nothing is known."""
        scheme = self.tables[relation]
        if not scheme.is_listed:
            return 1.0
        table = as_table(scheme)
        if table.backend.on_host:
            return table.skew(column)
        with self.host_work.counting(HostOperation.STATISTICS, relation, len(table)):
            return table.skew(column)

    def value_table(self, space: str) -> ValueTable:
        """The values of a space's ids, for comparisons in pipelines."""
        if space not in self._values:
            self._values[space] = ValueTable(self.dictionary.value_table(space))
        return self._values[space]

    def refresh_values(self) -> None:
        """Have the value tables follow the dictionary; due whenever terms may have been interned."""
        for space, values in self._values.items():
            values.point_to(self.dictionary.value_table(space))

    def is_on(self, relation: str, backend: Backend) -> bool:
        """Is a relation a table whose facts are in a backend's memory?"""
        scheme = self.tables[relation]
        return scheme.is_listed and as_table(scheme).backend is backend

    def all_tables(self) -> Iterable[Table]:
        """The relations that are tables."""
        return tables_among(self.tables.values())

    def total_facts(self, *, exact: bool = True) -> int:
        """Facts of all relations of the program; what splitting rules added does not count.

        If it need not be exact, other schemes than tables count with what they had when that was last asked.
        """
        total = 0
        for name, scheme in self.tables.items():
            if name in self.program.relations:
                if exact or scheme.is_listed:
                    self._sizes[name] = len(scheme)
                total += self._sizes.get(name, 0)
        return total
