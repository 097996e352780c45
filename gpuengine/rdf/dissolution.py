"""Which classes of equal terms stay when triples go.

    :email a owl:InverseFunctionalProperty      :a :email "1"   :b :email "1"      a and b are the same
                                                :c :email "2"   :d :email "2"      c and d are the same

Without ``:b :email "1"`` only the class of a and b may fall apart. An equality follows from a triple by a
chain of rules, and where the atoms of each rule hang together by the terms that they share, so do all facts
of the chain. So a class that no facts lead to, from the terms of what goes and over the relations from which
equalities follow, has other reasons, all of which stay. Relations say nothing of the class or property that
they are named after: if one of these may be in another class, all classes are found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gpuengine.engine import Engine
from gpuengine.language.program import Atom, Comparison, Constant, Rule, Variable
from gpuengine.planning.plan import body_relations
from gpuengine.rdf.equality import Classes, components, is_among
from gpuengine.rdf.layout import SAME, TRIPLES, Layout
from gpuengine.rdf.quads import NO_GRAPH, DictionaryTerms, Quads
from gpuengine.rdf.routing import route
from gpuengine.rdf.terms import TYPE

MOST_FACTS = 5_000_000
"""With more facts to go through than this all classes are found again instead."""


class Reasons:
    """The relations that equalities follow from, in an engine that is complete, and the rules by which."""

    def __init__(self, engine: Engine, layout: Layout, terms: DictionaryTerms, classes: Classes) -> None:
        self._engine, self._layout, self._terms, self._classes = engine, layout, terms, classes
        self.relations = {layout.properties.get(SAME, TRIPLES)}
        self.rules: list[Rule] = []
        while True:
            self.rules = [rule for rule in engine.source.rules if rule.head.relation in self.relations]
            more = set().union(*(body_relations(rule.body) for rule in self.rules))
            if more <= self.relations:
                break
            self.relations |= more

    def without(self, gone: Iterable[Quads]) -> Classes:
        """The classes that stay as they are if triples of the default graph go."""
        classes = self._classes
        start = [ids for quads in gone for ids in self._among_reasons(quads)]
        if not start or not len(classes):
            return classes
        reached = self._connected_with(np.unique(np.concatenate(start)))
        if reached is None:
            return Classes.none()
        stays = ~is_among(reached, classes.representatives)
        if is_among(self._names(), classes.members[~stays]).any():
            return Classes.none()
        return Classes(classes.members[stays], classes.representatives[stays])

    def _names(self) -> np.ndarray:
        """What relations are named after."""
        layout = self._layout
        return np.asarray(self._terms.add([TYPE, SAME, *layout.classes, *layout.properties]), np.uint32)

    def _among_reasons(self, quads: Quads) -> list[np.ndarray]:
        """The representatives that triples mention in relations that equalities follow from."""
        s, p, o, g = quads.columns
        here = g == NO_GRAPH
        s, p, o = self._classes.normal([s[here], p[here], o[here]])
        routed = route(Quads((s, p, o, g[here])), self._layout, self._terms)
        return [ids for relation, columns in routed.items() if relation in self.relations for ids in columns]

    def _connected_with(self, ids: np.ndarray) -> np.ndarray | None:
        """The terms that facts connect some with; None if nobody can tell, or it takes too long."""
        sizes = sum(len(self._engine[name]) for name in self.relations)
        if sizes > MOST_FACTS or not all(map(_hangs_together, self.rules)):
            return None
        ends: list[tuple[np.ndarray, np.ndarray]] = []
        for name in sorted(self.relations):
            first, *others = self._engine[name].id_columns() or [np.zeros(0, np.uint32)]
            ends += [(first, other) for other in others]
        one = np.concatenate([ids, *(pair[0] for pair in ends)])
        other = np.concatenate([ids, *(pair[1] for pair in ends)])
        nodes, codes = np.unique(np.concatenate([one, other]), return_inverse=True)
        labels = components(len(nodes), codes[: len(one)], codes[len(one) :])
        reached = np.unique(labels[np.searchsorted(nodes, ids)])
        return nodes[is_among(reached, labels)]


def _hangs_together(rule: Rule) -> bool:
    """Are the atoms of a rule, with its head, connected by the terms that they share?"""
    if not all(isinstance(part, Atom | Comparison) for part in rule.body):
        return False
    atoms = [rule.head, *(part for part in rule.body if isinstance(part, Atom))]
    groups = [terms for atom in atoms if (terms := _terms_of(atom.args))]
    if len(groups) < len([atom for atom in atoms if atom.args]):
        return False
    reached = groups.pop() if groups else set()
    while connected := [terms for terms in groups if terms & reached]:
        reached = reached.union(*connected)
        groups = [terms for terms in groups if not terms & reached]
    return not groups


def _terms_of(args: Sequence[object]) -> set[object]:
    return {arg for arg in args if isinstance(arg, Variable | Constant)}
