"""Open a knowledge base that was saved."""

from __future__ import annotations

import os
from typing import Any

from gpuengine.engine import Engine
from gpuengine.errors import StoreError
from gpuengine.language.editing import ProgramText
from gpuengine.maintenance.persistence import restore
from gpuengine.maintenance.store import Store


def open(path: str | os.PathLike[str], *, read_only: bool = False, **options: Any) -> Engine:
    """The knowledge base in a directory, as `Engine.save` and the updates since left it.

    No rule is evaluated for that. Every update that returns is on the disk. One process at a time may have
    it open to write; with `read_only`, others read it meanwhile: what was there when they opened it.
    `options` are those of `Engine`: threads, memory, backend, device, device_memory, thresholds.
    """
    store = Store.open(path, read_only=read_only)
    try:
        snapshot = store.load()
        try:
            text = ProgramText.from_json(snapshot.meta["program"])
            modules, schemes = snapshot.meta["modules"], snapshot.meta["asked_schemes"]
        except KeyError as error:
            raise StoreError(
                f"{path} has no {error} in its meta data; it was not written by save()"
            ) from error
        options.setdefault("counting", snapshot.meta["counting"])
        engine = Engine(text, modules=modules, schemes=schemes, **options)
        restore(engine, snapshot)
        engine.attach(store)
    except BaseException:
        store.close()
        raise
    return engine
