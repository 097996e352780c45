"""What tasks run: an engine over carriers, in a worker that was made ready for it."""

from __future__ import annotations

import os
import sys
import zipimport
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.evaluation.materialisation import Materialisation, evaluate
from gpuengine.evaluation.options import Options
from gpuengine.evaluation.placement.accelerator import find_accelerator
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.evaluation.progress import Progress
from gpuengine.kernels.cpu.jit import cache_directory
from gpuengine.language.program import Kind, Relation
from gpuengine.loading import encode_rule_facts
from gpuengine.machine import usable_cores
from gpuengine.planning.prepared import Prepared
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table, as_table
from gpuengine.spark_bridge.carriers import STRING, Carriers, column
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    import pyarrow as pa

_seen: dict[str, tuple[int, int]] = {}
"""Archives on the path, by what they were like (changed when, size) when they were last read."""


def prepare_worker() -> None:
    """Spare the tasks to come what this one had to do; call it first in each function for `mapInArrow`.

    Does nothing outside of a task, and only once in a worker.
    """
    if _task() is None:
        return
    _read_archives_once()
    _keep_kernels()


def task_threads() -> int:
    """How many threads an engine in this task may use: as many as the task has cores."""
    task = _task()
    return max(1, int(task.cpus())) if task is not None else usable_cores()


def task_memory() -> int:
    """How many bytes an engine in this task may use: its share by cores of what the machine has free."""
    cores = usable_cores()
    return Budget().limit * min(task_threads(), cores) // cores


def task_gpu() -> int | None:
    """The number, as CUDA counts in this process, of the GPU that Spark gave to this task, if it gave one.

    Spark names a GPU by its address on the machine, and leaves it to the task to use no other. RAPIDS and
    some cluster managers show a process its own GPUs only: then CUDA counts among these.
    """
    task = _task()
    gpu = None if task is None else task.resources().get("gpu")
    if gpu is None or not gpu.addresses:
        return None
    address = gpu.addresses[0].strip()
    visible = [each.strip() for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
    if address in visible:
        return visible.index(address)
    if len(visible) == 1:
        return 0
    return int(address) if address.isdigit() else None


def task_backend() -> tuple[str, int]:
    """Backend and device for an engine in this task: the GPU it was given if that can be used, or the CPU."""
    device = task_gpu()
    if device is not None and _can_use(device):
        return "cuda", device
    return "cpu", 0


@cache
def _can_use(device: int) -> bool:
    return find_accelerator("auto", device, None, None).open() is not None


def _task() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()


def _read_archives_once() -> None:
    """Make `importlib.invalidate_caches` read again only archives that changed.

    Spark calls it at the start of every task, and up to Python 3.11 it reads the directories of pyspark.zip
    and of Spark's jar on the path anew, once for each package of theirs: 0.1 s a task.
    """
    importer: Any = zipimport.zipimporter
    if sys.version_info >= (3, 12) or importer.invalidate_caches is _invalidate:
        return
    importer.original_invalidate_caches = importer.invalidate_caches
    importer.invalidate_caches = _invalidate


def _invalidate(importer: Any) -> None:
    try:
        state = Path(importer.archive).stat()
    except OSError:
        _seen.pop(importer.archive, None)
        importer.original_invalidate_caches()
        return
    now = (state.st_mtime_ns, state.st_size)
    files = zipimport._zip_directory_cache.get(importer.archive)  # type: ignore[attr-defined]
    if files is not None and _seen.get(importer.archive) == now:
        # Another importer of the same archive may have read it since.
        importer._files = files
        return
    importer.original_invalidate_caches()
    _seen[importer.archive] = now


def _keep_kernels() -> None:
    """Keep compiled kernels with the executor if the home folder can't be written, as those of YARN users.

    Every worker would compile them anew. The executor's own folder is private to its user; /tmp is not.
    """
    if "GPUENGINE_CACHE_DIR" in os.environ or _is_writable(cache_directory()):
        return
    from pyspark import SparkFiles

    os.environ["GPUENGINE_CACHE_DIR"] = str(Path(SparkFiles.getRootDirectory()) / "gpuengine-kernels")


def _is_writable(folder: Path) -> bool:
    """Could files be made in the folder, once it and those above it are made?"""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


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
        facts = Materialisation.empty(self.prepared)
        loaded, dictionary = facts.stated, facts.dictionary
        if self.facts:
            for name, own in encode_rule_facts(program.rules, dictionary).items():
                loaded[name].insert(*own)
        for name, pieces in tables.items():
            self.insert(loaded[name], pieces, dictionary)
        materialisation = evaluate(
            facts,
            Options.read(threads=threads, memory=memory, backend=backend, device=device),
            wanted=tuple(wanted),
            progress=progress or Progress(),
            stop=np.zeros(1, np.int64) if stop is None else stop,
        )
        assert materialisation.database is not None
        return Results(self, materialisation.database.tables, dictionary)

    def insert(
        self, facts: Table, pieces: Iterable[pa.Table | pa.RecordBatch], dictionary: Dictionary
    ) -> None:
        """Add carriers to the table of a relation."""
        relation = self.prepared.program.relations[facts.name]
        for piece in pieces:
            ids = self._encoded(relation, piece, dictionary)
            facts.insert(ids, piece.num_rows if ids or piece.num_rows == 0 else 1)

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
    """The facts of relations as carriers."""

    def __init__(self, carried: CarriedProgram, facts: Mapping[str, Scheme], dictionary: Dictionary) -> None:
        self._carried = carried
        self._facts = facts
        self._dictionary = dictionary

    def count(self, relation: str) -> int:
        return len(self._facts[relation])

    def table(self, relation: str) -> pa.Table:
        """All facts of a relation that has some."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(relation))

    def batches(self, relation: str, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The facts of a relation as frames of carriers have them, at most about `rows` at a time."""
        import pyarrow as pa

        declared = self._carried.prepared.program.relations[relation]
        scheme = self._facts[relation]
        if not declared.attributes:
            if len(scheme):
                yield pa.RecordBatch.from_arrays([pa.array([0], pa.int64())], names=[column(0)])
            return
        names = [column(j) for j in range(declared.arity)]
        for ids in _scanned(scheme, rows):
            yield pa.RecordBatch.from_arrays(carried_columns(declared, ids, self._dictionary), names=names)


def carried_columns(relation: Relation, ids: Sequence[np.ndarray], dictionary: Dictionary) -> list[pa.Array]:
    """Facts that an engine has as ids, as carriers."""
    import pyarrow as pa

    arrays = []
    for attribute, part in zip(relation.attributes, ids, strict=True):
        if attribute.type.kind is Kind.SYMBOL:
            arrays.append(dictionary.text(part).to_arrow(large=False))
        else:
            words = dictionary.values(attribute.type.space, part).view(np.int64)
            arrays.append(pa.Array.from_buffers(pa.int64(), len(part), [None, pa.py_buffer(words)]))
    return arrays


def _scanned(scheme: Scheme, rows: int) -> Iterator[list[np.ndarray]]:
    """The facts as columns of ids: slices of a table, pieces of any other scheme."""
    if not scheme.is_listed:
        yield from scheme.scan(room=rows)
        return
    columns = as_table(scheme).columns()
    for start in range(0, len(scheme), rows):
        yield [part[start : start + rows] for part in columns]


def _words(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A column of bigint without nulls as an int64 array; copies only if it is in several pieces."""
    array = values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(zero_copy_only=True)
    return np.ascontiguousarray(array)
