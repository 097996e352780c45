"""Schemes beside models of them in plain sets, for the tests of what every scheme must do.

A `World` is a scheme with the schemes that it reads, each beside a model. To have another scheme tested, add
a line to `WORLDS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.contract import Domain, Scheme
from gpuengine.schemes.equivalence import Equivalence
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Part, Union

Row = tuple[int, ...]
Facts = set[Row]
Rules = Callable[[Facts, Facts], Facts]
"""What one application derives from facts if at least one premise is in the second set."""

ALL, OLD, NEW = Domain
LAST = 2**32 - 2
IDS = {
    "dense": [0, 1, 2, 3, 4, 5, 6],
    "sparse": [0, 65_535, 65_536, 2**24, 2**31, LAST - 1, LAST],
    "mixed": [1, 2, 3, 4, 5, 70_000, LAST],
}
STRANGER = 77
"""An id that no fact has."""


def no_rules(facts: Facts, delta: Facts) -> Facts:
    return set()


def transitive(facts: Facts, delta: Facts) -> Facts:
    after: dict[int, set[int]] = {}
    for x, y in facts:
        after.setdefault(x, set()).add(y)
    return {(x, z) for x, y in facts for z in after.get(y, ()) if (x, y) in delta or (y, z) in delta}


def symmetric_too(facts: Facts, delta: Facts) -> Facts:
    return transitive(facts, delta) | {(y, x) for x, y in delta}


def fixpoint(rules: Rules, facts: Facts) -> Facts:
    found, delta = set(facts), set(facts)
    while delta:
        delta = rules(found, delta) - found
        found |= delta
    return found


class Single:
    """What a scheme without parts should hold."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.kept: Facts = set()
        self.scheduled: Facts = set()
        self.old: Facts = set()
        self.new: Facts = set()

    @property
    def all(self) -> Facts:
        return self.old | self.new

    @property
    def known(self) -> Facts:
        """What is not taken when it comes: a table knows what is only scheduled."""
        return self.all | self.scheduled if self.rules is no_rules else self.all

    def insert(self, rows: Iterable[Row]) -> None:
        self.scheduled |= set(rows) - self.known

    def advance(self) -> None:
        before = self.all
        self.kept, self.scheduled = self.kept | self.scheduled, set()
        self.old, self.new = before, fixpoint(self.rules, self.kept) - before

    def settle(self) -> None:
        self.advance()
        self.old, self.new = self.all, set()

    def renew(self) -> None:
        self.settle()
        self.old, self.new = set(), self.old

    def delete(self, rows: Iterable[Row]) -> None:
        self.settle()
        self.kept = self.kept - set(rows)
        self.new = self.old - fixpoint(self.rules, self.kept)
        self.old = self.old - self.new

    def remove(self) -> None:
        self.new = set()


class Together:
    """What a union of others should hold, beside facts of its own."""

    def __init__(self, parts: Sequence[tuple[Any, Row]]) -> None:
        self.parts = parts
        self.own = Single(no_rules)
        self.fresh = False

    def rules(self, facts: Facts, delta: Facts) -> Facts:
        return {outward(row, order) for part, order in self.parts for row in part.all}

    def _united(self, choose: Callable[[Any], Facts]) -> Facts:
        copied = {outward(row, order) for part, order in self.parts for row in choose(part)}
        return copied | choose(self.own)

    @property
    def kept(self) -> Facts:
        return self.own.kept

    @property
    def all(self) -> Facts:
        return self._united(lambda part: part.all)

    @property
    def known(self) -> Facts:
        return self._united(lambda part: part.known)

    @property
    def old(self) -> Facts:
        return set() if self.fresh else self._united(lambda part: part.old)

    @property
    def new(self) -> Facts:
        if self.fresh:
            return self.all
        return self._united(lambda part: part.new) - self.old

    def insert(self, rows: Iterable[Row]) -> None:
        self.own.insert(set(rows) - self.known)

    def advance(self) -> None:
        self.fresh = False
        self.own.advance()

    def settle(self) -> None:
        self.fresh = False
        self.own.settle()

    def renew(self) -> None:
        self.fresh = True
        self.own.renew()

    def delete(self, rows: Iterable[Row]) -> None:
        self.settle()
        self.own.delete(rows)

    def remove(self) -> None:
        self.own.remove()


