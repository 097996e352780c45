"""OWL 2 RL by compilation: the axioms of an ontology as rules over its classes and properties.

    :Student ≡ :Person ⊓ ∃:takes.:Course
    [?x, rdf:type, :Student] :- [?x, rdf:type, :Person], [?x, :takes, ?y1], [?y1, rdf:type, :Course] .

Class expressions without a name are unfolded: what makes a thing a member of one (its *producers*: the
pattern of the expression, subclasses, domains, ranges) is written in the place of the expression in a
body, and no fact says that the thing is a member. Expressions that would unfold into too many or too
large bodies, or into themselves, or that have members by name, are treated like named classes: facts are
kept for them. Restrictions without a name that are equal are one.

Everything derived stands in the ontology's own terms; where no list is longer than `_LONGEST_BODY`, no
other term occurs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from gpuengine.rdf.datatypes import literal_parts
from gpuengine.rdf.ontology import (
    AUXILIARY,
    DOMAIN,
    NOTHING,
    RANGE,
    SAME,
    SUBCLASS,
    SUBPROPERTY,
    THING,
    Ontology,
    is_blank,
    owl,
)
from gpuengine.rdf.rules import Argument, BodyItem, Call, Constraint, Filter, Rule, Triple, Variable
from gpuengine.rdf.terms import TYPE

X = Variable("x")
Body = tuple[BodyItem, ...]
Role = tuple[str, bool]
"""A property, and whether it is read backwards."""

_PATTERNS = ("cls-svf1", "cls-svf2", "cls-hv2")
"""What these derive of a restriction they derive of each larger one too."""

_MOST_ALTERNATIVES = 8
_LONGEST_BODY = 12


@dataclass(frozen=True)
class _Producer:
    """One way to become a member of a class: by a rule's name, the classes that its bodies are made of, and a
    function from a body of each to the body that has the new member as ``?x``."""

    name: str
    classes: tuple[str, ...]
    body: Callable[[_Fresh, Sequence[Body]], Body]


class _Fresh:
    """Variables that no other atom of a body has."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def variable(self) -> Variable:
        return Variable(f"y{next(self._numbers)}")

    def copy(self, body: Body, at: Argument) -> Body:
        """A body with ``?x`` replaced, and all other variables new."""
        names: dict[Variable, Argument] = {X: at}

        def replaced(argument: Argument) -> Argument:
            if not isinstance(argument, Variable):
                return argument
            if argument not in names:
                names[argument] = self.variable()
            return names[argument]

        return tuple(
            Triple(replaced(item.subject), replaced(item.predicate), replaced(item.object))
            for item in body
            if isinstance(item, Triple)
        )


def member(klass: str, at: Argument = X) -> Triple:
    return Triple(at, TYPE, klass)


def edge(role: Role, subject: Argument, target: Argument) -> Triple:
    name, backwards = role
    return Triple(target, name, subject) if backwards else Triple(subject, name, target)


