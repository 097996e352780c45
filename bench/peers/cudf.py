"""cuDF on the workload programs: semi-naive evaluation with merge, concat and drop_duplicates on a GPU.

`evaluate` takes the library as an argument and asks nothing of it that pandas does not have as well.
"""

from __future__ import annotations

import operator
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.peers.protocol import Answer, NotApplicable, Task, main
from bench.rules import ANONYMOUS, Atom, Rule, Rules, is_variable

Frame = Any
Tables = dict[str, Frame]
_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_KNOWN = "known"


def columns(arity: int) -> list[str]:
    """``c0``, ``c1``, …"""
    return [f"c{i}" for i in range(arity)]


def load(frames: Any, task: Task) -> Tables:
    """Every input file as a table of distinct rows."""
    tables = {}
    for name, filename in task.rules.inputs.items():
        path, names = task.facts / filename, columns(task.rules.arity[name])
        if path.suffix == ".parquet":
            table = frames.read_parquet(path)
            table.columns = names
        else:
            table = frames.read_csv(path, sep="\t", header=None, names=names, dtype="int64")
        tables[name] = table.drop_duplicates(ignore_index=True)
    return tables


def evaluate(frames: Any, rules: Rules, tables: Tables) -> int:
    """Semi-naive evaluation of all strata into `tables`; returns the number of rounds."""
    rounds = 0
    for component, members in rules.strata():
        deltas = {}
        for name in sorted(component):
            own = [rule for rule in members if rule.head.name == name]
            base = [rule for rule in own if not any(atom.name in component for atom in rule.atoms)]
            derived = [body(rule, [tables[atom.name] for atom in rule.atoms]) for rule in base]
            if name in tables:
                derived.append(tables[name])
            deltas[name] = _distinct(frames, derived, rules.arity[name])
        tables.update(deltas)
        rounds += 1
        recursive = [rule for rule in members if any(atom.name in component for atom in rule.atoms)]
        while recursive and any(len(delta) for delta in deltas.values()):
            deltas = _round(frames, rules, component, recursive, tables, deltas)
            for name, delta in deltas.items():
                tables[name] = frames.concat([tables[name], delta], ignore_index=True)
            rounds += 1
    return rounds


def _round(
    frames: Any,
    rules: Rules,
    component: Iterable[str],
    recursive: Sequence[Rule],
    tables: Tables,
    deltas: Mapping[str, Frame],
) -> Tables:
    """What is new: every rule once for each recursive atom, with that atom reading the delta."""
    derived: dict[str, list[Frame]] = {name: [] for name in component}
    for rule in recursive:
        for position, atom in enumerate(rule.atoms):
            if atom.name in derived and len(deltas[atom.name]):
                read = [tables[other.name] for other in rule.atoms]
                read[position] = deltas[atom.name]
                derived[rule.head.name].append(body(rule, read))
    return {
        name: _without(_distinct(frames, candidates, rules.arity[name]), tables[name])
        for name, candidates in derived.items()
    }


def body(rule: Rule, tables: Sequence[Frame]) -> Frame:
    """The rows of a rule's head; `tables` has the table to read for each body atom. Atoms join as written."""
    if not all(is_variable(term) for term in rule.head.terms):
        raise NotApplicable("constants in heads are not encoded for cuDF")
    joined = _variables_of(rule.atoms[0], tables[0])
    for position, atom in enumerate(rule.atoms[1:], 1):
        matches = _variables_of(atom, tables[position])
        shared = [name for name in joined.columns if name in set(matches.columns)]
        joined = joined.merge(matches, on=shared) if shared else joined.merge(matches, how="cross")
        needed = _needed(rule, position + 1)
        joined = joined[[name for name in joined.columns if name in needed]]
    for comparison in rule.comparisons:
        left, right = (
            joined[term] if is_variable(term) else int(term) for term in (comparison.left, comparison.right)
        )
        joined = joined[_OPERATORS[comparison.operator](left, right)]
    head = joined[list(rule.head.terms)]
    head.columns = columns(len(rule.head.terms))
    return head


def _needed(rule: Rule, start: int) -> set[str]:
    """The variables that the head, the comparisons or an atom from `start` on reads."""
    terms = [*rule.head.terms, *(term for atom in rule.atoms[start:] for term in atom.terms)]
    terms += [term for comparison in rule.comparisons for term in (comparison.left, comparison.right)]
    return {term for term in terms if is_variable(term)}


def _variables_of(atom: Atom, table: Frame) -> Frame:
    """The rows that an atom matches, a column for each of its variables."""
    first: dict[str, str] = {}
    for column, term in zip(columns(len(atom.terms)), atom.terms, strict=True):
        if term == ANONYMOUS:
            continue
        if not is_variable(term):
            table = table[table[column] == int(term)]
        elif term in first:
            table = table[table[column] == table[first[term]]]
        else:
            first[term] = column
    matches = table[list(first.values())]
    matches = matches.rename(columns={column: term for term, column in first.items()})
    return matches.drop_duplicates() if ANONYMOUS in atom.terms else matches


def _distinct(frames: Any, parts: Sequence[Frame], arity: int) -> Frame:
    if not parts:
        return frames.DataFrame({name: frames.Series([], dtype="int64") for name in columns(arity)})
    return frames.concat(parts, ignore_index=True).drop_duplicates(ignore_index=True)


def _without(candidates: Frame, known: Frame) -> Frame:
    """The candidates that are not known yet."""
    names = list(candidates.columns)
    marked = candidates.merge(known.assign(**{_KNOWN: 1}), on=names, how="left")
    return marked[marked[_KNOWN].isna()][names].reset_index(drop=True)


def run(frames: Any, task: Task) -> Answer:
    """Load, evaluate, count, with cuDF or what stands in for it."""
    start = time.perf_counter()
    tables = load(frames, task)
    loaded = time.perf_counter()
    rounds = evaluate(frames, task.rules, tables)
    sizes = {name: len(tables[name]) for name in task.rules.printed}
    done = time.perf_counter()
    return Answer(sizes, {"load": loaded - start, "evaluate": done - loaded}, frames.__version__, rounds)


def solve(task: Task) -> Answer:
    """Run with cuDF."""
    import cudf

    return run(cudf, task)


if __name__ == "__main__":
    sys.exit(main(solve))
