"""The walks of docs/architecture.md, compared with what is called; and who asks what class a thing is of."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import gpuengine as ge

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.input edge
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def named(walk: str) -> list[str]:
    """The functions that a walk names, as file and qualified name, in order."""
    (text,) = re.findall(rf"^## {walk}, in a page\n(.*?)^## ", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    steps = text.split("```")[2]
    found = re.findall(r"`([a-z_]+\.(?:[A-Z]\w*\.)?[a-z_]+)`", steps)
    return [name for name in found if not name.endswith(".py")]


@contextmanager
def traced() -> Iterator[list[str]]:
    """What is called in the block, by whatever thread."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and "gpuengine" in frame.f_globals.get("__name__", ""):
            calls.append(f"{Path(code.co_filename).stem}.{code.co_qualname}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def assert_agrees(walk: str, act: Callable[[], None]) -> None:
    """Every step is called, after the one that is named before it."""
    with traced() as calls:
        act()
    steps = named(walk)
    assert len(steps) > 10
    at = 0
    for step in steps:
        assert step in calls, f"{step} is not called"
        assert step in calls[at:], f"{step} is not called after what is named before it"
        at = calls.index(step, at)


def test_a_run() -> None:
    def act() -> None:
        kb = ge.Engine(PROGRAM, schemes={"*": "table"})
        kb.load("edge", [(i, i + 1) for i in range(9)])
        kb.materialise()
        assert len(kb["path"].to_pylist()) == 45

    assert_agrees("A run", act)


def test_an_update() -> None:
    kb = ge.Engine(PROGRAM, schemes={"*": "table"})
    kb.load("edge", [(1, 2), (2, 3)])
    kb.materialise()

    def act() -> None:
        with kb.update() as u:
            u.insert("edge", [(3, 4)])
            u.delete("edge", [(1, 2)])
        assert sorted(u.change["path"].inserted) == [(2, 4), (3, 4)]

    assert_agrees("An update", act)


ASKED_BY_CLASS = {
    # The compiled loop over small rounds takes addresses of what the host has.
    ("gpuengine/evaluation/driver/small_rounds.py", "RowIndex"),
    ("gpuengine/evaluation/driver/small_rounds.py", "Rows"),
    # What improves values in place runs on the host only.
    ("gpuengine/evaluation/rules/improving.py", "Program"),
    # Worker threads share the programs of the host.
    ("gpuengine/evaluation/rules/variants.py", "CpuProgram"),
    # A column of data from elsewhere is Arrow's or in a device's memory.
    ("gpuengine/exchange/incoming.py", "ForeignColumn"),
}
"""Where the class of a scheme, or of a backend or what it made, is asked for outside their packages."""


def asked_by_class(path: Path) -> Iterator[str]:
    """The classes of schemes and kernels in `isinstance`; errors, and operations of pipelines, are data."""
    tree = ast.parse(path.read_text())
    owned = {
        alias.asname or alias.name: getattr(importlib.import_module(node.module), alias.name, None)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.startswith(("gpuengine.schemes", "gpuengine.kernels"))
        if node.module != "gpuengine.kernels.contract"
        for alias in node.names
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "isinstance":
            for name in ast.walk(call.args[1]):
                kind = owned.get(name.id) if isinstance(name, ast.Name) else None
                if isinstance(kind, type) and not issubclass(kind, BaseException):
                    yield name.id


def test_schemes_and_backends_answer_for_themselves() -> None:
    folders = [ROOT / "spark_bridge", *(p for p in (ROOT / "gpuengine").iterdir() if not p.is_symlink())]
    paths = [path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*.py"))]
    asked = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in paths
        if path.suffix == ".py"
        for name in asked_by_class(path)
    }
    assert asked == ASKED_BY_CLASS
