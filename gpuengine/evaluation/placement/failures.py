"""What a device reports, as errors that say what was being done, what there is, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from gpuengine.errors import EvaluationError, MemoryBudgetError
from gpuengine.kernels.contract import DeviceError, DeviceMemoryError
from gpuengine.limits import show_size
from gpuengine.schemes.table import Table


@contextmanager
def device_failures(doing: Callable[[], str], tables: Callable[[], Iterable[Table]]) -> Iterator[None]:
    """Turn errors of the device into `EvaluationError`s; `doing` says by which rule, with which `tables`."""
    try:
        yield
    except DeviceMemoryError as error:
        raise _out_of_memory(error, tables(), doing()) from error
    except DeviceError as error:
        raise EvaluationError(
            f"the device reported an error: {error}\n"
            f"  kernels since it was last heard of: {error.kernels}\n"
            f"  while {doing()}\n"
            "  hint: run `gpuengine doctor --device`; --backend cpu does without the device"
        ) from error


def _out_of_memory(error: DeviceMemoryError, tables: Iterable[Table], doing: str) -> MemoryBudgetError:
    sizes = {table: table.device_nbytes for table in tables}
    largest = sorted(sizes, key=lambda table: -sizes[table])[:3]
    shown = ", ".join(f"{table.name} {show_size(sizes[table])} for {len(table):,} facts" for table in largest)
    return MemoryBudgetError(
        f"out of device memory: {show_size(error.requested)} asked for, {show_size(error.free)} free\n"
        f"  tables take {show_size(sum(sizes.values()))} there ({shown})\n"
        f"  while {doing}\n"
        "  hint: raise it with --device-memory, make the rule more selective, or use --backend cpu"
    )
