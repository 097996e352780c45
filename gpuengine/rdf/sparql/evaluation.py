"""Queries on columns of ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gpuengine.rdf.aggregates import aggregate_column, count, ranks
from gpuengine.rdf.expressions import Column, Decoder, Scope, evaluate_columns, holds_columns, variables
from gpuengine.rdf.graph import Graph
from gpuengine.rdf.rules import Argument, Variable
from gpuengine.rdf.sparql import tables
from gpuengine.rdf.sparql.algebra import (
    HIDDEN,
    Aggregation,
    Basic,
    Bind,
    Dataset,
    Exists,
    Formula,
    Group,
    InGraph,
    Link,
    Minus,
    Optional,
    Order,
    PathPattern,
    Repeated,
    Select,
    Step,
    Union,
    Values,
    answer_variables,
    bound_variables,
)
from gpuengine.rdf.sparql.dataset import View
from gpuengine.rdf.sparql.paths import solve_path
from gpuengine.rdf.sparql.tables import Table
from gpuengine.rdf.terms import XSD
from gpuengine.rdf.values import Value

_ROW = f"{HIDDEN}row"
"""Inside of EXISTS: the row outside that a solution belongs to."""


class Evaluation:
    """One query over one graph: its dataset, and the terms that it computes."""

    def __init__(self, graph: Graph, dataset: Dataset, base: str | None) -> None:
        self.view = View(graph, dataset)
        self.decoder = Decoder(self.view.terms)
        self.scope = Scope(base=base)

    # Queries

    def select(self, select: Select, active: Argument | None = None) -> Table:
        """The rows of a query or subquery, in order, of the variables of its answer."""
        counted = self._counted(select, active)
        if counted is not None:
            table = counted
        else:
            table = self.group(select.pattern, active)
            if select.groups is not None:
                table = self._grouped(select, table, active)
        for condition in select.having:
            table = table.take(self.holds(condition, table, active))
        if select.values is not None:
            table = tables.join(table, self._values(select.values))
        for assigned in select.assigned:
            table = self._extended(assigned, table, active)
        if select.order:
            table = self._ordered(select.order, table, active)
        table = table.project(answer_variables(select))
        if select.distinct:
            table = tables.distinct(table)
        if select.limit is not None or select.offset:
            stop = None if select.limit is None else select.offset + select.limit
            table = table.slice(select.offset, stop)
        return table

    def _counted(self, select: Select, active: Argument | None) -> Table | None:
        """The row of a query that only counts the pairs of a property, or of a path that repeats it.

        None if it is another query, or if they have to be listed.
        """
        pattern, default = select.pattern, self.view.dataset.default
        if select.groups != () or active is not None or default is not None or len(pattern.steps) != 1:
            return None
        if select.keyed or pattern.filters or any(not _counts_rows(one) for one in select.aggregations):
            return None
        number = self._pairs(pattern.steps[0])
        if number is None:
            return None
        value = self.view.terms.add([f'"{number}"^^<{XSD}integer>'])
        return Table({one.name: value for one in select.aggregations}, 1)

    def _pairs(self, step: Step) -> int | None:
        """How many solutions a pattern of two variables has, if that is known without listing them."""
        if isinstance(step, Basic) and len(step.triples) == 1:
            (triple,) = step.triples
            subject, predicate, target, closed = triple.subject, triple.predicate, triple.object, False
        elif isinstance(step, PathPattern) and isinstance(step.path, Repeated) and step.path.least == 1:
            if step.path.once or not isinstance(step.path.path, Link):
                return None
            subject, predicate, target, closed = step.subject, step.path.path.predicate, step.object, True
        else:
            return None
        if not (
            isinstance(subject, Variable) and isinstance(target, Variable) and isinstance(predicate, str)
        ):
            return None
        return None if subject == target else self.view.graph.pairs(predicate, closed=closed)

    def _grouped(self, select: Select, table: Table, active: Argument | None) -> Table:
        assert select.groups is not None
        for keyed in select.keyed:
            table = self._extended(keyed, table, active)
        keys = table.project(select.groups)
        numbers, first = tables.groups_of(keys)
        size = len(first)
        if not select.groups:
            size = 1
        result = Table(keys.take(first).columns, size)
        for how in select.aggregations:
            values = self._aggregated(how, table, numbers, size, active)
            codes = np.array([-1 if value is None else place for place, value in enumerate(values)], np.int64)
            bound = [value for value in values if value is not None]
            codes[codes >= 0] = np.arange(len(bound))
            result = result.extended(how.name, self.decoder.ids(Column(codes, bound)))
        return result

    def _aggregated(
        self, how: Aggregation, table: Table, numbers: np.ndarray, size: int, active: Argument | None
    ) -> Sequence[Value | None]:
        if how.argument is None:
            if how.distinct:
                shown = [name for name in table.columns if not name.startswith(HIDDEN)]
                _, first = tables.groups_of(table.project(shown).extended(_ROW, numbers))
                numbers = numbers[first]
            return count(numbers, size, None)
        if how.function == "COUNT" and isinstance(how.argument.expression, Variable):
            # Counting needs no values.
            ids = table.column(how.argument.expression.name)
            if how.distinct:
                _, first = tables.groups_of(Table({"ids": ids, "group": numbers}, len(ids)))
                ids, numbers = ids[first], numbers[first]
            return count(numbers, size, ids)
        column = self.evaluate(how.argument, table, active)
        if how.distinct:
            ids = self.decoder.ids(column)
            _, first = tables.groups_of(Table({"ids": ids, "group": numbers}, len(ids)))
            first = np.sort(first)
            column, numbers = Column(column.codes[first], column.values), numbers[first]
        return aggregate_column(how.function, column, numbers, size, how.separator)

    def _ordered(self, order: tuple[Order, ...], table: Table, active: Argument | None) -> Table:
        keys: list[np.ndarray] = []
        for part in reversed(order):
            column = self.evaluate(part.formula, table, active)
            places = np.append(ranks(list(column.values)), -1)[column.codes]
            keys.append(-places if part.descending else places)
        return table.take(np.lexsort(keys))

    # Patterns

    def group(
        self, group: Group, active: Argument | None, outer: Table | None = None, *, filtered: bool = True
    ) -> Table:
        """The solutions of a group; inside of EXISTS those that go together with the rows outside."""
        table = Table.unit() if outer is None else outer
        waiting = list(group.filters) if filtered else []
        for step in group.steps:
            table = self._step(step, table, active, outer)
            if waiting and table.columns:
                table, waiting = self._early(waiting, table, active)
        for condition in waiting:
            table = table.take(self.holds(condition, table, active))
        return table

    def _early(
        self, conditions: list[Formula], table: Table, active: Argument | None
    ) -> tuple[Table, list[Formula]]:
        """Filters whose variables have their values already need not wait for the end of the group."""
        waiting: list[Formula] = []
        for condition in conditions:
            columns = [table.columns.get(name) for name in variables(condition.expression)]
            ready = not condition.exists and all(
                column is not None and (not len(column) or column.min() >= 0) for column in columns
            )
            if ready:
                table = table.take(self.holds(condition, table, active))
            else:
                waiting.append(condition)
        return table, waiting

    def _step(self, step: Step, table: Table, active: Argument | None, outer: Table | None) -> Table:
        if isinstance(step, Bind):
            return self._extended(step, table, active)
        if isinstance(step, Optional):
            right = self.group(step.group, active, outer, filtered=False)
            pairs = tables.pairs_of(table, right)
            kept = None
            if step.group.filters:
                both = tables.combined(table, right, pairs)
                kept = np.ones(both.length, bool)
                for condition in step.group.filters:
                    kept &= self.holds(condition, both, active)
            return tables.left_join(table, right, kept, pairs)
        if isinstance(step, Minus):
            right = self.group(step.group, active, outer)
            return tables.minus(table, right, frozenset((_ROW,)))
        if isinstance(step, PathPattern):
            return tables.join(table, self._path(step, active, table))
        return tables.join(table, self._solutions(step, active, outer))

    def _solutions(self, step: Step, active: Argument | None, outer: Table | None) -> Table:
        if isinstance(step, Basic):
            return self.view.solve(step.triples, active)
        if isinstance(step, Group):
            return self.group(step, active, outer)
        if isinstance(step, Union):
            return tables.concatenated([self.group(branch, active, outer) for branch in step.branches])
        if isinstance(step, Values):
            return self._values(step)
        if isinstance(step, InGraph):
            return self._in_graph(step, outer)
        assert isinstance(step, Select)
        return self.select(step, active)

    def _path(self, step: PathPattern, active: Argument | None, before: Table) -> Table:
        assert not isinstance(active, Variable)
        return solve_path(step, self.view, active, before)

    def _values(self, step: Values) -> Table:
        columns: dict[str, np.ndarray] = {}
        for place, name in enumerate(step.variables):
            texts = [row[place] for row in step.rows]
            column = np.full(len(texts), tables.UNBOUND, np.int64)
            bound = [row for row, text in enumerate(texts) if text is not None]
            column[bound] = self.view.terms.add([text for text in texts if text is not None])
            columns[name] = column
        return Table(columns, len(step.rows))

    def _in_graph(self, step: InGraph, outer: Table | None) -> Table:
        if isinstance(step.name, str):
            number = self.view.terms.lookup(step.name)
            if number is None or number not in self.view.names():
                return Table.empty(bound_variables(step.group))
            return self.group(step.group, step.name, outer)
        if _is_plain(step.group):
            return self.group(step.group, step.name, outer)
        parts: list[Table] = [Table.empty([*bound_variables(step.group), step.name.name])]
        names = self.view.names()
        for number, text in zip(names.tolist(), self.view.terms.texts(names), strict=True):
            inner = self.group(step.group, text, outer)
            name = Table({step.name.name: np.full(inner.length, number, np.int64)}, inner.length)
            if step.name.name not in inner.columns:
                parts.append(inner.extended(step.name.name, name.columns[step.name.name]))
            else:
                parts.append(tables.join(inner, name.slice(0, 1)))
        return tables.concatenated(parts)

    # Expressions

    def _extended(self, bind: Bind, table: Table, active: Argument | None) -> Table:
        if isinstance(bind.formula.expression, Variable) and not bind.formula.exists:
            return table.extended(bind.variable, table.column(bind.formula.expression.name))
        column = self.evaluate(bind.formula, table, active)
        return table.extended(bind.variable, self.decoder.ids(column))

    def holds(self, formula: Formula, table: Table, active: Argument | None) -> np.ndarray:
        """A mask of the rows where a condition is true."""
        columns = self._columns(formula, table, active)
        return holds_columns(formula.expression, columns, table.length, self.scope)

    def evaluate(self, formula: Formula, table: Table, active: Argument | None) -> Column:
        return evaluate_columns(
            formula.expression, self._columns(formula, table, active), table.length, self.scope
        )

    def _columns(self, formula: Formula, table: Table, active: Argument | None) -> dict[str, Column]:
        columns = {
            name: self.decoder.column(table.columns[name])
            for name in variables(formula.expression)
            if name in table.columns
        }
        for exists in formula.exists:
            columns[exists.name] = Column.of_truths(self._exists(exists, table, active).astype(np.int64))
        return columns

    def _exists(self, exists: Exists, table: Table, active: Argument | None) -> np.ndarray:
        """A mask of the rows for which a pattern has a solution."""
        shared = [name for name in table.columns if name in mentioned(exists.pattern)]
        rows = table.project(shared)
        steps = exists.pattern.steps
        if not exists.pattern.filters and len(steps) == 1 and isinstance(steps[0], Basic):
            return tables.matched(rows, self.view.solve(steps[0].triples, active))
        numbers, first = tables.groups_of(rows)
        if not len(first):
            return np.zeros(table.length, bool)
        outer = rows.take(first).extended(_ROW, np.arange(len(first)))
        mask = np.zeros(len(first), bool)
        mask[self.group(exists.pattern, active, outer).column(_ROW)] = True
        return mask[numbers]


def _counts_rows(how: Aggregation) -> bool:
    return how.function == "COUNT" and how.argument is None and not how.distinct


@lru_cache(maxsize=1024)
def mentioned(node: Any) -> frozenset[str]:
    """Names of all variables of a pattern, those of its expressions too."""
    return frozenset(_mentioned(node))


def _mentioned(node: Any) -> Iterable[str]:
    if isinstance(node, Variable):
        yield node.name
    elif isinstance(node, tuple):
        for part in node:
            yield from _mentioned(part)
    elif dataclasses.is_dataclass(node):
        if isinstance(node, Bind):
            yield node.variable
        elif isinstance(node, Values | Select):
            yield from node.variables or ()
        for field in dataclasses.fields(node):
            yield from _mentioned(getattr(node, field.name))


def _is_plain(group: Group) -> bool:
    """Whether all solutions of a group have triples: then one need not ask graph by graph."""
    if group.filters or not group.steps:
        return False
    return all(
        isinstance(step, Basic) or (isinstance(step, Union) and all(map(_is_plain, step.branches)))
        for step in group.steps
    )
