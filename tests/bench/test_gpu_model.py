"""The cost model: it counts a real run, its arithmetic is right, and it never claims to measure."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import gpu_model
from bench.cli import main
from bench.gpus import GPUS, LAUNCH_SECONDS, WAIT_SECONDS, Gpu, bound
from bench.prepare import Places, Prepared
from gpuengine.errors import Interrupted, MemoryBudgetError
from gpuengine.kernels.cuda import traffic
from gpuengine.kernels.cuda.columns import gather
from gpuengine.kernels.cuda.selftest import run_checks
from gpuengine.kernels.cuda.spec import KERNELS
from gpuengine.kernels.cuda.traffic import SECTOR, MeteredDevice, Span
from tests.bench.conftest import PROGRAM
from tests.bench.counted_memory import CountedArray, CountingDevice

FACTOR = 2.5
GPU = Gpu("test", memory_rate=1e9, bus_rate=1e8, capacity=1e9)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Stand-ins for two shared workloads: chains of three edges."""
    for name in ("closure-chain", "closure-random"):
        folder = tmp_path / "workloads" / name
        folder.mkdir(parents=True)
        program = "closure-chain.dl" if name == "closure-chain" else "closure-random-linear.dl"
        (folder / program).write_text(PROGRAM)
        with gzip.open(folder / "edge.facts.gz", "wt") as file:
            file.write("1\t2\n2\t3\n3\t4\n")
    return Places(tmp_path / "workloads", tmp_path / "graphs", tmp_path / "data")


def test_what_a_run_asks_is_counted(tiny: Prepared) -> None:
    counted = gpu_model.count(tiny, threads=1)
    assert counted.sizes == {"path": 10}
    assert counted.problems == ()
    # No shortest path has more than three edges; the fourth round finds nothing new.
    assert counted.rounds == 4
    assert counted.launches <= counted.kernels
    assert counted.items["match_delta"] == 10
    assert sum(span["waits"] for span in counted.by_round) == counted.syncs
    assert sum(span["moved"] for span in counted.by_round) == counted.moved_bytes
    assert sum(span["sent"] for span in counted.by_round) == counted.uploaded > 0
    assert counted.moved["match_delta"] == 10 * (
        KERNELS["match_delta"].streamed + SECTOR * KERNELS["match_delta"].random
    )
    assert 0 < counted.peak_bytes < 1 << 24
    assert counted.model_seconds is not None and counted.model_seconds.keys() == {gpu.name for gpu in GPUS}
    assert [entry["derives"] for entry in counted.host_work] == [False], (
        "what the closure would be is estimated"
    )


def test_there_is_no_time_for_what_the_host_does(tiny: Prepared) -> None:
    """A cycle makes a closure of it, which the host makes; and cells without a time are no zeros."""
    nodes = 2000
    facts = "".join(f"{n}\t{(n + 1) % nodes}\n" for n in range(nodes))
    (tiny.facts / "edge.facts").write_text(facts)
    counted = gpu_model.count(tiny, threads=1)
    assert counted.sizes == {"path": nodes**2} and counted.model_seconds is None
    (made,) = (entry for entry in counted.host_work if entry["operation"] == "making a scheme")
    assert made["of"] == "path" and made["rows"] >= nodes**2 and made["derives"]
    first, *others = gpu_model.lines(counted)
    assert first.split()[-len(GPUS) :] == ["–"] * len(GPUS)
    assert any(line.strip().startswith("no model: the host did making a scheme of path, ") for line in others)
    assert counted.to_json()["model_seconds"] is None


