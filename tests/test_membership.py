"""``row in kb["r"]`` is by value; what can't be a fact is not among them, and no error."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge

PROGRAM = """
.type List = [head: number, tail: List]
.type Shape = Dot {} | Box {name: symbol, size: float}
.decl e(x: number, y: number)
.decl all(n: number, u: unsigned, f: float, s: symbol, l: List, a: Shape)
.decl none()
"""
ROW = (-1, 2**64 - 1, 0.5, "a, b", (1, None), ("$Box", "x]", 1.5))


@pytest.fixture(scope="module")
def kb() -> ge.Engine:
    kb = ge.Engine(PROGRAM, threads=1)
    kb.load("e", [(1, 2), (0, 1)])
    kb.load("all", [ROW, (0, 0, -0.0, "", None, ("$Dot",))])
    return kb


@pytest.mark.parametrize(
    "row",
    [
        (1, 2),
        [1, 2],
        np.array([1, 2]),
        np.array([1.0, 2.0]),
        (1.0, 2),
        (np.int8(1), Decimal(2)),
        (True, Fraction(2)),
    ],
    ids=repr,
)
def test_members(kb: ge.Engine, row: Any) -> None:
    assert row in kb["e"]


ITSELF: list[Any] = [1]
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    "row",
    [
        (1.5, 2), ("1", 2), (b"1", 2), (None, 2), (2**64, 2), (-(2**200), 2), (10**5000, 2), ([1], 2),
        ((1,), 2), ({}, 2), ({1}, 2), (float("nan"), 2), (float("inf"), 2), (Decimal("1.5"), 2),
        (Decimal("sNaN"), 2), (1j, 2), (object(), 2), (1,), (1, 2, 3), (), "12", b"\x01\x02",
        bytearray(b"\x01\x02"), 1, None, object(), {1: 1, 2: 2}, {1, 2}, np.array([[1, 2]]), np.array(1),
        (1, ITSELF), range(3), iter((1, 2)), (np.array([1, 2]), 2),
    ],
    ids=lambda row: type(row).__name__,
)  # fmt: skip
def test_what_can_not_be_a_fact(kb: ge.Engine, row: Any) -> None:
    assert row not in kb["e"]


def test_every_type(kb: ge.Engine) -> None:
    view = kb["all"]
    assert ROW in view and all(row in view for row in view)
    others: list[list[Any]] = [
        [-1.5, "-1", None, 2**63, 2**64 - 1],
        [-1, 2**64, "x", None, 1.5],
        ["0.5", None, Decimal("0.1"), 2**1100, [0.5], Fraction(1, 3)],
        [5, None, "\ud800", b"\xff", ["a, b"], "a", "a, b "],
        [None, (1, 2), (1, None, None), 1, ("$Box", "x]", 1.5), "[1", ITSELF, ("1", None), {}, (1.5, None)],
        [None, ("$Box",), ("$Cup",), (), "$Cup", ("$Box", "x]", "1.5"), ("$Box", 5, 1.5), ("x]", 1.5), 1],
    ]
    for position, values in enumerate(others):
        for value in values:
            assert (*ROW[:position], value, *ROW[position + 1 :]) not in view, (position, value)
    assert (*ROW[:5], '$Box("x]", 1.5)') in view and (*ROW[:4], "[1,nil]", ROW[5]) in view
    assert (0, 0, -0.0, "", None, ("$Dot",)) in view and (0, 0, 0.0, "", None, ("$Dot",)) not in view


def test_no_columns() -> None:
    kb = ge.Engine(PROGRAM, threads=1)
    assert () not in kb["none"]
    kb.load("none", [()])
    assert () in kb["none"] and (1,) not in kb["none"] and None not in kb["none"]


leaves = st.one_of(
    st.integers(), st.floats(), st.text(max_size=3), st.none(), st.booleans(), st.binary(max_size=2)
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(st.text(max_size=1), inner)
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(row=st.one_of(values, st.tuples(values, values), st.tuples(*([values] * 6))))
def test_anything_may_be_asked_for(kb: ge.Engine, row: Any) -> None:
    expected = isinstance(row, tuple | list) and tuple(row) in [(1, 2), (0, 1)]
    assert (row in kb["e"]) == expected
    assert (row in kb["all"]) in (True, False)
