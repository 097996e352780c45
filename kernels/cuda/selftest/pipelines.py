"""Checks of indexes and pipelines: what the device's backend gives is held against what the CPU's gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuengine.kernels.contract import (
    IGNORE,
    Backend,
    Collect,
    Comparator,
    Compare,
    Contains,
    Domain,
    Driver,
    Exists,
    IndexProbe,
    Insert,
    Operation,
    Pipeline,
    Probe,
    Representation,
    Scan,
    Status,
    ValueTable,
    check,
    write,
)
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cuda.selftest import Check, Kit, Mismatch, expect

Columns = Sequence[np.ndarray]
_FIRST_ROOM = 64
_MOST_EQUAL = 500
"""Two columns with so many equal ids have a quarter of a million matches."""
_DRIVER = (write(0), write(1))


def equal(kit: Kit, what: str, scenario: Callable[..., np.ndarray], *inputs: Any) -> None:
    """Run a scenario on the device and on the CPU."""
    expect(scenario(kit.backend, *inputs), scenario(CPU, *inputs), what)


# --- what scenarios are made of ---


def rows_of(backend: Backend, columns: Columns) -> Any:
    """Rows, all in the delta."""
    rows = backend.rows(len(columns))
    rows.append(list(columns), len(columns[0]))
    rows.advance()
    return rows


def bounds_of(columns: Columns) -> list[tuple[int, int]]:
    return [(int(column.min()), int(column.max()) + 1) if len(column) else (0, 0) for column in columns]


def set_of(backend: Backend, columns: Columns) -> Any:
    """The set of some rows."""
    rows = rows_of(backend, columns)
    keyset = backend.keyset(len(columns), bounds_of(columns), rows.count)
    keyset.insert(rows, 0, rows.count)
    return keyset


def index_of(backend: Backend, columns: Columns, keys: Sequence[int]) -> Any:
    """An index built on half of the rows, to which the rest came in several rounds; the last is the delta."""
    rows, count = backend.rows(len(columns)), len(columns[0])
    index = None
    ends = [count // 2, count // 2 + count // 8, count - count // 16, count]
    for start, end in zip([0, *ends], ends, strict=False):
        rows.append([column[start:end] for column in columns], end - start)
        rows.advance()
        if index is None:
            index = backend.index(rows, keys, bounds_of(columns))
            index.build(exact=False)
        elif not index.ensure():
            raise Mismatch("an index did not take a delta in")
    return index


def result(backend: Backend, pipeline: Pipeline) -> np.ndarray:
    """What comes out, sorted; the output begins small, so that the program is suspended and goes on."""
    sink = pipeline.sink
    out = backend.rows(len(sink.registers), _FIRST_ROOM)
    program = backend.program(pipeline, np.zeros(1, np.int64))
    status = program.run(out, 0, pipeline.driver.rows.count)
    while status is Status.FULL:
        out.grow(out.count)
        if isinstance(sink, Insert):
            sink.keyset.reserve(out.capacity, out)
        status = program.resume(out)
    found = np.stack(out.columns(), axis=1)
    return found[np.lexsort(found.T[::-1])]


def pipeline_of(
    backend: Backend, driver: Columns, operations: Sequence[Operation], registers: Sequence[int], **more: Any
) -> Pipeline:
    """A pipeline over pairs, into a collection of registers, or into the set ``insert`` of `more`."""
    rows = rows_of(backend, driver)
    sink = Insert(more["insert"], tuple(registers)) if "insert" in more else Collect(tuple(registers))
    bindings = more.get("bindings", _DRIVER[: len(driver)])
    constants = more.get("constants", ())
    return Pipeline(Driver(rows, bindings), tuple(operations), sink, 8, constants)


def pairs(kit: Kit, share: float = 1.0, end: int | None = None, factor: int = 1) -> list[np.ndarray]:
    """Two columns of ids: multiples of `factor` below `end`; many in the first column are one id."""
    size = max(int(kit.size * share), 8)
    end = end or max(kit.size // 4, 4)
    columns = [kit.ids(size, end) for _ in range(2)]
    columns[0][: min(size // 8, _MOST_EQUAL)] = end // 2
    return [kit.random.permutation(column) * np.uint32(factor) for column in columns]


# --- the checks ---


def drivers(kit: Kit) -> None:
    """Repeated variables and constants in the driver."""
    columns = [kit.ids(kit.size, 40) for _ in range(3)]
    bindings = (write(0), check(0), check(1))

    def scenario(backend: Backend) -> np.ndarray:
        pipeline = pipeline_of(backend, columns, (), (0, 1), bindings=bindings, constants=((1, 7),))
        return result(backend, pipeline)

    equal(kit, "rows with equal columns and a constant", scenario)


def scans(kit: Kit) -> None:
    """Every row of the driver with every row of another relation, with checks, of all and of the old ones."""
    side = max(int(kit.size**0.5), 4)
    left, right = ([kit.ids(side, 50) for _ in range(2)] for _ in range(2))

    def scenario(backend: Backend, domain: Domain, bindings: tuple[int, ...]) -> np.ndarray:
        scan = Scan(index_of(backend, right, (0,)).rows, domain, bindings)
        return result(backend, pipeline_of(backend, left, (scan,), (0, 1, *_written(bindings))))

    for domain in Domain:
        for bindings in ((write(2), write(3)), (check(0), write(3)), (write(2), check(2)), (IGNORE, IGNORE)):
            equal(kit, f"a scan of {domain.name} binding {bindings}", scenario, domain, bindings)


def _written(bindings: Sequence[int]) -> list[int]:
    return [binding for binding in bindings if binding >= 0]


def _index_check(name: str, keys: tuple[int, ...], factor: int) -> Check:
    def run(kit: Kit) -> None:
        end = max(kit.size // 8 if len(keys) == 1 else int(kit.size**0.5), 16)
        driver = pairs(kit, 0.25, end, factor)
        related = [*pairs(kit, 1.0, end, factor), kit.ids(max(kit.size, 8), 1000)]
        payload = tuple(write(2 + n) for n in range(3 - len(keys)))

        def scenario(backend: Backend, domain: Domain) -> np.ndarray:
            registers = tuple(range(len(keys)))
            probe = IndexProbe(index_of(backend, related, keys), domain, registers, payload)
            return result(backend, pipeline_of(backend, driver, (Probe((probe,)),), (0, 1, *payload)))

        for domain in Domain:
            equal(kit, f"matches in {domain.name}", scenario, domain)

    return Check(f"index: {name}", run)


def payload_checks(kit: Kit) -> None:
    """Matches whose other columns must equal registers, or one another."""
    first, second = pairs(kit, 0.25)
    driver = [first, second % np.uint32(30)]
    related = [pairs(kit)[0], kit.ids(max(kit.size, 8), 30), kit.ids(max(kit.size, 8), 30)]

    def scenario(backend: Backend, payload: tuple[int, ...]) -> np.ndarray:
        probe = IndexProbe(index_of(backend, related, (0,)), Domain.ALL, (0,), payload)
        return result(backend, pipeline_of(backend, driver, (Probe((probe,)),), (0, 1, *_written(payload))))

    for payload in ((check(1), write(2)), (check(1), IGNORE), (write(2), check(2)), (check(1), check(1))):
        equal(kit, f"matches with payload {payload}", scenario, payload)


def _insert_check(name: str, registers: tuple[int, ...], factor: int, checked: bool) -> Check:
    """A join into a set: by one fused kernel, or where that can't be, in steps."""

    def run(kit: Kit) -> None:
        driver, related = pairs(kit, 0.1, factor=factor), [*pairs(kit, 0.25, factor=factor)]
        related.append(kit.ids(len(related[0]), 1000) * np.uint32(factor))
        end = max(int(column.max()) for column in (*driver, *related)) + 1

        def scenario(backend: Backend) -> np.ndarray:
            payload = (check(0) if checked else write(2), write(3))
            probe = IndexProbe(index_of(backend, related, (0,)), Domain.ALL, (1,), payload)
            keyset = backend.keyset(len(registers), [(0, end)] * len(registers), _FIRST_ROOM)
            pipeline = pipeline_of(backend, driver, (Probe((probe,)),), registers, insert=keyset)
            return result(backend, pipeline)

        equal(kit, f"distinct rows of registers {registers}", scenario)

    return Check(f"insert: {name}", run)


