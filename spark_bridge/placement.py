"""Where a program is evaluated: by one engine on the driver, by one on an executor, or by the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from gpuengine.errors import SparkError
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.language.program import Alias, Constant, Program, Relation
from gpuengine.limits import parse_size, show_size
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.selection import selections_of
from gpuengine.spark_bridge.carriers import Carriers, carried_program, column, find_carriers, has_no_carrier
from gpuengine.spark_bridge.checking import Checked, rows_and_digest
from gpuengine.spark_bridge.connect import setting
from gpuengine.spark_bridge.decomposition import run_on_one
from gpuengine.spark_bridge.encoding import Encoded, decode, encode_inputs
from gpuengine.spark_bridge.frames import LOST_BLOCK, CheckpointKeeper, Held, Keeper, fingerprint
from gpuengine.spark_bridge.progress import JobWatch, StratumReport
from gpuengine.spark_bridge.rules import literal
from gpuengine.spark_bridge.strata import Limits, StrataRun
from gpuengine.spark_bridge.tasks import CarriedProgram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACES = ("auto", "driver", "executor", "cluster")

_BYTES_PER_VALUE = 32
"""What a value takes in a table with its indexes and its share of the dictionary, about, counting as many
derived facts as given ones."""


@dataclass(frozen=True, slots=True)
class Place:
    """`where` is one of `PLACES` but ``auto``; `why` is a short sentence for a user."""

    where: str
    why: str


def choose_place(
    spark: SparkSession,
    program: Program,
    rows: Mapping[str, int],
    asked: str,
    memory: int | None = None,
) -> Place:
    """Where to evaluate a program over inputs of so many rows; raises `SparkError` if it can't be there."""
    if asked not in PLACES:
        raise SparkError(f"no place {asked!r} to evaluate at\n  hint: it is one of {', '.join(PLACES)}")
    only_one = needs_one_engine(program)
    if asked == "cluster" and only_one:
        raise SparkError(f"a cluster can't evaluate this program: {only_one}\n  hint: where='driver'")
    only_driver = needs_the_driver(program) or has_no_carrier(program)
    if asked == "executor" and only_driver:
        raise SparkError(f"no executor can: {only_driver}\n  hint: where='driver'")
    if asked != "auto":
        return Place(asked, "it was asked for")
    needed = _needed_bytes(program.relations, rows)
    room = Budget(memory).limit
    if only_one:
        return Place("driver", only_one)
    told = f"{sum(rows.values()):,} facts may take {show_size(needed)}"
    if needed <= room:
        return Place("driver", f"{told}, of {show_size(room)} that an engine on the driver has")
    executor = _executor_memory(spark)
    if needed <= executor:
        return Place("executor", f"{told}, of {show_size(executor)} that an executor has")
    return Place("cluster", f"{told}, too much for one engine")


def needs_one_engine(program: Program) -> str:
    """Why a program can't be evaluated in parts; empty if it can."""
    limited = [directive.relation for directive in program.directives if directive.kind == "limitsize"]
    if limited:
        return f"{limited[0]} has a .limitsize, which only one engine can count to"
    return needs_the_driver(program) or has_no_carrier(program)


def needs_the_driver(program: Program) -> str:
    """Why a program needs an engine of the session's own process; empty if it does not."""
    for name in selections_of(program):
        return f"{name} does not keep all that is derived (aggregates in heads, choice-domain, subsumption)"
    for name in program.functors:
        return f"the functor @{name} is a function of the driver's process"
    return ""


def _needed_bytes(relations: Mapping[str, Relation], rows: Mapping[str, int]) -> int:
    return sum(count * max(1, relations[name].arity) * _BYTES_PER_VALUE for name, count in rows.items())


def _executor_memory(spark: SparkSession) -> int:
    """What Python has on an executor; 0 if there are none but the driver."""
    master = setting(spark, "spark.master") or ""
    if master == "local" or master.startswith("local["):
        return 0
    own = setting(spark, "spark.executor.pyspark.memory")
    if own is not None:
        return _size(own)
    # Python's memory is outside of the JVM's; that there is as much of it as of that is a guess.
    return _size(setting(spark, "spark.executor.memory") or "1g")


