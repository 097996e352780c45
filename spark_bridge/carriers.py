"""By which Spark types the values of a program travel, and the program over those.

Inside the bridge every column is one of two Spark types, its *carrier*:

| type | carrier |
|---|---|
| number | ``bigint``: the value, or its id if the numbers of a program are encoded |
| unsigned, float | ``bigint``: the bits, so that equality is what the engine means by it |
| symbol | ``bigint``: its id in a distributed dictionary; ``string`` if some rule looks inside |

A frame of carriers has the columns ``c0``, ``c1``, ... and no nulls. Rules look inside symbols if they do
more than to compare them for equality. Records and ADT values have no carrier: their text may be ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpuengine.language.program import (
    NUMBER,
    Aggregate,
    Atom,
    AtomArg,
    Attribute,
    Comparison,
    Constant,
    Functor,
    Kind,
    Literal,
    Negation,
    Pack,
    Program,
    Relation,
    Rule,
    Term,
    Type,
    Variable,
    Wildcard,
    term_variables,
)

LONG, STRING = "bigint", "string"
ID_SPACES = ("symbol", "number")


def column(position: int) -> str:
    """The name of a column in a frame of carriers."""
    return f"c{position}"


@dataclass(frozen=True, slots=True)
class Carriers:
    """`encoded` are the spaces (of symbol, number) whose values are carried as ids of a dictionary."""

    encoded: frozenset[str]

    def is_encoded(self, type: Type) -> bool:
        return type.space in self.encoded

    def carrier(self, type: Type) -> str:
        """``bigint`` or ``string``."""
        return STRING if type.kind is Kind.SYMBOL and not self.is_encoded(type) else LONG

    def schema(self, relation: Relation) -> str:
        """The columns of a relation's frame, as Spark writes a schema."""
        parts = [f"{column(j)} {self.carrier(a.type)}" for j, a in enumerate(relation.attributes)]
        return ", ".join(parts)

    def engine_type(self, type: Type) -> Type:
        """What an engine takes a carried value for: an id is a number to it."""
        return replace(NUMBER, name=type.name) if self.is_encoded(type) else type


def find_carriers(program: Program, *, integers: bool = False) -> Carriers:
    """Symbols as ids if no rule looks inside them; with `integers`, numbers likewise."""
    inside = {type.space for rule in program.rules for literal in rule.body for type in _looked_into(literal)}
    wanted = ID_SPACES if integers else ID_SPACES[:1]
    return Carriers(frozenset(space for space in wanted if space not in inside))


def has_no_carrier(program: Program) -> str:
    """Which relation can't be carried, and why, for a message; empty if all can."""
    for relation in program.relations.values():
        for attribute in relation.attributes:
            if attribute.type.kind in (Kind.RECORD, Kind.ADT):
                of_type = f"values of type {attribute.type.name}"
                return f"{relation.name} has {of_type}, which only one engine can hold"
    for rule in program.rules:
        if any(_asks_for_an_id(term) for part in rule.body for term in _outer_terms(part)):
            return f"{rule.head.relation} needs ord or autoinc, and only one engine can number values"
    return ""


def _outer_terms(literal: Literal) -> list[Term | Wildcard]:
    if isinstance(literal, Comparison):
        return [literal.left, literal.right]
    if isinstance(literal, Aggregate):
        target = [] if literal.target is None else [literal.target]
        return [*target, *(term for part in literal.body for term in _outer_terms(part))]
    return []


def _asks_for_an_id(term: Term | Wildcard) -> bool:
    if isinstance(term, Functor):
        is_text = Kind.SYMBOL in (term.type.kind, *(arg.type.kind for arg in term.args))
        if term.op == "ord" or (term.op == "as" and is_text):
            return True
    return isinstance(term, Functor | Pack) and any(map(_asks_for_an_id, term.args))


def symbol_constants(program: Program, space: str) -> list[int | float | str]:
    """The constants of a space in rules and facts, each once, in order."""
    constants: dict[int | float | str, None] = {}
    for rule in program.rules:
        for term in _terms(rule):
            if isinstance(term, Constant) and term.type.space == space and term.value is not None:
                constants[term.value] = None
    return list(constants)


