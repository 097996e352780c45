"""One place that runs the engine and the oracle, and compares what they derive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import gpuengine as ge
from gpuengine.errors import EvaluationError
from gpuengine.language import parse_program
from gpuengine.language.program import Program
from tests.oracle import naive, text

Rows = set[tuple[Any, ...]]
Loads = Mapping[str, Iterable[tuple[Any, ...]]]


@lru_cache(maxsize=8)
def checked(program: str) -> Program:
    return parse_program(program)


def oracle_facts(program: str, facts: Loads) -> dict[str, Rows] | None:
    """What the oracle derives, in the engine's form; None if evaluation fails."""
    core = checked(program)
    try:
        derived = naive(core, facts)
    except EvaluationError:
        return None
    return {
        name: {
            tuple(text(value, a.type.kind) for value, a in zip(row, relation.attributes, strict=True))
            for row in derived[name]
        }
        for name, relation in core.relations.items()
    }


def engine_facts(program: str, facts: Loads, parts: int = 1, **options: Any) -> dict[str, Rows] | None:
    """What the engine derives after loading each relation in `parts` loads; None if evaluation fails."""
    engine = ge.Engine(program, **options)
    for name, rows in facts.items():
        rows = list(rows)
        for part in range(parts):
            engine.load(name, rows[part::parts])
    try:
        engine.materialise()
    except EvaluationError:
        return None
    return {name: rows_of(engine, name) for name in checked(program).relations}


def rows_of(engine: Any, relation: str) -> Rows:
    view = engine[relation]
    rows = view.to_pylist()
    assert len(view) == len(rows), f"len() of {relation} differs from its rows"
    assert len(set(rows)) == len(rows), f"{relation} holds a fact twice"
    return set(rows)


def assert_agrees(program: str, facts: Loads, **options: Any) -> None:
    """The engine derives what the oracle does."""
    assert engine_facts(program, facts, **options) == oracle_facts(program, facts)
