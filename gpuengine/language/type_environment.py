"""The types of a program: names to `Type`, subtyping, records and ADTs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpuengine.language import codes
from gpuengine.language.components import Scope
from gpuengine.language.diagnostics import Reporter, nearest
from gpuengine.language.program import (
    FLOAT,
    LOGICAL,
    NUMBER,
    SYMBOL,
    UNSIGNED,
    AdtType,
    Attribute,
    Branch,
    Kind,
    Program,
    RecordType,
    Type,
)
from gpuengine.language.syntax import AdtDecl, Name, Pragma, RecordDecl, SubtypeDecl, TypeDecl, UnionDecl
from gpuengine.language.syntax import Attribute as AttributeDecl

PRIMITIVES = {type_.name: type_ for type_ in (NUMBER, UNSIGNED, FLOAT, SYMBOL)}
WIDTHS = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), NUMBER),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), UNSIGNED),
    **dict.fromkeys(("float32", "float64"), FLOAT),
    "string": SYMBOL,
}
"""FlowLog's names of types, for programs that do not declare them; values have 64 bits whatever they say."""
UNKNOWN = Type("?", Kind.NUMBER, "?")  # stands for a type with a reported error, and fits everything


def _logical(type_: Type) -> bool:
    return bool(type_.logical)


class BranchOf(NamedTuple):
    type: Type
    branch: Branch


class TypeEnvironment:
    """Built once by `declare`; afterwards a pure look-up.

    A record or ADT has a root type whose name is its space; a subtype, an alias or a union has the
    space of what it is made of.
    """

    def __init__(self) -> None:
        self.types: dict[str, Type] = PRIMITIVES | LOGICAL
        self.roots: dict[str, Type] = dict(PRIMITIVES)  # by space
        self.records: dict[str, RecordType] = {}
        self.adts: dict[str, AdtType] = {}
        self.branches: dict[str, BranchOf] = {}
        self.lenient = False  # are all types of one space compatible?
        self.legacy = False  # may a head be given any type of its space, as by Soufflé's --legacy?
        self._parents: dict[str, list[str]] = {}
        self._members: dict[str, list[str]] = {}
        self._subtype_cache: dict[tuple[str, str], bool] = {}

    def root(self, type_: Type) -> Type:
        """The type all types of the same space are subtypes of."""
        return self.roots[type_.space]

    def is_subtype(self, sub: Type, sup: Type) -> bool:
        if sub.space != sup.space:
            return sub is UNKNOWN or sup is UNKNOWN
        if self.lenient or sub.name == sup.name or sup.name == sup.space:
            return True
        key = (sub.name, sup.name)
        if key not in self._subtype_cache:
            above = any(parent == sup.name for parent in self._ancestors(sub.name))
            members = self._members.get(sub.name)
            below = bool(members) and all(self.is_subtype(self.types[name], sup) for name in members or ())
            self._subtype_cache[key] = above or below
        return self._subtype_cache[key]

    def meet(self, first: Type, second: Type) -> Type | None:
        """The greatest type below both, None if there is none (or several: any of them then)."""
        if self.lenient and first.logical != second.logical:
            # So that the answers of a query are dates where its atoms have them, if all agree.
            return self.root(first) if first.logical and second.logical else max(first, second, key=_logical)
        if self.is_subtype(first, second):
            return first
        if self.is_subtype(second, first):
            return second
        below = [
            type_
            for type_ in self.types.values()
            if self.is_subtype(type_, first) and self.is_subtype(type_, second)
        ]
        for candidate in below:
            if not any(other is not candidate and self.is_subtype(candidate, other) for other in below):
                return candidate
        return None

    def _ancestors(self, name: str) -> Iterable[str]:
        seen = {name}
        stack = [name]
        while stack:
            for parent in self._parents.get(stack.pop(), ()):
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
                    yield parent

    def add_edge(self, sub: str, sup: str) -> None:
        self._parents.setdefault(sub, []).append(sup)

    def set_members(self, union: str, members: list[str]) -> None:
        self._members[union] = members

    def lookup(self, name: Name, scope: Scope) -> Type | None:
        """The type a name stands for in a scope."""
        text = name.text
        while (bound := scope.parameter(text)) is not None:
            text, scope = bound[0].text, bound[1]
        full = scope.resolve(text, self.types)
        return WIDTHS.get(text) if full is None else self.types[full]


