"""Triples with their graphs as columns of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuengine.errors import DataError
from gpuengine.io.triples.lines import BadLine, read_term, shortened
from gpuengine.language.program import SYMBOL, Constant
from gpuengine.rdf.graph import Terms
from gpuengine.rdf.terms import Blank, Iri, Literal, term_text
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.text import from_strings

NO_GRAPH = np.uint32(0xFFFFFFFF)
"""In the column of graphs: the default graph."""


class DictionaryTerms:
    """The terms of an engine, as `gpuengine.rdf.graph.Terms` has them."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary

    def lookup(self, text: str) -> int | None:
        return self._dictionary.find_constant(Constant(text, SYMBOL))

    def add(self, texts: Sequence[str]) -> np.ndarray:
        return self._dictionary.encode_text(from_strings(texts))

    def texts(self, ids: np.ndarray) -> list[str]:
        texts: list[str] = self._dictionary.strings(_as_ids(ids)).to_pylist()
        return texts

    @property
    def bound(self) -> int:
        """All ids are below it."""
        return self._dictionary.bound(SYMBOL.name)

    def are_literals(self, ids: np.ndarray) -> np.ndarray:
        """Which of the terms are literals."""
        text = self._dictionary.text(_as_ids(ids))
        return np.asarray(text.data[text.starts] == ord('"')) if len(ids) else np.zeros(0, np.bool_)

    def begin_with(self, ids: np.ndarray, prefix: str) -> np.ndarray:
        """Which of the terms begin with a text."""
        text = self._dictionary.text(_as_ids(ids))
        mask = text.ends - text.starts >= len(prefix)
        for place, byte in enumerate(prefix.encode()):
            rows = np.flatnonzero(mask)
            mask[rows] = text.data[text.starts[rows] + place] == byte
        return np.asarray(mask, np.bool_)

    def are_iris(self, ids: np.ndarray) -> np.ndarray:
        """Which of the terms are IRIs."""
        text = self._dictionary.text(_as_ids(ids))
        return np.asarray(text.data[text.starts] == ord("<")) if len(ids) else np.zeros(0, np.bool_)


def _as_ids(ids: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(ids, np.uint32)


@dataclass(frozen=True)
class Quads:
    """Subjects, predicates, objects and graphs: uint32 arrays of one length."""

    columns: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

    @property
    def rows(self) -> int:
        return len(self.columns[0])

    def within(self, graph: int) -> Quads:
        """Those of the default graph in a named one."""
        s, p, o, g = self.columns
        return Quads((s, p, o, np.where(g == NO_GRAPH, np.uint32(graph), g)))


def as_quads(data: Any, terms: Terms, *, check: bool = False) -> Quads:
    """Rows of three or four terms, as objects or as texts; or anything tabular with columns of texts.

    With `check`, raises `DataError` for what is no term, or can't be in its place.
    """
    columns = _text_columns(data)
    if len(columns) not in (3, 4):
        raise DataError(f"triples have 3 columns, or 4 with the graph, not {len(columns)}")
    if check:
        columns = [_checked(column, place) for column, place in zip(columns, _PLACES, strict=False)]
    ids = [terms.add(column) for column in columns[:3]]
    graph = np.full(len(ids[0]), NO_GRAPH, np.uint32)
    if len(columns) == 4:
        given = np.array([text is not None for text in columns[3]], np.bool_)
        if given.any():
            graph[given] = terms.add([text for text in columns[3] if text is not None])
    return Quads((ids[0], ids[1], ids[2], graph))


_PLACES = ("subject", "predicate", "object", "graph")


def _checked(column: Sequence[Any], place: str) -> list[str | None]:
    """The texts of terms in their one form."""
    texts: dict[Any, str | None] = {None: None} if place == "graph" else {}
    for given in dict.fromkeys(column):
        if given in texts:
            continue
        if not isinstance(given, str):
            row = next(row for row, one in enumerate(column, 1) if one is given)
            what = "null" if given is None else type(given).__name__
            raise DataError(f"row {row}: the {place} is {what}, not a text")
        try:
            texts[given] = read_term(given, place)
        except BadLine as error:
            row = column.index(given) + 1
            raise DataError(
                f"row {row}: the {place} {shortened(given)!r} is no term: {error}\n"
                '  hint: terms are written as in N-Triples: <http://example.org/a>, _:b, "text"@en'
            ) from None
    return [texts[given] for given in column]


def _text_columns(data: Any) -> list[Sequence[Any]]:
    if hasattr(data, "__arrow_c_stream__"):
        import pyarrow as pa

        return [column.to_pylist() for column in pa.table(data).columns]
    rows = list(data)
    if not rows:
        return [[], [], []]
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise DataError("triples have 3 columns, or 4 with the graph, all of them as many")
    return [[_as_text(term) for term in column] for column in zip(*rows, strict=True)]


def _as_text(term: Any) -> str | None:
    if term is None or isinstance(term, str):
        return term
    if isinstance(term, Iri | Blank | Literal):
        return term_text(term)
    raise DataError(f"a term is an Iri, a Blank, a Literal or its text, not {type(term).__name__}")


def distinct_ids(column: np.ndarray) -> np.ndarray:
    """The ids of a column, each once, in order."""
    met = np.zeros(int(column.max()) + 1 if column.size else 0, np.bool_)
    met[column] = True
    return np.flatnonzero(met).astype(np.uint32)


def joined(parts: Sequence[Quads]) -> Quads:
    """All triples of several."""
    if len(parts) == 1:
        return parts[0]
    empty = np.zeros(0, np.uint32)
    columns = [np.concatenate([empty, *(part.columns[j] for part in parts)]) for j in range(4)]
    return Quads((columns[0], columns[1], columns[2], columns[3]))
