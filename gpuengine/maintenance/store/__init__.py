"""The durable store of a knowledge base: named tables of ids, a term dictionary and a JSON object."""

from __future__ import annotations

from gpuengine.maintenance.store.contents import Commit, Snapshot, StoredTable
from gpuengine.maintenance.store.store import Store

__all__ = ["Commit", "Snapshot", "Store", "StoredTable"]
