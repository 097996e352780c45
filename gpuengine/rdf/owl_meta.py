"""The rules of OWL 2 RL/RDF (tables 4 to 9 of the profile) over triples, for any ontology.

A line (with those below it that are indented) is a rule: its name, what it derives (``false`` makes a
constraint), and from what. ``≠`` is of terms. Lists are read through auxiliary properties (``aux:``) of
their nodes, and what has three places, a pair that is joined by the rest of a chain or key from some node
of its list on, has that node for its predicate: no stated triple does.
"""

from __future__ import annotations

import re

from gpuengine.rdf.ontology import AUXILIARY
from gpuengine.rdf.rules import Argument, BodyItem, Call, Constraint, Filter, Rule, Triple, Variable
from gpuengine.rdf.terms import OWL, RDF, RDFS, TYPE, XSD

EQUALITY = """
eq-sym    ?y owl:sameAs ?x :- ?x owl:sameAs ?y
eq-trans  ?x owl:sameAs ?z :- ?x owl:sameAs ?y, ?y owl:sameAs ?z
eq-rep-s  ?s2 ?p ?o :- ?s owl:sameAs ?s2, ?s ?p ?o
eq-rep-p  ?s ?p2 ?o :- ?p owl:sameAs ?p2, ?s ?p ?o
eq-rep-o  ?s ?p ?o2 :- ?o owl:sameAs ?o2, ?s ?p ?o
"""

REFLEXIVITY = """
eq-ref    ?s owl:sameAs ?s, ?p owl:sameAs ?p, ?o owl:sameAs ?o :- ?s ?p ?o
scm-cls   ?c rdfs:subClassOf ?c, ?c owl:equivalentClass ?c :- ?c a owl:Class
scm-cls   ?c rdfs:subClassOf owl:Thing, owl:Nothing rdfs:subClassOf ?c :- ?c a owl:Class
scm-op    ?p rdfs:subPropertyOf ?p, ?p owl:equivalentProperty ?p :- ?p a owl:ObjectProperty
scm-dp    ?p rdfs:subPropertyOf ?p, ?p owl:equivalentProperty ?p :- ?p a owl:DatatypeProperty
"""
"""What says of everything that it is itself."""

SCHEMA = """
scm-sco   ?c1 rdfs:subClassOf ?c3 :- ?c1 rdfs:subClassOf ?c2, ?c2 rdfs:subClassOf ?c3
scm-eqc1  ?c1 rdfs:subClassOf ?c2, ?c2 rdfs:subClassOf ?c1 :- ?c1 owl:equivalentClass ?c2
scm-eqc2  ?c1 owl:equivalentClass ?c2 :- ?c1 rdfs:subClassOf ?c2, ?c2 rdfs:subClassOf ?c1
scm-spo   ?p1 rdfs:subPropertyOf ?p3 :- ?p1 rdfs:subPropertyOf ?p2, ?p2 rdfs:subPropertyOf ?p3
scm-eqp1  ?p1 rdfs:subPropertyOf ?p2, ?p2 rdfs:subPropertyOf ?p1 :- ?p1 owl:equivalentProperty ?p2
scm-eqp2  ?p1 owl:equivalentProperty ?p2 :- ?p1 rdfs:subPropertyOf ?p2, ?p2 rdfs:subPropertyOf ?p1
scm-dom1  ?p rdfs:domain ?c2 :- ?p rdfs:domain ?c1, ?c1 rdfs:subClassOf ?c2
scm-dom2  ?p1 rdfs:domain ?c :- ?p2 rdfs:domain ?c, ?p1 rdfs:subPropertyOf ?p2
scm-rng1  ?p rdfs:range ?c2 :- ?p rdfs:range ?c1, ?c1 rdfs:subClassOf ?c2
scm-rng2  ?p1 rdfs:range ?c :- ?p2 rdfs:range ?c, ?p1 rdfs:subPropertyOf ?p2
scm-hv    ?c1 rdfs:subClassOf ?c2 :- ?c1 owl:hasValue ?i, ?c1 owl:onProperty ?p1,
          ?p1 rdfs:subPropertyOf ?p2, ?c2 owl:onProperty ?p2, ?c2 owl:hasValue ?i
scm-svf1  ?c1 rdfs:subClassOf ?c2 :- ?c1 owl:someValuesFrom ?y1, ?c1 owl:onProperty ?p,
          ?y1 rdfs:subClassOf ?y2, ?c2 owl:someValuesFrom ?y2, ?c2 owl:onProperty ?p
scm-svf2  ?c1 rdfs:subClassOf ?c2 :- ?c1 owl:someValuesFrom ?y, ?c1 owl:onProperty ?p1,
          ?p1 rdfs:subPropertyOf ?p2, ?c2 owl:onProperty ?p2, ?c2 owl:someValuesFrom ?y
scm-avf1  ?c1 rdfs:subClassOf ?c2 :- ?c1 owl:allValuesFrom ?y1, ?c1 owl:onProperty ?p,
          ?y1 rdfs:subClassOf ?y2, ?c2 owl:allValuesFrom ?y2, ?c2 owl:onProperty ?p
scm-avf2  ?c2 rdfs:subClassOf ?c1 :- ?c1 owl:allValuesFrom ?y, ?c1 owl:onProperty ?p1,
          ?p1 rdfs:subPropertyOf ?p2, ?c2 owl:onProperty ?p2, ?c2 owl:allValuesFrom ?y
"""
"""Those of the vocabulary that name all their predicates and need no list."""

