"""OWL 2 RL and RDFS: from an ontology's triples to rules, constraints and facts about literals.

`compile_ontology` is what an engine calls, with the triples that may be axioms; when those change, it calls
again and takes the difference. Two ways lead to the same facts:

- compiled: rules over the classes and properties that the ontology names (`gpuengine.rdf.owl_compiler`);
- meta: the rules of the profile over all triples (`gpuengine.rdf.owl_meta`), which read the ontology as data.

Compiled rules know the axioms that are stated. Where an ontology derives axioms of its own by more than the
vocabulary's rules (a subproperty of ``rdfs:subClassOf``, say), the meta rules are taken.

Without `axiomatic`, that is left out which says nothing but that everything is itself and that the
vocabulary is the vocabulary: ``x owl:sameAs x``, ``C rdfs:subClassOf C``, the types of OWL's own terms,
and of all literals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations

from gpuengine.rdf import rdfs
from gpuengine.rdf.datatypes import DATATYPES, LITERAL, DataRange, IllTyped, Value, value
from gpuengine.rdf.ontology import (
    DATATYPE,
    NOTHING,
    SAME,
    STRUCTURE,
    SUBCLASS,
    THING,
    Ontology,
    Statement,
    owl,
)
from gpuengine.rdf.owl_compiler import Compiler
from gpuengine.rdf.owl_meta import EQUALITY, META, REFLEXIVITY, SCHEMA, parse_rules
from gpuengine.rdf.rules import Call, Constraint, Filter, Rule, Triple, Variable
from gpuengine.rdf.terms import OWL, RDFS, TYPE, is_literal

PROFILES = ("owl2rl", "rdfs")

_ANNOTATIONS = (
    *(f"<{RDFS}{name}>" for name in ("label", "comment", "seeAlso", "isDefinedBy")),
    *map(owl, ("versionInfo", "deprecated", "priorVersion", "backwardCompatibleWith", "incompatibleWith")),
)
NOT_MEMBER, OTHER_VALUE = "NOT-MEMBER", "OTHER-VALUE"
"""Conditions of constraints: the first argument is a literal without a value in the range that the second
names; the arguments are literals that denote different values."""


@dataclass(frozen=True)
class LiteralFacts:
    """What holds of literals by what they denote. An engine states it for the literals that its stated
    triples and rules mention, and takes it back with the last of these; see `gpuengine.rdf.literals`."""

    ranges: Mapping[str, DataRange] = field(default_factory=dict)
    """Those that rules ask for members of."""
    equal: bool = False
    different: bool = False
    overflow: bool = False
    same: str = SAME
    """The predicate between literals that denote one value."""
    datatypes: frozenset[str] = DATATYPES
    """Those whose literals are known to denote something."""

    def value(self, text: str) -> Value | IllTyped | None:
        """What a term denotes, if it is a literal of a known datatype."""
        if not is_literal(text) or (
            text.endswith(">") and text[text.rindex("^^") + 2 :] not in self.datatypes
        ):
            return None
        return value(text, overflow=self.overflow)

    @property
    def says_nothing(self) -> bool:
        return not (self.ranges or self.equal or self.different)

    def by_value(self, literals: Iterable[str]) -> dict[Value, tuple[str, ...]]:
        """The literals that denote something, by what they denote."""
        groups: dict[Value, tuple[str, ...]] = {}
        for text in dict.fromkeys(literals):
            denoted = self.value(text)
            if isinstance(denoted, tuple):
                groups[denoted] = (*groups.get(denoted, ()), text)
        return groups

    def of_values(self, literals: Mapping[Value, tuple[str, ...]]) -> list[Statement]:
        """dt-type2 and dt-eq: the triples for literals of some values, whatever other literals there are."""
        statements = []
        for denoted, texts in literals.items():
            ranges = [name for name, each in self.ranges.items() if each.contains(denoted)]
            statements += [(text, TYPE, name) for text in texts for name in ranges]
            if self.equal or self.different:
                statements += [(texts[0], self.same, text) for text in texts[1:]]
        return statements

    def triples(self, literals: Mapping[Value, tuple[str, ...]]) -> list[Statement]:
        """The triples for literals by value: dt-type2, dt-eq and, for each pair of values, dt-diff."""
        if self.says_nothing:
            return []
        statements = self.of_values(literals)
        if self.different:
            firsts = [texts[0] for texts in literals.values()]
            statements += [(one, owl("differentFrom"), other) for one, other in permutations(firsts, 2)]
        return statements


@dataclass(frozen=True)
class Compiled:
    """What an ontology asks of an engine. A rule without a body is a fact."""

    rules: list[Rule]
    constraints: list[Constraint]
    literals: LiteralFacts
    ranges: Mapping[str, DataRange]
    """The datatypes that constraints are about."""


def compile_ontology(
    statements: Iterable[Statement],
    profile: str,
    *,
    axiomatic: bool = False,
    meta: bool = False,
    equality: bool = False,
    representatives: bool = False,
    datatypes: Iterable[str] = DATATYPES,
    containers: Iterable[str] = (),
) -> Compiled:
    """What the axioms among the triples ask for in a profile of `PROFILES`.

    `meta` asks for the rules over triples. `equality`: ``owl:sameAs`` may be stated in triples that are
    not given here; with `representatives` an engine has one term stand for all that are the same, and needs
    no rules for that. `datatypes` are those whose literals denote something. `containers` are container
    membership properties (``rdf:_1``) to have axioms of, beside ``rdf:_1``.
    """
    if profile not in PROFILES:
        raise ValueError(f"there is no profile {profile!r}: it is one of {', '.join(PROFILES)}")
    ontology = Ontology(statements)
    recognised = frozenset({*datatypes, LITERAL})
    ranges = ontology.data_ranges()
    if axiomatic:
        ranges = {name: DataRange("datatype", name) for name in sorted(DATATYPES)} | ranges
    ranges = {name: each for name, each in ranges.items() if name in recognised or name not in DATATYPES}
    if profile == "rdfs":
        return _rdfs(ontology, ranges, recognised, axiomatic=axiomatic, meta=meta, containers=containers)
    schema, _ = parse_rules(SCHEMA)
    compiler = None if meta else Compiler(ontology, axiomatic=axiomatic, equality=equality)
    if compiler is None or _derives_axioms(compiler.rules):
        rules, constraints = parse_rules(META)
        equality = True
        asked = ranges
    else:
        rules, constraints = [*compiler.rules, *_list_axioms(ontology)], list(compiler.constraints)
        equality = compiler.equates
        bodies = [*(rule.body for rule in rules), *(one.body for one in constraints)]
        classes = {item.object for body in bodies for item in body if isinstance(item, Triple)}
        asked = {name: data_range for name, data_range in ranges.items() if axiomatic or name in classes}
    rules += schema
    if equality:
        if not representatives:
            rules += parse_rules(EQUALITY)[0]
        x, y = Variable("x"), Variable("y")
        constraints.append(Constraint((Triple(x, SAME, y), Filter(Call(OTHER_VALUE, (x, y)))), "dt-diff"))
    constraints += _not_members(ranges)
    if axiomatic:
        rules += [*parse_rules(REFLEXIVITY)[0], *_vocabulary()]
    literals = LiteralFacts(asked, equal=equality, different=axiomatic, datatypes=recognised)
    return Compiled(rules, constraints, literals, ranges)


def _not_members(ranges: Mapping[str, DataRange]) -> list[Constraint]:
    x = Variable("x")
    return [
        Constraint((Triple(x, TYPE, name), Filter(Call(NOT_MEMBER, (x, name)))), "dt-not-type")
        for name in ranges
    ]


def _derives_axioms(rules: Iterable[Rule]) -> bool:
    """Whether a rule derives what another was, or would have been, compiled from."""
    for rule in rules:
        for head in rule.heads:
            if head.predicate == TYPE and (
                isinstance(head.object, Variable)
                or (head.object.startswith(f"<{OWL}") and head.object not in (THING, NOTHING))
            ):
                return True
            if head.predicate in STRUCTURE:
                return True
    return False


def _list_axioms(ontology: Ontology) -> list[Rule]:
    """scm-int and scm-uni: where the triple with the list is loaded, those for its members hold."""
    rules = []
    for name, predicate in (("scm-int", "intersectionOf"), ("scm-uni", "unionOf")):
        for klass, node in ontology.pairs(owl(predicate)):
            body = (Triple(klass, owl(predicate), node),)
            for each in ontology.members(node):
                pair = (klass, each) if name == "scm-int" else (each, klass)
                rules.append(Rule((Triple(pair[0], SUBCLASS, pair[1]),), body, name))
    return rules


def _vocabulary() -> list[Rule]:
    """Facts about OWL's own terms."""
    facts = [(name, owl("AnnotationProperty"), "prp-ap") for name in _ANNOTATIONS]
    facts += [(THING, owl("Class"), "cls-thing"), (NOTHING, owl("Class"), "cls-nothing1")]
    facts += [(name, DATATYPE, "dt-type1") for name in sorted(DATATYPES)]
    return [Rule((Triple(subject, TYPE, klass),), (), name) for subject, klass, name in facts]


def _rdfs(
    ontology: Ontology,
    ranges: Mapping[str, DataRange],
    known: frozenset[str],
    *,
    axiomatic: bool,
    meta: bool,
    containers: Iterable[str],
) -> Compiled:
    if axiomatic:
        rules = [*rdfs.meta_rules(), *rdfs.axioms(containers)]
        literals = LiteralFacts(ranges, equal=True, overflow=True, same=rdfs.SAME_VALUE, datatypes=known)
    else:
        rules = rdfs.useful_meta_rules() if meta else rdfs.compiled_rules(ontology)
        literals = LiteralFacts(overflow=True, datatypes=known)
    return Compiled(rules, _not_members(ranges), literals, ranges)
