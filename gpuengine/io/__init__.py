"""Fact files and in-memory tables to Arrow tables, and back.

The names below load on first use: looking for a fact file needs no pyarrow, reading one does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuengine.io.locate import find_facts as find_facts
    from gpuengine.io.locate import output_path as output_path
    from gpuengine.io.read import read_facts as read_facts
    from gpuengine.io.schema import Facts as Facts
    from gpuengine.io.schema import arrow_schema as arrow_schema
    from gpuengine.io.schema import arrow_type as arrow_type
    from gpuengine.io.schema import outer_schema as outer_schema
    from gpuengine.io.tabular import from_tabular as from_tabular
    from gpuengine.io.write import write_facts as write_facts
    from gpuengine.io.write import write_stdout as write_stdout

_HOME = {
    "Facts": "schema",
    "arrow_schema": "schema",
    "arrow_type": "schema",
    "find_facts": "locate",
    "from_tabular": "tabular",
    "outer_schema": "schema",
    "output_path": "locate",
    "read_facts": "read",
    "write_facts": "write",
    "write_stdout": "write",
}

__all__ = [
    "Facts",
    "arrow_schema",
    "arrow_type",
    "find_facts",
    "from_tabular",
    "outer_schema",
    "output_path",
    "read_facts",
    "write_facts",
    "write_stdout",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gpuengine.io' has no attribute {name!r}")
    return getattr(import_module(f"gpuengine.io.{_HOME[name]}"), name)