def outward(row: Row, permutation: Row) -> Row:
    """U(a_0, ..) of a part's (b_0, ..), b_j = a_permutation[j]."""
    return tuple(row[permutation.index(place)] for place in range(len(row)))


Member = tuple[Scheme, Any]


class World:
    """Members in the order in which they advance; the last one is under test."""

    def __init__(self, *members: Member) -> None:
        self.members = members
        self.scheme, self.model = members[-1]

    def each(self, name: str, *, backward: bool = False) -> None:
        for scheme, model in reversed(self.members) if backward else self.members:
            getattr(scheme, name)()
            getattr(model, name)()

    def insert(self, number: int, rows: list[Row]) -> None:
        scheme, model = self.members[number % len(self.members)]
        rows = [row[: scheme.arity] for row in rows]
        before = contents(scheme, OLD), contents(scheme, NEW)
        taken = scheme.insert(columns_of(rows, scheme.arity), len(rows))
        missing = [row for row in rows if row not in model.known]
        assert len(set(missing)) <= taken <= len(missing)
        if not getattr(model, "fresh", False):  # then NEW is ALL, where tables have what is scheduled
            after = contents(scheme, OLD), contents(scheme, NEW)
            assert after == before, "nothing is there before `advance`"
        model.insert(rows)

    def advance(self) -> None:
        """(5.2): at least one application of the rules, at most their fixpoint; and what was there stays."""
        for scheme, model in self.members:
            was, scheduled = model.all, set(getattr(model, "own", model).scheduled)
            reported, _ = scheme.advance(), model.advance()
            one = scheduled | model.rules(was | scheduled, was | scheduled)
            most = fixpoint(model.rules, was | scheduled)
            found = contents(scheme, NEW)
            assert one - contents(scheme, OLD) <= found <= most - contents(scheme, OLD)
            if isinstance(model, Single):
                assert contents(scheme, OLD) == was and reported == len(found)

    def delete(self, picks: list[tuple[int, int]], ids: list[int]) -> None:
        """(5.3): what was scheduled and its consequences, unless they still follow; all is there yet."""
        for number, (scheme, model) in enumerate(self.members):
            chosen = [pick for member, pick in picks if member % len(self.members) == number]
            rows = [_pick(pick, sorted(model.kept), ids, scheme.arity) for pick in chosen]
            was, scheduled = model.all, set(rows) & model.all
            reported, _ = scheme.delete(columns_of(rows, scheme.arity), len(rows)), model.delete(rows)
            found = contents(scheme, NEW)
            left = fixpoint(model.rules, set(model.kept)) if isinstance(model, Single) else was - model.new
            affected = scheduled | (was & model.rules(was, scheduled))
            assert affected - left <= found <= was and reported == len(found)
            assert contents(scheme) == was and contents(scheme, OLD) == was - found

    def check(self) -> None:
        """A table counts what is only scheduled, so it is compared when nothing is."""
        if any(getattr(model, "own", model).scheduled for _, model in self.members):
            return
        for scheme, model in self.members:
            assert_holds(scheme, model)


