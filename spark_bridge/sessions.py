"""Sessions of Spark: made with settings that suit the bridge, with GPUs if RAPIDS is there, and checked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import gpuengine
from gpuengine.errors import SparkError
from gpuengine.machine import usable_cores
from gpuengine.spark_bridge.connect import is_connect
from gpuengine.spark_bridge.versions import require, require_supported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
RECORDS_PER_BATCH = 1 << 20
BYTES_PER_BATCH = 64 << 20
_shipped_to: WeakSet[Any] = WeakSet()
_INSTALL_PYSPARK = "pip install 'gpuengine[spark]'"
_INSTALL_JAVA = (
    "install Java 17 or 21 (Debian: apt install openjdk-17-jre-headless; conda: conda install openjdk=17), "
    "or point JAVA_HOME to one"
)


def session(
    *,
    master: str | None = None,
    app_name: str = "gpuengine",
    rapids: bool = False,
    gpus_per_executor: int = 1,
    rapids_jar: str | os.PathLike[str] | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """The active session, or the one of Spark Connect that ``$SPARK_REMOTE`` names, or a new one.

    What is set for a new one gives way to spark-defaults.conf and to what spark-submit was given, and these
    give way to the arguments and `conf`. With `rapids`, queries run on GPUs (see `rapids_conf`); the jar is
    `rapids_jar` or ``$GPUENGINE_RAPIDS_JAR``. An active session keeps its settings; it must have those that
    are asked for, as far as they can't be changed any more.
    """
    sql = _pyspark_sql()
    wanted = dict(conf or {})
    if master is not None:
        wanted["spark.master"] = master
    on_gpus = rapids_conf(gpus_per_executor, find_rapids_jar(rapids_jar)) if rapids else {}
    active = sql.SparkSession.getActiveSession()
    if active is None and "SPARK_REMOTE" in os.environ:
        active = sql.SparkSession.builder.getOrCreate()
    if active is not None:
        if rapids:
            wanted.setdefault("spark.plugins", on_gpus["spark.plugins"])
        _adapt(active, wanted)
        ship_package(active)
        return active
    check_java()
    # Workers must run the Python that holds this package; Spark would take the first python3 of the PATH.
    if "spark.pyspark.python" not in wanted:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = _given_elsewhere()
    on = wanted.get("spark.master") or given.get("spark.master") or "local[*]"
    if _is_local(on):
        # One process has no executors to hand GPUs to: tasks that ask for one would wait for ever.
        on_gpus = {key: value for key, value in on_gpus.items() if ".resource.gpu." not in key}
    defaults = default_conf(on) | on_gpus
    settings = {key: value for key, value in defaults.items() if key not in given} | wanted
    builder = sql.SparkSession.builder.appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        made: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise SparkError(_why_not_started(error)) from error
    ship_package(made)
    return made


def default_conf(master: str) -> dict[str, str]:
    """What `session` sets for a master unless it is set elsewhere."""
    conf = {
        # Each batch costs a round trip, and `createDataFrame` makes each a partition: at the 10,000 rows of
        # Spark's default, 5 M rows of two integers took 4.2 s through `mapInArrow`, here 2.2 s.
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(RECORDS_PER_BATCH),
        # Keeps batches of long strings from growing with that.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(BYTES_PER_BATCH),
        # Rounds differ in size by orders of magnitude: join strategies and partitions go by what is there.
        "spark.sql.adaptive.enabled": "true",
        # Checkpoints of rounds that nothing refers to any more would fill the disk.
        "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
        # Progress has a line of its own on the terminal; Spark's would write over it.
        "spark.ui.showConsoleProgress": "false",
    }
    if _is_local(master) or master.startswith("local-cluster["):
        # The name of the machine may resolve to an address that can't be reached (VPN, containers).
        conf["spark.driver.host"] = "127.0.0.1"
    if _is_local(master):
        # Everything runs in the driver's JVM, and 1 GB is soon full; the rest is for engines in Python.
        conf["spark.driver.memory"] = f"{max(1, min(16, _memory_bytes() // (4 << 30)))}g"
        # 200 is for clusters: with few cores, most of the time of small rounds would go to starting tasks.
        conf["spark.sql.shuffle.partitions"] = str(4 * _cores(master))
    return conf


def check_java() -> None:
    """Raise `SparkError` unless a JVM runs already, or the Java that Spark would start can run it."""
    _pyspark_sql()
    from pyspark import SparkContext

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    home, java = os.environ.get("JAVA_HOME"), find_java()
    if java is None:
        raise SparkError(f"Spark needs Java, and there is none on the PATH\n  hint: {_INSTALL_JAVA}")
    try:
        version = java_version(java)
    except (OSError, subprocess.SubprocessError) as error:
        where = f"JAVA_HOME is {home}, but {java}" if home else java
        raise SparkError(
            f"Spark needs Java, and {where} does not run: {error}\n  hint: {_INSTALL_JAVA}"
        ) from error
    if version is not None and version < OLDEST_JAVA:
        raise SparkError(f"Spark 4 needs Java 17 or 21; {java} is Java {version}\n  hint: {_INSTALL_JAVA}")


def find_java() -> str | None:
    """The program that Spark would start; it may not be there if JAVA_HOME says so."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def check_session(spark: object) -> None:
    """Raise `SparkError` unless this is a session of Spark, classic or by Connect, that is not stopped."""
    sql = _pyspark_sql()
    require_supported()
    if is_connect(spark):
        require("Spark Connect")
    elif not isinstance(spark, sql.SparkSession):
        raise SparkError(f"expected a SparkSession, got {type(spark).__name__}")
    if not _is_live(spark):
        raise SparkError(
            "the Spark session is stopped\n  hint: make a new one, as with gpuengine.spark_bridge.session()"
        )


