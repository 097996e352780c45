"""The tables of one evaluation, the dictionary their ids belong to, and what the planner asks of them."""

from __future__ import annotations

from collections.abc import Iterable

from gpuengine.kernels.contract import Backend, ValueTable
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Program
from gpuengine.schemes.table import Table
from gpuengine.terms.dictionary import Dictionary

_UNKNOWN_FACTS = 1_000_000.0


class Database:
    """Tables by relation name. Implements the planner's `Statistics`.

    A relation of the stratum under evaluation that is still nearly empty says nothing of what it will
    be; the cost model then assumes it large (`growing` names those relations). Tables are made on
    `backend`, and may move.
    """

    def __init__(self, program: Program, dictionary: Dictionary, backend: Backend = CPU) -> None:
        self.program = program
        self.dictionary = dictionary
        self.backend = backend
        self.tables: dict[str, Table] = {
            name: Table(name, relation.arity, backend) for name, relation in program.relations.items()
        }
        self.growing: frozenset[str] = frozenset()
        self._values: dict[str, ValueTable] = {}

    def count(self, relation: str) -> float:
        size = len(self.tables[relation])
        if relation in self.growing and size < 1000:
            return _UNKNOWN_FACTS
        return float(size)

    def distinct(self, relation: str, column: int) -> float:
        table = self.tables[relation]
        if relation in self.growing and len(table) < 1000:
            low, high = table.bounds[column]
            return min(float(max(high - low, 1)), _UNKNOWN_FACTS**0.75)
        return table.distinct(column)

    def value_table(self, space: str) -> ValueTable:
        """The values of a space's ids, for comparisons in pipelines."""
        if space not in self._values:
            self._values[space] = ValueTable(self.dictionary.value_table(space))
        return self._values[space]

    def refresh_values(self) -> None:
        """Have the value tables follow the dictionary; due whenever terms may have been interned."""
        for space, values in self._values.items():
            values.point_to(self.dictionary.value_table(space))

    def all_tables(self) -> Iterable[Table]:
        return self.tables.values()

    def total_facts(self) -> int:
        """Facts of all relations of the program; what splitting rules added does not count."""
        return sum(len(table) for name, table in self.tables.items() if name in self.program.relations)