def test_bytes_of_every_operation() -> None:
    device = MeteredDevice(threads=1)
    column = device.upload(np.arange(5000, dtype=np.uint32))
    keys = device.full(5000, 7, np.uint64)
    device.sort(keys)
    device.sort(keys[:100])
    device.offsets(column)
    assert len(device.select(device.upload(np.tile([1, 0], 500).astype(np.uint8)))) == 500
    device.least_and_greatest(column)
    device.copy(keys, device.empty(5000, np.uint64))
    device.launch(gather, 5000, column, column, device.empty(5000, np.uint32))
    device.read(keys[:2])
    device.wait()
    device.wait_for_others()
    device.restore(device.spill(keys))
    traffic = device.finish()
    assert sum(span.waits for span in traffic.spans) == device.statistics.syncs == 5
    assert dict(traffic.moved) == {
        "fill": 8 * 5000,
        "sort": 19 * 8 * 5000 + 4 * 8 * 100,
        "scan": 28 * 5000,
        "select": 4 * 1000 + 20 * 500,
        "reduce": 2 * 4 * 5000,
        "copy": 16 * 5000,
        "gather": 40 * 5000,
    }
    assert [span.kernels for span in traffic.spans] == [1 + 11 + 2 + 4 + 5, 2, 2, 0, 0, 0]
    assert [span.fetched for span in traffic.spans] == [8, 8, 16, 0, 0, 8 * 5000]
    assert [span.sent for span in traffic.spans] == [4 * 5000 + 1000, 0, 0, 0, 0, 8 * 5000]


def test_launches_and_work_overlap_between_waits() -> None:
    long = Span(kernels=1, moved=10**6, waits=1)
    short = Span(kernels=1000, moved=10, waits=1)
    found = bound(GPU, [long, short])
    assert found.total == pytest.approx(1e-3 + 1000 * LAUNCH_SECONDS + 2 * WAIT_SECONDS)
    assert found.memory == pytest.approx(1e-3 + 1e-8)
    assert found.launches == pytest.approx(1001 * LAUNCH_SECONDS)
    assert bound(GPU, [Span(sent=10**8, fetched=10**8)]).total == pytest.approx(2)


def test_the_host_asks_while_the_device_works() -> None:
    waiting = Span(kernels=1, moved=10**3, waits=1, host_seconds=0.25)
    hidden = Span(kernels=1, moved=10**9, waits=1, host_seconds=0.25)
    found = bound(GPU, [waiting, hidden])
    assert found.total == pytest.approx(1 + LAUNCH_SECONDS + 2 * WAIT_SECONDS)
    assert found.with_host == pytest.approx(1.25 + 2 * WAIT_SECONDS)
    assert found.host == pytest.approx(0.5)


