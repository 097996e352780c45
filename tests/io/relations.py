"""Attributes for the tests of reading and writing."""

from __future__ import annotations

from gpuengine.language.program import FLOAT, NUMBER, SYMBOL, UNSIGNED, Attribute, Kind, Type

RECORD = Type("List", Kind.RECORD, "List")
ADT = Type("Shape", Kind.ADT, "Shape")

_TYPES = {"n": NUMBER, "u": UNSIGNED, "f": FLOAT, "s": SYMBOL, "r": RECORD, "a": ADT}


def attributes(kinds: str) -> list[Attribute]:
    """``attributes("ns")`` is ``x: number, y: symbol``."""
    return [Attribute(name, _TYPES[kind]) for name, kind in zip("xyzuvw", kinds, strict=False)]
