"""Every operator of `Compute` against the arithmetic on columns; new words, and bounds, one at a time."""

from __future__ import annotations

import numpy as np
import pytest

from gpuengine.kernels.contract import (
    CalculationStep,
    Collect,
    Compute,
    Driver,
    Insert,
    Operator,
    Pipeline,
    Status,
    Within,
    write,
)
from gpuengine.kernels.cpu import code
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.sets import KeySet
from gpuengine.language.program import FLOAT, NUMBER, UNSIGNED, Functor, Variable
from gpuengine.terms import arithmetic
from gpuengine.terms.dictionary import IDENTITY, Dictionary
from tests.kernels.backends import columns_of

SOME = [0, 1, 2, 3, 63, 64, 65, IDENTITY - 1, IDENTITY, 2**31, 2**32 - 1, 2**63 - 1]
VALUES = {
    "number": np.array([*SOME, -1, -2, -3, -IDENTITY, -(2**63), -(2**63) + 1], np.int64),
    "unsigned": np.array([*SOME, 2**63, 2**64 - 1, 2**64 - 2], np.uint64),
    "float": np.array([0.0, -0.0, 1.0, -1.5, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan, 0.1]),
}
OPERATORS = {
    "number": {
        "+": Operator.ADD,
        "-": Operator.SUBTRACT,
        "*": Operator.MULTIPLY,
        "/": Operator.DIVIDE,
        "%": Operator.REMAINDER,
        "band": Operator.BIT_AND,
        "bor": Operator.BIT_OR,
        "bxor": Operator.BIT_XOR,
        "bshl": Operator.SHIFT_LEFT,
        "bshr": Operator.SHIFT_RIGHT,
        "bshru": Operator.SHIFT_RIGHT_UNSIGNED,
        "land": Operator.AND,
        "lor": Operator.OR,
        "lxor": Operator.XOR,
        "min": Operator.MINIMUM,
        "max": Operator.MAXIMUM,
    }
}
OPERATORS["unsigned"] = OPERATORS["number"] | {
    "/": Operator.DIVIDE_UNSIGNED,
    "%": Operator.REMAINDER_UNSIGNED,
    "bshr": Operator.SHIFT_RIGHT_UNSIGNED,
    "min": Operator.MINIMUM_UNSIGNED,
    "max": Operator.MAXIMUM_UNSIGNED,
}
OPERATORS["float"] = {
    "+": Operator.ADD_FLOAT,
    "-": Operator.SUBTRACT_FLOAT,
    "*": Operator.MULTIPLY_FLOAT,
    "/": Operator.DIVIDE_FLOAT,
    "min": Operator.MINIMUM_FLOAT,
    "max": Operator.MAXIMUM_FLOAT,
}
BINARY = [(space, op) for space, operators in OPERATORS.items() for op in operators]
UNARY = {"neg": Operator.NEGATE, "bnot": Operator.COMPLEMENT, "lnot": Operator.NOT}
COMPARISONS = {
    Operator.IS_EQUAL: ("number", np.equal),
    Operator.IS_NOT_EQUAL: ("number", np.not_equal),
    Operator.IS_LESS: ("number", np.less),
    Operator.IS_LESS_EQUAL: ("number", np.less_equal),
    Operator.IS_LESS_UNSIGNED: ("unsigned", np.less),
    Operator.IS_LESS_EQUAL_UNSIGNED: ("unsigned", np.less_equal),
    Operator.IS_EQUAL_FLOAT: ("float", np.equal),
    Operator.IS_NOT_EQUAL_FLOAT: ("float", np.not_equal),
    Operator.IS_LESS_FLOAT: ("float", np.less),
    Operator.IS_LESS_EQUAL_FLOAT: ("float", np.less_equal),
}
TYPES = {"number": NUMBER, "unsigned": UNSIGNED, "float": FLOAT}


def test_the_numbers_of_operators_are_those_of_the_compiled_code() -> None:
    assert {one.name: one.value for one in Operator} == {
        one.name: getattr(code, one.name) for one in Operator
    }
    assert {one.name: one.value for one in Status} == {one.name: getattr(code, one.name) for one in Status}


