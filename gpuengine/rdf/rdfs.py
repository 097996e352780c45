"""RDFS: its entailment rules, compiled for an ontology or over all triples, and its axiomatic triples.

The plain profile has the rules that say something of the data: rdfs2, 3, 5, 7, 9 and 11. The full one
adds those that make resources, classes and properties of everything, the axiomatic triples, and what
literals denote.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuengine.rdf.ontology import AUXILIARY, DOMAIN, RANGE, SUBCLASS, SUBPROPERTY, Ontology
from gpuengine.rdf.owl_meta import parse_rules
from gpuengine.rdf.rules import Rule, Triple, Variable
from gpuengine.rdf.terms import RDF, RDFS, TYPE

SAME_VALUE = f"{AUXILIARY}sameValue>"

_SCHEMA = """
rdfs5   ?p rdfs:subPropertyOf ?r :- ?p rdfs:subPropertyOf ?q, ?q rdfs:subPropertyOf ?r
rdfs11  ?c rdfs:subClassOf ?e :- ?c rdfs:subClassOf ?d, ?d rdfs:subClassOf ?e
"""

_INSTANCES = """
rdfs2   ?x a ?c :- ?p rdfs:domain ?c, ?x ?p ?y
rdfs3   ?y a ?c :- ?p rdfs:range ?c, ?x ?p ?y
rdfs7   ?x ?q ?y :- ?p rdfs:subPropertyOf ?q, ?x ?p ?y
rdfs9   ?x a ?d :- ?c rdfs:subClassOf ?d, ?x a ?c
"""

# rdfs1 and rdfD1 are facts about literals; equal ones stand for each other wherever one stands.
_FULL = """
rdfD2   ?p a rdf:Property :- ?x ?p ?y
rdfs4a  ?x a rdfs:Resource :- ?x ?p ?y
rdfs4b  ?y a rdfs:Resource :- ?x ?p ?y
rdfs6   ?p rdfs:subPropertyOf ?p :- ?p a rdf:Property
rdfs8   ?c rdfs:subClassOf rdfs:Resource :- ?c a rdfs:Class
rdfs10  ?c rdfs:subClassOf ?c :- ?c a rdfs:Class
rdfs12  ?p rdfs:subPropertyOf rdfs:member :- ?p a rdfs:ContainerMembershipProperty
rdfs13  ?d rdfs:subClassOf rdfs:Literal :- ?d a rdfs:Datatype
same    ?y aux:sameValue ?x :- ?x aux:sameValue ?y
same    ?x aux:sameValue ?z :- ?x aux:sameValue ?y, ?y aux:sameValue ?z
same    ?s ?p ?z :- ?s ?p ?o, ?o aux:sameValue ?z
same    ?z ?p ?o :- ?s aux:sameValue ?z, ?s ?p ?o
"""

_AXIOMS = """
rdf:type rdf:Property
rdf:subject rdf:Property
rdf:predicate rdf:Property
rdf:object rdf:Property
rdf:first rdf:Property
rdf:rest rdf:Property
rdf:value rdf:Property
rdf:nil rdf:List
rdfs:isDefinedBy rdfs:subPropertyOf rdfs:seeAlso
rdf:Alt rdfs:subClassOf rdfs:Container
rdf:Bag rdfs:subClassOf rdfs:Container
rdf:Seq rdfs:subClassOf rdfs:Container
rdfs:ContainerMembershipProperty rdfs:subClassOf rdf:Property
rdf:XMLLiteral rdfs:Datatype
rdf:langString rdfs:Datatype
rdf:XMLLiteral rdfs:subClassOf rdfs:Literal
rdfs:Datatype rdfs:subClassOf rdfs:Class
"""
"""Triples; where there is no predicate it is ``rdf:type``."""

_DOMAINS_AND_RANGES = """
rdf:type rdfs:Resource rdfs:Class
rdfs:domain rdf:Property rdfs:Class
rdfs:range rdf:Property rdfs:Class
rdfs:subPropertyOf rdf:Property rdf:Property
rdfs:subClassOf rdfs:Class rdfs:Class
rdf:subject rdf:Statement rdfs:Resource
rdf:predicate rdf:Statement rdfs:Resource
rdf:object rdf:Statement rdfs:Resource
rdfs:member rdfs:Resource rdfs:Resource
rdf:first rdf:List rdfs:Resource
rdf:rest rdf:List rdf:List
rdfs:seeAlso rdfs:Resource rdfs:Resource
rdfs:isDefinedBy rdfs:Resource rdfs:Resource
rdfs:comment rdfs:Resource rdfs:Literal
rdfs:label rdfs:Resource rdfs:Literal
rdf:value rdfs:Resource rdfs:Resource
"""


def compiled_rules(ontology: Ontology) -> list[Rule]:
    """The rules of the plain profile, over the classes and properties of an ontology."""
    x, y = Variable("x"), Variable("y")
    rules: dict[Rule, None] = {}
    for sub, top in ontology.pairs(SUBCLASS):
        rules[Rule((Triple(x, TYPE, top),), (Triple(x, TYPE, sub),), "rdfs9")] = None
    for sub, top in ontology.pairs(SUBPROPERTY):
        rules[Rule((Triple(x, top, y),), (Triple(x, sub, y),), "rdfs7")] = None
    for role, klass in ontology.pairs(DOMAIN):
        rules[Rule((Triple(x, TYPE, klass),), (Triple(x, role, y),), "rdfs2")] = None
    for role, klass in ontology.pairs(RANGE):
        rules[Rule((Triple(y, TYPE, klass),), (Triple(x, role, y),), "rdfs3")] = None
    return [rule for rule in rules if rule.heads[0] not in rule.body] + parse_rules(_SCHEMA)[0]


def useful_meta_rules() -> list[Rule]:
    """The rules of the plain profile over all triples."""
    return parse_rules(_SCHEMA)[0] + parse_rules(_INSTANCES)[0]


def meta_rules() -> list[Rule]:
    """The rules of the full profile."""
    return useful_meta_rules() + parse_rules(_FULL)[0]


def axioms(containers: Iterable[str] = ()) -> list[Rule]:
    """The axiomatic triples, as rules without a body; for ``rdf:_1`` and the container properties given."""
    facts: dict[tuple[str, str, str], None] = {}
    for line in _AXIOMS.strip().splitlines():
        words = [_named(word) for word in line.split()]
        subject, predicate, target = words if len(words) == 3 else (words[0], TYPE, words[1])
        facts[subject, predicate, target] = None
    resource = f"<{RDFS}Resource>"
    with_ends = [tuple(map(_named, line.split())) for line in _DOMAINS_AND_RANGES.strip().splitlines()]
    for member in sorted({f"<{RDF}_1>", *containers}):
        facts[member, TYPE, f"<{RDF}Property>"] = None
        facts[member, TYPE, f"<{RDFS}ContainerMembershipProperty>"] = None
        with_ends.append((member, resource, resource))
    for name, domain, target in with_ends:
        facts[name, DOMAIN, domain] = facts[name, RANGE, target] = None
    return [Rule((Triple(*fact),), (), "axiom") for fact in facts]


def _named(word: str) -> str:
    prefix, _, name = word.partition(":")
    return f"<{RDF if prefix == 'rdf' else RDFS}{name}>"
