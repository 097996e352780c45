"""Text to checked core program: `parse_program` and `parse_query`.

The stages, in order, one module each: `preprocess` (includes, macros), `parser` (LALR tables of
grammar.lark to the tree of `syntax`), `components`, `type_environment` and `declarations`,
`normalise` (disjunctions), `inference` (types), `lowering` (to `program`), `inlining`, `grounding`,
`stratification`.  `frontend` runs them and raises all errors at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuengine.language.program import Program, Rule

__all__ = ["parse_program", "parse_query"]


def parse_program(
    source: str | os.PathLike[str],
    *,
    name: str | None = None,
    include_dirs: Sequence[Path] = (),
    macros: Mapping[str, str] | None = None,
) -> Program:
    """The checked program of a file (a path) or of program text (a `str`, called `name` in errors).

    Includes are looked up beside the including file and in `include_dirs`, and can't leave these
    directories; `macros` are defined before the first line.  Raises `ProgramErrors` with all errors.
    """
    from gpuengine.language.frontend import compile_program

    return compile_program(source, name or "<program>", include_dirs, macros or {})


def parse_query(text: str, program: Program) -> Rule:
    """The query ``path(1, x), !edge(1, x)`` as a rule whose head ``?`` lists its named variables.

    A leading ``?-`` and a trailing ``.`` are optional.  Raises `ProgramErrors` with all errors.
    """
    from gpuengine.language.query import compile_query

    return compile_query(text, program)
