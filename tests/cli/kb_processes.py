"""Knowledge bases whose writers are killed. Run as a module; what it found goes to stdout as JSON.

All is imported and compiled once, and each writer is a fork of that state. After each kill the directory is
copied; one more fork opens all copies and compares them with what the first transactions come to.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute
import pyarrow.ipc  # noqa: F401 (loaded before the forks)

import gpuengine as ge
import gpuengine.io.read
import gpuengine.io.tabular
import gpuengine.opening
from gpuengine.cli import main
from gpuengine.maintenance.store import Store
from gpuengine.maintenance.transaction import Update

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl label(x: symbol, n: number)
.decl ends(x: number)
.decl many(n: number)
.decl tick(n: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
ends(y) :- path(_, y), !edge(y, _).
many(n) :- n = count : { path(_, _) }.
"""
RULES = (
    "ends(x) :- label(_, x).",
    "path(y, x) :- label(x1, x), label(x1, y), x < y.",
    ".decl triple(x: number, y: number, z: number)\ntriple(x, y, z) :- edge(x, y), edge(y, z), x != z.",
)
_WARM = 60
FIRST = 20  # so many transactions are there before anybody is killed
_NUMBER = struct.Struct("<Q")
Acknowledge = Callable[[int], None]


class Model:
    """What the first transactions come to: stated facts and rules. Transaction n is always the same."""

    def __init__(self) -> None:
        self.stated: dict[str, set[tuple[Any, ...]]] = {"edge": set(), "label": set(), "tick": set()}
        self.rules: list[int] = []
        self.number = 0

    def step(self, update: Update | None = None) -> None:
        """Do the next transaction, in an update as well if there is one."""
        self.number += 1
        rng = random.Random(self.number)
        removed = {(self.number - 1,)} & self.stated["tick"]
        self._change(update, "tick", removed, {(self.number,)})
        edges = {(rng.randrange(12), rng.randrange(12)) for _ in range(rng.randrange(4))}
        gone = set(rng.sample(sorted(self.stated["edge"]), len(self.stated["edge"]) // 4))
        self._change(update, "edge", gone if rng.random() < 0.5 else set(), edges)
        labels = {(f"label {self.number}", rng.randrange(12))}
        old = set(rng.sample(sorted(self.stated["label"]), len(self.stated["label"]) // 2))
        self._change(update, "label", old if rng.random() < 0.3 else set(), labels)
        if rng.random() < 0.3:
            self._change_rules(update, rng.randrange(len(RULES)))

    def _change(
        self, update: Update | None, relation: str, gone: set[tuple[Any, ...]], come: set[tuple[Any, ...]]
    ) -> None:
        if update is not None:
            update.delete(relation, sorted(gone))
            update.insert(relation, sorted(come))
        self.stated[relation] = self.stated[relation] - gone | come

    def _change_rules(self, update: Update | None, which: int) -> None:
        *declaration, rule = RULES[which].splitlines()
        if which in self.rules:
            self.rules.remove(which)
            if update is not None:
                update.remove_rules(rule + "\n")
            return
        self.rules.append(which)
        if update is not None:
            is_new = not declaration or "triple" not in update._engine.relations
            update.add_rules((RULES[which] if is_new else rule) + "\n")

    def state(self) -> dict[str, set[tuple[Any, ...]]]:
        """Everything that follows, computed from nothing."""
        engine = ge.Engine(PROGRAM + "\n".join(RULES[which] for which in self.rules))
        for relation, facts in self.stated.items():
            engine.load(relation, sorted(facts))
        engine.materialise()
        return {name: set(engine[name]) for name in engine.relations}


def model_at(number: int) -> Model:
    model = Model()
    while model.number < number:
        model.step()
    return model


def check(path: Path, *, read_only: bool) -> int:
    """How many transactions a knowledge base has; it must be what exactly those come to."""
    with ge.open(path, read_only=read_only) as kb:
        found = {name: set(kb[name]) for name in kb.relations}
        stated = {name: set(_rows(kb, name)) for name in kb.relations}
        if not read_only:
            with kb.update() as u:
                u.insert("edge", [(100, 101)])
            assert (100, 101) in kb["path"]
    number = max((n for (n,) in found["tick"]), default=0)
    model = model_at(number)
    wanted = model.state()
    if "triple" in found:
        wanted.setdefault("triple", set())
    assert found == wanted, f"not what {number} transactions come to"
    assert {name: rows for name, rows in stated.items() if rows} == {
        name: rows for name, rows in model.stated.items() if rows
    }
    return number


def _rows(kb: ge.Engine, name: str) -> Any:
    from gpuengine.evaluation.placement.budget import Budget
    from gpuengine.relation import RelationView

    return RelationView(name, kb.relations[name].attributes, kb.loaded[name], kb.dictionary, Budget(None))


# -- writers -------------------------------------------------------------------------------------------


def write_on(path: Path, number: int, seed: int, acknowledge: Acknowledge) -> None:
    """Update, and now and then compact, or save in place of what is there, until a kill."""
    rng = random.Random(seed)
    model = model_at(number)
    while True:
        with ge.open(path, threads=1) as kb:
            acknowledge(model.number)
            for _ in range(rng.randrange(1, 12)):
                with kb.update() as u:
                    model.step(u)
                acknowledge(model.number)
        if rng.random() < 0.5:
            with Store.open(path) as store:
                store.compact()
        elif rng.random() < 0.5:
            with ge.open(path, read_only=True) as kb:
                kb.save(path, replace=True)


def compact_on(path: Path, number: int, seed: int, acknowledge: Acknowledge) -> None:
    """Compact after each update."""
    model = model_at(number)
    acknowledge(number)
    while True:
        with ge.open(path, threads=1) as kb, kb.update() as u:
            model.step(u)
        acknowledge(model.number)
        with Store.open(path) as store:
            store.compact()


def save_on(path: Path, number: int, seed: int, acknowledge: Acknowledge) -> None:
    """Save again and again in place of what is there, as it is."""
    with ge.open(path, read_only=True, threads=1) as kb:
        acknowledge(number)
        while True:
            kb.save(path, replace=True)


def command_on(path: Path, number: int, seed: int, acknowledge: Acknowledge) -> None:
    """The next transaction by a command, and compacting by another."""
    model = model_at(number)
    acknowledge(number)
    while True:
        before = {name: set(rows) for name, rows in model.stated.items()}
        rules = list(model.rules)
        model.step()
        arguments = []
        for name, rows in model.stated.items():
            for kind, facts in (("delete", before[name] - rows), ("insert", rows - before[name])):
                file = path.parent / f"{name}.{kind}.tsv"
                file.write_text("".join("\t".join(map(str, row)) + "\n" for row in sorted(facts)))
                arguments.append(f"--{kind}={name}={file}")
        for kind, changed in (
            ("remove", set(rules) - set(model.rules)),
            ("add", set(model.rules) - set(rules)),
        ):
            for which in changed:
                rule_file = path.parent / f"{kind}.dl"
                text = RULES[which]
                if kind == "remove" or "triple" in _relations(path):
                    text = text.splitlines()[-1]
                rule_file.write_text(text + "\n")
                arguments.append(f"--{kind}-rules={rule_file}")
        assert main(["update", str(path), *arguments, "--changes", str(path.parent / "changes"), "-j1"]) == 0
        acknowledge(model.number)
        if seed % 2:
            assert main(["compact", str(path)]) == 0


def _relations(path: Path) -> set[str]:
    with ge.open(path, read_only=True) as kb:
        return set(kb.relations)


WRITERS = {"update": write_on, "compact": compact_on, "save": save_on, "command": command_on}


# -- killing -------------------------------------------------------------------------------------------


def fork(work: Callable[[], None]) -> int:
    """Run `work` in a process of its own, which ends with it."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` gives as JSON, done in a fork: this process must stay without other threads."""
    read_end, write_end = os.pipe()

    def send() -> None:
        os.write(write_end, json.dumps(work()).encode())

    pid = fork(send)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        found = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(found)


def kill(path: Path, writer: str, kills: int, longest: float, seed: int) -> dict[str, Any]:
    """Kill writers that are ready, some transactions and a random time later; what was acknowledged is there.

    Every second one is killed after its first transaction, however long that takes.
    """
    rng = random.Random(seed)
    kb = path / "kb"
    copies = path / "copies"
    copies.mkdir(parents=True)

    _warm_up(path / "warm")
    number = in_child(lambda: _write(kb, FIRST))
    acknowledged = []
    for one in range(kills):
        read_end, write_end = os.pipe()

        def acknowledge(done: int, write_end: int = write_end) -> None:
            os.write(write_end, _NUMBER.pack(done))

        start, own_seed = number, seed * 1000 + one
        pid = fork(lambda: WRITERS[writer](kb, start, own_seed, acknowledge))  # noqa: B023
        os.close(write_end)
        done = number
        for _ in range(1 if writer == "save" else 1 + one % 2):
            record = os.read(read_end, _NUMBER.size)
            assert record, "the writer did not get ready"
            done = _NUMBER.unpack(record)[0]
        time.sleep(rng.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(pid, 0)[1]), "the writer failed by itself"
        while record := os.read(read_end, _NUMBER.size):
            done = _NUMBER.unpack(record)[0]
        os.close(read_end)
        acknowledged.append(done)
        copy = copies / str(one)
        shutil.copytree(kb, copy)
        number = _ticks(copy)
        assert done <= number <= done + 1, (done, number)

    def check_all() -> list[int]:
        return [check(copies / str(one), read_only=bool(one % 2)) for one in range(kills)]

    found = in_child(check_all)
    assert all(done <= there <= done + 1 for done, there in zip(acknowledged, found, strict=True))
    return {"kills": kills, "transactions": number, "unacknowledged": sum(found) - sum(acknowledged)}


def _warm_up(kb: Path) -> None:
    """Have all modules and kernels that the forks need; then wait until there is no other thread."""
    _write(kb, _WARM)
    check(kb, read_only=True)
    assert main(["compact", str(kb)]) == 0
    until = time.monotonic() + 60
    while [t for t in threading.enumerate() if t.name != "gpuengine-signals"] != [threading.main_thread()]:
        assert time.monotonic() < until, threading.enumerate()
        time.sleep(0.01)


def _write(kb: Path, transactions: int) -> int:
    """A new knowledge base after some transactions."""
    ge.Engine(PROGRAM).materialise().save(kb)
    model = Model()
    with ge.open(kb, threads=1) as opened:
        while model.number < transactions:
            with opened.update() as u:
                model.step(u)
    return model.number


def _ticks(kb: Path) -> int:
    """The number of the last transaction, without any thread."""
    with Store.open(kb, read_only=True) as store:
        table = store.load().tables["stated/tick"]
    return int(table.columns[0][0]) if table.rows else 0


if __name__ == "__main__":
    where, what, times, seconds, number = sys.argv[1:]
    print(json.dumps(kill(Path(where), what, int(times), float(seconds), int(number))))
