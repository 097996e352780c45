"""Settings by which Spark runs queries on GPUs with the RAPIDS Accelerator, and shares these with engines."""

from __future__ import annotations

import os
from pathlib import Path

from gpuengine.errors import SparkError

RAPIDS_VERSION = "26.08.1"
RAPIDS_JAR = "GPUENGINE_RAPIDS_JAR"
ARTIFACT = f"com.nvidia:rapids-4-spark_2.13:{RAPIDS_VERSION}:jar:cuda13"
_HOW_TO_GET = (
    f"fetch it with `mvn dependency:get -Dartifact={ARTIFACT} -Dtransitive=false` (it is then in\n"
    f"    ~/.m2/repository/com/nvidia) and name it by rapids_jar= or ${RAPIDS_JAR}; spark.jars.packages\n"
    "    can't fetch it, since the parent of its POM is not published"
)


def rapids_conf(gpus_per_executor: int, jar: str) -> dict[str, str]:
    """What makes Spark run on GPUs. Half of a GPU is for Spark, up to four tenths for engines in its tasks.

    The jar must be at the same path on every machine. YARN and Kubernetes want besides
    ``spark.executor.resource.gpu.discoveryScript``: distributions of Spark have one in
    ``examples/src/main/scripts/getGpusResources.sh``, which is taken if it is there. Kubernetes wants
    ``spark.executor.resource.gpu.vendor=nvidia.com`` too.
    """
    if gpus_per_executor != 1:
        raise SparkError(
            f"RAPIDS uses one GPU for each executor, not {gpus_per_executor}\n"
            "  hint: start as many executors on a machine as it has GPUs"
        )
    conf = {
        "spark.plugins": "com.nvidia.spark.SQLPlugin",
        # The class path, not spark.jars: the plugin and the cache's serializer are wanted before those are.
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
        # Executors ask for a GPU; tasks for so small a share that the number of cores limits them, not this.
        "spark.executor.resource.gpu.amount": str(gpus_per_executor),
        "spark.task.resource.gpu.amount": "0.001",
        # A query that the plugin stumbles over when it plans it runs on the CPU rather than fail: it does so
        # over checkpoints of frames in which one sorted column appears twice.
        "spark.rapids.sql.suppressPlanningFailure": "true",
        # Copies between host and GPU can be asynchronous only from and to pinned memory.
        "spark.rapids.memory.pinnedPool.size": "2g",
        # Two tasks on the GPU at once: one computes while the other moves data.
        "spark.rapids.sql.concurrentGpuTasks": "2",
        # Spark and the engines in the Python workers share the GPU, so Spark must not take all of it first.
        "spark.rapids.memory.gpu.allocFraction": "0.5",
        "spark.rapids.memory.gpu.maxAllocFraction": "0.5",
        # Python workers run on their executor's GPU (the plugin sets CUDA_VISIBLE_DEVICES for them), with
        # memory pools of this share in all, and as many of them at once as there are tasks on the GPU. No
        # task of ours has two Python stages, which could wait for each other.
        "spark.rapids.sql.python.gpu.enabled": "true",
        "spark.rapids.python.memory.gpu.allocFraction": "0.2",
        "spark.rapids.python.memory.gpu.maxAllocFraction": "0.4",
        "spark.rapids.python.concurrentPythonWorkers": "2",
        # An engine has a pool of its own.
        "spark.rapids.python.memory.gpu.pooling.enabled": "false",
        # The plugin's Python worker is in its jar.
        "spark.executorEnv.PYTHONPATH": jar,
        # Cached frames stay columnar, so that the GPU reads them; Spark's own form only the CPU can.
        "spark.sql.cache.serializer": "com.nvidia.spark.ParquetCachedBatchSerializer",
        # GPUs want large batches; small scans would leave most of one idle.
        "spark.sql.files.maxPartitionBytes": "512m",
    }
    script = Path(os.environ.get("SPARK_HOME", "")) / "examples/src/main/scripts/getGpusResources.sh"
    if script.is_absolute() and script.is_file():
        conf["spark.executor.resource.gpu.discoveryScript"] = str(script)
    return conf


def find_rapids_jar(given: str | os.PathLike[str] | None) -> str:
    """The path of the jar: as given, or by the environment."""
    named = os.fspath(given) if given is not None else os.environ.get(RAPIDS_JAR)
    if not named:
        raise SparkError(f"the jar of the RAPIDS Accelerator is not named\n  hint: {_HOW_TO_GET}")
    path = Path(named).absolute()
    if not path.is_file():
        raise SparkError(f"there is no RAPIDS jar at {path}\n  hint: {_HOW_TO_GET}")
    return str(path)
