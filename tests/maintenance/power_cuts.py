"""Power cuts: a store's system calls recorded, and what a disk may hold of them when the power goes.

Nothing is assumed of a disk but what it was asked to wait for. Of a file that was not synced any blocks may
have their new content, their old one, zeros or what a deleted file left there, with any length that the file
had since; of a directory that was not synced, any of the names made, moved and removed since.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuengine.errors import StoreError
from gpuengine.maintenance.store import Store
from tests.maintenance.store_processes import load
from tests.maintenance.store_worlds import World, numbered_commit, numbered_world

NOTHING_CHANGED = "Nothing was changed"
_STEPS = 7
_CUTS, _CUTS_IN_COMMITS = 2, 12
"""How often the power goes after a call: a commit makes few calls, and is what a store does most."""


class Killed(BaseException):
    """The process is no more: nothing that it does afterwards reaches the disk."""


# -- what a disk may hold ------------------------------------------------------------------------------


@dataclass(eq=False)
class File:
    """What a file held when it was synced last, and each content that it has had since."""

    synced: bytes = b""
    since: list[bytes] = field(default_factory=list)

    @property
    def now(self) -> bytes:
        return self.since[-1] if self.since else self.synced

    def left(self, rng: random.Random, kept: float, stale: bytes) -> bytes:
        """The file after a power cut, with each unsynced block in any of its states."""
        versions = [self.synced, *self.since]
        if rng.random() < 0.3:
            return rng.choice(versions) if 0 < kept < 1 else versions[round(kept) * -1]
        length = len(rng.choice(versions)) if 0 < kept < 1 else len(versions[round(kept) * -1])
        size = rng.choice((64, 512, 4096))
        blocks = []
        for at in range(0, length, size):
            states = [version[at : at + size].ljust(size, b"\0") for version in versions]
            new = states[-1] if kept == 1 else rng.choice(states)
            old = states[0]
            if at >= len(self.synced) and stale and rng.random() < 0.2:
                old = stale[at : at + size].ljust(size, b"\0")
            blocks.append(new if rng.random() < kept else old)
        return b"".join(blocks)[:length]


@dataclass(eq=False)
class Folder:
    """The names that were there when the folder was synced last, and each change of one since."""

    synced: dict[str, File | Folder] = field(default_factory=dict)
    since: list[tuple[str | None, str | None, File | Folder]] = field(default_factory=list)

    def change(self, gone: str | None, come: str | None, node: File | Folder) -> None:
        self.since.append((gone, come, node))

    def sync(self) -> None:
        self.synced = self.names(self.since)
        self.since = []

    def names(self, changes: list[tuple[str | None, str | None, File | Folder]]) -> dict[str, File | Folder]:
        found = dict(self.synced)
        for gone, come, node in changes:
            if gone is not None and found.get(gone) is node:
                del found[gone]
            if come is not None:
                found[come] = node
        return found

    def left(self, rng: random.Random, kept: float, at: Path, stale: list[bytes]) -> None:
        """Make the folder as it is after a power cut."""
        at.mkdir()
        for name, node in self.names([one for one in self.since if rng.random() < kept]).items():
            if isinstance(node, Folder):
                node.left(rng, kept, at / name, stale)
            else:
                (at / name).write_bytes(node.left(rng, kept, rng.choice(stale)))


# -- recording -----------------------------------------------------------------------------------------

Step = Callable[[], None]


@dataclass(frozen=True)
class Mark:
    """From here on the store is in one of these states, by number of commits; None: there is none."""

    states: frozenset[int | None]
    is_commit: bool = False


class Recorder:
    """Stands between a process and the files below `root`: does what is asked for, and keeps a list of it.

    `steps` do the same to the model of a disk, `disk`; beside them are marks of what must be there.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = Folder()
        self.steps: list[Step | Mark] = []
        self.left_to_live: int | None = None
        self.failing: dict[str, OSError] = {}
        self._nodes: dict[Path, File | Folder] = {root: self.disk}
        self._open: dict[int, tuple[File | Folder, Path]] = {}
        self._content: dict[File, bytes] = {}
        self.files: list[File] = []
        self._real: dict[str, Any] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        calls = {
            name.removeprefix("_call_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_call_")
        }
        self._real = {name: getattr(os, name) for name in calls}
        for name, call in calls.items():
            setattr(os, name, self._watched(name, call))
        try:
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)

    def die(self) -> None:
        """End the process that was recorded: its files are closed, its locks gone."""
        for descriptor in self._open:
            self._real["close"](descriptor) if self._real else os.close(descriptor)
        self._open.clear()
        self.left_to_live = None

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            if not self._is_ours(arguments[0]):
                return self._real[name](*arguments, **options)
            if self.left_to_live is not None:
                if self.left_to_live == 0:
                    raise Killed
                self.left_to_live -= 1
            if name in self.failing:
                if name == "write":
                    half = memoryview(arguments[1]).cast("B")[: len(arguments[1]) // 2]
                    call(arguments[0], half)
                raise self.failing.pop(name)
            return call(*arguments, **options)

        return watched

    def _is_ours(self, where: Any) -> bool:
        if isinstance(where, int):
            return where in self._open
        return Path(where).is_relative_to(self.root)

    def _folder(self, path: Path) -> Folder:
        found = self._nodes[path.parent]
        assert isinstance(found, Folder)
        return found

    def _did(self, step: Step) -> None:
        self.steps.append(step)

    def _call_open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        path = Path(path)
        is_new = not os.path.lexists(path)
        descriptor: int = self._real["open"](path, flags, mode)
        if is_new:
            file = File()
            self.files.append(file)
            self._content[file] = b""
            self._nodes[path] = file
            self._did(lambda: self._folder(path).change(None, path.name, file))
        node = self._nodes[path]
        self._open[descriptor] = node, path
        if flags & os.O_TRUNC and isinstance(node, File) and self._content[node]:
            self._changed(node, b"")
        return descriptor

    def _call_close(self, descriptor: int) -> None:
        del self._open[descriptor]
        self._real["close"](descriptor)

    def _changed(self, file: File, content: bytes) -> None:
        self._content[file] = content
        self._did(lambda: file.since.append(content))

    def _call_write(self, descriptor: int, data: Any) -> int:
        written: int = self._real["write"](descriptor, data)
        self._reread(descriptor)
        return written

    def _call_pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        written: int = self._real["pwrite"](descriptor, data, offset)
        self._reread(descriptor)
        return written

    def _call_ftruncate(self, descriptor: int, length: int) -> None:
        self._real["ftruncate"](descriptor, length)
        self._reread(descriptor)

    def _reread(self, descriptor: int) -> None:
        node, _ = self._open[descriptor]
        assert isinstance(node, File)
        with open(f"/proc/self/fd/{descriptor}", "rb") as content:  # noqa: PTH123
            self._changed(node, content.read())

    def _call_fsync(self, descriptor: int) -> None:
        node, _ = self._open[descriptor]

        def sync() -> None:
            if isinstance(node, Folder):
                node.sync()
            else:
                node.synced, node.since = node.now, []

        self._did(sync)

    _call_fdatasync = _call_fsync

    def _call_mkdir(self, path: Any, mode: int = 0o777) -> None:
        path, folder = Path(path), Folder()
        self._real["mkdir"](path, mode)
        self._nodes[path] = folder
        self._did(lambda: self._folder(path).change(None, path.name, folder))

    def _call_unlink(self, path: Any) -> None:
        path = Path(path)
        self._real["unlink"](path)
        node = self._nodes.pop(path)
        self._did(lambda: self._folder(path).change(path.name, None, node))

    def _call_replace(self, old: Any, new: Any) -> None:
        old, new = Path(old), Path(new)
        assert old.parent == new.parent
        self._real["replace"](old, new)
        node = self._nodes[new] = self._nodes.pop(old)
        self._did(lambda: self._folder(new).change(old.name, new.name, node))


# -- stores that are used ------------------------------------------------------------------------------


class User:
    """Uses a store in all ways at random, and notes in the record which states it must be in."""

    def __init__(self, record: Recorder, rng: random.Random) -> None:
        self.path = record.root / "deep" / "kb"
        self.counts: dict[str, int] = {}
        self._record = record
        self._rng = rng
        self._number: int | None = None
        self._store: Store | None = None

    def use(self) -> None:
        with self._record.recording():
            self._known()
            for _ in range(_STEPS):
                what = self._rng.choice(
                    ("commit", "commit", "commit", "commit", "compact", "rewrite", "replace", "reopen")
                )
                how = self._rng.random()
                if how < 0.2:
                    self._record.left_to_live = self._rng.randrange(15)
                    with suppress(Killed):
                        self._do(what)
                    self._record.die()
                    self._open()
                elif how < 0.4:
                    self._fail(what)
                else:
                    self._do(what)
            if self._store is not None:
                self._store.close()

    def _known(self) -> None:
        """From here on the store is in the state that is known, whatever happens."""
        self._record.steps.append(Mark(frozenset({self._number})))

    def _do(self, what: str) -> None:
        what = "create" if self._number is None else what
        self.counts[what] = self.counts.get(what, 0) + 1
        number = self._number or 0
        target = {"commit": number + 1, "compact": number, "reopen": number}.get(what, number + 10)
        if what in ("replace", "reopen", "create") and self._store is not None:
            self._store.close()
            self._store = None
        if what not in ("replace", "create") and self._store is None:
            self._store = Store.open(self.path)
        self._record.steps.append(Mark(frozenset({self._number, target}), what == "commit"))
        if what == "commit":
            assert self._store is not None
            self._store.commit(numbered_commit(target))
        elif what == "compact":
            assert self._store is not None
            self._store.compact()
        elif what == "rewrite":
            assert self._store is not None
            self._store.rewrite(numbered_world(target).snapshot())
        elif what != "reopen":
            Store.create(self.path, numbered_world(target).snapshot(), replace=what == "replace")
        self._number = target
        self._known()

    def _open(self) -> None:
        """What a writer was shown stays, also if nobody was told of it before."""
        self._store = None
        if self._number is None and not (self.path / "manifest.json").exists():
            return
        self._store = Store.open(self.path)
        world = World.of(self._store.load())
        self._number = int(world.meta["number"])
        assert world == numbered_world(self._number)
        self._known()

    def _fail(self, what: str) -> None:
        """One call fails; a failure that changed nothing did not, and work goes on."""
        calls: tuple[str, ...] = ("write", "fsync", "fdatasync", "open", "ftruncate", "replace", "unlink")
        if what == "commit":
            calls = ("write", "fdatasync", "fdatasync", "ftruncate")
        for call in self._rng.sample(calls, self._rng.choice((1, 2))):
            code = self._rng.choice((errno.ENOSPC, errno.EIO))
            self._record.failing[call] = OSError(code, os.strerror(code))
        before = self._number
        try:
            self._do(what)
        except StoreError as error:
            self._record.failing.clear()
            self.counts["failures"] = self.counts.get("failures", 0) + 1
            if NOTHING_CHANGED in str(error):
                assert self._number == before
                self._known()
            else:
                if self._store is not None:
                    self._store.close()
                self._open()
        self._record.failing.clear()


# -- cutting the power ---------------------------------------------------------------------------------


def run(seed: int, cuts: int) -> dict[str, int]:
    """Cut the power `cuts` times; `AssertionError`, or the store's own error, if anything is lost or torn.

    Says how often what was done, and how many unfinished commits were dropped.
    """
    counts = {"cuts": 0, "dropped": 0}
    scenario = 0
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="power-", dir=memory) as folder:
        while counts["cuts"] < cuts:
            scenario += 1
            rng = random.Random(f"{seed}/{scenario}")
            try:
                _use_and_cut(Path(folder).resolve() / str(scenario), rng, cuts, counts)
            except Exception as error:
                error.add_note(f"power_cuts.run(seed={seed}, ...): scenario {scenario}, {counts}")
                raise
    return counts


