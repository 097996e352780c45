"""`materialise`, `ingest` and `encode`: DataFrames into a program, an engine, or ids for several runs."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError, MemoryBudgetError, SparkError
from gpuengine.io.schema import arrow_type, nullary
from gpuengine.language.editing import ProgramText
from gpuengine.language.program import Relation
from gpuengine.limits import parse_size
from gpuengine.loading import as_directories, as_macros, as_names, as_source, encode_rule_facts
from gpuengine.planning.prepared import Prepared, prepare
from gpuengine.spark_bridge.carriers import Carriers, find_carriers
from gpuengine.spark_bridge.checking import Checked, check_inputs
from gpuengine.spark_bridge.connect import require_jvm
from gpuengine.spark_bridge.datasets import read_dataset
from gpuengine.spark_bridge.declarations import create_views, relation_to_fill, relation_to_read
from gpuengine.spark_bridge.encoding import Encoded, encode_inputs
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.frames import arrow_batches
from gpuengine.spark_bridge.placement import (
    ClusterResults,
    Place,
    choose_place,
    needs_one_engine,
    run_on_cluster,
    run_on_executor,
)
from gpuengine.spark_bridge.progress import JobWatch, SparkReport, StratumReport
from gpuengine.spark_bridge.sessions import check_frame, check_session, ship_package
from gpuengine.spark_bridge.strata import Limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Listener = Callable[[str], None]


class Materialisation(Mapping[str, "DataFrame"]):
    """The relations of a program by name, each a DataFrame that is computed or fetched when it is read.

    Columns have the names that the program declares; numbers are ``bigint``, unsigned ``decimal(20,0)``,
    floats ``double``, everything else ``string``. A relation without columns has one row, ``holds = true``,
    if it holds. Rows are distinct and in no order. `report` says where and how it was evaluated.

    What executors keep for it is let go by `release`, or at the end of a ``with`` block.
    """

    def __init__(
        self,
        spark: SparkSession,
        prepared: Prepared,
        results: DriverResults | ClusterResults,
        names: Sequence[str],
        report: SparkReport,
    ) -> None:
        self.spark = spark
        self.prepared = prepared
        self.results = results
        self.report = report
        self._names = tuple(names)
        self._frames: dict[str, DataFrame] = {}

    def __getitem__(self, relation: str) -> DataFrame:
        if relation not in self._names:
            raise KeyError(f"{relation!r} was not materialised; there are {', '.join(self._names)}")
        if relation not in self._frames:
            with spark_failures(f"reading {relation}"):
                self._frames[relation] = self.results.frame(relation)
        return self._frames[relation]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def counts(self) -> dict[str, int]:
        """How many facts each relation has; this computes the relations that nothing has read yet."""
        with spark_failures("counting facts"):
            return {name: self.results.count(name) for name in self._names}

    def save(self, path: str, *, replace: bool = False) -> None:
        """Write a directory that `gpuengine.spark_bridge.open` goes on with, new facts included."""
        from gpuengine.spark_bridge.saved import save

        require_jvm(self.spark, "saving a materialisation")
        save(self, path, replace=replace)

    def create_views(self, prefix: str = "") -> list[str]:
        """Have SQL see each relation as a temporary view of its name, after a prefix; gives their names."""
        return create_views(self, prefix)

    def release(self) -> None:
        """Let go of what executors keep; the DataFrames must not be read any more."""
        self.results.release()

    def __enter__(self) -> Materialisation:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class DriverResults:
    """What an engine on the driver holds."""

    def __init__(self, spark: SparkSession, engine: Engine) -> None:
        self._spark = spark
        self.engine = engine

    def frame(self, relation: str) -> DataFrame:
        return self.engine[relation].to_spark(self._spark)

    def count(self, relation: str) -> int:
        return len(self.engine[relation])

    def release(self) -> None:
        """The engine goes with this object."""


def materialise(
    spark: SparkSession,
    program: str | os.PathLike[str],
    inputs: Mapping[str, DataFrame | str] | Encoded,
    *,
    where: str = "auto",
    wanted: str | Iterable[str] | None = None,
    nulls: Literal["fail", "drop"] = "fail",
    checkpoint: str | None = None,
    limits: Limits | None = None,
    watch: Listener | None = None,
    include_dirs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    macros: Mapping[str, str | int] | None = None,
    **engine_options: Any,
) -> Materialisation:
    """All consequences of DataFrames (or datasets, by path) under a program; see `Materialisation`.

    Inputs that `encode` has encoded are evaluated by the cluster.

    `where` is ``driver`` (one engine there), ``executor`` (one engine on an executor), ``cluster``
    (distributed), or ``auto``: one engine if the facts fit, else the cluster. `wanted` limits the work to
    some relations and what they depend on. Rows with nulls are an error, or left out with ``nulls="drop"``.
    `checkpoint` is a directory from which a run on the cluster that was cut short goes on when it is called
    again. `watch` is told what is going on. `limits` decide how the cluster evaluates each stratum.
    `engine_options` are those of `Engine`, for an engine on the driver.
    """
    check_session(spark)
    ship_package(spark)
    if checkpoint is not None:
        require_jvm(spark, "a checkpoint")
    started = time.perf_counter()
    listen = watch or unheard
    directories = as_directories(include_dirs)
    text = ProgramText.read(as_source(program), include_dirs=directories, macros=as_macros(macros))
    prepared = prepare(text, engine_options.get("schemes"), engine_options.get("evaluators"))
    names = _wanted(prepared, wanted)
    frames = {} if isinstance(inputs, Encoded) else frames_of(spark, prepared, inputs)
    jobs = JobWatch(spark)
    with spark_failures("materialising"):
        if isinstance(inputs, Encoded):
            checked: Mapping[str, Checked] | Encoded = inputs
            place = _place_of_encoded(prepared, where)
        else:
            with jobs.named("checking inputs"):
                listen("checking inputs")
                digest = checkpoint is not None
                checked = check_inputs(prepared.program.relations, frames, nulls=nulls, digest=digest)
            rows = {name: one.rows for name, one in checked.items()}
            place = choose_place(spark, prepared.program, rows, where, _memory(engine_options))
        listen(f"evaluating on the {place.where}: {place.why}")
        request = _Request(
            spark, text, prepared, checked, names, checkpoint, limits, jobs, listen, engine_options
        )
        results, place, strata = request.run(place, is_open=where == "auto")
    seconds = time.perf_counter() - started
    report = SparkReport(place.where, place.why, strata, seconds, jobs.shuffle_bytes())
    return Materialisation(spark, prepared, results, names, report)


def datalog(
    inputs: DataFrame | Mapping[str, DataFrame],
    program: str | os.PathLike[str],
    output: str | None = None,
    *,
    input: str | None = None,
    **options: Any,
) -> DataFrame:
    """One relation of a program over DataFrames; made for ``df.transform(datalog, program)``.

    A single frame is the facts of `input`: by default the only relation that ``.input`` names, else the only
    one without rules. `output` is by default the only one that ``.output`` names, else the only one with
    rules that no other relation reads. `options` are those of `materialise`, which to call for several
    relations, or to have what executors keep released.
    """
    text = ProgramText.read(
        as_source(program),
        include_dirs=as_directories(options.get("include_dirs", ())),
        macros=as_macros(options.get("macros")),
    )
    read = relation_to_read(text.program, output).name
    if isinstance(inputs, Mapping):
        if input is not None:
            raise SparkError("input is for a single DataFrame; a mapping names the relations itself")
        if not inputs:
            raise SparkError("there are no DataFrames\n  hint: materialise(spark, program, {}) needs none")
        frames = dict(inputs)
    else:
        frames = {relation_to_fill(text.program, input).name: inputs}
    name, first = next(iter(frames.items()))
    session = getattr(first, "sparkSession", None)
    if session is None:
        raise SparkError(f"the facts of {name} must be a DataFrame of Spark, not {type(first).__name__}")
    return materialise(session, program, frames, wanted=read, **options)[read]


@dataclass(frozen=True)
class _Request:
    """What is to be evaluated, and with what."""

    spark: SparkSession
    text: ProgramText
    prepared: Prepared
    inputs: Mapping[str, Checked] | Encoded
    names: Sequence[str]
    checkpoint: str | None
    limits: Limits | None
    jobs: JobWatch
    listen: Listener
    engine_options: Mapping[str, Any]

    def run(
        self, place: Place, *, is_open: bool
    ) -> tuple[DriverResults | ClusterResults, Place, list[StratumReport]]:
        """Evaluate at a place; what does not fit one engine goes to the cluster, if the place `is_open`."""
        if place.where == "driver":
            try:
                with self.jobs.named("fetching facts to the driver"):
                    return self._on_driver(), place, []
            except MemoryBudgetError:
                if not is_open or needs_one_engine(self.prepared.program):
                    raise
                place = Place("cluster", "it did not fit one engine on the driver")
                self.listen(f"evaluating on the {place.where}: {place.why}")
        if place.where == "executor":
            with self.jobs.named("one engine on an executor"):
                assert not isinstance(self.inputs, Encoded)
                return run_on_executor(self.spark, self.prepared, self.inputs, self.names), place, []
        results, strata = run_on_cluster(
            self.spark,
            self.prepared,
            self.inputs,
            self.names,
            checkpoint=self.checkpoint,
            limits=self.limits,
            jobs=self.jobs,
            listen=self.listen,
        )
        return results, place, strata

    def _on_driver(self) -> DriverResults:
        assert not isinstance(self.inputs, Encoded)
        engine = Engine(self.text, **self.engine_options)
        for name, facts in encode_rule_facts(engine.program.rules, engine.dictionary).items():
            engine.loaded[name].insert(*facts)
        self.listen(f"fetching {sum(one.rows for one in self.inputs.values()):,} rows")
        load_checked(engine, self.inputs)
        engine.materialise(wanted=self.names)
        return DriverResults(self.spark, engine)


def frames_of(
    spark: SparkSession, prepared: Prepared, inputs: Mapping[str, DataFrame | str]
) -> dict[str, DataFrame]:
    """Inputs as frames of this session; datasets are read by what their relations declare."""
    frames: dict[str, DataFrame] = {}
    for name, given in inputs.items():
        relation = _declared(prepared, name)
        frames[name] = read_dataset(spark, given, relation) if isinstance(given, str) else given
        check_frame(spark, name, frames[name])
    return frames


def _wanted(prepared: Prepared, wanted: str | Iterable[str] | None) -> list[str]:
    if wanted is None:
        return list(prepared.program.relations)
    return list(dict.fromkeys(_declared(prepared, name).name for name in as_names(wanted)))


def _declared(prepared: Prepared, name: str) -> Relation:
    relations = prepared.program.relations
    if name not in relations:
        near = difflib.get_close_matches(name, relations, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise GpuEngineError(f"no relation {name!r} in the program{hint}")
    return relations[name]


def _place_of_encoded(prepared: Prepared, where: str) -> Place:
    if where not in ("auto", "cluster"):
        raise SparkError(
            f"encoded inputs are for the cluster, not for where={where!r}\n  hint: give DataFrames instead"
        )
    problem = needs_one_engine(prepared.program)
    if problem:
        raise SparkError(f"a cluster can't evaluate this program: {problem}")
    return Place("cluster", "its inputs are encoded")


def _memory(engine_options: Mapping[str, Any]) -> int | None:
    given = engine_options.get("memory")
    return None if given is None else parse_size(given)


def unheard(text: str) -> None:
    """Listens to nothing."""


_ROWS_AT_ONCE = 1 << 26
"""So many rows are inserted at a time: one large sort takes half as long as looking up each of its rows."""


def ingest(
    spark: SparkSession,
    program: str | os.PathLike[str],
    inputs: Mapping[str, DataFrame | str],
    *,
    nulls: Literal["fail", "drop"] = "fail",
    materialise: bool = True,
    wanted: str | Iterable[str] | None = None,
    **engine_options: Any,
) -> Engine:
    """An engine on the driver with the facts of frames, or of datasets given by path, and what follows.

    Raises `DataError` for what does not fit the declarations, before anything is loaded. The driver holds the
    engine's tables and a few batches beside. `engine_options` are those of `Engine`; without `materialise`
    nothing is derived yet.
    """
    check_session(spark)
    ship_package(spark)
    engine = Engine(program, **engine_options)
    frames: dict[str, DataFrame] = {}
    for name, given in inputs.items():
        relation = engine.declared(name)
        frames[name] = read_dataset(spark, given, relation) if isinstance(given, str) else given
        check_frame(spark, name, frames[name])
    load_checked(engine, check_inputs(engine.relations, frames, nulls=nulls))
    return engine.materialise(wanted=wanted) if materialise else engine


def load_checked(engine: Engine, inputs: Mapping[str, Checked]) -> None:
    """Load what has been checked into an engine that has not materialised yet."""
    for name, checked in inputs.items():
        _load(engine, engine.declared(name), checked)


def _load(engine: Engine, relation: Relation, checked: Checked) -> None:
    table = engine.loaded[relation.name]
    waiting: list[list[np.ndarray]] = []
    rows = 0

    def insert() -> None:
        columns = [np.concatenate(pieces) for pieces in zip(*waiting, strict=True)]
        table.insert(columns, rows)

    for batch in fact_batches(relation, checked):
        columns, count = engine.encode_facts(relation, batch)
        if not relation.arity:
            table.insert(columns, count)
            continue
        waiting.append(columns)
        rows += count
        if rows >= _ROWS_AT_ONCE:
            insert()
            waiting, rows = [], 0
    if rows:
        insert()


def fact_batches(relation: Relation, checked: Checked) -> Iterator[pa.Table]:
    """The rows by the names and types that the engine expects."""
    if not relation.arity:
        yield nullary(checked.rows > 0)
        return
    types = [arrow_type(attribute.type) for attribute in relation.attributes]
    names = [attribute.name for attribute in relation.attributes]
    for batch in arrow_batches(checked.frame, rows=checked.rows):
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        columns = [_as_type(column, type) for column, type in zip(table.columns, types, strict=True)]
        yield pa.Table.from_arrays(columns, names=names)


def _as_type(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    """Bits as the unsigned values they are, without a copy; all else is what it should be."""
    if column.type == pa.int64() and type == pa.uint64():
        return pa.chunked_array([chunk.view(type) for chunk in column.chunks], type)
    return column


def encode(
    spark: SparkSession,
    program: str | os.PathLike[str],
    inputs: Mapping[str, DataFrame | str],
    *,
    extending: Encoded | None = None,
    integers: bool = False,
    nulls: Literal["fail", "drop"] = "fail",
    include_dirs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    macros: Mapping[str, str | int] | None = None,
) -> Encoded:
    """Inputs as the cluster evaluates them: checked, terms as ids of a distributed dictionary, distinct.

    `Encoded.save` and `load_encoded` keep them as Parquet, `materialise` takes them in place of DataFrames.
    The same terms get the same ids, whatever the cluster. With `extending`, its dictionary grows by the terms
    that are new, and no id changes. Symbols are encoded unless a rule of the program looks inside of them;
    with `integers`, numbers likewise.
    """
    check_session(spark)
    ship_package(spark)
    directories = as_directories(include_dirs)
    text = ProgramText.read(as_source(program), include_dirs=directories, macros=as_macros(macros))
    prepared = prepare(text, None)
    with spark_failures("encoding"):
        checked = check_inputs(prepared.program.relations, frames_of(spark, prepared, inputs), nulls=nulls)
        if extending is None:
            carriers, dictionaries = find_carriers(prepared.program, integers=integers), None
        else:
            carriers, dictionaries = Carriers(frozenset(extending.dictionaries)), extending.dictionaries
        return encode_inputs(spark, prepared.program, checked, carriers, dictionaries)
