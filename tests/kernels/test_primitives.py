"""Every primitive on every backend gives what the reference gives, on random inputs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.kernels.primitives import Primitives
from tests.kernels import join_cases, position_cases, primitive_cases
from tests.kernels.primitive_cases import REFERENCE, assert_same, run, simulated, those_with

OPERATIONS = primitive_cases.OPERATIONS | join_cases.OPERATIONS | position_cases.OPERATIONS

on_every_operation = pytest.mark.parametrize("operation", OPERATIONS)


def test_every_operation_has_examples() -> None:
    stated = {name for name in vars(Primitives) if not name.startswith("_")}
    on_the_host = {"components", "reached_sets", "sets_difference", "sorted_runs", "intersect_runs"}
    assert stated - {"upload", "download"} | on_the_host == set(OPERATIONS)


@on_every_operation
@given(data=st.data())
def test_backends_agree_with_the_reference(operation: str, data: st.DataObject) -> None:
    args = data.draw(OPERATIONS[operation])
    expected = run(REFERENCE, operation, args)
    for backend in those_with(operation):
        assert_same(run(backend, operation, args), expected)


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if hasattr(Primitives, name)])
@settings(max_examples=15)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_the_simulator_agrees_with_the_reference(operation: str, data: st.DataObject, seed: int) -> None:
    args = data.draw(OPERATIONS[operation])
    assert_same(run(simulated(seed), operation, args), run(REFERENCE, operation, args))
