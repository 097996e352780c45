"""Golden programs, run as a user runs them: each in a process of its own.

A folder of ``tests/programs`` holds

- ``program.dl``, with what it includes;
- ``facts/``: the input, if any (``-F``);
- ``args``: further arguments of the command line, if any;
- ``expected/``: every file that must be written, and no other (``-D``); rows in any order, and a
  ``.gz`` file is compared by what is in it;
- ``expected.out``, ``expected.err``: standard output (rows in any order) and standard error; a
  missing one means that nothing is printed. A program with an ``expected.err`` must fail, unless it
  also has expected files.

A folder with neither ``expected/`` nor ``expected.out`` nor ``expected.err`` is an error.
"""

from __future__ import annotations

import gzip
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_processes import CommandLines

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(path.name for path in PROGRAMS.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def command_lines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLines]:
    processes = CommandLines(tmp_path_factory.mktemp("processes"))
    yield processes
    processes.close()


def _rows(path: Path) -> list[str]:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return sorted(data.decode().splitlines(keepends=True))


def _files(folder: Path) -> dict[str, list[str]]:
    return {
        path.relative_to(folder).as_posix(): _rows(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _arguments(folder: Path, out: Path) -> list[str]:
    facts = ["-F", "facts"] if (folder / "facts").exists() else []
    return ["run", "program.dl", *facts, "-D", str(out), *shlex.split(_text(folder / "args"))]


def test_there_are_programs() -> None:
    assert len(NAMES) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_program(name: str, command_lines: CommandLines, tmp_path: Path) -> None:
    folder, out = PROGRAMS / name, tmp_path / "out"
    expected, errors = folder / "expected", folder / "expected.err"
    assert expected.exists() or errors.exists() or (folder / "expected.out").exists(), "nothing is expected"
    done = command_lines.run(_arguments(folder, out), cwd=folder)
    assert done.err == _text(errors)
    assert sorted(done.out.splitlines()) == sorted(_text(folder / "expected.out").splitlines())
    assert _files(out) == _files(expected)
    assert (done.code == 0) == (expected.exists() or not errors.exists())


@pytest.mark.parametrize("name", ["recursion-linear", "error-undeclared-relation"])
def test_a_new_interpreter_does_the_same(name: str, command_lines: CommandLines, tmp_path: Path) -> None:
    """What holds for the forked processes holds for ``python -m gpuengine``."""
    folder = PROGRAMS / name
    command = [sys.executable, "-m", "gpuengine", *_arguments(folder, tmp_path / "new")]
    new = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    forked = command_lines.run(_arguments(folder, tmp_path / "forked"), cwd=folder)
    assert (new.returncode, new.stdout, new.stderr) == (forked.code, forked.out, forked.err)
    assert _files(tmp_path / "new") == _files(tmp_path / "forked")
