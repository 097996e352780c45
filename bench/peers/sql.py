"""Datalog rules as SQL text: the body of a rule as one SELECT over chosen tables."""

from __future__ import annotations

from collections.abc import Sequence

from bench.rules import ANONYMOUS, Rule, is_variable

_OPERATORS = {"!=": "<>"}


def columns(arity: int) -> str:
    """``c0, c1, …``"""
    return ", ".join(f"c{i}" for i in range(arity))


def select(rule: Rule, tables: Sequence[str]) -> str:
    """The rule's body as a SELECT of its head; `tables` names the table to read for each body atom."""
    first: dict[str, str] = {}
    conditions: list[str] = []
    for position, atom in enumerate(rule.atoms):
        for column, term in enumerate(atom.terms):
            cell = f"t{position}.c{column}"
            if term == ANONYMOUS:
                continue
            if not is_variable(term):
                conditions.append(f"{cell} = {term}")
            elif term in first:
                conditions.append(f"{first[term]} = {cell}")
            else:
                first[term] = cell
    for comparison in rule.comparisons:
        left, right = (first.get(t, t) for t in (comparison.left, comparison.right))
        conditions.append(f"{left} {_OPERATORS.get(comparison.operator, comparison.operator)} {right}")
    head = ", ".join(f"{first.get(t, t)} AS c{i}" for i, t in enumerate(rule.head.terms))
    sources = ", ".join(f'"{table}" AS t{i}' for i, table in enumerate(tables))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {head} FROM {sources}{where}"
