"""Materialisations in files, which new facts are inserted into.

A saved materialisation is a directory: ``saved.json``, and what it names: frames of carriers as Parquet (the
facts that were given, and all facts, each in pieces) and dictionaries. An update writes new pieces beside the
old ones and then replaces the JSON file, in one step: until then nothing has changed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from gpuengine.errors import GpuEngineError, Interrupted, MemoryBudgetError, SparkError, StoreError
from gpuengine.language.editing import ProgramText
from gpuengine.language.program import Program, Relation
from gpuengine.loading import declared_in
from gpuengine.planning.prepared import Prepared, prepare
from gpuengine.relation import RelationView
from gpuengine.spark_bridge.carriers import Carriers, column, find_carriers, has_no_carrier
from gpuengine.spark_bridge.checking import Checked, check_inputs
from gpuengine.spark_bridge.connect import require_jvm
from gpuengine.spark_bridge.declarations import create_views
from gpuengine.spark_bridge.driver_updates import DriverState, DriverUpdate
from gpuengine.spark_bridge.encoding import Dictionaries, Encoded, encode_inputs, used_spaces
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.filesystem import FileSystem, join
from gpuengine.spark_bridge.frames import Held, Keeper, arrow_batches, frame_of, nothing, union
from gpuengine.spark_bridge.insertion import Insertion
from gpuengine.spark_bridge.materialisation import (
    DriverResults,
    Listener,
    Materialisation,
    frames_of,
    unheard,
)
from gpuengine.spark_bridge.placement import ClusterResults, carry, given_facts
from gpuengine.spark_bridge.progress import JobWatch, SparkReport
from gpuengine.spark_bridge.replays import was_applied
from gpuengine.spark_bridge.sessions import check_session
from gpuengine.spark_bridge.strata import Limits, StrataRun, rules_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MANIFEST = "saved.json"
VERSION = 1
MOST_PIECES = 16
"""A relation in more pieces than this is written anew, as one."""


@dataclass
class _State:
    """What is saved, and where: pieces of relations as (path, rows)."""

    text: ProgramText
    wanted: list[str]
    carriers: Carriers
    constants: dict[str, list[list[Any]]]
    dictionaries: dict[str, str]
    stated: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    relations: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    generation: int = 0
    streams: dict[str, int] = field(default_factory=dict)
    """The last batch of each stream that fed it."""

    def to_json(self) -> str:
        return json.dumps(
            {
                "version": VERSION,
                "program": self.text.to_json(),
                "wanted": self.wanted,
                "encoded": sorted(self.carriers.encoded),
                "constants": self.constants,
                "dictionaries": self.dictionaries,
                "stated": self.stated,
                "relations": self.relations,
                "generation": self.generation,
                "streams": self.streams,
            }
        )

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> _State:
        def pieces(of: Mapping[str, Any]) -> dict[str, list[tuple[str, int]]]:
            return {name: [(str(path), int(rows)) for path, rows in each] for name, each in of.items()}

        return cls(
            ProgramText.from_json(saved["program"]),
            list(saved["wanted"]),
            Carriers(frozenset(saved["encoded"])),
            saved["constants"],
            dict(saved["dictionaries"]),
            pieces(saved["stated"]),
            pieces(saved["relations"]),
            int(saved["generation"]),
            dict(saved.get("streams", {})),
        )


class SavedMaterialisation(Mapping[str, "DataFrame"]):
    """The relations of a saved materialisation by name, as DataFrames, and the updates of them.

    One process at a time updates it; another one that tries meanwhile gets `StoreError`. An update goes on
    from what is there then, whoever made it. DataFrames that were read before an update go on showing what
    was there, until `compact` removes it.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        require_jvm(spark, "a saved materialisation")
        self.spark = spark
        self.path = path
        self._files = FileSystem(spark)
        self._state = self._read_state()
        self._prepare()
        self.report: SparkReport | None = None

    def _prepare(self) -> None:
        self._prepared: Prepared = prepare(self._state.text, None)
        constants = {space: dict(map(tuple, each)) for space, each in self._state.constants.items()}
        self._carried = carry(self._prepared, self._state.carriers, constants)

    def refresh(self) -> None:
        """Show what others have changed since this was opened; updates begin with that."""
        newest = self._read_state()
        if newest.to_json() != self._state.to_json():
            self._state = newest
            self._prepare()

    def _read_state(self) -> _State:
        at = join(self.path, MANIFEST)
        if not self._files.exists(at):
            raise StoreError(
                f"{self.path} is no saved materialisation: there is no {MANIFEST}\n"
                "  hint: materialise(...).save(path) writes one"
            )
        try:
            saved = json.loads(self._files.read_text(at))
            if saved["version"] != VERSION:
                raise StoreError(f"{at}: version {saved['version']!r} is not known")
            return _State.from_json(saved)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{at} is damaged: {error}") from error

    # -- reading -----------------------------------------------------------------------------------

    def __getitem__(self, relation: str) -> DataFrame:
        if relation not in self._state.wanted:
            raise KeyError(f"{relation!r} was not saved; there are {', '.join(self._state.wanted)}")
        return self._results().frame(relation)

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.wanted)

    def __len__(self) -> int:
        return len(self._state.wanted)

    def create_views(self, prefix: str = "") -> list[str]:
        """As of `Materialisation`; the views show what is there now, also after later updates."""
        return create_views(self, prefix)

    @property
    def generation(self) -> int:
        """How often it was changed, and once more."""
        return self._state.generation

    def declared(self, relation: str) -> Relation:
        """A relation of the program; raises for one that it has not."""
        return declared_in(self._prepared.program, relation)

    def last_batch(self, stream: str) -> int | None:
        """The last batch of a stream that was inserted."""
        return self._state.streams.get(stream)

    @property
    def counts(self) -> dict[str, int]:
        """How many facts each relation has."""
        stored = {name: self._prepared.stored(name) for name in self._state.wanted}
        pieces = self._state.relations
        return {name: sum(rows for _, rows in pieces.get(at, ())) for name, at in stored.items()}

    def _results(self) -> ClusterResults:
        held = self._held(self._state.relations)
        encoded = Encoded({}, self._dictionaries(), {})
        return ClusterResults(self._prepared, self._state.carriers, encoded, held, {}, Keeper())

    def _held(
        self, pieces: Mapping[str, list[tuple[str, int]]], names: Iterable[str] | None = None
    ) -> dict[str, Held]:
        relations = self._carried.program.relations if names is None else names
        return {name: self._relation(name, pieces.get(name, [])) for name in relations}

    def _relation(self, name: str, pieces: list[tuple[str, int]]) -> Held:
        relation = self._carried.program.relations[name]
        if not pieces:
            return nothing(self.spark, relation, self._state.carriers)
        schema = self._state.carriers.schema(relation) or f"{column(0)} bigint"
        paths = [join(self.path, path) for path, _ in pieces]
        return Held(self.spark.read.schema(schema).parquet(*paths), sum(rows for _, rows in pieces))

    def _dictionaries(self) -> Dictionaries:
        """Those that hold something; one of a space that the program does not use has no terms."""
        paths = {space: join(self.path, at) for space, at in self._state.dictionaries.items()}
        return Dictionaries.load(self.spark, paths, used=used_spaces(self._prepared.program))

    # -- updating ----------------------------------------------------------------------------------

    def insert(
        self,
        inputs: Mapping[str, DataFrame | str],
        *,
        nulls: Literal["fail", "drop"] = "fail",
        limits: Limits | None = None,
        watch: Listener | None = None,
        batch: tuple[str, int] | None = None,
    ) -> dict[str, int]:
        """Add facts and what follows from them; says how many facts each relation that changed has gained.

        With `batch`, a stream and a number, nothing happens if that was inserted before. If all facts are at
        most `limits.finished`, an engine on the driver maintains them. Else the cluster extends them; strata
        that read a changed relation under negation or in an aggregate are evaluated anew there, and may lose
        facts.
        """
        check_session(self.spark)
        jobs = JobWatch(self.spark)
        with self._changing("inserting facts"):
            if batch is not None and was_applied(self._state.streams, *batch):
                return {}
            frames = frames_of(self.spark, self._prepared, inputs)
            with jobs.named("encoding new facts"):
                checked = check_inputs(self._prepared.program.relations, frames, nulls=nulls)
                encoded = self._encoded(checked)
                given = given_facts(self.spark, self._carried, encoded.frames, own=False)
            rows = sum(one.rows for one in checked.values())
            changed = self._on_driver(given, {}, rows, limits or Limits(), jobs)
            if changed is not None:
                return self._commit_update(encoded, changed, batch)
            before, stated = self._held(self._state.relations), self._held(self._state.stated)
            keeper = Keeper()
            run = self._run(keeper, jobs, limits, watch)
            with jobs.named("finding new facts"):
                new = {name: self._new(keeper, name, held, stated[name]) for name, held in given.items()}
                delta = {name: self._new(keeper, name, held, before[name]) for name, held in new.items()}
            together = {name: union([stated[name], held]) for name, held in new.items()}
            insertion = Insertion(run, before, {**stated, **together}, delta)
            insertion.update(self._carried.plan(self._state.wanted))
            gained = self._commit(encoded, new, insertion, batch)
            keeper.release()
        self._told(run, jobs, "the facts that were there are kept")
        return gained

    def delete(
        self,
        inputs: Mapping[str, DataFrame | str],
        *,
        nulls: Literal["fail", "drop"] = "fail",
        limits: Limits | None = None,
        watch: Listener | None = None,
    ) -> dict[str, int]:
        """Remove given facts and what follows from them alone; facts that rules derive otherwise stay.

        If all facts are at most `limits.finished`, an engine on the driver maintains them. Else the cluster
        computes everything anew.
        """
        check_session(self.spark)
        jobs = JobWatch(self.spark)
        with self._changing("deleting facts"):
            frames = frames_of(self.spark, self._prepared, inputs)
            checked = check_inputs(self._prepared.program.relations, frames, nulls=nulls)
            encoded = self._encoded(checked)
            given = given_facts(self.spark, self._carried, encoded.frames, own=False)
            rows = sum(one.rows for one in checked.values())
            changed = self._on_driver({}, given, rows, limits or Limits(), jobs)
            if changed is not None:
                return self._commit_update(encoded, changed, None)
            stated = self._held(self._state.stated)
            keeper = Keeper()
            kept = {**stated, **{n: self._new(keeper, n, stated[n], held) for n, held in given.items()}}
            run = self._run(keeper, jobs, limits, watch)
            plan = self._carried.plan(self._state.wanted)
            relations = run.run(plan, {name: held for name, held in kept.items() if held.rows})
            earlier = self.counts
            state = self._next(encoded)
            for name, held in relations.items():
                state.relations[name] = self._written(state, "relations", name, held)
                state.stated[name] = self._written(state, "stated", name, kept[name])
            self._replace_state(state)
            keeper.release()
        self._told(run, jobs, "everything was computed anew")
        return {name: rows - earlier[name] for name, rows in self.counts.items() if rows != earlier[name]}

    def compact(self) -> None:
        """Write each relation in one piece, and remove what is no longer part of it."""
        with self._changing("compacting"):
            state = self._next(None)
            for kind, pieces in (("relations", state.relations), ("stated", state.stated)):
                for name, each in pieces.items():
                    if len(each) > 1:
                        pieces[name] = self._written(state, kind, name, self._relation(name, each))
            self._replace_state(state)
            used = {path for each in (state.relations, state.stated) for p in each.values() for path, _ in p}
            used |= set(state.dictionaries.values())
            for generation in self._files.list(self.path):
                if generation.startswith("generation-"):
                    self._remove_unused(generation, used)

    def _remove_unused(self, at: str, used: AbstractSet[str]) -> None:
        """Delete what is in a folder below the directory, but for the paths in `used`."""
        if at in used:
            return
        if not any(path.startswith(f"{at}/") for path in used):
            self._files.delete(join(self.path, at))
            return
        for name in self._files.list(join(self.path, at)):
            self._remove_unused(f"{at}/{name}", used)

    def _on_driver(
        self, plus: Mapping[str, Held], minus: Mapping[str, Held], rows: int, limits: Limits, jobs: JobWatch
    ) -> DriverUpdate | None:
        """What an update by an engine on the driver comes to, if all facts and `rows` new ones fit there."""
        state, started = self._state, time.perf_counter()
        rules = [rule for stratum in self._carried.plan(state.wanted).strata for rule in rules_of(stratum)]
        derived = {rule.head.relation for rule in rules}
        taken = {name: state.relations.get(name, []) for name in derived}
        pieces = (piece for each in (taken, state.stated) for all in each.values() for piece in all)
        if "driver" not in limits.methods or rows + sum(count for _, count in pieces) > limits.finished:
            return None
        with jobs.named("fetching facts to the driver"):
            came, went = (
                # There are no more of a relation than of all: else Spark, which may not know, expects many.
                {name: list(arrow_batches(held.frame, rows=rows)) for name, held in each.items()}
                for each in (plus, minus)
            )
            stated, facts = (
                {name: self._fetched(name, pieces) for name, pieces in each.items()}
                for each in (state.stated, taken)
            )
        try:
            engine = DriverState(self._carried.with_rules(rules, ()), state.carriers, stated, facts)
            update = engine.update(came, went)
        except MemoryBudgetError:
            return None
        seconds = time.perf_counter() - started
        why = f"its facts are at most {limits.finished:,}, and one engine maintains them"
        self.report = SparkReport("driver", why, [], seconds, jobs.shuffle_bytes())
        return update

    def _commit_update(
        self, encoded: Encoded, changed: DriverUpdate, batch: tuple[str, int] | None
    ) -> dict[str, int]:
        earlier = self.counts
        state = self._next(encoded)
        if batch is not None:
            state.streams[batch[0]] = batch[1]
        for kind, pieces, saved in (
            ("stated", changed.stated, state.stated),
            ("relations", changed.relations, state.relations),
        ):
            for name, piece in pieces.items():
                new = self._sent(state, kind, name, piece.table)
                before = [] if piece.replaces else saved.get(name, [])
                saved[name] = self._few(state, kind, name, [*before, *new])
        self._replace_state(state)
        return {name: rows - earlier[name] for name, rows in self.counts.items() if rows != earlier[name]}

    def _fetched(self, name: str, pieces: list[tuple[str, int]]) -> list[pa.Table | pa.RecordBatch]:
        """The facts of a relation on the driver; its own files it reads without a job."""
        import pyarrow.parquet as pq

        folders = [self._files.local(join(self.path, path)) for path, _ in pieces]
        if all(folder is not None for folder in folders):
            return [pq.read_table(folder) for folder in folders]
        held = self._relation(name, pieces)
        return list(arrow_batches(held.frame, rows=held.rows))

    def _sent(self, state: _State, kind: str, name: str, table: pa.Table | None) -> list[tuple[str, int]]:
        """A new piece of a relation from the driver, which writes its own files without a job."""
        import pyarrow.parquet as pq

        if table is None:
            return []
        at = _place(state.generation, kind, name)
        folder = self._files.local(join(self.path, at))
        if folder is None:
            partitions = 1 + (table.nbytes >> 25)
            frame = frame_of(self.spark, table, partitions=partitions)
            return self._written(state, kind, name, Held(frame, table.num_rows))
        self._files.delete(join(self.path, at))  # what an update that failed has left
        with _file_failures(folder):
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, folder / "part-00000.parquet", compression="snappy")
        return [(at, table.num_rows)]

    def _few(
        self, state: _State, kind: str, name: str, pieces: list[tuple[str, int]]
    ) -> list[tuple[str, int]]:
        """Pieces of a relation, as one if they have become many."""
        if len(pieces) <= MOST_PIECES:
            return pieces
        return self._written(state, f"whole-{kind}", name, self._relation(name, pieces))

    def _told(self, run: StrataRun, jobs: JobWatch, why: str) -> None:
        seconds = sum(stratum.seconds for stratum in run.reports)
        self.report = SparkReport("cluster", why, run.reports, seconds, jobs.shuffle_bytes())

    def _encoded(self, checked: Mapping[str, Checked]) -> Encoded:
        return encode_inputs(
            self.spark, self._prepared.program, checked, self._state.carriers, self._dictionaries()
        )

    def _run(
        self, keeper: Keeper, jobs: JobWatch, limits: Limits | None, watch: Listener | None
    ) -> StrataRun:
        return StrataRun(
            self.spark,
            self._carried,
            self._state.carriers,
            keeper,
            jobs,
            limits or Limits(),
            watch or unheard,
        )

    def _new(self, keeper: Keeper, name: str, held: Held, known: Held) -> Held:
        """The rows that are not among the known ones."""
        new = held.frame.join(known.frame, held.frame.columns, "left_anti")
        return keeper.keep(f"new/{name}", new)

    def _commit(
        self, encoded: Encoded, new: Mapping[str, Held], insertion: Insertion, batch: tuple[str, int] | None
    ) -> dict[str, int]:
        earlier = self.counts
        state = self._next(encoded)
        if batch is not None:
            state.streams[batch[0]] = batch[1]
        for name, held in new.items():
            if held.rows:
                state.stated[name] = [
                    *state.stated.get(name, []),
                    *self._written(state, "stated", name, held),
                ]
        for name, held in insertion.delta.items():
            pieces = [*state.relations.get(name, []), *self._written(state, "relations", name, held)]
            state.relations[name] = self._few(state, "relations", name, pieces)
        for name, held in insertion.anew.items():
            state.relations[name] = self._written(state, "relations", name, held)
        self._replace_state(state)
        return {name: rows - earlier[name] for name, rows in self.counts.items() if rows != earlier[name]}

    def _next(self, encoded: Encoded | None) -> _State:
        """The state after this one, with what stays as it is; new terms are written."""
        state = _State.from_json(json.loads(self._state.to_json()))
        state.generation += 1
        if encoded is not None:
            for space, dictionary in encoded.dictionaries.items():
                if not dictionary.has_grown:
                    continue
                at = f"generation-{state.generation}/dictionary-{space}"
                dictionary.save(join(self.path, at))
                state.dictionaries[space] = at
        return state

    def _written(self, state: _State, kind: str, name: str, held: Held) -> list[tuple[str, int]]:
        return _write(self.spark, self.path, state.generation, kind, name, held)

    def _replace_state(self, state: _State) -> None:
        new = join(self.path, f"generation-{state.generation}")
        if self._files.exists(new):
            self._files.sync(new)
        self._files.write_text(join(self.path, MANIFEST), state.to_json())
        self._state = state

    @contextmanager
    def _changing(self, what: str) -> Iterator[None]:
        """Keep others from changing it; raise what fails, and say so if the change has happened by then."""
        before = self._state
        try:
            with spark_failures(what), self._files.writing(self.path):
                self.refresh()
                before = self._state
                yield
        except Interrupted:
            if self._state is before:
                raise
            raise Interrupted("interrupted; the change is committed") from None
        except GpuEngineError as error:
            if self._state is not before:
                error.add_note("note: the change is committed")
            raise


