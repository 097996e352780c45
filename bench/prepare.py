"""Facts on disk, plain and once: unpack those of the repository, run generators.

Everything goes to one data folder; a folder that exists is complete (it is filled under another name
and then renamed) and is kept until the source is newer or `VERSION` changes.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.catalogue import PROGRAMS, Workload

ROOT = Path(__file__).parent.parent
# Change when a generator changes, so that old facts are not taken for new ones.
VERSION = "1"


@dataclass(frozen=True, slots=True)
class Places:
    """Where packed workloads and graphs are found, and where unpacked and generated facts go."""

    workloads: Path = Path(__file__).parent / "workloads"
    graphs: Path = Path(__file__).parent / "graphs"
    data: Path = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload ready to run."""

    workload: Workload
    program: Path
    facts: Path


def prepare(workload: Workload, places: Places) -> Prepared:
    """Make sure that the facts are there; returns where program and facts are."""
    source = workload.source
    if source.kind == "packed":
        folder = places.workloads / source.name
        packed = sorted(folder.glob("*.facts.gz"))
        facts = places.data / "packed" / source.name
        once(facts, packed, lambda into: _unpack({p: into / p.stem for p in packed}))
        return Prepared(workload, folder / workload.program, facts)
    if source.kind == "graph":
        packed_graph = places.graphs / source.name
        facts = places.data / "graphs" / source.name.removesuffix(".gz").removesuffix(".facts")
        once(facts, [packed_graph], lambda into: _unpack({packed_graph: into / "edge.facts"}))
        return Prepared(workload, PROGRAMS / workload.program, facts)
    facts = places.data / "generated" / f"{source.name}-{source.size}-v{VERSION}"
    once(facts, [], lambda into: _generate(source.name, source.size, into))
    own = facts / workload.program
    return Prepared(workload, own if own.exists() else PROGRAMS / workload.program, facts)


def once(folder: Path, sources: list[Path], fill: Callable[[Path], None]) -> None:
    """Fill `folder` unless it is there and newer than its sources."""
    if folder.exists() and all(s.stat().st_mtime <= folder.stat().st_mtime for s in sources):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        filling = Path(scratch) / folder.name
        filling.mkdir()
        fill(filling)
        shutil.rmtree(folder, ignore_errors=True)
        filling.rename(folder)


def _unpack(files: dict[Path, Path]) -> None:
    for packed, target in files.items():
        with gzip.open(packed, "rb") as reader, target.open("wb") as writer:
            shutil.copyfileobj(reader, writer)


def _generate(name: str, size: int, folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "bench.generate", name, str(size), str(folder)], cwd=ROOT, check=True
    )
