"""The triples of an ontology by what they say: an index that the compilers of OWL 2 RL and RDFS read."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable

from gpuengine.errors import DataWarning
from gpuengine.rdf.datatypes import DATATYPES, DataRange, Value, value
from gpuengine.rdf.terms import OWL, RDF, RDFS, TYPE, XSD

Statement = tuple[str, str, str]

FIRST, REST, NIL = f"<{RDF}first>", f"<{RDF}rest>", f"<{RDF}nil>"
SUBCLASS, SUBPROPERTY = f"<{RDFS}subClassOf>", f"<{RDFS}subPropertyOf>"
DOMAIN, RANGE = f"<{RDFS}domain>", f"<{RDFS}range>"
SAME = f"<{OWL}sameAs>"
THING, NOTHING = f"<{OWL}Thing>", f"<{OWL}Nothing>"
DATATYPE = f"<{RDFS}Datatype>"

AUXILIARY = "<urn:gpuengine:owl:"
"""How the classes and properties begin that rules need for themselves: nobody is shown their triples."""

_BOUNDS = ("minInclusive", "minExclusive", "maxInclusive", "maxExclusive")
_FACETS = (
    *(f"<{XSD}{name}>" for name in ("length", "minLength", "maxLength", "pattern", *_BOUNDS)),
    f"<{RDF}langRange>",
)
VOCABULARIES = (f"<{OWL}", f"<{RDFS}", f"<{RDF}", f"<{XSD}")


def owl(name: str) -> str:
    """The text of a term of OWL's vocabulary."""
    return f"<{OWL}{name}>"


STRUCTURE = frozenset(
    {
        *(SUBCLASS, SUBPROPERTY, DOMAIN, RANGE, FIRST, REST, *_FACETS),
        *map(
            owl,
            (
                *("equivalentClass", "disjointWith", "complementOf", "intersectionOf", "unionOf", "oneOf"),
                *("equivalentProperty", "propertyDisjointWith", "inverseOf", "propertyChainAxiom", "hasKey"),
                *("onProperty", "someValuesFrom", "allValuesFrom", "hasValue", "onClass", "onDataRange"),
                *("maxCardinality", "maxQualifiedCardinality", "members", "distinctMembers"),
                *("sourceIndividual", "assertionProperty", "targetIndividual", "targetValue"),
                *("onDatatype", "withRestrictions", "datatypeComplementOf"),
            ),
        ),
    }
)
"""Predicates of axioms."""


def is_blank(text: str) -> bool:
    return text.startswith("_:")


def is_axiom_class(text: str) -> bool:
    """Whether to be an instance of a class may be an axiom: it is one of the vocabulary, or has no name
    (what has members of its own has to be known of an expression)."""
    return is_blank(text) or (text.startswith(VOCABULARIES) and text not in (THING, owl("NamedIndividual")))


class Ontology:
    """An index of an ontology's triples. Reading it costs no more than its size."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self._pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._objects: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._instances: dict[str, dict[str, None]] = defaultdict(dict)
        for subject, predicate, target in dict.fromkeys(statements):
            self._pairs[predicate].append((subject, target))
            self._objects[subject, predicate].append(target)
            if predicate == TYPE:
                self._instances[target][subject] = None

    def pairs(self, predicate: str) -> list[tuple[str, str]]:
        """Subjects and objects of a predicate."""
        return self._pairs.get(predicate, [])

    def objects(self, subject: str, predicate: str) -> list[str]:
        return self._objects.get((subject, predicate), [])

    def instances(self, klass: str) -> Iterable[str]:
        """What is stated to be an instance of a class."""
        return self._instances.get(klass, {})

    def is_instance(self, subject: str, klass: str) -> bool:
        return subject in self._instances.get(klass, {})

    def members(self, node: str) -> tuple[str, ...]:
        """The members of a list; none, with a `DataWarning`, if it is broken."""
        members: list[str] = []
        seen: set[str] = set()
        while node != NIL:
            firsts, rests = self.objects(node, FIRST), self.objects(node, REST)
            if node in seen or len(firsts) != 1 or len(rests) != 1:
                self._warn(node, node in seen, len(firsts), len(rests))
                return ()
            seen.add(node)
            members.append(firsts[0])
            node = rests[0]
        return tuple(members)

    @staticmethod
    def _warn(node: str, comes_back: bool, firsts: int, rests: int) -> None:
        wrong = f"has {firsts} rdf:first" if firsts != 1 else f"has {rests} rdf:rest"
        if comes_back:
            wrong = "comes back to itself"
        warnings.warn(
            f"a list that an axiom needs is broken at {node}: it {wrong}; the axiom is left out; each node "
            "of a list has one rdf:first and one rdf:rest, the last of which is rdf:nil",
            DataWarning,
            stacklevel=2,
        )

    def lists(self, predicate: str) -> list[tuple[str, tuple[str, ...]]]:
        """Subjects of a predicate whose objects are lists, with the members."""
        return [(subject, self.members(node)) for subject, node in self.pairs(predicate)]

    def data_ranges(self) -> dict[str, DataRange]:
        """All datatypes that the ontology mentions, and those that it defines."""
        ranges: dict[str, DataRange] = {}
        mentioned: dict[str, None] = {}
        for pairs in self._pairs.values():
            for subject, target in pairs:
                mentioned[subject] = mentioned[target] = None
        for text in mentioned:
            if text in DATATYPES:
                ranges[text] = DataRange("datatype", text)
        for text in self.instances(DATATYPE):
            if text not in ranges:
                ranges[text] = self._data_range(text, ())
        for node, target in self.pairs(owl("equivalentClass")):
            if node in ranges and node not in DATATYPES and self.is_instance(target, DATATYPE):
                ranges[node] = self._data_range(target, ())
        return ranges

    def _data_range(self, node: str, above: tuple[str, ...]) -> DataRange:
        if node in above or len(above) > 100:
            return DataRange("datatype", node)  # defined by itself: nothing is known of it
        above = (*above, node)
        for predicate, kind in ((owl("intersectionOf"), "and"), (owl("unionOf"), "or")):
            for target in self.objects(node, predicate):
                parts = tuple(self._data_range(member, above) for member in self.members(target))
                return DataRange(kind, parts=parts) if parts else DataRange("datatype", node)
        for target in self.objects(node, owl("datatypeComplementOf")):
            return DataRange("not", parts=(self._data_range(target, above),))
        for target in self.objects(node, owl("oneOf")):
            read: list[Value] = [v for v in map(value, self.members(target)) if isinstance(v, tuple)]
            return DataRange("one of", values=frozenset(read))
        for base in self.objects(node, owl("onDatatype")):
            facets = [
                (facet.removeprefix("<").removesuffix(">").rpartition("#")[2], limit)
                for target in self.objects(node, owl("withRestrictions"))
                for restriction in self.members(target)
                for facet in _FACETS
                for limit in self.objects(restriction, facet)
            ]
            return DataRange("facets", parts=(self._data_range(base, above),), facets=tuple(facets))
        for target in self.objects(node, owl("equivalentClass")):
            if self.is_instance(target, DATATYPE):
                return self._data_range(target, above)
        return DataRange("datatype", node)
