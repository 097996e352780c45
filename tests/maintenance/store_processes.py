"""Processes that write stores and are killed. Run as a module; what they found goes to stdout as JSON.

Everything is imported once, and each process to be killed is a fork of that state: a kill costs milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.ipc  # noqa: F401 (loaded before the forks)

from gpuengine.maintenance.store import Store
from tests.maintenance.store_worlds import World, numbered_commit, numbered_world

CALLS = ("open", "write", "fsync", "fdatasync", "replace", "ftruncate", "unlink")
_NUMBER = struct.Struct("<Q")


def load(path: Path, *, read_only: bool = True) -> int:
    """The number of commits in a store, which must hold exactly those."""
    with Store.open(path, read_only=read_only) as store:
        world = World.of(store.load())
    number = int(world.meta["number"])
    assert world == numbered_world(number), f"not the state after {number} commits"
    return number


def write_on(path: Path, rng: random.Random, acknowledge: Callable[[int], None], until: float) -> None:
    """Commit, compact and replace until the time has come, or a kill."""
    store = Store.open(path)
    number = int(store.load().meta["number"])
    while time.monotonic() < until:
        store.commit(numbered_commit(number + 1))
        number += 1
        acknowledge(number)
        if rng.random() < 0.2:
            store.compact()
        elif rng.random() < 0.03:
            store.close()
            Store.create(path, numbered_world(number).snapshot(), replace=True)
            store = Store.open(path)
    store.close()


def fork(work: Callable[[], None]) -> int:
    """Run `work` in a process of its own, which ends with it."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def kill_at_random(path: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill a busy writer some commits and a random delay later; all that was acknowledged is there each time.

    A slow machine takes longer for the same commits: three for each kill on average.
    """
    rng = random.Random(seed)
    Store.create(path, numbered_world(0).snapshot())
    number = discarded = 0
    generations = set()
    for kill in range(kills):
        read_end, write_end = os.pipe()

        def acknowledge(done: int, write_end: int = write_end) -> None:
            os.write(write_end, _NUMBER.pack(done))

        seeded = random.Random(seed * 1000 + kill)
        pid = fork(lambda: write_on(path, seeded, acknowledge, time.monotonic() + 60))  # noqa: B023
        os.close(write_end)
        acknowledged = number
        for _ in range(rng.randrange(7)):
            record = os.read(read_end, _NUMBER.size)
            assert record, "the writer failed by itself"
            acknowledged = _NUMBER.unpack(record)[0]
        time.sleep(rng.uniform(0.002, 0.06))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), "the writer failed by itself"
        while record := os.read(read_end, _NUMBER.size):
            acknowledged = _NUMBER.unpack(record)[0]
        os.close(read_end)
        found = load(path, read_only=bool(kill % 2))
        assert acknowledged <= found <= acknowledged + 1, (acknowledged, found)
        with Store.open(path) as store:
            discarded += store.discarded_bytes
            generations.add(store.describe()["generation"])
        assert load(path) == found
        number = found
    return {"kills": kills, "commits": number, "generations": len(generations), "discarded": discarded}


def kill_at_calls(path: Path) -> dict[str, Any]:
    """Kill each operation before, in the middle of and after every system call that changes something."""
    with_journal, before = path / "journal", numbered_world(3)
    Store.create(with_journal, before.snapshot())
    with Store.open(with_journal) as store:
        for number in range(4, 7):
            store.commit(numbered_commit(number))
    cut = path / "cut"
    shutil.copytree(with_journal, cut)
    with (cut / "g1.journal").open("ab") as journal:
        journal.write(b"half")

    def create(kb: Path) -> None:
        Store.create(kb, numbered_world(9).snapshot(), replace=True)

    def commit(kb: Path) -> None:
        with Store.open(kb) as store:
            store.commit(numbered_commit(7))

    def compact(kb: Path) -> None:
        with Store.open(kb) as store:
            store.compact()

    operations = [
        ("create", None, create, {None, 9}),
        ("replace", with_journal, create, {6, 9}),
        ("commit", with_journal, commit, {6, 7}),
        ("commit after a crash", cut, commit, {6, 7}),
        ("compact", with_journal, compact, {6}),
    ]
    return {
        name: _kill_everywhere(path / "kb", origin, operation, states)
        for name, origin, operation, states in operations
    }


def _kill_everywhere(
    kb: Path, origin: Path | None, operation: Callable[[Path], None], states: set[int | None]
) -> int:
    """Kills until the operation got through; checks the state after each, and that work can go on."""
    seen: set[int | None] = set()
    for point in range(1000):
        if origin is not None:
            shutil.copytree(origin, kb)

        def killed(point: int = point) -> None:
            _kill_at(point)
            operation(kb)

        _, status = os.waitpid(fork(killed), 0)
        there = (kb / "manifest.json").exists()
        assert there or None in states
        found = load(kb) if there else None
        assert found in states, (point, found)
        seen.add(found)
        if found is None:
            Store.create(kb, numbered_world(2).snapshot())
            found = 2
        with Store.open(kb) as store:
            store.commit(numbered_commit(found + 1))
            store.compact()
        assert load(kb) == found + 1
        _check_tidy(kb)
        shutil.rmtree(kb)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0 and seen == states
            return point
    raise AssertionError("never got through")


def _check_tidy(kb: Path) -> None:
    """Nothing of other generations or of unfinished work is left."""
    manifest = json.loads((kb / "manifest.json").read_bytes())
    entries = [*manifest["tables"], *manifest["terms"]]
    named = {entry["segment"]["file"] for entry in entries if entry["segment"]}
    assert {file.name for file in kb.iterdir()} == {"manifest.json", "lock", manifest["journal"], *named}


def _kill_at(point: int) -> None:
    """Kill this process at the `point`-th of the points before, in and after its system calls."""
    left = point

    def pass_point() -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            pass_point()
            if name == "write" and left == 0:
                real(arguments[0], memoryview(arguments[1]).cast("B")[: len(arguments[1]) // 2])
                pass_point()
            elif name == "write":
                pass_point()
            return real(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, watched(name, getattr(os, name)))


def write_for(path: Path, seconds: float) -> dict[str, Any]:
    """Write a store for some time, beside readers."""
    last = 0

    def acknowledge(number: int) -> None:
        nonlocal last
        last = number

    write_on(path, random.Random(5), acknowledge, time.monotonic() + seconds)
    return {"commits": last}


if __name__ == "__main__":
    task, where, *numbers = sys.argv[1:]
    if task == "kill-at-random":
        print(json.dumps(kill_at_random(Path(where), int(numbers[0]), int(numbers[1]))))
    elif task == "kill-at-calls":
        print(json.dumps(kill_at_calls(Path(where))))
    else:
        print(json.dumps(write_for(Path(where), float(numbers[0]))))
