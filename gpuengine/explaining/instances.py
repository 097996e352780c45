"""Ask bodies over a materialisation: which bindings make them true, together with rows that are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuengine.errors import Span
from gpuengine.evaluation.rules.body import compile_body
from gpuengine.evaluation.rules.database import Database
from gpuengine.explaining.folds import with_kept
from gpuengine.language.program import (
    Atom,
    AtomArg,
    Comparison,
    Functor,
    Kind,
    Literal,
    Program,
    Rule,
    Term,
    Variable,
)
from gpuengine.limits import check as check_memory
from gpuengine.planning.order import order_body
from gpuengine.planning.passes import blank_rule
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.terms.dictionary import Dictionary

NOWHERE = Span("", 1, 1, 1, 1)
_INTEGERS = (Kind.NUMBER, Kind.UNSIGNED)


@dataclass(frozen=True, slots=True)
class Given:
    """Rows of ids that some arguments may be, as an atom of its own would say."""

    args: tuple[AtomArg, ...]
    columns: Sequence[np.ndarray]
    count: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Distinct rows: a column of ids for each of the variables asked for. `is_whole`: there are no others."""

    columns: tuple[np.ndarray, ...]
    count: int
    is_whole: bool = True


class Questions:
    """Answers bodies over the relations of one materialisation, which stand until it is done."""

    def __init__(self, program: Program, dictionary: Dictionary, relations: Mapping[str, Scheme]) -> None:
        self.dictionary = dictionary
        self.relations = with_kept(relations, program)
        self._database = Database(program, dictionary, tables=self.relations)
        self._stop = np.zeros(1, np.int64)

    def ask(
        self,
        body: Sequence[Literal],
        wanted: Sequence[Variable],
        given: Sequence[Given] = (),
        most: int | None = None,
    ) -> Rows:
        """The distinct values of the wanted variables for which the body holds.

        With `most`, it stops when it has found about so many bindings. A binding for which something can't be
        computed is none.
        """
        atoms = []
        for number, rows in enumerate(given):
            if not rows.args:
                continue
            table = Table(f"@given{number}", len(rows.args))
            table.restore(*distinct_rows(rows.columns, rows.count))
            self._database.tables[table.name] = table
            atoms.append(Atom(table.name, rows.args, NOWHERE))
        if not atoms and not body:
            return Rows((), 1)
        asked = Rule(Atom("?", tuple(wanted), NOWHERE), (*atoms, *body), NOWHERE, "")
        literals = blank_rule(asked).body
        plan = order_body(literals, self._database)
        program = compile_body(
            literals, plan, self._database, sink=tuple(wanted), stop=self._stop, in_hindsight=True
        )
        stage = program.stages[0]
        rows_of = stage.input if stage.input is not None else stage.pipeline.driver.rows
        chunks, total = [], 0
        is_whole = True
        for chunk in program.collect(0, rows_of.count):
            check_memory("an explanation")
            chunks.append(chunk)
            total += chunk.rows
            if most is not None and total >= most:
                is_whole = False
                break
        columns = [np.concatenate([c.columns[v] for c in chunks]) for v in wanted] if chunks else []
        if not chunks:
            columns = [np.zeros(0, np.uint32) for _ in wanted]
        columns, count = distinct_rows(columns, total)
        return Rows(tuple(columns), count, is_whole)


def distinct_rows(columns: Sequence[np.ndarray], count: int) -> tuple[list[np.ndarray], int]:
    """Rows, each once and in order of their ids."""
    if not columns:
        return [], min(count, 1)
    order = np.lexsort(tuple(reversed(columns)))
    ordered = [np.ascontiguousarray(column[order]) for column in columns]
    first = np.zeros(count, np.bool_)
    first[:1] = True
    for column in ordered:
        first[1:] |= column[1:] != column[:-1]
    return [column[first] for column in ordered], int(np.count_nonzero(first))


def with_inverses(body: Sequence[Literal]) -> tuple[Literal, ...]:
    """A body that can also be computed backwards where that is exact: sums and differences of integers.

    v = x + 1   →   v = x + 1, x = v - 1
    """
    added: list[Literal] = []
    for literal in body:
        if not isinstance(literal, Comparison) or literal.op != "=":
            continue
        for result, sum_ in ((literal.left, literal.right), (literal.right, literal.left)):
            if not (isinstance(result, Variable) and isinstance(sum_, Functor) and sum_.op in ("+", "-")):
                continue
            if len(sum_.args) != 2 or sum_.type.kind not in _INTEGERS:
                continue
            for term, inverse in _inverses(sum_, result):
                if isinstance(term, Variable):
                    added.append(Comparison("=", term, inverse, literal.span))
    return (*body, *added)


def _inverses(sum_: Functor, result: Variable) -> tuple[tuple[Term, Term], ...]:
    left, right = sum_.args

    def functor(op: str, one: Term, other: Term) -> Functor:
        return Functor(op, (one, other), sum_.type, sum_.span)

    if sum_.op == "+":
        return (left, functor("-", result, right)), (right, functor("-", result, left))
    return (left, functor("+", result, right)), (right, functor("-", left, result))