def open(spark: SparkSession, path: str) -> SavedMaterialisation:
    """What `Materialisation.save` wrote, and the updates since."""
    check_session(spark)
    return SavedMaterialisation(spark, path)


def save(materialisation: Materialisation, path: str, *, replace: bool = False) -> None:
    """Write a materialisation to a directory that is new or empty; with `replace`, in place of another."""
    check_target(materialisation.spark, materialisation.prepared.program, path, replace=replace)
    files = FileSystem(materialisation.spark)
    kept_out = files.writing(path) if files.exists(path) else nullcontext()
    with spark_failures(f"saving {path}"), kept_out:
        _write_all(materialisation, path)


def check_target(spark: SparkSession, program: Program, path: str, *, replace: bool) -> None:
    """Raise if a materialisation of a program can't be saved there."""
    files = FileSystem(spark)
    if files.exists(path) and not files.is_directory(path):
        raise StoreError(f"can't save to {path}: it is a file\n  hint: choose a directory, new or empty")
    if files.exists(path) and files.list(path):
        if not files.exists(join(path, MANIFEST)):
            raise StoreError(
                f"can't save to {path}: it is not empty, and no saved materialisation\n"
                "  hint: choose a directory, new or empty"
            )
        if not replace:
            raise StoreError(
                f"{path} is a saved materialisation already\n"
                "  hint: save(path, replace=True) or --replace replaces it, insert or --insert adds to it"
            )
    problem = has_no_carrier(program)
    if problem:
        raise SparkError(f"it can't be saved on Spark: {problem}\n  hint: ingest(...) and Engine.save can")


