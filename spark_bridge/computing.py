"""What is not a join: computed terms, comparisons and aggregates over bindings.

Whatever Spark does exactly as the engine is left to it. The rest is done by an engine in each task, by a rule
over the bindings, so that there is one definition of every functor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuengine.errors import Span
from gpuengine.language.program import (
    Aggregate,
    Atom,
    Attribute,
    Kind,
    Literal,
    Program,
    Relation,
    Rule,
    Variable,
    literal_variables,
)
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.schemes import plan_schemes
from gpuengine.spark_bridge.carriers import LONG, Carriers
from gpuengine.spark_bridge.task_engine import CarriedProgram

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

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
            aliases={},
            schemes=plan_schemes(program, {}, {}),
            overrides={},
            evaluators={},
        )
        return CarriedProgram(prepared, self.carriers)


@dataclass(frozen=True)
class _EachBatch:
    """Runs a rule over each batch of bindings by itself."""

    carried: CarriedProgram
    names: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from gpuengine.spark_bridge.worker import prepare_worker

        prepare_worker()
        for batch in batches:
            if batch.num_rows:
                results = self.carried.run({_BINDINGS: [batch]}, [_RESULTS])
                for found in results.batches(_RESULTS):
                    yield found.rename_columns(self.names or ["nothing"])


@dataclass(frozen=True)
class _WholeGroups:
    """Runs an aggregate over all bindings of a partition; the first `keys` columns are those of a group."""

    carried: CarriedProgram
    keys: int
    names: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from gpuengine.spark_bridge.worker import prepare_worker

        prepare_worker()
        pieces = [batch for batch in batches if batch.num_rows]
        if not pieces:
            return
        groups = [piece.select(list(range(self.keys))) for piece in pieces]
        if not self.keys:
            groups = [pa.RecordBatch.from_arrays([pa.array([0])], names=["nothing"])]
        results = self.carried.run({_GROUPS: groups, _BINDINGS: pieces}, [_RESULTS])
        for found in results.batches(_RESULTS):
            yield found.rename_columns(self.names)


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
