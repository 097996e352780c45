"""Property paths that must be searched for: repetitions, and any predicate but some."""

from __future__ import annotations

import numpy as np

from gpuengine.rdf.rules import Argument, Triple, Variable
from gpuengine.rdf.sparql.algebra import (
    Alternatives,
    Inverse,
    Link,
    Negated,
    Path,
    PathPattern,
    Repeated,
    Sequence,
)
from gpuengine.rdf.sparql.dataset import View
from gpuengine.rdf.sparql.tables import Table, concatenated, distinct, join

_FEW = 256
"""So many ends of a path are looked up one by one."""

_S, _P, _O = Variable("s"), Variable("p"), Variable("o")


def solve_path(pattern: PathPattern, view: View, active: str | None, before: Table) -> Table:
    """The solutions of a path; those that can't go together with the rows `before` it may be missing."""
    path, subject, target = pattern.path, pattern.subject, pattern.object
    if isinstance(path, Negated):
        return _ends(_negated(path, view, active), subject, target, view)
    starts = _candidates(subject, view, before)
    goals = _candidates(target, view, before)
    if goals is not None and (starts is None or len(goals) < len(starts)):
        pairs = _repeated(Repeated(Inverse(path.path), path.least, path.once), view, active, goals, target)
        pairs = Table({"s": pairs.columns["o"], "o": pairs.columns["s"]}, pairs.length)
    else:
        pairs = _repeated(path, view, active, starts, subject)
    return _ends(pairs, subject, target, view)


def _candidates(end: Argument, view: View, before: Table) -> np.ndarray | None:
    """The ids that one end of a path can have; None if any."""
    if isinstance(end, str):
        return view.terms.add([end])
    column = before.columns.get(end.name)
    if column is None or not len(column) or column.min() < 0:
        return None
    return np.unique(column)


def _repeated(
    path: Repeated, view: View, active: str | None, starts: np.ndarray | None, start: Argument
) -> Table:
    """Pairs of the repetition of a path, from some starts or from all."""
    link, is_inverse = path.path, False
    if isinstance(link, Inverse):
        link, is_inverse = link.path, True
    plain = isinstance(link, Link) and not path.once and active is None and view.dataset.default is None
    few = starts if starts is not None and len(starts) <= _FEW else None
    if plain and few is not None and isinstance(link, Link) and view.graph.is_transitive(link.predicate):
        # The closure is there: what is asked of it is looked up.
        reached = _looked_up(link.predicate, few, view, is_inverse)
    elif plain and starts is None and not is_inverse:
        assert isinstance(link, Link)
        sources, targets = view.graph.closure(link.predicate, reflexive=False)
        reached = Table(
            {"s": np.asarray(sources, np.int64), "o": np.asarray(targets, np.int64)}, len(sources)
        )
    else:
        edges = distinct(_pairs(path.path, view, active))
        reached = _once(edges, starts) if path.once else _closure(edges, starts)
    if path.least:
        return reached
    if starts is None:
        itself = view.nodes(active)
    elif isinstance(start, str):
        # A term that is written is at its own end even where the graph does not have it.
        itself = starts
    else:
        itself = np.intersect1d(starts, view.nodes(active))
    columns = {
        "s": np.concatenate([reached.columns["s"], itself]),
        "o": np.concatenate([reached.columns["o"], itself]),
    }
    return distinct(Table(columns, len(columns["s"])))


def _looked_up(predicate: str, starts: np.ndarray, view: View, is_inverse: bool) -> Table:
    """The pairs of a predicate that begin with one of some ids, or, if it is the inverse, end with one."""
    parts = [Table.empty(("s", "o"))]
    for start, text in zip(starts.tolist(), view.terms.texts(starts), strict=True):
        triple = Triple(_O, predicate, text) if is_inverse else Triple(text, predicate, _O)
        objects = view.solve([triple], None).column("o")
        parts.append(Table({"s": np.full(len(objects), start, np.int64), "o": objects}, len(objects)))
    return concatenated(parts)


def _once(edges: Table, starts: np.ndarray | None) -> Table:
    return edges if starts is None else edges.take(np.isin(edges.columns["s"], starts))


