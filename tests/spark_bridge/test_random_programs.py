"""Random programs and facts: what each method derives is what an engine derives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError
from tests.generated import Case
from tests.spark_bridge.test_materialise import ONLY, assert_same
from tests.strategies import cases, counters
from tests.structured_programs import Structured, structured_programs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

# A failing example is not made smaller: that would take minutes.
few = settings(max_examples=6, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
methods = st.sampled_from(["condensed", "decomposed", "exchanged", "rounds"])


def assert_agrees(spark: SparkSession, program: str, facts: dict, method: str) -> None:
    try:
        engine = Engine(program)
        for name, rows in facts.items():
            if rows:
                engine.load(name, rows)
        engine.materialise()
    except GpuEngineError:
        return  # what fails is for other tests
    assert_same(spark, program, facts, where="cluster", limits=ONLY[method])


def without_lists(case: Case) -> Case:
    """Lists are records, which a cluster refuses to hold: `r3` is the relation that has them."""
    relations = tuple(relation for relation in case.relations if relation.name != "r3")
    clauses = tuple(clause for clause in case.clauses if "r3(" not in str(clause))
    return replace(case, relations=relations, clauses=clauses)


@few
@given(cases(), methods)
def test_programs_over_primitive_types(spark: SparkSession, case: Case, method: str) -> None:
    assert_agrees(spark, str(case), case.facts, method)


@few
@given(cases(types=("number", "symbol")), methods)
def test_programs_over_numbers_and_symbols(spark: SparkSession, case: Case, method: str) -> None:
    assert_agrees(spark, str(case), case.facts, method)


@settings(few, max_examples=3)  # they take many rounds
@given(counters(), methods)
def test_guarded_recursion_over_computed_values(spark: SparkSession, case: Case, method: str) -> None:
    assert_agrees(spark, str(without_lists(case)), case.facts, method)


@few
@given(structured_programs(), methods)
def test_programs_with_closures_and_equivalences(spark: SparkSession, case: Structured, method: str) -> None:
    assert_agrees(spark, case.text, case.facts, method)
