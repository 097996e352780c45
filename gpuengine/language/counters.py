"""``autoinc()`` and ``$``: another number for each binding of the rule's body.

    id(autoinc(), x) :- person(x).

becomes ``id(ord([rule, ord([x])]) - 1, x) :- person(x)``: a number is the place of a record in a table of its
own, whose key is the rule and the values that its body binds. So numbers begin with 0, no two are the
same, whichever rules they come from, and a binding that goes and comes back has the same again. That makes
them safe to update, and to save.

A rule that depends on its own head would count without end and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, cast

from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.lowering import AUTOINC, LoweredRule
from gpuengine.language.program import (
    FLOAT,
    NUMBER,
    SYMBOL,
    UNSIGNED,
    Aggregate,
    Atom,
    AtomArg,
    Attribute,
    Comparison,
    Constant,
    Functor,
    Kind,
    Literal,
    Pack,
    RecordType,
    Relation,
    Rule,
    Term,
    Type,
    Variable,
    Wildcard,
    literal_variables,
    term_variables,
)
from gpuengine.language.stratification import components, dependencies

_PRIMITIVES = {type_.space: type_ for type_ in (NUMBER, UNSIGNED, FLOAT, SYMBOL)}
_COUNTER = Type("@counter", Kind.RECORD, "@counter")
_COUNTER_FIELDS = (Attribute("rule", SYMBOL), Attribute("key", NUMBER))
_ONE = Constant(1, NUMBER)


class Counted(NamedTuple):
    rules: list[LoweredRule]
    records: dict[str, RecordType]  # those that the rules need, by space


def count(
    rules: list[LoweredRule], relations: dict[str, Relation], roots: dict[str, Type], reporter: Reporter
) -> Counted:
    """The rules with a number where each counter stands; `roots` are the types by space."""
    if not any(has_counter(lowered.rule) for lowered in rules):
        return Counted(rules, {})
    graph: dict[str, list[str]] = {}
    for lowered in rules:
        bodies = graph.setdefault(lowered.rule.head.relation, [])
        bodies += [body for body, _, _ in dependencies(lowered.rule.body)]
    component = components(graph)
    records = {_COUNTER.space: RecordType(_COUNTER, _COUNTER_FIELDS)}
    seen: dict[str, int] = {}
    counted: list[LoweredRule] = []
    for lowered in rules:
        rule = lowered.rule
        if not has_counter(rule):
            counted.append(lowered)
            continue
        head = rule.head.relation
        if any(component.get(body) == component[head] for body, _, _ in dependencies(rule.body)):
            message = f"autoinc() in a rule by which {head} depends on itself would count without end"
            hint = "number what is complete: in a rule of its own"
            reporter.error(codes.COUNTER, message, lowered.start, lowered.end, hint)
            continue
        name = f"{head}: {' '.join(rule.text.split())}"
        seen[name] = seen.get(name, 0) + 1
        name = name if seen[name] == 1 else f"{name} #{seen[name]}"
        counted.append(lowered._replace(rule=_Counting(rule, name, relations, roots, records).rule))
    return Counted(counted, records)


def has_counter(rule: Rule) -> bool:
    return any(_counters(part) for part in rule.body)


def _counters(literal: Literal) -> int:
    if isinstance(literal, Comparison):
        return sum(map(_in_term, (literal.left, literal.right)))
    if isinstance(literal, Aggregate):
        target = 0 if literal.target is None else _in_term(literal.target)
        return target + sum(map(_counters, literal.body))
    return 0


def _in_term(term: Term | Wildcard) -> int:
    if isinstance(term, Functor | Pack):
        own = isinstance(term, Functor) and term.op == AUTOINC
        return own + sum(map(_in_term, term.args))
    return 0


class _Counting:
    """One rule: `rule` has each of its counters replaced."""

    def __init__(
        self,
        rule: Rule,
        name: str,
        relations: dict[str, Relation],
        roots: dict[str, Type],
        records: dict[str, RecordType],
    ) -> None:
        self._name = name
        self._records = records
        self._roots = roots
        self._number = 0
        body = tuple(_ways(rule.body, relations))
        self._key = self._pack(_key(body))
        self.rule = replace(rule, body=tuple(self._literal(part) for part in body))

    def _pack(self, key: list[Variable]) -> Pack:
        fields = tuple(
            Attribute(f"v{place}", self._roots.get(variable.type.space, variable.type))
            for place, variable in enumerate(key)
        )
        space = f"@key({','.join(field.type.space for field in fields)})"
        type_ = Type(space, Kind.RECORD, space)
        self._records[space] = RecordType(type_, fields)
        return Pack(type_, None, tuple(key))

    def _literal(self, literal: Literal) -> Literal:
        if isinstance(literal, Comparison) and _counters(literal):
            return replace(literal, left=self._term(literal.left), right=self._term(literal.right))
        return literal

    def _term(self, term: Term | Wildcard) -> Term:
        if isinstance(term, Functor):
            if term.op != AUTOINC:
                return replace(term, args=tuple(map(self._term, term.args)))
            self._number += 1
            name = self._name if self._number == 1 else f"{self._name} ${self._number}"
            key = Functor("ord", (self._key,), NUMBER, term.span)
            record = Pack(_COUNTER, None, (Constant(name, SYMBOL), key))
            place = Functor("ord", (record,), NUMBER, term.span)
            return Functor("-", (place, _ONE), NUMBER, term.span)
        if isinstance(term, Pack):
            return replace(term, args=tuple(map(self._term, term.args)))
        return cast(Term, term)


def _ways(body: Iterable[Literal], relations: dict[str, Relation]) -> Iterator[Literal]:
    """The body with a variable for each wildcard of an atom that is the first to mention some variable: each
    fact of it is another way for the body to hold. Other atoms hold or do not."""
    bound: set[Variable] = set()
    number = 0
    for part in body:
        if not isinstance(part, Atom) or literal_variables(part) <= bound:
            yield part
            continue
        bound |= literal_variables(part)
        args: list[AtomArg] = []
        for arg, attribute in zip(part.args, relations[part.relation].attributes, strict=True):
            if isinstance(arg, Wildcard):
                number += 1
                arg = Variable(f"@way{number}", attribute.type)
            args.append(arg)
        yield replace(part, args=tuple(args))


def _key(body: tuple[Literal, ...]) -> list[Variable]:
    """The variables whose values tell one binding of the body from another, whatever is counted."""
    of_atoms = dict.fromkeys(arg for part in body if isinstance(part, Atom) for arg in part.args)
    key = {arg: None for arg in of_atoms if isinstance(arg, Variable)}
    equations = [part for part in body if isinstance(part, Comparison)]
    counted: set[Variable] = set()
    growing = True
    while growing:
        growing = False
        for part in equations:
            mentioned = term_variables(part.left) | term_variables(part.right)
            if (_counters(part) or mentioned & counted) and not mentioned - set(key) <= counted:
                counted |= mentioned - set(key)
                growing = True
    for part in equations:
        ranged = any(isinstance(side, Functor) and side.op == "range" for side in (part.left, part.right))
        if ranged or part.op == "==":
            mentioned = term_variables(part.left) | term_variables(part.right)
            key |= dict.fromkeys(sorted(mentioned - counted, key=lambda variable: variable.name))
    return list(key)
