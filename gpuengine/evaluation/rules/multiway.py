"""Worst-case-optimal joins: one variable after the other, by intersecting sorted runs.

A step binds a variable that several atoms have beside one that is bound: for each binding the values that all
their runs have in common. A triangle is so found in the time that its edges take with the shorter of two
neighbourhoods each, where a join of two of its atoms would list every path first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.rules.compute import Bindings, apply_comparison
from gpuengine.evaluation.rules.context import Context
from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.primitives import NONE, Run
from gpuengine.language.program import Atom, Comparison, Literal, Rule, Variable, literal_variables
from gpuengine.planning.plan import Access, BodyPlan
from gpuengine.schemes.table import Table, as_table

LEAST_ROWS = 1 << 14
"""Fewer driving facts are not worth sorting for."""
LEAST_FANOUT = 2.0
"""Nor are runs of fewer values than this."""
_MOST_EXTENT = 8
"""The ids of a key column may reach over so many times as many numbers as there are facts."""
_CHUNK_BINDINGS = 1 << 17
_LEAST_CHUNK, _MOST_CHUNK = 64, 1 << 14
_PRIMITIVES = CpuPrimitives()


@dataclass(frozen=True)
class _Side:
    """An atom that takes part in a step: the variable it finds the run by, and where the two stand in it."""

    relation: str
    key: Variable
    key_column: int

    @property
    def value_column(self) -> int:
        return 1 - self.key_column


@dataclass(frozen=True)
class _Intersection:
    """A step that binds a variable: by the runs of all sides."""

    variable: Variable
    sides: tuple[_Side, ...]


@dataclass(frozen=True)
class Multiway:
    """A body as a driving atom, steps that bind a variable or compare two, and what is left after them.

    `chunk` facts drive it at a time: as many as are expected to give a bounded number of bindings.
    """

    driver: Atom
    steps: tuple[_Intersection | Comparison, ...]
    tail: tuple[Literal, ...]
    chunk: int

    @property
    def sides(self) -> list[_Side]:
        return [side for step in self.steps if isinstance(step, _Intersection) for side in step.sides]

    @property
    def last(self) -> Variable | None:
        """The variable that is bound last."""
        bound = [step.variable for step in self.steps if isinstance(step, _Intersection)]
        return bound[-1] if bound else None


@dataclass(frozen=True)
class _SortedRuns:
    """The values of a table's column by those of another, from the id `least` on."""

    offsets: np.ndarray
    values: np.ndarray
    least: int

    def run(self, keys: np.ndarray) -> Run:
        owners = keys - np.uint32(self.least)  # ids below the least wrap around to large ones
        owners[owners >= len(self.offsets) - 1] = NONE
        return Run(self.offsets, self.values, owners)


def find_multiway(rule: Rule, plan: BodyPlan, context: Context) -> Multiway | None:
    """How a body is evaluated by intersections, if all its steps allow that and it is likely to pay off.

    Not if it reads what it derives: tables must not grow meanwhile. Nor if the last variable is only looked
    for, as a pipeline ends at the first that it finds.
    """
    database, body = context.database, rule.body
    first, *others = plan.steps
    if first.access is not Access.DRIVE or not isinstance(first.literal, Atom):
        return None
    driver = first.literal
    bound = {arg for arg in driver.args if isinstance(arg, Variable)}
    if len(bound) < len(driver.args) or len(database.tables[driver.relation]) < LEAST_ROWS:
        return None
    steps: list[_Intersection | Comparison] = []
    tail: list[Literal] = []
    for step in others:
        if isinstance(step.literal, Comparison) and not tail and _compares(step.literal, bound):
            steps.append(step.literal)
        elif not isinstance(step.literal, Atom):
            tail.append(step.literal)
        else:
            sides = [_side(atom, bound) for atom in (step.literal, *(body[at] for at in step.alternatives))]
            if len(sides) < 2 or any(side is None for side in sides):
                return None
            (variable,) = (arg for arg in step.literal.args if isinstance(arg, Variable) and arg not in bound)
            steps.append(_Intersection(variable, tuple(side for side in sides if side is not None)))
            bound.add(variable)
    wanted = literal_variables(rule.head).union(*(literal_variables(part) for part in tail))
    multiway = Multiway(
        driver, tuple(steps), tuple(tail), _chunk_rows(plan, len(database.tables[driver.relation]))
    )
    read = {driver.relation, *(side.relation for side in multiway.sides)}
    if not multiway.sides or multiway.last not in wanted or rule.head.relation in read:
        return None
    if not all(_is_plain(context, name) for name in read):
        return None
    return multiway if all(_is_long(side, context) for side in multiway.sides) else None


