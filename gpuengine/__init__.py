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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuengine.engine import Engine as Engine
    from gpuengine.errors import GpuEngineError as GpuEngineError
    from gpuengine.errors import Interrupted as Interrupted
    from gpuengine.errors import StoreError as StoreError
    from gpuengine.opening import open as open

__version__ = "0.1.0"
__all__ = ["Engine", "GpuEngineError", "Interrupted", "StoreError", "__version__", "open"]

_HOME = {
    "Engine": "gpuengine.engine",
    "GpuEngineError": "gpuengine.errors",
    "Interrupted": "gpuengine.errors",
    "StoreError": "gpuengine.errors",
    "open": "gpuengine.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gpuengine' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