def hashed_inserts(kit: Kit) -> None:
    """A join by a hashed key of two columns into a set: matches are verified."""
    driver = pairs(kit, 0.25, 2000, 2_000_003)
    related = [*pairs(kit, 1.0, 2000, 2_000_003), kit.ids(max(kit.size, 8), 1000)]

    def scenario(backend: Backend) -> np.ndarray:
        probe = IndexProbe(index_of(backend, related, (0, 1)), Domain.ALL, (0, 1), (write(2),))
        keyset = backend.keyset(2, [(0, 1 << 32), (0, 1000)], _FIRST_ROOM)
        return result(backend, pipeline_of(backend, driver, (Probe((probe,)),), (0, 2), insert=keyset))

    equal(kit, "distinct rows of verified matches", scenario)


def alternatives(kit: Kit) -> None:
    """The shorter of two lists of matches, and the check of the other."""
    driver, first, second = pairs(kit, 0.1), pairs(kit, 0.5), pairs(kit, 0.5)

    def scenario(backend: Backend) -> np.ndarray:
        probes = (
            IndexProbe(index_of(backend, first, (0,)), Domain.ALL, (0,), (write(2),)),
            IndexProbe(index_of(backend, second, (0,)), Domain.ALL, (1,), (write(2),)),
        )
        checks = (
            Contains(set_of(backend, first), (0, 2), unless=(0, 0)),
            Contains(set_of(backend, second), (1, 2), unless=(0, 1)),
        )
        return result(backend, pipeline_of(backend, driver, (Probe(probes), *checks), (0, 1, 2)))

    equal(kit, "triangles", scenario)


