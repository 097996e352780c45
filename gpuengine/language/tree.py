"""Builds the surface tree: one `make_` method for each alias of grammar.lark.

A method gets the node's start and end and the values of its children; a terminal's value is its token.
Constructs that parse but are not supported are reported here, and stand as a harmless node.
"""

from __future__ import annotations

from typing import TypeVar

from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.extensions import aggregate
from gpuengine.language.lexer import Token
from gpuengine.language.literals import UINT64_MAX, address_value, integer_value, string_value
from gpuengine.language.normalise import MAX_DEPTH, too_deep
from gpuengine.language.syntax import (
    AdtDecl,
    Agg,
    Arg,
    Atom,
    Attribute,
    Bool,
    BranchDecl,
    BranchValue,
    Call,
    Cast,
    Clause,
    Compare,
    Component,
    ComponentType,
    Conj,
    DirectiveDecl,
    Disj,
    Float,
    FunctorDecl,
    Instance,
    Int,
    Item,
    LatticeDecl,
    Merge,
    Name,
    Nil,
    Not,
    Override,
    Parameter,
    Pragma,
    Record,
    RecordDecl,
    RelationDecl,
    Str,
    SubtypeDecl,
    Term,
    UnionDecl,
    Var,
    Wild,
)

T = TypeVar("T")


