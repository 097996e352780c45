"""The process that measures: takes a file of cells as JSON, prints a line of JSON for each step done.

A step printed again is another run of it, so that what is done before a time-out is kept.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.updates.common import Measured, NotApplicable, Spec


def measure(spec: Spec) -> Iterator[Measured]:
    """The steps of a cell; only the engine that is measured is imported."""
    if spec["kind"] != "duckdb":
        from bench.updates import ours

        return ours.KINDS[spec["kind"]](spec)
    try:
        from bench.updates import duckdb_cell
    except ImportError as error:
        raise NotApplicable("not installed: pip install duckdb") from error
    return duckdb_cell.anew(spec)


def main(arguments: list[str], measure: Callable[[Spec], Iterator[Measured]] = measure) -> int:
    """Measure the cells given; one that fails says so and the next one is run."""
    failed = False
    for number, spec in enumerate(json.loads(Path(arguments[0]).read_text(encoding="utf-8"))):
        try:
            for step in measure(spec):
                print(json.dumps({"cell": number, **step}), flush=True)
        except NotApplicable as reason:
            print(json.dumps({"cell": number, "skipped": str(reason)}), flush=True)
        except Exception as error:
            failed = True
            print(json.dumps({"cell": number, "error": f"{type(error).__name__}: {error}"}), flush=True)
        gc.collect()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
