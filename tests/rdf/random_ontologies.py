"""Small ontologies with instances, at random, over all constructs of OWL 2 RL and some that only look
like them."""

from __future__ import annotations

import random

from gpuengine.rdf.terms import OWL, RDF, RDFS, TYPE, XSD

Statement = tuple[str, str, str]
CLASSES = [f"<http://x/{name}>" for name in "ABCDE"]
ROLES = [f"<http://x/{name}>" for name in ("p", "q", "r", "s")]
THINGS = [f"<http://x/{name}>" for name in ("a", "b", "c", "d", "e")]
ONE, ZERO = (f'"{n}"^^<{XSD}nonNegativeInteger>' for n in (1, 0))


def owl(name: str) -> str:
    return f"<{OWL}{name}>"


def rdfs(name: str) -> str:
    return f"<{RDFS}{name}>"


class Writer:
    """Triples of axioms drawn at random."""

    def __init__(self, seed: int, *, literals: bool = True, constraints: bool = True) -> None:
        self.random = random.Random(seed)
        self.triples: list[Statement] = []
        self.literals = literals
        self.constraints = constraints
        self.blanks = 0

    def blank(self) -> str:
        self.blanks += 1
        return f"_:n{self.blanks}"

    def list_of(self, members: list[str]) -> str:
        head = f"<{RDF}nil>"
        for each in reversed(members):
            node = self.blank()
            self.triples += [(node, f"<{RDF}first>", each), (node, f"<{RDF}rest>", head)]
            head = node
        return head

    def some(self, choices: list[str], least: int = 2, most: int = 3) -> list[str]:
        return self.random.sample(choices, self.random.randint(least, most))

    def role(self) -> str:
        if self.random.random() < 0.15:
            node = self.blank()
            self.triples.append((node, owl("inverseOf"), self.random.choice(ROLES)))
            return node
        return self.random.choice(ROLES)

    def klass(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.5:
            return self.random.choice([*CLASSES, owl("Thing")] if self.random.random() < 0.1 else CLASSES)
        node = self.blank()
        self.triples.append((node, TYPE, owl("Class")))
        self.construct(node, depth - 1)
        return node

    def construct(self, node: str, depth: int) -> None:
        kind = self.random.choice(
            ["intersectionOf", "unionOf", "some", "all", "has", "max", "maxq", "oneOf", "complement"]
        )
        if kind in ("intersectionOf", "unionOf"):
            members = [self.klass(depth) for _ in range(self.random.randint(1, 3))]
            self.triples.append((node, owl(kind), self.list_of(members)))
        elif kind == "oneOf":
            self.triples.append((node, owl("oneOf"), self.list_of(self.some(THINGS))))
        elif kind == "complement":
            if self.constraints:
                self.triples.append((node, owl("complementOf"), self.klass(depth)))
        else:
            self.triples.append((node, owl("onProperty"), self.role()))
            if kind in ("some", "all"):
                self.triples.append((node, owl(f"{kind}ValuesFrom"), self.klass(depth)))
            elif kind == "has":
                self.triples.append((node, owl("hasValue"), self.random.choice(THINGS)))
            elif kind == "max":
                number = self.random.choice([ZERO, ONE]) if self.constraints else ONE
                self.triples.append((node, owl("maxCardinality"), number))
            else:
                number = self.random.choice([ZERO, ONE]) if self.constraints else ONE
                self.triples.append((node, owl("maxQualifiedCardinality"), number))
                self.triples.append((node, owl("onClass"), self.klass(depth)))

    def axiom(self) -> None:
        pick = self.random.choice
        kinds = [
            "sub",
            "sub",
            "sub",
            "eqc",
            "subp",
            "eqp",
            "dom",
            "rng",
            "inv",
            "char",
            "chain",
            "key",
            "named",
        ]
        if self.constraints:
            kinds += ["dw", "adc", "pdw", "adp", "npa", "alldiff", "diff"]
        kind = pick(kinds)
        add = self.triples.append
        if kind == "sub":
            add((self.klass(), rdfs("subClassOf"), self.klass()))
        elif kind == "eqc":
            add((pick(CLASSES), owl("equivalentClass"), self.klass()))
        elif kind == "subp":
            add((pick(ROLES), rdfs("subPropertyOf"), self.role()))
        elif kind == "eqp":
            add((pick(ROLES), owl("equivalentProperty"), pick(ROLES)))
        elif kind in ("dom", "rng"):
            add((pick(ROLES), rdfs("domain" if kind == "dom" else "range"), self.klass()))
        elif kind == "inv":
            add((pick(ROLES), owl("inverseOf"), pick(ROLES)))
        elif kind == "char":
            names = ["Functional", "InverseFunctional", "Transitive", "Symmetric"]
            if self.constraints:
                names += ["Asymmetric", "Irreflexive"]
            add((pick(ROLES), TYPE, owl(f"{pick(names)}Property")))
        elif kind == "chain":
            members = [self.role() for _ in range(self.random.randint(1, 3))]
            add((pick(ROLES), owl("propertyChainAxiom"), self.list_of(members)))
        elif kind == "key":
            add((pick(CLASSES), owl("hasKey"), self.list_of(self.some(ROLES, 1, 2))))
        elif kind == "named":
            self.construct(pick(CLASSES), 1)
        elif kind == "dw":
            add((self.klass(), owl("disjointWith"), self.klass()))
        elif kind == "pdw":
            add((pick(ROLES), owl("propertyDisjointWith"), pick(ROLES)))
        elif kind in ("adc", "adp"):
            node = self.blank()
            add((node, TYPE, owl("AllDisjointClasses" if kind == "adc" else "AllDisjointProperties")))
            add((node, owl("members"), self.list_of(self.some(CLASSES if kind == "adc" else ROLES))))
        elif kind == "npa":
            node = self.blank()
            add((node, owl("sourceIndividual"), pick(THINGS)))
            add((node, owl("assertionProperty"), pick(ROLES)))
            add((node, owl("targetIndividual"), pick(THINGS)))
        elif kind == "alldiff":
            node = self.blank()
            add((node, TYPE, owl("AllDifferent")))
            add((node, owl(pick(["members", "distinctMembers"])), self.list_of(self.some(THINGS))))
        else:
            add((pick(THINGS), owl("differentFrom"), pick(THINGS)))

    def data(self, number: int) -> None:
        pick = self.random.choice
        literals = [f'"{n}"^^<{XSD}{kind}>' for n in ("1", "01", "2") for kind in ("integer", "decimal")]
        for _ in range(number):
            draw = self.random.random()
            if draw < 0.4:
                self.triples.append((pick(THINGS), TYPE, pick(CLASSES)))
            elif draw < 0.9:
                self.triples.append((pick(THINGS), pick(ROLES), pick(THINGS)))
            elif draw < 0.95 and self.literals:
                self.triples.append((pick(THINGS), pick(ROLES), pick(literals)))
            elif draw > 0.97:
                self.triples.append((pick(THINGS), owl("sameAs"), pick(THINGS)))


def ontology(seed: int, axioms: int = 5, facts: int = 6, **options: bool) -> list[Statement]:
    """Axioms and facts; all classes and properties are declared."""
    writer = Writer(seed, **options)
    for _ in range(axioms):
        writer.axiom()
    writer.data(facts)
    declared = [(each, TYPE, owl("Class")) for each in CLASSES]
    declared += [(each, TYPE, owl("ObjectProperty")) for each in ROLES]
    return list(dict.fromkeys([*writer.triples, *declared]))
