"""What runs in the Python workers of Spark, at the start of each task of ours."""

from __future__ import annotations

import os
import sys
import zipimport
from functools import cache
from pathlib import Path
from typing import Any

from gpuengine.evaluation.accelerator import find_accelerator
from gpuengine.evaluation.budget import Budget
from gpuengine.kernels.cpu.jit import cache_directory

_seen: dict[str, tuple[int, int]] = {}
"""Archives on the path, by what they were like (changed when, size) when they were last read."""


def prepare_worker() -> None:
    """Spare the tasks to come what this one had to do; call it first in each function for `mapInArrow`.

    Does nothing outside of a task, and only once in a worker.
    """
    if _task() is None:
        return
    _read_archives_once()
    _keep_kernels()


def task_threads() -> int:
    """How many threads an engine in this task may use: as many as the task has cores."""
    task = _task()
    return max(1, int(task.cpus())) if task is not None else len(os.sched_getaffinity(0))


def task_memory() -> int:
    """How many bytes an engine in this task may use: its share by cores of what the machine has free."""
    cores = len(os.sched_getaffinity(0))
    return Budget().limit * min(task_threads(), cores) // cores


def task_gpu() -> int | None:
    """The number, as CUDA counts in this process, of the GPU that Spark gave to this task, if it gave one.

    Spark names a GPU by its address on the machine, and leaves it to the task to use no other. RAPIDS and
    some cluster managers show a process its own GPUs only: then CUDA counts among these.
    """
    task = _task()
    gpu = None if task is None else task.resources().get("gpu")
    if gpu is None or not gpu.addresses:
        return None
    address = gpu.addresses[0].strip()
    visible = [each.strip() for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
    if address in visible:
        return visible.index(address)
    if len(visible) == 1:
        return 0
    return int(address) if address.isdigit() else None


def task_backend() -> tuple[str, int]:
    """Backend and device for an engine in this task: the GPU it was given if that can be used, or the CPU."""
    device = task_gpu()
    if device is not None and _can_use(device):
        return "cuda", device
    return "cpu", 0


@cache
def _can_use(device: int) -> bool:
    return find_accelerator("auto", device, None, None).open() is not None


def _task() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()


def _read_archives_once() -> None:
    """Make `importlib.invalidate_caches` read again only archives that changed.

    Spark calls it at the start of every task, and up to Python 3.11 it reads the directories of pyspark.zip
    and of Spark's jar on the path anew, once for each package of theirs: 0.1 s a task.
    """
    importer: Any = zipimport.zipimporter
    if sys.version_info >= (3, 12) or importer.invalidate_caches is _invalidate:
        return
    importer.original_invalidate_caches = importer.invalidate_caches
    importer.invalidate_caches = _invalidate


def _invalidate(importer: Any) -> None:
    try:
        state = Path(importer.archive).stat()
    except OSError:
        _seen.pop(importer.archive, None)
        importer.original_invalidate_caches()
        return
    now = (state.st_mtime_ns, state.st_size)
    known = zipimport._zip_directory_cache.get(importer.archive)  # type: ignore[attr-defined]
    if known is not None and _seen.get(importer.archive) == now:
        # Another importer of the same archive may have read it since.
        importer._files = known
        return
    importer.original_invalidate_caches()
    _seen[importer.archive] = now


def _keep_kernels() -> None:
    """Keep compiled kernels with the executor if the home folder can't be written, as those of YARN users.

    Every worker would compile them anew. The executor's own folder is private to its user; /tmp is not.
    """
    if "GPUENGINE_CACHE_DIR" in os.environ or _is_writable(cache_directory()):
        return
    from pyspark import SparkFiles

    os.environ["GPUENGINE_CACHE_DIR"] = str(Path(SparkFiles.getRootDirectory()) / "gpuengine-kernels")


def _is_writable(folder: Path) -> bool:
    """Could files be made in the folder, once it and those above it are made?"""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)
