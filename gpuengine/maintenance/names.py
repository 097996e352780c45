"""Names of the relations that maintenance keeps beside those of the program; no program can spell them."""

from __future__ import annotations

from collections.abc import Sequence


def going(relation: str) -> str:
    """What may have to go from a relation, each fact once."""
    return f"@{relation}.going"


def without_going(name: str) -> str:
    """The relation that `going` made a name for."""
    return name.removeprefix("@").removesuffix(".going")


def gone(relation: str) -> str:
    """What was overdeleted."""
    return f"@{relation}.gone"


def hidden(relation: str) -> tuple[str, str]:
    """The tables that maintenance needs beside that of a relation."""
    return going(relation), gone(relation)


def own(relation: str) -> str:
    """What rules derive into a union, those that copy left out."""
    return f"@{relation}.own"


def feeds(name: str) -> bool:
    """Is it a table that a relation of the program is made from?"""
    return name.startswith("@") and name.endswith((".own", ".external"))


def projected(relation: str, change: str, columns: Sequence[int]) -> str:
    """The given columns of what was inserted into or deleted from a relation."""
    return f"@{relation}.{change}:{','.join(map(str, columns))}"


def affected(number: str, arity: int) -> str:
    """The groups of an aggregate that a change touches; other rules may have others of the same number."""
    return f"@affected.{number}:{arity}"


def counters(relation: str) -> str:
    """What the derivation counters of a table are called where their memory is counted."""
    return f"the counters of {relation}"
