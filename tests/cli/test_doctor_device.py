"""`gpuengine doctor --device` and `--tune`: on emulated devices, on broken ones, and without any."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuengine.cli import main
from gpuengine.doctor import Finding, checkup, examine, programs, tuning
from gpuengine.doctor.tuning import Measured, RoundTimes, choose, measure
from gpuengine.evaluation.placement import accelerator
from gpuengine.evaluation.thresholds import Thresholds, load_thresholds, store_thresholds
from gpuengine.kernels.contract import DeviceError, DeviceUnavailable
from gpuengine.kernels.cuda import backend, selftest
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.device import Array
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.devices.hardware import GpuDevice
from gpuengine.kernels.cuda.selftest import all_checks, run_check, run_checks
from gpuengine.kernels.cuda.spec import KERNELS, DeviceKernel, bind
from tests.kernels.cuda.stand_in import StandIn

SMALL = 600
FEW = ("device: sort", "set: hashed pairs", "pipeline: compare", "program: joins", "program: an update")


class UnsortedAtTheEnd(EmulatedDevice):
    def _sort(self, keys: Array) -> Array:
        result = super()._sort(keys)
        if len(result) > 256:
            result.content[-2:] = result.content[-2:][::-1].copy()
        return result


class SignedSort(EmulatedDevice):
    def _sort(self, keys: Array) -> Array:
        result = self._upload(keys.content)
        result.content.view(np.int64).sort()
        return result


class NarrowScan(EmulatedDevice):
    def _offsets(self, counts: Array) -> Array:
        result = super()._offsets(counts)
        result.content[:] = result.content.astype(np.uint32)
        return result


class ForgetfulSelect(EmulatedDevice):
    def _select(self, flags: Array) -> Array:
        return super()._select(flags)[:-1]


class LostUpload(EmulatedDevice):
    def upload(self, host: np.ndarray) -> Array:
        array = super().upload(host)
        array.content[len(array) // 512 * 512 :] = 0
        return array


class SkipsTheLastItem(EmulatedDevice):
    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        super()._launch(kernel, items - 1 if items > 256 else items, args)


class LosesSwaps(EmulatedDevice):
    """Every compare-and-swap of a hashed set claims to have won, and none is stored."""

    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        if kernel.name != "insert_keys":
            super()._launch(kernel, items, args)
            return
        atomics = {"compare_and_swap": lambda pointer, index, expected, desired: expected}
        body = bind(kernel.body, atomics, lambda function: function, {})
        table, mask, *rest = args
        with np.errstate(over="ignore"):
            for item in range(items):
                body(np.int64(item), table, np.uint64(mask), *rest)


class Dies(EmulatedDevice):
    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        raise DeviceError("an illegal memory access was encountered", kernel.name)


BROKEN: list[tuple[type[EmulatedDevice], str]] = [
    (UnsortedAtTheEnd, "device: sort"),
    (SignedSort, "device: sort"),
    (NarrowScan, "device: scan"),
    (ForgetfulSelect, "device: select"),
    (LostUpload, "device: transfers"),
    (SkipsTheLastItem, "set: bitmap of pairs"),
    (LosesSwaps, "set: hashed pairs"),
    (Dies, "device: gather"),
]


def use(monkeypatch: pytest.MonkeyPatch, device: EmulatedDevice, names: Sequence[str] = FEW) -> None:
    """Have the command line find a device, with a few checks and programs, and small inputs."""
    checks = [check for check in all_checks() if check.name in names]
    some = [check for check in programs.PROGRAMS if check.name in names]
    monkeypatch.setattr(programs, "PROGRAMS", some)
    monkeypatch.setattr(backend, "open_device", lambda index=0, memory=None: CudaBackend(device))
    monkeypatch.setattr(selftest, "all_checks", lambda: checks)
    monkeypatch.setattr(selftest, "DEFAULT_SIZE", SMALL)
    monkeypatch.setattr(checkup, "SIZES", checkup.Sizes(elements=1000, nodes=60, degree=3))


@pytest.mark.slow
def test_every_check_passes_and_every_kernel_is_run() -> None:
    device = EmulatedDevice(threads=2)
    outcomes = list(run_checks(device, size=3000))
    assert [(outcome.name, outcome.message) for outcome in outcomes if not outcome.passed] == []
    assert len({outcome.name for outcome in outcomes}) == len(outcomes) > 50
    assert KERNELS.keys() - device.statistics.items.keys() == set()


@pytest.mark.slow
def test_the_suite_and_the_benchmark_run_on_the_class_for_real_gpus() -> None:
    gpu = GpuDevice(0, None, StandIn())
    outcomes = list(run_checks(gpu, size=300))
    assert [(outcome.name, outcome.message) for outcome in outcomes if not outcome.passed] == []
    described = checkup.describe(CudaBackend(gpu))
    assert described["compute capability"] == "8.0"
    sizes = checkup.Sizes(elements=500, nodes=40, degree=3)
    measured = {line.name: line.amount for line in checkup.benchmark(CudaBackend(gpu), sizes)}
    assert measured["closure, CPU"] == measured["closure, device"] > 100


@pytest.mark.parametrize(("device", "name"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_device_is_found_out(device: type[EmulatedDevice], name: str) -> None:
    (check,) = (check for check in all_checks() if check.name == name)
    assert run_check(check, EmulatedDevice(threads=1), SMALL).passed
    outcome = run_check(check, device(threads=1), SMALL)
    assert not outcome.passed
    assert outcome.message


def test_a_mismatch_says_what_differs() -> None:
    (check,) = (check for check in all_checks() if check.name == "device: sort")
    message = run_check(check, UnsortedAtTheEnd(threads=1), SMALL).message
    assert message.startswith("257 random keys sorted: 2 of 257 elements differ, first at 255: ")


def test_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, EmulatedDevice(threads=1))
    assert main(["doctor", "--device"]) == 0
    printed = capsys.readouterr().out
    assert "on the host: update" not in printed
    for name in FEW:
        assert f"  ok  {name} " in printed
    for word in ("Versions", "numba-cuda", "driver", "emulated", "closure, CPU", "closure, device", "keys/s"):
        assert word in printed
    assert printed.endswith("All 5 checks passed. A report from a real GPU helps us: please send it.\n")


def test_json_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, EmulatedDevice(threads=1))
    assert main(["doctor", "--device", "0", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["works"] is True
    found = [*report["checks"], *report["programs"]]
    assert [(check["name"], check["passed"]) for check in found] == [(name, True) for name in FEW]
    joins, updated = report["programs"]
    assert joins["launches"] > joins["syncs"] > 0 and joins["uploaded"] > 0 and joins["host_work"] == []
    assert updated["launches"] > joins["launches"]
    assert {entry["operation"] for entry in updated["host_work"]} <= {"statistics"}
    assert report["device"]["name"] == "emulated"
    measured = {line["name"]: line for line in report["benchmark"]}
    assert measured["closure, CPU"]["amount"] == measured["closure, device"]["amount"] > 60
    assert measured["join"]["amount"] > 1000
    assert all(line["seconds"] > 0 for line in report["benchmark"])


def test_a_failed_check_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, SignedSort(threads=1), ("device: sort", "device: scan"))
    assert main(["doctor", "--device"]) == 1
    printed = capsys.readouterr().out
    assert "  !!  device: sort " in printed and "  ok  device: scan " in printed
    assert "keys sorted: " in printed
    assert "1 failed: device: sort\nPlease send us this report." in printed


def test_every_program_derives_what_the_cpu_does() -> None:
    outcomes = list(programs.run_programs(CudaBackend(EmulatedDevice(threads=2)), nodes=60, degree=3))
    assert [(outcome.name, outcome.message) for outcome in outcomes if not outcome.passed] == []
    assert [outcome.name for outcome in outcomes] == [check.name for check in programs.PROGRAMS]
    asked = {outcome.name: {entry.operation for entry in outcome.host_work} for outcome in outcomes}
    for name in ("joins", "arithmetic", "aggregates", "an update"):
        assert not any(operation.derives for operation in asked[f"program: {name}"]), name


def test_a_program_that_comes_out_otherwise_fails() -> None:
    def first(device: EmulatedDevice) -> programs.ProgramOutcome:
        return next(programs.run_programs(CudaBackend(device), nodes=60, degree=3))

    outcome = first(ForgetfulSelect(threads=1))
    assert not outcome.passed and " on the CPU" in outcome.message
    dead = first(Dies(threads=1))
    assert not dead.passed and "an illegal memory access" in dead.message and dead.launches == 0


def test_a_device_that_dies_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, Dies(threads=1), ("device: gather",))
    assert main(["doctor", "--device", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["checks"][0]["message"] == "DeviceError: an illegal memory access was encountered"
    assert report["works"] is False


def finding_of_the_backend(monkeypatch: pytest.MonkeyPatch) -> Finding:
    monkeypatch.setattr(accelerator, "gpu_present", lambda: True)
    return next(finding for finding in examine() if finding.name == "cuda backend")


def test_doctor_opens_the_gpu_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, EmulatedDevice(threads=1, budget=3 << 30))
    found = finding_of_the_backend(monkeypatch)
    assert found.status == "ok"
    assert found.value == "emulated, 3.0 GB to use; gpuengine doctor --device checks it"


def test_doctor_says_why_a_gpu_can_not_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(index: int = 0, memory: int | None = None) -> CudaBackend:
        raise DeviceUnavailable("the driver is too old")

    monkeypatch.setattr(backend, "open_device", unavailable)
    found = finding_of_the_backend(monkeypatch)
    assert (found.status, found.value) == ("failed", "the driver is too old")
    assert "--backend cpu" in found.advice


@pytest.mark.parametrize("option", ["--device", "--tune"])
def test_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    def unavailable(index: int = 0, memory: int | None = None) -> CudaBackend:
        raise DeviceUnavailable("no NVIDIA driver was found")

    monkeypatch.setattr(backend, "open_device", unavailable)
    assert main(["doctor", option]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: no GPU can be checked: no NVIDIA driver was found\n  hint: ")
    assert main(["doctor", option, "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"works": False, "error": "no NVIDIA driver was found"}


# --- tuning ---


def machine(
    device_round: float, device_rate: float, host_rate: float
) -> Callable[[str, int, Callable[[], object]], float]:
    """A timer of a machine: a round takes a fixed time on the device, and time by its facts on both."""

    def timer(name: str, size: int, action: Callable[[], object]) -> float:
        action()
        if name == "transfer":
            return size / 8e9
        if name == "rebuild":
            return size / 20e6
        rounds = 16 if name.endswith("whole") else 8
        if name.startswith("host"):
            return 0.001 + rounds * (2e-6 + size / host_rate)
        return 0.002 + rounds * (device_round + size / device_rate)

    return timer


def test_measuring_runs_for_real_and_subtracts_the_rest() -> None:
    timer = machine(device_round=100e-6, device_rate=1e9, host_rate=2e7)
    device = EmulatedDevice(threads=1)
    found = measure(CudaBackend(device), 0.5, timer=timer, deltas=(16, 64), moved_rows=1000)
    assert device.statistics.launches > 0
    assert [times.delta for times in found.rounds] == [16, 64]
    assert found.rounds[1].facts == 64 * 15
    assert found.rounds[1].host_round == pytest.approx(2e-6 + 64 / 2e7)
    assert found.rounds[1].device_round == pytest.approx(100e-6 + 64 / 1e9)
    assert found.transfer_bytes == pytest.approx(8e9)
    assert found.rebuild_rows == pytest.approx(20e6)


def times_of(device_round: float, device_rate: float, host_rate: float, opening: float) -> Measured:
    """What the same machine gives at all sizes."""
    timer = machine(device_round, device_rate, host_rate)
    rounds = []
    for delta in tuning.DELTAS:
        whole = {name: timer(f"{name} whole", delta, lambda: None) for name in ("host", "device")}
        half = {name: timer(f"{name} half", delta, lambda: None) for name in ("host", "device")}
        each = {name: (whole[name] - half[name]) / 8 for name in whole}
        facts = delta * 15
        rounds.append(RoundTimes(delta, facts, each["host"], each["device"], whole["host"], whole["device"]))
    return Measured(opening, tuple(rounds), 8e9, 20e6)


def test_thresholds_are_where_the_device_gets_faster() -> None:
    chosen = choose(times_of(device_round=100e-6, device_rate=1e9, host_rate=2e7, opening=0.1))
    # 98 µs / (50 ns - 1 ns) is 2,000 facts; twice as fast is it from 4,100 on.
    assert chosen.small_delta == 1024
    assert chosen.large_delta == 8192
    assert chosen.round_microseconds == pytest.approx(98 - 256 * 0.049, rel=0.01)
    assert chosen.transfer_bytes_per_microsecond == pytest.approx(8000)
    assert chosen.rebuild_rows_per_microsecond == pytest.approx(20)
    # The opening takes as long as the host takes for two million facts.
    assert chosen.auto_facts == 15 * (1 << 18)


def test_a_device_that_is_never_faster_is_never_used() -> None:
    chosen = choose(times_of(device_round=100e-6, device_rate=1e6, host_rate=2e7, opening=0.1))
    assert chosen.small_delta == tuning.DELTAS[-1]
    assert chosen.large_delta == chosen.auto_facts == 1 << 40


def test_a_slow_opening_is_extrapolated() -> None:
    chosen = choose(times_of(device_round=100e-6, device_rate=1e9, host_rate=2e7, opening=10.0))
    saved = (0.001 + 16 * (2e-6 + (1 << 18) / 2e7) - 0.002 - 16 * (100e-6 + (1 << 18) / 1e9)) / (
        15 << 18
    ) - 1e-9
    assert chosen.auto_facts == pytest.approx(10.0 / saved, rel=0.01)


@pytest.mark.parametrize("as_json", [False, True])
def test_tuning_stores_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, as_json: bool
) -> None:
    use(monkeypatch, EmulatedDevice(threads=1))
    monkeypatch.setenv("GPUENGINE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "DELTAS", (16, 64))
    monkeypatch.setattr(tuning, "MOVED_ROWS", 1000)
    monkeypatch.setattr(tuning, "best_of_several", machine(100e-6, 1e9, 2e7))
    store_thresholds("emulated", Thresholds(small_delta=12_345))
    store_thresholds("another", Thresholds(small_delta=7))
    assert main(["doctor", "--tune", *(["--json"] if as_json else [])]) == 0
    printed = capsys.readouterr().out
    assert load_thresholds("emulated").small_delta == 64
    assert load_thresholds("another").small_delta == 7
    if as_json:
        report = json.loads(printed)
        assert (report["old"]["small_delta"], report["new"]["small_delta"]) == (12_345, 64)
        assert report["measured"]["rounds"][0]["delta"] == 16
    else:
        assert f"stored in {tmp_path / 'thresholds.json'}" in printed
        assert "small_delta" in printed and "12,345" in printed