META = """
eq-diff1  false :- ?x owl:sameAs ?y, ?x owl:differentFrom ?y
eq-diff1  false :- ?x owl:differentFrom ?x
eq-diff2  false :- ?z a owl:AllDifferent, ?z owl:members ?l, ?l aux:cell ?n, ?n aux:after ?m,
          ?n rdf:first ?x, ?m rdf:first ?x
eq-diff3  false :- ?z a owl:AllDifferent, ?z owl:distinctMembers ?l, ?l aux:cell ?n, ?n aux:after ?m,
          ?n rdf:first ?x, ?m rdf:first ?x
eq-diff2  false :- ?z a owl:AllDifferent, ?z owl:members ?l, ?l aux:cell ?n, ?n aux:after ?m,
          ?n rdf:first ?x, ?m rdf:first ?y, ?x owl:sameAs ?y
eq-diff3  false :- ?z a owl:AllDifferent, ?z owl:distinctMembers ?l, ?l aux:cell ?n, ?n aux:after ?m,
          ?n rdf:first ?x, ?m rdf:first ?y, ?x owl:sameAs ?y

list      ?l aux:after ?m :- ?l rdf:rest ?m, ?m rdf:first ?x
list      ?l aux:after ?n :- ?l rdf:rest ?m, ?m aux:after ?n
list      ?l aux:cell ?l :- ?l rdf:first ?x
list      ?l aux:cell ?n :- ?l aux:after ?n

prp-dom   ?x a ?c :- ?p rdfs:domain ?c, ?x ?p ?y
prp-rng   ?y a ?c :- ?p rdfs:range ?c, ?x ?p ?y
prp-fp    ?y1 owl:sameAs ?y2 :- ?p a owl:FunctionalProperty, ?x ?p ?y1, ?x ?p ?y2, ?y1 ≠ ?y2
prp-ifp   ?x1 owl:sameAs ?x2 :- ?p a owl:InverseFunctionalProperty, ?x1 ?p ?y, ?x2 ?p ?y, ?x1 ≠ ?x2
prp-irp   false :- ?p a owl:IrreflexiveProperty, ?x ?p ?x
prp-symp  ?y ?p ?x :- ?p a owl:SymmetricProperty, ?x ?p ?y
prp-asyp  false :- ?p a owl:AsymmetricProperty, ?x ?p ?y, ?y ?p ?x
prp-trp   ?x ?p ?z :- ?p a owl:TransitiveProperty, ?x ?p ?y, ?y ?p ?z
prp-spo1  ?x ?p2 ?y :- ?p1 rdfs:subPropertyOf ?p2, ?x ?p1 ?y
chain     ?l aux:chain ?l :- ?p owl:propertyChainAxiom ?l
chain     ?m aux:chain ?m :- ?l aux:chain ?l, ?l rdf:rest ?m, ?m rdf:first ?q
chain     ?x ?l ?y :- ?l aux:chain ?l, ?l rdf:rest rdf:nil, ?l rdf:first ?p, ?x ?p ?y
chain     ?x ?l ?z :- ?l aux:chain ?l, ?l rdf:rest ?m, ?m aux:chain ?m, ?l rdf:first ?p, ?x ?p ?y, ?y ?m ?z
prp-spo2  ?x ?p ?y :- ?p owl:propertyChainAxiom ?l, ?x ?l ?y
prp-eqp1  ?x ?p2 ?y :- ?p1 owl:equivalentProperty ?p2, ?x ?p1 ?y
prp-eqp2  ?x ?p1 ?y :- ?p1 owl:equivalentProperty ?p2, ?x ?p2 ?y
prp-pdw   false :- ?p1 owl:propertyDisjointWith ?p2, ?x ?p1 ?y, ?x ?p2 ?y
prp-adp   false :- ?z a owl:AllDisjointProperties, ?z owl:members ?l, ?l aux:cell ?n, ?n aux:after ?m,
          ?n rdf:first ?p1, ?m rdf:first ?p2, ?x ?p1 ?y, ?x ?p2 ?y
prp-inv1  ?y ?p2 ?x :- ?p1 owl:inverseOf ?p2, ?x ?p1 ?y
prp-inv2  ?y ?p1 ?x :- ?p1 owl:inverseOf ?p2, ?x ?p2 ?y
key       ?l aux:key ?c :- ?c owl:hasKey ?l
key       ?m aux:key ?c :- ?l aux:key ?c, ?l rdf:rest ?m, ?m rdf:first ?q
key       ?x ?l ?y :- ?l aux:key ?c, ?l rdf:rest rdf:nil, ?l rdf:first ?p, ?x a ?c, ?y a ?c, ?x ?p ?z,
          ?y ?p ?z
key       ?x ?l ?y :- ?l aux:key ?c, ?l rdf:rest ?m, ?m aux:key ?c, ?l rdf:first ?p, ?x ?p ?z, ?y ?p ?z,
          ?x ?m ?y
prp-key   ?x owl:sameAs ?y :- ?c owl:hasKey ?l, ?x ?l ?y, ?x a ?c, ?y a ?c, ?x ≠ ?y
prp-npa1  false :- ?z owl:sourceIndividual ?x, ?z owl:assertionProperty ?p, ?z owl:targetIndividual ?y,
          ?x ?p ?y
prp-npa2  false :- ?z owl:sourceIndividual ?x, ?z owl:assertionProperty ?p, ?z owl:targetValue ?y, ?x ?p ?y

cls-nothing2  false :- ?x a owl:Nothing
int       ?l aux:all ?c :- ?c owl:intersectionOf ?l
int       ?m aux:all ?c :- ?l aux:all ?c, ?l rdf:rest ?m, ?m rdf:first ?d
int       ?y aux:in ?l :- ?l aux:all ?c, ?l rdf:rest rdf:nil, ?l rdf:first ?d, ?y a ?d
int       ?y aux:in ?l :- ?l aux:all ?c, ?l rdf:rest ?m, ?l rdf:first ?d, ?y a ?d, ?y aux:in ?m
cls-int1  ?y a ?c :- ?c owl:intersectionOf ?l, ?y aux:in ?l
cls-int2  ?y a ?d :- ?c owl:intersectionOf ?l, ?l aux:cell ?n, ?n rdf:first ?d, ?y a ?c
cls-uni   ?y a ?c :- ?c owl:unionOf ?l, ?l aux:cell ?n, ?n rdf:first ?d, ?y a ?d
cls-com   false :- ?c1 owl:complementOf ?c2, ?x a ?c1, ?x a ?c2
cls-svf1  ?u a ?c :- ?c owl:someValuesFrom ?d, ?c owl:onProperty ?p, ?u ?p ?v, ?v a ?d
cls-svf2  ?u a ?c :- ?c owl:someValuesFrom owl:Thing, ?c owl:onProperty ?p, ?u ?p ?v
cls-avf   ?v a ?d :- ?c owl:allValuesFrom ?d, ?c owl:onProperty ?p, ?u a ?c, ?u ?p ?v
cls-hv1   ?u ?p ?y :- ?c owl:hasValue ?y, ?c owl:onProperty ?p, ?u a ?c
cls-hv2   ?u a ?c :- ?c owl:hasValue ?y, ?c owl:onProperty ?p, ?u ?p ?y
cls-maxc1  false :- ?c owl:maxCardinality 0, ?c owl:onProperty ?p, ?u a ?c, ?u ?p ?y
cls-maxc2  ?y1 owl:sameAs ?y2 :- ?c owl:maxCardinality 1, ?c owl:onProperty ?p, ?u a ?c, ?u ?p ?y1,
          ?u ?p ?y2, ?y1 ≠ ?y2
cls-maxqc1  false :- ?c owl:maxQualifiedCardinality 0, ?c owl:onProperty ?p, ?c owl:onClass ?d, ?u a ?c,
          ?u ?p ?y, ?y a ?d
cls-maxqc1  false :- ?c owl:maxQualifiedCardinality 0, ?c owl:onProperty ?p, ?c owl:onDataRange ?d, ?u a ?c,
          ?u ?p ?y, ?y a ?d
cls-maxqc2  false :- ?c owl:maxQualifiedCardinality 0, ?c owl:onProperty ?p, ?c owl:onClass owl:Thing,
          ?u a ?c, ?u ?p ?y
cls-maxqc3  ?y1 owl:sameAs ?y2 :- ?c owl:maxQualifiedCardinality 1, ?c owl:onProperty ?p, ?c owl:onClass ?d,
          ?u a ?c, ?u ?p ?y1, ?y1 a ?d, ?u ?p ?y2, ?y2 a ?d, ?y1 ≠ ?y2
cls-maxqc3  ?y1 owl:sameAs ?y2 :- ?c owl:maxQualifiedCardinality 1, ?c owl:onProperty ?p,
          ?c owl:onDataRange ?d, ?u a ?c, ?u ?p ?y1, ?y1 a ?d, ?u ?p ?y2, ?y2 a ?d, ?y1 ≠ ?y2
cls-maxqc4  ?y1 owl:sameAs ?y2 :- ?c owl:maxQualifiedCardinality 1, ?c owl:onProperty ?p,
          ?c owl:onClass owl:Thing, ?u a ?c, ?u ?p ?y1, ?u ?p ?y2, ?y1 ≠ ?y2
cls-oo    ?y a ?c :- ?c owl:oneOf ?l, ?l aux:cell ?n, ?n rdf:first ?y

cax-sco   ?x a ?c2 :- ?c1 rdfs:subClassOf ?c2, ?x a ?c1
cax-eqc1  ?x a ?c2 :- ?c1 owl:equivalentClass ?c2, ?x a ?c1
cax-eqc2  ?x a ?c1 :- ?c1 owl:equivalentClass ?c2, ?x a ?c2
cax-dw    false :- ?c1 owl:disjointWith ?c2, ?x a ?c1, ?x a ?c2
cax-adc   false :- ?z a owl:AllDisjointClasses, ?z owl:members ?l, ?l aux:cell ?n, ?n aux:after ?m,
          ?n rdf:first ?c1, ?m rdf:first ?c2, ?x a ?c1, ?x a ?c2

scm-int   ?c rdfs:subClassOf ?d :- ?c owl:intersectionOf ?l, ?l aux:cell ?n, ?n rdf:first ?d
scm-uni   ?d rdfs:subClassOf ?c :- ?c owl:unionOf ?l, ?l aux:cell ?n, ?n rdf:first ?d
"""

