"""Knowledge bases in directories, as several commands need them."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.functors import functions_of
from gpuengine.errors import StoreError

if TYPE_CHECKING:
    from gpuengine.engine import Engine
    from gpuengine.rdf.engine import RdfEngine
    from gpuengine.temporal.engine import TemporalEngine


def open_knowledge_base(path: Path, arguments: argparse.Namespace, *, read_only: bool) -> Engine:
    """The engine of a knowledge base; of one of RDF the engine that keeps its triples."""
    from gpuengine.engine import Engine
    from gpuengine.rdf.engine import RdfEngine

    engine = open_any(path, arguments, read_only=read_only)
    if isinstance(engine, RdfEngine):
        return engine.engine
    assert isinstance(engine, Engine)
    return engine


def open_any(
    path: Path, arguments: argparse.Namespace, *, read_only: bool
) -> Engine | TemporalEngine | RdfEngine:
    """What was saved, with the options that the arguments have for it."""
    from gpuengine.opening import open as open_engine

    refuse_those_of_spark(path)
    return open_engine(
        path,
        read_only=read_only,
        threads=getattr(arguments, "jobs", None),
        memory=getattr(arguments, "memory", None),
        backend=getattr(arguments, "backend", "cpu"),
        device=getattr(arguments, "device", 0),
        device_memory=getattr(arguments, "device_memory", None),
        **functions_of(arguments),
    )


def is_knowledge_base(path: Path) -> bool:
    """Does it look like one? Opening it tells."""
    return (path / "manifest.json").is_file()


def is_saved_by_spark(path: Path) -> bool:
    """Did ``run --on spark --save`` write it?"""
    return (path / "saved.json").is_file()


def is_temporal_base(path: Path) -> bool:
    """Is it a knowledge base of DatalogMTL?"""
    from gpuengine.maintenance.store.state import read_state

    return is_knowledge_base(path) and read_state(path, "none").meta.get("language") == "mtl"


def is_rdf_base(path: Path) -> bool:
    """Is it a knowledge base of RDF?"""
    from gpuengine.maintenance.store.state import read_state

    if not is_knowledge_base(path):
        return False
    return read_state(path, "none").meta.get("notes", {}).get("language") == "rdf"


def refuse_those_of_spark(path: Path) -> None:
    """Raise if it is no knowledge base of an engine, but a materialisation that Spark has saved."""
    if is_saved_by_spark(path):
        raise StoreError(
            f"{path} was saved by Spark, as Parquet, and an engine can't open it\n"
            f"  hint: gpuengine update {path} --on spark changes it; in Python, "
            f"gpuengine.spark_bridge.open(spark, '{path}') reads it"
        )


def check_target(path: Path, *, replace: bool) -> None:
    """Raise if a knowledge base can't be saved there; saving checks again, but that is after the work."""
    from gpuengine.maintenance.store.lock import WriterLock
    from gpuengine.maintenance.store.manifest import is_store_file

    if is_knowledge_base(path):
        if not replace:
            raise StoreError(
                f"{path} is a knowledge base already\n  hint: --replace replaces it; update changes it"
            )
        WriterLock.acquire(path).release()
    elif path.exists() and not path.is_dir():
        raise StoreError(f"can't save to {path}: it is a file\n  hint: choose a directory, new or empty")
    elif path.is_dir() and not all(is_store_file(entry.name) for entry in path.iterdir()):
        raise StoreError(
            f"can't save to {path}: it is not empty, and not a knowledge base\n"
            "  hint: choose a directory, new or empty"
        )
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise StoreError(f"can't save to {path}: {existing} can't be written")


def generation(path: Path) -> int | None:
    """The number of the generation, another one once a knowledge base is saved; None if there is none."""
    from gpuengine.maintenance.store.manifest import read_manifest

    try:
        return read_manifest(path).generation
    except StoreError:
        return None


class Mark:
    """Where a knowledge base that this process has open to write is; it knows whether a commit followed."""

    def __init__(self, path: Path) -> None:
        from gpuengine.maintenance.store.manifest import read_manifest

        self._path = path
        manifest = read_manifest(path)
        self._place = manifest.generation, (path / manifest.journal).stat().st_size

    @property
    def is_passed(self) -> bool:
        """Is there a whole commit that was not there before?"""
        from gpuengine.maintenance.store.state import read_state

        state = read_state(self._path, "none")
        return (state.manifest.generation, state.scan.end) != self._place


def writer_of(path: Path) -> str | None:
    """Which process has it open to write, as that process put it; None if there is none, or none is known.

    The lock is not touched for that: who tries it holds it, and might keep a writer out.
    """
    try:
        holder = (path / "lock").read_text(errors="replace")
        inode = (path / "lock").stat().st_ino
        locks = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    process = re.match(r"process (\d+) ", holder)
    if process is None:
        return None
    # 1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF
    held = (fields for fields in map(str.split, locks) if len(fields) > 5 and fields[1] == "FLOCK")
    own = (process[1], str(inode))
    return holder if any((fields[4], fields[5].rpartition(":")[2]) == own for fields in held) else None
