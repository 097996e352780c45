"""A recursion by tasks that keep their share of its facts, and tell each other in each round what is new.

One job does all rounds. In each, every task evaluates the delta variants over its copies (see `shares`),
sends what it derived to whose copies it belongs in, and takes in what it is sent; when nobody got anything
new, all are at the fixpoint. Tasks run at the same time, as those of a barrier stage do: if one dies, Spark
begins the stage again.
"""

from __future__ import annotations

import json
import re
import secrets
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gpuengine import errors
from gpuengine.errors import GpuEngineError, MemoryBudgetError, ProgramErrors, SparkError
from gpuengine.evaluation.driver.stratum import StratumEvaluation
from gpuengine.evaluation.fixpoint import evaluate_share
from gpuengine.evaluation.options import Options
from gpuengine.evaluation.placement.placement import Placement
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.database import Database
from gpuengine.planning.plan import Plan, Stratum
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.strata import delta_variants
from gpuengine.schemes.table import Table, as_table
from gpuengine.spark_bridge.carriers import STRING, column
from gpuengine.spark_bridge.connect import is_connect
from gpuengine.spark_bridge.decomposition import Layout
from gpuengine.spark_bridge.frames import Held, broadcast_table, read_broadcast
from gpuengine.spark_bridge.mesh import Mesh, MeshError
from gpuengine.spark_bridge.shares import BY_ROW, EVERYWHERE, Copy, Shares, derived
from gpuengine.spark_bridge.tasks import CarriedProgram, Results, carried_columns
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.text import Text, from_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MESSAGE_ROWS = 1 << 19
"""So many facts of a relation at most are in the messages of one swap: they are held twice meanwhile."""

MOST_TASKS = 256
"""Each has a connection to all others."""

