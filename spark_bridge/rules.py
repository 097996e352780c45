"""A rule as DataFrame operations: joins in the plan's order, anti-joins for negation, groups for aggregates.

What is not a join (computed terms, comparisons, aggregates over bindings) is computed by engines in tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.errors import Span
from gpuengine.language.program import (
    Aggregate,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Kind,
    Literal,
    Negation,
    Program,
    Relation,
    Rule,
    Term,
    Variable,
    Wildcard,
    literal_variables,
)
from gpuengine.planning.order import order_body
from gpuengine.planning.plan import Step
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.schemes import plan_schemes
from gpuengine.spark_bridge.carriers import LONG, Carriers, column
from gpuengine.spark_bridge.frames import Held
from gpuengine.spark_bridge.tasks import CarriedProgram

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

_NOWHERE = Span("", 0, 0, 0, 0)
_GROUPS, _BINDINGS, _RESULTS = "@groups", "@bindings", "@results"
_LOW_WORD = 0xFFFFFFFF
_SIGN = -(1 << 63)


@dataclass(frozen=True)
class Computing:
    """Computes over bindings of a program's carriers; errors tell the `text` of the rule they are of."""

    prepared: Prepared
    carriers: Carriers
    text: str = ""

    def run(
        self,
        frame: DataFrame,
        names: Mapping[Variable, str],
        literals: Sequence[Literal],
        needed: Iterable[Variable],
    ) -> tuple[DataFrame, dict[Variable, str]]:
        """Bindings that satisfy the literals, with the variables these bind, projected to `needed`."""
        wanted = set(needed)
        given = [v for v in names if v in wanted.union(*(literal_variables(part) for part in literals))]
        bound = dict.fromkeys([*names, *(v for part in literals for v in literal_variables(part))])
        results = [variable for variable in bound if variable in wanted]
        rule = Rule(_atom(_RESULTS, results), (_atom(_BINDINGS, given), *literals), _NOWHERE, self.text)
        carried = self._carried({_BINDINGS: given, _RESULTS: results}, rule)
        columns = {variable: f"b{n}" for n, variable in enumerate(results)}
        chosen = frame.select(*(names[v] for v in given)) if given else frame
        schema = self._schema([(columns[v], v) for v in results]) or "nothing bigint"
        return chosen.mapInArrow(_EachBatch(carried, list(columns.values())), schema), columns

    def aggregate(
        self,
        frame: DataFrame,
        names: Mapping[Variable, str],
        groups: Mapping[Variable, str],
        part: Aggregate,
        result: str,
    ) -> DataFrame:
        """The groups that have a result: the columns of `groups`, and `result`.

        Rows of `frame` are distinct. A frame without rows may give no result even if there are no groups.
        """
        from pyspark.sql import functions as F

        keys = list(groups.values())
        native = _native_aggregate(part, names)
        if native is not None:
            before, after = native
            grouped = frame.groupBy(*keys).agg(*before)
            return grouped.select(*keys, after.alias(result)).where(F.col(result).isNotNull())
        ordered = [*groups, *(v for v in names if v not in groups)]
        arrangement = {_GROUPS: list(groups), _BINDINGS: ordered, _RESULTS: [*groups, part.result]}
        inner = replace(part, body=(_atom(_BINDINGS, ordered),), outer=tuple(groups))
        rule = Rule(
            _atom(_RESULTS, [*groups, part.result]),
            (_atom(_GROUPS, list(groups)), inner),
            _NOWHERE,
            self.text,
        )
        carried = self._carried(arrangement, rule)
        chosen = frame.select(*(names[v] for v in ordered))
        # All bindings of a group have to be in one task.
        together = chosen.repartition(*keys) if keys else chosen.coalesce(1)
        schema = self._schema([*((groups[v], v) for v in groups), (result, part.result)])
        return together.mapInArrow(_WholeGroups(carried, len(keys), [*keys, result]), schema)

    def _schema(self, columns: Sequence[tuple[str, Variable]]) -> str:
        return ", ".join(f"{name} {self.carriers.carrier(variable.type)}" for name, variable in columns)

    def _carried(self, relations: Mapping[str, Sequence[Variable]], rule: Rule) -> CarriedProgram:
        declared = {
            name: Relation(
                name,
                tuple(Attribute(f"a{j}", variable.type) for j, variable in enumerate(variables)),
                frozenset(),
                _NOWHERE,
            )
            for name, variables in relations.items()
        }
        own = self.prepared.program
        program = Program(declared, (rule,), (), own.records, own.adts, (), own.types)
        prepared = replace(
            self.prepared,
            program=program,
            schemes=plan_schemes(program, {}),
            evaluators={},
        )
        return CarriedProgram(prepared, self.carriers)