def declare(
    types: list[tuple[TypeDecl, Scope]], reporter: Reporter, pragmas: Iterable[Pragma] = ()
) -> TypeEnvironment:
    """The environment of the declared types; wrong declarations are reported and become `UNKNOWN`."""
    environment = _Declarer(types, reporter).run()
    environment.legacy = any(pragma.key == "legacy" for pragma in pragmas)
    return environment


class _Declarer:
    def __init__(self, types: list[tuple[TypeDecl, Scope]], reporter: Reporter) -> None:
        self._reporter = reporter
        self._environment = TypeEnvironment()
        self._declared: dict[str, tuple[TypeDecl, Scope]] = {}
        for decl, scope in types:
            full = scope.prefix + decl.name.text
            if full in LOGICAL:
                self._environment.types.pop(full, None)  # the program means something else by it
            if full in self._declared or full in PRIMITIVES:
                where = self._span(self._declared[full][0].name) if full in self._declared else None
                self._error(
                    codes.DUPLICATE,
                    f"the type {full} is declared twice" if where else f"{full} is a built-in type",
                    decl.name,
                    notes=[f"first declared at {where}"] if where else [],
                )
            else:
                self._declared[full] = (decl, scope)

    def run(self) -> TypeEnvironment:
        environment = self._environment
        for full, (decl, _) in self._declared.items():
            if isinstance(decl, RecordDecl | AdtDecl):
                kind = Kind.RECORD if isinstance(decl, RecordDecl) else Kind.ADT
                environment.types[full] = environment.roots[full] = Type(full, kind, full)
        self._resolve_derived()
        for full, (decl, scope) in self._declared.items():
            if isinstance(decl, RecordDecl):
                fields = self.attributes(decl.fields, scope)
                environment.records[full] = RecordType(environment.types[full], fields)
            elif isinstance(decl, AdtDecl):
                self._adt(full, decl, scope)
        return environment

    # Subtypes, aliases and unions: each needs the types it is made of first.

    def _resolve_derived(self) -> None:
        needed: dict[str, list[str]] = {}
        for full, (decl, scope) in self._declared.items():
            if isinstance(decl, SubtypeDecl):
                needed[full] = self._references([decl.parent], scope)
            elif isinstance(decl, UnionDecl):
                needed[full] = self._references(decl.members, scope)
        state: dict[str, bool] = {}  # False: under way, True: done
        for start in needed:
            stack = [start]
            while stack:
                full = stack[-1]
                if full in self._environment.types or state.get(full):
                    stack.pop()
                    continue
                waiting = [name for name in needed.get(full, ()) if name not in state and name in needed]
                if full not in state:
                    state[full] = False
                    stack.extend(waiting)
                    continue
                stack.pop()
                if any(state.get(name) is False for name in needed[full]):
                    decl = self._declared[full][0]
                    self._error(codes.CYCLIC_TYPE, f"the type {full} is defined through itself", decl.name)
                    self._environment.types[full] = UNKNOWN
                else:
                    self._derive(full, needed[full])
                state[full] = True

    def _references(self, names: list[Name], scope: Scope) -> list[str]:
        """The full names of the types referred to; unknown ones are reported."""
        types = self._environment.types.keys() | self._declared.keys()
        references = []
        for name in names:
            text, where = name.text, scope
            while (bound := where.parameter(text)) is not None:
                text, where = bound[0].text, bound[1]
            full = where.resolve(text, types)
            if full is None and text in WIDTHS:
                full = WIDTHS[text].name
            if full is None:
                self._unknown(name, types)
            else:
                references.append(full)
        return references

    def _derive(self, full: str, names: list[str]) -> None:
        environment = self._environment
        decl = self._declared[full][0]
        members = [environment.types[name] for name in names]
        environment.types[full] = UNKNOWN
        referred = len(decl.members) if isinstance(decl, UnionDecl) else 1
        if len(members) < referred or UNKNOWN in members:
            return
        if len({member.space for member in members}) > 1:
            spaces = " and ".join(dict.fromkeys(member.space for member in members))
            hint = "the members of a union share one primitive type; use an ADT for alternatives"
            self._error(codes.MIXED_UNION, f"the union {full} mixes {spaces}", decl.name, hint)
            return
        first = members[0]
        if isinstance(decl, UnionDecl) and len(decl.members) == 1:
            environment.types[full] = first
            return
        logical = first.logical if all(member.logical == first.logical for member in members) else ""
        environment.types[full] = Type(full, first.kind, first.space, logical)
        if isinstance(decl, SubtypeDecl):
            environment.add_edge(full, first.name)
            return
        environment.set_members(full, [member.name for member in members])
        for member in members:
            environment.add_edge(member.name, full)

    # Records and ADTs

    def attributes(self, declared: list[AttributeDecl], scope: Scope) -> tuple[Attribute, ...]:
        for one in declared:
            if one.is_joined:
                hint = "leave out <>: values are joined in attributes of relations"
                self._error(codes.LATTICE, f"the field {one.name.text} can't have a lattice", one.type, hint)
        return resolve_attributes(declared, scope, self._environment, self._reporter)

    def _adt(self, full: str, decl: AdtDecl, scope: Scope) -> None:
        environment = self._environment
        type_ = environment.types[full]
        branches = []
        for branch_decl in decl.branches:
            name = scope.prefix + branch_decl.name.text
            branch = Branch(name, self.attributes(branch_decl.fields, scope))
            branches.append(branch)
            if name in environment.branches:
                hint = "the branches of all types have different names"
                self._error(codes.DUPLICATE, f"the branch {name} is declared twice", branch_decl.name, hint)
            environment.branches[name] = BranchOf(type_, branch)
        environment.adts[full] = AdtType(type_, tuple(branches))

    # Errors

    def _unknown(self, name: Name, known: Iterable[str]) -> None:
        hint = nearest(name.text, known, "type")
        self._error(codes.UNDECLARED_TYPE, f"the type {name.text} is not declared", name, hint)

    def _error(
        self, code: str, message: str, name: Name, hint: str | None = None, notes: Iterable[str] = ()
    ) -> None:
        self._reporter.error(code, message, name.start, name.end, hint, notes)

    def _span(self, name: Name) -> str:
        return str(self._reporter.sources.span(name.start, name.end))


