"""The oracle on core programs, for tests of what turns one core program into another.

Only the form is translated. What follows from a *text* is the matter of `tests.oracle`, which reads it by
itself: a test of the front end must not begin with a core program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuengine.language import program as core
from tests import oracle
from tests.oracle import Facts, Row
from tests.oracle.evaluation import Binding, Evaluator, Known, fixpoint
from tests.oracle.evaluation import strata as strata_of
from tests.oracle.syntax import Agg, Atom, Call, Compare, Const, Not, Pack, Rule, Var, Wild
from tests.oracle.values import held

__all__ = ["Facts", "Row", "consequences", "naive", "solutions", "strata"]


def naive(program: core.Program, facts: Mapping[str, Iterable[Row]]) -> Facts:
    """Every fact that `program` derives from `facts`, as the oracle holds them; raises `oracle.Failure`."""
    given = {
        name: {tuple(map(held, row, _kinds(relation))) for row in facts.get(name, ())}
        for name, relation in program.relations.items()
    }
    evaluator = Evaluator(Known(given), {})
    rules = [_rule(rule) for rule in program.rules]
    equivalences = [name for name, r in program.relations.items() if "eqrel" in r.qualifiers]
    limits = {d.relation: int(d.params["n"]) for d in program.directives if d.kind == "limitsize"}
    for stratum in strata_of(program.relations, rules):
        own = [rule for rule in rules if rule.head.relation in stratum]
        fixpoint(stratum, own, evaluator, equivalences, limits)
    return evaluator.known.facts


def consequences(rule: core.Rule, known: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """What one rule derives in one step."""
    return Evaluator(Known(known), {}).consequences(_rule(rule))


def solutions(body: Iterable[core.Literal], known: Mapping[str, Iterable[Row]]) -> Iterator[Binding]:
    """The bindings that make a body true."""
    return Evaluator(Known(known), {}).solutions(tuple(map(_literal, body)), {})


def strata(program: core.Program) -> list[frozenset[str]]:
    return strata_of(program.relations, map(_rule, program.rules))


def outcome(program: core.Program, facts: Mapping[str, Iterable[Row]]) -> Facts | None:
    """What `naive` gives; None if evaluation fails."""
    try:
        return naive(program, facts)
    except oracle.Failure:
        return None


def _kinds(relation: core.Relation) -> list[str]:
    return [attribute.type.kind.value for attribute in relation.attributes]


def _rule(rule: core.Rule) -> Rule:
    return Rule(_atom(rule.head), tuple(map(_literal, rule.body)))


def _atom(atom: core.Atom) -> Atom:
    return Atom(atom.relation, tuple(map(_term, atom.args)))


def _literal(literal: core.Literal) -> Any:
    if isinstance(literal, core.Atom):
        return _atom(literal)
    if isinstance(literal, core.Negation):
        return Not(_atom(literal.atom))
    if isinstance(literal, core.Comparison):
        kind = "alias" if literal.op == "=" else literal.left.type.kind.value
        op = "=" if literal.op == "==" else literal.op
        return Compare(op, _term(literal.left), _term(literal.right), kind)
    kind = literal.result.type.kind.value
    target = None if literal.target is None else _term(literal.target)
    outer = frozenset(variable.name for variable in literal.outer)
    aggregate = Agg(literal.op, target, tuple(map(_literal, literal.body)), outer, kind)
    return Compare("=", Var(literal.result.name), aggregate, kind)


def _term(term: core.Term | core.Wildcard) -> Any:
    if isinstance(term, core.Wildcard):
        return Wild()
    if isinstance(term, core.Variable):
        return Var(term.name)
    if isinstance(term, core.Constant):
        return Const(held(term.value, term.type.kind.value), term.type.kind.value)
    args = tuple(map(_term, term.args))
    if isinstance(term, core.Pack):
        return Pack("[]" if term.branch is None else f"${term.branch}", args)
    return Call(term.op, args, term.args[0].type.kind.value, term.type.kind.value)
