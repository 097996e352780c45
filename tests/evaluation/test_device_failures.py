"""A device that runs out of memory or breaks: the host takes over, or the error says what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import BackendError, EvaluationError, MemoryBudgetError
from gpuengine.evaluation.placement import accelerator
from gpuengine.kernels.contract import DeviceError, DeviceUnavailable, PackageMissing
from tests.differential.compare import assert_agrees, rows_of
from tests.evaluation.accelerator import (
    ALTERNATING,
    EVERYWHERE,
    NOWHERE,
    Accelerator,
    DeviceKeySet,
    DeviceRows,
)
from tests.generated import Case
from tests.strategies import cases, counters

CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl far(x: number, y: number)
.input edge
.output path
.output far
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
far(x, y) :- path(x, y), !edge(x, y).
"""
EDGES = [(i, i + 1) for i in range(12)]
PATHS = {(i, j) for i in range(12) for j in range(i + 1, 13)}


def engine(device: Accelerator, **options: Any) -> ge.Engine:
    made = ge.Engine(CLOSURE, backend=device, **{"thresholds": EVERYWHERE, **options})
    made.load("edge", EDGES)
    return made


@pytest.fixture
def insist(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes an engine with ``backend="cuda"`` on a given device."""

    def make(device: Accelerator, program: str = CLOSURE) -> ge.Engine:
        monkeypatch.setattr(accelerator, "_open_cuda", lambda number, memory: device)
        return ge.Engine(program, backend="cuda", thresholds=replace(NOWHERE, small_delta=0))

    return make


@pytest.mark.parametrize("thresholds", [EVERYWHERE, ALTERNATING])
@pytest.mark.parametrize("budget", [0, 5, 11, 12, 13, 20, 24, 25, 40, 60, 90, 101, 102, 103, 150, 10**6])
def test_the_host_takes_over_wherever_memory_ends(budget: int, thresholds: Any) -> None:
    made = engine(Accelerator(budget), thresholds=thresholds).materialise()
    assert rows_of(made, "path") == PATHS
    assert rows_of(made, "far") == {(i, j) for i, j in PATHS if j > i + 1}
    assert set(made.query("path(3, x)")) == {(x,) for x in range(4, 13)}


@given(st.one_of(cases(), counters()), st.integers(0, 60), st.sampled_from([EVERYWHERE, ALTERNATING]))
def test_any_program(case: Case, budget: int, thresholds: Any) -> None:
    assert_agrees(str(case), case.facts, backend=Accelerator(budget), thresholds=thresholds)


def test_what_ran_where_is_told() -> None:
    made = engine(Accelerator(40)).materialise()
    assert made.progress is not None
    path, far = made.progress.placed
    assert list(path.rounds) == ["fake", "cpu"] and path.moves == 1
    assert list(far.rounds) == ["cpu"]


def test_if_the_device_is_insisted_on_the_error_names_rule_sizes_and_ways_out(insist: Any) -> None:
    made = insist(Accelerator(60))
    made.load("edge", EDGES)
    with pytest.raises(MemoryBudgetError) as caught:
        made.materialise()
    message = str(caught.value)
    assert re.search(r"out of device memory: \d+ B asked for, \d+ B free", message)
    assert re.search(r"tables take .* there \(path .* for \d+ facts, edge .* for 12 facts\)", message)
    assert "while deriving by: path(x, z) :- path(x, y), edge(y, z)." in message
    assert "--device-memory" in message and "--backend cpu" in message


def test_facts_that_do_not_fit_are_an_error_too(insist: Any) -> None:
    made = insist(Accelerator(5))
    made.load("edge", EDGES)
    with pytest.raises(MemoryBudgetError, match=r"deriving by: path\(x, y\) :- edge\(x, y\)\."):
        made.materialise()


def test_after_an_error_the_engine_is_as_it_was(insist: Any) -> None:
    device = Accelerator(100)
    made = insist(device)
    made.load("edge", EDGES[:4])
    made.materialise()
    before = rows_of(made, "path")
    made.load("edge", EDGES[4:])
    device.budget = 50
    with pytest.raises(MemoryBudgetError):
        made.materialise()
    assert rows_of(made, "path") == before and len(before) == 10
    assert set(made["edge"]) == set(EDGES[:4])
    device.budget = 10**6
    made.materialise()
    assert rows_of(made, "path") == PATHS


def test_the_results_of_an_earlier_materialisation_make_room(insist: Any) -> None:
    """They stay readable, on the host; wherever memory ends, no fact is lost or derived twice."""
    made_room = 0
    for budget in range(156, 330, 4):
        device = Accelerator(budget)
        made = insist(device)
        made.load("edge", EDGES)
        made.materialise()
        earlier = made["path"]
        made.load("edge", [(100, 101)])
        try:
            made.materialise()
        except MemoryBudgetError:
            assert budget < 180
            continue
        assert rows_of(made, "path") == PATHS | {(100, 101)}
        assert set(earlier) == PATHS
        made_room += not earlier._scheme.device_nbytes
    assert made_room > 20


@pytest.mark.parametrize("broken_query", [False, True])
def test_a_broken_device_names_rule_and_kernels(broken_query: bool) -> None:
    device = Accelerator(broken=not broken_query)
    made = engine(device)
    with pytest.raises(EvaluationError) as caught:
        made.materialise()
        device.broken = True
        made.query("path(1, x), edge(x, y)")
    message = str(caught.value)
    assert "an illegal memory access" in message and "expand_probe, insert_keys" in message
    query, rule = "answering: path(1, x), edge(x, y)", "deriving by: path(x, y) :- edge(x, y)."
    assert f"while {query if broken_query else rule}\n" in message
    assert "--backend cpu" in message


def test_a_device_that_breaks_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine(Accelerator()).materialise()

    def broken(*_: Any) -> Any:
        raise DeviceError("the device is gone", "download")

    monkeypatch.setattr(DeviceRows, "column", broken)
    monkeypatch.setattr(DeviceKeySet, "contains", broken)
    for read in (list, lambda view: view.to_arrow(), lambda view: (1, 2) in view):
        with pytest.raises(EvaluationError, match=r"the device is gone(.|\n)*while reading path"):
            read(made["path"])


def test_cuda_that_can_not_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(number: int, memory: int | None) -> Any:
        raise DeviceUnavailable(f"there is no GPU {number}")

    monkeypatch.setattr(accelerator, "_open_cuda", unavailable)
    with pytest.raises(BackendError) as caught:
        ge.Engine(CLOSURE, backend="cuda", device=3)
    for part in ("there is no GPU 3", "gpuengine doctor", "--backend cpu"):
        assert part in str(caught.value)


@pytest.mark.parametrize("present", [False, True])
def test_what_is_missing_first_is_said_first(monkeypatch: pytest.MonkeyPatch, present: bool) -> None:
    def unavailable(number: int, memory: int | None) -> Any:
        raise PackageMissing("cupy is not installed")

    monkeypatch.setattr(accelerator, "_open_cuda", unavailable)
    monkeypatch.setattr(accelerator, "gpu_present", lambda: present)
    first = "cupy is not installed" if present else "no NVIDIA driver was found"
    with pytest.raises(BackendError, match=f"can't be used: {first}"):
        ge.Engine(CLOSURE, backend="cuda")


def test_auto_does_without_what_can_not_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(number: int, memory: int | None) -> Any:
        raise DeviceUnavailable("the driver is too old")

    monkeypatch.setattr(accelerator, "_open_cuda", unavailable)
    monkeypatch.setattr(accelerator, "gpu_present", lambda: True)
    made = ge.Engine(CLOSURE, backend="auto", thresholds=EVERYWHERE)
    made.load("edge", EDGES)
    made.materialise()
    assert rows_of(made, "path") == PATHS and made.backend == "cpu"
    assert made.options.accelerator.unavailable == "the driver is too old"


def test_auto_opens_nothing_for_small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[int, int | None]] = []

    def open_cuda(number: int, memory: int | None) -> Any:
        opened.append((number, memory))
        return Accelerator()

    monkeypatch.setattr(accelerator, "_open_cuda", open_cuda)
    monkeypatch.setattr(accelerator, "gpu_present", lambda: True)
    made = ge.Engine(CLOSURE, device=2, device_memory="1GB")
    made.load("edge", EDGES)
    made.materialise()
    assert not opened and made.backend == "cpu"
    large = ge.Engine(CLOSURE, device=2, device_memory="1GB", thresholds=EVERYWHERE)
    large.load("edge", EDGES)
    large.materialise()
    assert opened == [(2, 1 << 30)] and large.backend == "fake"
    assert rows_of(large, "path") == PATHS


def test_no_such_backend() -> None:
    with pytest.raises(BackendError, match="no backend 'tpu'; choose auto, cpu or cuda"):
        ge.Engine(CLOSURE, backend="tpu")
