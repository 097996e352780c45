"""`BlockProgram` against pipelines that compute one binding at a time, and against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuengine.kernels.contract import (
    CalculationStep,
    Collect,
    Compute,
    Driver,
    Operator,
    Pipeline,
    Status,
    write,
)
from gpuengine.kernels.cpu.blocks import BLOCK, BlockProgram
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.terms.dictionary import IDENTITY, Dictionary
from tests.kernels.test_calculation import VALUES

Draw = Any
SPACES = ("number", "unsigned", "float")
INTEGER = [
    *(Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.BIT_AND, Operator.SHIFT_LEFT),
    *(Operator.SHIFT_RIGHT, Operator.AND, Operator.XOR, Operator.MINIMUM, Operator.MAXIMUM_UNSIGNED),
    *(Operator.IS_EQUAL, Operator.IS_NOT_EQUAL, Operator.IS_LESS, Operator.IS_LESS_EQUAL),
    *(Operator.IS_LESS_UNSIGNED, Operator.IS_LESS_EQUAL_UNSIGNED),
]
FLOAT = [one for one in Operator if Operator.ADD_FLOAT <= one < Operator.IS_EQUAL_FLOAT]
FLOAT_TRUTH = [one for one in Operator if one >= Operator.IS_EQUAL_FLOAT]
UNARY = [Operator.NEGATE, Operator.COMPLEMENT, Operator.NOT]


def one_at_a_time(
    computes: Sequence[Compute], columns: Sequence[np.ndarray], rows: int, wanted: Sequence[int]
) -> list[list[int]]:
    given = Rows(len(columns))
    given.append(columns, rows)
    registers = len(columns) + len(computes)
    driver = Driver(given, tuple(map(write, range(len(columns)))))
    program = Program(Pipeline(driver, tuple(computes), Collect(tuple(wanted)), registers))
    out = Rows(len(wanted), rows)
    status = program.run(out, 0, rows)
    while status is not Status.DONE:
        if status is Status.WORDS_FULL:
            operation = program.suspended_at
            assert isinstance(operation, Compute) and operation.words is not None
            operation.words.make_room()
        else:
            out.grow(1)
        status = program.resume(out)
    return [column.tolist() for column in out.columns()]


@st.composite
def programs(draw: Draw) -> tuple[Dictionary, list[Compute], list[np.ndarray], list[int]]:
    """Computations of one space, with filters between them, over columns of some blocks."""
    space = draw(st.sampled_from(SPACES))
    dictionary = Dictionary()
    table = dictionary.word_tables[space]
    rows = draw(st.sampled_from([0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 7]))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    some = VALUES[space]
    if draw(st.booleans()) and space != "float":
        some = np.arange(5).astype(some.dtype)
    columns = [dictionary.encode_words(space, random.choice(some, rows)) for _ in range(2)]
    known = [0, 1]
    computes: list[Compute] = []

    def loaded(register: int) -> list[CalculationStep]:
        return [CalculationStep(Operator.LOAD, register, table)]

    def operand() -> list[CalculationStep]:
        if draw(st.integers(0, 2)):
            return loaded(draw(st.sampled_from(known)))
        value = draw(st.sampled_from(some.tolist()))
        return [CalculationStep(Operator.CONSTANT, int(some.dtype.type(value).view(np.int64)))]

    for number in range(draw(st.integers(1, 5))):
        steps = operand()
        for _ in range(draw(st.integers(0, 3))):
            if space != "float" and draw(st.integers(0, 3)) == 0:
                steps.append(CalculationStep(draw(st.sampled_from(UNARY))))
            else:
                operator = draw(st.sampled_from(FLOAT if space == "float" else INTEGER))
                steps += [*operand(), CalculationStep(operator)]
        if draw(st.booleans()):
            if space == "float":
                steps += [*operand(), CalculationStep(draw(st.sampled_from(FLOAT_TRUTH)))]
            computes.append(Compute(tuple(steps)))
        else:
            target = 2 + number
            computes.append(Compute(tuple(steps), target, table))
            known.append(target)
    wanted = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
    return dictionary, computes, columns, wanted


@given(programs())
def test_random_programs(case: tuple[Dictionary, list[Compute], list[np.ndarray], list[int]]) -> None:
    dictionary, computes, columns, wanted = case
    rows = len(columns[0])
    made = BlockProgram(computes, 2, wanted).run(columns, rows)
    assert made is not None
    found, count = made
    assert [column.tolist() for column in found] == one_at_a_time(computes, columns, rows, wanted)
    assert all(len(column) == count for column in found)
    assert dictionary.word_tables["float"].identity == 0


DIVISIONS = {
    Operator.DIVIDE: lambda x, y: int(x / y),
    Operator.REMAINDER: lambda x, y: int(np.fmod(x, y)),
}


@pytest.mark.parametrize("operator", DIVISIONS)
def test_divisions_and_zeros_that_are_left_out_before(operator: Operator) -> None:
    table = Dictionary().word_tables["number"]
    x = np.arange(1000) - 500
    y = np.arange(1000) % 7 - 3
    columns = [table.intern(column.astype(np.int64).view(np.uint64)) for column in (x, y)]
    loads = [CalculationStep(Operator.LOAD, register, table) for register in (0, 1)]
    divided = Compute((*loads, CalculationStep(operator)), 2, table)
    assert BlockProgram([divided], 2, [2]).run(columns, 1000) is None
    made = BlockProgram([Compute((loads[1],)), divided], 2, [2]).run(columns, 1000)
    assert made is not None
    wanted = [DIVISIONS[operator](int(a), int(b)) for a, b in zip(x, y, strict=True) if b]
    assert made[1] == len(wanted)
    words = [id if id < IDENTITY else int(table.words[id - IDENTITY]) for id in made[0][0].tolist()]
    assert [word - (word >> 63 << 64) for word in words] == wanted


def test_words_that_are_their_own_ids_only_up_to_a_block() -> None:
    table = Dictionary().word_tables["number"]
    ids = np.arange(3 * BLOCK, dtype=np.uint32)
    limit = IDENTITY - BLOCK - 5
    load, add = CalculationStep(Operator.LOAD, 0, table), CalculationStep(Operator.ADD)
    compute = Compute((load, CalculationStep(Operator.CONSTANT, limit), add), 1, table)
    made = BlockProgram([compute], 1, [1, 0]).run([ids], len(ids))
    assert made is not None
    (sums, kept), _ = made
    assert kept.tolist() == ids.tolist()
    small = ids + limit < IDENTITY
    assert sums[small].tolist() == (ids[small] + limit).tolist()
    assert table.words[sums[~small] - IDENTITY].tolist() == (ids[~small].astype(np.int64) + limit).tolist()
    assert len(table.words) == np.count_nonzero(~small)
