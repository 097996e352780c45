"""An engine over carriers: what tasks run, and the driver where facts are few.

A `CarriedProgram` is made on the driver, is sent to tasks with them, and there turns Arrow tables of
carriers into Arrow tables of carriers. Nothing of an evaluation is kept between two calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.evaluation.accelerator import find_accelerator
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.materialisation import Setting, evaluate
from gpuengine.evaluation.progress import Progress
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Kind, Relation
from gpuengine.loading import encode_rule_facts
from gpuengine.planning.prepared import Prepared
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.spark_bridge.carriers import STRING, Carriers, column
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1 << 18
"""Rows of a batch that a task hands to Spark: large enough to be cheap, small enough to be held twice."""


@dataclass(frozen=True)
class CarriedProgram:
    """Rules over carriers. `facts` says whether the program's own facts are loaded as well."""

    prepared: Prepared
    carriers: Carriers
    facts: bool = False

    def run(
        self,
        tables: Mapping[str, Iterable[pa.Table | pa.RecordBatch]],
        wanted: Sequence[str],
        *,
        threads: int = 1,
        memory: int | None = None,
        backend: str = "cpu",
        device: int = 0,
        progress: Progress | None = None,
        stop: np.ndarray | None = None,
    ) -> Results:
        """All consequences of the given carriers (rows may repeat); those of `wanted` can be read."""
        program = self.prepared.program
        dictionary = Dictionary(program)
        loaded = {name: Table(name, relation.arity, CPU) for name, relation in program.relations.items()}
        if self.facts:
            for name, own in encode_rule_facts(program.rules, dictionary).items():
                loaded[name].insert(*own)
        for name, pieces in tables.items():
            for piece in pieces:
                ids = self._encoded(program.relations[name], piece, dictionary)
                loaded[name].insert(ids, piece.num_rows if ids or piece.num_rows == 0 else 1)
        database = evaluate(
            self.prepared,
            loaded,
            dictionary,
            Setting(threads, memory, find_accelerator(backend, device, None, None), backend == "cuda"),
            wanted=tuple(wanted),
            progress=progress or Progress(),
            stop=np.zeros(1, np.int64) if stop is None else stop,
        )
        return Results(self, database)

    def _encoded(
        self, relation: Relation, piece: pa.Table | pa.RecordBatch, dictionary: Dictionary
    ) -> list[np.ndarray]:
        """Carriers as ids of the engine that runs here."""
        columns = []
        for position, attribute in enumerate(relation.attributes):
            values = piece.column(position)
            space = attribute.type.space
            if self.carriers.carrier(attribute.type) == STRING:
                columns.append(dictionary.encode(space, values))
            else:
                words = _words(values)
                if attribute.type.kind is Kind.UNSIGNED:
                    words = words.view(np.uint64)
                elif attribute.type.kind is Kind.FLOAT:
                    words = words.view(np.float64)
                columns.append(dictionary.encode_words(space, words))
        return columns


class Results:
    """What an evaluation derived, as carriers."""

    def __init__(self, carried: CarriedProgram, database: Database) -> None:
        self._carried = carried
        self._database = database

    def count(self, relation: str) -> int:
        return len(self._database.tables[relation])

    def batches(self, relation: str, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The facts of a relation as frames of carriers have them, at most about `rows` at a time."""
        import pyarrow as pa

        declared = self._carried.prepared.program.relations[relation]
        scheme = self._database.tables[relation]
        if not declared.attributes:
            if len(scheme):
                yield pa.RecordBatch.from_arrays([pa.array([0], pa.int64())], names=[column(0)])
            return
        names = [column(j) for j in range(declared.arity)]
        for ids in _scanned(scheme, rows):
            arrays = [
                self._carried_values(attribute.type.kind, attribute.type.space, part)
                for attribute, part in zip(declared.attributes, ids, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _carried_values(self, kind: Kind, space: str, ids: np.ndarray) -> pa.Array:
        import pyarrow as pa

        dictionary = self._database.dictionary
        if kind is Kind.SYMBOL:
            return dictionary.text(ids).to_arrow(large=False)
        words = dictionary.values(space, ids).view(np.int64)
        return pa.Array.from_buffers(pa.int64(), len(ids), [None, pa.py_buffer(words)])


def _scanned(scheme: Scheme, rows: int) -> Iterator[list[np.ndarray]]:
    """The facts as columns of ids: slices of a table, pieces of any other scheme."""
    if not isinstance(scheme, Table):
        yield from scheme.scan(room=rows)
        return
    columns = scheme.columns()
    for start in range(0, len(scheme), rows):
        yield [part[start : start + rows] for part in columns]


def _words(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A column of bigint without nulls as an int64 array; copies only if it is in several pieces."""
    array = values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(zero_copy_only=True)
    return np.ascontiguousarray(array)
