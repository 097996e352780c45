"""The jar of the RAPIDS Accelerator, fetched once by Maven, and what its explanations mean."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from gpuengine.spark_bridge.rapids import ARTIFACT, RAPIDS_VERSION


def fetch_rapids_jar() -> Path:
    """The jar in Maven's cache, fetched first if it is not there (576 MB)."""
    folder = Path.home() / ".m2/repository/com/nvidia/rapids-4-spark_2.13" / RAPIDS_VERSION
    jar = folder / f"rapids-4-spark_2.13-{RAPIDS_VERSION}-cuda13.jar"
    if not jar.is_file():
        maven = shutil.which("mvn")
        assert maven is not None, (
            "these tests fetch the RAPIDS jar with Maven: install it (apt install maven)"
        )
        command = [maven, "-q", "-B", "dependency:get", f"-Dartifact={ARTIFACT}", "-Dtransitive=false"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, (
            f"Maven can't fetch {ARTIFACT}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    assert jar.is_file(), f"Maven fetched {ARTIFACT}, but it is not at {jar}"
    return jar


def not_on_gpu(explanation: str) -> list[str]:
    """The lines of an explanation ("ALL") that tell of something that would not run on the GPU.

    A line begins with ``*`` if its part of the plan runs on the GPU; ``#`` if RAPIDS leaves it out; ``!`` if
    it can't run on the GPU; ``^`` if it runs on the CPU amid the GPU's work, rows going to and fro;
    ``@`` if it could run there but does not. Those that are under one that can't are not told again.
    """
    found: list[str] = []
    blocked: int | None = None
    for line in explanation.splitlines():
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
