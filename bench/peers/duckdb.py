"""DuckDB on the workload programs, in two variants.

``loop``: semi-naive evaluation, one stratum after the other; each round evaluates every rule once for
each recursive atom with that atom reading the delta, keeps what the relation does not hold yet, and
appends it.  ``cte``: one counting query over ``WITH RECURSIVE … UNION`` for programs of one derived
relation with linear rules (a plain SELECT DISTINCT where nothing is recursive); others do not apply.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import duckdb

from bench.peers.protocol import Answer, NotApplicable, Task, main
from bench.peers.sql import columns, select
from bench.rules import Rule, Rules

Connection = duckdb.DuckDBPyConnection


def load(connection: Connection, task: Task) -> None:
    """Read every input file into a table; relations that rules also derive are made distinct."""
    for name, filename in task.rules.inputs.items():
        path = task.facts / filename
        if path.suffix == ".parquet":
            names = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
            source = ", ".join(f'"{n}" AS c{i}' for i, n in enumerate(names)) + f" FROM '{path}'"
        else:
            types = ", ".join(f"'c{i}': 'BIGINT'" for i in range(task.rules.arity[name]))
            source = (
                f"* FROM read_csv('{path}', delim='\\t', header=false, auto_detect=false, "
                f"quote='', escape='', columns={{{types}}})"
            )
        distinct = "DISTINCT " if name in task.rules.derived else ""
        connection.execute(f'CREATE TABLE "{name}" AS SELECT {distinct}{source}')


def evaluate_loop(connection: Connection, rules: Rules) -> int:
    """Semi-naive evaluation of all strata; returns the number of rounds."""
    rounds = 0
    for component, members in rules.strata():
        recursive = any(a.name in component for r in members for a in r.atoms)
        for name in sorted(component):
            _seed(connection, rules, name, [r for r in members if r.head.name == name], component)
        rounds += 1
        while recursive and _round(connection, rules, component, members):
            rounds += 1
    return rounds


def _seed(
    connection: Connection, rules: Rules, name: str, members: list[Rule], component: frozenset[str]
) -> None:
    """The relation and its first delta: input facts and rules that read nothing of the component."""
    base = [
        select(r, [a.name for a in r.atoms]) for r in members if not any(a.name in component for a in r.atoms)
    ]
    if name in rules.inputs:
        connection.execute(f'ALTER TABLE "{name}" RENAME TO "{name}#input"')
        base.append(f'SELECT {columns(rules.arity[name])} FROM "{name}#input"')
    if not base:
        empty = ", ".join(f"0::BIGINT AS c{i}" for i in range(rules.arity[name]))
        base.append(f"SELECT {empty} WHERE false")
    connection.execute(f'CREATE TABLE "{name}" AS {_distinct(base, rules.arity[name])}')
    connection.execute(f'CREATE TABLE "{name}#delta" AS SELECT * FROM "{name}"')


def _distinct(selects: Iterable[str], arity: int) -> str:
    return f"SELECT DISTINCT {columns(arity)} FROM ({' UNION ALL '.join(selects)})"


def _round(connection: Connection, rules: Rules, component: frozenset[str], members: list[Rule]) -> bool:
    """One semi-naive round over the component; whether anything new was derived."""
    grown = False
    for name in sorted(component):
        variants = []
        for rule in (r for r in members if r.head.name == name):
            for position, atom in enumerate(rule.atoms):
                if atom.name in component:
                    tables = [a.name for a in rule.atoms]
                    tables[position] = f"{atom.name}#delta"
                    variants.append(select(rule, tables))
        arity = rules.arity[name]
        if variants:
            match = " AND ".join(f"n.c{i} = o.c{i}" for i in range(arity))
            body = (
                f"SELECT n.* FROM ({_distinct(variants, arity)}) n "
                f'WHERE NOT EXISTS (SELECT 1 FROM "{name}" o WHERE {match})'
            )
        else:
            body = f'SELECT * FROM "{name}" WHERE false'
        connection.execute(f'CREATE TABLE "{name}#new" AS {body}')
    for name in sorted(component):
        connection.execute(f'DROP TABLE "{name}#delta"')
        connection.execute(f'ALTER TABLE "{name}#new" RENAME TO "{name}#delta"')
        added = connection.execute(f'INSERT INTO "{name}" SELECT * FROM "{name}#delta"').fetchone()
        grown |= bool(added and added[0])
    return grown


def evaluate_cte(connection: Connection, rules: Rules) -> dict[str, int]:
    """The program as one counting query, nothing stored."""
    strata = rules.strata()
    component, members = strata[0]
    linear = all(sum(a.name in component for a in r.atoms) <= 1 for r in members)
    if len(strata) > 1 or len(component) > 1 or not linear or component & rules.inputs.keys():
        raise NotApplicable("not one relation with linear rules: no recursive CTE")
    (name,) = component
    arity = rules.arity[name]
    base = [r for r in members if all(a.name != name for a in r.atoms)]
    step = [r for r in members if r not in base]
    query = _distinct((select(r, [a.name for a in r.atoms]) for r in base), arity)
    prefix = ""
    if step:
        steps = " UNION ALL ".join(select(r, [a.name for a in r.atoms]) for r in step)
        prefix = f'WITH RECURSIVE "{name}"({columns(arity)}) AS ({query} UNION {steps}) '
        query = f'SELECT * FROM "{name}"'
    row = connection.execute(f"{prefix}SELECT count(*) FROM ({query})").fetchone()
    return {name: int(row[0]) if row else 0}


def solve(task: Task) -> Answer:
    """Load, evaluate in the asked variant, count."""
    if task.variant not in ("loop", "cte"):
        raise NotApplicable(f"no variant {task.variant!r}: loop or cte")
    connection = duckdb.connect(":memory:")
    connection.execute(f"SET threads = {task.threads}")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET enable_progress_bar = false")
    start = time.perf_counter()
    load(connection, task)
    loaded = time.perf_counter()
    rounds = None
    if task.variant == "loop":
        rounds = evaluate_loop(connection, task.rules)
        sizes = {name: _count(connection, name) for name in task.rules.printed}
    else:
        sizes = evaluate_cte(connection, task.rules)
    done = time.perf_counter()
    return Answer(sizes, {"load": loaded - start, "evaluate": done - loaded}, duckdb.__version__, rounds)


def _count(connection: Connection, name: str) -> int:
    row = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()
    return int(row[0]) if row else 0


if __name__ == "__main__":
    sys.exit(main(solve))
