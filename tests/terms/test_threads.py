"""Large columns of text, interned a piece at a time and side by side: every string has one id."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

import gpuengine
from gpuengine import loading
from gpuengine.errors import DataError
from gpuengine.terms import tables
from gpuengine.terms.dictionary import Dictionary

ROWS = 300_000


def names(seed: int, distinct: int, rows: int = ROWS) -> list[str]:
    numbers = np.random.default_rng(seed).integers(0, distinct, rows)
    return [f"{'long ' * (n % 5)}{n}" for n in numbers.tolist()]


@pytest.mark.parametrize("distinct", [1, 700, 40_000, 10_000_000])
def test_ids_are_in_order_of_first_sight_however_often_strings_come(distinct: int) -> None:
    values = names(1, distinct)
    found = Dictionary().encode("symbol", pa.array(values)).tolist()
    order = {value: id for id, value in enumerate(dict.fromkeys(values))}
    assert found == [order[value] for value in values]


def test_strings_that_only_then_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_PIECE", 100)
    values = [*(["a", "b"] * 200), *(f"n{i}" for i in range(1000)), *(["a", "c"] * 500), "d", "a"]
    found = Dictionary().encode("symbol", pa.array(values)).tolist()
    order = {value: id for id, value in enumerate(dict.fromkeys(values))}
    assert found == [order[value] for value in values]


def test_threads_that_intern_the_same_strings_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_PIECE", 1000)
    dictionary = Dictionary()
    given = [names(seed, 30_000, 60_000) for seed in range(4)]
    found: dict[int, list[int]] = {}

    def encode(number: int) -> None:
        found[number] = dictionary.encode("symbol", pa.array(given[number])).tolist()

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids: dict[str, int] = {}
    for number, values in enumerate(given):
        for value, id in zip(values, found[number], strict=True):
            assert ids.setdefault(value, id) == id
    assert sorted(ids.values()) == list(range(len(ids)))
    assert dictionary.strings(np.arange(len(ids), dtype=np.uint32)).to_pylist() == sorted(
        ids, key=ids.__getitem__
    )


PROGRAM = ".decl a(s: symbol, t: symbol, n: number)\n.decl d(s: symbol, n: number)\nd(s, n) :- a(s, _, n).\n"


def test_columns_are_encoded_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[int] = set()
    both = threading.Barrier(2, timeout=60)
    encode = Dictionary.encode

    def noted(self: Dictionary, space: str, values: pa.Array) -> np.ndarray:
        if space == "symbol":
            used.add(threading.get_ident())
            both.wait()
        return encode(self, space, values)

    monkeypatch.setattr(Dictionary, "encode", noted)
    engine = gpuengine.Engine(PROGRAM, threads=2)
    first, second = names(5, 5000), names(6, 200_000)
    engine.load("a", pa.table({"s": first, "t": second, "n": np.arange(ROWS)}))
    monkeypatch.undo()
    assert len(used) == 2 and threading.get_ident() not in used
    engine.materialise()
    assert set(engine["a"]) == set(zip(first, second, range(ROWS), strict=True))
    assert set(engine["d"]) == set(zip(first, range(ROWS), strict=True))


def test_a_null_in_a_column_of_several_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_MANY_ROWS", 1)
    engine = gpuengine.Engine(PROGRAM, threads=2)
    with pytest.raises(DataError, match="2"):
        engine.load("a", pa.table({"s": ["x", "y"], "t": ["x", None], "n": [1, 2]}))
    engine.materialise()
    assert len(engine["a"]) == 0
