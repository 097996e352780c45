"""Inlining: atoms of ``inline`` relations are replaced by the bodies of their rules.

    .decl geq(x: number, y: number) inline
    geq(x, y) :- x >= y.
    p(x) :- q(x), geq(x, 3).      ->      p(x) :- q(x), x >= 3.

A positive atom of a rule is always inlined.  Under negation and inside an aggregate that would change
what the rule means when the inlined body has variables of its own; there the relation is kept as an
ordinary one, if it is grounded by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.grounding import ungrounded
from gpuengine.language.lowering import LoweredRule
from gpuengine.language.normalise import MAX_DISJUNCTS, NEGATED
from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Functor,
    Inline,
    Literal,
    Negation,
    Relation,
    Rule,
    Variable,
    Wildcard,
    literal_variables,
)
from gpuengine.language.rewrite import all_variables, substitute_literal
from gpuengine.language.stratification import components, dependencies

Body = list[Literal]


class Inlined(NamedTuple):
    """The rules and relations that are left, and the inlined relations for later queries."""

    rules: list[LoweredRule]
    relations: dict[str, Relation]
    inlines: dict[str, Inline]


class TooManyBodies(Exception):
    """Inlining would make more than `MAX_DISJUNCTS` rules of one."""


def inline(
    lowered: list[LoweredRule], relations: Mapping[str, Relation], kept: set[str], reporter: Reporter
) -> Inlined:
    """Inline all ``inline`` relations except those in `kept` (they are read or written as a whole)."""
    candidates = [name for name, relation in relations.items() if "inline" in relation.qualifiers]
    names = {name for name in candidates if name not in kept}
    if not names:
        return Inlined(lowered, dict(relations), {})
    definitions: dict[str, list[LoweredRule]] = {name: [] for name in names}
    others: list[LoweredRule] = []
    for rule in lowered:
        definitions.get(rule.rule.head.relation, others).append(rule)
    inliner = Inliner({}, reporter)
    for name in _inside_out(definitions, relations, reporter):
        expanded = [new for rule in definitions[name] for new in inliner.expand(rule)]
        inliner.define(Inline(relations[name], tuple(rule.rule for rule in expanded)))
        definitions[name] = expanded
    rules = [new for rule in others for new in inliner.expand(rule)]
    for name in inliner.materialised:
        rules += definitions[name]
    remaining = {
        name: relation
        for name, relation in relations.items()
        if name not in names or name in inliner.materialised
    }
    return Inlined(rules, remaining, inliner.inlines)


def _inside_out(
    definitions: dict[str, list[LoweredRule]], relations: Mapping[str, Relation], reporter: Reporter
) -> list[str]:
    """Inline relations, each after those its rules use; recursive ones are reported and left out."""
    graph = {
        name: [body for rule in rules for body, _, _ in dependencies(rule.rule.body) if body in definitions]
        for name, rules in definitions.items()
    }
    component = components(graph)
    sizes: dict[int, int] = {}
    for number in component.values():
        sizes[number] = sizes.get(number, 0) + 1
    order = []
    for name in component:  # Tarjan finds what a relation depends on before the relation
        if sizes[component[name]] > 1 or name in graph[name]:
            start, end = reporter.sources.positions(relations[name].span)
            reporter.error(
                codes.RECURSIVE_INLINE,
                f"the inline relation {name} is defined through itself",
                start,
                end,
                "remove the qualifier inline",
            )
        else:
            order.append(name)
    return order


class Inliner:
    """Expands rules by the definitions known so far, which are themselves expanded."""

    def __init__(
        self, inlines: Mapping[str, Inline], reporter: Reporter, may_materialise: bool = True
    ) -> None:
        self._may_materialise = may_materialise
        self.inlines = dict(inlines)
        self.materialised: dict[str, None] = {}
        self._reporter = reporter
        self._fresh = 0

    def define(self, definition: Inline) -> None:
        self.inlines[definition.relation.name] = definition

    def expand(self, lowered: LoweredRule) -> list[LoweredRule]:
        """The rules that one rule becomes."""
        rule = lowered.rule
        if not any(name in self.inlines for name, _, _ in dependencies(rule.body)):
            return [lowered]
        try:
            bodies = self._bodies(rule.body)
        except TooManyBodies:
            message = "inlining makes too many rules of this one"
            hint = "remove the qualifier inline from a relation it uses"
            self._reporter.error(codes.TOO_LARGE, message, lowered.start, lowered.end, hint)
            return []
        return [lowered._replace(rule=replace(rule, body=tuple(body))) for body in bodies]

    def _bodies(self, body: Iterable[Literal]) -> list[Body]:
        bodies: list[Body] = [[]]
        for literal in body:
            alternatives = self._alternatives(literal)
            if len(bodies) * len(alternatives) > MAX_DISJUNCTS:
                raise TooManyBodies
            bodies = [left + right for left in bodies for right in alternatives]
        return bodies

    def _alternatives(self, literal: Literal) -> list[Body]:
        """The conjunctions whose disjunction a literal of a rule stands for."""
        if isinstance(literal, Atom) and literal.relation in self.inlines:
            return self._unfold(literal)
        if isinstance(literal, Negation) and literal.atom.relation in self.inlines:
            negated = self._negate(literal.atom)
            if negated is not None:
                return negated
            self._materialise(literal.atom)
            return [[literal]]
        if isinstance(literal, Aggregate):
            return [[self._aggregate(literal)]]
        return [[literal]]

    def _aggregate(self, aggregate: Aggregate) -> Aggregate:
        body: Body = []
        for literal in aggregate.body:
            atom = literal.atom if isinstance(literal, Negation) else literal
            if not isinstance(atom, Atom) or atom.relation not in self.inlines:
                body.append(self._aggregate(atom) if isinstance(atom, Aggregate) else literal)
                continue
            alternatives = self._negate(atom) if isinstance(literal, Negation) else self._unfold(atom)
            if (
                alternatives is None
                or len(alternatives) != 1
                or any(_has_locals(unfolded, atom) for unfolded in alternatives)
            ):
                self._materialise(atom)
                alternatives = [[literal]]
            body += alternatives[0]
        return replace(aggregate, body=tuple(body))

    def _unfold(self, call: Atom) -> list[Body]:
        bodies = [self._instantiate(rule, call) for rule in self.inlines[call.relation].rules]
        return [body for body in bodies if body is not None]

    def _instantiate(self, rule: Rule, call: Atom) -> Body | None:
        """The body of `rule` for a call of its head; None if the head can't match."""
        mapping: dict[Variable, Variable | Constant] = {}
        equations: Body = []
        for formal, actual in zip(rule.head.args, call.args, strict=True):
            if isinstance(actual, Wildcard) or isinstance(formal, Wildcard):
                continue
            term = mapping.get(formal) if isinstance(formal, Variable) else formal
            if term is None:
                assert isinstance(formal, Variable)
                mapping[formal] = actual
            elif isinstance(term, Constant) and isinstance(actual, Constant):
                if term.value != actual.value:
                    return None
            else:
                equations.append(Comparison("=", actual, term, call.span))
        for literal in rule.body:
            for variable in sorted(all_variables(literal), key=lambda variable: variable.name):
                if variable not in mapping:
                    mapping[variable] = self._rename(variable)
        for literal in rule.body:
            if isinstance(literal, Aggregate):
                equations += self._free_result(literal, mapping)
        return equations + [substitute_literal(literal, mapping) for literal in rule.body]

    def _free_result(self, aggregate: Aggregate, mapping: dict[Variable, Variable | Constant]) -> Body:
        """An aggregate's result that is called with a constant becomes a variable equal to it."""
        constant = mapping[aggregate.result]
        if isinstance(constant, Variable):
            return []
        variable = mapping[aggregate.result] = self._rename(aggregate.result)
        return [Comparison("=", variable, constant, aggregate.span)]

    def _rename(self, variable: Variable) -> Variable:
        self._fresh += 1
        return Variable(f"{variable.name.partition('@')[0]}@i{self._fresh}", variable.type)

    def _negate(self, call: Atom) -> list[Body] | None:
        """The alternatives that ``!call`` stands for; None if it has no such form."""
        result: list[Body] = [[]]
        for body in self._unfold(call):
            if _has_locals(body, call, wildcards=False):
                return None
            negated = [_negated(literal) for literal in body]
            choices = [literal for literal in negated if literal is not None]
            if len(choices) != len(negated):
                return None
            if len(result) * len(choices) > MAX_DISJUNCTS:
                raise TooManyBodies
            result = [[*left, choice] for left in result for choice in choices]
        return result

    def _materialise(self, atom: Atom) -> None:
        """Keep the relation of `atom` as an ordinary one; reported if it can't be one."""
        name = atom.relation
        if self._may_materialise and not any(ungrounded(rule) for rule in self.inlines[name].rules):
            self.materialised[name] = None
            return
        start, end = self._reporter.sources.positions(atom.span)
        hint = "ground its variables by positive atoms, so that it can be an ordinary relation here"
        if not self._may_materialise:
            hint = "remove the qualifier inline to query it like this"
        message = f"the inline relation {name} can't be inlined here"
        self._reporter.error(codes.INLINE_USE, message, start, end, hint)


def _has_locals(body: Body, call: Atom, wildcards: bool = True) -> bool:
    """Has an inlined body variables (or wildcards) that the call does not name?"""
    named = {arg for arg in call.args if isinstance(arg, Variable)}
    for literal in body:
        if not literal_variables(literal) <= named:
            return True
        if wildcards and isinstance(literal, Atom) and any(isinstance(arg, Wildcard) for arg in literal.args):
            return True
    return False


def _negated(literal: Literal) -> Literal | None:
    if isinstance(literal, Atom):
        return Negation(literal)
    if isinstance(literal, Negation):
        return literal.atom
    if isinstance(literal, Comparison) and not any(
        isinstance(side, Functor) and side.op.startswith(("range", "@"))
        for side in (literal.left, literal.right)
    ):
        return Comparison(NEGATED[literal.op], literal.left, literal.right, literal.span)
    return None
