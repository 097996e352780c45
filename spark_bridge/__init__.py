"""DataFrames in and out: a pipeline on Spark, and the fixpoint distributed where one machine is too small.

The names below load on first use; importing this package imports no pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "gpuengine.spark_bridge":
    raise ImportError("import this package as gpuengine.spark_bridge, not by its folder's name")

if TYPE_CHECKING:
    from gpuengine.spark_bridge.encoding import load_encoded as load_encoded
    from gpuengine.spark_bridge.feeding import feed as feed
    from gpuengine.spark_bridge.following import follow as follow
    from gpuengine.spark_bridge.materialisation import Materialisation as Materialisation
    from gpuengine.spark_bridge.materialisation import datalog as datalog
    from gpuengine.spark_bridge.materialisation import encode as encode
    from gpuengine.spark_bridge.materialisation import ingest as ingest
    from gpuengine.spark_bridge.materialisation import materialise as materialise
    from gpuengine.spark_bridge.registration import register as register
    from gpuengine.spark_bridge.saved import SavedMaterialisation as SavedMaterialisation
    from gpuengine.spark_bridge.saved import open as open
    from gpuengine.spark_bridge.sessions import session as session
    from gpuengine.spark_bridge.strata import Limits as Limits
    from gpuengine.spark_bridge.triples import materialise_triples as materialise_triples

# No module has the name of what it exports: an import of the module would put it in its place.
_HOME = {
    "Limits": "strata",
    "Materialisation": "materialisation",
    "SavedMaterialisation": "saved",
    "datalog": "materialisation",
    "encode": "materialisation",
    "feed": "feeding",
    "follow": "following",
    "ingest": "materialisation",
    "load_encoded": "encoding",
    "materialise": "materialisation",
    "materialise_triples": "triples",
    "open": "saved",
    "register": "registration",
    "session": "sessions",
}

__all__ = [
    "Limits",
    "Materialisation",
    "SavedMaterialisation",
    "datalog",
    "encode",
    "feed",
    "follow",
    "ingest",
    "load_encoded",
    "materialise",
    "materialise_triples",
    "open",
    "register",
    "session",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
