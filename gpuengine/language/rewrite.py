"""Substitution of variables in core terms and literals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from gpuengine.language.program import (
    Aggregate,
    Atom,
    AtomArg,
    Comparison,
    Constant,
    Functor,
    Literal,
    Negation,
    Pack,
    Term,
    Variable,
    Wildcard,
    literal_variables,
    term_variables,
)

Substitution = Mapping[Variable, Variable | Constant]


def substitute_term(term: Term | Wildcard, mapping: Substitution) -> Term | Wildcard:
    if isinstance(term, Variable):
        return mapping.get(term, term)
    if isinstance(term, Functor):
        args = tuple(cast(Term, substitute_term(arg, mapping)) for arg in term.args)
        return Functor(term.op, args, term.type, term.span)
    if isinstance(term, Pack):
        return Pack(term.type, term.branch, tuple(substitute_term(arg, mapping) for arg in term.args))
    return term


def substitute_atom(atom: Atom, mapping: Substitution) -> Atom:
    args: tuple[AtomArg, ...] = tuple(
        mapping.get(arg, arg) if isinstance(arg, Variable) else arg for arg in atom.args
    )
    return Atom(atom.relation, args, atom.span)


def substitute_literal(literal: Literal, mapping: Substitution) -> Literal:
    """`literal` with its variables replaced; the result of an aggregate must map to a variable."""
    if isinstance(literal, Atom):
        return substitute_atom(literal, mapping)
    if isinstance(literal, Negation):
        return Negation(substitute_atom(literal.atom, mapping))
    if isinstance(literal, Comparison):
        left = cast(Term, substitute_term(literal.left, mapping))
        right = cast(Term, substitute_term(literal.right, mapping))
        return Comparison(literal.op, left, right, literal.span)
    outer = (mapping.get(variable, variable) for variable in literal.outer)
    target = None if literal.target is None else cast(Term, substitute_term(literal.target, mapping))
    return replace(
        literal,
        result=cast(Variable, mapping.get(literal.result, literal.result)),
        target=target,
        body=tuple(substitute_literal(inner, mapping) for inner in literal.body),
        outer=tuple(dict.fromkeys(variable for variable in outer if isinstance(variable, Variable))),
    )


def all_variables(literal: Literal) -> frozenset[Variable]:
    """The variables of a literal, those local to aggregates included."""
    variables = literal_variables(literal)
    if isinstance(literal, Aggregate):
        inner = [all_variables(part) for part in literal.body]
        target = frozenset() if literal.target is None else term_variables(literal.target)
        return variables.union(target, *inner)
    return variables
