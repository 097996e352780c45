"""Several threads on one engine: 4 that read and 2 that update, each read checked against the exact states.

Whoever updates works out in plain Python what the next state holds, and announces it before its transaction
ends. A read then must have found one of the states that may have been there between its beginning and its
end: not one before the last that was done when it began, none that was announced after it ended.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpuengine as ge

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
.decl link(x: number, y: number)
.decl same(x: number, y: number) eqrel
same(x, y) :- link(x, y).
.decl either(x: number, y: number)
either(x, y) :- path(x, y).
either(x, y) :- link(x, y).
.decl back(x: number, y: number)
.decl forth(x: number, y: number)
back(y, x) :- forth(x, y).
forth(y, x) :- back(x, y).
.decl item(x: number, group: symbol)
.decl owner(group: symbol, who: symbol)
.decl owned(x: number, who: symbol)
owned(x, who) :- item(x, group), owner(group, who).
.decl ends(x: number)
"""
SCHEMES = {"path": "closure", "same": "equivalence", "either": "union"}
TOGGLED = "ends(x) :- path(_, x), !edge(x, _)."
QUERY = "edge(x, y), same(y, z), owned(x, w)"
READERS, WRITERS = 4, 2
_NODES, _GROUPS, _ITEMS, _MANY = 24, 12, 400, 1200

Rows = frozenset[tuple[Any, ...]]
State = dict[str, Rows]
Pairs = set[tuple[Any, Any]]


@dataclass
class World:
    """What is stated, and what follows from it: by a few lines of Python instead of an engine."""

    edge: Pairs = field(default_factory=set)
    link: Pairs = field(default_factory=set)
    forth: Pairs = field(default_factory=set)
    item: Pairs = field(default_factory=set)
    owner: Pairs = field(default_factory=set)
    has_ends: bool = False

    def copy(self) -> World:
        stated = (set(pairs) for pairs in (self.edge, self.link, self.forth, self.item, self.owner))
        return World(*stated, has_ends=self.has_ends)

    def state(self) -> State:
        path = closed(self.edge)
        same = closed(self.link | {(y, x) for x, y in self.link})
        groups: dict[str, list[int]] = {}
        for x, group in self.item:
            groups.setdefault(group, []).append(x)
        owned = {(x, who) for group, who in self.owner for x in groups.get(group, ())}
        sources = {x for x, _ in self.edge}
        ends = {(y,) for _, y in path if y not in sources} if self.has_ends else set()
        found: dict[str, Collection[Any]] = {
            "edge": self.edge, "path": path, "link": self.link, "same": same, "either": path | self.link,
            "forth": self.forth, "back": {(y, x) for x, y in self.forth}, "item": self.item,
            "owner": self.owner, "owned": owned, "ends": ends,
        }  # fmt: skip
        state = {name: frozenset(rows) for name, rows in found.items()}
        owners: dict[int, list[str]] = {}
        for x, who in owned:
            owners.setdefault(x, []).append(who)
        partners: dict[int, list[int]] = {}
        for y, z in same:
            partners.setdefault(y, []).append(z)
        state[QUERY] = frozenset(
            (x, y, z, w) for x, y in self.edge for z in partners.get(y, ()) for w in owners.get(x, ())
        )
        return state


def closed(pairs: Pairs) -> Pairs:
    """The transitive closure, with the nodes that each reaches as the bits of a number."""
    reached: dict[int, int] = {}
    for x, y in pairs:
        reached[x] = reached.get(x, 0) | 1 << y
    is_done = False
    while not is_done:
        is_done = True
        for x, bits in reached.items():
            more = bits
            for y in _bits(bits):
                more |= reached.get(y, 0)
            if more != bits:
                reached[x], is_done = more, False
    return {(x, y) for x, bits in reached.items() for y in _bits(bits)}