@dataclass(frozen=True)
class _EachBatch:
    """Runs a rule over each batch of bindings by itself."""

    carried: CarriedProgram
    names: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from gpuengine.spark_bridge.tasks import prepare_worker

        prepare_worker()
        for batch in batches:
            if batch.num_rows:
                results = self.carried.run({_BINDINGS: [batch]}, [_RESULTS])
                for rows in results.batches(_RESULTS):
                    yield rows.rename_columns(self.names or ["nothing"])


@dataclass(frozen=True)
class _WholeGroups:
    """Runs an aggregate over all bindings of a partition; the first `keys` columns are those of a group."""

    carried: CarriedProgram
    keys: int
    names: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from gpuengine.spark_bridge.tasks import prepare_worker

        prepare_worker()
        pieces = [batch for batch in batches if batch.num_rows]
        if not pieces:
            return
        groups = [piece.select(list(range(self.keys))) for piece in pieces]
        if not self.keys:
            groups = [pa.RecordBatch.from_arrays([pa.array([0])], names=["nothing"])]
        results = self.carried.run({_GROUPS: groups, _BINDINGS: pieces}, [_RESULTS])
        for rows in results.batches(_RESULTS):
            yield rows.rename_columns(self.names)


def _atom(relation: str, variables: Sequence[Variable]) -> Atom:
    return Atom(relation, tuple(variables), _NOWHERE)


def _native_aggregate(part: Aggregate, names: Mapping[Variable, str]) -> tuple[list[Column], Column] | None:
    """What to aggregate and what to make of it, if Spark does it as the engine does."""
    from pyspark.sql import functions as F

    if part.op == "count":
        return [F.count(F.lit(1)).alias("n")], F.col("n")
    target = part.target
    if not isinstance(target, Variable) or target.type.kind not in (Kind.NUMBER, Kind.UNSIGNED):
        return None
    value = F.col(names[target])
    if part.op == "sum":
        # 64-bit sums wrap, but Spark's raise: two sums of half words can't overflow, nor can shifts.
        high = F.sum(F.shiftright(value, 32)).alias("high")
        low = F.sum(value.bitwiseAND(F.lit(_LOW_WORD))).alias("low")
        carried = F.col("high") + F.shiftright(F.col("low"), 32)
        return [high, low], F.shiftleft(carried, 32).bitwiseOR(F.col("low").bitwiseAND(F.lit(_LOW_WORD)))
    extremes: dict[str, Callable[[Column], Column]] = {"min": F.min, "max": F.max}
    if part.op not in extremes:
        return None
    if target.type.kind is Kind.NUMBER:
        return [extremes[part.op](value).alias("extreme")], F.col("extreme")
    # With the sign bit flipped, the bits of unsigned numbers order as signed ones do.
    flipped = value.bitwiseXOR(F.lit(_SIGN).cast(LONG))
    return [extremes[part.op](flipped).alias("extreme")], F.col("extreme").bitwiseXOR(F.lit(_SIGN).cast(LONG))


NOTHING = "nothing"

