"""Power cuts at every call of a store: what was acknowledged is there, and nothing of it by halves."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuengine.errors import StoreError
from gpuengine.maintenance.store import Store
from tests.maintenance.power_cuts import Killed, Mark, Recorder, cut, run
from tests.maintenance.store_worlds import numbered_commit, numbered_world


@pytest.mark.parametrize("seed", range(4))
def test_stores_in_use(seed: int) -> None:
    counts = run(seed, 400)
    assert counts["cuts"] == 400 and counts["dropped"] > 0 and counts["commit"] > 0


def states(*numbers: int | None) -> Mark:
    return Mark(frozenset(numbers), is_commit=True)


def cut_often(folder: Path, use: Callable[[Recorder, Path], None]) -> dict[str, int]:
    """Cut the power often after each call that `use` makes, on a store with one commit in its journal."""
    record = Recorder(folder / "live")
    record.root.mkdir()
    path = record.root / "kb"
    with record.recording():
        record.steps.append(states(None, 0))
        Store.create(path, numbered_world(0).snapshot())
        with Store.open(path) as store:
            record.steps.append(states(0, 1))
            store.commit(numbered_commit(1))
        record.steps.append(states(1))
        use(record, path)
    counts = {"cuts": 0, "dropped": 0}
    cut(record, path, random.Random(1), 5000, counts)
    return counts


def test_commits_that_are_lost(tmp_path: Path) -> None:
    def use(record: Recorder, path: Path) -> None:
        with Store.open(path) as store:
            for number in range(2, 6):
                record.steps.append(states(number - 1, number))
                store.commit(numbered_commit(number))
                record.steps.append(states(number))

    counts = cut_often(tmp_path, use)
    assert counts["dropped"] > 10


def test_commit_that_failed_does_not_come_back(tmp_path: Path) -> None:
    def use(record: Recorder, path: Path) -> None:
        with Store.open(path) as store:
            record.failing["fdatasync"] = OSError(errno.EIO, "broken")
            record.steps.append(states(1, 2))
            with pytest.raises(StoreError, match="Nothing was changed"):
                store.commit(numbered_commit(2))
            record.steps.append(states(1))
        Store.open(path).close()

    cut_often(tmp_path, use)


def test_commit_that_a_writer_has_seen(tmp_path: Path) -> None:
    """A process is killed after writing a commit, before it is on the disk; another one goes on from it."""

    def use(record: Recorder, path: Path) -> None:
        store = Store.open(path)
        record.steps.append(states(1, 2))
        record.left_to_live = 1  # the write, but not the sync
        with pytest.raises(Killed):
            store.commit(numbered_commit(2))
        record.die()
        with Store.open(path) as store:
            assert store.load().meta["number"] == 2
            record.steps.append(states(2))
        with Store.open(path):
            pass

    cut_often(tmp_path, use)


def test_switch_that_another_writer_completes(tmp_path: Path) -> None:
    """A process is killed after the manifest is replaced, before that is on the disk."""

    def use(record: Recorder, path: Path) -> None:
        import os

        store = Store.open(path)
        recorded = os.replace

        def last(*arguments: object) -> None:
            recorded(*arguments)  # type: ignore[arg-type]
            record.left_to_live = 0

        os.replace = last  # type: ignore[assignment]
        with pytest.raises(Killed):
            store.compact()
        record.die()
        Store.open(path).close()
        assert not (path / "g1.journal").exists()
        Store.open(path).close()

    cut_often(tmp_path, use)