def _size(text: str) -> int:
    """As Spark writes sizes: ``2g``, ``512m``, or a number of MiB."""
    return int(text) << 20 if text.isdigit() else parse_size(text.removesuffix("b"))


INPUTS = -1
"""The number under which inputs are kept, as if they were a stratum."""

ATTEMPTS = 3
"""How often a run begins anew because what it had was lost with an executor."""


class ClusterResults:
    """Frames of carriers, decoded when they are read: of all facts, and of those that were `stated`."""

    def __init__(
        self,
        prepared: Prepared,
        carriers: Carriers,
        encoded: Encoded,
        held: Mapping[str, Held],
        stated: Mapping[str, Held],
        keeper: Keeper,
    ) -> None:
        self.prepared = prepared
        self.carriers = carriers
        self.encoded = encoded
        self.held = held
        self.stated = stated
        self._keeper = keeper
        self._counts: dict[str, int] = {}

    def frame(self, relation: str) -> DataFrame:
        declared = self.prepared.program.relations[relation]
        return decode(self.carried(relation), declared, self.carriers, self.encoded.dictionaries)

    def carried(self, relation: str) -> DataFrame:
        """The facts as carriers; an alias has those of another relation with columns permuted."""
        alias = self.prepared.aliases.get(relation)
        if alias is None:
            return self.held[relation].frame
        return permuted(self.held[alias.of].frame, alias)

    def count(self, relation: str) -> int:
        stored = self.prepared.stored(relation)
        if stored not in self._counts:
            rows = self.held[stored].rows
            self._counts[stored] = self.held[stored].frame.count() if rows is None else rows
        return self._counts[stored]

    def release(self) -> None:
        self._keeper.release()
        self.encoded.dictionaries.release()


def run_on_cluster(
    spark: SparkSession,
    prepared: Prepared,
    inputs: Mapping[str, Checked] | Encoded,
    wanted: Sequence[str],
    *,
    checkpoint: str | None,
    limits: Limits | None,
    jobs: JobWatch,
    listen: Callable[[str], None],
) -> tuple[ClusterResults, list[StratumReport]]:
    """The plan over frames, from the beginning again if an executor is lost with what can't be recomputed."""
    with jobs.named("encoding inputs"):
        listen("encoding inputs")
        encoded, carriers = _encoded(spark, prepared, inputs)
    carried = carry(prepared, carriers, encoded.constants)
    keeper = Keeper()
    if checkpoint is not None:
        mark = fingerprint(carried.program, wanted, _marks(inputs))
        keeper = CheckpointKeeper(spark, checkpoint, carried.program, carriers, mark)
    with jobs.named("keeping encoded inputs"):
        stated = _kept(keeper, given_facts(spark, carried, encoded.frames))
    for attempt in range(1, ATTEMPTS + 1):
        run = StrataRun(spark, carried, carriers, keeper, jobs, limits or Limits(), listen)
        try:
            held = run.run(carried.plan(wanted), stated)
            break
        except Exception as error:
            if LOST_BLOCK not in str(error) or attempt == ATTEMPTS:
                raise
            listen("an executor was lost with facts of earlier rounds: beginning anew")
    return ClusterResults(prepared, carriers, encoded, held, stated, keeper), run.reports


def _encoded(
    spark: SparkSession, prepared: Prepared, inputs: Mapping[str, Checked] | Encoded
) -> tuple[Encoded, Carriers]:
    """Inputs as carriers, if they are not, for the program's constants too."""
    if isinstance(inputs, Encoded):
        carriers = Carriers(frozenset(inputs.dictionaries))
        return inputs.fitted(spark, prepared.program, carriers), carriers
    carriers = find_carriers(prepared.program)
    return encode_inputs(spark, prepared.program, inputs, carriers, None), carriers


def _marks(inputs: Mapping[str, Checked] | Encoded) -> dict[str, tuple[int, int | None]]:
    """What tells inputs apart: rows and digest of each."""
    if isinstance(inputs, Encoded):
        return {name: rows_and_digest(frame) for name, frame in inputs.frames.items()}
    return {name: (one.rows, one.digest) for name, one in inputs.items()}


