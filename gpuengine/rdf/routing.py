"""Which triples go to which relation of a layout."""

from __future__ import annotations

import numpy as np

from gpuengine.rdf.graph import Terms
from gpuengine.rdf.layout import QUADS, TRIPLES, Layout
from gpuengine.rdf.quads import NO_GRAPH, Quads
from gpuengine.rdf.terms import TYPE


def route(quads: Quads, layout: Layout, terms: Terms) -> dict[str, list[np.ndarray]]:
    """The columns of triples for each relation of a layout."""
    routed: dict[str, list[np.ndarray]] = {}
    if not quads.rows:
        return routed
    s, p, o, g = quads.columns
    named = g != NO_GRAPH
    if named.any():
        routed[QUADS] = [s[named], p[named], o[named], g[named]]
        s, p, o = s[~named], p[~named], o[~named]
    slots = list(layout.slots)
    place = _places(slots, p, o, terms)
    order = np.argsort(place, kind="stable")
    counts = np.bincount(place, minlength=len(slots) + 1)
    ends = np.cumsum(counts)
    for number, (end, count) in enumerate(zip(ends, counts, strict=True)):
        if not count:
            continue
        rows = order[end - count : end]
        if number == 0:
            routed[TRIPLES] = [s[rows], p[rows], o[rows]]
            continue
        _, klass, relation = slots[number - 1]
        routed[relation] = [s[rows], o[rows]] if klass is None else [s[rows]]
    return routed


def _places(
    slots: list[tuple[str, str | None, str]], p: np.ndarray, o: np.ndarray, terms: Terms
) -> np.ndarray:
    """For each triple the number of its slot, counted from 1; 0 if it has none."""
    place = np.zeros(len(p), np.uint16 if len(slots) < 65535 else np.uint32)
    if not slots or not len(p):
        return place
    properties = np.zeros(int(p.max()) + 1, place.dtype)
    classes = np.zeros(int(o.max()) + 1, place.dtype)
    for number, (predicate, klass, _) in enumerate(slots, 1):
        term = terms.lookup(predicate if klass is None else klass)
        lookup = properties if klass is None else classes
        if term is not None and term < len(lookup):
            lookup[term] = number
    place = properties[p]
    of_type = terms.lookup(TYPE)
    if of_type is not None:
        is_type = p == of_type
        place[is_type] = classes[o[is_type]]
    return place
