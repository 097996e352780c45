"""Triples to files: N-Triples, N-Quads, Turtle, TriG, Parquet; text also compressed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.replacing import Replacement
from gpuengine.terms.text import concatenate, single

if TYPE_CHECKING:
    from gpuengine.rdf.engine import RdfEngine
    from gpuengine.relation import RelationView

FORMATS = ("nt", "nq", "ttl", "trig", "parquet")
SUFFIXES = (*FORMATS, "nt.gz", "nq.gz", "ttl.gz", "trig.gz", "nt.zst", "nq.zst", "ttl.zst", "trig.zst")
"""What names of files end in."""

_CODECS = {"gz": "gzip", "zst": "zstd"}
_ROWS = 1 << 18


def write_file(
    kb: RdfEngine,
    path: Path,
    format: str | None = None,
    among: Replacement | None = None,
    *,
    expand: bool = True,
) -> int:
    """Write all triples that are shown; how many. Formats without graphs have those of the default graph.

    The file appears when it is complete, `among` others when those are. Raises `DataError`.
    """
    if among is None:
        with Replacement() as alone:
            rows = write_file(kb, path, format, alone, expand=expand)
            alone.finish()
        return rows
    suffix = suffix_of(path, format)
    with among.file(path) as sink:
        return write(kb, sink, suffix, expand=expand)


def suffix_of(path: Path, format: str | None) -> str:
    """Which of `SUFFIXES` tells how to write a file."""
    ends = format or next((name for name in sorted(SUFFIXES, key=len) if path.name.endswith(f".{name}")), "")
    if ends not in SUFFIXES:
        raise DataError(
            f"{path}: the name does not tell how to write triples\n  hint: end it in .{', .'.join(SUFFIXES)}"
        )
    return ends


def write(kb: RdfEngine, sink: BinaryIO, suffix: str, *, expand: bool = True) -> int:
    """Write all triples that are shown to a stream, as one of `SUFFIXES` says; how many.

    `expand` is that of `RdfEngine.triples`.
    """
    form, _, codec = suffix.partition(".")
    if form == "parquet":
        return _write_parquet(kb, sink, expand)
    views = [kb.triples(expand=expand), *([kb.quads()] if form in ("nq", "trig") else ())]
    rows = 0
    with _compressed(sink, codec) as out:
        if form in ("nt", "nq"):
            for lines, count in _lines(kb, views, in_order=False):
                out.write(lines)
                rows += count
        else:
            counts: list[int] = []
            _write_by_pyoxigraph(kb, views, out, form, counts)
            rows = sum(counts)
    return rows


@contextmanager
def _compressed(sink: BinaryIO, codec: str) -> Iterator[Any]:
    if not codec:
        yield sink
        return
    with pa.CompressedOutputStream(pa.PythonFile(sink, "w"), _CODECS[codec]) as out:
        yield out


def _columns(views: Sequence[RelationView], *, in_order: bool) -> Iterator[list[np.ndarray]]:
    """The triples as columns of ids, those of named graphs with a fourth."""
    for view in views:
        columns = view.id_columns()
        if in_order:
            order = np.lexsort(columns[::-1])
            columns = [column[order] for column in columns]
        for start in range(0, len(columns[0]), _ROWS):
            yield [column[start : start + _ROWS] for column in columns]


def _lines(
    kb: RdfEngine, views: Sequence[RelationView], *, in_order: bool
) -> Iterator[tuple[memoryview, int]]:
    """The triples as lines of N-Quads, in pieces."""
    space, end = single(" "), single(" .\n")
    for columns in _columns(views, in_order=in_order):
        parts = [part for column in columns for part in (kb.dictionary.text(column), space)]
        _, data = concatenate((*parts[:-1], end), len(columns[0]))
        yield data.data, len(columns[0])


def _write_by_pyoxigraph(
    kb: RdfEngine, views: Sequence[RelationView], out: Any, form: str, counts: list[int]
) -> None:
    def pieces() -> Iterator[bytes]:
        for lines, count in _lines(kb, views, in_order=True):
            counts.append(count)
            yield bytes(lines)

    out.write(turtle(pieces(), form, kb.prefixes))


def turtle(pieces: Iterable[bytes], form: str, prefixes: Mapping[str, str]) -> bytes:
    """N-Quads as Turtle ("ttl") or TriG; triples of one subject that follow each other stand together.

    Raises `DataError` without pyoxigraph.
    """
    try:
        import pyoxigraph
    except ImportError as error:
        raise DataError(
            'Turtle and TriG need pyoxigraph\n  hint: pip install "gpuengine[rdf]", or write N-Triples'
        ) from error
    formats = {"ttl": pyoxigraph.RdfFormat.TURTLE, "trig": pyoxigraph.RdfFormat.TRIG}

    def statements() -> Iterator[Any]:
        for lines in pieces:
            for quad in pyoxigraph.parse(lines, pyoxigraph.RdfFormat.N_QUADS, lenient=True):
                yield quad.triple if form == "ttl" else quad

    written = pyoxigraph.serialize(statements(), format=formats[form], prefixes=_prefixes(prefixes))
    return bytes(written or b"")


def _prefixes(prefixes: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(prefixes.items()))


def _write_parquet(kb: RdfEngine, sink: BinaryIO, expand: bool) -> int:
    """Columns s, p, o, and g where there are named graphs: null in the default graph."""
    import pyarrow.parquet

    names = ["s", "p", "o"] if not len(kb.quads()) else ["s", "p", "o", "g"]
    schema = pa.schema([pa.field(name, pa.large_string()) for name in names])
    rows = 0
    views = [kb.triples(expand=expand), kb.quads()]
    with pyarrow.parquet.ParquetWriter(sink, schema) as writer:
        for columns in _columns(views, in_order=False):
            arrays = [kb.dictionary.strings(column) for column in columns]
            arrays += [pa.nulls(len(columns[0]), pa.large_string())] * (len(names) - len(arrays))
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            rows += len(columns[0])
    return rows
