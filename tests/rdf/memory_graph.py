"""A `Graph` of lists: what the evaluation of SPARQL is tested on without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpuengine.rdf.rules import Triple, Variable


class MemoryTerms:
    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.known: list[str] = []

    def lookup(self, text: str) -> int | None:
        return self.numbers.get(text)

    def add(self, texts: Sequence[str]) -> np.ndarray:
        for text in texts:
            if text not in self.numbers:
                self.numbers[text] = len(self.known)
                self.known.append(text)
        return np.array([self.numbers[text] for text in texts], np.uint32)

    def texts(self, ids: np.ndarray) -> list[str]:
        return [self.known[number] for number in ids.tolist()]


class MemoryGraph:
    """Quads of texts; the graph is None for the default one. Patterns are matched by nested loops."""

    def __init__(self, quads: Iterable[tuple[str, str, str, str | None]] = ()) -> None:
        self.terms = MemoryTerms()
        self.quads = dict.fromkeys(quads)
        for quad in self.quads:
            self.terms.add([text for text in quad if text is not None])

    def solve(self, patterns: Sequence[Triple], among: object = None) -> Mapping[str, np.ndarray]:
        rows: list[dict[str, str]] = [{}]
        names: dict[str, None] = {}
        for pattern in patterns:
            wanted = (pattern.subject, pattern.predicate, pattern.object, pattern.graph)
            names.update((one.name, None) for one in wanted if isinstance(one, Variable))
            rows = [
                found
                for row in rows
                for quad in self.quads
                if (found := _matched(row, wanted, quad)) is not None
            ]
        if not names:
            return {"": np.zeros(min(1, len(rows)), np.uint32)}
        distinct = list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))
        return {name: self.terms.add([row[place] for row in distinct]) for place, name in enumerate(names)}

    def is_transitive(self, predicate: str) -> bool:
        return False

    def pairs(self, predicate: str, *, closed: bool) -> int | None:
        return None

    def closure(self, predicate: str, *, reflexive: bool) -> tuple[np.ndarray, np.ndarray]:
        pairs = {(s, o) for s, p, o, g in self.quads if p == predicate and g is None}
        while True:
            more = {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs
            if not more:
                break
            pairs |= more
        if reflexive:
            pairs |= {(node, node) for s, _, o, g in self.quads if g is None for node in (s, o)}
        ordered = sorted(pairs)
        return self.terms.add([s for s, _ in ordered]), self.terms.add([o for _, o in ordered])

    def graphs(self) -> np.ndarray:
        return self.terms.add(sorted({g for *_, g in self.quads if g is not None}))


def _matched(row: dict[str, str], wanted: tuple, quad: tuple) -> dict[str, str] | None:
    found = dict(row)
    for want, have in zip(wanted, quad, strict=True):
        if isinstance(want, Variable):
            if have is None or found.setdefault(want.name, have) != have:
                return None
        elif want != have:
            return None
    return found
