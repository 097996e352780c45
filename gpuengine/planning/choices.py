"""Choices that a program's pragmas make, as ``.pragma "scheme" "path=closure same=table"``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuengine.errors import GpuEngineError
from gpuengine.language.program import Program


def read_pragmas(
    program: Program,
    pragma: str,
    parse: Callable[[str], tuple[str, str]],
    error: type[GpuEngineError],
) -> dict[str, str]:
    """What the pragmas of one name choose, by what they choose it for; raises `error` for a contradiction."""
    texts = (text for key, value in program.pragmas if key == pragma for text in value.split())
    return without_contradiction(
        map(parse, texts),
        lambda name, one, other: error(
            f"two pragmas ask for different {pragma}s of {name}: {one} and {other}"
        ),
    )


def without_contradiction(
    choices: Iterable[tuple[str, str]], contradiction: Callable[[str, str, str], GpuEngineError]
) -> dict[str, str]:
    """Choices by name; raises what `contradiction` makes of a name with two of them."""
    chosen: dict[str, str] = {}
    for name, choice in choices:
        if chosen.setdefault(name, choice) != choice:
            raise contradiction(name, chosen[name], choice)
    return chosen
