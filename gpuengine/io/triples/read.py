"""Statements of files of RDF, block by block, the text of their terms in its final form.

A block of N-Triples or N-Quads is read and scanned by a kernel, one ahead on another thread; lines that it
leaves are read one by one. What pyoxigraph reads comes as N-Quads, in batches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gpuengine.errors import DataError
from gpuengine.io.locate import STDIN
from gpuengine.io.schema import MAX_MESSAGES
from gpuengine.io.triples.files import opened, rdf_files, settled_format, xml_error_place, xml_head
from gpuengine.io.triples.lines import BadLine, read_line
from gpuengine.limits import charge, check

OnError = Literal["fail", "skip"]
SUBJECT, GRAPH = 0, 3
_BLOCK = 1 << 22
_PIECE = 1 << 15
"""So many statements are found at a time."""
_BATCH = 50_000
_REMOTE = "LoadDocumentCallback"
"""What pyoxigraph says where a context would have to be fetched."""
_PLACE = re.compile(r"^Parser error (at|between) line \d+ column \d+( and line \d+ column \d+)?: ")


@dataclass
class Findings:
    """What was seen beside statements: bad lines left out, the first few described, and prefixes."""

    rows: int = 0
    first_errors: list[str] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Statements:
    """Term t of statement i is ``data[starts[t][i]:ends[t][i]]``, of a kind of `kernels.cpu.triple_text`.

    `scope` tells apart the files that blank nodes are from.
    """

    data: np.ndarray
    starts: list[np.ndarray]
    ends: list[np.ndarray]
    kinds: list[np.ndarray]
    scope: int

    @property
    def rows(self) -> int:
        return len(self.starts[0])


def read_statements(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    on_error: OnError = "fail",
    findings: Findings | None = None,
    scope: int = 0,
    threads: int | None = None,
) -> Iterator[Statements]:
    """The statements of a file, of the files of a folder, or of those that a glob matches.

    Each file has its own scope, counted from `scope` on. Raises `DataError` with file, line and column; with
    ``skip``, bad lines of N-Triples and N-Quads are left out and counted in `findings`.
    """
    findings = findings if findings is not None else Findings()
    for number, file in enumerate(rdf_files(Path(path).expanduser()), scope):
        kind = settled_format(file, format)
        reading = _Reading(file, kind, on_error, findings, number)
        with opened(file) as stream:
            if kind in ("nt", "nq"):
                yield from reading.scanned(_blocks(stream, file), threads)
            else:
                yield from reading.scanned(_by_pyoxigraph(stream, file, kind, findings.prefixes), 1)


def _blocks(stream: Any, path: Path) -> Iterator[bytearray]:
    """The bytes of a stream, cut behind line feeds; the last block ends with one too."""
    waiting: list[bytes] = []
    while chunk := stream.read(_BLOCK):
        check(f"reading {path}")
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            waiting.append(chunk)
            charge(sum(map(len, waiting)), f"a line of {path}")
            continue
        yield bytearray().join([*waiting, chunk[:cut]])
        waiting = [chunk[cut:]]
    rest = bytearray().join(waiting)
    if rest:
        rest += b"\n"
        yield rest


def _by_pyoxigraph(stream: Any, path: Path, kind: str, prefixes: dict[str, str]) -> Iterator[bytearray]:
    """The statements of another format as blocks of N-Quads."""
    try:
        import pyoxigraph
    except ImportError as error:
        raise DataError(
            f"{path}: only N-Triples and N-Quads can be read without pyoxigraph\n"
            '  hint: pip install "gpuengine[rdf]"'
        ) from error
    formats = {
        "ttl": pyoxigraph.RdfFormat.TURTLE,
        "trig": pyoxigraph.RdfFormat.TRIG,
        "rdf": pyoxigraph.RdfFormat.RDF_XML,
        "jsonld": pyoxigraph.RdfFormat.JSON_LD,
    }
    base = None if path == STDIN else path.absolute().as_uri()
    source: Any = _Replayed(xml_head(stream, path) if kind == "rdf" else b"", stream)
    try:
        statements = pyoxigraph.parse(source, formats[kind], base_iri=base)
        while batch := list(islice(statements, _BATCH)):
            check(f"reading {path}")
            yield bytearray(pyoxigraph.serialize(batch, format=pyoxigraph.RdfFormat.N_QUADS) or b"")
        prefixes |= statements.prefixes
    except (SyntaxError, ValueError) as error:
        raise _told(error, path, kind) from error


def _told(error: SyntaxError | ValueError, path: Path, kind: str) -> DataError:
    """What pyoxigraph says is wrong with a file, and where."""
    message = str(getattr(error, "msg", None) or error)
    if _REMOTE in message:
        return DataError(
            f"{path}: it names a context elsewhere, and those are not fetched\n"
            "  hint: write the context into the file"
        )
    place = (error.lineno, error.offset) if isinstance(error, SyntaxError) and error.lineno else None
    if place is None and kind == "rdf":
        place = xml_error_place(path)
    where = str(path) if place is None else f"{path}:{place[0]}:{place[1]}"
    return DataError(f"{where}: {_PLACE.sub('', message)}")


class _Replayed:
    """A stream whose beginning was looked at."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if self._head:
            taken = self._head if size < 0 else self._head[:size]
            self._head = self._head[len(taken) :]
            return taken
        return bytes(self._stream.read(_BLOCK if size < 0 else size))