def _closure(edges: Table, starts: np.ndarray | None) -> Table:
    """Pairs of a start and what is reached from it by one edge or more: a round for each length."""
    nodes, codes = np.unique(np.concatenate([edges.columns["s"], edges.columns["o"]]), return_inverse=True)
    if not len(nodes):
        return edges
    sources, targets = codes[: edges.length], codes[edges.length :]
    targets = targets[np.argsort(sources, kind="stable")]
    counts = np.bincount(sources, minlength=len(nodes))
    first = np.cumsum(counts) - counts
    origins = np.flatnonzero(counts if starts is None else (counts > 0) & np.isin(nodes, starts))
    seen = _Seen(len(origins) * len(nodes))
    rows, places = np.arange(len(origins)), origins
    while len(places):
        degree = counts[places]
        rows = np.repeat(rows, degree)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(degree) - degree, degree)
        keys = rows * len(nodes) + targets[np.repeat(first[places], degree) + offsets]
        rows, places = np.divmod(seen.new(keys), len(nodes))
    rows, places = np.divmod(seen.all(), len(nodes))
    return Table({"s": nodes[origins[rows]], "o": nodes[places]}, len(rows))


class _Seen:
    """A set of keys below a bound: a bitmap where it is not too large, else sorted."""

    def __init__(self, bound: int) -> None:
        self.bitmap = np.zeros(bound, bool) if bound <= 1 << 28 else None
        self.parts = [np.empty(0, np.int64)]

    def new(self, keys: np.ndarray) -> np.ndarray:
        """Those of the keys that are new, once each; they are in the set now."""
        if self.bitmap is not None:
            keys = np.unique(keys[~self.bitmap[keys]])
            self.bitmap[keys] = True
            self.parts.append(keys)
        else:
            keys = np.setdiff1d(keys, self.parts[0])
            self.parts[0] = np.union1d(self.parts[0], keys)
        return keys

    def all(self) -> np.ndarray:
        return np.concatenate(self.parts)


def _pairs(path: Path, view: View, active: str | None) -> Table:
    """All pairs of a path inside of a repetition."""
    if isinstance(path, Link):
        return view.solve([Triple(_S, path.predicate, _O)], active)
    if isinstance(path, Inverse):
        inner = _pairs(path.path, view, active)
        return Table({"s": inner.columns["o"], "o": inner.columns["s"]}, inner.length)
    if isinstance(path, Sequence):
        result = distinct(_pairs(path.parts[0], view, active))
        for part in path.parts[1:]:
            left = Table({"s": result.columns["s"], "m": result.columns["o"]}, result.length)
            step = distinct(_pairs(part, view, active))
            right = Table({"m": step.columns["s"], "o": step.columns["o"]}, step.length)
            result = distinct(join(left, right).project(("s", "o")))
        return result
    if isinstance(path, Alternatives):
        parts = [_pairs(part, view, active) for part in path.parts]
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in ("s", "o")}
        return Table(columns, len(columns["s"]))
    if isinstance(path, Negated):
        return _negated(path, view, active)
    return _repeated(path, view, active, None, _S)


def _negated(path: Negated, view: View, active: str | None) -> Table:
    everything = view.solve([Triple(_S, _P, _O)], active)

    def others(predicates: tuple[str, ...]) -> Table:
        numbers = [number for text in predicates if (number := view.terms.lookup(text)) is not None]
        return everything.take(~np.isin(everything.columns["p"], np.array(numbers, np.int64)))

    parts: list[Table] = []
    if path.forward is not None:
        parts.append(others(path.forward))
    if path.backward is not None:
        pairs = others(path.backward)
        parts.append(Table({"s": pairs.columns["o"], "o": pairs.columns["s"]}, pairs.length))
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in ("s", "o")}
    return Table(columns, len(columns["s"]))


def _ends(pairs: Table, subject: Argument, target: Argument, view: View) -> Table:
    """Pairs as bindings of the two ends of a pattern."""
    columns: dict[str, np.ndarray] = {}
    kept = np.ones(pairs.length, bool)
    for name, end in (("s", subject), ("o", target)):
        if isinstance(end, str):
            kept &= pairs.columns[name] == view.terms.add([end])[0]
        elif end.name in columns:
            kept &= columns[end.name] == pairs.columns[name]
        else:
            columns[end.name] = pairs.columns[name]
    return Table(columns, pairs.length).take(kept)
