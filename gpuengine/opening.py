"""Open a knowledge base that was saved."""

from __future__ import annotations

import os
from typing import Any

from gpuengine.engine import Engine
from gpuengine.errors import StoreError
from gpuengine.language.editing import ProgramText
from gpuengine.maintenance.persistence import restore
from gpuengine.maintenance.store import Store
from gpuengine.planning.evaluators import check_evaluated


def open(path: str | os.PathLike[str], *, read_only: bool = False, **options: Any) -> Engine:
    """The knowledge base in a directory, as `Engine.save` and the updates since left it.

    No rule is evaluated for that. Every update that returns is on the disk. One process at a time may have
    it open to write; with `read_only`, others read it meanwhile: what was there when they opened it.
    `options` are those of `Engine`: threads, memory, backend, device, device_memory, thresholds, evaluators.
    """
    for name in ("schemes", "modules", "include_dirs", "macros"):
        if name in options:
            raise StoreError(f"{name} can't be given to open(): those that were saved go on")
    store = Store.open(path, read_only=read_only)
    try:
        snapshot = store.load()
        try:
            meta = snapshot.meta
            text = ProgramText.from_json(meta["program"])
            options.setdefault("counting", meta["counting"])
            asked = options.get("evaluators")
            options.setdefault("evaluators", meta.get("asked_evaluators"))
            engine = Engine(text, modules=meta["modules"], schemes=meta["asked_schemes"], **options)
            check_evaluated(engine.program, engine.source, asked or ())
            restore(engine, snapshot)
        except KeyError as error:
            raise StoreError(
                f"{path} is a store, but not one that save() wrote: no {error} in its meta data"
            ) from error
        engine.attach(store)
    except BaseException:
        store.close()
        raise
    return engine
