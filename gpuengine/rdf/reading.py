"""Files of triples to columns of ids."""

from __future__ import annotations

import os

import numpy as np

from gpuengine.io.triples import Findings, Statements, read_statements
from gpuengine.io.triples.read import OnError
from gpuengine.kernels.cpu.triple_text import BLANK, NONE
from gpuengine.rdf.quads import NO_GRAPH, Quads, joined
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.text import Text, concatenate, from_offsets, single


def read_files(
    path: str | os.PathLike[str],
    dictionary: Dictionary,
    *,
    format: str | None,
    on_error: OnError,
    findings: Findings,
    scope: int,
    threads: int | None,
) -> tuple[Quads, int]:
    """The triples of files, and the scope of the next file: blank nodes of different files are kept apart."""
    parts = []
    last = scope
    for statements in read_statements(
        path, format=format, on_error=on_error, findings=findings, scope=scope, threads=threads
    ):
        parts.append(encoded(statements, dictionary))
        last = statements.scope
    return joined(parts), last + 1


def encoded(statements: Statements, dictionary: Dictionary) -> Quads:
    """Statements as ids, unknown terms interned."""
    columns = [_ids(statements, term, dictionary) for term in range(4)]
    return Quads((columns[0], columns[1], columns[2], columns[3]))


def _ids(statements: Statements, term: int, dictionary: Dictionary) -> np.ndarray:
    text = Text(statements.starts[term], statements.ends[term], statements.data)
    kinds = statements.kinds[term]
    blank, none = kinds == BLANK, kinds == NONE
    if not (blank.any() or none.any()):
        return dictionary.encode_text(text)
    ids = np.full(len(kinds), NO_GRAPH, np.uint32)
    plain = ~(blank | none)
    ids[plain] = dictionary.encode_text(text.take(plain))
    if blank.any():
        labels = text.take(blank)
        labels = Text(labels.starts + 2, labels.ends, labels.data)
        scoped = concatenate((single(f"_:f{statements.scope}."), labels), len(labels))
        ids[blank] = dictionary.encode_text(from_offsets(*scoped))
    return ids