def _chunk_rows(plan: BodyPlan, rows: int) -> int:
    """How many driving facts give about as many bindings as a chunk may have, by the largest estimate."""
    most = max(step.estimate for step in plan.steps)
    return int(min(max(_CHUNK_BINDINGS * rows / max(most, rows), _LEAST_CHUNK), _MOST_CHUNK))


def _compares(literal: Comparison, bound: set[Variable]) -> bool:
    """Does it compare two variables that are bound? That needs nothing but their values."""
    return literal.left in bound and literal.right in bound


def _is_long(side: _Side, context: Context) -> bool:
    """Do the runs of a side have more than very few values?"""
    count, distinct = context.database.count, context.database.distinct
    return count(side.relation) >= LEAST_FANOUT * distinct(side.relation, side.key_column)


def _side(literal: Literal, bound: set[Variable]) -> _Side | None:
    """An atom of two variables of which one is bound."""
    assert isinstance(literal, Atom)
    places = [column for column, arg in enumerate(literal.args) if arg in bound]
    if len(literal.args) != 2 or len(places) != 1 or not all(isinstance(a, Variable) for a in literal.args):
        return None
    key = literal.args[places[0]]
    assert isinstance(key, Variable)
    return _Side(literal.relation, key, places[0])


def _is_plain(context: Context, relation: str) -> bool:
    """Is a relation a complete table on the host, whose ids lie close enough to be counted by?"""
    scheme = context.database.tables[relation]
    if not scheme.is_listed or relation in context.database.growing:
        return False
    table = as_table(scheme)
    if not table.backend.on_host:
        return False
    room = max(_MOST_EXTENT * len(table), LEAST_ROWS)
    return table.rows.delta[1] == table.rows.count and all(high - low <= room for low, high in table.bounds)


def intersected(multiway: Multiway, context: Context) -> Iterator[Bindings]:
    """All bindings of the body's variables, each once, in chunks; several threads make them."""
    tables, dictionary = context.database.tables, context.database.dictionary
    runs: dict[tuple[str, int], _SortedRuns] = {}
    for side in multiway.sides:
        if (side.relation, side.key_column) not in runs:
            runs[side.relation, side.key_column] = _sort(as_table(tables[side.relation]), side)
    driver = as_table(tables[multiway.driver.relation])
    columns = dict(zip(multiway.driver.args, driver.columns(), strict=True))
    waiting: dict[int, Bindings] = {}

    chunk = multiway.chunk

    def expand(start: int) -> None:
        if context.stop[0]:
            raise Interrupted("stopped")
        part = {arg: c[start : start + chunk] for arg, c in columns.items() if isinstance(arg, Variable)}
        bindings = Bindings(part, min(chunk, len(driver) - start))
        for step in multiway.steps:
            if isinstance(step, Comparison):
                apply_comparison(step, bindings, dictionary)
                continue
            taken = [
                runs[side.relation, side.key_column].run(bindings.columns[side.key]) for side in step.sides
            ]
            places, values = _PRIMITIVES.intersect_runs(taken)
            bindings.take(places)
            bindings.columns[step.variable] = values
        waiting[start] = bindings

    starts = range(0, len(driver), chunk)
    wave = context.workers.threads
    for first in range(0, len(starts), wave):
        context.workers.each(expand, starts[first : first + wave])
        for start in starts[first : first + wave]:
            yield waiting.pop(start)


def _sort(table: Table, side: _Side) -> _SortedRuns:
    low, high = table.bounds[side.key_column]
    keys = table.column(side.key_column) - np.uint32(low)
    offsets, values = _PRIMITIVES.sorted_runs(keys, table.column(side.value_column), high - low)
    return _SortedRuns(offsets, values, low)
