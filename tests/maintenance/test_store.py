"""The store as its users see it: what goes in comes out, commits are steps, writers exclude each other."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuengine.errors import StoreError
from gpuengine.maintenance.delta import Delta
from gpuengine.maintenance.store import Commit, Snapshot, Store, StoredTable
from gpuengine.maintenance.store.changes import decode_commit, encode_commit
from tests.maintenance.store_worlds import (
    ODD_NAMES,
    World,
    columns_of,
    delta,
    numbered_commit,
    numbered_world,
    rows_of,
    terms_of,
)

EMPTY = Snapshot({}, {}, {})


def read(path: Path) -> World:
    with Store.open(path, read_only=True) as store:
        return World.of(store.load())


def names_in(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()}


def a_world() -> World:
    tables: dict[str, Any] = {
        name: (arity % 5, {tuple(range(at, at + arity % 5)) for at in range(4)})
        for arity, name in enumerate(ODD_NAMES)
    }
    tables["no rows"] = (2, set())
    tables["absent"] = (0, set())
    tables["present"] = (0, {()})
    terms = {"number": [2**24, 2**64 - 1], "symbol": [b"", b"a", b"\xff\0"], "list": [(1, 2, 3), (0, 0, 0)]}
    return World({"program": "p(x) :- q(x).", "nested": [{"é\ud800": None}]}, tables, terms)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "kb"
    Store.create(path, a_world().snapshot())
    assert read(path) == a_world()
    assert all(name.isascii() and len(name) < 30 for name in names_in(path))


def test_empty_store(tmp_path: Path) -> None:
    Store.create(tmp_path, EMPTY)
    assert read(tmp_path) == World()
    with Store.open(tmp_path) as store:
        store.compact()
        assert store.describe()["generation"] == 1  # there was nothing to fold
        store.commit(Commit({}, {}, None))
        store.compact()
    assert read(tmp_path) == World()


def test_symbols_that_are_all_empty(tmp_path: Path) -> None:
    world = World(terms={"symbol": [b""]})
    Store.create(tmp_path, world.snapshot())
    assert read(tmp_path) == world


def test_large_tables_are_mapped(tmp_path: Path) -> None:
    column = np.random.default_rng(1).permutation(500_000).astype(np.uint32)
    Store.create(tmp_path, Snapshot({}, {}, {"big": StoredTable([column, column[::-1]], len(column))}))
    with Store.open(tmp_path) as store:
        before = store.load().tables["big"]
        change = delta([(7, 7)], [(7, 7), (1, 1)], 2)
        store.commit(Commit({"big": change}, {}, None))
        after = store.load().tables["big"]
        store.compact()
    assert not before.columns[0].flags.owndata and not before.columns[0].flags.writeable
    assert (before.columns[0] == column).all() and (before.columns[1] == column[::-1]).all()
    assert rows_of(after) == rows_of(before) | {(7, 7), (1, 1)}
    with Store.open(tmp_path, read_only=True) as store:
        assert rows_of(store.load().tables["big"]) == rows_of(after)


@pytest.mark.parametrize("seed", range(6))
def test_streams_of_commits(tmp_path: Path, seed: int) -> None:
    rng, world = random.Random(seed), World()
    Store.create(tmp_path, world.snapshot())
    for step in range(40):
        with Store.open(tmp_path) as store:
            for _ in range(rng.choice((1, 1, 4))):
                store.commit(world.step(rng))
            if rng.random() < 0.2:
                store.compact()
                assert World.of(store.load()) == world
            described = store.describe()
        assert read(tmp_path) == world, step
        rows = {name: len(rows) for name, (_, rows) in world.tables.items()}
        assert {name: table["rows"] for name, table in described["tables"].items()} == rows
        counts = {space: len(values) for space, values in world.terms.items()}
        assert described["dictionary"]["terms"] == counts
        if rng.random() < 0.05:
            world = a_world()
            Store.create(tmp_path, world.snapshot(), replace=True)
            assert read(tmp_path) == world


def test_order_within_a_commit(tmp_path: Path) -> None:
    Store.create(tmp_path, World(tables={"t": (1, {(1,)}), "u": (1, {(1,)})}).snapshot())
    both = delta([(1,), (2,)], [(2,), (2,)], 1)
    again = StoredTable(columns_of([(5, 6)], 2), 1)
    with Store.open(tmp_path) as store:
        store.commit(Commit({"t": both, "u": again}, {}, None, dropped=("u",)))
    assert read(tmp_path).tables == {"t": (1, {(2,)}), "u": (2, {(5, 6)})}


def test_describe_is_json(tmp_path: Path) -> None:
    Store.create(tmp_path, numbered_world(0).snapshot())
    with Store.open(tmp_path) as store:
        store.commit(numbered_commit(1))
        described = store.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["format"] == "gpuengine-kb" and described["version"] == 2
    assert described["journal"]["commits"] == described["commits"] == 1
    assert described["tables"]["still"] == {
        "columns": 3,
        "rows": 1,
        "bytes": (tmp_path / "g1-0001.arrow").stat().st_size,
    }
    files = sum(file.stat().st_size for file in tmp_path.iterdir() if file.name != "lock")
    assert described["bytes"] == files


def test_compaction_keeps_what_did_not_change(tmp_path: Path) -> None:
    Store.create(tmp_path, numbered_world(0).snapshot())
    untouched = (tmp_path / "g1-0001.arrow").stat()
    with Store.open(tmp_path) as store:
        for number in range(1, 30):
            store.commit(numbered_commit(number))
            store.compact()
            assert World.of(store.load()) == numbered_world(number)
    assert (tmp_path / "g1-0001.arrow").stat() == untouched
    manifest = json.loads((tmp_path / "manifest.json").read_bytes())
    assert len(manifest["terms"]) <= 5, "segments of terms are merged"
    named = {entry["segment"]["file"] for entry in manifest["tables"] + manifest["terms"] if entry["segment"]}
    assert names_in(tmp_path) == {"manifest.json", "lock", "g30.journal", *named}


def test_one_write_and_one_sync_for_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.create(tmp_path, numbered_world(0).snapshot())
    calls: list[str] = []

    def counted(name: str) -> Any:
        real = getattr(os, name)
        return lambda *arguments: (calls.append(name), real(*arguments))[1]

    with Store.open(tmp_path) as store:
        for name in ("write", "fsync", "fdatasync"):
            monkeypatch.setattr(os, name, counted(name))
        for number in range(1, 6):
            store.commit(numbered_commit(number))
            assert calls == ["write", "fdatasync"]
            calls.clear()


def test_refuses_to_make_a_store_over_something(tmp_path: Path) -> None:
    kb, other, file = tmp_path / "kb", tmp_path / "other", tmp_path / "file"
    Store.create(kb, EMPTY)
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    file.write_text("")
    with pytest.raises(StoreError, match=r"knowledge base already.*Replace"):
        Store.create(kb, a_world().snapshot())
    for replace in (False, True):
        with pytest.raises(StoreError, match="is not empty and not a knowledge base"):
            Store.create(other, EMPTY, replace=replace)
        with pytest.raises(StoreError, match="is a file"):
            Store.create(file, EMPTY, replace=replace)
    assert names_in(other) == {"thesis.txt"}
    (other / "manifest.json").write_text("{}")
    with pytest.raises(StoreError, match="is not a knowledge base"):
        Store.create(other, EMPTY, replace=True)
    assert names_in(other) == {"thesis.txt", "manifest.json"}
    assert read(kb) == World()


def test_replacing_leaves_the_files_of_others(tmp_path: Path) -> None:
    Store.create(tmp_path, EMPTY)
    (tmp_path / "README").write_text("ours")
    Store.create(tmp_path, a_world().snapshot(), replace=True)
    assert read(tmp_path) == a_world() and (tmp_path / "README").read_text() == "ours"
    assert "g1.journal" not in names_in(tmp_path)


def test_what_is_no_store(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path(__file__)):
        for read_only in (False, True):
            with pytest.raises(StoreError, match="is not a knowledge base"):
                Store.open(path, read_only=read_only)
    assert names_in(tmp_path) == set()


def test_a_record_that_replaces_a_table_deletes_nothing_of_it() -> None:
    payload = encode_commit(Commit({"t": delta([(1,)], [(2,)], 1)}, {}, None))
    with pytest.raises(ValueError, match="'t' is replaced: no rows of it can be deleted"):
        decode_commit(memoryview(payload.replace(b"false", b"true ")))


@pytest.mark.parametrize(
    "commit",
    [
        Commit({"new": delta([], [], 1)}, {}, None),
        Commit({"still": delta([], [(1,)], 1)}, {}, None),
        Commit({"still": Delta.listed("still", 3, plus=([np.zeros(1, np.int64)] * 3, 1))}, {}, None),
        Commit({"still": Delta.listed("still", 3, plus=([np.zeros(2, np.uint32)] * 3, 1))}, {}, None),
        Commit({"odd": delta([], [(), ()], 0)}, {}, None),
        Commit({"all": StoredTable(columns_of([(1,)], 1), 2)}, {}, None),
        Commit({"all": delta([], [], 1)}, {}, None, dropped=("all",)),
        Commit({}, {}, None, dropped=("new",)),
        Commit({}, {"symbol": terms_of("symbol", [b"x"], 7)}, None),
        Commit({}, {"symbol": terms_of("number", [1], 0)}, None),
        Commit({}, {}, {"set": {1}}),
        Commit({}, {}, {"nan": float("nan")}),
    ],
)
def test_commits_that_do_not_fit(tmp_path: Path, commit: Commit) -> None:
    Store.create(tmp_path, numbered_world(3).snapshot())
    with Store.open(tmp_path) as store:
        with pytest.raises(ValueError):
            store.commit(commit)
        store.commit(numbered_commit(4))
    assert read(tmp_path) == numbered_world(4)


def test_readers_and_closed_stores_write_nothing(tmp_path: Path) -> None:
    Store.create(tmp_path, numbered_world(0).snapshot())
    with Store.open(tmp_path, read_only=True) as reader:
        for write in (lambda: reader.commit(numbered_commit(1)), reader.compact):
            with pytest.raises(StoreError, match="opened read-only"):
                write()
    writer = Store.open(tmp_path)
    writer.close()
    writer.close()
    for use in (lambda: writer.commit(numbered_commit(1)), writer.compact, writer.load, writer.describe):
        with pytest.raises(StoreError, match="was closed"):
            use()


WRITER = """
import sys
from gpuengine.maintenance.delta import Delta
from gpuengine.maintenance.store import Store
with Store.open(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_two_writers(tmp_path: Path) -> None:
    Store.create(tmp_path, numbered_world(0).snapshot())
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"open\n"
        message = rf"being written by process {other.pid} on .*{tmp_path}/lock.*Open it read-only"
        with pytest.raises(StoreError, match=message):
            Store.open(tmp_path)
        with pytest.raises(StoreError, match=message):
            Store.create(tmp_path, EMPTY, replace=True)
        assert read(tmp_path) == numbered_world(0)
        other.communicate()
    with Store.open(tmp_path) as store, pytest.raises(StoreError, match=f"process {os.getpid()} on"):
        Store.open(store.path)
