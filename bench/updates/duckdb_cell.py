"""DuckDB computes a state from nothing: one recursive query where that can say it, else a semi-naive loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import duckdb
import pyarrow as pa

from bench.harness.process import Measured, NotApplicable, Spec
from bench.peers.duckdb import Connection, evaluate_cte, evaluate_loop
from bench.peers.protocol import NotApplicable as NoQuery
from bench.rules import RuleError, Rules, parse_rules
from bench.updates import facts
from bench.updates.common import DIGEST_ROWS, program, repeated
from bench.updates.facts import Pool, Tables
from bench.updates.workloads import WITH_RULE


def anew(spec: Spec) -> Iterator[Measured]:
    """Each state computed from nothing."""
    try:
        yield from repeated(spec, partial(_compute, spec, Pool(facts.make(spec), spec["fixed"])))
    except RuleError as error:
        raise NotApplicable(str(error)) from error


def _compute(spec: Spec, pool: Pool, state: str) -> Measured:
    """Load the facts of a state and evaluate: the step that this is."""
    text = spec["peer_program"] or program(spec)
    text = "\n".join([text, spec["declared"], spec["rule"] if state == WITH_RULE else ""])
    tables = pool.without(pool.missing(state))
    rules = replace(parse_rules(text), inputs=dict.fromkeys(tables, ""))
    connection = duckdb.connect(":memory:")
    connection.execute(f"SET threads = {spec['threads']}")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET enable_progress_bar = false")
    start = time.perf_counter()
    _load(connection, rules, tables)
    loaded = time.perf_counter()
    sizes = {name: len(columns[0]) for name, columns in tables.items() if name not in rules.derived}
    try:
        sizes |= evaluate_cte(connection, rules)
        stored: list[str] = []
    except NoQuery:
        evaluate_loop(connection, rules)
        stored = sorted(rules.derived)
    done = time.perf_counter()
    sizes |= {name: _count(connection, name) for name in stored}
    # A query stores nothing, and what has neither facts nor rules is empty.
    sizes |= {name: 0 for name in rules.arity if name not in sizes}
    parts = {"load": loaded - start, "materialise": done - loaded}
    digests = {name: _digest(connection, name) for name in stored if sizes[name] <= DIGEST_ROWS}
    connection.close()
    return {"step": state, "seconds": done - start, "parts": parts, "sizes": sizes, "digests": digests}


def _load(connection: Connection, rules: Rules, tables: Tables) -> None:
    for name, arity in rules.arity.items():
        if name in tables:
            given = pa.table({f"c{i}": column for i, column in enumerate(tables[name])})
            connection.register("given", given)
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
            connection.unregister("given")
        elif name not in rules.derived:
            columns = ", ".join(f"c{i} BIGINT" for i in range(arity))
            connection.execute(f'CREATE TABLE "{name}" ({columns})')


def _count(connection: Connection, name: str) -> int:
    row = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()
    return int(row[0]) if row else 0


def _digest(connection: Connection, name: str) -> str:
    columns = connection.execute(f'SELECT * FROM "{name}"').fetchnumpy()
    return facts.digest(list(columns.values()))
