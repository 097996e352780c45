"""Rules over triples, as the parser of RDFox's syntax and the compiler of ontologies make them.

A term in a rule is a `Variable` or a text in the form of `gpuengine.rdf.terms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import overload


@dataclass(frozen=True)
class Variable:
    name: str
    """Without the question mark."""


Argument = Variable | str


@dataclass(frozen=True)
class Triple:
    """``[s, p, o]``, in a named graph if one is given; the classes and properties of RDFox's atoms
    ``:C[?x]`` and ``:p[?x, ?y]`` are triples too."""

    subject: Argument
    predicate: Argument
    object: Argument
    graph: Argument | None = None


@dataclass(frozen=True)
class Call:
    """An operator or function of SPARQL: ``+ - * / = != < > <= >= && || ! IN``, a built-in by its name in
    capitals (``STRLEN``, ``IF``, ``SKOLEM``), or a cast by the text of its IRI."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Variable | str | Call


@dataclass(frozen=True)
class Negation:
    """``NOT body``; `local` are the variables of ``NOT EXISTS ?v, … IN``, others are bound outside."""

    body: tuple[Triple, ...]
    local: tuple[Variable, ...] = ()


@dataclass(frozen=True)
class Filter:
    condition: Expression


@dataclass(frozen=True)
class Bind:
    expression: Expression
    variable: Variable


@dataclass(frozen=True)
class Aggregation:
    """``BIND(COUNT(DISTINCT ?x) AS ?n)`` in an ``AGGREGATE``."""

    function: str
    argument: Expression | None
    variable: Variable
    distinct: bool = False


@dataclass(frozen=True)
class Aggregate:
    """``AGGREGATE(body ON groups BIND(…) …)``."""

    body: tuple[BodyItem, ...]
    groups: tuple[Variable, ...]
    aggregations: tuple[Aggregation, ...]


BodyItem = Triple | Negation | Filter | Bind | Aggregate


@dataclass(frozen=True)
class Rule:
    heads: tuple[Triple, ...]
    body: tuple[BodyItem, ...]
    name: str = field(default="", compare=False)
    """Of the rule of OWL 2 RL (``cax-sco``), or where it is written (``rules.dlog:12``)."""


@dataclass(frozen=True)
class Constraint:
    """A body that no consistent graph has: each instance is an inconsistency by that rule of OWL 2 RL."""

    body: tuple[BodyItem, ...]
    name: str


@overload
def canonical(rule: Rule) -> Rule: ...


@overload
def canonical(rule: Constraint) -> Constraint: ...


def canonical(rule: Rule | Constraint) -> Rule | Constraint:
    """The rule with its variables named in the order of their first occurrence.

    Rules that differ in the names of variables only become equal.
    """
    names: dict[Variable, Variable] = {}

    def argument(place: Argument) -> Argument:
        if isinstance(place, Variable):
            return names.setdefault(place, Variable(f"v{len(names)}"))
        return place

    def triple(one: Triple) -> Triple:
        graph = None if one.graph is None else argument(one.graph)
        return Triple(argument(one.subject), argument(one.predicate), argument(one.object), graph)

    def variable(one: Variable) -> Variable:
        return names.setdefault(one, Variable(f"v{len(names)}"))

    def expression(one: Expression) -> Expression:
        if isinstance(one, Call):
            return Call(one.function, tuple(map(expression, one.arguments)))
        return argument(one)

    def item(one: BodyItem) -> BodyItem:
        if isinstance(one, Triple):
            return triple(one)
        if isinstance(one, Negation):
            return Negation(tuple(map(triple, one.body)), tuple(map(variable, one.local)))
        if isinstance(one, Filter):
            return Filter(expression(one.condition))
        if isinstance(one, Bind):
            return Bind(expression(one.expression), variable(one.variable))
        body = tuple(map(item, one.body))
        aggregations = tuple(
            replace(
                each,
                argument=None if each.argument is None else expression(each.argument),
                variable=variable(each.variable),
            )
            for each in one.aggregations
        )
        return Aggregate(body, tuple(map(variable, one.groups)), aggregations)

    if isinstance(rule, Rule):
        return Rule(tuple(map(triple, rule.heads)), tuple(map(item, rule.body)), rule.name)
    return replace(rule, body=tuple(map(item, rule.body)))
