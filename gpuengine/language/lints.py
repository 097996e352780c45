"""What is allowed in a program, but probably not meant: found once it is right, reported as warnings.

Rules are looked at clause by clause, as they were written: the several heads, alternatives and instances of a
component that one clause stands for are taken together, and what inlining makes of it is not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gpuengine.errors import Diagnostic
from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.lowering import LoweredRule
from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Directive,
    Functor,
    Literal,
    Negation,
    Pack,
    Relation,
    Term,
    Variable,
    Wildcard,
    literal_variables,
)

_WRITTEN = ("output", "printsize")


def find_warnings(
    rules: Sequence[LoweredRule],
    relations: Mapping[str, Relation],
    directives: Sequence[Directive],
    reporter: Reporter,
) -> tuple[Diagnostic, ...]:
    """The warnings of a program of these rules, before inlining, in source order."""
    clauses: dict[tuple[int, int], list[LoweredRule]] = {}
    for lowered in rules:
        if lowered.rule.body:
            clauses.setdefault((lowered.start, lowered.end), []).append(lowered)
    inline = {name for name, relation in relations.items() if "inline" in relation.qualifiers}
    for clause in clauses.values():
        _single_variables(clause, reporter)
        if clause[0].rule.head.relation not in inline:
            _products(clause, reporter)
    _relations(rules, relations, directives, reporter)
    return reporter.warnings()


def _single_variables(clause: list[LoweredRule], reporter: Reporter) -> None:
    """Variables that occur once in the clause, whatever head or alternative one takes."""
    most: Counter[str] = Counter()
    places: dict[str, tuple[int, int]] = {}
    for lowered in clause:
        counts = Counter(_names(lowered))
        most |= counts
        places |= lowered.variables
    for name, count in most.items():
        shown = name.partition("@")[0]
        if count == 1 and shown and not shown.startswith("_") and name in places:
            message = f"the variable {shown} occurs only once"
            hint = f"write _ or _{shown} if any value will do"
            reporter.warning(codes.SINGLE_VARIABLE, message, *places[name], hint)


def _names(lowered: LoweredRule) -> Iterator[str]:
    yield from _argument_names(lowered.rule.head.args)
    yield from _body_names(lowered.rule.body)


def _body_names(body: Iterable[Literal]) -> Iterator[str]:
    for literal in body:
        if isinstance(literal, Atom):
            yield from _argument_names(literal.args)
        elif isinstance(literal, Negation):
            yield from _argument_names(literal.atom.args)
        elif isinstance(literal, Comparison):
            yield from _argument_names((literal.left, literal.right))
        else:
            yield literal.result.name
            yield from _argument_names(() if literal.target is None else (literal.target,))
            yield from _body_names(literal.body)


def _argument_names(args: Iterable[Term | Wildcard]) -> Iterator[str]:
    for arg in args:
        if isinstance(arg, Variable):
            yield arg.name
        elif isinstance(arg, Functor | Pack):
            yield from _argument_names(arg.args)


def _products(clause: list[LoweredRule], reporter: Reporter) -> None:
    """Bodies with atoms that nothing joins with the others."""
    for lowered in clause:
        for body, outer in _bodies(lowered.rule.body, frozenset()):
            parts = _parts(body, outer)
            if len(parts) > 1:
                first, second = (part.relation for part in parts[:2])
                message = f"nothing joins {first} with {second}: the rule lists every combination"
                start, end = reporter.sources.positions(parts[1].span)
                hint = "share a variable between them, or compare their variables"
                reporter.warning(codes.CROSS_PRODUCT, message, start, end, hint)


def _bodies(
    body: Sequence[Literal], outer: frozenset[Variable]
) -> Iterator[tuple[Sequence[Literal], frozenset[Variable]]]:
    """A body and those of its aggregates, each with the variables it gets from around it."""
    yield body, outer
    for literal in body:
        if isinstance(literal, Aggregate):
            yield from _bodies(literal.body, frozenset(literal.outer))


def _parts(body: Sequence[Literal], outer: frozenset[Variable]) -> list[Atom]:
    """The first atom of each part of a body that shares no variable with the rest; checks are no parts."""
    groups: list[tuple[frozenset[Variable], Atom | None]] = [(outer, None)] if outer else []
    for literal in body:
        variables = literal_variables(literal)
        if not variables:
            continue
        joined = [group for group in groups if group[0] & variables]
        others = [group for group in groups if not group[0] & variables]
        atoms = [atom for _, atom in joined if atom is not None]
        own = literal if isinstance(literal, Atom) else None
        together = variables.union(*(group[0] for group in joined))
        groups = [(together, atoms[0] if atoms else own), *others]
    firsts = [atom for _, atom in groups if atom is not None]
    return sorted(firsts, key=lambda atom: (atom.span.line, atom.span.column))


def _relations(
    rules: Sequence[LoweredRule],
    relations: Mapping[str, Relation],
    directives: Sequence[Directive],
    reporter: Reporter,
) -> None:
    """Relations that nothing fills, or nothing uses; those of components are the component's affair."""
    read: dict[str, Atom] = {}
    for lowered in rules:
        for atom in list(_atoms(lowered.rule.body))[2 if lowered.rule.subsumes else 0 :]:
            read.setdefault(atom.relation, atom)
    rules = [lowered for lowered in rules if not lowered.rule.subsumes]
    filled = {lowered.rule.head.relation for lowered in rules}
    filled |= {directive.relation for directive in directives if directive.kind == "input"}
    written = {directive.relation for directive in directives if directive.kind in _WRITTEN}
    for name, relation in relations.items():
        if "." in name:
            continue
        start, end = reporter.sources.positions(relation.span)
        if name in read and name not in filled:
            message = f"{name} is read, but has no rules, facts or input"
            hint = f"add .input {name}, or rules; from Python, load its facts"
            notes = [f"it is read at {read[name].span}"]
            reporter.warning(codes.NEVER_FILLED, message, start, end, hint, notes, subject=name)
        elif name not in read and name not in written and _is_unused(name, filled, written):
            message = f"nothing reads {name}, and it is not written"
            hint = f"add .output {name}, or leave it out"
            reporter.warning(codes.NEVER_USED, message, start, end, hint, subject=name)


def _is_unused(name: str, filled: Collection[str], written: Collection[str]) -> bool:
    """A program that writes nothing is there to be queried: what it derives is used."""
    return bool(written) or name not in filled


def _atoms(body: Iterable[Literal]) -> Iterator[Atom]:
    for literal in body:
        if isinstance(literal, Atom):
            yield literal
        elif isinstance(literal, Negation):
            yield literal.atom
        elif isinstance(literal, Aggregate):
            yield from _atoms(literal.body)
