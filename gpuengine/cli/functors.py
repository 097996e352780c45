"""Functions for the functors of programs, as the command line gives them."""

from __future__ import annotations

import argparse
from typing import Any


def functions_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of `Engine` for the functors that the arguments give; runs the files that they name."""
    files, libraries = getattr(arguments, "functors", ()), getattr(arguments, "functor_library", ())
    if not files and not libraries:
        return {}
    from gpuengine.terms.functions import load_functions

    functors = [one for file in files for one in load_functions(file).values()]
    return {"functors": functors, "functor_libraries": libraries}
