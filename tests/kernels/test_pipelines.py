"""Random pipelines: every backend gives what the reference gives, however often it is suspended."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.backends import BACKENDS, REFERENCE, Backend, Row, drain, read_rows
from tests.kernels.pipelines import Built, Case, any_case, composition_case, last_probe_case

#: Outputs of one to three rows suspend a run at every point; the last one never does.
ROOMS = st.sampled_from([1, 2, 3, 10_000])


def outcome(backend: Backend, case: Case, room: int, cut: int) -> tuple[list[Row], list[Row]]:
    """What comes out, and what the head holds afterwards; the driver's rows run in two spans."""
    built = Built(case, backend)
    count = built.rows[case.driver].count
    cut = min(cut, count)
    arity = len(case.sink)
    program = backend.program(built.pipeline)
    out = backend.output(arity, room)
    found = drain(program, [(0, cut), (cut, count)], out, arity, lambda rows: built.take(rows, room))
    built.take(found, 0)
    assert built.keyset.contains(built.head, 0, built.head.count).all()
    return sorted(found), sorted(read_rows(built.head, arity))


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b is not REFERENCE], ids=lambda b: b.name)
@pytest.mark.parametrize("shape", [any_case, last_probe_case, composition_case])
@settings(max_examples=400)
@given(st.integers(0, 2**40), ROOMS, st.integers(0, 9))
def test_random_pipelines(
    backend: Backend, shape: Callable[[int], Case], seed: int, room: int, cut: int
) -> None:
    case = shape(seed)
    found, held = outcome(backend, case, room, cut)
    assert (found, held) == outcome(REFERENCE, case, 1, cut)
    if case.inserts:
        assert len(set(found)) == len(found) and not set(found) & set(case.held)
