"""What tests need beside the packages of their environment, fetched once: other versions of Spark, what Spark
Connect needs, jars of table formats.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from gpuengine.kernels.cpu.jit import cache_directory

CONNECT = ("grpcio>=1.67", "grpcio-status>=1.67", "googleapis-common-protos>=1.65", "zstandard>=0.25")
"""What PySpark's extra ``connect`` asks for besides what is here."""

TABLE_JARS = {
    "delta": ("io/delta/delta-spark_2.13/4.0.1", "io/delta/delta-storage/4.0.1"),
    "iceberg": ("org/apache/iceberg/iceberg-spark-runtime-4.0_2.13/1.10.2",),
}
"""Where Maven Central has them."""

_PY4J = {"3": "0.10.9.7", "4": "0.10.9.9"}


def fetch_pyspark(version: str) -> Path:
    """A folder to put before all others on the path of Python: 400 MB, half a minute of processor time."""
    wanted = [f"pyspark=={version}", f"py4j=={_PY4J[version[0]]}"]
    # It is built to a wheel first, which need not be small.
    return _fetched(
        f"pyspark-{version}", wanted, "--no-deps", "--config-settings=--build-option=--compression=stored"
    )


def fetch_connect() -> Path:
    """A folder to put on the path of Python."""
    return _fetched("spark-connect", CONNECT)


def _fetched(name: str, wanted: Sequence[str], *options: str) -> Path:
    folder = cache_directory() / "packages" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            beside = folder.with_name(f".{name}.{os.getpid()}")
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            done = subprocess.run(
                [*command, *options, "--target", beside, *wanted],
                capture_output=True,
                text=True,
                timeout=800,
                check=False,
            )
            assert done.returncode == 0, f"pip can't install {', '.join(wanted)}:\n{done.stderr[-3000:]}"
            beside.rename(folder)
    return folder


def fetch_table_jars() -> dict[str, list[Path]]:
    """The jars of each format (53 MB)."""
    return {format: [_fetched_jar(path) for path in paths] for format, paths in TABLE_JARS.items()}


def _fetched_jar(path: str) -> Path:
    name = "-".join(path.split("/")[-2:]) + ".jar"
    jar = cache_directory() / "jars" / name
    jar.parent.mkdir(parents=True, exist_ok=True)
    with (jar.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            beside = jar.with_suffix(f".{os.getpid()}")
            with urlopen(f"https://repo1.maven.org/maven2/{path}/{name}", timeout=300) as answer:
                beside.write_bytes(answer.read())
            beside.rename(jar)
    return jar