class TreeBuilder:
    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._nested = 0  # nodes since the last clause that can hold others: a cheap bound on its depth
        self._broken = False  # has something in this clause been reported, and stands as a harmless node?

    def forget(self) -> None:
        """The clause under way is dropped."""
        self._nested = 0
        self._broken = False

    def _error(self, code: str, start: int, end: int, hint: str | None = None) -> None:
        self._reporter.error(code, codes.DESCRIPTIONS[code], start, end, hint)

    # Lists

    def make_new_list(self, start: int, end: int) -> list[T]:
        return []

    def make_one(self, start: int, end: int, first: T) -> list[T]:
        return [first]

    def make_pair_list(self, start: int, end: int, first: T, second: T) -> list[T]:
        return [first, second]

    def make_append(self, start: int, end: int, items: list[T | None], item: T | None) -> list[T | None]:
        if item is not None:
            items.append(item)
        return items

    def make_ignore(self, start: int, end: int, *children: object) -> None:
        return None

    # Names and declarations

    def make_identifier(self, start: int, end: int, token: Token) -> Name:
        return Name(token[1], start, end)

    def make_dotted(self, start: int, end: int, name: Name, token: Token) -> Name:
        return Name(f"{name.text}.{token[1]}", start, end)

    def make_attribute(self, start: int, end: int, name: Name, type_: Name) -> Attribute:
        return Attribute(name, type_)

    def make_lattice_attribute(self, start: int, end: int, name: Name, type_: Name) -> Attribute:
        return Attribute(name, type_, is_joined=True)

    def make_lattice(
        self, start: int, end: int, type_: Name, operators: list[tuple[Name, Arg]]
    ) -> LatticeDecl:
        self.forget()
        return LatticeDecl(type_, operators, start, end)

    def make_operator(self, start: int, end: int, name: Token, arg: Arg) -> tuple[Name, Arg]:
        return Name(name[1], name[2], name[3]), arg

    def make_relation(
        self, start: int, end: int, names: list[Name], attributes: list[Attribute], tags: list[Token]
    ) -> RelationDecl:
        places = [Name(tag[1], tag[2], tag[3]) for tag in tags]
        return RelationDecl(names, attributes, places, start, end, [])

    def make_choice_relation(
        self,
        start: int,
        end: int,
        names: list[Name],
        attributes: list[Attribute],
        tags: list[Token],
        choices: list[list[Name]],
    ) -> RelationDecl:
        relation = self.make_relation(start, end, names, attributes, tags)
        relation.choices = choices
        return relation

    def make_functor_declaration(
        self, start: int, end: int, name: Name, parameters: list[Attribute], result: Name
    ) -> FunctorDecl:
        return FunctorDecl(name, parameters, result, False, start, end)

    def make_stateful_functor(
        self, start: int, end: int, name: Name, parameters: list[Attribute], result: Name
    ) -> FunctorDecl:
        return FunctorDecl(name, parameters, result, True, start, end)

    def make_unnamed_parameter(self, start: int, end: int, type_: Name) -> Attribute:
        return Attribute(Name("", start, end), type_)

    def make_subtype(self, start: int, end: int, name: Name, parent: Name) -> SubtypeDecl:
        return SubtypeDecl(name, parent)

    def make_union(self, start: int, end: int, name: Name, members: list[Name]) -> UnionDecl:
        return UnionDecl(name, members)

    def make_empty_record(self, start: int, end: int, name: Name) -> RecordDecl:
        return RecordDecl(name, [])

    def make_record_type(self, start: int, end: int, name: Name, fields: list[Attribute]) -> RecordDecl:
        return RecordDecl(name, fields)

    def make_adt(self, start: int, end: int, name: Name, branches: list[BranchDecl]) -> AdtDecl:
        return AdtDecl(name, branches)

    def make_symbol_type(self, start: int, end: int, name: Name) -> SubtypeDecl:
        return SubtypeDecl(name, Name("symbol", name.start, name.end))

    def make_number_type(self, start: int, end: int, name: Name) -> SubtypeDecl:
        return SubtypeDecl(name, Name("number", name.start, name.end))

    def make_empty_branch(self, start: int, end: int, name: Name) -> BranchDecl:
        return BranchDecl(name, [])

    def make_branch(self, start: int, end: int, name: Name, fields: list[Attribute]) -> BranchDecl:
        return BranchDecl(name, fields)

    # Directives

    def make_directive(self, start: int, end: int, kind: Token, relations: list[Name]) -> DirectiveDecl:
        return DirectiveDecl(kind[1][1:], relations, [], start, end)

    def make_directive_with(
        self, start: int, end: int, kind: Token, relations: list[Name], params: list[Parameter]
    ) -> DirectiveDecl:
        return DirectiveDecl(kind[1][1:], relations, params, start, end)

    def make_pair(self, start: int, end: int, key: Token, value: Token) -> Parameter:
        text = self._string(value) if value[0] == "STRING" else value[1]
        return Parameter(Name(key[1], start, end), text)

    def make_flag_pragma(self, start: int, end: int, key: Token) -> Pragma:
        return self._pragma(self._string(key), "", start, end)

    def make_pragma(self, start: int, end: int, key: Token, value: Token) -> Pragma:
        return self._pragma(self._string(key), self._string(value), start, end)

    def _pragma(self, key: str, value: str, start: int, end: int) -> Pragma:
        if key == "provenance":
            self._error(codes.PROVENANCE, start, end, "remove the pragma")
        return Pragma(key, value, start, end)

    # Components

    def make_component(self, start: int, end: int, type_: ComponentType, items: list[Item]) -> Component:
        return Component(type_, [], items)

    def make_derived_component(
        self, start: int, end: int, type_: ComponentType, bases: list[ComponentType], items: list[Item]
    ) -> Component:
        return Component(type_, bases, items)

    def make_plain_component_type(self, start: int, end: int, name: Name) -> ComponentType:
        return ComponentType(name, [])

    def make_component_type(self, start: int, end: int, name: Name, params: list[Name]) -> ComponentType:
        return ComponentType(name, params)

    def make_instance(self, start: int, end: int, name: Name, type_: ComponentType) -> Instance:
        return Instance(name, type_)

    def make_override(self, start: int, end: int, name: Name) -> Override:
        return Override(name)

    # Clauses

    def make_fact(self, start: int, end: int, head: Atom) -> Clause | None:
        return self._clause(Clause([head], None, start, end))

    def make_rule(self, start: int, end: int, heads: list[Atom], body: Term) -> Clause | None:
        return self._clause(Clause(heads, body, start, end))

    def _clause(self, clause: Clause) -> Clause | None:
        nested, broken = self._nested, self._broken
        self.forget()
        if broken:
            return None
        if nested < MAX_DEPTH or not too_deep(clause):
            return clause
        message = f"this clause nests expressions more than {MAX_DEPTH} deep"
        hint = "compute parts of it in relations of their own"
        self._reporter.error(codes.TOO_DEEP, message, clause.start, clause.end, hint)
        return None

    def make_subsumption(
        self, start: int, end: int, dominated: Atom, dominating: Atom, body: Term
    ) -> Clause | None:
        named: list[Arg] = [
            Var(f"@subsumed{place}", arg.start, arg.end) if isinstance(arg, Wild) else arg
            for place, arg in enumerate(dominated.args)
        ]
        head = Atom(dominated.name, named, dominated.start, dominated.end)
        return self._clause(Clause([head], body, start, end, dominating))

    def make_plan(self, start: int, end: int, *orders: object) -> None:
        return None

    def make_disjunction(self, start: int, end: int, terms: list[Term]) -> Disj:
        self._nested += 1
        return Disj(terms)

    def make_conjunction(self, start: int, end: int, terms: list[Term]) -> Conj:
        self._nested += 1
        return Conj(terms)

    def make_negation(self, start: int, end: int, term: Term) -> Not:
        self._nested += 1
        return Not(term, start, end)

    def make_empty_atom(self, start: int, end: int, name: Name) -> Atom:
        return Atom(name, [], start, end)

    def make_atom(self, start: int, end: int, name: Name, args: list[Arg]) -> Atom:
        return Atom(name, args, start, end)

    def make_comparison(self, start: int, end: int, left: Arg, op: Token, right: Arg) -> Term:
        return self._compare(op[1], left, right, start, end)

    def _compare(self, op: str, left: Arg, right: Arg, start: int, end: int) -> Term:
        """Two records that are written down are equal if their parts are, whatever type they may have."""
        if (
            op != "="
            or not (isinstance(left, Record) and isinstance(right, Record))
            or len(left.args) != len(right.args)
        ):
            return Compare(op, left, right, start, end)
        self._nested += 1
        parts = [
            self._compare(op, one, other, start, end)
            for one, other in zip(left.args, right.args, strict=True)
            if not isinstance(one, Wild) and not isinstance(other, Wild)
        ]
        return Conj(parts) if parts else Bool(True, start, end)

    def make_string_comparison(self, start: int, end: int, op: Token, left: Arg, right: Arg) -> Compare:
        return Compare(op[1], left, right, start, end)

    def make_true(self, start: int, end: int) -> Bool:
        return Bool(True, start, end)

    def make_false(self, start: int, end: int) -> Bool:
        return Bool(False, start, end)

    # Arguments

    def make_variable(self, start: int, end: int, token: Token) -> Var:
        return Var(token[1], start, end)

    def make_wildcard(self, start: int, end: int) -> Wild:
        return Wild(start, end)

    def make_nil(self, start: int, end: int) -> Nil:
        return Nil(start, end)

    def make_string(self, start: int, end: int, token: Token) -> Str:
        return Str(self._string(token), start, end)

    def make_number(self, start: int, end: int, token: Token) -> Int:
        value = self._integer(token[1], start, end)
        return Int(value, "x" if token[1][:2] in ("0x", "0b") else "", start, end)

    def make_unsigned(self, start: int, end: int, token: Token) -> Int:
        return Int(self._integer(token[1][:-1], start, end), "u", start, end)

    def make_float(self, start: int, end: int, token: Token) -> Float:
        value = float(token[1])
        if value in (float("inf"), float("-inf")):
            self._reporter.error(codes.LITERAL, f"{token[1]} does not fit a 64-bit float", start, end)
        return Float(value, start, end)

    def make_address(self, start: int, end: int, token: Token) -> Int:
        value = address_value(token[1])
        if value is None:
            hint = "each part is between 0 and 255"
            self._reporter.error(codes.LITERAL, f"{token[1]} is not an IP address", start, end, hint)
        return Int(value or 0, "", start, end)

    def make_counter(self, start: int, end: int) -> Call:
        return Call("autoinc", [], start, end)

    def make_user_functor(self, start: int, end: int, name: Token, args: list[Arg] | None = None) -> Arg:
        self._nested += 1
        return Call(f"@{name[1]}", args or [], start, end)

    def make_user_aggregate(
        self, start: int, end: int, name: Token, initial: Arg, target: Arg, body: Term
    ) -> Arg:
        """An extension is a function over whole groups, and needs no initial value."""
        self._nested += 1
        is_extension = aggregate(f"@@{name[1]}") is not None
        return Agg(f"@@{name[1]}", target, body, start, end, None if is_extension else initial)

    def make_empty_record_value(self, start: int, end: int) -> Record:
        return Record([], start, end)

    def make_record(self, start: int, end: int, args: list[Arg]) -> Record:
        self._nested += 1
        return Record(args, start, end)

    def make_empty_branch_value(self, start: int, end: int, token: Token) -> BranchValue:
        return self.make_branch_value(start, end, token, [])

    def make_branch_value(self, start: int, end: int, token: Token, args: list[Arg]) -> BranchValue:
        self._nested += 1
        return BranchValue(Name(token[1][1:].lstrip(), token[2], token[3]), args, start, end)

    def make_cast(self, start: int, end: int, arg: Arg, type_: Name) -> Cast:
        self._nested += 1
        return Cast(arg, type_, start, end)

    def make_empty_call(self, start: int, end: int, functor: Token) -> Call:
        return Call(functor[1], [], start, end)

    def make_call(self, start: int, end: int, functor: Token, args: list[Arg]) -> Call:
        self._nested += 1
        return Call(functor[1], args, start, end)

    def make_binary(self, start: int, end: int, left: Arg, op: Token, right: Arg) -> Call:
        self._nested += 1
        return Call(op[1], [left, right], start, end)

    def make_unary(self, start: int, end: int, op: Token, arg: Arg) -> Call:
        self._nested += 1
        return Call(op[1], [arg], start, end)

    def make_negate(self, start: int, end: int, arg: Arg) -> Arg:
        self._nested += 1
        if isinstance(arg, Int) and arg.suffix != "u" and arg.value > 0:
            return Int(-arg.value, arg.suffix, start, end)
        if isinstance(arg, Float):
            return Float(-arg.value, start, end)
        return Call("neg", [arg], start, end)

    def make_extremum(self, start: int, end: int, op: Token, first: Arg, rest: list[Arg]) -> Arg:
        self._nested += 1
        if op[1] not in ("min", "max"):
            hint = f"an aggregate is written {op[1]} .. : {{ .. }}"
            self._reporter.error(codes.AGGREGATE_BODY, f"{op[1]} is not a functor", op[2], op[3], hint)
            self._broken = True
            return Wild(start, end)
        return Call(op[1], [first, *rest], start, end)

    def make_bare_aggregate(self, start: int, end: int, op: Token, body: Term) -> Agg:
        self._nested += 1
        return Agg(op[1], None, body, start, end)

    def make_aggregate(self, start: int, end: int, op: Token, target: Arg, body: Term) -> Agg:
        self._nested += 1
        return Agg(op[1], target, body, start, end)

    def make_merge(self, start: int, end: int, op: Token, arg: Arg) -> Merge:
        self._nested += 1
        return Merge(op[1], arg, start, end)

    # Literals

    def _string(self, token: Token) -> str:
        value, bad = string_value(token[1])
        if bad is not None:
            hint = "known are \\\" \\' \\\\ \\a \\b \\f \\n \\r \\t \\v; write \\\\ for a backslash"
            self._reporter.error(codes.ESCAPE, f"unknown escape sequence \\{bad}", token[2], token[3], hint)
        return value

    def _integer(self, text: str, start: int, end: int) -> int:
        value = integer_value(text)
        if value > UINT64_MAX:
            self._reporter.error(codes.LITERAL, "this number does not fit 64 bits", start, end)
            return 0
        return value
