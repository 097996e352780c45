"""The engine derives exactly what the naive oracle derives, on random programs and data."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.differential.compare import assert_agrees
from tests.evaluation.forced import forced
from tests.generated import Case
from tests.strategies import cases, counters

OPTIONS = st.sampled_from([{"threads": 1}, {"threads": 2}, {"threads": 2, "memory": "64MB"}])


@given(cases(), OPTIONS)
def test_programs_over_primitive_types(case: Case, options: dict[str, object]) -> None:
    assert_agrees(str(case), case.facts, **options)


@given(cases(types=("number",)), OPTIONS)
def test_programs_over_numbers(case: Case, options: dict[str, object]) -> None:
    assert_agrees(str(case), case.facts, **options)


@given(cases(compound=True), OPTIONS)
def test_programs_over_records_and_adts(case: Case, options: dict[str, object]) -> None:
    assert_agrees(str(case), case.facts, **options)


@given(cases(), st.sampled_from([2, 3]))
def test_tables_that_several_threads_grow(case: Case, threads: int) -> None:
    with forced(small_delta=0, buffer_rows=1):
        assert_agrees(str(case), case.facts, threads=threads)


@given(counters(), OPTIONS)
def test_guarded_recursion_over_computed_values(case: Case, options: dict[str, object]) -> None:
    assert_agrees(str(case), case.facts, **options)