def resolve_attributes(
    declared: list[AttributeDecl], scope: Scope, environment: TypeEnvironment, reporter: Reporter
) -> tuple[Attribute, ...]:
    """Attributes with resolved types; a type that is not declared is reported and becomes `UNKNOWN`."""
    attributes = []
    seen: set[str] = set()
    for decl in declared:
        name, type_name = decl.name, decl.type
        if name.text in seen:
            message = f"the attribute {name.text} is declared twice"
            reporter.error(codes.DUPLICATE_ATTRIBUTE, message, name.start, name.end)
        seen.add(name.text)
        type_ = environment.lookup(type_name, scope)
        if type_ is None:
            hint = nearest(type_name.text, environment.types, "type") or "declare it with .type"
            message = f"the type {type_name.text} is not declared"
            reporter.error(codes.UNDECLARED_TYPE, message, type_name.start, type_name.end, hint)
            type_ = UNKNOWN
        attributes.append(Attribute(name.text, type_))
    return tuple(attributes)


def from_program(program: Program) -> TypeEnvironment:
    """The environment for queries: the program's types, all types of one space taken as compatible."""
    environment = TypeEnvironment()
    environment.types.update(program.types)
    structured = [entry.type for entry in program.records.values()]
    structured += [entry.type for entry in program.adts.values()]
    for type_ in structured:
        environment.types[type_.name] = environment.roots[type_.space] = type_
    environment.records.update(program.records)
    environment.adts.update(program.adts)
    for adt in program.adts.values():
        environment.branches.update({branch.name: BranchOf(adt.type, branch) for branch in adt.branches})
    environment.lenient = True
    return environment