def check_frame(spark: SparkSession, name: str, frame: object) -> None:
    """Raise `SparkError` unless relation `name` can be read from `frame` in this session.

    A DataFrame of another session will do if both are of the same application, as those of `newSession` are.
    """
    sql = _pyspark_sql()
    if is_connect(frame) and not is_connect(spark):
        raise SparkError(f"the DataFrame for {name} is one of Spark Connect, and the session is not")
    if not isinstance(frame, sql.DataFrame):
        raise SparkError(
            f"the facts of {name} must be a DataFrame of Spark, not {type(frame).__name__}\n"
            "  hint: spark.createDataFrame(...) makes one of an Arrow table or a list of rows"
        )
    if not _share_an_application(frame.sparkSession, spark):
        stopped = "" if is_connect(spark) else ", which is stopped"
        raise SparkError(
            f"the DataFrame for {name} belongs to another Spark session{stopped}\n"
            "  hint: read it again with the session that is given to this call"
        )
    if frame.isStreaming:
        raise SparkError(
            f"the DataFrame for {name} is a stream, which has no end\n"
            "  hint: hand over its batches one by one, in foreachBatch"
        )


def _pyspark_sql() -> Any:
    try:
        import pyspark.sql
    except ImportError as error:
        raise SparkError(f"PySpark is not installed ({error})\n  hint: {_INSTALL_PYSPARK}") from error
    return pyspark.sql


def _share_an_application(one: SparkSession, other: SparkSession) -> bool:
    if is_connect(other):
        # A server keeps sessions apart, so their frames don't go together.
        return one is other
    return one.sparkContext is other.sparkContext


def _is_live(spark: Any) -> bool:
    if is_connect(spark):
        return not spark.is_stopped
    from py4j.protocol import Py4JError

    context = spark.sparkContext
    if context._jsc is None:
        return False
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError):
        # The JVM is gone.
        return False


def _adapt(active: SparkSession, wanted: Mapping[str, str]) -> None:
    for key, value in wanted.items():
        if active.conf.get(key, None) == value:
            continue
        if not active.conf.isModifiable(key):
            raise SparkError(
                f"a Spark session is active already, and {key} can only be set when one is started\n"
                f"  hint: stop it first (spark.stop()), or start it with {key}={value}"
            )
        active.conf.set(key, value)


def _given_elsewhere() -> dict[str, str]:
    """The settings of spark-submit if that started this process, else those of spark-defaults.conf."""
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
    if SparkContext._jvm is not None:
        return dict(SparkConf().getAll())
    return dict(_defaults_file())


def _defaults_file() -> Iterator[tuple[str, str]]:
    from pyspark.find_spark_home import _find_spark_home

    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")
    path = folder / "spark-defaults.conf"
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        parts = re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1)
        if len(parts) == 2 and not parts[0].startswith(("#", "!")):
            yield parts[0], parts[1]


def _why_not_started(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    if causes:
        reason = causes[-1].removeprefix("Caused by: ").removeprefix(": ")
    return f"Spark can't be started: {reason}\n  hint: what the JVM wrote to the terminal may say more"


@cache
def java_version(java: str) -> int | None:
    """The major version; None if what it says of itself is not understood."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if match is None:
        return None
    # Up to Java 8 the version was written as 1.8.
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _is_local(master: str) -> bool:
    """Does everything run in the driver's process?"""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cores(master: str) -> int:
    match = re.match(r"local\[(\d+)", master)
    if match:
        return int(match[1])
    return 1 if master == "local" else usable_cores()


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


def ship_package(spark: SparkSession) -> None:
    """Make tasks that start from now on find this package, if it was loaded from a wheel on ``--py-files``.

    Spark copies a wheel to the executors, but only puts files that are named .zip, .egg or .jar on the path
    of their Python: a copy by such a name goes with it. Does so once for each application.
    """
    archive = getattr(gpuengine.__spec__.loader, "archive", None) if gpuengine.__spec__ else None
    if archive is None:
        return
    if is_connect(spark):
        _ship_to_server(spark, archive)
        return
    context: Any = spark.sparkContext
    if Path(archive).suffix in context.PACKAGE_EXTENSIONS:
        return
    name = f"{Path(archive).stem}.zip"
    if name in context._python_includes:
        return
    # Executors fetch it from where it was added, so it must stay: in a folder that Spark removes in the end.
    copy = Path(context._temp_dir) / name
    copyfile(archive, copy)
    context.addPyFile(str(copy))


def _ship_to_server(spark: Any, archive: str) -> None:
    """The same over Spark Connect, once for each session."""
    if spark in _shipped_to:
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"{Path(archive).stem}.zip"
        copyfile(archive, copy)
        spark.addArtifacts(str(copy), pyfile=True)
    _shipped_to.add(spark)
