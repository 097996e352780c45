"""Runs engines on workloads: each as a process of its own, engines taking turns within a workload."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.agreement import disagreements
from bench.contenders import OURS, BadAnswer, Contender
from bench.measure import Run, run_process
from bench.peers.protocol import NOT_APPLICABLE
from bench.prepare import ROOT, Prepared
from bench.results import Outcome, Sample, WorkloadResult
from bench.rules import read_rules

# A peer that takes longer than this is run once: its noise is small beside its distance from us.
REPEAT_PEERS_UNDER = 20.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run: repeats of warm processes, threads, limits for each process, cold runs or not."""

    repeat: int = 3
    threads: int = 2
    timeout: float = 120.0
    memory: int = 8 << 30
    cold: bool = True


class _Attempt:
    """One engine on one workload: its scratch folders, its environment and what came out so far."""

    def __init__(self, contender: Contender, prepared: Prepared, settings: Settings, scratch: Path) -> None:
        self.contender, self.prepared, self.settings = contender, prepared, settings
        self.outcome = Outcome()
        self._out = scratch / contender.name
        self._out.mkdir()
        self._env = dict(os.environ)
        # Without it every process would translate all sources again: no user's does.
        self._env.pop("PYTHONDONTWRITEBYTECODE", None)
        if contender.family == OURS and settings.cold:
            # An empty kernel cache makes the first process a cold one, and those after it warm.
            self._env["GPUENGINE_CACHE_DIR"] = str(scratch / "kernel-cache")
            (scratch / "kernel-cache").mkdir(exist_ok=True)

    def wants_more(self) -> bool:
        if self.outcome.status != "ok" or len(self.outcome.warm) >= self.settings.repeat:
            return False
        slow = any(s.wall > REPEAT_PEERS_UNDER for s in self.outcome.warm)
        return not slow or self.contender.family == OURS

    def run(self, keep: Callable[[Sample], None]) -> None:
        """One process; a sample for `keep` if it ended well, otherwise the outcome says what happened."""
        command = self.contender.command(self.prepared, self.settings.threads, self._out)
        try:
            run = run_process(
                command, timeout=self.settings.timeout, memory=self.settings.memory, env=self._env, cwd=ROOT
            )
            if run.status != "ok":
                self._fail(run)
                return
            reported = self.contender.read(run.stdout)
        except (BadAnswer, FileNotFoundError) as error:
            self.outcome.status, self.outcome.reason = "failed", str(error)
            return
        if self.outcome.sizes and reported.relations != self.outcome.sizes:
            self.outcome.status = "failed"
            self.outcome.reason = f"sizes differ between runs: {self.outcome.sizes}, {reported.relations}"
            return
        self.outcome.sizes, self.outcome.version = reported.relations, reported.version
        keep(
            Sample(
                run.wall, run.cpu, run.peak_rss, reported.seconds, reported.rounds, reported.compiled_kernels
            )
        )

    def _fail(self, run: Run) -> None:
        outcome = self.outcome
        if run.exit_code == NOT_APPLICABLE and self.contender.family != OURS:
            outcome.status, outcome.reason = "n/a", run.stderr.strip()
        elif run.status == "timeout":
            outcome.status, outcome.reason = "timeout", f"longer than {self.settings.timeout:g} s"
        elif run.status == "memory":
            outcome.status, outcome.reason = "memory", f"more than {self.settings.memory / 1e9:.1f} GB"
        else:
            outcome.status = "failed"
            outcome.reason = f"exit code {run.exit_code}: {run.stderr.strip() or run.stdout.strip()[:500]}"


def run_workload(
    prepared: Prepared,
    contenders: Sequence[Contender],
    settings: Settings,
    say: Callable[[str], None] = lambda _: None,
) -> WorkloadResult:
    """Run every contender, in turns, and compare the sizes."""
    workload = prepared.workload
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        attempts = [_Attempt(c, prepared, settings, scratch) for c in contenders]
        for attempt in attempts:
            if attempt.contender.family == OURS:
                say(f"{workload.name}: {attempt.contender.name}, first run")
                _first_run(attempt, settings.cold)
        for turn in range(settings.repeat):
            for attempt in attempts:
                if attempt.wants_more():
                    say(f"{workload.name}: {attempt.contender.name}, {turn + 1} of {settings.repeat}")
                    attempt.run(attempt.outcome.warm.append)
    result = WorkloadResult(
        workload.name, sorted(workload.groups), dict(workload.expected), size=workload.source.size
    )
    result.outcomes = {a.contender.name: a.outcome for a in attempts}
    answers = {name: o.sizes for name, o in result.outcomes.items() if o.sizes}
    result.problems = disagreements(workload.expected, answers, read_rules(prepared.program).printed)
    return result


def _first_run(attempt: _Attempt, cold: bool) -> None:
    """The run that fills the kernel cache: kept as the cold one, or thrown away."""

    def keep(sample: Sample) -> None:
        if cold:
            attempt.outcome.cold = sample

    attempt.run(keep)


def measure_unit() -> float:
    """Seconds of the sort unit on this machine, now."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.unit"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return float(json.loads(done.stdout)["seconds"])