def _write_all(materialisation: Materialisation, path: str) -> None:
    spark, prepared = materialisation.spark, materialisation.prepared
    files = FileSystem(spark)
    stated, held, encoded, carriers = _carried_results(materialisation)
    beside = f"{path.rstrip('/')}.saving"
    files.delete(beside)
    constants = {space: [[k, v] for k, v in each.items()] for space, each in encoded.constants.items()}
    state = _State(prepared.text, list(materialisation), carriers, constants, {}, generation=1)
    for space, dictionary in encoded.dictionaries.items():
        state.dictionaries[space] = f"generation-1/dictionary-{space}"
        dictionary.save(join(beside, state.dictionaries[space]))
    for kind, relations, pieces in (("stated", stated, state.stated), ("relations", held, state.relations)):
        for name, one in relations.items():
            pieces[name] = _write(spark, beside, 1, kind, name, one)
    files.write_text(join(beside, MANIFEST), state.to_json())
    files.sync(beside)
    files.replace(beside, path)
    files.sync(path)


def _carried_results(
    materialisation: Materialisation,
) -> tuple[Mapping[str, Held], Mapping[str, Held], Encoded, Carriers]:
    """(given facts, all facts, dictionaries and constants, carriers) of where a materialisation ran."""
    results = materialisation.results
    if isinstance(results, DriverResults):
        return _carried_from_engine(materialisation, results)
    derived = _derived(results.prepared, materialisation)
    held = {**results.stated, **{name: results.held[name] for name in derived}}
    return results.stated, held, results.encoded, results.carriers


