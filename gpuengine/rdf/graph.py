"""What a query asks of triples: the dictionary of terms, and the bindings of a basic graph pattern."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from gpuengine.rdf.rules import Triple


class Terms(Protocol):
    """The dictionary: texts of terms (see `gpuengine.rdf.terms`) to ids and back."""

    def lookup(self, text: str) -> int | None:
        """The id of a term that is known; None if no triple can have it."""

    def add(self, texts: Sequence[str]) -> np.ndarray:
        """Ids of terms, new ones for those not known yet (values that a query computes)."""

    def texts(self, ids: np.ndarray) -> list[str]:
        """The terms of ids."""


Among = Mapping[str, Callable[[np.ndarray], np.ndarray]]
"""By variable, a mask of the ids that are wanted of it."""


class Graph(Protocol):
    """Triples that can be asked for. Columns are arrays of ids, all of one length, in no order."""

    @property
    def terms(self) -> Terms:
        """The dictionary of its terms."""

    def solve(self, patterns: Sequence[Triple], among: Among | None = None) -> Mapping[str, np.ndarray]:
        """All bindings of the variables of a basic graph pattern (a bag without duplicates).

        A blank node in it must be a variable by now. Triples whose `graph` is None are those of the default
        graph. Of the variables in `among` only some ids are wanted; rows with others may be missing.
        Without variables: a mapping whose column ``""`` has one row if the pattern holds, else none.
        """

    def closure(self, predicate: str, *, reflexive: bool) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of the transitive closure of a predicate."""

    def is_transitive(self, predicate: str) -> bool:
        """Is the default graph known to have all pairs of the transitive closure of a predicate?"""

    def pairs(self, predicate: str, *, closed: bool) -> int | None:
        """How many pairs a predicate has in the default graph, or its transitive closure, where that is known
        without listing them."""

    def graphs(self) -> np.ndarray:
        """Ids of the names of the named graphs."""
