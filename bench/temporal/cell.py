"""One measurement in a process of its own.

``python -m bench.temporal.cell PROGRAM FACTS.npz PROCEDURE ROUNDS`` prints one JSON object: seconds and
stored facts after each round, processor seconds, and peak memory. ROUNDS 0 is until nothing new follows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from bench.temporal.lubm import TemporalFacts


@dataclass(frozen=True)
class Cell:
    """What came of a measurement; `seconds` and `facts` are those after each round."""

    seconds: list[float]
    facts: list[int]
    cpu: float
    peak_rss: int
    dropped: int

    @property
    def total(self) -> float:
        return self.seconds[-1]


def save(facts: TemporalFacts, path: Path) -> None:
    """Facts as arrays, for processes that measure."""
    arrays = {"constants": np.array(facts.constants)}
    for name, (columns, start, end) in facts.tables.items():
        arrays |= {f"{name}/{j}": column for j, column in enumerate(columns)}
        arrays |= {f"{name}/start": start, f"{name}/end": end}
    np.savez(path, **arrays)  # type: ignore[arg-type]


def measure(program: Path, facts: Path, procedure: str, rounds: int, timeout: float) -> Cell | None:
    """A cell, None if it took too long."""
    command = [sys.executable, "-m", "bench.temporal.cell", str(program), str(facts), procedure, str(rounds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True)
    except subprocess.TimeoutExpired:
        return None
    return Cell(**json.loads(done.stdout))


def write_csv(facts: TemporalFacts, folder: Path) -> None:
    """A CSV file for each predicate."""
    import pyarrow as pa
    from pyarrow import csv

    folder.mkdir(parents=True, exist_ok=True)
    for name, (columns, start, end) in facts.tables.items():
        arrays = {f"a{j}": pa.array(column) for j, column in enumerate(columns)}
        table = pa.table({**arrays, "start": pa.array(start), "end": pa.array(end)})
        csv.write_csv(table, folder / f"{name}.csv")


def whole_process(program: Path, folder: Path, out: Path) -> tuple[float, float]:
    """Seconds and processor seconds of ``gpuengine run`` from start to end."""
    command = [sys.executable, "-m", "gpuengine", "run", str(program), "-F", str(folder), "-D", str(out)]
    before, started = os.times(), time.perf_counter()
    subprocess.run([*command, "--format", "parquet"], capture_output=True, check=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, used


def _main(program: str, path: str, procedure: str, rounds: str) -> None:
    import pyarrow as pa

    from gpuengine.cli.live import peak_rss
    from gpuengine.temporal.engine import TemporalEngine

    arrays = np.load(path)
    engine = TemporalEngine(Path(program))
    constants = pa.array([f"ID{number}" for number in range(int(arrays["constants"]))])
    for name in dict.fromkeys(key.partition("/")[0] for key in arrays.files if "/" in key):
        columns = [arrays[f"{name}/{j}"] for j in range(9) if f"{name}/{j}" in arrays.files]
        table = {f"a{j}": constants.take(pa.array(column)) for j, column in enumerate(columns)}
        engine.load(name, pa.table({**table, "start": arrays[f"{name}/start"], "end": arrays[f"{name}/end"]}))
    engine.fold()
    bound = int(rounds) or None
    # Kernels come from the cache, but have to be loaded: that is no part of the procedure.
    engine.materialise(rounds=1, procedure="naive")
    cpu = time.process_time()
    engine.materialise(rounds=bound, procedure=procedure)  # type: ignore[arg-type]
    done = engine.progress
    print(
        json.dumps(
            {
                "seconds": list(accumulate(r.seconds for r in done.rounds)),
                "facts": [r.facts for r in done.rounds],
                "cpu": time.process_time() - cpu,
                "peak_rss": peak_rss(),
                "dropped": len(done.dropped),
            }
        )
    )


if __name__ == "__main__":
    _main(*sys.argv[1:])
