"""Whatever schemes store the relations, the engine derives what the naive oracle derives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.rules import scheme_reads
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.planning import scheme_costs
from tests.differential.compare import assert_agrees, engine_facts, oracle_facts
from tests.differential.devices import BACK_AND_FORTH, EVERYWHERE, emulated, on
from tests.structured_programs import Structured, structured_programs

MODULES = st.booleans()
DEVICE = emulated()


@contextmanager
def eager(*, off: float | None = None, room: int | None = None) -> Iterator[None]:
    """Closures are worth while whatever their size; tables become closures when they are off by `off`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheme_costs, "LEAST_PAIRS", 0 if off is None else 3)
        patch.setattr(scheme_costs, "LEAST_GROWTH", 0 if off is None else 10**9)
        patch.setattr(scheme_costs, "_COMFORTABLE", 10**18)
        if off is not None:
            patch.setattr(scheme_costs, "OFF", off)
        if room is not None:
            patch.setattr(scheme_reads, "ROOM", room)
        yield


@settings(max_examples=150)
@given(structured_programs(), MODULES)
def test_schemes_wherever_the_rules_allow(case: Structured, modules: bool) -> None:
    with eager():
        assert_agrees(str(case), case.facts, modules=modules)


@settings(max_examples=60)
@given(structured_programs(), st.integers(1, 4))
def test_reads_in_small_pieces(case: Structured, room: int) -> None:
    with eager(room=room):
        assert_agrees(str(case), case.facts)


@settings(max_examples=40)
@given(structured_programs(), st.sampled_from([EVERYWHERE, BACK_AND_FORTH]))
def test_schemes_beside_tables_on_a_device(case: Structured, thresholds: Thresholds) -> None:
    """Compact schemes stay on the host; what they exchange with tables on a device is the same."""
    with eager():
        assert_agrees(str(case), case.facts, **on(DEVICE, thresholds))


@settings(max_examples=60)
@given(structured_programs())
def test_tables_that_turn_into_closures_between_rounds(case: Structured) -> None:
    with eager(off=0.5):
        assert_agrees(str(case), case.facts)


@settings(max_examples=60)
@given(structured_programs())
def test_modules_on_tables(case: Structured) -> None:
    assert_agrees(str(case), case.facts, schemes={"*": "table"})


@settings(max_examples=60)
@given(structured_programs())
def test_unions_wherever_the_rules_allow(case: Structured) -> None:
    with eager():
        assert_agrees(str(case), case.facts, schemes={"*": "union"})


@settings(max_examples=30)
@given(structured_programs(), structured_programs())
def test_schemes_are_chosen_anew_each_time(case: Structured, other: Structured) -> None:
    """Materialising again after loading more is like starting with everything."""
    with eager():
        engine = ge.Engine(str(case))
        for facts in (case.facts, other.facts):
            for name, rows in facts.items():
                engine.load(name, rows)
            engine.materialise()
        together: dict[str, Any] = {
            name: [*case.facts.get(name, []), *other.facts.get(name, [])]
            for name in {*case.facts, *other.facts}
        }
        expected = oracle_facts(str(case), together)
        assert expected is not None
        assert {name: set(engine[name]) for name in expected} == expected
        assert engine_facts(str(case), together) == expected