def membership(kit: Kit) -> None:
    """Rows that are in a set, or not: bitmaps, hashed keys, wide rows."""

    def scenario(
        backend: Backend, driver: Columns, held: Columns, registers: tuple[int, ...], negated: bool
    ) -> np.ndarray:
        test = Contains(set_of(backend, [held[register] for register in registers]), registers, negated)
        return result(backend, pipeline_of(backend, driver, (test,), (0, 1)))

    for arity, factor in ((1, 1), (2, 1), (1, 50_021), (2, 50_021), (4, 50_021)):
        driver, held = pairs(kit, 1.0, 3000, factor), pairs(kit, 1.0, 3000, factor)
        registers = (0, 1, 0, 1)[:arity]
        for negated in (False, True):
            what = f"{'not ' if negated else ''}in a set of {arity} columns, ids times {factor}"
            equal(kit, what, scenario, driver, held, registers, negated)


def existence(kit: Kit) -> None:
    """Rows that have a match, or none; with and without further checks, by direct and hashed keys."""

    def scenario(
        backend: Backend,
        driver: Columns,
        related: Columns,
        keys: tuple[int, ...],
        payload: tuple[int, ...],
        negated: bool,
    ) -> np.ndarray:
        index = index_of(backend, related, keys)
        test = Exists(IndexProbe(index, Domain.ALL, tuple(range(len(keys))), payload), negated)
        return result(backend, pipeline_of(backend, driver[:2], (test,), (0, 1)))

    probes = (((0,), (IGNORE, IGNORE)), ((0,), (check(1), IGNORE)), ((0, 1), (IGNORE,)))
    for factor in (1, 2_000_003):
        driver, related = (_keyed(kit, share, factor) for share in (0.5, 0.25))
        for keys, payload in probes:
            for negated in (False, True):
                what = f"{'no' if negated else 'some'} match by {keys} with {payload}, ids times {factor}"
                equal(kit, what, scenario, driver, related, keys, payload, negated)


def _keyed(kit: Kit, share: float, factor: int) -> list[np.ndarray]:
    """Two columns of which the second has few ids, and a third."""
    first, second = pairs(kit, share, 2000, factor)
    return [first, second % np.uint32(20 * factor), kit.ids(len(first), 2000) * np.uint32(factor)]


def comparisons(kit: Kit) -> None:
    """All comparators on ids and on the values that they stand for."""
    values = {
        Representation.BY_NUMBER: ValueTable(kit.keys(1000).astype(np.int64)),
        Representation.BY_UNSIGNED: ValueTable(kit.keys(1000)),
        Representation.BY_FLOAT: ValueTable(np.append(kit.random.random(998), [np.nan, np.inf])),
    }
    near = [kit.ids(kit.size, (1 << 24) + 1000, (1 << 24) - 1000) for _ in range(2)]
    near[1][::7] = near[0][::7]
    places = [column % np.uint32(1000) for column in near]

    def scenario(backend: Backend, comparator: Comparator, representation: Representation) -> np.ndarray:
        driver = places if representation is Representation.BY_FLOAT else near
        test = Compare(comparator, representation, 0, 1, values.get(representation))
        return result(backend, pipeline_of(backend, driver, (test,), (0, 1)))

    for representation in Representation:
        for comparator in Comparator:
            equal(kit, f"{comparator.name} {representation.name}", scenario, comparator, representation)


