"""gpuengine: Datalog materialisation on columnar arrays.

    import gpuengine as ge
    kb = ge.Engine("reach.dl")
    kb.load("edge", table)
    kb.materialise()
    kb["path"].to_arrow()
    with kb.update() as u:
        u.delete("edge", gone)
    kb.save("kb/")
    kb = ge.open("kb/")

The names below load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuengine.engine import Engine as Engine
    from gpuengine.errors import GpuEngineError as GpuEngineError
    from gpuengine.errors import Interrupted as Interrupted
    from gpuengine.errors import StoreError as StoreError
    from gpuengine.errors import TimedOut as TimedOut
    from gpuengine.opening import open as open
    from gpuengine.rdf.engine import RdfEngine as RdfEngine
    from gpuengine.temporal.engine import TemporalEngine as TemporalEngine
    from gpuengine.terms.functions import functor as functor

__version__ = "0.1.0"
__all__ = [
    "Engine",
    "GpuEngineError",
    "Interrupted",
    "RdfEngine",
    "StoreError",
    "TemporalEngine",
    "TimedOut",
    "__version__",
    "functor",
    "open",
]

_HOME = {
    "Engine": "gpuengine.engine",
    "GpuEngineError": "gpuengine.errors",
    "Interrupted": "gpuengine.errors",
    "RdfEngine": "gpuengine.rdf.engine",
    "StoreError": "gpuengine.errors",
    "TemporalEngine": "gpuengine.temporal.engine",
    "TimedOut": "gpuengine.errors",
    "functor": "gpuengine.terms.functions",
    "open": "gpuengine.opening",
}


def unsupported() -> str | None:
    """Why this package can't work on this operating system, if so."""
    if sys.platform == "win32":
        return "gpuengine runs on Linux and macOS; on Windows, use it inside WSL"
    return None


def load_ipython_extension(ipython: Any) -> None:
    """What ``%load_ext gpuengine`` calls."""
    import_module("gpuengine.notebook").load(ipython)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gpuengine' has no attribute {name!r}")
    if name in ("Engine", "RdfEngine", "open") and (why := unsupported()) is not None:
        raise ImportError(why)
    return getattr(import_module(_HOME[name]), name)
