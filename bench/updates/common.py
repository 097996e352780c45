"""What all contenders share. It imports no engine, so that the memory of each is its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from bench.harness.process import Measured, Spec

DIGEST_ROWS = 2_000_000
"""The whole contents of a relation are compared up to here, above that its size only."""
_RUNS = 3
_ENOUGH_SECONDS = 2.0


def program(spec: Spec) -> str:
    return spec["program"] or Path(spec["program_file"]).read_text(encoding="utf-8")


def repeated(spec: Spec, run: Callable[[str], Measured]) -> Iterator[Measured]:
    """Each state computed anew; what is short is run again."""
    for state in spec["states"]:
        spent, runs = 0.0, 0
        while runs == 0 or (spec["warm"] and runs < _RUNS and spent < _ENOUGH_SECONDS):
            step = run(state)
            spent, runs = spent + step["seconds"], runs + 1
            yield step