def _kept(keeper: Keeper, inputs: Mapping[str, Held]) -> dict[str, Held]:
    """Inputs that are read often, encoded once."""
    earlier = keeper.earlier_results(INPUTS)
    if earlier is not None:
        return earlier
    kept = {name: keeper.keep(f"input/{name}", held.frame) for name, held in inputs.items()}
    keeper.stratum_done(INPUTS, kept)
    return kept


def run_on_executor(
    spark: SparkSession, prepared: Prepared, checked: Mapping[str, Checked], wanted: Sequence[str]
) -> ClusterResults:
    """All of a program by one engine in one task."""
    carriers = Carriers(frozenset())
    encoded = encode_inputs(spark, prepared.program, checked, carriers, None)
    if not encoded.frames:
        raise SparkError("there are no inputs to send to an executor\n  hint: where='driver'")
    keeper = Keeper()
    frames = {name: Held(frame, checked[name].rows) for name, frame in encoded.frames.items()}
    derived = [name for stratum in prepared.plan(wanted).strata for name in stratum.relations]
    results = list(dict.fromkeys([*derived, *(prepared.stored(name) for name in wanted)]))
    packed, layout = run_on_one(spark, CarriedProgram(prepared, carriers, facts=True), frames, results)
    kept = keeper.keep("all", packed)
    held = {name: Held(layout.unpacked(kept.frame, number), None) for number, name in enumerate(results)}
    stated = given_facts(spark, prepared, encoded.frames)
    return ClusterResults(prepared, carriers, encoded, held, stated, keeper)


def carry(
    prepared: Prepared, carriers: Carriers, constants: Mapping[str, Mapping[int | float | str, int]]
) -> Prepared:
    """A prepared program over carriers."""
    program = carried_program(prepared.program, carriers, constants)
    overrides = {name: plan.forced for name, plan in prepared.schemes.items() if plan.is_forced}
    recarried = replace(prepared, program=program).with_rules(program.rules, ())
    schemes = {name: replace(plan, forced=overrides.get(name)) for name, plan in recarried.schemes.items()}
    return replace(recarried, schemes=schemes)


def given_facts(
    spark: SparkSession,
    carried: Prepared,
    frames: Mapping[str, DataFrame],
    *,
    own: bool = True,
) -> dict[str, Held]:
    """Inputs, and the program's `own` facts, by the relation that stores them."""
    parts: dict[str, list[DataFrame]] = {}
    for name, frame in frames.items():
        alias = carried.aliases.get(name)
        stored = frame if alias is None else _inverted(frame, alias)
        parts.setdefault(carried.stored(name), []).append(stored)
    for name, frame in _own_facts(spark, carried).items() if own else ():
        parts.setdefault(name, []).append(frame)
    return {name: Held(_united(each), None) for name, each in parts.items()}


def _united(parts: Sequence[DataFrame]) -> DataFrame:
    """Distinct rows of all."""
    return parts[0] if len(parts) == 1 else reduce(lambda a, b: a.unionAll(b), parts).distinct()


def _own_facts(spark: SparkSession, carried: Prepared) -> dict[str, DataFrame]:
    """The facts in the text of a program, as carriers."""
    rows: dict[str, list[DataFrame]] = {}
    one = spark.range(1)
    for rule in carried.program.rules:
        if not rule.body:
            args = [arg for arg in rule.head.args if isinstance(arg, Constant)]
            columns = [literal(arg).alias(column(j)) for j, arg in enumerate(args)]
            rows.setdefault(rule.head.relation, []).append(
                one.select(*columns) if columns else one.select(one["id"].alias(column(0)))
            )
    return {name: reduce(lambda a, b: a.unionAll(b), each).distinct() for name, each in rows.items()}


def permuted(frame: DataFrame, alias: Alias) -> DataFrame:
    """The facts of an alias from those of the relation it is stored as."""
    at = {position: j for j, position in enumerate(alias.permutation)}
    return frame.select(*(frame[column(at[j])].alias(column(j)) for j in range(len(at))))


def _inverted(frame: DataFrame, alias: Alias) -> DataFrame:
    """The facts of the relation that stores an alias, from those of the alias."""
    return frame.select(
        *(frame[column(position)].alias(column(j)) for j, position in enumerate(alias.permutation))
    )
