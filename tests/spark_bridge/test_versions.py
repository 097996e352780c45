"""The same essentials with other versions of Spark, and over Spark Connect: each in a process of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpuengine.errors import SparkError
from gpuengine.spark_bridge import versions
from tests.spark_bridge.packages import fetch_connect, fetch_pyspark
from tests.spark_bridge.scripts import ROOT, run_script

OTHERS = os.environ.get("GPUENGINE_SPARK_VERSIONS", "4.1.4").split()
"""`make test-spark-matrix` sets it to all that `make test` leaves out."""

SERVER = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
builder = builder.config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
spark = builder.config("spark.connect.grpc.binding.port", sys.argv[1]).getOrCreate()
print("ready", flush=True)
sys.stdin.read()
spark.stop()
"""
RUN = "from tests.spark_bridge.essentials import main; main()"


@pytest.mark.slow
@pytest.mark.parametrize("version", OTHERS)
def test_another_version_of_spark(version: str, tmp_path: Path) -> None:
    spark = fetch_pyspark(version)
    env = {"PYTHONPATH": os.pathsep.join([str(spark), str(ROOT)]), "SPARK_HOME": str(spark / "pyspark")}
    out = run_script(RUN, tmp_path, str(tmp_path), env=env, timeout=700)
    assert f"Spark {version}\n" in out and out.endswith("done\n")


@pytest.mark.slow
def test_spark_connect(tmp_path: Path) -> None:
    """With a server in another process, which ends when nobody writes to it any more."""
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(fetch_connect())])}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)],
        env=os.environ | env | {"PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        assert server.stdout.readline() == "ready\n"
        out = run_script(RUN, tmp_path, str(tmp_path), f"sc://127.0.0.1:{port}", env=env, timeout=700)
    finally:
        server.stdin.close()
        server.wait(60)
    assert "without_the_jvm" in out and out.endswith("done\n")


def test_a_feature_that_is_not_there_names_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "version", lambda: (3, 5))
    for feature, (major, minor) in versions.FEATURES.items():
        with pytest.raises(SparkError, match=re.escape(f"{feature} needs PySpark {major}.{minor} or newer")):
            versions.require(feature)
    versions.require_supported()
    monkeypatch.setattr(versions, "version", lambda: (3, 4))
    with pytest.raises(SparkError, match=r"is too old: 3\.5 is the oldest that will do"):
        versions.require_supported()
    monkeypatch.setattr(versions, "version", lambda: (4, 2))
    for feature in versions.FEATURES:
        versions.require(feature)


def test_the_docs_and_the_makefile_know_the_same_versions() -> None:
    def minors(text: str) -> set[tuple[int, ...]]:
        return {tuple(map(int, one.split("."))) for one in re.findall(r"\b([34]\.\d)\b", text)}

    page = (ROOT / "docs" / "spark.md").read_text()
    rows = re.findall(r"^\| PySpark (\d\.\d) \|", page, re.MULTILINE)
    tested = {tuple(map(int, row.split("."))) for row in rows}
    (oldest, beyond) = re.findall(r'"pyspark>=([\d.]+),<([\d.]+)"', (ROOT / "pyproject.toml").read_text())[0]
    assert minors(oldest) == {min(tested)} == {versions.OLDEST}
    assert minors(beyond) == {(max(tested)[0], max(tested)[1] + 1)}
    matrix = re.search(r"GPUENGINE_SPARK_VERSIONS='([^']*)'", (ROOT / "Makefile").read_text())
    assert matrix is not None
    assert minors(f"{matrix[1]} 4.0 {' '.join(OTHERS)}") == tested
