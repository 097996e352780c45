"""Random well-formed pipelines, described apart from any backend and built for each.

A `Case` names its relations by number. Every relation has a history of rounds, so that its index may
have been built early and appended to since, and some rows may lie beyond its delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from gpuengine.kernels.contract import (
    IGNORE,
    Collect,
    Comparator,
    Compare,
    Contains,
    Domain,
    Driver,
    Exists,
    IndexProbe,
    Insert,
    Pipeline,
    Probe,
    Representation,
    Scan,
    ValueTable,
    check,
    write,
)
from tests.kernels.backends import Backend, Bounds, Row, bounds_of, columns_of, filled_set, make_rows

#: Pools of ids: dense ones make bitmaps and direct indexes, the others hashed and wide ones.
DENSE = (0, 1, 2, 3)
NUMBERS = (0, 1, 5, 2**24 - 1, 2**24, 2**24 + 1, 2**24 + 2)
SPARSE = (0, 3, 77, 2**20 - 1)
EXTREME = (0, 2**24, 2**31, 2**32 - 2)
POOLS = (DENSE, NUMBERS, SPARSE, EXTREME)  # no two end in the same id

VALUES = {
    Representation.BY_NUMBER: ValueTable(np.array([-(2**63), -1, 2**63 - 1], np.int64)),
    Representation.BY_UNSIGNED: ValueTable(np.array([2**64 - 1, 2**24, 2**63], np.uint64)),
    Representation.BY_FLOAT: ValueTable(np.array([0.0, float("nan"), -1.5, float("inf")])),
}


@dataclass(frozen=True)
class RelationCase:
    """`ends` are the ends of the rounds so far; the index is built in round `built`, then appended to."""

    arity: int
    rows: tuple[Row, ...]
    ends: tuple[int, ...]
    built: int
    exact: bool


@dataclass(frozen=True)
class ProbeCase:
    relation: int
    columns: tuple[int, ...]
    keys: tuple[int, ...]
    payload: tuple[int, ...]
    domain: Domain


@dataclass(frozen=True)
class OperationCase:
    """`kind` is probe, scan, contains, exists or compare; the rest is what that kind needs."""

    kind: str
    probes: tuple[ProbeCase, ...] = ()
    relation: int = 0
    registers: tuple[int, ...] = ()
    domain: Domain = Domain.ALL
    negated: bool = False
    unless: tuple[int, int] | None = None
    comparison: tuple[Comparator, Representation] = (Comparator.EQUAL, Representation.BY_ID)


@dataclass(frozen=True)
class Case:
    pool: tuple[int, ...]
    relations: tuple[RelationCase, ...]
    driver: int
    bindings: tuple[int, ...]
    operations: tuple[OperationCase, ...]
    sink: tuple[int, ...]
    inserts: bool
    held: tuple[Row, ...]
    full_bounds: bool
    registers: int
    constants: tuple[tuple[int, int], ...]

    @property
    def sink_bounds(self) -> Bounds:
        """Whatever the pipeline may derive lies inside."""
        end = 2**32 - 1 if self.full_bounds else max(self.pool) + 1
        return [(0 if self.full_bounds else min(self.pool), end)] * len(self.sink)


class _Drawing:
    """Draws one pipeline from front to back; knows which registers hold a value."""

    def __init__(self, random: Random, relations: Sequence[RelationCase], pool: tuple[int, ...]) -> None:
        self.random, self.relations, self.pool = random, relations, pool
        self.known: list[int] = []
        self.count = 0
        self.constants = [(self.new(), random.choice(pool)) for _ in range(random.randint(1, 2))]

    def new(self) -> int:
        self.known.append(self.count)
        self.count += 1
        return self.count - 1

    def register(self) -> int:
        return self.random.choice(self.known)

    def bindings(self, width: int, writes: bool = True) -> tuple[int, ...]:
        found = []
        for _ in range(width):
            choice = self.random.random()
            if choice < 0.8 and writes:
                found.append(write(self.new()))
            else:
                found.append(check(self.register()) if choice < 0.88 else IGNORE)
        return tuple(found)

    def domain(self, relation: int) -> Domain:
        """What an exact index holds is not divided into old and new: it has no delta."""
        case = self.relations[relation]
        settled = len(case.ends) > 1 and case.ends[-2] == case.ends[-1]
        return Domain.ALL if case.exact and not settled else self.random.choice(list(Domain))

    def numbered(self, least: int, most: int) -> list[int]:
        return [n for n, relation in enumerate(self.relations) if least <= relation.arity <= most]

    def probe(self, kind: str) -> list[OperationCase]:
        usable = self.numbered(1, 9)
        if not usable:
            return []
        number = self.random.choice(usable)
        arity = self.relations[number].arity
        columns = sorted(self.random.sample(range(arity), min(arity, self.random.choice([1, 1, 2]))))
        keys = tuple(self.register() for _ in columns)
        payload = self.bindings(arity - len(columns), writes=kind == "probe")
        probe = ProbeCase(number, tuple(columns), keys, payload, self.domain(number))
        return [OperationCase(kind, (probe,), negated=kind == "exists" and self.random.random() < 0.5)]

    def rivals(self, number: int) -> list[OperationCase]:
        """A probe with alternatives that all bind one register, and the checks of those not chosen."""
        usable = self.numbered(2, 3)
        if not usable:
            return []
        target, known = self.count, list(self.known)
        self.count += 1
        probes, registers = [], []
        for relation in self.random.choices(usable, k=self.random.choice([2, 2, 3])):
            arity = self.relations[relation].arity
            place = self.random.randrange(arity)
            columns = tuple(c for c in range(arity) if c != place)
            keys = tuple(self.random.choice(known) for _ in columns)
            probes.append(ProbeCase(relation, columns, keys, (write(target),), self.domain(relation)))
            registers.append((*keys[:place], target, *keys[place:]))
        self.known.append(target)
        checks = [
            OperationCase("contains", relation=probe.relation, registers=its, unless=(number, alternative))
            for alternative, (probe, its) in enumerate(zip(probes, registers, strict=True))
        ]
        return [OperationCase("probe", tuple(probes)), *checks]

    def operation(self, number: int) -> list[OperationCase]:
        """One operation, or a probe with alternatives and its checks; `number` is its place."""
        kind = self.random.choice(["probe"] * 4 + ["rivals"] * 2 + ["scan", "filter", "filter", "filter"])
        if kind == "rivals":
            return self.rivals(number)
        if kind == "probe":
            return self.probe(kind)
        if kind == "filter":
            return self.filter()
        relation = self.random.randrange(len(self.relations))
        arity = self.relations[relation].arity
        bindings = (IGNORE,) * arity if self.random.random() < 0.3 else self.bindings(arity)
        domain = self.random.choice(list(Domain))
        return [OperationCase("scan", relation=relation, registers=bindings, domain=domain)]

    def filter(self) -> list[OperationCase]:
        kind = self.random.choice(["contains", "exists", "compare"])
        if kind == "exists":
            return self.probe(kind)
        if kind == "compare":
            return [self.compare()]
        relation = self.random.randrange(len(self.relations))
        registers = tuple(self.register() for _ in range(self.relations[relation].arity))
        negated = self.random.random() < 0.5
        return [OperationCase("contains", relation=relation, registers=registers, negated=negated)]

    def compare(self) -> OperationCase:
        representation = Representation.BY_ID
        if self.pool[-1] in NUMBERS:
            representation = self.random.choice(list(Representation)[:3])
        elif self.pool[-1] in DENSE:
            representation = self.random.choice([Representation.BY_ID, Representation.BY_FLOAT])
        pair = (self.register(), self.register())
        comparison = (self.random.choice(list(Comparator)), representation)
        return OperationCase("compare", registers=pair, comparison=comparison)

    def case(
        self,
        driver: int,
        bindings: tuple[int, ...],
        operations: Sequence[OperationCase],
        sink: tuple[int, ...],
    ) -> Case:
        held = {
            tuple(self.random.choice(self.pool) for _ in sink)
            for _ in range(self.random.choice([0, 0, 1, 4]))
        }
        return Case(
            self.pool,
            tuple(self.relations),
            driver,
            bindings,
            tuple(operations),
            sink,
            self.random.random() < 0.7,
            tuple(sorted(held)),
            self.random.random() < 0.5,
            self.count,
            tuple(self.constants),
        )


def _pool(random: Random) -> tuple[int, ...]:
    """Two to four ids, so that joins meet; the greatest one says which pool they are from."""
    pool = random.choice(POOLS)
    return (*random.sample(pool[:-1], random.choice([1, 2, 2, 3])), pool[-1])


def _relation(random: Random, pool: Sequence[int], arity: int) -> RelationCase:
    """Rows with many duplicates, from none to some; columns may be skewed or all equal."""
    even, skewed, equal = [1] * len(pool), [9] + [1] * (len(pool) - 1), [1] + [0] * (len(pool) - 1)
    weights = [random.choice([even, even, even, skewed, equal])] * arity
    count = random.choice([0, 1, 4, 8, 12, 12, 16, 16])
    rows = [tuple(random.choices(pool, weight)[0] for weight in weights) for _ in range(count)]
    if random.random() < 0.3:
        rows = list(dict.fromkeys(rows))
    ends = sorted(random.randint(0, len(rows)) for _ in range(random.randint(0, 3)))
    if not ends or random.random() < 0.7:
        ends.append(len(rows))
    exact = random.random() < 0.4
    built = len(ends) - 1 if exact else random.randrange(len(ends))
    return RelationCase(arity, tuple(rows), tuple(ends), built, exact)


def any_case(seed: int) -> Case:
    """A pipeline of up to four operations (a probe with alternatives brings its checks along)."""
    random = Random(seed)
    pool = _pool(random)
    arities = random.choices([0, 1, 2, 3, 4], [1, 3, 8, 4, 1], k=random.randint(1, 4))
    drawing = _Drawing(random, [_relation(random, pool, arity) for arity in arities], pool)
    driver = random.randrange(len(arities))
    bindings = drawing.bindings(arities[driver])
    operations: list[OperationCase] = []
    for _ in range(random.randint(0, 4)):
        operations += drawing.operation(len(operations))
    width = random.choices([0, 1, 2, 3, 4], [1, 2, 6, 3, 2])[0]
    return drawing.case(driver, bindings, operations, tuple(drawing.register() for _ in range(width)))


def last_probe_case(seed: int) -> Case:
    """Pipelines that end in a probe of one column and a few filters, which the CPU fuses into one loop."""
    random = Random(seed)
    pool = _pool(random)
    arities = [2, 2, random.choice([1, 2, 3])]
    drawing = _Drawing(random, [_relation(random, pool, arity) for arity in arities], pool)
    bindings = tuple(write(drawing.new()) for _ in range(2))
    operations: list[OperationCase] = []
    if random.random() < 0.3:
        operations += drawing.operation(0)
    if random.random() < 0.5:
        operations += drawing.rivals(len(operations))
    else:
        column = random.randrange(2)
        probe = ProbeCase(1, (column,), (drawing.register(),), (write(drawing.new()),), drawing.domain(1))
        operations.append(OperationCase("probe", (probe,)))
    for _ in range(random.randint(0, 2)):
        operations += drawing.filter()
    sink = [drawing.count - 1, *(drawing.register() for _ in range(random.randint(0, 3)))]
    random.shuffle(sink)
    return drawing.case(0, bindings, operations, tuple(sink))


def composition_case(seed: int) -> Case:
    """The commonest shape: one probe by one column between the driver and a set of pairs."""
    random = Random(seed)
    pool = _pool(random)
    arities = [random.choice([2, 3]), 2]
    drawing = _Drawing(random, [_relation(random, pool, arity) for arity in arities], pool)
    bindings = tuple(write(drawing.new()) for _ in range(arities[0]))
    joined = drawing.new()
    key = (random.choice(bindings),)
    probe = ProbeCase(1, (random.randrange(2),), key, (write(joined),), drawing.domain(1))
    sink = [joined, random.choice(bindings)]
    random.shuffle(sink)
    return drawing.case(0, bindings, [OperationCase("probe", (probe,))], tuple(sink))


def gather_case(seed: int) -> Case:
    """One probe by one or two columns, of which what it finds is collected, with or without the driver's."""
    random = Random(seed)
    pool = _pool(random)
    arities = [random.choice([1, 2, 3]), random.choice([2, 3, 4])]
    drawing = _Drawing(random, [_relation(random, pool, arity) for arity in arities], pool)
    bindings = tuple(write(drawing.new()) for _ in range(arities[0]))
    columns = tuple(sorted(random.sample(range(arities[1]), random.choice([1, min(2, arities[1] - 1)]))))
    keys = tuple(random.choice(bindings) for _ in columns)
    found = [write(drawing.new())]
    found += [random.choice([IGNORE, write(drawing.new())]) for _ in range(arities[1] - len(columns) - 1)]
    random.shuffle(found)
    probe = ProbeCase(1, columns, keys, tuple(found), drawing.domain(1))
    written = [register for register in found if register != IGNORE]
    sink = [*written[: random.choice([1, 9])], *random.sample(bindings, random.randrange(arities[0] + 1))]
    random.shuffle(sink)
    case = drawing.case(0, bindings, [OperationCase("probe", (probe,))], tuple(sink))
    return replace(case, inserts=False)