_PREFIXES = {"rdf": f"<{RDF}", "rdfs": f"<{RDFS}", "owl": f"<{OWL}", "aux": AUXILIARY}
_LINE = re.compile(r"(\S+)\s+(.+) :- (.+)")


def parse_rules(text: str) -> tuple[list[Rule], list[Constraint]]:
    """The rules of this module's notation."""
    rules, constraints = [], []
    for line in re.sub(r"\n +", " ", text).strip().splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is None:
            assert not line.strip(), line
            continue
        name, heads, body = match.groups()
        items = tuple(_item(part) for part in body.split(", "))
        if heads == "false":
            constraints.append(Constraint(items, name))
            continue
        triples = tuple(item for item in map(_item, heads.split(", ")) if isinstance(item, Triple))
        rules.append(Rule(triples, items, name))
    return rules, constraints


def _item(text: str) -> BodyItem:
    one, middle, other = text.split()
    if middle == "≠":
        return Filter(Call("!", (Call("SAMETERM", (_term(one), _term(other))),)))
    return Triple(_term(one), _term(middle), _term(other))


def _term(text: str) -> Argument:
    if text.startswith("?"):
        return Variable(text[1:])
    if text == "a":
        return TYPE
    if text.isdecimal():
        return f'"{text}"^^<{XSD}nonNegativeInteger>'
    prefix, _, name = text.partition(":")
    return f"{_PREFIXES[prefix]}{name}>"
