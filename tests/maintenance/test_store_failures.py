"""Every system call of a store made to fail: what the error says is what is found afterwards. And links."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import gpuengine as ge
from gpuengine.errors import StoreError
from gpuengine.maintenance.store import Store
from tests.maintenance.store_processes import load
from tests.maintenance.store_worlds import numbered_commit, numbered_world

CALLS: dict[str, Any] = {
    "open": os,
    "write": os,
    "fsync": os,
    "fdatasync": os,
    "replace": os,
    "ftruncate": os,
    "unlink": os,
    "mkdir": os,
    "close": os,
    "fstat": os,
    "listdir": os,
    "pwrite": os,
    "read_bytes": pathlib.Path,
}
NOTHING = "Nothing was changed"


@contextmanager
def failing(name: str, at: int, code: int, *, ever_after: bool) -> Iterator[list[int]]:
    """Let a call fail, and all that follow it if wanted; a file is closed all the same, as Linux does it."""
    where = CALLS[name]
    real, passed = getattr(where, name), [0]

    def call(*arguments: Any, **options: Any) -> Any:
        passed[0] += 1
        if passed[0] == at + 1 or (ever_after and passed[0] > at):
            if name == "close":
                real(*arguments, **options)
            raise OSError(code, os.strerror(code))
        return real(*arguments, **options)

    setattr(where, name, call)
    try:
        yield passed
    finally:
        setattr(where, name, real)


def create(kb: Path) -> None:
    Store.create(kb, numbered_world(9).snapshot(), replace=True)


def commit(kb: Path) -> None:
    with Store.open(kb) as store:
        store.commit(numbered_commit(4))


def compact(kb: Path) -> None:
    with Store.open(kb) as store:
        store.compact()


def rewrite(kb: Path) -> None:
    with Store.open(kb) as store:
        store.rewrite(numbered_world(9).snapshot())


def state(kb: Path) -> tuple[int, int] | None:
    """(generation, number of commits), None if there is no store."""
    if not (kb / "manifest.json").exists():
        return None
    return json.loads((kb / "manifest.json").read_bytes())["generation"], load(kb)


@pytest.mark.parametrize("operation", [create, commit, compact, rewrite])
@pytest.mark.parametrize("name", CALLS)
def test_errors_say_what_is_found(tmp_path: Path, operation: Callable[[Path], None], name: str) -> None:
    origin, kb = tmp_path / "origin", tmp_path / "deep" / "kb"
    Store.create(origin, numbered_world(2).snapshot())
    with Store.open(origin) as store:
        store.commit(numbered_commit(3))
    after = {create: (2, 9), commit: (1, 4), compact: (2, 3), rewrite: (2, 9)}[operation]
    for is_new in (False, True) if operation is create else (False,):
        before = None if is_new else (1, 3)
        for at in range(60):
            for code, ever_after in ((errno.EIO, False), (errno.ENOSPC, True), (errno.EACCES, False)):
                if not is_new:
                    shutil.copytree(origin, kb)
                said = None
                with failing(name, at, code, ever_after=ever_after) as calls:
                    try:
                        operation(kb)
                    except StoreError as error:
                        said = str(error)
                found = state(kb)
                assert found in (before, (1, 9) if is_new else after), (name, at, code)
                if found == before:
                    assert said is not None, (name, at, code)
                elif said is not None:
                    assert "is in place" in said and NOTHING not in said, said
                shutil.rmtree(kb.parent, ignore_errors=True)
            if calls[0] <= at:
                break
        else:
            raise AssertionError("there are more calls")


def test_store_whose_next_journal_does_not_open(tmp_path: Path) -> None:
    """The switch is done; what the store can't do then is said by the commit that needs it."""
    Store.create(tmp_path, numbered_world(2).snapshot())
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_APPEND:
            raise OSError(errno.EMFILE, "too many open files")
        return real(path, flags, *rest)

    with Store.open(tmp_path) as store:
        os.open = refuse
        try:
            store.rewrite(numbered_world(5).snapshot())
            with pytest.raises(
                StoreError, match=r"g2\.journal: can't open it for writing.*Nothing was changed"
            ):
                store.commit(numbered_commit(6))
        finally:
            os.open = real
        assert load(tmp_path) == 5
        store.commit(numbered_commit(6))
    assert load(tmp_path) == 6


@pytest.mark.parametrize("name", ["open", "fsync", "replace", "close", "fstat", "listdir", "read_bytes"])
def test_engine_that_computes_anew(tmp_path: Path, name: str) -> None:
    """An update that is computed anew writes a new generation; if it raises, the error is true."""
    for at in range(60):
        path = tmp_path / str(at)
        engine = ge.Engine(".decl e(x: number)\n.limitsize e(n=100)\n.decl p(x: number)\np(x) :- e(x).")
        engine.load("e", [(1,)])
        engine.save(path)
        said = None
        with ge.open(path) as kb, failing(name, at, errno.EIO, ever_after=True) as calls:
            try:
                with kb.update() as update:
                    update.insert("e", [(2,)])
            except StoreError as error:
                said = str(error)
            held = sorted(kb["p"])
        with ge.open(path, read_only=True) as again:
            found = sorted(again["p"])
        if said is None:
            assert found == held == [(1,), (2,)]
        else:
            assert held == [(1,)]
            assert NOTHING in said if found == [(1,)] else "is in place" in said
        if calls[0] <= at:
            return
    raise AssertionError("there are more calls")


# -- links ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("name", ["lock", "manifest.json.tmp", "g1.journal", "g2-0001.arrow"])
def test_links_are_not_written_through(tmp_path: Path, name: str, link: Callable[..., None]) -> None:
    victim, kb = tmp_path / "victim", tmp_path / "kb"
    victim.write_bytes(b"somebody's")
    for operation in (create, commit, compact, rewrite):
        Store.create(kb, numbered_world(2).snapshot())
        with Store.open(kb) as store:
            store.commit(numbered_commit(3))
        if name == "g1.journal":  # a whole one, at another place
            victim.write_bytes((kb / name).read_bytes())
        held = victim.read_bytes()
        (kb / name).unlink(missing_ok=True)
        link(victim, kb / name)
        try:
            operation(kb)
        except StoreError as error:
            assert link is os.symlink and "symbolic link" in str(error) and NOTHING in str(error)
            assert str(kb / name) in str(error)
        if link is os.symlink or name != "g1.journal":
            assert victim.read_bytes() == held
        shutil.rmtree(kb)