def pairs_of(space: str, dictionary: Dictionary) -> tuple[np.ndarray, np.ndarray, Rows]:
    """All pairs of some values, and their ids as rows."""
    values = VALUES[space]
    left, right = np.repeat(values, len(values)), np.tile(values, len(values))
    rows = Rows(2)
    rows.append([dictionary.encode_words(space, left), dictionary.encode_words(space, right)], len(left))
    return left, right, rows


def loads(space: str, dictionary: Dictionary, *registers: int) -> list[CalculationStep]:
    words = dictionary.word_tables[space]
    return [CalculationStep(Operator.LOAD, register, words) for register in registers]


def same(values: np.ndarray, wanted: np.ndarray) -> bool:
    """Are they the same 64 bits?"""
    return values.view(np.uint64).tolist() == wanted.view(np.uint64).tolist()


def computed(
    space: str, operator: Operator, operands: int, rows: Rows, dictionary: Dictionary, into: str = ""
) -> np.ndarray:
    """The ids of an operator's values for every row, with room made for words whenever there is none."""
    words = dictionary.word_tables[into or space]
    steps = (*loads(space, dictionary, *range(operands)), CalculationStep(operator))
    pipeline = Pipeline(
        Driver(rows, (write(0), write(1))), (Compute(steps, 2, words),), Collect((2,)), registers=3
    )
    program, out = Program(pipeline), Rows(1, rows.count)
    status = program.run(out, 0, rows.count)
    while status is not Status.DONE:
        if status is Status.WORDS_FULL:
            assert program.suspended_at is pipeline.operations[0]
            words.make_room()
        else:
            assert status is Status.FULL
            out.grow(1)
        status = program.resume(out)
    return out.column(0)


@pytest.mark.parametrize(("space", "op"), BINARY)
def test_operators_of_two_operands(space: str, op: str) -> None:
    dictionary = Dictionary()
    left, right, rows = pairs_of(space, dictionary)
    if op in ("/", "%") and space != "float":
        kept = right != 0
        left, right, divided = left[kept], right[kept], Rows(2)
        divided.append([column[kept] for column in rows.columns()], len(left))
        rows = divided
    functor = Functor(op, (Variable("x", TYPES[space]),) * 2, TYPES[space], None)  # type: ignore[arg-type]
    ids = computed(space, OPERATORS[space][op], 2, rows, dictionary)
    assert same(dictionary.values(space, ids), arithmetic.apply(functor, [left, right]))
    assert ids.tolist() == dictionary.encode_words(space, arithmetic.apply(functor, [left, right])).tolist()


@pytest.mark.parametrize("space", ["number", "unsigned"])
@pytest.mark.parametrize("op", UNARY)
def test_operators_of_one_operand(space: str, op: str) -> None:
    dictionary = Dictionary()
    left, _, rows = pairs_of(space, dictionary)
    functor = Functor(op, (Variable("x", TYPES[space]),), TYPES[space], None)  # type: ignore[arg-type]
    ids = computed(space, UNARY[op], 1, rows, dictionary)
    assert same(dictionary.values(space, ids), arithmetic.apply(functor, [left]))


def test_the_sign_of_a_float_and_the_floats_of_integers() -> None:
    dictionary = Dictionary()
    left, _, rows = pairs_of("float", dictionary)
    ids = computed("float", Operator.NEGATE_FLOAT, 1, rows, dictionary)
    assert same(dictionary.values("float", ids), -left)
    for space, operator in (("number", Operator.FLOAT_OF_NUMBER), ("unsigned", Operator.FLOAT_OF_UNSIGNED)):
        left, _, rows = pairs_of(space, dictionary)
        ids = computed(space, operator, 1, rows, dictionary, into="float")
        assert same(dictionary.values("float", ids), left.astype(np.float64))


