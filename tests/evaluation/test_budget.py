"""The memory budget: sizes as people write them, and an error that says what to do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import gpuengine as ge
from gpuengine.errors import GpuEngineError, MemoryBudgetError
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.limits import parse_size
from gpuengine.machine import available_memory

CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.input edge
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), x < z.
"""


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 << 30),
        ("8gb", 8 << 30),
        ("8G", 8 << 30),
        ("8GiB", 8 << 30),
        ("512 MB", 512 << 20),
        (" 64KB ", 64 << 10),
        ("1.5g", 3 << 29),
        ("2T", 2 << 40),
        ("100", 100),
        ("100B", 100),
        (12345, 12345),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "8XB", "GB", "1.GB", "1e9", "8 G B"])
def test_what_is_no_size_is_said(text: str) -> None:
    with pytest.raises(GpuEngineError, match=re.escape(f"not a memory size: {text!r}; write it like 8GB")):
        parse_size(text)


def test_the_default_is_a_share_of_what_is_free() -> None:
    assert 0 < Budget().limit < 2 * available_memory()
    assert Budget(0).limit == 0


def long_chain(engine: ge.Engine, nodes: int) -> ge.Engine:
    engine.load("edge", [(i, i + 1) for i in range(nodes)])
    return engine


@pytest.mark.parametrize("threads", [1, 2])
def test_a_result_that_does_not_fit_names_the_rule_the_sizes_and_the_way_out(threads: int) -> None:
    engine = long_chain(ge.Engine(CLOSURE, memory="6MB", threads=threads), 3000)
    with pytest.raises(MemoryBudgetError) as caught:
        engine.materialise()
    message = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "memory budget of 6.0 MB" in message
    assert re.search(r"tables take \d+(\.\d)? MB \(path \d+(\.\d)? MB", message)
    assert re.search(
        r"path has [\d,]+ facts, deriving by: path\(x, z\) :- path\(x, y\), edge\(y, z\), x < z\.", message
    )
    assert "--memory" in message


def test_the_engine_is_as_it_was_before_and_can_be_used_again() -> None:
    engine = long_chain(ge.Engine(CLOSURE, memory="6MB", threads=1), 50)
    engine.materialise()
    assert len(engine["path"]) == 1275
    long_chain(engine, 3000)
    with pytest.raises(MemoryBudgetError):
        engine.materialise()
    assert len(engine["path"]) == 1275
    engine.options = replace(engine.options, memory=1 << 30)
    assert len(engine.materialise()["path"]) == 3000 * 3001 // 2


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KB"),
        (200 << 10, "200 KB"),
        (1900 << 20, "1.9 GB"),
        (3 << 30, "3.0 GB"),
        (2 << 40, "2.0 TB"),
    ],
)
def test_how_sizes_are_shown(limit: int, shown: str) -> None:
    class Huge:
        name = "p"
        host_nbytes = 1 << 60

        def __len__(self) -> int:
            return 5

    with pytest.raises(MemoryBudgetError, match=re.escape(f"budget of {shown}: ")):
        Budget(limit).check([Huge()], Huge(), "p(x) :- q(x).")  # type: ignore[arg-type, list-item]