def _use_and_cut(folder: Path, rng: random.Random, cuts: int, counts: dict[str, int]) -> None:
    folder.mkdir()
    record = Recorder(folder / "live")
    record.root.mkdir()
    user = User(record, rng)
    user.use()
    for what, count in user.counts.items():
        counts[what] = counts.get(what, 0) + count
    cut(record, user.path, rng, cuts, counts)
    shutil.rmtree(folder)


def cut(record: Recorder, path: Path, rng: random.Random, cuts: int, counts: dict[str, int]) -> None:
    """Cut the power some times after each call that was recorded, until there were `cuts` in all."""
    mark = Mark(frozenset())
    for step in record.steps:
        if isinstance(step, Mark):
            mark = step
            continue
        step()
        for _ in range(_CUTS_IN_COMMITS if mark.is_commit else _CUTS):
            if counts["cuts"] == cuts:
                return
            counts["cuts"] += 1
            image = record.root.with_name("image")
            stale = [b"", *(file.now for file in record.files)]
            record.disk.left(rng, rng.choice((0, 1, 0.1, 0.5, 0.5, 0.9)), image, stale)
            with _without_syncs():
                counts["dropped"] += _check(image / path.relative_to(record.root), mark.states, rng)
            shutil.rmtree(image)


def _check(path: Path, allowed: frozenset[int | None], rng: random.Random) -> int:
    """The store is in one of the states, and can be used on; how many unfinished commits were dropped."""
    if not (path / "manifest.json").exists():
        assert None in allowed, f"the knowledge base is gone; {allowed} was expected"
        Store.create(path, numbered_world(1).snapshot())
        assert load(path) == 1
        return 0
    found = load(path)
    assert found in allowed, f"state {found}, but {allowed} was expected"
    with Store.open(path) as store:
        dropped = store.discarded_bytes > 0
        assert int(store.load().meta["number"]) == found
        store.commit(numbered_commit(found + 1))
        if rng.random() < 0.2:
            store.compact()
    assert load(path) == found + 1
    return int(dropped)


@contextmanager
def _without_syncs() -> Iterator[None]:
    """Nothing here is about the disk of this machine."""
    real = {name: getattr(os, name) for name in ("fsync", "fdatasync")}
    for name in real:
        setattr(os, name, lambda descriptor: None)
    try:
        yield
    finally:
        for name, call in real.items():
            setattr(os, name, call)
