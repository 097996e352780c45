"""Who runs: gpuengine and the peers found, each as a command line with a way to read its answer."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.prepare import ROOT, Prepared
from gpuengine.evaluation.placement.accelerator import gpu_present

OURS = "gpuengine"
_SOUFFLE_SIZE = re.compile(r"^(\w+)\t(\d+)$", re.MULTILINE)


class BadAnswer(Exception):
    """A process ended well but did not print what it should."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What a process said about itself."""

    relations: dict[str, int]
    seconds: dict[str, float]
    rounds: int | None = None
    version: str = ""
    compiled_kernels: int = 0


class Contender(Protocol):
    """An engine that can be started on a prepared workload."""

    @property
    def name(self) -> str:
        """How reports call it."""

    @property
    def family(self) -> str:
        """What variants of one engine share; `OURS` for the engine that is measured."""

    def missing(self) -> str | None:
        """Why it cannot run here at all, or None."""

    def command(self, prepared: Prepared, threads: int, scratch: Path) -> list[str]:
        """The command line; `scratch` is an empty folder of its own."""

    def read(self, stdout: str) -> Reported:
        """The answer in its output; raises `BadAnswer`."""


def read_json(stdout: str) -> Reported:
    """The JSON object that our command line and the peer modules print; raises `BadAnswer`."""
    try:
        answer = json.loads(stdout)
        relations = {str(k): int(v) for k, v in answer["relations"].items()}
        seconds = {str(k): float(v) for k, v in answer.get("seconds", {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadAnswer(f"no JSON answer ({error}): {stdout[:200]!r}") from error
    version, kernels = str(answer.get("version", "")), answer.get("compiled_kernels") or ()
    return Reported(relations, seconds, answer.get("rounds"), version, len(kernels))


@dataclass(frozen=True, slots=True)
class Ours:
    """gpuengine's command line, as a user types it."""

    name: str = OURS
    family: str = OURS

    def missing(self) -> str | None:
        is_here = (ROOT / "gpuengine" / "__main__.py").exists()
        return None if is_here else "gpuengine has no command line here"

    def command(self, prepared: Prepared, threads: int, scratch: Path) -> list[str]:
        return [
            sys.executable, "-m", "gpuengine", "run", str(prepared.program), "-F", str(prepared.facts),
            "-D", str(scratch), "-j", str(threads), "--stats", "--json",
        ]  # fmt: skip

    def read(self, stdout: str) -> Reported:
        return read_json(stdout)


@dataclass(frozen=True, slots=True)
class PythonPeer:
    """A peer with a Python package, driven by a module of `bench.peers`."""

    name: str
    family: str
    variant: str = ""

    def missing(self) -> str | None:
        spec = importlib.util.find_spec(self.family)
        return None if spec else f"not installed: pip install {self.family}"

    def command(self, prepared: Prepared, threads: int, scratch: Path) -> list[str]:
        command = [sys.executable, "-m", f"bench.peers.{self.family}", str(prepared.program)]
        command += ["-F", str(prepared.facts), "-j", str(threads)]
        return command + (["--variant", self.variant] if self.variant else [])

    def read(self, stdout: str) -> Reported:
        return read_json(stdout)


@dataclass(frozen=True, slots=True)
class GpuPeer(PythonPeer):
    """A peer with a Python package that needs an NVIDIA GPU."""

    def missing(self) -> str | None:
        if not gpu_present():
            return "there is no NVIDIA GPU"
        spec = importlib.util.find_spec(self.family)
        return None if spec else f"not installed: pip install {self.family}-cu13"


@dataclass(frozen=True, slots=True)
class Souffle:
    """Soufflé from PATH, interpreted or compiled (compiling is not in the time)."""

    name: str
    compiled: bool
    family: str = "souffle"

    def missing(self) -> str | None:
        return None if shutil.which("souffle") else "souffle is not on PATH"

    def command(self, prepared: Prepared, threads: int, scratch: Path) -> list[str]:
        options = ["-F", str(prepared.facts), "-D", str(scratch), f"-j{threads}"]
        if not self.compiled:
            return ["souffle", *options, str(prepared.program)]
        binary = scratch / "program"
        if not binary.exists():
            # A failed compilation shows as a run that fails: the binary is not there.
            subprocess.run(
                ["souffle", f"-j{threads}", "-o", str(binary), str(prepared.program)],
                capture_output=True, check=False,
            )  # fmt: skip
        return [str(binary), *options]

    def read(self, stdout: str) -> Reported:
        sizes = {name: int(size) for name, size in _SOUFFLE_SIZE.findall(stdout)}
        if not sizes:
            raise BadAnswer(f"no sizes in the output: {stdout[:200]!r}")
        return Reported(sizes, {})


PEERS: tuple[Contender, ...] = (
    PythonPeer("duckdb-cte", "duckdb", "cte"),
    PythonPeer("duckdb-loop", "duckdb", "loop"),
    PythonPeer("clingo", "clingo"),
    PythonPeer("egglog", "egglog"),
    GpuPeer("cudf", "cudf"),
    Souffle("souffle-interpreted", compiled=False),
    Souffle("souffle-compiled", compiled=True),
)


def choose_peers(text: str) -> list[Contender]:
    """``all``, ``none``, or names and families separated by commas; `ValueError` for an unknown one."""
    if text == "all":
        return list(PEERS)
    wanted = [] if text == "none" else [part.strip() for part in text.split(",") if part.strip()]
    known = {p.name for p in PEERS} | {p.family for p in PEERS}
    unknown = sorted(set(wanted) - known)
    if unknown:
        raise ValueError(f"no peer {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return [p for p in PEERS if p.name in wanted or p.family in wanted]


def present(contenders: Iterable[Contender]) -> tuple[list[Contender], dict[str, str]]:
    """Those that can run here, and why the others cannot."""
    reasons = {c.name: c.missing() for c in contenders}
    missing = {name: reason for name, reason in reasons.items() if reason is not None}
    return [c for c in contenders if c.name not in missing], missing
