"""Recursive strata that decompose by a partition key: a column that every recursive rule keeps.

Each task runs the whole fixpoint on its part of the key's values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Kind,
    Literal,
    Negation,
    Relation,
    Rule,
    Variable,
)
from gpuengine.planning.plan import Stratum, describe
from gpuengine.spark_bridge.carriers import LONG, STRING, Carriers, column
from gpuengine.spark_bridge.frames import Held, broadcast_table, read_broadcast
from gpuengine.spark_bridge.tasks import CarriedProgram

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

MOST_KEYS = 64
"""A stratum with more keys than this has many that are alike."""


@dataclass(frozen=True)
class PartitionKey:
    """`columns` are the key columns of a stratum's relations.

    `partitioned` has for each other relation that its recursive rules read a column to partition it by along
    with the key, or None if each part must have all of it.
    """

    columns: Mapping[str, int]
    partitioned: Mapping[str, int | None]

    @property
    def broadcast(self) -> tuple[str, ...]:
        """The relations that each part must have all of."""
        return tuple(name for name, column in self.partitioned.items() if column is None)


def partition_keys(stratum: Stratum) -> list[PartitionKey]:
    """Every partition key of a recursive stratum, `MOST_KEYS` at most; none if it is not recursive.

    A stratum that stops at some size (``.limitsize``) is not to be partitioned, which the caller sees to.
    """
    rules = _recursive_rules(stratum)
    return [_with_others(stratum, rules, columns) for columns in islice(_assignments(rules), MOST_KEYS)]


def choose_key(
    keys: Sequence[PartitionKey], rows: Mapping[str, float], distinct: Callable[[str, int], float]
) -> PartitionKey:
    """The key with the fewest rows to broadcast, and of those the one with the most values.

    `rows` are the sizes of the other relations, `distinct(relation, column)` says how many values there are.
    """

    def cost(key: PartitionKey) -> tuple[float, float]:
        values = max(distinct(name, column) for name, column in key.columns.items())
        return sum(rows.get(name, 0.0) for name in key.broadcast), -values

    return min(keys, key=cost)


def why_not(stratum: Stratum) -> str:
    """Why a stratum has no partition key, for a report; empty if it has one."""
    rules = _recursive_rules(stratum)
    if not rules:
        return f"{_listed(stratum.relations)} is not recursive"
    for count, rule in enumerate(rules, 1):
        if next(_assignments([rule]), None) is None:
            names = dict.fromkeys([rule.head.relation, *(atom.relation for atom in rule.members)])
            return f"no column of {_listed(names)} is kept from body to head by {rule.told}"
        if next(_assignments(rules[:count]), None) is None:
            earlier = "; ".join(other.told for other in rules[: count - 1])
            return f"no column that {earlier} keeps from body to head is kept by {rule.told}"
    return ""


@dataclass(frozen=True)
class _RecursiveRule:
    """A rule, its body's atoms of its own stratum, and for each variable the one that stands for it."""

    rule: Rule
    members: tuple[Atom, ...]
    same: Mapping[Variable, Variable]

    @property
    def head(self) -> Atom:
        return self.rule.head

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return self.head, *self.members

    @property
    def told(self) -> str:
        return f"{describe(self.head)} :- {', '.join(map(describe, self.rule.body))}"

    def variable(self, atom: Atom, column: int) -> Variable | None:
        """What stands in a column; None if it is no variable."""
        arg = atom.args[column]
        return self.same.get(arg, arg) if isinstance(arg, Variable) else None

    def keeps(self, columns: Mapping[str, int]) -> bool:
        """Do all atoms of the relations in `columns` have one variable there?"""
        variables = {self.variable(a, columns[a.relation]) for a in self.atoms if a.relation in columns}
        return len(variables) <= 1 and None not in variables


def _recursive_rules(stratum: Stratum) -> list[_RecursiveRule]:
    own = set(stratum.relations)
    rules = dict.fromkeys(variant.rule for variant in stratum.recursive)
    return [
        _RecursiveRule(
            rule,
            tuple(part for part in rule.body if isinstance(part, Atom) and part.relation in own),
            _equal_variables(rule),
        )
        for rule in rules
    ]


def _equal_variables(rule: Rule) -> dict[Variable, Variable]:
    """For variables that the rule equates, ``x = y``, one of them. Equal floats may have different bits."""
    same: dict[Variable, Variable] = {}
    for part in rule.body:
        if not isinstance(part, Comparison) or part.op != "=":
            continue
        x, y = part.left, part.right
        if not isinstance(x, Variable) or not isinstance(y, Variable):
            continue
        if x.type.space == y.type.space and x.type.kind is not Kind.FLOAT:
            kept, gone = same.get(x, x), same.get(y, y)
            same |= {x: kept, y: kept}
            same = {one: kept if stands == gone else stands for one, stands in same.items()}
    return same