def carried_program(
    program: Program, carriers: Carriers, ids: Mapping[str, Mapping[int | float | str, int]]
) -> Program:
    """The program over carriers: encoded types are numbers, and their constants ids (`ids` by space)."""

    def carry(term: Term | Wildcard) -> Term | Wildcard:
        if isinstance(term, Constant) and carriers.is_encoded(term.type):
            assert term.value is not None
            return Constant(ids[term.type.space][term.value], carriers.engine_type(term.type))
        if isinstance(term, Variable):
            return Variable(term.name, carriers.engine_type(term.type))
        return term

    relations = {
        name: replace(
            relation,
            attributes=tuple(Attribute(a.name, carriers.engine_type(a.type)) for a in relation.attributes),
        )
        for name, relation in program.relations.items()
    }
    rules = tuple(map_rule(rule, carry) for rule in program.rules)
    return replace(program, relations=relations, rules=rules)


def map_rule(rule: Rule, change: Callable[[Term | Wildcard], Term | Wildcard]) -> Rule:
    """The rule with every variable, constant and wildcard changed."""
    return replace(rule, head=_map_atom(rule.head, change), body=tuple(_map(b, change) for b in rule.body))


def _map(literal: Literal, change: Callable[[Term | Wildcard], Term | Wildcard]) -> Literal:
    if isinstance(literal, Atom):
        return _map_atom(literal, change)
    if isinstance(literal, Negation):
        return Negation(_map_atom(literal.atom, change))
    if isinstance(literal, Comparison):
        left, right = _map_term(literal.left, change), _map_term(literal.right, change)
        assert not isinstance(left, Wildcard) and not isinstance(right, Wildcard)
        return replace(literal, left=left, right=right)
    result = change(literal.result)
    target = None if literal.target is None else _map_term(literal.target, change)
    outer = tuple(change(variable) for variable in literal.outer)
    assert isinstance(result, Variable) and not isinstance(target, Wildcard)
    return replace(
        literal,
        result=result,
        target=target,
        body=tuple(_map(part, change) for part in literal.body),
        outer=tuple(variable for variable in outer if isinstance(variable, Variable)),
    )


def _map_atom(atom: Atom, change: Callable[[Term | Wildcard], Term | Wildcard]) -> Atom:
    args: list[AtomArg] = []
    for arg in atom.args:
        changed = change(arg)
        assert isinstance(changed, Variable | Constant | Wildcard)
        args.append(changed)
    return replace(atom, args=tuple(args))


def _map_term(term: Term | Wildcard, change: Callable[[Term | Wildcard], Term | Wildcard]) -> Term | Wildcard:
    if isinstance(term, Functor):
        args = tuple(_map_term(arg, change) for arg in term.args)
        return replace(term, args=tuple(arg for arg in args if not isinstance(arg, Wildcard)))
    if isinstance(term, Pack):
        return replace(term, args=tuple(_map_term(arg, change) for arg in term.args))
    return change(term)


def _terms(rule: Rule) -> Iterator[Term | Wildcard]:
    """Every variable, constant and wildcard of a rule."""
    seen: list[Term | Wildcard] = []

    def note(term: Term | Wildcard) -> Term | Wildcard:
        seen.append(term)
        return term

    map_rule(rule, note)
    return iter(seen)


def _looked_into(literal: Literal) -> set[Type]:
    """The types of the values of which a literal does more than to compare them for equality."""
    if isinstance(literal, Comparison):
        sides = (literal.left, literal.right)
        if literal.op in ("=", "!=") and all(isinstance(side, Variable | Constant) for side in sides):
            return set()
        return {type for side in sides for type in _types_in(side)}
    if isinstance(literal, Aggregate):
        inside = {type for part in literal.body for type in _looked_into(part)}
        target = set() if literal.target is None else _types_in(literal.target)
        return inside | target | {literal.result.type}
    return set()


def _types_in(term: Term | Wildcard) -> set[Type]:
    if isinstance(term, Wildcard):
        return set()
    if isinstance(term, Functor | Pack):
        return {term.type, *(type for arg in term.args for type in _types_in(arg))}
    return {term.type, *(variable.type for variable in term_variables(term))}