class _Reading:
    """One file."""

    def __init__(self, path: Path, kind: str, on_error: OnError, findings: Findings, scope: int) -> None:
        self._path = path
        self._kind = kind
        self._on_error = on_error
        self._findings = findings
        self._scope = scope
        self._lines = 0

    def scanned(self, blocks: Iterable[bytearray], threads: int | None) -> Iterator[Statements]:
        """The statements of blocks, in order, each block read and scanned while the one before is used."""
        scans = ((block, _scan(block)) for block in blocks)
        if threads == 1:
            for block, scan in scans:
                yield from self._settled(block, scan)
            return
        limits = copy_context()

        def following() -> tuple[bytearray, _Scan] | None:
            return limits.run(lambda: next(scans, None))

        with ThreadPoolExecutor(1) as pool:
            ahead = pool.submit(following)
            while (scanned := ahead.result()) is not None:
                ahead = pool.submit(following)
                yield from self._settled(*scanned)

    def _settled(self, block: bytearray, scan: _Scan) -> Iterator[Statements]:
        """The statements of a block, with those of the lines that were left."""
        while scan.bad_text is not None:
            at = scan.bad_text
            start, stop = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
            self._wrong(block, start, "this is not UTF-8 text", at - start + 1)
            block[start:stop] = b"#" * (stop - start)
            scan = _scan(block)
        for piece in scan.pieces:
            statements = piece.statements(scan.data, self._scope)
            if self._kind == "nt" and statements.rows:
                statements = self._without_graphs(block, statements)
            if statements.rows:
                yield statements
        rows = []
        for start, stop in scan.left:
            try:
                rows.append(read_line(block[start:stop].decode(), with_graph=self._kind != "nt"))
            except BadLine as error:
                self._wrong(block, start, str(error), error.column)
        if rows:
            yield _of_rows(rows, self._scope)
        self._lines += scan.lines

    def _without_graphs(self, block: bytearray, statements: Statements) -> Statements:
        from gpuengine.kernels.cpu.triple_text import NONE

        in_graph = statements.kinds[GRAPH] != NONE
        if not in_graph.any():
            return statements
        for row in np.flatnonzero(in_graph):
            start = block.rfind(b"\n", 0, int(statements.starts[SUBJECT][row])) + 1
            column = int(statements.starts[GRAPH][row]) - start + 1
            self._wrong(
                block, start, "expected a full stop after the object: N-Triples has no graphs", column
            )
        kept = ~in_graph
        starts, ends, kinds = (
            [c[kept] for c in columns] for columns in (statements.starts, statements.ends, statements.kinds)
        )
        return Statements(statements.data, starts, ends, kinds, statements.scope)

    def _wrong(self, block: bytearray, start: int, reason: str, column: int) -> None:
        line = self._lines + block.count(b"\n", 0, start) + 1
        where = f"{self._path}:{line}:{column}" if self._kind in ("nt", "nq") else str(self._path)
        if self._on_error == "fail":
            raise DataError(f"{where}: {reason}")
        self._findings.rows += 1
        if len(self._findings.first_errors) < MAX_MESSAGES:
            self._findings.first_errors.append(f"{where}: {reason}")


