"""Nested Python values as Soufflé's text of records and ADTs."""

from __future__ import annotations

import re
from numbers import Integral, Real
from typing import Any

from gpuengine.io.convert import shown

_PLAIN_SYMBOL = re.compile(r'[^\s,\[\]()"\\][^,\[\]()"\\\n\t]*')


def record_text(value: Any) -> str:
    """``(1, (2, None))`` is ``[1, [2, nil]]``, ``("$B", 1)`` is ``$B(1)``; a text is taken as it is.

    A symbol inside a record is quoted, with backslash escapes, where it could be misread.
    Raises `ValueError`.
    """
    return value if isinstance(value, str) else _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, str):
        return _symbol(value)
    if isinstance(value, bool):
        raise ValueError(f"{shown(value)} can't be part of a record")
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return f"{float(value):.17g}"
    if isinstance(value, tuple | list):
        if value and isinstance(value[0], str) and value[0].startswith("$"):
            fields = ", ".join(map(_text, value[1:]))
            return f"{value[0]}({fields})" if fields else value[0]
        return f"[{', '.join(map(_text, value))}]"
    raise ValueError(f"{shown(value)} ({type(value).__name__}) can't be part of a record")


def _symbol(value: str) -> str:
    if _PLAIN_SYMBOL.fullmatch(value) and value != "nil":
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
