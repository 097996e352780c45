"""Random pipelines: every backend gives what the reference gives, however often it is suspended."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from tests.kernels.backends import (
    CPU,
    EMULATED,
    REFERENCE,
    SIMULATED,
    Backend,
    Row,
    drain,
    flags,
    given_on,
    read_rows,
)
from tests.kernels.pipelines import (
    Built,
    Case,
    any_case,
    composition_case,
    gather_case,
    last_probe_case,
)

SHAPES = st.sampled_from([any_case, last_probe_case, composition_case, gather_case])
#: Outputs of one to three rows suspend a run at every point; the last one never does.
ROOMS = st.sampled_from([1, 2, 3, 10_000])
#: On a device every expansion may be cut into chunks of so many candidates.
CHUNKS = st.sampled_from([1, 3, 7, 1 << 24])


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
    assert all(flags(built.keyset.contains(built.head, 0, built.head.count)))
    return sorted(found), sorted(read_rows(built.head, arity))


def assert_same_as_the_reference(backend: Backend, case: Case, room: int, cut: int) -> None:
    found, held = outcome(backend, case, room, cut)
    assert (found, held) == outcome(REFERENCE, case, 1, cut)
    if case.inserts:
        assert len(set(found)) == len(found) and not set(found) & set(case.held)


@given_on(SHAPES, st.integers(0, 2**40), ROOMS, st.integers(0, 9), backends=[CPU], most=1200)
def test_random_pipelines(
    backend: Backend, shape: Callable[[int], Case], seed: int, room: int, cut: int
) -> None:
    assert_same_as_the_reference(backend, shape(seed), room, cut)


@given_on(
    *(SHAPES, st.integers(0, 2**40), ROOMS, st.integers(0, 9), CHUNKS),
    backends=[EMULATED, SIMULATED],
    most=500,
    explicit=[(last_probe_case, 3479135, 1, 0, 1)],
)
def test_random_pipelines_in_chunks(
    backend: Backend, shape: Callable[[int], Case], seed: int, room: int, cut: int, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend.device, "chunk_items", chunk)
        assert_same_as_the_reference(backend, shape(seed), room, cut)
