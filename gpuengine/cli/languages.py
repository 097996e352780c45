"""In which language a program is: Datalog, DatalogMTL, or rules over triples."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuengine.rdf_names import is_rdf_name

MTL = ".mtl"


def is_temporal(arguments: argparse.Namespace) -> bool:
    """Is the program in DatalogMTL?"""
    language = getattr(arguments, "language", None)
    return bool(language == "mtl" if language else Path(arguments.program).suffix == MTL)


def is_rdf(arguments: argparse.Namespace) -> bool:
    """Are rules over triples, or triples, given?"""
    language = getattr(arguments, "language", None)
    return bool(language == "rdf" if language else is_rdf_name(Path(arguments.program)))