def _pick(pick: int, kept: list[Row], ids: list[int], arity: int) -> Row:
    """One of what is kept, mostly; else any row."""
    if pick < 40 and kept:
        return kept[pick % len(kept)]
    return tuple(ids[pick // 7**place % 7] for place in range(arity))


def columns_of(rows: Sequence[Row], arity: int) -> list[np.ndarray]:
    matrix = np.array(rows, np.uint32).reshape(len(rows), arity)
    return [np.ascontiguousarray(matrix[:, column]) for column in range(arity)]


def listed(scheme: Scheme, domain: Domain = ALL, room: int = 1 << 16) -> list[Row]:
    batches = scheme.scan(domain, room)
    return [row for batch in batches for row in zip(*(column.tolist() for column in batch), strict=True)]


def contents(scheme: Scheme, domain: Domain = ALL) -> Facts:
    """The facts of a domain; fails if one comes twice."""
    rows = listed(scheme, domain)
    assert len(rows) == len(set(rows)), f"a fact comes twice in {domain.name}"
    return set(rows)


def matches(scheme: Scheme, bound: dict[int, np.ndarray], count: int, domain: Domain, room: int) -> Counter:
    found: Counter[tuple[int, Row]] = Counter()
    for places, columns in scheme.expand(bound, count, domain, room):
        rows = zip(*(column.tolist() for column in columns), strict=True)
        found.update(zip(places.tolist(), rows, strict=True))
    return found


def assert_holds(scheme: Scheme, model: Any) -> None:
    """Every read, in every domain, says what the model says."""
    expected = {ALL: model.all, OLD: model.old, NEW: model.new}
    ids = sorted({id for rows in expected.values() for row in rows for id in row} | {STRANGER})
    rows = list(product(ids, repeat=scheme.arity))[:300]
    columns = columns_of(rows, scheme.arity)
    for domain, facts in expected.items():
        assert contents(scheme, domain) == facts, domain.name
        assert scheme.count(domain) == len(facts)
        assert scheme.contains(columns, len(rows), domain).tolist() == [row in facts for row in rows]
        for column in range(scheme.arity):
            values = scheme.values(column, domain).tolist()
            assert sorted(values) == sorted({row[column] for row in facts})
        assert_expands(scheme, domain, facts, ids)
    assert len(scheme) == len(model.all)
    for column, (low, high) in enumerate(scheme.bounds):
        assert all(low <= row[column] < high for facts in expected.values() for row in facts)
        assert scheme.distinct(column) >= 1 or not model.all
    assert scheme.insertable(columns, len(rows)).tolist() == [row not in model.all for row in rows]


def assert_expands(scheme: Scheme, domain: Domain, facts: Facts, ids: list[int]) -> None:
    """By every proper subset of columns, with keys that come twice and keys that match nothing."""
    for size in range(1, scheme.arity):
        for bound in combinations(range(scheme.arity), size):
            keys = [*[*product(ids, repeat=size)][:40], (ids[0],) * size]
            asked = dict(zip(bound, columns_of(keys, size), strict=True))
            expected = Counter(
                (place, tuple(row[c] for c in range(scheme.arity) if c not in bound))
                for place, key in enumerate(keys)
                for row in facts
                if tuple(row[c] for c in bound) == key
            )
            assert matches(scheme, asked, len(keys), domain, 1 << 16) == expected, (domain.name, bound)
            degrees = [sum(1 for place, _ in expected if place == k) for k in range(len(keys))]
            assert scheme.exists(asked, len(keys), domain).tolist() == [degree > 0 for degree in degrees]
            if domain is ALL:
                assert scheme.degrees(asked, len(keys)).tolist() == degrees


def table(arity: int = 2) -> Member:
    return Table("t", arity, CPU), Single(no_rules)


def closure() -> Member:
    return Closure("c"), Single(transitive)


def equivalence() -> Member:
    return Equivalence("e"), Single(symmetric_too)


def union(*parts: tuple[Member, Row]) -> World:
    """A union of the members, each with a permutation; a member may be several parts."""
    scheme = Union("u", [Part(one[0], order) for one, order in parts], Table("u", len(parts[0][1]), CPU))
    members = {id(one[0]): one for one, _ in parts}
    return World(*members.values(), (scheme, Together([(one[1], order) for one, order in parts])))


def twice(member: Member) -> World:
    return union((member, (0, 1)), (member, (1, 0)))


SAME, SWAP = (0, 1), (1, 0)
WORLDS: dict[str, Callable[[], World]] = {
    "table": lambda: World(table()),
    "table of 3": lambda: World(table(3)),
    "closure": lambda: World(closure()),
    "equivalence": lambda: World(equivalence()),
    "union of a table": lambda: union((table(), SAME)),
    "union of tables": lambda: union((table(), SAME), (table(), SWAP)),
    "union of 3 columns": lambda: union((table(3), (2, 0, 1)), (table(3), (0, 2, 1))),
    "union of a closure and a table": lambda: union((closure(), SAME), (table(), SWAP)),
    "union of a closure and itself reversed": lambda: twice(closure()),
    "union of an equivalence and a table": lambda: union((table(), SAME), (equivalence(), SWAP)),
    "union of an equivalence twice": lambda: twice(equivalence()),
}