@pytest.mark.parametrize("operator", COMPARISONS)
def test_a_comparison_keeps_the_bindings_for_which_it_holds(operator: Operator) -> None:
    space, holds = COMPARISONS[operator]
    dictionary = Dictionary()
    left, right, rows = pairs_of(space, dictionary)
    test = Compute((*loads(space, dictionary, 0, 1), CalculationStep(operator)))
    pipeline = Pipeline(Driver(rows, (write(0), write(1))), (test,), Collect((0, 1)), registers=2)
    out = Rows(2, rows.count)
    assert Program(pipeline).run(out, 0, rows.count) in (Status.DONE, Status.FULL)
    kept = holds(left, right)
    assert [column.tolist() for column in out.columns()] == [
        column[kept].tolist() for column in rows.columns()
    ]


def test_new_words_are_given_ids_while_the_table_grows() -> None:
    dictionary = Dictionary()
    words = dictionary.word_tables["number"]
    rows = Rows(2)
    numbers = np.arange(5000, dtype=np.uint32)
    rows.append([numbers, numbers], len(numbers))
    ids = computed("number", Operator.NEGATE, 1, rows, dictionary)
    assert dictionary.values("number", ids).tolist() == [-x for x in range(5000)]
    assert len(words) == 4999  # 0 is its own id
    again = computed("number", Operator.NEGATE, 1, rows, dictionary)
    assert again.tolist() == ids.tolist() and len(words) == 4999
    known, found = dictionary.find("number", -np.arange(5000, dtype=np.int64))
    assert found.all() and known.tolist() == ids.tolist()


def test_what_is_outside_the_bounds_is_not_inserted() -> None:
    dictionary = Dictionary()
    rows = Rows(1)
    rows.append(columns_of([(x,) for x in (3, 9, 10, 4)], 1), 4)
    steps = (*loads("number", dictionary, 0), CalculationStep(Operator.CONSTANT, 1))
    words = dictionary.word_tables["number"]
    compute = Compute((*steps, CalculationStep(Operator.ADD)), 1, words)
    keyset, out = KeySet(1, [(0, 11)]), Rows(1, 16)
    within = Within((1,), ((0, 11),))
    program = Program(Pipeline(Driver(rows, (write(0),)), (compute, within), Insert(keyset, (1,)), 2))
    assert program.run(out, 0, 4) is Status.OUTSIDE
    assert program.suspended_at is within and program.row() == (11,)
    assert out.column(0).tolist() == [4, 10]
    assert program.resume(out) is Status.OUTSIDE  # it stays there
    keyset.check()


def test_rows_that_differ_only_in_what_is_computed_from_a_probe_all_come_out() -> None:
    """After the sink, a pipeline goes on with the last probe that the row depends on, if by arithmetic."""
    from gpuengine.kernels.contract import Domain, IndexProbe, Probe
    from gpuengine.kernels.cpu.indexes import RowIndex

    dictionary = Dictionary()
    words = dictionary.word_tables["number"]
    edges = Rows(2)
    edges.append(columns_of([(1, 5), (1, 6), (1, 7), (2, 8)], 2), 4)
    edges.advance()
    index = RowIndex(edges, (0,), [(0, 9)] * 2)
    index.build(exact=False)
    driver = Rows(1)
    driver.append(columns_of([(1,), (2,)], 1), 2)
    probe = Probe((IndexProbe(index, Domain.ALL, (0,), (write(1),)),))
    twice = Compute((*loads("number", dictionary, 1, 1), CalculationStep(Operator.ADD)), 2, words)
    less = Compute(
        (
            *loads("number", dictionary, 2),
            CalculationStep(Operator.CONSTANT, 1),
            CalculationStep(Operator.SUBTRACT),
        ),
        3,
        words,
    )
    keyset, out = KeySet(1, [(0, 99)]), Rows(1, 16)
    program = Program(
        Pipeline(Driver(driver, (write(0),)), (probe, twice, less), Insert(keyset, (3,)), registers=4)
    )
    assert program.run(out, 0, 2) is Status.DONE
    assert out.column(0).tolist() == [9, 11, 13, 15]
