"""One place that runs the engine and the oracle, and compares what they derive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import gpuengine as ge
from gpuengine.errors import EvaluationError
from gpuengine.language import parse_program
from gpuengine.language.program import Program
from tests import oracle

Rows = set[tuple[Any, ...]]
Loads = Mapping[str, Iterable[tuple[Any, ...]]]


@lru_cache(maxsize=8)
def checked(program: str) -> Program:
    return parse_program(program)


@lru_cache(maxsize=8)
def read(program: str) -> oracle.Program:
    """A program as the oracle reads it."""
    return oracle.Program(program)


def oracle_facts(program: str, facts: Loads) -> dict[str, Rows] | None:
    """What the oracle derives, in the engine's form; None if evaluation fails."""
    try:
        return shown_facts(read(program).derive(facts))
    except oracle.Failure:
        return None


def shown_facts(facts: Mapping[str, Rows]) -> dict[str, Rows]:
    """The oracle's facts as the engine shows them."""
    return {name: {tuple(map(oracle.shown, row)) for row in rows} for name, rows in facts.items()}


def engine_facts(program: str, facts: Loads, parts: int = 1, **options: Any) -> dict[str, Rows] | None:
    """What the engine derives after loading each relation in `parts` loads; None if evaluation fails."""
    engine = ge.Engine(program, **options)
    for name, rows in facts.items():
        rows = list(rows)
        for part in range(parts):
            engine.load(name, rows[part::parts])
    try:
        engine.materialise()
    except EvaluationError as error:
        if is_refusal(error):
            raise
        return None
    return {name: rows_of(engine, name) for name in read(program).relations}


def is_refusal(error: Exception) -> bool:
    """Were facts stated for a relation that must be the closure of another one?"""
    return "can't be stored as closure" in str(error)


def rows_of(engine: Any, relation: str) -> Rows:
    return distinct(engine[relation], relation)


def distinct(view: Any, relation: str) -> Rows:
    """The rows of a view, which must say how many there are, and each only once."""
    rows = [same_floats(row) for row in view.to_pylist()]
    assert len(view) == len(rows), f"len() of {relation} differs from its rows"
    assert len(set(rows)) == len(rows), f"{relation} holds a fact twice"
    return set(rows)


def same_floats(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row that can be compared with the oracle's: NaN is NaN, and -0.0 is not 0.0."""
    if any(isinstance(value, float) for value in row):
        return tuple(oracle.canonical(value) if isinstance(value, float) else value for value in row)
    return row


def assert_agrees(program: str, facts: Loads, **options: Any) -> None:
    """The engine derives what the oracle does."""
    assert engine_facts(program, facts, **options) == oracle_facts(program, facts)
