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

from gpuengine.kernels.cpu.jit import cache_directory
from gpuengine.spark_bridge.sessions import find_java

CONNECT = ("grpcio>=1.67", "grpcio-status>=1.67", "googleapis-common-protos>=1.65", "zstandard>=0.25")
"""What PySpark's extra ``connect`` asks for besides what is here."""

TABLE_JARS = {
    "delta": [("io.delta", "delta-spark_2.13", "4.0.1"), ("io.delta", "delta-storage", "4.0.1")],
    "iceberg": [("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.10.2")],
}
"""What Maven Central has of them."""

# POMs must not be read: that of RAPIDS has a parent that is not published.
_SETTINGS = """
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""

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
    return {
        format: [fetch_jar("jars", *coordinates) for coordinates in jars]
        for format, jars in TABLE_JARS.items()
    }


def fetch_jar(folder: str, organisation: str, module: str, version: str, classifier: str = "") -> Path:
    """A jar of Maven Central in a folder of our cache, fetched by PySpark's Ivy if it is not there."""
    cache = cache_directory() / folder
    cache.mkdir(parents=True, exist_ok=True)
    pattern = f"{organisation}/{module}/jars/*{version}*.jar"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jars = sorted(cache.glob(pattern))
        if not jars:
            _fetch_by_ivy(cache, organisation, module, version, classifier)
            jars = sorted(cache.glob(pattern))
    assert jars, f"Ivy fetched {module} {version}, but it is not in {cache}"
    return jars[0]


def _fetch_by_ivy(cache: Path, organisation: str, module: str, version: str, classifier: str) -> None:
    import pyspark

    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    java = find_java()
    assert java is not None, "these tests need Java"
    settings, wanted = cache / "settings.xml", cache / "ivy.xml"
    settings.write_text(_SETTINGS)
    classified = f' e:classifier="{classifier}"' if classifier else ""
    wanted.write_text(
        f"""
<ivy-module version="2.0" xmlns:e="http://ant.apache.org/ivy/extra">
  <info organisation="gpuengine" module="tests"/>
  <dependencies>
    <dependency org="{organisation}" name="{module}" rev="{version}" transitive="false">
      <artifact name="{module}" type="jar" ext="jar"{classified}/>
    </dependency>
  </dependencies>
</ivy-module>
"""
    )
    command = [java, "-jar", ivy, "-settings", settings, "-ivy", wanted, "-cache", cache]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"Ivy can't fetch {module} {version}:\n{done.stdout[-3000:]}"
