"""Programs that a cluster can't evaluate, since only one engine can number values: told by name."""

from __future__ import annotations

import pytest

from gpuengine.language import parse_program
from gpuengine.spark_bridge.carriers import has_no_carrier

DECLARED = ".decl s(x: symbol)\n.decl n(x: number)\n"


@pytest.mark.parametrize(
    "rule",
    [
        "n(ord(x)) :- s(x).",
        "n(autoinc()) :- s(_).",
        "n(as(x, number)) :- s(x).",
        "n(y) :- s(_), y = sum ord(x) : { s(x) }.",
    ],
)
def test_what_numbers_values(rule: str) -> None:
    assert has_no_carrier(parse_program(DECLARED + rule)) == (
        "n needs ord or autoinc, and only one engine can number values"
    )


def test_what_only_computes() -> None:
    assert has_no_carrier(parse_program(DECLARED + "n(strlen(x) + as(3, number)) :- s(x).")) == ""