def _assignments(rules: Sequence[_RecursiveRule]) -> Iterator[dict[str, int]]:
    """The key columns of all relations that each of the rules keeps, in lexicographic order."""
    order = _connected_order(rules)
    touching = {
        name: [rule for rule in rules if any(a.relation == name for a in rule.atoms)] for name in order
    }

    def extend(columns: dict[str, int]) -> Iterator[dict[str, int]]:
        if len(columns) == len(order):
            yield columns
            return
        name = order[len(columns)]
        for place in range(_arity(name, touching[name])):
            tried = {**columns, name: place}
            if all(rule.keeps(tried) for rule in touching[name]):
                yield from extend(tried)

    if order:
        yield from extend({})


def _connected_order(rules: Sequence[_RecursiveRule]) -> list[str]:
    """The relations such that each has a rule in common with one before, as far as can be.

    So the column chosen for one leaves little choice for the next.
    """
    together: dict[str, dict[str, None]] = {}
    for rule in rules:
        names = dict.fromkeys(atom.relation for atom in rule.atoms)
        for name in names:
            together.setdefault(name, {}).update(names)
    order: dict[str, None] = {}
    for start in together:
        waiting = deque([start])
        while waiting:
            name = waiting.popleft()
            if name not in order:
                order[name] = None
                waiting.extend(together[name])
    return list(order)


def _arity(name: str, rules: Iterable[_RecursiveRule]) -> int:
    return next(len(atom.args) for rule in rules for atom in rule.atoms if atom.relation == name)


def _with_others(
    stratum: Stratum, rules: Sequence[_RecursiveRule], columns: Mapping[str, int]
) -> PartitionKey:
    """The key with what others can be partitioned by: a column where the key stands whenever one is read."""
    own = set(stratum.relations)
    possible: dict[str, list[int]] = {}
    for rule in rules:
        key = rule.variable(rule.head, columns[rule.head.relation])
        for atom in _atoms_read(rule.rule.body):
            if atom.relation not in own:
                before = possible.get(atom.relation, range(len(atom.args)))
                possible[atom.relation] = [j for j in before if rule.variable(atom, j) == key]
    partitioned = {name: places[0] if places else None for name, places in possible.items()}
    return PartitionKey(dict(columns), partitioned)


def _atoms_read(body: Iterable[Literal]) -> Iterator[Atom]:
    """Every atom, also those negated and inside aggregates, whose facts without the key then matter no less.

    A key variable inside an aggregate is bound outside, since the head mentions it too.
    """
    for part in body:
        if isinstance(part, Atom):
            yield part
        elif isinstance(part, Negation):
            yield part.atom
        elif isinstance(part, Aggregate):
            yield from _atoms_read(part.body)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


TAG, KEY = "tag", "key"


@dataclass(frozen=True)
class Layout:
    """Facts of several relations in one frame: which one (`TAG`), the key, and places for their columns.

    The places are ``l0``, ``l1``, ... of bigint and ``s0``, ``s1``, ... of string; a relation uses those of
    the carriers it has, in the order of its columns. One relation alone is a frame as ever.
    """

    names: tuple[str, ...]
    carriers: tuple[tuple[str, ...], ...]
    key: str | None = None

    @classmethod
    def of(
        cls, relations: Mapping[str, Relation], names: Sequence[str], carriers: Carriers, key: str | None
    ) -> Layout:
        kinds = [tuple(carriers.carrier(a.type) for a in relations[name].attributes) for name in names]
        # A relation without columns holds or not, which its frame says in one column.
        return cls(tuple(names), tuple(kind or (LONG,) for kind in kinds), key)

    @property
    def is_single(self) -> bool:
        return len(self.names) == 1

    def places(self, number: int) -> list[str]:
        """Where the columns of a relation are."""
        if self.is_single:
            return [column(j) for j in range(len(self.carriers[0]))]
        used = {LONG: 0, STRING: 0}
        places = []
        for carrier in self.carriers[number]:
            places.append(f"{'l' if carrier == LONG else 's'}{used[carrier]}")
            used[carrier] += 1
        return places

    @property
    def columns(self) -> list[tuple[str, str]]:
        """All columns of the frame with their types."""
        if self.is_single:
            return [(column(j), carrier) for j, carrier in enumerate(self.carriers[0])]
        keys = [(KEY, self.key)] if self.key is not None else []
        widths = {c: max(kinds.count(c) for kinds in self.carriers) for c in (LONG, STRING)}
        longs = [(f"l{j}", LONG) for j in range(widths[LONG])]
        return [(TAG, LONG), *keys, *longs, *((f"s{j}", STRING) for j in range(widths[STRING]))]

    @property
    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self.columns)

    def packed(self, frames: Mapping[str, DataFrame], keys: Mapping[str, int]) -> DataFrame:
        """The frames of all relations as one; `keys` are their key columns."""
        from pyspark.sql import functions as F

        if self.is_single:
            return frames[self.names[0]]
        parts = []
        for number, name in enumerate(self.names):
            at: dict[str, Column] = {TAG: F.lit(number).cast(LONG)}
            if name in keys:
                at[KEY] = F.col(column(keys[name]))
            at.update({place: F.col(column(j)) for j, place in enumerate(self.places(number))})
            parts.append(
                frames[name].select(*(at.get(p, F.lit(None)).cast(kind).alias(p) for p, kind in self.columns))
            )
        return reduce(lambda a, b: a.unionAll(b), parts)

    def unpacked(self, frame: DataFrame, number: int) -> DataFrame:
        """The frame of one relation out of that of all."""
        from pyspark.sql import functions as F

        if self.is_single:
            return frame
        chosen = frame.where(F.col(TAG) == number)
        return chosen.select(*(F.col(place).alias(column(j)) for j, place in enumerate(self.places(number))))

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """In a task: the rows of each relation in a batch."""
        import pyarrow.compute as pc

        if self.is_single:
            yield self.names[0], batch
            return
        tags = batch.column(TAG)
        for number in pc.unique(tags).to_pylist():
            rows = batch.filter(pc.equal(tags, number))
            yield self.names[number], rows.select(self.places(number))

    def joined(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """In a task: rows of one relation as rows of all."""
        import pyarrow as pa

        if self.is_single:
            return batch
        at = dict(zip(self.places(number), batch.columns, strict=True))
        types = {LONG: pa.int64(), STRING: pa.string()}
        rows = batch.num_rows
        arrays = []
        for name, kind in self.columns:
            if name == TAG:
                arrays.append(pa.repeat(pa.scalar(number, pa.int64()), rows))
            else:
                arrays.append(at[name] if name in at else pa.nulls(rows, types[kind]))
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self.columns])


