"""Open a knowledge base that was saved."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuengine.engine import Engine
from gpuengine.errors import StoreError
from gpuengine.language.editing import ProgramText
from gpuengine.maintenance.persistence import restore
from gpuengine.maintenance.store import Store
from gpuengine.planning.evaluators import check_evaluated

if TYPE_CHECKING:
    from gpuengine.maintenance.store import Snapshot
    from gpuengine.rdf.engine import RdfEngine
    from gpuengine.temporal.engine import TemporalEngine

_OF_TEMPORAL = ("memory", "wait", "backend", "device", "device_memory")


def open(
    path: str | os.PathLike[str], *, read_only: bool = False, **options: Any
) -> Engine | TemporalEngine | RdfEngine:
    """The knowledge base in a directory, as `Engine.save` and the updates since left it.

    No rule is evaluated for that. Every update that returns is on the disk. One process at a time may have
    it open to write; with `read_only`, others read it meanwhile: what was there when they opened it.
    One that `RdfEngine.save` wrote is an `RdfEngine` again.
    One that `TemporalEngine.save` wrote is a `TemporalEngine` again, and takes its: memory, wait, backend,
    device and device_memory.
    `options` are those of `Engine`: threads, memory, backend, device, device_memory, thresholds, evaluators.
    """
    for name in ("schemes", "modules", "include_dirs", "macros"):
        if name in options:
            raise StoreError(f"{name} can't be given to open(): those that were saved go on")
    store = Store.open(path, read_only=read_only)
    if store.discarded_bytes:
        warnings.warn(
            f"{path}: {store.discarded_bytes:,} bytes of an update that was never finished were dropped; "
            "what was committed is there",
            stacklevel=2,
        )
    try:
        snapshot = store.load()
        if snapshot.meta.get("language") == "mtl":
            return _open_temporal(snapshot, store, options)
        try:
            meta = snapshot.meta
            if meta.get("notes", {}).get("language") == "rdf":
                import gpuengine.rdf.engine  # noqa: F401  (its functors are those of the program)
            text = ProgramText.from_json(meta["program"])
            options.setdefault("counting", meta["counting"])
            asked = options.get("evaluators")
            options.setdefault("evaluators", meta.get("asked_evaluators"))
            engine = Engine(text, modules=meta["modules"], schemes=meta["asked_schemes"], **options)
            check_evaluated(engine.program, engine.source, asked or ())
            engine.adopt(restore(engine.current, snapshot, engine.options))
        except KeyError as error:
            raise StoreError(
                f"{path} is a store, but not one that save() wrote: no {error} in its meta data"
            ) from error
        engine.attach(store)
        if engine.current.notes.get("language") == "rdf":
            from gpuengine.rdf.saving import restored

            return restored(engine)
    except BaseException:
        store.close()
        raise
    return engine


def _open_temporal(snapshot: Snapshot, store: Store, options: Mapping[str, Any]) -> TemporalEngine:
    from gpuengine.temporal.saving import restore

    for name, value in options.items():
        if name not in _OF_TEMPORAL and value is not None:
            raise StoreError(f"{name} can't be given to open() for a temporal knowledge base")
    return restore(snapshot, store, {name: options[name] for name in _OF_TEMPORAL if name in options})
