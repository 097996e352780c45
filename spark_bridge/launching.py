"""Sessions of Spark: made with settings that suit the bridge, and checked before they are used.

A session of your own will do: nothing here is required of it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuengine.errors import SparkError
from gpuengine.spark_bridge.rapids import find_rapids_jar, rapids_conf
from gpuengine.spark_bridge.shipping import ship_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
RECORDS_PER_BATCH = 1 << 20
BYTES_PER_BATCH = 64 << 20
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
    """The active session, or a new one.

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
    """Raise `SparkError` unless this is a session of classic Spark that is not stopped."""
    sql = _pyspark_sql()
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise SparkError(
            "a session of Spark Connect can't be used: the bridge needs the driver's JVM\n"
            "  hint: run where the driver runs, as by spark-submit, with a session of its own"
        )
    if not isinstance(spark, sql.SparkSession):
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
    if type(frame).__module__.startswith("pyspark.sql.connect."):
        raise SparkError(f"the DataFrame for {name} is one of Spark Connect, and the session is not")
    if not isinstance(frame, sql.DataFrame):
        raise SparkError(
            f"the facts of {name} must be a DataFrame of Spark, not {type(frame).__name__}\n"
            "  hint: spark.createDataFrame(...) makes one of an Arrow table or a list of rows"
        )
    if frame.sparkSession.sparkContext is not spark.sparkContext:
        raise SparkError(
            f"the DataFrame for {name} belongs to another Spark session, which is stopped\n"
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


def _is_live(spark: Any) -> bool:
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
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if found is None:
        return None
    # Up to Java 8 the version was written as 1.8.
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


def _is_local(master: str) -> bool:
    """Does everything run in the driver's process?"""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cores(master: str) -> int:
    found = re.match(r"local\[(\d+)", master)
    if found:
        return int(found[1])
    return 1 if master == "local" else len(os.sched_getaffinity(0))
