"""The process that measures: takes a file of cells as JSON, prints a line of JSON for each step done.

A step printed again is another run of it, so that what is done before a time-out is kept. It imports no
engine, so that the memory of each contender is its own.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Measured = dict[str, Any]
Spec = Mapping[str, Any]


class NotApplicable(Exception):
    """A contender cannot do it; the message says why."""


def measure_cells(arguments: list[str], measure: Callable[[Spec], Iterator[Measured]]) -> int:
    """Measure the cells of the file given; one that fails says so and the next one is run."""
    failed = False
    for number, spec in enumerate(json.loads(Path(arguments[0]).read_text(encoding="utf-8"))):
        try:
            for step in measure(spec):
                print(json.dumps({"cell": number, **step}), flush=True)
        except NotApplicable as reason:
            print(json.dumps({"cell": number, "skipped": str(reason)}), flush=True)
        except Exception as error:
            failed = True
            print(json.dumps({"cell": number, "error": _said(error)}), flush=True)
        gc.collect()
    return int(failed)


def _said(error: Exception) -> str:
    """Its first line: those of a JVM go on for pages."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def repeated(spec: Spec, steps: Callable[[], Iterator[Measured]]) -> Iterator[Measured]:
    """All steps, again while they are short: up to ``repeat`` times, until ``enough`` seconds are spent."""
    spent, runs = 0.0, 0
    while runs == 0 or (runs < spec["repeat"] and spent < spec["enough"]):
        for step in steps():
            spent += step["seconds"]
            yield step
        runs += 1