_HASHED_BYTES = 64
"""The last so many bytes of a text say where it belongs: names in data often begin alike."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_WEIGHTS = np.random.default_rng(7).integers(1 << 62, 1 << 63, _HASHED_BYTES, np.uint64) | np.uint64(1)

_DATA, _FAILED = b"d", b"f"
_FRAME = struct.Struct("<IQ")  # number of the copy, length of an Arrow stream


class Exchanging(Protocol):
    """What `Mesh` does."""

    rank: int
    count: int
    sent_bytes: int

    def swap(self, messages: Sequence[bytes]) -> Sequence[bytes | bytearray]:
        """Send each rank its message, and return what each of them sent to this one."""


class Failed(Exception):
    """A task has failed, so all end; what it raised is told by `kind` and text, and a note by its rule."""

    def __init__(self, kind: str, text: str, notes: Sequence[str]) -> None:
        super().__init__(text)
        self.kind, self.text, self.notes = kind, text, tuple(notes)


@dataclass
class ShareRun:
    """The share that one task has in a recursion, and how far it is.

    `rounds` has for each round so far the new facts of all tasks by relation, seconds, and the bytes that
    all sent.
    """

    shares: Shares
    carried: CarriedProgram
    mesh: Exchanging
    threads: int = 1
    memory: int | None = None
    rounds: list[tuple[dict[str, int], float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.carried = replace(self.carried, prepared=_local(self.carried.prepared, self.shares))
        program = self.carried.prepared.program
        self.dictionary = Dictionary(program)
        self.database = Database(program, self.dictionary)
        self._told = dict.fromkeys(self.shares.copies, 0)
        self._began = time.perf_counter()
        self._loads = True
        options = Options.read(threads=self.threads, memory=self.memory, backend="cpu", modules=False)
        copies = [copy.name for name in self.shares.growing for copy in self.shares.copies[name]]
        members = frozenset(copies)
        variants = tuple(variant for rule in self.shares.rules for variant in delta_variants(rule, members))
        names = (*copies, *(derived(name) for name in self.shares.growing))
        stratum = Stratum(0, names, (), variants)
        self.context = Context(
            Plan(program, (stratum,), (), ()),
            self.database,
            options,
            Progress(),
            Placement(options.accelerator),
        )
        self.context.name_rules()
        self.stratum = StratumEvaluation(stratum, self.context)

    def table(self, name: str) -> Table:
        return as_table(self.database.tables[name])

    def run(
        self,
        given: Iterable[tuple[str, pa.RecordBatch]],
        sent: Mapping[str, Iterable[pa.Table | pa.RecordBatch]],
    ) -> None:
        """To the fixpoint, from facts that this task was `given` to share out, and those `sent` to all.

        If a task fails, `Failed` is raised by all of them, at the same time.
        """
        try:
            for name, pieces in sent.items():
                self._insert(name, pieces)
                self.table(name).settle()
            for name, piece in given:
                self._insert(derived(name), [piece])
            with self.stratum.failing_by_rule():
                evaluate_share(self.stratum, self._exchange)
        except (Failed, MeshError):
            raise
        except Exception as error:
            # The others wait for a message of this task, wherever they are.
            failed = Failed(type(error).__name__, str(error), getattr(error, "__notes__", ()))
            text = json.dumps([failed.kind, failed.text, failed.notes]).encode()
            self.mesh.swap([_FAILED + text] * self.mesh.count)
            raise failed from error
        finally:
            self.context.workers.close()

    def facts(self, relation: str) -> Iterator[pa.RecordBatch]:
        """This task's part of all facts of a relation."""
        copy = self.shares.copies[relation][0]
        if copy.column != EVERYWHERE or self.mesh.rank == 0:
            yield from Results(self.carried, self.database.tables, self.dictionary).batches(copy.name)

    # -- between rounds ----------------------------------------------------------------------------

    def _exchange(self) -> bool:
        """Share out what was derived since the last time; did any task get anything new?"""
        counted = [copies[0] for copies in self.shares.copies.values()]
        before = {copy: len(self.table(copy.name)) for copy in counted}
        sent = self.mesh.sent_bytes
        goes_on = True
        while goes_on:
            received = self._swap(self._messages())
            goes_on = any(message[0] for message in received)
            for rank, message in enumerate(received):
                if rank != self.mesh.rank:
                    self._take(message[1:])
        if self._loads:
            self._end_loading()
        new = [
            len(self.table(copy.name)) - before[copy]
            if copy.column != EVERYWHERE or self.mesh.rank == 0
            else 0
            for copy in counted
        ]
        totals = self._sums([*new, self.mesh.sent_bytes - sent])
        self._note(dict(zip(self.shares.copies, totals, strict=False)), totals[-1])
        return any(totals[: len(new)])

    def _end_loading(self) -> None:
        """The facts of lower relations are shared out by now, and do not change any more."""
        self._loads = False
        for name, copies in self.shares.copies.items():
            if name not in self.shares.growing:
                for copy in copies:
                    self.table(copy.name).settle()
                self.database.tables[derived(name)] = Table(derived(name), self.table(derived(name)).arity)

    def _note(self, new: dict[str, int], sent: int) -> None:
        now = time.perf_counter()
        self.rounds.append((new, now - self._began, sent))
        self._began = now

    def _messages(self) -> list[bytes]:
        """The next facts for each task, `MESSAGE_ROWS` of a relation at most, and whether there are more."""
        parts: list[list[bytes]] = [[] for _ in range(self.mesh.count)]
        has_more, number = False, 0
        for name, copies in self.shares.copies.items():
            table = self.table(derived(name))
            start, end = self._told[name], min(len(table), self._told[name] + MESSAGE_ROWS)
            self._told[name] = end
            has_more |= end < len(table)
            for copy in copies:
                if start < end:
                    self._share_out(copy, number, start, end, parts)
                number += 1
        head = _DATA + bytes([has_more])
        return [b"".join([head, *part]) for part in parts]

    def _share_out(self, copy: Copy, number: int, start: int, end: int, parts: list[list[bytes]]) -> None:
        """Add derived rows to what each task is sent for its copies, and take this task's own."""
        import pyarrow as pa

        relation = self.carried.prepared.program.relations[copy.name]
        ids = [part[start:end] for part in self.table(derived(copy.relation)).columns()]
        arrays = carried_columns(relation, ids, self.dictionary) or [pa.array([0], pa.int64())]
        own = self.table(copy.name)
        if copy.column == EVERYWHERE:
            message = _framed(number, arrays)
            for rank, part in enumerate(parts):
                if rank != self.mesh.rank:
                    part.append(message)
            own.insert(ids, end - start)
            return
        to = destinations(arrays, copy.column, self.mesh.count)
        order = np.argsort(to, kind="stable")
        borders = np.searchsorted(to[order], np.arange(self.mesh.count + 1))
        moved = [array.take(pa.array(order)) for array in arrays]
        for rank, (first, last) in enumerate(pairwise(borders)):
            if rank == self.mesh.rank:
                rows = order[first:last]
                own.insert([part[rows] for part in ids], len(rows))
            elif first < last:
                parts[rank].append(_framed(number, [array.slice(first, last - first) for array in moved]))

    def _take(self, message: memoryview) -> None:
        """Add the facts that another task sent."""
        import pyarrow as pa

        names = [copy.name for copies in self.shares.copies.values() for copy in copies]
        while message:
            number, length = _FRAME.unpack(message[: _FRAME.size])
            message = message[_FRAME.size :]
            self._insert(names[number], pa.ipc.open_stream(pa.py_buffer(message[:length])))
            message = message[length:]

    def _insert(self, name: str, pieces: Iterable[pa.Table | pa.RecordBatch]) -> None:
        table = self.table(name)
        self.carried.insert(table, pieces, self.dictionary)
        self.context.check_budget(table, self.context.progress.rule)

    def _swap(self, messages: Sequence[bytes]) -> list[memoryview]:
        """Messages to and from all tasks; raises `Failed` if one has."""
        received = [memoryview(message) for message in self.mesh.swap(messages)]
        for message in received:
            if message[:1] == _FAILED:
                raise Failed(*json.loads(bytes(message[1:])))
        return [message[1:] for message in received]

    def _sums(self, counts: Sequence[int]) -> list[int]:
        """The sums over all tasks."""
        own = _DATA + np.array(counts, np.int64).tobytes()
        received = self._swap([own] * self.mesh.count)
        return [int(total) for total in np.sum([np.frombuffer(one, np.int64) for one in received], axis=0)]