class Built:
    """A case on one backend: its rows, indexes, sets, the pipeline, and the head's rows and set."""

    def __init__(self, case: Case, backend: Backend) -> None:
        self.case, self.backend = case, backend
        self._indexes: dict[tuple[int, tuple[int, ...]], Any] = {}
        self.rows = [self._live(number) for number in range(len(case.relations))]
        self._sets = [
            filled_set(backend, rows, relation.arity, bounds_of(relation.rows, relation.arity))
            for rows, relation in zip(self.rows, case.relations, strict=True)
        ]
        self.head = make_rows(backend, case.held, len(case.sink))
        self.keyset = filled_set(backend, self.head, len(case.sink), case.sink_bounds)
        sink = Insert(self.keyset, case.sink) if case.inserts else Collect(case.sink)
        self.pipeline = Pipeline(
            Driver(self.rows[case.driver], case.bindings),
            tuple(self._operation(operation) for operation in case.operations),
            sink,
            case.registers,
            case.constants,
        )

    def take(self, found: Sequence[Row], room: int) -> None:
        """Add what came out to the head, and make room in its set for `room` more."""
        if self.case.inserts:
            arity = len(self.case.sink)
            more = found[self.head.count - len(self.case.held) :]
            self.head.append(columns_of(more, arity), len(more))
            self.keyset.reserve(self.head.count + room, self.head)

    def _live(self, number: int) -> Any:
        """Let a relation's rounds pass, with an index by every pair of columns that some probe wants."""
        relation = self.case.relations[number]
        rows = self.backend.rows(relation.arity)
        wanted = {
            probe.columns
            for operation in self.case.operations
            for probe in operation.probes
            if probe.relation == number
        }
        start = 0
        for round_number, end in enumerate(relation.ends):
            part = relation.rows[start:end]
            rows.append(columns_of(part, relation.arity), len(part))
            rows.advance()
            for columns in sorted(wanted):
                if round_number == relation.built:
                    index = self.backend.index(rows, columns, bounds_of(relation.rows, relation.arity))
                    index.build(exact=relation.exact)
                    self._indexes[number, columns] = index
                elif round_number > relation.built:
                    assert self._indexes[number, columns].ensure()
            start = end
        rest = relation.rows[start:]
        rows.append(columns_of(rest, relation.arity), len(rest))
        return rows

    def _probe(self, probe: ProbeCase) -> IndexProbe:
        index = self._indexes[probe.relation, probe.columns]
        return IndexProbe(index, probe.domain, probe.keys, probe.payload)

    def _operation(self, op: OperationCase) -> Any:
        if op.kind == "probe":
            return Probe(tuple(self._probe(probe) for probe in op.probes))
        if op.kind == "exists":
            return Exists(self._probe(op.probes[0]), bool(op.negated))
        if op.kind == "scan":
            return Scan(self.rows[op.relation], op.domain, op.registers)
        if op.kind == "contains":
            return Contains(self._sets[op.relation], op.registers, op.negated, op.unless)
        comparator, representation = op.comparison
        left, right = op.registers
        return Compare(comparator, representation, left, right, VALUES.get(representation))
