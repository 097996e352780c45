"""Values of literals."""

from __future__ import annotations

import re

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
UINT64_MAX = (1 << 64) - 1

_ESCAPES = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_TOO_LONG = UINT64_MAX + 1
_MAX_DIGITS = 66  # more digits than any 64-bit number has in any base


def integer_value(text: str) -> int:
    """The value of a decimal, ``0x`` or ``0b`` literal; anything beyond 64 bits is some larger number."""
    base = {"0x": 16, "0b": 2}.get(text[:2], 10)
    digits = (text if base == 10 else text[2:]).lstrip("0")
    if len(digits) > _MAX_DIGITS:
        return _TOO_LONG
    return int(digits or "0", base)


def address_value(text: str) -> int | None:
    """The number an IP address ``a.b.c.d`` stands for, None if a part exceeds 255."""
    parts = [integer_value(part) for part in text.split(".")]
    if any(part > 255 for part in parts):
        return None
    return (parts[0] << 24) + (parts[1] << 16) + (parts[2] << 8) + parts[3]


def string_value(quoted: str) -> tuple[str, str | None]:
    """The text of a quoted string, and the first unknown escape in it."""
    text = quoted[1:-1]
    if "\\" not in text:
        return text, None
    bad = next((char for char in _ESCAPE.findall(text) if char not in _ESCAPES), None)
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match.group(1), match.group(1)), text), bad