def _carried_from_engine(
    materialisation: Materialisation, results: DriverResults
) -> tuple[Mapping[str, Held], Mapping[str, Held], Encoded, Carriers]:
    spark, prepared = materialisation.spark, materialisation.prepared
    engine, program = results.engine, prepared.program
    carriers = find_carriers(program)
    derived = _derived(prepared, materialisation)
    frames = {name: results.frame(name) for name in derived}
    checked = check_inputs(program.relations, frames)
    encoded = encode_inputs(spark, program, checked, carriers, None)
    given = {
        name: RelationView(name, program.relations[name].attributes, table, engine.dictionary).to_spark(spark)
        for name, table in engine.loaded.items()
        if len(table)
    }
    checked_given = check_inputs(program.relations, given)
    both = encode_inputs(spark, program, checked_given, carriers, encoded.dictionaries)
    carried = carry(prepared, carriers, both.constants)
    stated = given_facts(spark, carried, both.frames)
    held = {name: Held(frame, checked[name].rows) for name, frame in encoded.frames.items()}
    return stated, {**stated, **held}, both, carriers


def _derived(prepared: Prepared, wanted: Iterable[str]) -> list[str]:
    """The relations that the strata of a plan derive."""
    return [name for stratum in prepared.plan(wanted).strata for name in stratum.relations]


def _place(generation: int, kind: str, name: str) -> str:
    """Where a new piece of a relation is, below the directory."""
    return f"generation-{generation}/{kind}/{quote(name, safe='')}"


@contextmanager
def _file_failures(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"can't write {folder}: {error.strerror or error}; nothing was changed") from error


def _write(
    spark: SparkSession, path: str, generation: int, kind: str, name: str, held: Held
) -> list[tuple[str, int]]:
    """One new piece of a relation."""
    at = _place(generation, kind, name)
    if held.rows == 0:
        return []
    held.frame.write.mode("overwrite").parquet(join(path, at))
    rows = held.rows if held.rows is not None else spark.read.parquet(join(path, at)).count()
    return [(at, rows)] if rows else []