_COMPARED: Mapping[str, Callable[[Column, Column], Column]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


class RowStatistics:
    """What the planner asks, from row counts alone."""

    def __init__(self, rows: Mapping[str, int | None]) -> None:
        self._rows = rows

    def count(self, relation: str) -> float:
        rows = self._rows.get(relation)
        return float(1_000_000 if rows is None else rows)

    def distinct(self, relation: str, column: int) -> float:
        return max(1.0, self.count(relation) ** 0.75)

    def skew(self, relation: str, column: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Bindings:
    """Variables bound so far; `names` are their columns. A `small` frame is better sent than shuffled."""

    frame: DataFrame
    names: Mapping[Variable, str]
    small: bool = False

    def keep(self, needed: Iterable[Variable]) -> Bindings:
        """Only the variables that something still needs."""
        kept = {variable: self.names[variable] for variable in needed if variable in self.names}
        if set(kept) == set(self.names) and kept:
            return self
        return Bindings(_select(self.frame, list(kept.values())), kept, self.small)


class RuleFrames:
    """Evaluates bodies over frames. `read` gives what an atom reads, by its position and its relation."""

    def __init__(self, spark: SparkSession, computing: Computing, statistics: RowStatistics) -> None:
        self._spark = spark
        self._computing = computing
        self._statistics = statistics

    def head(self, rule: Rule, read: Callable[[int, str], Held], driver: int | None = None) -> DataFrame:
        """The carriers of the head's facts, with repetitions; the atom at `driver` is joined first."""
        from pyspark.sql import functions as F

        plan = order_body(rule.body, self._statistics, driver=driver)
        wanted = {arg for arg in rule.head.args if isinstance(arg, Variable)}
        computing = replace(self._computing, text=rule.text)
        frames = RuleFrames(self._spark, computing, self._statistics)
        bindings = frames._run(rule.body, plan.steps, None, wanted, read)
        columns = [
            (F.col(bindings.names[arg]) if isinstance(arg, Variable) else literal(arg)).alias(column(j))
            for j, arg in enumerate(rule.head.args)
            if isinstance(arg, Variable | Constant)
        ]
        return bindings.frame.select(*(columns or [F.lit(0).cast("bigint").alias(column(0))]))

    def _run(
        self,
        body: Sequence[Literal],
        steps: Sequence[Step],
        given: Bindings | None,
        wanted: set[Variable],
        read: Callable[[int, str], Held],
    ) -> Bindings:
        """The bindings of a body, in the order of its plan, projected to `wanted`."""
        order = [
            (position, body[position]) for step in steps for position in (step.position, *step.alternatives)
        ]
        bindings = given
        waiting: list[Literal] = []  # computations, done together when something else has to be read
        for number, (position, part) in enumerate(order):
            later = wanted.union(*(literal_variables(other) for _, other in order[number + 1 :]))
            if isinstance(part, Atom):
                bindings = self._compute(bindings, waiting, later | literal_variables(part))
                waiting = []
                bindings = self._join(bindings, part, read(position, part.relation), later)
                continue
            if bindings is None:
                bindings = self._unit()
            if isinstance(part, Comparison):
                if not waiting and (done := _natively(bindings, part)) is not None:
                    bindings = done.keep(later)
                else:
                    waiting.append(part)
                continue
            bindings = self._compute(bindings, waiting, later | literal_variables(part))
            waiting = []
            assert bindings is not None
            if isinstance(part, Negation):
                bindings = _without(bindings, part.atom, read(position, part.atom.relation)).keep(later)
            else:
                bindings = self._aggregate(bindings, part, read).keep(later)
        bindings = self._compute(bindings, waiting, wanted)
        return (bindings or self._unit()).keep(wanted)

    def _unit(self) -> Bindings:
        from pyspark.sql import functions as F

        return Bindings(self._spark.range(1).select(F.col("id").alias(NOTHING)), {})

    def _compute(
        self, bindings: Bindings | None, literals: Sequence[Literal], needed: Iterable[Variable]
    ) -> Bindings | None:
        if bindings is None or not literals:
            return bindings
        frame, names = self._computing.run(bindings.frame, bindings.names, literals, needed)
        return Bindings(frame, names)

    def _join(self, bindings: Bindings | None, atom: Atom, held: Held, needed: set[Variable]) -> Bindings:
        """Bindings extended by the facts that match an atom."""
        from pyspark.sql import functions as F

        bound = bindings.names if bindings is not None else {}
        wanted = {arg for arg in atom.args if isinstance(arg, Variable)} & (needed | set(bound))
        side = _matching(atom, held.frame, wanted, bound)
        if bindings is None:
            return replace(side, small=held.is_small)
        new = [variable for variable in side.names if variable not in bound]
        keys = [name for variable, name in side.names.items() if variable in bound]
        frame, other = bindings.frame, side.frame
        if held.is_small:
            other = F.broadcast(other)
        elif bindings.small:
            frame = F.broadcast(frame)
        # Each binding matches one fact at most if all its columns are given, and only an inner join may send
        # the left side to all tasks.
        is_check = not any(isinstance(arg, Wildcard) for arg in atom.args)
        if keys and (new or (is_check and bindings.small)):
            return Bindings(frame.join(other, keys, "inner"), {**bound, **side.names}).keep(needed)
        if keys:
            return Bindings(bindings.frame.join(other, keys, "left_semi"), bound, bindings.small).keep(needed)
        if not new:  # it is enough that there is some fact
            return Bindings(frame.join(other.limit(1).select(), how="cross"), bound).keep(needed)
        return Bindings(frame.join(other, how="cross"), {**bound, **side.names}).keep(needed)

    def _aggregate(self, bindings: Bindings, part: Aggregate, read: Callable[[int, str], Held]) -> Bindings:
        """``result = op target : { body }``, its groups being the bindings of the outer variables."""
        from pyspark.sql import functions as F

        outer = {variable: bindings.names[variable] for variable in part.outer}
        groups = Bindings(_select(bindings.frame, list(outer.values())).distinct(), outer) if outer else None
        inside = frozenset(outer)
        plan = order_body(part.body, self._statistics, given=inside if outer else None)
        local = {v for other in part.body for v in literal_variables(other)} | inside
        solutions = self._run(part.body, plan.steps, groups, local, lambda _, relation: read(-1, relation))
        # Computations name columns anew; groups are joined back by the names that they have outside.
        inner = {v: f"w{n}" for n, v in enumerate(solutions.names)} | outer
        columns = [F.col(name).alias(inner[variable]) for variable, name in solutions.names.items()]
        distinct = solutions.frame.select(*columns).distinct() if columns else solutions.frame.distinct()
        name = _fresh(bindings.names)
        results = self._computing.aggregate(distinct, inner, outer, part, name)
        keys = list(outer.values())
        # Sums and counts of nothing are 0, other aggregates of nothing do not hold.
        how = "left" if part.op in ("count", "sum") else "inner"
        frame = bindings.frame.join(results, keys or F.lit(True), how)
        if how == "left":
            frame = frame.fillna({name: 0})
        if part.result in bindings.names:
            frame = frame.where(frame[name] == frame[bindings.names[part.result]]).drop(name)
            return Bindings(frame, bindings.names)
        return Bindings(frame, {**bindings.names, part.result: name})


def literal(term: Constant) -> Column:
    """A constant as its carrier."""
    from pyspark.sql import functions as F

    if isinstance(term.value, str):
        return F.lit(term.value)
    dtype = {Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}.get(term.type.kind, np.int64)
    return F.lit(int(np.array([term.value], dtype).view(np.int64)[0])).cast("bigint")


def _matching(atom: Atom, frame: DataFrame, wanted: set[Variable], bound: Mapping[Variable, str]) -> Bindings:
    """The facts that an atom matches by itself, as bindings of its `wanted` variables."""
    from pyspark.sql import functions as F

    first: dict[Variable, int] = {}
    for position, arg in enumerate(atom.args):
        if isinstance(arg, Constant):
            frame = frame.where(F.col(column(position)) == literal(arg))
        elif isinstance(arg, Variable):
            if arg in first:
                frame = frame.where(F.col(column(position)) == F.col(column(first[arg])))
            first.setdefault(arg, position)
    names = dict(bound)
    columns = []
    for variable, position in first.items():
        if variable in wanted:
            names.setdefault(variable, _fresh(names))
            columns.append(F.col(column(position)).alias(names[variable]))
    taken = {variable: names[variable] for variable in first if variable in wanted}
    return Bindings(frame.select(*columns) if columns else _select(frame, []), taken)


def _without(bindings: Bindings, atom: Atom, held: Held) -> Bindings:
    """Bindings for which no fact matches."""
    from pyspark.sql import functions as F

    variables = {arg for arg in atom.args if isinstance(arg, Variable)}
    side = _matching(atom, held.frame, variables, bindings.names)
    other = _hinted(side.frame, held)
    if side.names:
        return Bindings(bindings.frame.join(other, list(side.names.values()), "left_anti"), bindings.names)
    any_fact = other.limit(1).select(F.lit(True).alias("found"))
    return Bindings(bindings.frame.join(any_fact, F.lit(True), "left_anti"), bindings.names)


def _natively(bindings: Bindings, part: Comparison) -> Bindings | None:
    """A comparison that Spark makes as the engine does: of numbers, or of anything carried for equality."""
    sides = (part.left, part.right)
    if part.op not in _COMPARED or not all(isinstance(side, Variable | Constant) for side in sides):
        return None
    kinds = {side.type.kind for side in sides}
    if not (kinds == {Kind.NUMBER} or (kinds == {Kind.SYMBOL} and part.op in ("=", "!="))):
        return None
    unbound = [side for side in sides if isinstance(side, Variable) and side not in bindings.names]
    if not unbound:
        left, right = (_column(bindings, side) for side in sides)
        return Bindings(bindings.frame.where(_COMPARED[part.op](left, right)), bindings.names)
    if len(unbound) > 1:
        return None
    source = part.right if part.left in unbound else part.left
    name = _fresh(bindings.names)
    assert isinstance(unbound[0], Variable)
    frame = bindings.frame.withColumn(name, _column(bindings, source))
    return Bindings(frame, {**bindings.names, unbound[0]: name})


def _column(bindings: Bindings, term: Term) -> Column:
    from pyspark.sql import functions as F

    if isinstance(term, Variable):
        return F.col(bindings.names[term])
    assert isinstance(term, Constant)
    return literal(term)


def _hinted(frame: DataFrame, held: Held) -> DataFrame:
    from pyspark.sql import functions as F

    return F.broadcast(frame) if held.is_small else frame


def _select(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.select(*names) if names else frame.select(F.lit(0).cast("bigint").alias(NOTHING))


def _fresh(names: Mapping[Variable, str]) -> str:
    """A column that no variable has yet."""
    taken = set(names.values())
    return next(f"b{n}" for n in range(len(taken) + 1) if f"b{n}" not in taken)