@dataclass(frozen=True)
class _Piece:
    """Some statements as the kernel wrote them down: `room` places for each of their terms."""

    rows: int
    room: int
    starts: np.ndarray
    ends: np.ndarray
    kinds: np.ndarray

    def statements(self, data: np.ndarray, scope: int) -> Statements:
        places = [slice(term * self.room, term * self.room + self.rows) for term in range(4)]
        starts, ends, kinds = (
            [column[place] for place in places] for column in (self.starts, self.ends, self.kinds)
        )
        return Statements(data, starts, ends, kinds, scope)


@dataclass
class _Scan:
    """What the kernel found in a block; if there is `bad_text`, no UTF-8, it was not asked."""

    data: np.ndarray
    bad_text: int | None = None
    pieces: list[_Piece] = field(default_factory=list)
    left: list[tuple[int, int]] = field(default_factory=list)
    lines: int = 0


def _scan(block: bytearray) -> _Scan:
    from gpuengine.kernels.cpu import triple_text as kernel

    data = np.frombuffer(block, np.uint8)
    if len(data) and data.max() >= 128:
        try:
            block.decode()
        except UnicodeDecodeError as error:
            return _Scan(data, error.start)
    scan = _Scan(data)
    state = np.zeros(kernel.STATE, np.int64)
    while (begin := int(state[kernel.STOPPED])) < len(data):
        room = min(_PIECE, len(data) - begin)
        charge(room * 4 * 17, "terms of triples")
        starts, ends = np.empty(4 * room, np.int64), np.empty(4 * room, np.int64)
        kinds, left = np.empty(4 * room, np.uint8), np.empty(2 * room, np.int64)
        rows = kernel.scan_quads(
            data, begin, len(data), room, kernel.CLASSES, kernel.XSD_STRING, len(kernel.XSD_STRING), starts,
            ends, kinds, left, state,
        )  # fmt: skip
        scan.pieces.append(_Piece(int(rows), room, starts, ends, kinds))
        scan.left += [
            (start, stop) for start, stop in left[: 2 * int(state[kernel.LEFT])].reshape(-1, 2).tolist()
        ]
        scan.lines += int(state[kernel.FEEDS])
    return scan


def _of_rows(rows: list[tuple[str, str, str, str | None]], scope: int) -> Statements:
    """Statements of terms that are in their final form."""
    from gpuengine.kernels.cpu.triple_text import BLANK, IRI, LITERAL, NONE

    encoded = [(text or "").encode() for row in rows for text in row]
    ends = np.cumsum([len(text) for text in encoded])
    starts = np.concatenate(([0], ends[:-1]))
    kinds = np.array(
        [
            NONE
            if not text
            else IRI
            if text.startswith(b"<")
            else LITERAL
            if text.startswith(b'"')
            else BLANK
            for text in encoded
        ],
        np.uint8,
    )
    data = np.frombuffer(b"".join(encoded) or b"\n", np.uint8)
    by_term = [
        [np.ascontiguousarray(column[term::4]) for term in range(4)] for column in (starts, ends, kinds)
    ]
    return Statements(data, by_term[0], by_term[1], by_term[2], scope)
