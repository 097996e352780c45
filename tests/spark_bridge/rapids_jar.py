"""The jar of the RAPIDS Accelerator, fetched once from Maven Central, and what its explanations mean."""

from __future__ import annotations

import re
from pathlib import Path

from gpuengine.spark_bridge.sessions import RAPIDS_VERSION
from tests.spark_bridge.packages import fetch_jar

_BEGINNING = re.compile(r"\s*[*#!@^]")
_MODULE = "rapids-4-spark_2.13"
_CLASSIFIER = "cuda13"


def fetch_rapids_jar() -> Path:
    """The jar in Maven's cache or in ours, fetched by PySpark's Ivy if it is in neither (576 MB)."""
    name = f"{_MODULE}-{RAPIDS_VERSION}-{_CLASSIFIER}.jar"
    by_maven = Path.home() / ".m2/repository/com/nvidia" / _MODULE / RAPIDS_VERSION / name
    if by_maven.is_file():
        return by_maven
    return fetch_jar("rapids", "com.nvidia", _MODULE, RAPIDS_VERSION, _CLASSIFIER)


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