class Compiler:
    """The rules and constraints of the axioms of one ontology. `rules` and `constraints` hold them once
    it is made."""

    def __init__(self, ontology: Ontology, *, axiomatic: bool, equality: bool) -> None:
        self._ontology = ontology
        self._equality = equality or axiomatic
        self._rules: dict[tuple[Triple, Body], Rule] = {}
        self.constraints: dict[Constraint, None] = {}
        self._roles = self._anonymous_inverses()
        self._same = self._equal_restrictions()
        self._producers: dict[str, list[_Producer]] = defaultdict(list)
        self._bodies: dict[str, list[tuple[str, Body]]] = {}
        self._auxiliaries = count(1)
        self._properties()
        self._class_axioms(axiomatic)
        self._unfold()
        self._class_rules()
        self._class_consequences()
        self._individuals()

    # Properties

    def _anonymous_inverses(self) -> dict[str, Role]:
        """Properties that are but a name's inverse, as what they are."""
        roles: dict[str, Role] = {}
        pairs = self._ontology.pairs(owl("inverseOf"))
        for one, other in (*pairs, *((other, one) for one, other in pairs)):
            if is_blank(one) and not is_blank(other):
                roles.setdefault(one, (other, True))
        return roles

    def role(self, text: str) -> Role:
        return self._roles.get(text, (text, False))

    def _properties(self) -> None:
        ontology = self._ontology
        y, z = Variable("y"), Variable("z")
        for name, predicate, both in (
            ("prp-spo1", SUBPROPERTY, False),
            ("prp-eqp1", owl("equivalentProperty"), True),
        ):
            for sub, top in ontology.pairs(predicate):
                self._rule(name, edge(self.role(top), X, y), edge(self.role(sub), X, y))
                if both:
                    self._rule("prp-eqp2", edge(self.role(sub), X, y), edge(self.role(top), X, y))
        for one, other in ontology.pairs(owl("inverseOf")):
            if one in self._roles or other in self._roles:
                continue
            self._rule("prp-inv1", Triple(y, other, X), Triple(X, one, y))
            self._rule("prp-inv2", Triple(y, one, X), Triple(X, other, y))
        for each in ontology.instances(owl("SymmetricProperty")):
            self._rule("prp-symp", edge(self.role(each), y, X), edge(self.role(each), X, y))
        for each in ontology.instances(owl("TransitiveProperty")):
            role = self.role(each)
            self._rule("prp-trp", edge(role, X, z), edge(role, X, y), edge(role, y, z))
        for each in ontology.instances(owl("FunctionalProperty")):
            role = self.role(each)
            self._equate("prp-fp", (edge(role, X, Variable("y1")), edge(role, X, Variable("y2"))))
        for each in ontology.instances(owl("InverseFunctionalProperty")):
            role = self.role(each)
            self._equate("prp-ifp", (edge(role, Variable("y1"), X), edge(role, Variable("y2"), X)))
        for top, chain in ontology.lists(owl("propertyChainAxiom")):
            self._chain(top, chain)
        self._property_constraints()

    def _chain(self, top: str, chain: Sequence[str]) -> None:
        """A chain; a long one in pieces, each a property of its own."""
        roles = [self.role(each) for each in chain]
        while len(roles) > _LONGEST_BODY:
            piece: Role = (f"{AUXILIARY}chain:{next(self._auxiliaries)}:{top.strip('<>')}>", False)
            self._compose(piece, roles[:_LONGEST_BODY])
            roles = [piece, *roles[_LONGEST_BODY:]]
        if roles:
            self._compose(self.role(top), roles)

    def _compose(self, top: Role, roles: Sequence[Role]) -> None:
        nodes = [Variable(f"x{i}") for i in range(len(roles) + 1)]
        body = [edge(role, nodes[i], nodes[i + 1]) for i, role in enumerate(roles)]
        self._rule("prp-spo2", edge(top, nodes[0], nodes[-1]), *body)

    def _property_constraints(self) -> None:
        ontology = self._ontology
        y = Variable("y")
        for each in ontology.instances(owl("IrreflexiveProperty")):
            self._constraint("prp-irp", edge(self.role(each), X, X))
        for each in ontology.instances(owl("AsymmetricProperty")):
            self._constraint("prp-asyp", edge(self.role(each), X, y), edge(self.role(each), y, X))
        for one, other in ontology.pairs(owl("propertyDisjointWith")):
            self._constraint("prp-pdw", edge(self.role(one), X, y), edge(self.role(other), X, y))
        for node in ontology.instances(owl("AllDisjointProperties")):
            for members in self._lists_of(node, "members"):
                plain = [m for m in members if m not in self._roles]
                for each in _repeated(members):
                    self._constraint("prp-adp", edge(self.role(each), X, y))
                self._constraint("prp-adp", *_pairwise(plain, lambda p: Triple(X, p, y)))
                for one, other in _pairs_with(members, self._roles):
                    self._constraint("prp-adp", edge(self.role(one), X, y), edge(self.role(other), X, y))
        for node, role in ontology.pairs(owl("assertionProperty")):
            for source in ontology.objects(node, owl("sourceIndividual")):
                for name, predicate in (("prp-npa1", "targetIndividual"), ("prp-npa2", "targetValue")):
                    for target in ontology.objects(node, owl(predicate)):
                        self._constraint(name, edge(self.role(role), source, target))

    # Classes

    def _lists_of(self, node: str, *names: str) -> Iterator[tuple[str, ...]]:
        for name in names:
            for target in self._ontology.objects(node, owl(name)):
                yield self._ontology.members(target)

    def _restrictions(self, predicate: str) -> Iterator[tuple[str, str, str]]:
        """Restrictions by one predicate: the class, the property, the filler."""
        for node, filler in self._ontology.pairs(owl(predicate)):
            for role in self._ontology.objects(node, owl("onProperty")):
                yield node, role, filler

    def _equal_restrictions(self) -> dict[str, str]:
        """Restrictions without a name and equal to another, as that one."""
        ontology = self._ontology
        same: dict[str, str] = {}
        first: dict[tuple[str, Role, str], str] = {}
        for predicate in ("someValuesFrom", "allValuesFrom", "hasValue"):
            for node, role, filler in self._restrictions(predicate):
                # The same in what it restricts, if it restricts by nothing else.
                if not is_blank(node) or len(ontology.objects(node, owl("onProperty"))) > 1:
                    continue
                if list(ontology.instances(node)):
                    continue  # its members are stated under its own name
                key = (predicate, self.role(role), filler)
                same.setdefault(node, first.setdefault(key, node))
        return same

    def _class(self, text: str) -> str:
        return self._same.get(text, text)

    def _class_axioms(self, axiomatic: bool) -> None:
        ontology = self._ontology
        for sub, top in ontology.pairs(SUBCLASS):
            self._subclass("cax-sco", sub, top)
        for one, other in ontology.pairs(owl("equivalentClass")):
            self._subclass("cax-eqc1", one, other)
            self._subclass("cax-eqc2", other, one)
        if axiomatic:
            for each in ontology.instances(owl("Class")):
                self._subclass("cax-sco", each, THING)
                self._subclass("cax-sco", NOTHING, each)
        for role, klass in ontology.pairs(DOMAIN):
            self._produce_by("prp-dom", klass, self.role(role))
        for role, klass in ontology.pairs(RANGE):
            name, backwards = self.role(role)
            self._produce_by("prp-rng", klass, (name, not backwards))
        for klass, members in ontology.lists(owl("intersectionOf")):
            self._intersection(klass, members)
        for klass, members in ontology.lists(owl("unionOf")):
            for each in members:
                self._subclass("cls-uni", each, klass)
        for klass, role, filler in self._restrictions("someValuesFrom"):
            self._some_values(klass, self.role(role), filler)
        for klass, role, filler in self._restrictions("allValuesFrom"):
            self._all_values(klass, self.role(role), filler)
        for klass, role, filler in self._restrictions("hasValue"):
            self._produce_by("cls-hv2", klass, self.role(role), filler)
        for name, sub, top in self._derived_subclasses():
            self._subclass(name, sub, top)

    def _produce(
        self, name: str, klass: str, classes: Sequence[str], body: Callable[[_Fresh, Sequence[Body]], Body]
    ) -> None:
        parts = tuple(map(self._class, classes))
        self._producers[self._class(klass)].append(_Producer(name, parts, body))

    def _produce_by(self, name: str, klass: str, role: Role, target: str | None = None) -> None:
        """By a property, to a certain thing or to any."""
        self._produce(name, klass, (), lambda fresh, _: (edge(role, X, target or fresh.variable()),))

    def _subclass(self, name: str, sub: str, top: str) -> None:
        if self._class(sub) != self._class(top):
            self._produce(name, top, (sub,), lambda fresh, bodies: fresh.copy(bodies[0], X))

    def _intersection(self, klass: str, members: Sequence[str]) -> None:
        for each in members:
            self._subclass("cls-int2", klass, each)
        while len(members) > _LONGEST_BODY:
            piece = f"{AUXILIARY}intersection:{next(self._auxiliaries)}>"
            self._produce_all("cls-int1", piece, members[:_LONGEST_BODY])
            members = [piece, *members[_LONGEST_BODY:]]
        self._produce_all("cls-int1", klass, members)

    def _produce_all(self, name: str, klass: str, members: Sequence[str]) -> None:
        if members:
            self._produce(
                name,
                klass,
                members,
                lambda fresh, bodies: tuple(a for body in bodies for a in fresh.copy(body, X)),
            )

    def _some_values(self, klass: str, role: Role, filler: str) -> None:
        if filler == THING:
            self._produce_by("cls-svf2", klass, role)
            return

        def body(fresh: _Fresh, bodies: Sequence[Body]) -> Body:
            at = fresh.variable()
            return (edge(role, X, at), *fresh.copy(bodies[0], at))

        self._produce("cls-svf1", klass, (filler,), body)

    def _all_values(self, klass: str, role: Role, filler: str) -> None:
        def body(fresh: _Fresh, bodies: Sequence[Body]) -> Body:
            at = fresh.variable()
            return (*fresh.copy(bodies[0], at), edge(role, at, X))

        self._produce("cls-avf", filler, (klass,), body)

    def _derived_subclasses(self) -> list[tuple[str, str, str]]:
        """Subclasses by comparing restrictions (scm-svf1 and its like), until there are no more."""
        above: dict[str, dict[str, None]] = defaultdict(dict)
        for klass, producers in self._producers.items():
            for producer in producers:
                if producer.name in ("cax-sco", "cax-eqc1", "cax-eqc2", "cls-int2", "cls-uni"):
                    above[producer.classes[0]][klass] = None
        roles_above: dict[str, dict[str, None]] = defaultdict(dict)
        for sub, top in self._ontology.pairs(SUBPROPERTY):
            roles_above[sub][top] = None
        for one, other in self._ontology.pairs(owl("equivalentProperty")):
            roles_above[one][other] = roles_above[other][one] = None
        kinds = ("someValuesFrom", "allValuesFrom", "hasValue")
        restrictions = {
            kind: list(
                dict.fromkeys((self._class(n), r, self._class(f)) for n, r, f in self._restrictions(kind))
            )
            for kind in kinds
        }
        by_filler = {
            kind: {(role, filler): node for node, role, filler in restrictions[kind]} for kind in kinds
        }
        named = {
            kind: [
                (node, role, filler) for node, role, filler in restrictions[kind] if node not in self._same
            ]
            for kind in kinds
        }
        for kind in kinds:  # several with a name may be equal
            for node, role, filler in named[kind]:
                other = by_filler[kind][role, filler]
                if other != node:
                    above[node][other] = above[other][node] = None
        derived: dict[tuple[str, str, str], None] = {}
        changed = True
        while changed:
            changed = False
            for name, sub, top in self._compared(restrictions, by_filler, above, roles_above):
                if sub != top and top not in above[sub]:
                    above[sub][top] = None
                    derived[name, sub, top] = None
                    changed = True
        for kind in kinds:
            for node, role, filler in named[kind]:
                other = by_filler[kind][role, filler]
                if other != node:
                    name = {"someValuesFrom": "scm-svf1", "allValuesFrom": "scm-avf1", "hasValue": "scm-hv"}[
                        kind
                    ]
                    derived[name, node, other] = derived[name, other, node] = None
        return list(derived)

    @staticmethod
    def _compared(
        restrictions: dict[str, list[tuple[str, str, str]]],
        by_filler: dict[str, dict[tuple[str, str], str]],
        above: dict[str, dict[str, None]],
        roles_above: dict[str, dict[str, None]],
    ) -> list[tuple[str, str, str]]:
        """Pairs of a restriction and the nearest that are larger; those beyond follow from these."""
        pairs: list[tuple[str, str, str]] = []

        for kind, by_class, by_role in (
            ("someValuesFrom", "scm-svf1", "scm-svf2"),
            ("allValuesFrom", "scm-avf1", "scm-avf2"),
            ("hasValue", "", "scm-hv"),
        ):
            nodes = by_filler[kind]
            on_role: dict[str, dict[str, str]] = defaultdict(dict)
            on_filler: dict[str, dict[str, str]] = defaultdict(dict)
            for (role, filler), node in nodes.items():
                on_role[role][filler] = on_filler[filler][role] = node
            for node, role, filler in restrictions[kind]:
                if by_class:
                    others = on_role[role]
                    pairs += [(by_class, node, others[top]) for top in _nearest(filler, above, others)]
                others = on_filler[filler]
                for top in _nearest(role, roles_above, others):
                    pair = (others[top], node) if kind == "allValuesFrom" else (node, others[top])
                    pairs.append((by_role, *pair))
        return pairs

    # Unfolding

    def _unfold(self) -> None:
        """The bodies of all expressions that are unfolded, those that they are made of first."""
        ontology = self._ontology
        expressions = {
            self._class(node)
            for predicate in (
                *("intersectionOf", "unionOf", "complementOf", "someValuesFrom", "allValuesFrom", "hasValue"),
                *("maxCardinality", "maxQualifiedCardinality"),
            )
            for node, _ in ontology.pairs(owl(predicate))
            if is_blank(node)
        }
        expressions |= {klass for klass in self._producers if klass.startswith(AUXILIARY)}
        # Enumerations have members by name; what is stated to be of a class is not seen by who unfolds it.
        expressions -= {self._class(node) for node, _ in ontology.pairs(owl("oneOf"))}
        stated = {node for node in expressions if list(ontology.instances(node))}
        self._kept = {klass for klass in self._producers if klass not in expressions} | stated
        waiting = [node for node in expressions if node not in stated]
        open_nodes: dict[str, Iterator[str]] = {}
        done: set[str] = set()
        for start in waiting:
            stack = [start]
            while stack:
                node = stack[-1]
                if node in done:
                    stack.pop()
                    continue
                if node not in open_nodes:
                    open_nodes[node] = (part for p in self._producers.get(node, ()) for part in p.classes)
                for part in open_nodes[node]:
                    if part not in expressions or part in done or part in self._kept:
                        continue
                    if part in open_nodes:
                        self._kept.add(part)  # it is made of itself
                    else:
                        stack.append(part)
                        break
                else:
                    self._settle(node)
                    done.add(node)
                    stack.pop()

    def _settle(self, node: str) -> None:
        if node in self._kept:
            return
        alternatives: dict[tuple[str, Body], None] = {}
        for producer in self._producers.get(node, ()):
            for body in self._expanded(producer):
                alternatives[producer.name, body] = None
                if len(alternatives) > _MOST_ALTERNATIVES or len(body) > _LONGEST_BODY:
                    self._kept.add(node)
                    return
        self._bodies[node] = list(alternatives)

    def _alternatives(self, klass: str, but: Sequence[str] = ()) -> list[Body]:
        """What makes ``?x`` a member of a class, in bodies; but not those of some rules."""
        if klass in self._kept or klass not in self._bodies:
            return [(member(klass),)]
        return [body for name, body in self._bodies[klass] if name not in but]

    def _expanded(self, producer: _Producer) -> Iterator[Body]:
        choices: list[tuple[Body, ...]] = [()]
        for klass in producer.classes:
            parts = self._alternatives(klass, but=_PATTERNS if producer.name.startswith("scm-") else ())
            if len(choices) * len(parts) > 4 * _MOST_ALTERNATIVES:
                self._kept.add(klass)  # too many: facts for this part instead
                parts = [(member(klass),)]
            choices = [(*chosen, part) for chosen in choices for part in parts]
        for chosen in choices:
            fresh = _Fresh()
            yield tuple(dict.fromkeys(producer.body(fresh, chosen)))

    def _class_rules(self) -> None:
        emitted: set[str] = set()
        while emitted != self._kept:  # an expansion may find that it needs facts for one more class
            for klass in sorted(self._kept - emitted):
                emitted.add(klass)
                for producer in self._producers.get(klass, ()):
                    for body in self._expanded(producer):
                        self._rule(producer.name, member(klass), *body)

    def _class_consequences(self) -> None:
        """What follows for the members of a class other than that they are members of another."""
        ontology = self._ontology
        for klass, role, filler in self._restrictions("hasValue"):
            for body in self._members_of(klass):
                self._rule("cls-hv1", edge(self.role(role), X, filler), *body)
        for klass, members in ontology.lists(owl("oneOf")):
            for each in members:
                self._rule("cls-oo", member(self._class(klass), each))
        for klass, other in ontology.pairs(owl("complementOf")):
            self._disjoint("cls-com", klass, other)
        for one, other in ontology.pairs(owl("disjointWith")):
            self._disjoint("cax-dw", one, other)
        for node in ontology.instances(owl("AllDisjointClasses")):
            for members in self._lists_of(node, "members"):
                kept = [m for m in map(self._class, members) if m not in self._bodies or m in self._kept]
                for each in _repeated(members):
                    self._disjoint("cax-adc", each, each)
                self._constraint("cax-adc", *_pairwise(kept, lambda c: Triple(X, TYPE, c)))
                unfolded = {m for m in members if self._class(m) in self._bodies} - set(kept)
                for one, other in _pairs_with(members, unfolded):
                    self._disjoint("cax-adc", one, other)
        self._constraint("cls-nothing2", member(NOTHING))
        for klass, role, number in self._restrictions("maxCardinality"):
            self._at_most(klass, self.role(role), number, None, ("cls-maxc1", "cls-maxc2"))
        for klass, role, number in self._restrictions("maxQualifiedCardinality"):
            for filler in (
                *ontology.objects(klass, owl("onClass")),
                *ontology.objects(klass, owl("onDataRange")),
            ):
                if filler == THING:
                    self._at_most(klass, self.role(role), number, None, ("cls-maxqc2", "cls-maxqc4"))
                else:
                    self._at_most(klass, self.role(role), number, filler, ("cls-maxqc1", "cls-maxqc3"))
        for klass, roles in ontology.lists(owl("hasKey")):
            self._key(klass, [self.role(each) for each in roles])

    def _members_of(self, klass: str) -> list[Body]:
        return self._alternatives(self._class(klass))

    def _disjoint(self, name: str, one: str, other: str) -> None:
        for body in self._members_of(one):
            for second in self._members_of(other):
                fresh = _Fresh()
                self._constraint(name, *fresh.copy(body, X), *fresh.copy(second, X))

    def _at_most(
        self, klass: str, role: Role, number: str, filler: str | None, names: tuple[str, str]
    ) -> None:
        most = literal_parts(number)[0] if number.startswith('"') else ""
        for body in self._members_of(klass):
            for inner in self._members_of(filler) if filler else [()]:
                fresh = _Fresh()
                start = fresh.copy(body, X)
                ends = [fresh.variable(), fresh.variable()]
                parts = [(edge(role, X, end), *fresh.copy(inner, end)) for end in ends]
                if most.isdecimal() and int(most) == 0:
                    self._constraint(names[0], *start, *parts[0])
                elif most.isdecimal() and int(most) == 1:
                    self._equate(names[1], (*start, *parts[0], *parts[1]), (ends[0], ends[1]))

    def _key(self, klass: str, roles: Sequence[Role]) -> None:
        if not roles:
            return
        one, other = Variable("x1"), Variable("x2")
        for body in self._members_of(klass):
            fresh = _Fresh()
            shared = [fresh.variable() for _ in roles]
            parts = [
                edge(role, at, value)
                for role, value in zip(roles, shared, strict=True)
                for at in (one, other)
            ]
            for second in self._members_of(klass):
                self._equate(
                    "prp-key", (*fresh.copy(body, one), *parts, *fresh.copy(second, other)), (one, other)
                )

    # Individuals

    def _individuals(self) -> None:
        x, y = Variable("x"), Variable("y")
        self._constraint("eq-diff1", Triple(x, owl("differentFrom"), x))
        if self.equates:
            self._constraint("eq-diff1", Triple(x, SAME, y), Triple(x, owl("differentFrom"), y))
        for node in self._ontology.instances(owl("AllDifferent")):
            for name, predicate in (("eq-diff2", "members"), ("eq-diff3", "distinctMembers")):
                for members in self._lists_of(node, predicate):
                    if _repeated(members):
                        self._constraint(name, Triple(node, TYPE, owl("AllDifferent")))
                    if self.equates:
                        within = [Filter(Call("IN", (end, *members))) for end in (x, y)]
                        self._constraint(name, Triple(x, SAME, y), *within, _differ(x, y))

    @property
    def rules(self) -> Iterable[Rule]:
        return self._rules.values()

    @property
    def equates(self) -> bool:
        """Whether things may come to be the same."""
        return self._equality or any(head.predicate == SAME for rule in self.rules for head in rule.heads)

    def _equate(
        self,
        name: str,
        body: Iterable[BodyItem],
        pair: tuple[Variable, Variable] = (Variable("y1"), Variable("y2")),
    ) -> None:
        self._rule(name, Triple(pair[0], SAME, pair[1]), *body, _differ(*pair))

    def _rule(self, name: str, head: Triple, *body: BodyItem) -> None:
        if head not in body:
            self._rules.setdefault((head, body), Rule((head,), body, name))

    def _constraint(self, name: str, *body: BodyItem) -> None:
        if body:
            self.constraints[Constraint(body, name)] = None