def closure(kit: Kit) -> None:
    """A fixpoint: the transitive closure of a random graph, its index kept up to date, round by round."""
    nodes = max(int(kit.size**0.5) // 2, 8)
    edges = [kit.ids(2 * nodes, nodes) for _ in range(2)]
    equal(kit, "the closure of a graph", _closure, edges)


def _closure(backend: Backend, edges: Columns) -> np.ndarray:
    """path(x, z) :- path(x, y), path(y, z), by rounds over the delta, from both sides."""
    bounds = [(0, 1 << 20)] * 2
    distinct, count = backend.distinct_rows([backend.column(column) for column in edges], len(edges[0]))
    path, keyset = backend.rows(2), backend.keyset(2, bounds, _FIRST_ROOM)
    path.append(distinct, count)
    keyset.reserve(count, path)
    keyset.insert(path, 0, count)
    path.advance()
    by_first, by_second = (backend.index(path, (key,), bounds) for key in (0, 1))
    by_first.build(exact=False)
    by_second.build(exact=False)
    ahead = Probe((IndexProbe(by_first, Domain.ALL, (1,), (write(2),)),))
    behind = Probe((IndexProbe(by_second, Domain.OLD, (0,), (write(2),)),))
    programs = [
        backend.program(
            Pipeline(Driver(path, _DRIVER), (ahead,), Insert(keyset, (0, 2)), 3), np.zeros(1, np.int64)
        ),
        backend.program(
            Pipeline(Driver(path, _DRIVER), (behind,), Insert(keyset, (2, 1)), 3), np.zeros(1, np.int64)
        ),
    ]
    while path.delta[0] < path.delta[1]:
        for program in programs:
            path.grow(1)
            keyset.reserve(path.capacity, path)
            status = program.run(path, *path.delta)
            while status is Status.FULL:
                path.grow(path.count)
                keyset.reserve(path.capacity, path)
                status = program.resume(path)
        path.advance()
        if not (by_first.ensure() and by_second.ensure()):
            raise Mismatch("an index did not take a delta in")
    found = np.stack(path.columns(), axis=1)
    return found[np.lexsort(found.T[::-1])]


def chunks(kit: Kit) -> None:
    """The same closure and the same product when joins expand in many small chunks."""
    before = kit.device.chunk_items
    kit.device.chunk_items = max(kit.size // 50, 8)
    try:
        closure(kit)
        scans(kit)
        existence(kit)
    finally:
        kit.device.chunk_items = before


CHECKS = (
    _index_check("one key, dense", (0,), 1),
    _index_check("one key, sparse", (0,), 150_001),
    _index_check("one key, the last column", (1,), 1),
    _index_check("two keys, packed", (0, 1), 1),
    _index_check("two keys, hashed", (0, 1), 8_000_009),
    Check("pipeline: variables and constants of the driver", drivers),
    Check("pipeline: scan", scans),
    Check("pipeline: checks of matches", payload_checks),
    _insert_check("ids into a bitmap", (3,), 1, False),
    _insert_check("pairs", (0, 3), 1, False),
    _insert_check("pairs, hashed", (0, 3), 200_003, False),
    _insert_check("triples, packed", (0, 2, 3), 1, False),
    _insert_check("triples, wide", (0, 2, 3), 200_003, False),
    _insert_check("rows of four", (0, 1, 2, 3), 1, False),
    _insert_check("rows of five", (0, 1, 2, 3, 0), 1, False),
    _insert_check("pairs with a check", (1, 3), 1, True),
    Check("insert: matches by a hashed key", hashed_inserts),
    Check("pipeline: alternatives", alternatives),
    Check("pipeline: contains", membership),
    Check("pipeline: exists", existence),
    Check("pipeline: compare", comparisons),
    Check("pipeline: a fixpoint", closure),
    Check("pipeline: small chunks", chunks),
)
