"""The process that measures one contender on one workload; see `bench.harness.process`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.harness.process import Measured, NotApplicable, Spec, measure_cells


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


if __name__ == "__main__":
    sys.exit(measure_cells(sys.argv[1:], measure))
