"""``python -m bench gpu-model``: workloads run wholly on the CUDA backend, on an emulated device that counts.

The counts are real: every launch, item, library call, transfer and wait of the run; so is the processor time
that the host takes to ask for them, but for that of CuPy. What they would take on a GPU is a model
(`bench.gpus`), and every line that has a modelled number says so. A workload of which the host
did a part has no time: the part is named instead. Published results of GPU Datalog engines stand beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.agreement import disagreements
from bench.catalogue import Workload, choose
from bench.gpus import GPUS, LAUNCH_SECONDS, WAIT_SECONDS, Gpu, bound
from bench.prepare import Places, Prepared, prepare
from bench.published import NINE

# Published single-GPU results on the same graphs, A100-40GB, seconds; see graphs/README.md.
PUBLISHED = {
    "tc-SF": "A100-40GB: GPU Datalog engines 3.3–3.6 s, cuDF 65 s",
    "tc-usroads": "A100-40GB: GPU Datalog engines 29–83 s, cuDF out of memory",
    "sg-CA-HepTh": "A100-40GB: GPU Datalog engines 1.5–6.2 s, cuDF 12.6 s",
}
DEFAULT = (*NINE, "tc-OL", "tc-TG", "tc-cal", "sg-OL", "sg-TG", "sg-cal")
"""What is run if nothing is named: about a minute on two cores."""
EVERYTHING = (*DEFAULT, "closure-random-nonlinear", "tc-SF", "tc-CA-HepTh", "sg-CA-HepTh")
"""What ``--all`` runs: all that an emulated device can do within minutes and some gigabytes."""
TOO_LARGE = {"tc-usroads": "871 million pairs: too many for an emulated device"}
_LARGEST_OPERATIONS = 6

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Counted:
    """What a run of one workload was counted to do, and how long the emulation took."""

    workload: str
    sizes: dict[str, int]
    problems: tuple[str, ...]
    rounds: int
    launches: int
    kernels: int
    syncs: int
    uploaded: int
    downloaded: int
    peak_bytes: int
    items: dict[str, int]
    moved: dict[str, int]
    by_round: tuple[dict[str, int], ...]
    emulated_seconds: float
    host_seconds: float
    host_work: tuple[dict[str, Any], ...]
    model_seconds: dict[str, dict[str, float]] | None

    @property
    def moved_bytes(self) -> int:
        return sum(self.moved.values())

    def to_json(self) -> dict[str, Any]:
        """Everything; numbers that are modelled are under keys that begin with ``model``."""
        content = asdict(self)
        content["model_moved_bytes"] = content.pop("moved")
        content["model_kernels"] = content.pop("kernels")
        content["published"] = PUBLISHED.get(self.workload)
        return content


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    model = commands.add_parser(
        "gpu-model",
        help="bytes, launches and waits of the CUDA backend, counted, and a bound for GPUs",
        description=__doc__,
    )
    model.add_argument(
        "names", nargs="*", metavar="WORKLOAD", help="workloads or groups (default: a minute's worth)"
    )
    model.add_argument("--all", action="store_true", help="everything that can be emulated: minutes")
    model.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    model.add_argument("--threads", type=int, default=None, help="of the emulated device (all cores)")


def run_command(options: argparse.Namespace, places: Places) -> int:
    """Run and print; 1 if a size is not the right one or a workload fails, 130 if interrupted."""
    from gpuengine.errors import GpuEngineError, Interrupted

    workloads = _choose(options)
    show_progress = sys.stderr.isatty()

    def say(text: str) -> None:
        if show_progress:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    done: list[Counted] = []
    stopped, failed = False, False
    if not options.json:
        print("\n".join(header()))
    for number, workload in enumerate(workloads, 1):
        place = f"{number}/{len(workloads)} {workload.name}"
        try:
            counted = count(prepare(workload, places), options.threads, _after(place, say))
        except (Interrupted, KeyboardInterrupt):
            stopped = True
            break
        except GpuEngineError as error:
            failed = True
            print(f"bench: {workload.name}: {error}", file=sys.stderr)
            continue
        finally:
            say("")
        done.append(counted)
        if not options.json:
            print("\n".join(lines(counted)), flush=True)
    if options.json:
        print(json.dumps(report(done, stopped), ensure_ascii=False))
    if stopped:
        print(f"bench: stopped after {len(done)} of {len(workloads)} workloads", file=sys.stderr)
        return 130
    return 1 if failed or any(counted.problems for counted in done) else 0


def _after(place: str, say: Say) -> Say:
    return lambda text: say(f"{place}: {text}")


def _choose(options: argparse.Namespace) -> list[Workload]:
    names: Sequence[str] = options.names or (EVERYTHING if options.all else DEFAULT)
    chosen = choose(names)
    for workload in chosen:
        if workload.name in TOO_LARGE:
            raise ValueError(f"{workload.name}: {TOO_LARGE[workload.name]}")
    return chosen


def count(prepared: Prepared, threads: int | None = None, say: Say = lambda text: None) -> Counted:
    """Run a workload on the CUDA backend, all of it on a metered device."""
    from gpuengine.engine import Engine
    from gpuengine.evaluation.thresholds import Thresholds
    from gpuengine.kernels.cuda.traffic import MeteredBackend, MeteredDevice

    device = MeteredDevice(threads)
    backend = MeteredBackend(device)
    always = Thresholds(auto_facts=0, small_delta=0, large_delta=0)
    engine = Engine(prepared.program, threads=threads, backend=backend, thresholds=always)
    for directive in engine.program.directives:
        if directive.kind == "input":
            say(f"loading {directive.relation}")
            file = directive.params.get("filename", f"{directive.relation}.facts")
            engine.load(directive.relation, prepared.facts / file, params=directive.params)
    started = time.perf_counter()
    engine.materialise(
        watch=lambda now: say(f"round {now.rounds:,}, {now.facts:,} facts, {now.seconds:.0f} s")
    )
    seconds = time.perf_counter() - started
    assert engine.progress is not None
    host_work = engine.progress.host_work.entries
    traffic, statistics = device.finish(), device.statistics
    # Taken before sizes are asked for, which is no part of the run.
    launches, syncs = statistics.launches, statistics.syncs
    printed = tuple(d.relation for d in engine.program.directives if d.kind == "printsize")
    sizes = {name: len(engine[name]) for name in printed}
    return Counted(
        prepared.workload.name,
        sizes,
        tuple(disagreements(prepared.workload.expected, {"the CUDA backend": sizes}, printed)),
        engine.progress.rounds,
        launches,
        sum(span.kernels for span in traffic.spans),
        syncs,
        statistics.uploaded,
        statistics.downloaded,
        statistics.peak_bytes,
        dict(statistics.items.most_common()),
        dict(traffic.moved.most_common()),
        tuple(asdict(span) for span in traffic.rounds),
        seconds,
        sum(span.host_seconds for span in traffic.spans),
        tuple({**asdict(entry), "derives": entry.operation.derives} for entry in host_work),
        None
        if any(entry.operation.derives for entry in host_work)
        else {gpu.name: asdict(bound(gpu, traffic.spans)) for gpu in GPUS},
    )


def report(done: Sequence[Counted], stopped: bool = False) -> dict[str, Any]:
    """The JSON object."""
    return {
        "note": "model: counted on an emulated device, not measured on a GPU",
        "model": {
            "gpus": [asdict(gpu) for gpu in GPUS],
            "launch_seconds": LAUNCH_SECONDS,
            "wait_seconds": WAIT_SECONDS,
        },
        "published": PUBLISHED,
        "stopped": stopped,
        "workloads": [counted.to_json() for counted in done],
    }


_WIDTH = 25
_COLUMNS = ("rounds", "launches", "kernels", "syncs/rd", "host µs/rd", "GB moved", "peak MB")


def header() -> Iterator[str]:
    """What stands above the workloads."""
    yield "Counted on an emulated device; bytes and seconds are a model from published bandwidths."
    yield (
        f"model: bytes / bandwidth or kernels x {LAUNCH_SECONDS * 1e6:.1f} µs, the more between two waits, "
        f"+ waits x {WAIT_SECONDS * 1e6:.1f} µs + transfers, a bound; below it with the host's time between "
        "waits where that is more"
    )
    columns = [f"{name:>11}" for name in _COLUMNS] + [f"{gpu.name:>10}" for gpu in GPUS]
    yield f"{'model':6}{'workload':{_WIDTH}}" + "".join(columns)
    rates = "".join(f"{gpu.memory_rate / 1e9:>10,.0f}" for gpu in GPUS)
    yield f"{'model':6}{'':{_WIDTH}}" + " " * 11 * (len(_COLUMNS) - 1) + f"{'GB/s':>11}" + rates


def lines(counted: Counted) -> Iterator[str]:
    """What is printed of a workload."""
    numbers = (
        f"{counted.rounds:,}",
        f"{counted.launches:,}",
        f"{counted.kernels:,}",
        f"{counted.syncs / max(counted.rounds, 1):.2g}",
        f"{1e6 * counted.host_seconds / max(counted.rounds, 1):,.0f}",
        f"{counted.moved_bytes / 1e9:,.3g}",
        f"{counted.peak_bytes / 1e6:,.0f}",
    )
    cells = [f"{cell:>11}" for cell in numbers] + [f"{_cell(counted, gpu, 'total'):>10}" for gpu in GPUS]
    yield f"{'model':6}{counted.workload:{_WIDTH}}" + "".join(cells)
    if counted.model_seconds is not None:
        said = "model with the host's time to ask for it, as measured here"
        width = 6 + _WIDTH + 11 * len(_COLUMNS) - 8
        expected = "".join(f"{_cell(counted, gpu, 'with_host'):>10}" for gpu in GPUS)
        yield f"{'':8}{said:{width}}{expected}"
    largest = list(counted.moved.items())[:_LARGEST_OPERATIONS]
    shares = ", ".join(
        f"{name} {100 * moved / counted.moved_bytes:.0f} %" for name, moved in largest if moved
    )
    yield f"{'':8}model of the bytes by operation: {shares or 'none'}"
    for entry in counted.host_work:
        said = "no model: the host did" if entry["derives"] else "not in the model, planning on the host:"
        yield (
            f"{'':8}{said} {entry['operation']} of {' '.join(entry['of'].split())}, "
            f"{entry['rows']:,} rows, {_seconds(entry['seconds'])}"
        )
    if counted.workload in PUBLISHED:
        yield f"{'':8}published, {PUBLISHED[counted.workload]}"
    for problem in counted.problems:
        yield f"{'':8}WRONG SIZE {problem}"


def _cell(counted: Counted, gpu: Gpu, which: str) -> str:
    """The modelled time; none if the device did not do all of it, or has not the room."""
    if counted.model_seconds is None:
        return "–"
    if counted.peak_bytes > gpu.capacity:
        return "no room"
    return _seconds(counted.model_seconds[gpu.name][which])


def _seconds(value: float) -> str:
    if value < 1e-3:
        return f"{value * 1e6:.0f} µs"
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"
