"""Numbers of which only a lower bound may be known, and their ratios."""

from __future__ import annotations


class MoreThan(float):
    """A number that is only known to be exceeded."""


Number = float | None


def ratio(one: Number, other: Number) -> Number:
    """`one` over `other`; a lower bound if `one` is, None if unknown."""
    if one is None or not other or isinstance(other, MoreThan):
        return None
    return MoreThan(one / other) if isinstance(one, MoreThan) else one / other
