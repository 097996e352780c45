"""Witnesses of ``min`` and ``max``: bound where nothing else binds them."""

from __future__ import annotations

import gpuengine as ge
from tests.language.rendering import codes_of, rules

DECLARED = ".decl s(n: symbol, x: number, c: number)\n.decl r(n: symbol, x: number)\n"


def test_the_body_stands_once_more_for_the_result() -> None:
    (rule,) = rules(DECLARED + "r(n, h) :- h = max x : { s(n, x, _) }.")
    assert rule.count("s(") == 2


def test_what_is_bound_outside_is_no_witness() -> None:
    (rule,) = rules(DECLARED + "r(n, h) :- s(n, _, _), h = max x : { s(n, x, _) }.")
    assert rule.count("s(") == 2  # one of which is outside already


def test_other_aggregates_have_none() -> None:
    for text in ("count : { s(n, _, _) }", "sum x : { s(n, x, _) }"):
        assert set(codes_of(DECLARED + f"r(n, h) :- h = {text}.")) == {"E0401"}


def test_queries_and_updates() -> None:
    kb = ge.Engine(DECLARED + ".input s\nr(n, h) :- h = max x : { s(n, x, c), c > 0 }.")
    kb.load("s", [("a", 1, 1), ("b", 2, 1), ("c", 9, 0)])
    kb.materialise()
    assert kb["r"].to_pylist() == [("b", 2)]
    assert set(kb.query('h = min x : { s(n, x, _) }, n != ""').to_pylist()) == {(1, "a")}
    with kb.update() as update:
        update.insert("s", [("d", 2, 5)])
    assert set(kb["r"].to_pylist()) == {("b", 2), ("d", 2)}
    with kb.update() as update:
        update.delete("s", [("b", 2, 1), ("d", 2, 5)])
    assert kb["r"].to_pylist() == [("a", 1)]
