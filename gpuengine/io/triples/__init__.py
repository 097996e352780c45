"""Files of RDF: N-Triples and N-Quads by a reader of our own, other formats by pyoxigraph.

`read_statements` gives the terms of statements as text, block by block, in the one form that terms have here:
see `gpuengine.rdf.terms`.
"""

from __future__ import annotations

from gpuengine.io.triples.read import Findings, Statements, read_statements

__all__ = ["Findings", "Statements", "read_statements"]
