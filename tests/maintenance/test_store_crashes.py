"""Kills, interrupts, full disks and readers beside a writer: the store is whole at every instant."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuengine.errors import StoreError
from gpuengine.maintenance.delta import Delta
from gpuengine.maintenance.store import Commit, Snapshot, Store, StoredTable
from tests.maintenance.store_processes import CALLS, load
from tests.maintenance.store_worlds import World, numbered_commit, numbered_world

ROOT = Path(__file__).parents[2]
BIG = StoredTable([np.arange(200_000, dtype=np.uint32)], 200_000)


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.maintenance.store_processes", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def names_in(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()}


def report(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return dict(json.loads(out))


def test_killed_at_random(tmp_path: Path) -> None:
    found = report(start("kill-at-random", tmp_path / "kb", 120, 1))
    assert found["kills"] == 120 and found["commits"] > 120 and found["generations"] > 10


def test_killed_at_every_call(tmp_path: Path) -> None:
    found = report(start("kill-at-calls", tmp_path))
    assert min(found.values()) >= 5 and sum(found.values()) > 100, found


def test_readers_beside_a_writer(tmp_path: Path) -> None:
    Store.create(tmp_path, numbered_world(0).snapshot())
    writer = start("write", tmp_path, 3)
    seen = [0]
    with Store.open(tmp_path, read_only=True) as kept:
        while writer.poll() is None:
            for reader in (kept, Store.open(tmp_path, read_only=True)):
                world = World.of(reader.load())
                number = world.meta["number"]
                assert world == numbered_world(number) and number >= seen[-1]
                seen.append(number)
                assert reader.describe()["commits"] >= 0
    assert load(tmp_path) == report(writer)["commits"]
    assert len(set(seen)) > 20


# -- in this process: interrupts and failing calls -----------------------------------------------------


@contextmanager
def failing(name: str, error: BaseException, at: int = 0) -> Iterator[list[int]]:
    """Let the `at`-th call of an `os` function fail; a write puts half of its bytes in place first."""
    real, passed = getattr(os, name), [0]

    def call(*arguments: Any, **options: Any) -> Any:
        passed[0] += 1
        if passed[0] != at + 1:
            return real(*arguments, **options)
        if name == "write":
            real(arguments[0], memoryview(arguments[1]).cast("B")[: len(arguments[1]) // 2])
        raise error

    setattr(os, name, call)
    try:
        yield passed
    finally:
        setattr(os, name, real)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("operation", ["commit", "compact", "replace"])
def test_interrupted_at_every_call(tmp_path: Path, name: str, operation: str) -> None:
    for at in range(100):
        path = tmp_path / str(at)
        Store.create(path, numbered_world(2).snapshot())
        with Store.open(path) as store:
            store.commit(numbered_commit(3))
            try:
                if operation == "replace":
                    store.close()
                with failing(name, KeyboardInterrupt(), at) as calls:
                    if operation == "commit":
                        store.commit(numbered_commit(4))
                    elif operation == "compact":
                        store.compact()
                    else:
                        Store.create(path, numbered_world(9).snapshot(), replace=True)
            except KeyboardInterrupt:
                assert load(path) in ((3, 9) if operation == "replace" else (3,))
                if operation == "commit":
                    store.commit(numbered_commit(4))  # as if nothing had been
            if calls[0] <= at:
                return
        found = load(path, read_only=False)
        with Store.open(path) as again:
            again.commit(numbered_commit(found + 1))
            again.compact()
        assert load(path) == found + 1
        shutil.rmtree(path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("name", ["write", "fdatasync"])
def test_commit_that_fails(tmp_path: Path, name: str, code: int) -> None:
    Store.create(tmp_path, numbered_world(0).snapshot())
    with Store.open(tmp_path) as store:
        store.commit(numbered_commit(1))
        hint = "check the disk" if code == errno.EIO else "make room on the disk"
        for _ in range(2):
            with failing(name, OSError(code, os.strerror(code))), pytest.raises(StoreError) as caught:
                store.commit(numbered_commit(2))
            assert str(tmp_path / "g1.journal") in str(caught.value) and hint in str(caught.value)
            assert load(tmp_path) == 1
        store.commit(numbered_commit(2))
    assert load(tmp_path) == 2


def test_commit_that_can_not_even_be_cut_off(tmp_path: Path) -> None:
    Store.create(tmp_path, numbered_world(0).snapshot())
    full, broken = OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "broken")
    with Store.open(tmp_path) as store:
        with failing("write", full), failing("ftruncate", broken), pytest.raises(StoreError, match="cut off"):
            store.commit(numbered_commit(1))
        with pytest.raises(StoreError, match="an earlier write failed"):
            store.commit(numbered_commit(1))
        assert World.of(store.load()) == numbered_world(0)
    with Store.open(tmp_path) as store:
        assert store.discarded_bytes > 0
        store.commit(numbered_commit(1))
    assert load(tmp_path) == 1


def test_manifest_that_may_not_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuengine.maintenance.store import generations

    real = generations.put_manifest

    def fail(directory: Path) -> None:
        raise OSError(errno.EIO, "broken")

    def put(directory: Path) -> None:
        real(directory)
        monkeypatch.setattr(generations, "sync_directory", fail)

    Store.create(tmp_path, numbered_world(0).snapshot())
    with Store.open(tmp_path) as store:
        store.commit(numbered_commit(1))
        with monkeypatch.context() as patch, pytest.raises(StoreError, match="generation 2 is in place"):
            patch.setattr(generations, "put_manifest", put)
            store.compact()
        monkeypatch.undo()
        with pytest.raises(StoreError, match="an earlier write failed"):
            store.commit(numbered_commit(2))
    with Store.open(tmp_path) as store:
        store.commit(numbered_commit(2))
    assert load(tmp_path) == 2


# -- full disks ------------------------------------------------------------------------------------------


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """No file of this process can grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    mount = shutil.which("mount")
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system is not permitted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def grow_until_full(store: Store) -> None:
    """Commit big tables until one does not fit any more; that one is not in the store."""
    for number in range(1, 50):
        table = StoredTable([column[:40_000] for column in BIG.columns], 40_000)
        before = World.of(store.load())
        try:
            store.commit(Commit({f"t{number}": table}, {}, {"number": number}))
        except StoreError as error:
            assert ".journal" in str(error) and "make room on the disk" in str(error)
            assert World.of(store.load()) == before
            return
    raise AssertionError("the disk never got full")