def test_the_work_of_the_device_is_no_time_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by a second whenever it is asked: twice for each operation of the device."""
    ticks = count()
    monkeypatch.setattr(traffic, "thread_time", lambda: float(next(ticks)))
    device = MeteredDevice(threads=1)
    before = next(ticks)
    column = device.full(5000, 7, np.uint32)  # an allocation and a fill
    device.launch(gather, 5000, column, column, device.empty(5000, np.uint32))
    again = device.prepare(gather, 5000, column, column, column)
    again()
    operations, between = 6, next(ticks) - before - 1
    assert between == 2 * operations
    device.read(column)
    (span,) = device.traffic.spans
    asked_at_the_wait = before + 2 * operations + 2
    assert span.host_seconds == asked_at_the_wait - operations


def test_the_hosts_time_is_measured(tiny: Prepared) -> None:
    counted = gpu_model.count(tiny, threads=1)
    assert 0 < counted.host_seconds < 60
    assert counted.model_seconds is not None
    for seconds in counted.model_seconds.values():
        assert seconds["total"] <= seconds["with_host"] <= seconds["total"] + counted.host_seconds
        assert seconds["host"] == pytest.approx(counted.host_seconds)
    _, second, *_ = gpu_model.lines(counted)
    assert len(second.split("measured here")[1].split()) == 2 * len(GPUS)


def test_a_faster_memory_is_never_slower(tiny: Prepared) -> None:
    seconds = gpu_model.count(tiny, threads=1).model_seconds
    by_rate = sorted(GPUS, key=lambda gpu: gpu.memory_rate)
    assert seconds is not None
    totals = [seconds[gpu.name]["total"] for gpu in by_rate]
    assert totals == sorted(totals, reverse=True)


def test_every_line_with_a_modelled_number_says_so(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    # Three edges are not what the chain has: the sizes are told to be wrong, and the exit code says so.
    assert main(["gpu-model", "closure-chain", "closure-random-linear"], places=places) == 1
    printed = capsys.readouterr().out
    assert "WRONG SIZE path: the CUDA backend says 6; 1,999,000 is right" in printed
    numbers = [line for line in printed.splitlines() if re.search(r"\d", line) and "WRONG SIZE" not in line]
    assert len(numbers) >= 2 + 2 * 2
    for line in numbers:
        assert "model" in line or line.lstrip().startswith("published, "), line
    for gpu in GPUS:
        assert gpu.name in printed


def test_published_results_stand_beside_the_model(tiny: Prepared) -> None:
    counted = replace(gpu_model.count(tiny, threads=1), workload="tc-SF")
    lines = list(gpu_model.lines(counted))
    assert lines[0].startswith("model tc-SF")
    assert lines[-1].strip() == "published, A100-40GB: GPU Datalog engines 3.3–3.6 s, cuDF 65 s"
    huge = replace(counted, peak_bytes=50 * 10**9)
    assert next(gpu_model.lines(huge)).split().count("room") == 3


def test_json(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu-model", "closure-chain", "--json"], places=places) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["note"].startswith("model")
    assert [gpu["name"] for gpu in report["model"]["gpus"]] == [gpu.name for gpu in GPUS]
    (workload,) = report["workloads"]
    assert workload["sizes"] == {"path": 6}
    assert workload["model_seconds"]["T4"]["total"] > 0
    modelled = {"moved", "kernels"}
    assert (
        not modelled & workload.keys()
        and {f"model_{name}" for name in ("moved_bytes", "kernels")} <= workload.keys()
    )


def test_what_can_not_be_emulated_is_refused(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu-model", "tc-usroads"], places=places) == 2
    assert "too many for an emulated device" in capsys.readouterr().err
    assert "tc-usroads" not in gpu_model.EVERYTHING


def test_a_workload_that_fails_does_not_end_the_others(
    places: Places, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = gpu_model.count

    def count(prepared: Prepared, *rest: Any) -> gpu_model.Counted:
        if prepared.workload.name == "closure-chain":
            raise MemoryBudgetError("no room")
        return replace(original(prepared, *rest), problems=())

    monkeypatch.setattr(gpu_model, "count", count)
    assert main(["gpu-model", "closure-chain", "closure-random-linear"], places=places) == 1
    captured = capsys.readouterr()
    assert "bench: closure-chain: no room" in captured.err
    assert "model closure-random-linear" in captured.out


def test_ctrl_c_shows_what_is_done(
    places: Places, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = gpu_model.count

    def count(prepared: Prepared, *rest: Any) -> gpu_model.Counted:
        if prepared.workload.name == "closure-chain":
            raise Interrupted("interrupted")
        return original(prepared, *rest)

    monkeypatch.setattr(gpu_model, "count", count)
    assert main(["gpu-model", "closure-chain", "closure-random-linear", "--json"], places=places) == 130
    captured = capsys.readouterr()
    assert "stopped after 1 of 2 workloads" in captured.err
    report = json.loads(captured.out)
    assert report["stopped"] is True
    assert [workload["workload"] for workload in report["workloads"]] == ["closure-random-linear"]


def test_counting_arrays_count() -> None:
    read: set[int] = set()
    written: set[int] = set()
    array = CountedArray(np.zeros(1000, np.uint32), read, written)
    for place in range(64):
        array[place] = array[place + 500]
    assert 8 <= len(read) <= 9 and 8 <= len(written) <= 9


@pytest.mark.slow
def test_what_kernels_declare_is_what_they_touch() -> None:
    """The bytes that an item is declared to move are within a factor of those that a sample of them moves."""
    device = CountingDevice()
    outcomes = list(run_checks(device, size=20_000))
    assert [outcome for outcome in outcomes if not outcome.passed] == []
    wrong = {}
    for name, kernel in KERNELS.items():
        assert device.sampled[name], f"no check runs enough items of {name}"
        declared = kernel.streamed + SECTOR * kernel.random
        counted = device.moved[name] / device.sampled[name]
        if not counted / FACTOR <= declared <= counted * FACTOR:
            wrong[name] = f"declares {declared} bytes an item, {counted:.0f} counted"
    assert wrong == {}
