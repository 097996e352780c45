"""``gpuengine doctor --device`` and ``--tune``: check a GPU, measure it, and print what was found."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuengine.cli.live import LiveLine, live_line
from gpuengine.errors import BackendError
from gpuengine.kernels.contract import DeviceError, DeviceMemoryError, DeviceUnavailable

if TYPE_CHECKING:
    from gpuengine.doctor.programs import ProgramOutcome
    from gpuengine.kernels.cuda.backend import CudaBackend
    from gpuengine.kernels.cuda.selftest import Outcome

_HINT = (
    "  hint: `gpuengine doctor` says what is missing; everything else works without a GPU, on the CPU backend"
)


def open_device(number: int, *, as_json: bool) -> CudaBackend:
    """The backend on a GPU. Raises `BackendError` that says why there is none, `as_json` on stdout too."""
    from gpuengine.evaluation.placement.accelerator import explain
    from gpuengine.kernels.cuda import backend

    try:
        return backend.open_device(number)
    except DeviceUnavailable as error:
        if as_json:
            print(json.dumps({"works": False, "error": explain(error)}, ensure_ascii=False))
        raise BackendError(f"no GPU can be checked: {explain(error)}\n{_HINT}") from error


def check_device(arguments: argparse.Namespace) -> int:
    """Run the contract suite and a short benchmark, and print a report; 1 if anything went wrong."""
    from gpuengine.doctor import checkup, gpu_findings

    backend = open_device(arguments.device, as_json=arguments.json)
    line = live_line(quiet=arguments.json)
    report: dict[str, Any] = {
        "versions": checkup.versions(),
        "gpu": {finding.name: finding.value for finding in gpu_findings()},
        "device": {"number": str(arguments.device), **checkup.describe(backend)},
    }
    show = not arguments.json
    if show:
        for group, entries in report.items():
            _print_group(group.capitalize(), entries)
    outcomes = _run_checks(backend, line, show=show)
    report["checks"] = [asdict(outcome) for outcome in outcomes]
    programs = _run_programs(backend, line, show=show)
    report["programs"] = [asdict(outcome) for outcome in programs]
    report["benchmark"], trouble = _run_benchmark(backend, line, show=show)
    failed = [outcome.name for outcome in outcomes if not outcome.passed]
    failed += [outcome.name for outcome in programs if not outcome.passed] + trouble
    report["works"] = not failed
    if arguments.json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        _print_verdict(len(outcomes) + len(programs), failed)
    return 1 if failed else 0


def _run_checks(backend: CudaBackend, line: LiveLine, *, show: bool) -> list[Outcome]:
    from gpuengine.kernels.cuda import selftest

    if show:
        print("\nChecks")
    outcomes: list[Outcome] = []
    total = len(selftest.all_checks())
    for outcome in selftest.run_checks(
        backend.device,
        size=selftest.DEFAULT_SIZE,
        before=lambda name: line.show(f"check {len(outcomes) + 1}/{total}  {name}"),
    ):
        line.clear()
        outcomes.append(outcome)
        if show:
            print(
                f"  {'ok' if outcome.passed else '!!'}  {outcome.name:50} {outcome.seconds:8.3f} s",
                flush=True,
            )
            if outcome.message:
                print(f"      {outcome.message}")
    return outcomes


def _run_programs(backend: CudaBackend, line: LiveLine, *, show: bool) -> list[ProgramOutcome]:
    """Whole programs, with what each asked of the device and what the host did of it."""
    from gpuengine.doctor import programs

    if show:
        print("\nPrograms")
    outcomes: list[ProgramOutcome] = []
    line.show("programs")
    for outcome in programs.run_programs(backend):
        line.clear()
        outcomes.append(outcome)
        if show:
            _print_program(outcome)
        line.show("programs")
    line.clear()
    return outcomes


def _print_program(outcome: ProgramOutcome) -> None:
    print(
        f"  {'ok' if outcome.passed else '!!'}  {outcome.name:30} {outcome.seconds:8.3f} s "
        f"{outcome.launches:7,} launches {outcome.syncs:6,} waits "
        f"{_in_units(outcome.uploaded):>7}B there {_in_units(outcome.downloaded):>7}B back",
        flush=True,
    )
    if outcome.message:
        print(f"      {outcome.message}")
    for entry in outcome.host_work:
        print(
            f"      on the host: {entry.operation} of {' '.join(entry.of.split())}, "
            f"{entry.rows:,} rows, {entry.seconds * 1e3:.3f} ms"
        )


def _run_benchmark(
    backend: CudaBackend, line: LiveLine, *, show: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """What was measured, and what went wrong with it."""
    from gpuengine.doctor import checkup

    if show:
        print("\nBenchmark")
    done: list[dict[str, Any]] = []
    line.show("benchmark")
    try:
        for measured in checkup.benchmark(backend, checkup.SIZES):
            line.clear()
            done.append({**asdict(measured), "rate": measured.rate})
            if show:
                rate = _in_units(measured.rate)
                print(
                    f"      {measured.name:26} {_in_units(measured.amount):>9} {measured.unit:8}"
                    f"{measured.seconds * 1e3:11.3f} ms {rate:>9} {measured.unit}/s",
                    flush=True,
                )
            line.show("benchmark")
    except (DeviceError, DeviceMemoryError, BackendError) as error:
        return done, [f"benchmark: {error}"]
    finally:
        line.clear()
    facts = {entry["name"]: entry["amount"] for entry in done if entry["unit"] == "facts"}
    if len(set(facts.values())) > 1:
        return done, [f"benchmark: the closures differ: {facts}"]
    return done, []


def _print_group(title: str, entries: dict[str, str]) -> None:
    print(f"\n{title}")
    for name, value in entries.items():
        print(f"      {name:26} {value}")


def _print_verdict(checks: int, failed: list[str]) -> None:
    if failed:
        print(f"\n{len(failed)} failed: {'; '.join(failed)}")
        print("Please send us this report. Until then use --backend cpu: this GPU can't be trusted.")
    else:
        print(f"\nAll {checks} checks passed. A report from a real GPU helps us: please send it.")


def _in_units(number: float) -> str:
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.3g}"


def tune_device(arguments: argparse.Namespace) -> int:
    """Measure what decides between the CPU and a GPU, store it for such GPUs, and print old and new."""
    import time

    from gpuengine.doctor import tuning
    from gpuengine.evaluation.thresholds import load_thresholds, store_thresholds

    started = time.perf_counter()
    backend = open_device(arguments.device or 0, as_json=arguments.json)
    opening = time.perf_counter() - started
    line = live_line(quiet=arguments.json)
    try:
        measured = tuning.measure(
            backend,
            opening,
            timer=tuning.best_of_several,
            deltas=tuning.DELTAS,
            moved_rows=tuning.MOVED_ROWS,
            say=line.show,
        )
    finally:
        line.clear()
    old, new = load_thresholds(backend.device_name), tuning.choose(measured)
    path = store_thresholds(backend.device_name, new)
    if arguments.json:
        content = {
            "device": backend.device_name,
            "file": str(path),
            "old": asdict(old),
            "new": asdict(new),
            "measured": asdict(measured),
        }
        print(json.dumps(content, ensure_ascii=False))
        return 0
    print(f"{backend.device_name}: measured, and stored in {path}")
    print(f"{'':34}{'before':>18}{'now':>18}")
    for name, value in asdict(new).items():
        print(f"  {name:32}{_number(asdict(old)[name]):>18}{_number(value):>18}")
    sys.stdout.flush()
    return 0


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