def check_full(base: Path, limit: Callable[[], Any], room: Callable[[], None]) -> None:
    """What a store does on a disk with less than a MiB left."""
    path = base / "kb"
    Store.create(path, Snapshot({"number": 0}, {}, {"t0": StoredTable([BIG.columns[0][:1000]], 1000)}))
    with Store.open(path) as store:
        with limit():
            grow_until_full(store)
            before, names = World.of(store.load()), names_in(path)
            too_big = Snapshot({}, {}, {"big": StoredTable(BIG.columns * 3, BIG.rows)})
            with pytest.raises(StoreError, match=r"make room on the disk"):
                Store.create(base / "other", too_big)
            assert names_in(base / "other") == {"lock"}
            store.commit(Commit({"t0": Delta.listed("t0", 1)}, {}, None))  # a small one still fits
        room()
        assert World.of(store.load()) == before and names_in(path) == names
        store.compact()
        store.commit(Commit({}, {}, {"number": 100}))
    with Store.open(path, read_only=True) as store:
        assert World.of(store.load()) == World({"number": 100}, before.tables, before.terms)
    Store.create(base / "other", Snapshot({}, {}, {}))


def test_files_that_can_not_grow(tmp_path: Path) -> None:
    check_full(tmp_path, lambda: limited_files(900_000), lambda: None)


def test_full_disk(small_disk: Path) -> None:
    filler = small_disk / "filler"

    @contextmanager
    def nothing() -> Iterator[None]:
        yield

    filler.write_bytes(bytes(450_000))
    check_full(small_disk, nothing, filler.unlink)


def test_compaction_on_a_full_disk(tmp_path: Path) -> None:
    """Compaction writes one file that is larger than any file may be: the old state stays, and works."""
    half = Delta.listed("big", 1, plus=([column[:100_000] for column in BIG.columns], 100_000))
    rest = Delta.listed("big", 1, plus=([column[100_000:] for column in BIG.columns], 100_000))
    Store.create(tmp_path, Snapshot({}, {}, {"big": StoredTable([BIG.columns[0][:0]], 0)}))
    with Store.open(tmp_path) as store:
        store.commit(Commit({"big": half}, {}, None))
        store.compact()
        store.commit(Commit({"big": rest}, {}, None))
        names = names_in(tmp_path)
        with limited_files(600_000), pytest.raises(StoreError, match=r"g3-0001\.arrow.*make room"):
            store.compact()
        assert names_in(tmp_path) == names
        assert store.load().tables["big"].rows == BIG.rows
        store.commit(Commit({}, {}, {"still": "usable"}))
        store.compact()
        assert store.load().tables["big"].rows == BIG.rows and store.load().meta == {"still": "usable"}
