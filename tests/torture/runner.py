"""Keeps workers busy, counts what they did, and notices those that crash or hang."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[2]
SLICE = 45.0  # so many seconds a worker works before the next kind has its turn
PATIENCE = 600.0  # a case that takes longer hangs


@dataclass(frozen=True)
class Failure:
    kind: str
    seed: int
    text: str

    def __str__(self) -> str:
        repeat = f"python -m tests.torture --only {self.kind} --seed {self.seed} --cases 1"
        return f"FAILED {self.kind}, seed {self.seed}; again by: {repeat}\n{self.text.rstrip()}\n"


@dataclass
class Tally:
    """What one kind has come to."""

    next: int
    left: int | None  # cases still to do; None: no end
    cases: int = 0
    count: int = 0
    failures: int = 0


@dataclass
class Runner:
    """At most `processes` workers at a time, each for one kind; kinds take turns."""

    kinds: tuple[str, ...]
    seed: int
    minutes: float | None
    cases: int | None
    processes: int
    out: TextIO = field(default_factory=lambda: sys.stdout)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._waiting = list(self.kinds)
        self._workers: set[subprocess.Popen[str]] = set()
        self._until = None if self.minutes is None else time.monotonic() + 60 * self.minutes
        self.tallies = {kind: Tally(self.seed, self.cases) for kind in self.kinds}
        self.failures: list[Failure] = []

    def run(self) -> list[Failure]:
        """Until the time is over, all cases are done, or Ctrl-C."""
        threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(self.processes)]
        try:
            print(f"seeds from {self.seed}", file=self.out, flush=True)
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.2)
                self._show()
        except KeyboardInterrupt:
            self._stop.set()
            with self._lock:
                for worker in self._workers:
                    _end(worker)
            for thread in threads:
                if thread.is_alive():
                    thread.join(60)
        self._show(last=True)
        return self.failures

    def _serve(self) -> None:
        """One worker after the other, of whichever kind has waited longest."""
        while not self._stop.is_set() and self._seconds() > 0:
            with self._lock:
                if all(tally.left == 0 for tally in self.tallies.values()):
                    return
                kind = self._waiting.pop(0) if self._waiting else None
            if kind is None:  # the others are at work on it
                time.sleep(0.1)
                continue
            self._work(kind)
            with self._lock:
                if self.tallies[kind].left != 0:
                    self._waiting.append(kind)

    def _seconds(self) -> float:
        left = SLICE if self._until is None else self._until - time.monotonic()
        return min(SLICE, left)

    def command(self, kind: str, tally: Tally) -> list[str]:
        """What starts a worker for the next cases of a kind."""
        cases = 10**9 if tally.left is None else tally.left
        arguments = ["--worker", "--only", kind, "--seed", tally.next, "--cases", cases]
        arguments += ["--seconds", round(self._seconds(), 1)]
        return [sys.executable, "-m", "tests.torture", *map(str, arguments)]

    def _work(self, kind: str) -> None:
        """One worker for a slice of time; what it was doing when it died is a failure."""
        tally = self.tallies[kind]
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            command = self.command(kind, tally)
            worker = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
            with self._lock:
                self._workers.add(worker)
            running, hangs = self._listen(kind, worker)
            worker.wait()
            with self._lock:
                self._workers.discard(worker)
            if self._stop.is_set():
                return
            if running is None and worker.returncode == 0:
                return
            errors.seek(0)
            said = errors.read()[-20_000:]
        how = f"a case took more than {PATIENCE:.0f} seconds" if hangs else _death(worker.returncode)
        self._done(kind, tally.next if running is None else running, 0, f"{how}\n{said}")

    def _listen(self, kind: str, worker: subprocess.Popen[str]) -> tuple[int | None, bool]:
        """Count what a worker tells; the seed it did not finish, and whether it had to be ended."""
        running: int | None = None
        hangs = threading.Event()

        def end() -> None:
            hangs.set()
            _end(worker)

        assert worker.stdout is not None
        watch = threading.Timer(PATIENCE, end)
        watch.start()
        for line in worker.stdout:
            watch.cancel()
            watch = threading.Timer(PATIENCE, end)
            watch.start()
            word, seed, *rest = line.rstrip("\n").split(" ", 2)
            if word == "@begin":
                running = int(seed)
                continue
            running = None
            if word == "@done":
                self._done(kind, int(seed), int(rest[0]), None)
            elif word == "@failed":
                self._done(kind, int(seed), 0, json.loads(rest[0]))
        watch.cancel()
        return running, hangs.is_set()

    def _done(self, kind: str, seed: int, count: int, failure: str | None) -> None:
        with self._lock:
            tally = self.tallies[kind]
            tally.next = seed + 1
            tally.cases += 1
            tally.count += count
            if tally.left is not None:
                tally.left -= 1
            if failure is not None:
                tally.failures += 1
                self.failures.append(Failure(kind, seed, failure))
                self._clear()
                print(self.failures[-1], file=self.out, flush=True)

    # -- what one sees ---------------------------------------------------------------------------

    def counts(self) -> str:
        """One line for each kind."""
        lines = [
            f"{kind:8} {tally.cases:7} cases {tally.count:9} {UNITS[kind]:13} {tally.failures:4} failures"
            for kind, tally in self.tallies.items()
        ]
        return "\n".join(lines)

    def _show(self, last: bool = False) -> None:
        if not self.out.isatty():
            return
        self._clear()
        if not last:
            parts = ", ".join(f"{kind} {tally.count}" for kind, tally in self.tallies.items())
            print(f"{parts}; {len(self.failures)} failures"[:110], end="\r", file=self.out, flush=True)

    def _clear(self) -> None:
        if self.out.isatty():
            print(" " * 110, end="\r", file=self.out)


UNITS = {
    "fuzz": "programs",
    "streams": "transactions",
    "mutants": "programs",
    "files": "files",
    "kills": "kills",
    "errors": "updates",
    "power": "cuts",
    "threads": "reads",
}


def _end(worker: subprocess.Popen[str]) -> None:
    """End a worker, and the processes that its case has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)


def _death(code: int) -> str:
    if code >= 0:
        return f"the worker ended with exit code {code}"
    return f"the worker was ended by {signal.Signals(-code).name}"
