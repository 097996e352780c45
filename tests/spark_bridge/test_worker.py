"""What tasks find out about where they run, in real workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from gpuengine.spark_bridge.tasks import prepare_worker, task_backend, task_gpu, task_threads
from tests.spark_bridge.scripts import run_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batches = Iterator[pa.RecordBatch]


def test_outside_of_a_task_nothing_is_changed() -> None:
    import zipimport

    before = zipimport.zipimporter.invalidate_caches
    prepare_worker()
    assert zipimport.zipimporter.invalidate_caches is before
    assert task_gpu() is None
    assert task_backend() == ("cpu", 0)
    assert task_threads() >= 1


def read_archives(batches: Batches) -> Batches:
    """How many archives are read by two `invalidate_caches`, and after one of two has changed."""
    import importlib
    import sys
    import tempfile
    import zipfile
    import zipimport

    from gpuengine.spark_bridge.tasks import prepare_worker

    folder = tempfile.mkdtemp()

    def write(version: int, *more: str) -> None:
        with zipfile.ZipFile(f"{folder}/archive.zip", "w") as archive:
            archive.writestr("in_archive/__init__.py", f"VERSION = {version}\n")
            for name in more:
                archive.writestr(f"in_archive/{name}.py", f"VERSION = {version}\n")

    read: list[str] = []
    original = zipimport._read_directory  # type: ignore[attr-defined]

    def counted(archive: str) -> object:
        read.append(Path(archive).name)
        return original(archive)

    write(1)
    sys.path.append(f"{folder}/archive.zip")
    import in_archive  # type: ignore[import-not-found]

    prepare_worker()
    prepare_worker()
    zipimport._read_directory = counted  # type: ignore[attr-defined]
    try:
        importlib.invalidate_caches()
        first = len(read)
        read.clear()
        importlib.invalidate_caches()
        second = len(read)
        read.clear()
        write(2, "added")
        importlib.invalidate_caches()
        from in_archive import added  # type: ignore[import-not-found]
    finally:
        zipimport._read_directory = original  # type: ignore[attr-defined]
    assert in_archive.VERSION == 1
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict(
        {"first": [first], "second": [second], "third": [",".join(read)], "version": [added.VERSION]}
    )


def test_archives_on_the_path_are_read_again_only_if_they_changed(spark: SparkSession) -> None:
    schema = "first int, second int, third string, version int"

    def as_declared(batches: Batches) -> Batches:
        for batch in read_archives(batches):
            fields = [
                ("first", pa.int32()),
                ("second", pa.int32()),
                ("third", pa.string()),
                ("version", pa.int32()),
            ]
            yield pa.Table.from_batches([batch]).cast(pa.schema(fields)).to_batches()[0]

    row = spark.range(1).mapInArrow(as_declared, schema).first()
    assert row is not None
    import sys

    if sys.version_info < (3, 12):
        # One read for each archive: ours, and pyspark.zip, py4j, Spark's jar, unless the worker has read them
        # for tasks before; there are more packages than that.
        assert 1 <= row["first"] <= 6
    assert row["second"] == 0
    assert row["third"] == "archive.zip"
    assert row["version"] == 2


def test_a_read_only_home_has_kernels_kept_with_the_executor(spark: SparkSession) -> None:
    def where(batches: Batches) -> Batches:
        import os

        from pyspark import SparkFiles

        from gpuengine.kernels.cpu.jit import cache_directory
        from gpuengine.spark_bridge.tasks import prepare_worker

        os.environ.pop("GPUENGINE_CACHE_DIR", None)
        os.environ["XDG_CACHE_HOME"] = "/dev/null/not-a-folder"
        prepare_worker()
        found = str(cache_directory())
        expected = f"{SparkFiles.getRootDirectory()}/gpuengine-kernels"
        # This worker goes on to other tasks.
        os.environ.pop("GPUENGINE_CACHE_DIR", None)
        os.environ.pop("XDG_CACHE_HOME", None)
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"found": [found], "expected": [expected]})

    row = spark.range(1).mapInArrow(where, "found string, expected string").first()
    assert row is not None
    assert row["found"] == row["expected"]


PLACED = """
import json, os, sys
from gpuengine.spark_bridge.sessions import session
spark = session(master="local-cluster[2,2,1024]", conf={
    "spark.ui.enabled": "false",
    "spark.worker.resource.gpu.amount": "1",
    "spark.worker.resource.gpu.discoveryScript": sys.argv[1],
    "spark.executor.resource.gpu.amount": "1",
    "spark.task.resource.gpu.amount": "0.5",
    "spark.task.cpus": "1",
})
def look(batches):
    import os, time
    import pyarrow as pa
    from pyspark import TaskContext
    from gpuengine.spark_bridge.tasks import prepare_worker, task_backend, task_gpu, task_threads
    prepare_worker()
    given = TaskContext.get().resources()["gpu"].addresses[0]
    counted = task_gpu()
    os.environ["CUDA_VISIBLE_DEVICES"] = "5," + given
    among_visible = task_gpu()
    os.environ["CUDA_VISIBLE_DEVICES"] = "GPU-8932f937"
    only_one = task_gpu()
    del os.environ["CUDA_VISIBLE_DEVICES"]
    # Both executors are to have tasks.
    time.sleep(1)
    for _ in batches:
        pass
    row = (given, counted, among_visible, only_one, list(task_backend()), task_threads())
    yield pa.RecordBatch.from_pydict({"row": [__import__("json").dumps(row)]})
rows = spark.range(0, 4, 1, 4).mapInArrow(look, "row string").collect()
print(json.dumps([json.loads(row.row) for row in rows]))
spark.stop()
"""


@pytest.mark.slow
def test_tasks_use_the_gpu_that_they_are_given(tmp_path: Path) -> None:
    """Spark schedules GPUs that a script makes up; both workers are of this machine and find number 3."""
    script = tmp_path / "gpus.sh"
    script.write_text("""#!/bin/sh\necho '{"name": "gpu", "addresses": ["3"]}'\n""")
    script.chmod(0o755)
    rows = json.loads(run_script(PLACED, tmp_path, str(script)).splitlines()[-1])
    assert len(rows) == 4
    # The last but one: there is no such GPU, so an engine runs on the CPU.
    assert rows == [["3", 3, 1, 0, ["cpu", 0], 1]] * 4