def _bits(number: int) -> Iterable[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


class Stress:
    """One engine, the states that it has had, and the threads that use it."""

    def __init__(self, kb: Any, seed: int, transactions: int) -> None:
        self.kb = kb
        self.seed = seed
        self.world = World()
        self.states: list[State] = [self.world.state()]
        self.announced = self.done = 0
        self.reads = 0
        self._left = transactions
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._writers = WRITERS

    def run(self) -> int:
        threads = [
            threading.Thread(target=self._guarded, args=(work, number))
            for work, count in ((self._write, WRITERS), (self._read, READERS))
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failures:
            raise AssertionError(f"seed {self.seed}: {self._failures[0]!r}") from self._failures[0]
        assert not self._left and self.announced == self.done == len(self.states) - 1
        return self.reads

    def _guarded(self, work: Callable[[random.Random], None], number: int) -> None:
        try:
            work(random.Random(f"{self.seed} {work.__name__} {number}"))
        except BaseException as error:
            with self._lock:
                self._failures.append(error)
        finally:
            if work == self._write:
                with self._lock:
                    self._writers -= 1

    # -- writing ---------------------------------------------------------------------------------------

    def _write(self, choose: random.Random) -> None:
        while not self._failures:
            with self._lock:
                if not self._left:
                    return
                self._left -= 1
            if choose.random() < 0.1:
                self._fail(choose)
            number = self._transaction(choose)
            with self._lock:
                self.done = max(self.done, number)

    def _transaction(self, choose: random.Random) -> int:
        with self.kb.update() as u:
            world = self.world.copy()
            for _ in range(choose.randint(1, 3)):
                self._change(u, world, choose)
            state = world.state()
            with self._lock:
                self.world = world
                self.states.append(state)
                self.announced += 1
                return self.announced
        raise AssertionError

    def _change(self, u: Any, world: World, choose: random.Random) -> None:
        kind = choose.random()
        if kind < 0.05:
            world.has_ends = not world.has_ends
            (u.add_rules if world.has_ends else u.remove_rules)(TOGGLED)
        elif kind < 0.1:  # so many that everything is computed anew
            first = choose.randrange(1 << 30)
            self._state(u, "item", world.item, {(first + k, f"bulk {k % 7}") for k in range(_MANY)}, set())
        elif kind < 0.4:
            name = choose.choice(["edge", "edge", "link", "forth"])
            some = {(choose.randrange(_NODES), choose.randrange(_NODES)) for _ in range(choose.randint(0, 3))}
            self._state(u, name, getattr(world, name), some, _some(getattr(world, name), choose, 4))
        elif kind < 0.7:
            new = {(f"group {choose.randrange(_GROUPS)}", f"owner {choose.randrange(1000)}")}
            self._state(u, "owner", world.owner, new, _some(world.owner, choose, 1))
        else:
            first = choose.randrange(1 << 30)  # names nobody has seen, to make the dictionary grow
            new = {(first + k, f"group {choose.randrange(_GROUPS)}") for k in range(choose.randint(0, 20))}
            new |= {(first, f"only {first} {k}") for k in range(5)}
            self._state(
                u, "item", world.item, new, _some(world.item, choose, max(0, len(world.item) - _ITEMS))
            )

    def _state(self, u: Any, name: str, stated: Pairs, new: Pairs, gone: Pairs) -> None:
        gone = gone - new
        u.delete(name, sorted(gone))
        u.insert(name, sorted(new))
        stated -= gone
        stated |= new

    def _fail(self, choose: random.Random) -> None:
        """A transaction that changes nothing, whatever it was about to do."""
        try:
            with self.kb.update() as u:
                u.insert("edge", [(1, 2), (2, 1), (7, 1)])
                u.delete("item", sorted(_some(self.world.item, choose, 50)))
                if choose.random() < 0.5:
                    raise KeyError
                u.add_rules("ends(1 / x) :- x = 0, edge(_, _).")
        except (KeyError, ge.GpuEngineError):
            return
        raise AssertionError("an update that can't be has happened")

    # -- reading ---------------------------------------------------------------------------------------

    def _read(self, choose: random.Random) -> None:
        held: list[tuple[Any, Rows]] = []
        reads = 0
        while not self._failures:
            with self._lock:
                if not self._writers and reads >= 5:
                    break
                first = self.done
            kind = choose.random()
            if kind < 0.25:
                name = QUERY
                view = self.kb.query(QUERY)
                found = self._rows(view)
            elif kind < 0.3:
                self._check_storage(first)
                continue
            else:
                name = choose.choice(sorted(self.states[0].keys() - {QUERY}))
                view = self.kb[name]
                if choose.random() < 0.2:
                    view = self.kb.query(f"{name}({'x' if name == 'ends' else 'x, y'})")
                found = self._rows(view)
                self._check_members(view, found, choose)
            with self._lock:
                last, reads = self.announced, reads + 1
                self.reads += 1
            assert any(self.states[k][name] == found for k in range(first, last + 1)), (
                f"{name} as in none of the states {first} to {last}: {len(found)} facts"
            )
            held.append((view, found))
            earlier, was = choose.choice(held)
            assert self._rows(earlier) == was, f"{earlier!r} is not what it was"
            if len(held) > 8:
                held.pop(choose.randrange(len(held)))

    def _rows(self, view: Any) -> Rows:
        rows = list(view)
        found = frozenset(rows)
        assert len(rows) == len(found) == len(view), f"{len(rows)} rows, {len(found)} facts in {view!r}"
        return found

    def _check_members(self, view: Any, found: Rows, choose: random.Random) -> None:
        for row in choose.sample(sorted(found), min(3, len(found))):
            assert row in view, f"{row} is not in {view!r}"
        if len(view.columns) == 2 and all(attribute.type.name == "number" for attribute in view.attributes):
            row = choose.randrange(_NODES), choose.randrange(_NODES)
            assert (row in view) == (row in found), row

    def _check_storage(self, first: int) -> None:
        """The sizes of all relations are those of one state."""
        sizes = {name: storage.facts for name, storage in self.kb.storage.items()}
        with self._lock:
            last = self.announced
            self.reads += 1
        known = [{name: len(self.states[k][name]) for name in sizes} for k in range(first, last + 1)]
        assert sizes in known, f"storage as in none of the states {first} to {last}"


def _some(pairs: Pairs, choose: random.Random, most: int) -> Pairs:
    return set(choose.sample(sorted(pairs), min(most, len(pairs))))


def run(seed: int, transactions: int) -> int:
    """So many transactions by two threads while four read; how many reads were checked.

    Odd seeds have readers never wait for an update that is going on, every third uses a durable knowledge
    base. Raises AssertionError if a thread failed or found what was never there.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with tempfile.TemporaryDirectory() as folder:
            kb = ge.Engine(PROGRAM, threads=1 + seed % 2, schemes=SCHEMES, wait=600).materialise()
            is_durable = seed % 3 == 0
            if is_durable:
                kb.save(Path(folder, "kb"))
                kb = ge.open(Path(folder, "kb"), threads=1, wait=600)
            if seed % 2:
                kb._states.moment = 0
            stress = Stress(kb, seed, transactions)
            reads = stress.run()
            kb.close()
            last = stress.states[-1]
            for again in [kb, *([ge.open(Path(folder, "kb"), read_only=True)] if is_durable else [])]:
                for name in last.keys() - {QUERY}:
                    assert set(again[name]) == last[name], f"seed {seed}: {name} in the end"
            return reads
    finally:
        sys.setswitchinterval(interval)


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        print(seed, run(seed, int(sys.argv[3])), flush=True)
