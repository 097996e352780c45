"""The dictionary against a Python dict: ids, round trips, growth, what it accepts and refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.errors import DataError, EvaluationError
from gpuengine.language.program import FLOAT, NUMBER, SYMBOL, UNSIGNED, Constant, Type
from gpuengine.terms import tables
from gpuengine.terms.dictionary import IDENTITY, Dictionary

DTYPES = {"number": np.int64, "unsigned": np.uint64, "float": np.float64}
around = [0, 1, IDENTITY - 1, IDENTITY, IDENTITY + 1, 2**32, 2**63 - 1]
numbers = st.one_of(st.sampled_from([*around, -1, -(2**63)]), st.integers(-(2**63), 2**63 - 1))
naturals = st.one_of(st.sampled_from([*around, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))


class Model:
    """What ids a dictionary must give."""

    def __init__(self, identity: int) -> None:
        self.identity = identity
        self.known: dict[Any, int] = {}

    def encode(self, values: list[Any]) -> list[int]:
        return [
            value
            if isinstance(value, int) and 0 <= value < self.identity
            else self.known.setdefault(value, self.identity + len(self.known))
            for value in values
        ]


@pytest.mark.parametrize(("space", "values"), [("number", numbers), ("unsigned", naturals)])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_integers_in_batches(space: str, values: Any, data: st.DataObject) -> None:
    dictionary, model = Dictionary(), Model(IDENTITY)
    for _ in range(data.draw(st.integers(1, 4))):
        batch = data.draw(st.lists(values, max_size=40))
        ids = dictionary.encode(space, np.array(batch, DTYPES[space]))
        assert ids.dtype == np.uint32 and ids.tolist() == model.encode(batch)
        assert dictionary.values(space, ids).tolist() == batch
        assert dictionary.bound(space) == IDENTITY + len(model.known)
    assert dictionary.value_table(space).tolist() == list(model.known)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(), max_size=30), max_size=4))
def test_floats_go_by_bits(batches: list[list[float]]) -> None:
    dictionary, model = Dictionary(), Model(0)
    for batch in batches:
        array = np.array(batch, np.float64)
        ids = dictionary.encode("float", array)
        assert ids.tolist() == model.encode([bytes(value) for value in array])
        assert dictionary.values("float", ids).view(np.uint64).tolist() == array.view(np.uint64).tolist()


def test_minus_zero_and_nan() -> None:
    ids = Dictionary().encode("float", np.array([0.0, -0.0, np.nan, np.nan, 0.0]))
    assert ids.tolist() == [0, 1, 2, 2, 0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.text(max_size=20), max_size=30), max_size=4))
def test_symbols_in_batches(batches: list[list[str]]) -> None:
    dictionary, model = Dictionary(), Model(0)
    for number, batch in enumerate(batches):
        given_values: Any = pa.array(batch, [pa.string(), pa.large_string()][number % 2])
        ids = dictionary.encode("symbol", given_values)
        assert ids.tolist() == model.encode(batch)
        assert dictionary.strings(ids).to_pylist() == batch
        assert dictionary.to_arrow(SYMBOL, ids).type == pa.string()
    assert dictionary.bound("symbol") == len(model.known)


def test_small_and_large_batches_grow_the_tables() -> None:
    rng = np.random.default_rng(7)
    dictionary, words, texts = Dictionary(), Model(IDENTITY), Model(0)
    for size in (1, 3, 700, 2, 20_000, 1, 60_000, 5):
        batch = rng.integers(-(2**40), 2**40, size)
        ids = dictionary.encode("number", batch)
        assert ids.tolist() == words.encode(batch.tolist())
        assert (dictionary.values("number", ids) == batch).all()
        strings = [f"{value % (3 * size)}" * (1 + value % 5) for value in batch.tolist()]
        assert dictionary.encode("symbol", pa.array(strings)).tolist() == texts.encode(strings)
    everything = np.arange(len(texts.known), dtype=np.uint32)
    assert dictionary.strings(everything).to_pylist() == list(texts.known)


def test_half_a_million_strings_and_rows_hold_equal_hashes_apart() -> None:
    """With 32-bit hashes some thirty pairs of half a million values collide in all bits."""
    values = np.random.default_rng(3).integers(0, 2**62, 500_000)
    text = pa.array(values).cast(pa.string())
    dictionary = Dictionary()
    ids = dictionary.encode("symbol", text)
    assert dictionary.bound("symbol") == len(np.unique(values))
    assert dictionary.strings(ids).equals(text.cast(pa.large_string()))
    table = tables.RowTable("pair", 2, 0)
    rows = values.view(np.uint32).reshape(-1, 2)
    row_ids = table.intern(rows)
    assert (table.rows[row_ids] == rows).all()
    assert len(table) == dictionary.bound("symbol")


@pytest.mark.parametrize("space", ["number", "unsigned", "float", "symbol"])
def test_find_does_not_intern(space: str) -> None:
    dictionary = Dictionary()
    large = 2**40
    known: Any = ["a", "b"] if space == "symbol" else np.array([large, large + 1], DTYPES[space])
    asked: Any = (
        ["b", "c", "a"] if space == "symbol" else np.array([large + 1, large + 9, large], DTYPES[space])
    )
    ids = dictionary.encode(space, known)
    bound = dictionary.bound(space)
    found_ids, found = dictionary.find(space, asked)
    assert found.dtype == np.bool_ and found.tolist() == [True, False, True]
    assert found_ids[found].tolist() == [ids[1], ids[0]]
    assert dictionary.bound(space) == bound


def test_find_of_identity_integers() -> None:
    ids, found = Dictionary().find("number", np.array([0, IDENTITY - 1, IDENTITY, -1]))
    assert found.tolist() == [True, True, False, False] and ids[:2].tolist() == [0, IDENTITY - 1]


@pytest.mark.parametrize("space", ["number", "unsigned", "float", "symbol"])
def test_nothing_is_encoded_to_nothing(space: str) -> None:
    dictionary = Dictionary()
    for empty in ([], np.zeros(0), pa.array([], pa.string() if space == "symbol" else pa.int64())):
        ids = dictionary.encode(space, empty)
        assert ids.dtype == np.uint32 and len(ids) == 0
        found_ids, found = dictionary.find(space, empty)
        assert found_ids.dtype == np.uint32 and found.dtype == np.bool_ and len(found) == 0
    chunked = pa.chunked_array([], pa.string() if space == "symbol" else pa.int64())
    assert len(dictionary.encode(space, chunked)) == 0
    assert len(dictionary.find(space, chunked)[0]) == 0


def test_arrow_integers_sliced_chunked_and_narrow() -> None:
    dictionary = Dictionary()
    whole = pa.array([9, -4, 2**50, 7, -4], pa.int64())
    assert dictionary.values("number", dictionary.encode("number", whole[1:4])).tolist() == [-4, 2**50, 7]
    chunked = pa.chunked_array([whole[:2], whole[:0], whole[3:]])
    ids = dictionary.encode("number", chunked)
    assert dictionary.values("number", ids).tolist() == [9, -4, 7, -4]
    found_ids, found = dictionary.find("number", chunked)
    assert found.all() and found_ids.tolist() == ids.tolist()
    for narrow in (pa.int8(), pa.uint16(), pa.int32(), pa.uint64()):
        assert dictionary.encode("number", pa.array([1, 2], narrow)).tolist() == [1, 2]
    assert dictionary.values("float", dictionary.encode("float", pa.array([1.5], pa.float32()))) == [1.5]
    assert dictionary.values("float", dictionary.encode("float", np.array([3]))) == [3.0]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_arrow_strings_sliced_and_chunked(kind: pa.DataType) -> None:
    dictionary = Dictionary()
    whole = pa.array(["zero", "", "två", "three", ""], kind)
    ids = dictionary.encode("symbol", whole[1:4])
    assert dictionary.strings(ids).to_pylist() == ["", "två", "three"]
    ids = dictionary.encode("symbol", pa.chunked_array([whole[3:], whole[:2]]))
    assert dictionary.strings(ids).to_pylist() == ["three", "", "zero", ""]


def test_dictionary_encoded_arrow() -> None:
    dictionary = Dictionary()
    encoded = pa.array(["b", "a", "b", "c"]).dictionary_encode()[1:]
    ids = dictionary.encode("symbol", encoded)
    assert dictionary.strings(ids).to_pylist() == ["a", "b", "c"]
    found_ids, found = dictionary.find("symbol", encoded)
    assert found.all() and found_ids.tolist() == ids.tolist()
    integers = pa.array([2**40, 5, 2**40]).dictionary_encode()
    assert dictionary.values("number", dictionary.encode("number", integers)).tolist() == [2**40, 5, 2**40]


def test_python_and_numpy_strings() -> None:
    dictionary = Dictionary()
    assert dictionary.encode("symbol", ["x", "y"]).tolist() == [0, 1]
    assert dictionary.encode("symbol", np.array(["y", "x"])).tolist() == [1, 0]
    assert dictionary.encode("symbol", np.array(["y", "z"], object)).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("space", "values", "message"),
    [
        ("symbol", pa.array(["a", None]), "row 2 is null"),
        ("symbol", pa.array(["a", "b", "c", None])[2:], "row 2 is null"),
        ("number", pa.array([None, 1]), "row 1 is null"),
        ("symbol", pa.array(["a", None]).dictionary_encode(), "row 2 is null"),
        ("symbol", ["a", 3], "row 2: expected text"),
        ("symbol", pa.array([1, 2]), "expected text"),
        ("number", np.array([1.5]), "got float64"),
        ("number", pa.array(["1"]), "a column of string"),
        ("number", pa.array([True]), "a column of bool"),
        ("number", np.array([2**63], np.uint64), "row 1: 9223372036854775808 is out of range"),
        ("unsigned", np.array([4, -4]), "row 2: -4 is out of range"),
    ],
)
def test_what_does_not_fit_is_refused(space: str, values: Any, message: str) -> None:
    dictionary = Dictionary()
    with pytest.raises(DataError, match=message):
        dictionary.encode(space, values)
    with pytest.raises(DataError, match=message):
        dictionary.find(space, values)
    assert dictionary.bound("symbol") == 0


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (NUMBER, 5),
        (NUMBER, -5),
        (UNSIGNED, 2**64 - 1),
        (FLOAT, -0.5),
        (FLOAT, 3.0),
        (SYMBOL, "é"),
        (SYMBOL, ""),
    ],
)
def test_constants(type_: Type, value: Any) -> None:
    dictionary = Dictionary()
    constant = Constant(value, type_)
    known = dictionary.find_constant(constant)
    assert known == (5 if value == 5 else None)
    id_ = dictionary.intern_constant(constant)
    assert dictionary.find_constant(constant) == id_ == dictionary.intern_constant(constant)
    assert dictionary.to_arrow(type_, np.array([id_], np.uint32)).to_pylist() == [value]


def test_to_arrow_types() -> None:
    dictionary = Dictionary()
    for type_, kind in ((NUMBER, pa.int64()), (UNSIGNED, pa.uint64()), (FLOAT, pa.float64())):
        ids = dictionary.encode(type_.space, np.array([1, 2], DTYPES[type_.space]))
        array = dictionary.to_arrow(type_, ids)
        array.validate(full=True)
        assert array.type == kind and array.to_pylist() == [1, 2]
        assert len(dictionary.to_arrow(type_, ids[:0])) == 0


def test_arrays_stay_valid_when_the_dictionary_grows() -> None:
    dictionary = Dictionary()
    ids = dictionary.encode("symbol", ["a", "bb"])
    text, strings = dictionary.text(ids), dictionary.strings(ids)
    dictionary.encode("symbol", [f"{i}" * 10 for i in range(20_000)])
    assert strings.to_pylist() == text.to_arrow().to_pylist() == ["a", "bb"]


def test_too_many_terms_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_ID", IDENTITY + 1999)
    dictionary = Dictionary()
    dictionary.encode("number", np.arange(2000) - 2000)
    with pytest.raises(EvaluationError, match=r"distinct terms of type number: term ids have 32 bits"):
        dictionary.encode("number", np.array([-1, -2001]))
    assert dictionary.values("number", dictionary.encode("number", np.array([-2000]))) == [-2000]


def test_nbytes_grows_with_the_terms() -> None:
    dictionary = Dictionary()
    before = dictionary.nbytes
    dictionary.encode("symbol", ["x" * 100_000])
    assert dictionary.nbytes >= before + 100_000


def test_the_fast_path_imports_nothing_heavy() -> None:
    program = """
import sys
import numpy as np, pyarrow as pa
from gpuengine.language.program import NUMBER, SYMBOL
from gpuengine.terms.dictionary import Dictionary
d = Dictionary()
d.to_arrow(NUMBER, d.encode("number", np.arange(1000)))
d.encode("number", pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(np.arange(3))]))
d.to_arrow(SYMBOL, d.encode("symbol", d.strings(d.encode("symbol", ["a", "b"]))))
heavy = {"pyarrow.compute", "pandas"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)
