"""Several files replaced at once: stopped anywhere, all of them are replaced in the end, or none."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuengine.errors import DataError
from gpuengine.io.replacing import Replacement, finish_renames

NAMES = ("a.csv", "b.csv", "sub/c.csv")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"old {name}")
    return tmp_path


def replace_all(home: Path) -> None:
    with Replacement(home) as replacement:
        for name in NAMES:
            with replacement.file(home / name) as sink:
                sink.write(f"new {name}".encode())
        replacement.finish()


def held(home: Path) -> set[str]:
    """Which state the files are in; nothing else is there."""
    found = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert found == set(NAMES)
    texts = {name: (home / name).read_text() for name in NAMES}
    assert all(text.endswith(name) for name, text in texts.items())
    return {text.partition(" ")[0] for text in texts.values()}


def stopping(stop: Callable[[], None], at: int) -> dict[str, Any]:
    """`os` calls that stop before the `at`-th of them, and what the real ones were."""
    left = [at]
    real = {name: getattr(os, name) for name in ("replace", "unlink", "mkdir")}

    def watched(name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == -1:
                stop()
            return real[name](*arguments, **options)

        return call

    for name in real:
        setattr(os, name, watched(name))
    return real


def test_all_are_replaced(home: Path) -> None:
    replace_all(home)
    assert held(home) == {"new"}


def test_killed_anywhere(home: Path) -> None:
    seen = set()
    for at in range(40):
        pid = os.fork()
        if pid == 0:
            stopping(lambda: os.kill(os.getpid(), signal.SIGKILL), at)
            replace_all(home)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        finish_renames(home)
        for path in home.rglob(".*.tmp"):
            path.unlink()  # what was never complete
        (state,) = held(home)
        seen.add(state)
        if not os.WIFSIGNALED(status):
            assert seen == {"old", "new"}
            return
        for name in NAMES:
            (home / name).write_text(f"old {name}")
    raise AssertionError("never got through")


def test_interrupted_anywhere(home: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    seen = set()
    for at in range(40):
        real = stopping(interrupt, at)
        try:
            replace_all(home)
            is_through = True
        except KeyboardInterrupt:
            is_through = False
        finally:
            for name, call in real.items():
                setattr(os, name, call)
        (state,) = held(home)
        seen.add(state)
        if is_through:
            assert seen == {"old", "new"}
            return
        for name in NAMES:
            (home / name).write_text(f"old {name}")
    raise AssertionError("never got through")


def test_a_failure_says_what_was_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.replace

    def replace(old: Any, new: Any) -> None:
        if Path(new).name == "b.csv":
            raise OSError(errno.EACCES, "Permission denied")
        real(old, new)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(DataError) as caught:
        replace_all(home)
    assert str(caught.value) == (
        f"can't write {home}/b.csv: Permission denied\n"
        f"  replaced: {home}/a.csv, {home}/sub/c.csv; not replaced: {home}/b.csv"
    )
    assert held(home) == {"old", "new"}


def left_list(home: Path, **changes: object) -> Path:
    """What a process left that was killed after it had replaced the first of two files."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (home / "a.csv").write_text("new a.csv")
    (home / ".b.tmp").write_text("new b.csv")
    content = {"boot": boot, "renames": [[".a.tmp", "a.csv", 9], [".b.tmp", "b.csv", 9]], **changes}
    path = home / ".gpuengine-renames-1.json"
    path.write_text(json.dumps(content))
    return path


def test_what_is_left_is_finished(home: Path) -> None:
    left_list(home)
    assert finish_renames(home) == []
    assert (home / "b.csv").read_text() == "new b.csv"
    assert finish_renames(home) == [] and finish_renames(home / "missing") == []
    assert {path.name for path in home.iterdir()} == {"a.csv", "b.csv", "sub"}


@pytest.mark.parametrize(
    "changes", [{"boot": "another"}, {"renames": [[".a.tmp", "a.csv", 9], [".b.tmp", "b.csv", 5]]}]
)
def test_what_a_power_cut_left_is_told(home: Path, changes: dict[str, object]) -> None:
    left_list(home, **changes)
    (told,) = finish_renames(home)
    assert told.endswith(f"replaced: {home}/a.csv; not replaced: {home}/b.csv")
    assert (home / "b.csv").read_text() == "old b.csv"
    assert {path.name for path in home.iterdir()} == {"a.csv", "b.csv", "sub"}


@pytest.mark.parametrize("place", ["../victim", "/tmp/victim", "sub/../../victim"])
def test_lists_reach_nothing_outside(home: Path, place: str) -> None:
    left_list(home, renames=[[".b.tmp", place, 9]])
    assert finish_renames(home) == []
    assert (home / ".b.tmp").exists() and not (home.parent / "victim").exists()


def test_links_in_the_place_of_files_are_replaced(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    victim = tmp_path_factory.mktemp("elsewhere") / "victim"
    victim.write_text("somebody's")
    (home / "a.csv").unlink()
    (home / "a.csv").symlink_to(victim)
    replace_all(home)
    assert victim.read_text() == "somebody's" and not (home / "a.csv").is_symlink()
    assert held(home) == {"new"}
