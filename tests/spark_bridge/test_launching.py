"""Sessions that are made and sessions that are given."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from gpuengine.errors import SparkError
from gpuengine.spark_bridge.sessions import (
    check_frame,
    check_session,
    default_conf,
    find_rapids_jar,
    rapids_conf,
    session,
)
from tests.spark_bridge.scripts import run_script, start_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAKE = """
import json, os, sys
from gpuengine.errors import SparkError
from gpuengine.spark_bridge.sessions import session
options = json.loads(sys.argv[1])
conf = {"spark.ui.enabled": "false"} | options.pop("conf", {})
try:
    spark = session(conf=conf, **options)
except SparkError as error:
    print(json.dumps({"error": str(error)}))
    sys.exit()
names = ("spark.master", "spark.app.name", "spark.driver.host", "spark.sql.adaptive.enabled",
         "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.shuffle.partitions")
found = {name: spark.conf.get(name) for name in names}
def workers(batches):
    import pyarrow, sys
    yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable]})
found["python"] = spark.range(1).mapInArrow(workers, "python string").first().python
assert session() is spark
spark.stop()
print(json.dumps(found))
"""


def make(folder: Path, env: dict[str, str | None] | None = None, **options: object) -> dict[str, str]:
    out = run_script(MAKE, folder, json.dumps(options), env=env)
    made: dict[str, str] = json.loads(out.splitlines()[-1])
    return made


def java_that_says(folder: Path, text: str) -> str:
    """A folder to be JAVA_HOME whose java prints this."""
    java = folder / "jvm" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    return str(folder / "jvm")


@pytest.mark.slow
def test_a_new_session_has_our_defaults_and_the_running_python(tmp_path: Path) -> None:
    found = make(tmp_path, {"PYSPARK_PYTHON": None}, master="local[3]")
    assert found == {
        "spark.master": "local[3]",
        "spark.app.name": "gpuengine",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 20),
        "spark.sql.shuffle.partitions": "12",
        "python": sys.executable,
    }


@pytest.mark.slow
def test_what_a_user_sets_wins_over_spark_defaults_and_these_over_ours(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# site\nspark.sql.shuffle.partitions   7\nspark.master=local[1]\nspark.sql.adaptive.enabled true\n"
    )
    found = make(
        tmp_path,
        {"SPARK_CONF_DIR": str(tmp_path)},
        app_name="mine",
        conf={"spark.sql.adaptive.enabled": "false"},
    )
    assert found["spark.sql.shuffle.partitions"] == "7"
    assert found["spark.master"] == "local[1]"
    assert found["spark.sql.adaptive.enabled"] == "false"
    assert found["spark.app.name"] == "mine"


def test_no_java(tmp_path: Path) -> None:
    error = make(tmp_path, {"PATH": str(tmp_path), "JAVA_HOME": None})["error"]
    assert "needs Java, and there is none on the PATH" in error and "hint: install Java 17" in error


def test_a_java_home_without_java(tmp_path: Path) -> None:
    error = make(tmp_path, {"JAVA_HOME": str(tmp_path)})["error"]
    assert f"JAVA_HOME is {tmp_path}" in error and "hint: install Java 17" in error


@pytest.mark.parametrize(
    ("says", "version"), [('java version "1.8.0_392"', "8"), ('openjdk version "11.0.2"', "11")]
)
def test_a_java_that_is_too_old(tmp_path: Path, says: str, version: str) -> None:
    error = make(tmp_path, {"JAVA_HOME": java_that_says(tmp_path, says)})["error"]
    assert "Spark 4 needs Java 17 or 21" in error and f"is Java {version}" in error


def test_a_java_that_does_not_start_spark(tmp_path: Path) -> None:
    error = make(tmp_path, {"JAVA_HOME": java_that_says(tmp_path, 'openjdk version "21" 2023-09-19')})[
        "error"
    ]
    assert error.startswith("Spark can't be started: ") and "hint" in error


def test_no_pyspark(tmp_path: Path) -> None:
    text = f"import sys\nsys.modules['pyspark'] = None\n{MAKE}"
    done = start_script(text, tmp_path, "{}")
    assert "PySpark is not installed" in done.stdout and "gpuengine[spark]" in done.stdout


def test_the_active_session_is_returned_and_takes_what_can_be_changed(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert before is not None
    assert session() is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    try:
        assert session(conf={"spark.sql.shuffle.partitions": "5"}) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "5"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_the_active_session_can_not_become_another(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SparkError, match=r"spark\.master can only be set when one is started"):
        session(master="local[7]")
    jar = tmp_path / "rapids.jar"
    jar.touch()
    with pytest.raises(SparkError, match=r"spark\.plugins can only be set .*\n  hint: stop it first"):
        session(rapids=True, rapids_jar=jar)


def test_a_missing_rapids_jar_tells_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GPUENGINE_RAPIDS_JAR", raising=False)
    with pytest.raises(SparkError, match=r"mvn dependency:get -Dartifact=com\.nvidia:rapids-4-spark_2\.13"):
        session(rapids=True)
    with pytest.raises(SparkError, match="there is no RAPIDS jar at"):
        find_rapids_jar(tmp_path / "none.jar")
    (tmp_path / "some.jar").touch()
    monkeypatch.setenv("GPUENGINE_RAPIDS_JAR", str(tmp_path / "some.jar"))
    assert find_rapids_jar(None) == str(tmp_path / "some.jar")


def test_rapids_settings_leave_room_on_the_gpu_for_python() -> None:
    conf = rapids_conf(1, "/jars/rapids.jar")
    assert conf["spark.driver.extraClassPath"] == conf["spark.executor.extraClassPath"] == "/jars/rapids.jar"
    shares = [conf[f"spark.rapids.{part}memory.gpu.maxAllocFraction"] for part in ("", "python.")]
    assert sum(map(float, shares)) < 1
    assert float(conf["spark.task.resource.gpu.amount"]) * 100 <= float(
        conf["spark.executor.resource.gpu.amount"]
    )
    with pytest.raises(SparkError, match="one GPU for each executor, not 2"):
        rapids_conf(2, "/jars/rapids.jar")


def test_clusters_keep_their_own_sizes() -> None:
    conf = default_conf("spark://master:7077")
    assert not {"spark.driver.host", "spark.driver.memory", "spark.sql.shuffle.partitions"} & conf.keys()
    assert default_conf("local-cluster[2,1,1024]")["spark.driver.host"] == "127.0.0.1"


def test_sessions_that_can_not_be_used(spark: SparkSession) -> None:
    check_session(spark)
    with pytest.raises(SparkError, match="expected a SparkSession, got str"):
        check_session("local[2]")


def test_frames_that_can_not_be_used(spark: SparkSession, tmp_path: Path) -> None:
    check_frame(spark, "edge", spark.range(3))
    with pytest.raises(SparkError, match="the facts of edge must be a DataFrame of Spark, not Table"):
        check_frame(spark, "edge", pa.table({"a": [1]}))
    stream = spark.readStream.format("rate").load()
    with pytest.raises(SparkError, match="the DataFrame for edge is a stream"):
        check_frame(spark, "edge", stream)


def test_a_frame_of_another_session_of_the_same_application_can_be_joined(spark: SparkSession) -> None:
    other = spark.newSession().range(5)
    check_frame(spark, "edge", other)
    assert spark.range(3).join(other, "id").count() == 3


@pytest.mark.slow
def test_stopped_sessions_their_frames_and_spark_connect(tmp_path: Path) -> None:
    text = """
from pyspark.sql import SparkSession
from gpuengine.errors import SparkError
from gpuengine.spark_bridge.sessions import check_frame, check_session, session
quiet = {"spark.ui.enabled": "false"}
def tell(check, *args):
    try:
        check(*args)
        print("fine")
    except SparkError as error:
        print(str(error).splitlines()[0])
first = session(master="local[1]", conf=quiet)
frame = first.range(3)
first.stop()
tell(check_session, first)
second = session(master="local[1]", conf=quiet)
tell(check_session, second)
tell(check_frame, second, "edge", frame)
Remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "is_stopped": True})
tell(check_session, Remote())
RemoteFrame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
tell(check_frame, second, "edge", RemoteFrame())
jvm = second.sparkContext._gateway.proc
jvm.kill()
jvm.wait()
tell(check_session, second)
"""
    lines = run_script(text, tmp_path).splitlines()
    assert lines == [
        "the Spark session is stopped",
        "fine",
        "the DataFrame for edge belongs to another Spark session, which is stopped",
        "the Spark session is stopped",
        "the DataFrame for edge is one of Spark Connect, and the session is not",
        "the Spark session is stopped",
    ]
