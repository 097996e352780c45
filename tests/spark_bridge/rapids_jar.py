"""The jar of the RAPIDS Accelerator, fetched once from Maven Central, and what its explanations mean."""

from __future__ import annotations

import fcntl
import re
import subprocess
from pathlib import Path

from gpuengine.kernels.cpu.jit import cache_directory
from gpuengine.spark_bridge.sessions import RAPIDS_VERSION, find_java

_BEGINNING = re.compile(r"\s*[*#!@^]")
_MODULE = "rapids-4-spark_2.13"
_CLASSIFIER = "cuda13"

# Its POM has a parent that is not published, so it must not be read.
_SETTINGS = """
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
_WANTED = f"""
<ivy-module version="2.0" xmlns:e="http://ant.apache.org/ivy/extra">
  <info organisation="gpuengine" module="tests"/>
  <dependencies>
    <dependency org="com.nvidia" name="{_MODULE}" rev="{RAPIDS_VERSION}" transitive="false">
      <artifact name="{_MODULE}" type="jar" ext="jar" e:classifier="{_CLASSIFIER}"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def fetch_rapids_jar() -> Path:
    """The jar in Maven's cache or in ours, fetched by PySpark's Ivy if it is in neither (576 MB)."""
    name = f"{_MODULE}-{RAPIDS_VERSION}-{_CLASSIFIER}.jar"
    by_maven = Path.home() / ".m2/repository/com/nvidia" / _MODULE / RAPIDS_VERSION / name
    if by_maven.is_file():
        return by_maven
    folder = cache_directory() / "rapids"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = sorted(folder.glob(f"com.nvidia/{_MODULE}/jars/*{RAPIDS_VERSION}*.jar"))
        if not found:
            _fetch(folder)
            found = sorted(folder.glob(f"com.nvidia/{_MODULE}/jars/*{RAPIDS_VERSION}*.jar"))
    assert found, f"Ivy fetched the RAPIDS jar, but it is not in {folder}"
    return found[0]


def _fetch(folder: Path) -> None:
    import pyspark

    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    java = find_java()
    assert java is not None, "these tests need Java"
    settings, wanted = folder / "settings.xml", folder / "ivy.xml"
    settings.write_text(_SETTINGS)
    wanted.write_text(_WANTED)
    command = [java, "-jar", ivy, "-settings", settings, "-ivy", wanted, "-cache", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"Ivy can't fetch {_MODULE} {RAPIDS_VERSION}:\n{done.stdout[-3000:]}"


def not_on_gpu(explanation: str) -> list[str]:
    """The lines of an explanation ("ALL") that tell of something that would not run on the GPU.

    A line begins with ``*`` if its part of the plan runs on the GPU; ``#`` if RAPIDS leaves it out; ``!`` if
    it can't run on the GPU; ``^`` if it runs on the CPU amid the GPU's work, rows going to and fro;
    ``@`` if it could run there but does not. Those that are under one that can't are not told again.
    """
    found: list[str] = []
    blocked: int | None = None
    for line in _whole_lines(explanation):
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if not text:
            continue
        if blocked is not None and depth <= blocked:
            blocked = None
        if text[0] == "!" or text[0] == "^":
            found.append(text)
            blocked = depth if blocked is None else blocked
        elif text[0] == "@" and blocked is None:
            found.append(text)
        elif text[0] not in "*#@":
            raise ValueError(f"not a line of an explanation: {line!r}")
    return found


def _whole_lines(explanation: str) -> list[str]:
    """Constants with line breaks are written as they are, so that a line may go on in the next."""
    lines: list[str] = []
    for line in explanation.splitlines():
        if lines and line.strip() and _BEGINNING.match(line) is None:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return lines