def _local(prepared: Prepared, shares: Shares) -> Prepared:
    """A program of what a task evaluates."""
    program = replace(
        prepared.program,
        relations=shares.relations,
        rules=shares.rules,
        directives=(),
        aliases={},
        subsumptions=(),
    )
    return replace(prepared, program=program, schemes={}, evaluators={})


def _framed(number: int, arrays: Sequence[pa.Array]) -> bytes:
    """Rows for the copy of this number."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays(list(arrays), names=[column(j) for j in range(len(arrays))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream = sink.getvalue()
    return _FRAME.pack(number, len(stream)) + stream.to_pybytes()


def destinations(arrays: Sequence[pa.Array], place: int, count: int) -> np.ndarray:
    """For each row of carriers the task, of `count`, to which a copy shared out by `place` has it go."""
    hashed = np.zeros(len(arrays[0]), np.uint64)
    for array in arrays if place == BY_ROW else [arrays[place]]:
        words = (
            array.to_numpy().view(np.uint64) if str(array.type) == "int64" else _text_words(from_arrow(array))
        )
        hashed = hashed * _MULTIPLIER + words
        hashed ^= hashed >> np.uint64(32)
        hashed *= _MULTIPLIER
        hashed ^= hashed >> np.uint64(29)
    dtype = np.uint16 if count <= 1 << 16 else np.uint32
    return ((hashed >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(dtype)


def _text_words(text: Text) -> np.ndarray:
    """A number for each text, made of its last bytes."""
    starts = np.maximum(text.starts, text.ends - _HASHED_BYTES)
    offsets, data = Text(starts, text.ends, text.data).compact()
    place = np.arange(len(data)) - np.repeat(offsets[:-1], np.diff(offsets))
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * _WEIGHTS[place], out=sums[1:])
    return sums[offsets[1:]] - sums[offsets[:-1]]


NOTE = "note"


@dataclass(frozen=True)
class ShareTask:
    """What each task does: yields its part of all facts, and at rank 0 a note about how it went."""

    shares: Shares
    carried: CarriedProgram
    given: Layout
    results: Layout
    sent: Mapping[str, Any]
    secret: bytes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import BarrierTaskContext

        from gpuengine.spark_bridge.tasks import prepare_worker, task_memory, task_threads

        prepare_worker()
        given = [part for batch in batches if batch.num_rows for part in self.given.split(batch)]
        context = BarrierTaskContext.get()
        rank = context.partitionId()
        host = context.getTaskInfos()[rank].address.rpartition(":")[0].strip("[]")
        try:
            mesh = Mesh.connect(rank, host, self.secret, context.allGather)
        except MeshError as error:
            yield from self._note(rank, refused=str(error))
            return
        try:
            run = ShareRun(self.shares, self.carried, mesh, task_threads(), task_memory())
            run.run(given, {name: [read_broadcast(shared)] for name, shared in self.sent.items()})
        except Failed as failed:
            yield from self._note(rank, failed=[failed.kind, failed.text, failed.notes])
            return
        finally:
            mesh.close()
        yield from self._note(rank, rounds=run.rounds)
        for number, name in enumerate(self.results.names[:-1]):
            for rows in run.facts(name):
                yield self.results.joined(number, rows)

    def _note(self, rank: int, **told: Any) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if rank == 0:
            note = pa.RecordBatch.from_arrays([pa.array([json.dumps(told)])], names=[column(0)])
            yield self.results.joined(len(self.results.names) - 1, note)


@dataclass(frozen=True)
class Exchanged:
    """The frame of all facts, in a layout; one row of it, that of `NOTE`, says how it went."""

    frame: DataFrame
    layout: Layout

    def rounds(self, kept: DataFrame) -> list[tuple[dict[str, int], float, int]]:
        """What each round did, as `ShareRun` has it, by the frame once it is kept; raises what tasks did."""
        notes = self.layout.unpacked(kept, len(self.layout.names) - 1).collect()
        if not notes:  # Spark runs no task where it sees that no fact is given
            return []
        told = json.loads(notes[0][0])
        if "refused" in told:
            raise MeshError(told["refused"])
        if "failed" in told:
            raise _as_raised(*told["failed"])
        return [(new, seconds, sent) for new, seconds, sent in told["rounds"]]


def _as_raised(kind: str, text: str, notes: Sequence[str]) -> GpuEngineError:
    raised: Any = getattr(errors, kind, None)
    if not (isinstance(raised, type) and issubclass(raised, GpuEngineError)) or raised is ProgramErrors:
        raised, text = SparkError, f"a task failed: {kind}: {text}"
    error: GpuEngineError = raised(text)
    for note in notes:
        error.add_note(note)
    return error


def run_exchanged(
    spark: SparkSession,
    carried: CarriedProgram,
    shares: Shares,
    facts: Mapping[str, Held],
    sent: Mapping[str, Held],
    results: Sequence[str],
    tasks: int,
) -> Exchanged:
    """All facts of `results` by so many tasks at the same time; nothing is computed yet."""
    relations = carried.prepared.program.relations
    given = Layout.of(relations, list(facts), carried.carriers, None)
    packed = given.packed({name: held.frame for name, held in facts.items()}, {})
    of_results = Layout.of(relations, results, carried.carriers, None)
    layout = Layout((*results, NOTE), (*of_results.carriers, (STRING,)))
    shared = {name: broadcast_table(spark, held.frame, rows=held.rows) for name, held in sent.items()}
    task = ShareTask(shares, carried, given, layout, shared, secrets.token_bytes(32))
    done = packed.repartition(tasks, *packed.columns).mapInArrow(task, layout.schema, barrier=True)
    # What follows is no part of the barrier stage: it may have other partitions, and run in any order.
    return Exchanged(done.repartition(tasks, *done.columns), layout)


def tasks_at_once(spark: SparkSession) -> tuple[int, str]:
    """How many tasks a barrier stage may have here; if none, or they can't exchange anything, 0 and why."""
    if is_connect(spark):
        return 0, "a session of Spark Connect can't tell how many tasks run at once"
    conf = spark.sparkContext.getConf()
    settings: dict[str, str] = {
        key: conf.get(key, "") or ""
        for key in (*_ENCRYPTING, "spark.plugins", "spark.dynamicAllocation.enabled")
    }
    if "com.nvidia.spark.SQLPlugin" in settings["spark.plugins"]:
        return 0, "RAPIDS evaluates on GPUs what DataFrames do"
    if settings["spark.dynamicAllocation.enabled"] == "true":
        return 0, "with spark.dynamicAllocation.enabled no tasks are sure to run at the same time"
    for key in _ENCRYPTING:
        if settings[key] == "true":
            return 0, f"{key} asks for encryption, which tasks among themselves do not have"
    if spark.sparkContext.applicationId in _refused:
        return 0, _refused[spark.sparkContext.applicationId]
    scala_context: Any = spark.sparkContext._jsc.sc()
    profile = scala_context.resourceProfileManager().defaultResourceProfile()
    slots = int(scala_context.maxNumConcurrentTasks(profile))
    return min(slots, MOST_TASKS), "" if slots else "there are no executors yet"


def why_not_exchanged(spark: SparkSession, error: Exception) -> str:
    """Why rounds may do what an exchange failed to; empty if they would fail as well."""
    if isinstance(error, MeshError):
        # No task of this application need try again.
        _refused[spark.sparkContext.applicationId] = str(error)
        return str(error)
    if isinstance(error, MemoryBudgetError):
        return f"a task ran {str(error).partition(':')[0]}"
    if _BARRIER.search(str(error)):
        return "Spark could not run or finish a barrier stage"
    return ""


_BARRIER = re.compile(r"Barrier execution mode|failed barrier \w+Stage|[Bb]arrier stage|barrier task")
_refused: dict[str, str] = {}
_ENCRYPTING = ("spark.network.crypto.enabled", "spark.ssl.enabled", "spark.ssl.rpc.enabled")