@dataclass(frozen=True)
class PartFixpoint:
    """What each task does: its part of the facts, and all of those that were sent, to the fixpoint.

    One that `is_alone` has all facts and all memory, and something to do even if no facts were given.
    """

    carried: CarriedProgram
    given: Layout
    results: Layout
    sent: Mapping[str, Any]
    is_alone: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from gpuengine.spark_bridge.tasks import prepare_worker, task_backend, task_memory, task_threads

        prepare_worker()
        tables: dict[str, list[Any]] = {name: [] for name in self.given.names}
        for batch in batches:
            if batch.num_rows:
                for name, rows in self.given.split(batch):
                    tables[name].append(rows)
        if not self.is_alone and not any(tables.values()):
            return
        for name, shared in self.sent.items():
            tables[name] = [read_broadcast(shared)]
        backend, device = task_backend()
        derived = self.carried.run(
            tables,
            self.results.names,
            threads=task_threads(),
            memory=None if self.is_alone else task_memory(),
            backend=backend,
            device=device,
        )
        for number, name in enumerate(self.results.names):
            for rows in derived.batches(name):
                yield self.results.joined(number, rows)


def run_in_parts(
    spark: SparkSession,
    carried: CarriedProgram,
    facts: Mapping[str, Held],
    keys: Mapping[str, int],
    sent: Mapping[str, Held],
    results: Sequence[str],
    partitions: int,
) -> tuple[DataFrame, Layout]:
    """All facts of `results`, in one frame as the layout says; nothing is computed yet.

    `facts` are partitioned by their column in `keys`, `sent` go to every task whole.
    """
    relations = carried.prepared.program.relations
    names = list(facts)
    first = carried.carriers.carrier(relations[names[0]].attributes[keys[names[0]]].type)
    given = Layout.of(relations, names, carried.carriers, first)
    packed = given.packed({name: held.frame for name, held in facts.items()}, keys)
    key = column(keys[names[0]]) if given.is_single else KEY
    wanted = Layout.of(relations, results, carried.carriers, None)
    shared = {name: broadcast_table(spark, held.frame, rows=held.rows) for name, held in sent.items()}
    task = PartFixpoint(carried, given, wanted, shared)
    return packed.repartition(partitions, key).mapInArrow(task, wanted.schema), wanted


def run_on_one(
    spark: SparkSession, carried: CarriedProgram, facts: Mapping[str, Held], results: Sequence[str]
) -> tuple[DataFrame, Layout]:
    """All facts of `results` by one engine in one task, in one frame as the layout says."""
    relations = carried.prepared.program.relations
    given = Layout.of(relations, list(facts), carried.carriers, None)
    wanted = Layout.of(relations, results, carried.carriers, None)
    packed = given.packed({name: held.frame for name, held in facts.items()}, {})
    task = PartFixpoint(carried, given, wanted, {}, is_alone=True)
    return packed.repartition(1).mapInArrow(task, wanted.schema), wanted
