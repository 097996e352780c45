"""Terms exported and restored: every id is what it was, also through a store and in several steps."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuengine.errors import StoreError
from gpuengine.language.program import FLOAT, NUMBER, SYMBOL, UNSIGNED
from gpuengine.maintenance.store import Commit, Snapshot, Store
from gpuengine.terms.dictionary import IDENTITY, Dictionary
from gpuengine.terms.persistence import TermColumns, export_terms, join_terms, restore_terms, term_counts
from tests.terms.test_records import LIST, MIXED, PROGRAM, TREE

TYPES = (NUMBER, UNSIGNED, FLOAT, SYMBOL, LIST, MIXED, TREE)


def fill(dictionary: Dictionary, rng: random.Random, rows: int) -> None:
    """Intern terms of every space; some are known already."""

    def ids(space: str) -> np.ndarray:
        return np.array([rng.randrange(dictionary.bound(space)) for _ in range(rows)], np.uint32)

    numbers = [rng.choice((rng.randrange(-50, 50), rng.getrandbits(63))) for _ in range(rows)]
    dictionary.encode("number", np.array(numbers, np.int64))
    dictionary.encode("unsigned", np.array([rng.getrandbits(64) for _ in range(rows)], np.uint64))
    floats = [rng.choice((0.0, -0.0, float("nan"), rng.random())) for _ in range(rows)]
    dictionary.encode("float", np.array(floats))
    dictionary.encode("symbol", ["", *("é" * rng.randrange(3) + str(rng.randrange(99)) for _ in range(rows))])
    dictionary.pack("List", None, [ids("number"), ids("List")])
    dictionary.pack("Tree", "Leaf", [], 1)
    dictionary.pack("Tree", "Node", [ids("Tree"), ids("symbol"), ids("Tree")])
    dictionary.pack("Mixed", None, [ids("symbol"), ids("unsigned"), ids("float"), ids("Tree")])


def shown(dictionary: Dictionary) -> dict[str, Any]:
    """What each id of each space means."""
    result: dict[str, Any] = {}
    for type_ in TYPES:
        space = type_.space
        first = IDENTITY if type_ in (NUMBER, UNSIGNED) else 0
        ids = np.arange(first, dictionary.bound(space), dtype=np.uint32)
        values = dictionary.to_arrow(type_, ids).to_pylist()
        result[space] = [struct.pack("d", value) for value in values] if type_ == FLOAT else values
    return result


def test_a_new_dictionary_has_no_terms() -> None:
    assert set(term_counts(Dictionary(PROGRAM)).values()) == {0}
    assert export_terms(Dictionary(PROGRAM), {}) == {}


@pytest.mark.parametrize("rows", [1, 40, 3000])
def test_ids_stay(rows: int) -> None:
    dictionary, copy = Dictionary(PROGRAM), Dictionary(PROGRAM)
    fill(dictionary, random.Random(rows), rows)
    restore_terms(copy, export_terms(dictionary, {}))
    assert term_counts(copy) == term_counts(dictionary) and shown(copy) == shown(dictionary)
    fill(dictionary, random.Random(7), 20)
    fill(copy, random.Random(7), 20)
    assert shown(copy) == shown(dictionary), "both go on alike"


def test_steps_through_a_store(tmp_path: Path) -> None:
    rng, dictionary = random.Random(3), Dictionary(PROGRAM)
    fill(dictionary, rng, 5)
    Store.create(tmp_path, Snapshot({}, export_terms(dictionary, {}), {}))
    counts = term_counts(dictionary)
    for step in range(12):
        fill(dictionary, rng, rng.choice((1, 200)))
        with Store.open(tmp_path) as store:
            store.commit(Commit({}, export_terms(dictionary, counts), None))
            if step % 3 == 2:
                store.compact()
            copy = Dictionary(PROGRAM)
            restore_terms(copy, store.load().terms)
        counts = term_counts(dictionary)
        assert term_counts(copy) == counts and shown(copy) == shown(dictionary)


def test_exports_do_not_change_when_the_dictionary_grows() -> None:
    dictionary, rng = Dictionary(PROGRAM), random.Random(5)
    fill(dictionary, rng, 50)
    exported, before = export_terms(dictionary, {}), shown(dictionary)
    fill(dictionary, rng, 5000)
    copy = Dictionary(PROGRAM)
    restore_terms(copy, exported)
    assert shown(copy) == before


def test_parts_join() -> None:
    dictionary, rng = Dictionary(PROGRAM), random.Random(6)
    parts: dict[str, list[TermColumns]] = {}
    counts: dict[str, int] = {}
    for _ in range(4):
        fill(dictionary, rng, 30)
        for space, columns in export_terms(dictionary, counts).items():
            parts.setdefault(space, []).append(columns)
        counts = term_counts(dictionary)
    copy = Dictionary(PROGRAM)
    restore_terms(copy, {space: join_terms(columns) for space, columns in parts.items()})
    assert shown(copy) == shown(dictionary)


def test_terms_that_can_not_be_restored() -> None:
    dictionary = Dictionary(PROGRAM)
    fill(dictionary, random.Random(8), 10)
    terms = export_terms(dictionary, {})
    with pytest.raises(StoreError, match="'List', which the program does not declare"):
        restore_terms(Dictionary(), {"List": terms["List"]})
    with pytest.raises(StoreError, match="already has"):
        restore_terms(dictionary, {"symbol": terms["symbol"]})
    with pytest.raises(StoreError, match="begin with number 3, but the dictionary already has 0"):
        restore_terms(Dictionary(), {"symbol": replace(terms["symbol"], begin=3)})
    with pytest.raises(StoreError, match="of another shape"):
        restore_terms(Dictionary(), {"symbol": terms["number"]})
    wider = replace(terms["List"], arrays=(np.zeros((terms["List"].count, 3), np.uint32),))
    with pytest.raises(StoreError, match="of another shape"):
        restore_terms(Dictionary(PROGRAM), {"List": wider})
    offsets, data = terms["symbol"].arrays
    with pytest.raises(StoreError, match="overlap or leave gaps"):
        restore_terms(Dictionary(), {"symbol": replace(terms["symbol"], arrays=(offsets + 1, data))})


@pytest.mark.parametrize(
    ("space", "array"),
    [
        ("number", np.array([IDENTITY, IDENTITY], np.uint64)),
        ("number", np.array([5], np.uint64)),
        ("float", np.array([1, 2, 1], np.uint64)),
        ("List", np.array([[1, 0], [1, 0]], np.uint32)),
    ],
)
def test_terms_that_get_other_ids(space: str, array: np.ndarray) -> None:
    kind: Any = "rows" if space == "List" else "words"
    with pytest.raises(StoreError, match="not distinct"):
        restore_terms(Dictionary(PROGRAM), {space: TermColumns(kind, 0, len(array), (array,))})


def test_programs_with_more_types_take_the_terms_of_those_with_fewer() -> None:
    dictionary = Dictionary()
    dictionary.encode("symbol", ["a", "b"])
    copy = Dictionary(PROGRAM)
    restore_terms(copy, export_terms(dictionary, {}))
    assert copy.bound("symbol") == 2