def _pairwise(members: Sequence[str], triple: Callable[[Variable], Triple]) -> tuple[BodyItem, ...]:
    """A body that holds where two different members of a list make a triple that holds."""
    if len(members) < 2:
        return ()
    one, other = Variable("c1"), Variable("c2")
    within = [Filter(Call("IN", (each, *members))) for each in (one, other)]
    return (triple(one), triple(other), *within, _differ(one, other))


def _pairs_with(members: Sequence[str], some: Container[str]) -> Iterator[tuple[str, str]]:
    """The pairs of different members of a list, one of which at least is in a set."""
    for i, one in enumerate(members):
        if one in some:
            yield from ((one, other) for j, other in enumerate(members) if other not in some or j > i)


def _repeated(members: Sequence[str]) -> list[str]:
    return [each for each, number in Counter(members).items() if number > 1]


def _differ(one: Variable, other: Variable) -> Filter:
    return Filter(Call("!", (Call("SAMETERM", (one, other)),)))


def _nearest(start: str, above: dict[str, dict[str, None]], goals: Container[str]) -> list[str]:
    """The goals above something, by one step or more, with no other between."""
    nearest: list[str] = []
    seen = {start}
    waiting = [start]
    while waiting:
        for top in above.get(waiting.pop(), ()):
            if top not in seen:
                seen.add(top)
                (nearest if top in goals else waiting).append(top)
    return nearest
