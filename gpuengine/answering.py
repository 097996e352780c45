"""Answer queries over a materialisation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpuengine.evaluation.placement.budget import Budget
from gpuengine.evaluation.placement.failures import device_failures
from gpuengine.evaluation.rules.body import compile_body
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.position_sets import PoolFull
from gpuengine.language.program import Atom, Rule, Variable
from gpuengine.planning.order import order_body
from gpuengine.planning.passes import blank_rule
from gpuengine.planning.plan import body_relations
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Part, Union, tables_in


def answer(rules: Sequence[Rule], database: Database, budget: Budget, text: str) -> Scheme:
    """The distinct answers of a query's rules, one for each alternative: a column for each variable.

    It runs where the tables that it reads are; on the host if they are not in one place.
    """
    tables = database.tables
    whole = _whole_relation(rules[0], tables) if len(rules) == 1 else None
    if whole is not None:
        return whole
    schemes = [tables[name] for name in _relations(rules)]
    read = list(dict.fromkeys(table for scheme in schemes for table in tables_in(scheme)))
    with device_failures(lambda: f"answering: {text}", lambda: read):
        return _answer(rules, database, budget, read)


def _relations(rules: Sequence[Rule]) -> list[str]:
    return sorted(set().union(*(body_relations(rule.body) for rule in rules)))


def _answer(rules: Sequence[Rule], database: Database, budget: Budget, read: Sequence[Table]) -> Table:
    for table in read:
        table.backend.bind_thread()
    if len({table.backend for table in read}) > 1:
        _move_to_host(read)
    try:
        return _evaluate(rules, database, budget)
    except DeviceMemoryError:
        _move_to_host(read)
        return _evaluate(rules, database, budget)
    except PoolFull as error:
        budget.refuse_sets(", ".join(_relations(rules)), error.needed)


def _whole_relation(rule: Rule, tables: Mapping[str, Scheme]) -> Scheme | None:
    """The relation that a query asks for as a whole, its columns as in the query, if it is no table.

    It is read where it is, a batch at a time, instead of being listed first.
    """
    if len(rule.body) != 1 or not isinstance(rule.body[0], Atom):
        return None
    atom = rule.body[0]
    scheme = tables[atom.relation]
    is_free = all(isinstance(arg, Variable) for arg in atom.args) and len(set(atom.args)) == len(atom.args)
    is_free = is_free and set(rule.head.args) == set(atom.args)
    if scheme.is_listed or not is_free:
        return None
    permutation = tuple(rule.head.args.index(arg) for arg in atom.args)
    return Union("?", [Part(scheme.snapshot(), permutation)], Table("?", scheme.arity, CPU))


def _evaluate(rules: Sequence[Rule], database: Database, budget: Budget) -> Table:
    """The distinct answers of bodies: a column for each variable of their heads."""
    answers = Table("?", len(rules[0].head.args), CPU)
    for rule in rules:
        _add_answers(answers, rule, database, budget)
    return answers


def _add_answers(answers: Table, rule: Rule, database: Database, budget: Budget) -> None:
    rule = blank_rule(rule)  # what is not asked for is not listed
    variables = tuple(arg for arg in rule.head.args if isinstance(arg, Variable))
    plan = order_body(rule.body, database)
    body = compile_body(rule.body, plan, database, sink=variables, stop=np.zeros(1, np.int64))
    stage = body.stages[0]
    span = (0, stage.input.count) if stage.input is not None else (0, stage.pipeline.driver.rows.count)
    chunks = []
    rows = 0
    for chunk in body.collect(*span):
        chunks.append(chunk)
        rows += chunk.rows
        budget.check_answers(len(answers) + rows, len(variables))
    columns = [np.concatenate([c.columns[v] for c in chunks]) for v in variables] if chunks else []
    answers.insert(columns, rows)


def _move_to_host(tables: Iterable[Table]) -> None:
    for table in tables:
        table.move_to(CPU)
