"""Lattices: ``.lattice T<> { Bottom -> 0, Lub -> @lub(_, _), Glb -> @glb(_, _) }`` and attributes ``x: T<>``.

A relation keeps one fact for each key, with the join (Lub) of all values of such an attribute. Where a body
reads a variable from several of them, it is the meet (Glb) of their values, which must not be Bottom:

    p(i) :- q(x, i), r(x, i).   →   p(i) :- q(x, i1), r(x, i2), i = @glb(i1, i2), i != 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuengine.language import codes
from gpuengine.language.components import Scope
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.functors import INTEGRAL, ORDERED
from gpuengine.language.normalise import Plain
from gpuengine.language.program import (
    Attribute,
    Constant,
    FunctorSignature,
    Kind,
    Merge,
    Pack,
    Relation,
    Term,
    Type,
)
from gpuengine.language.syntax import (
    Arg,
    Atom,
    BranchValue,
    Call,
    Compare,
    Float,
    Int,
    LatticeDecl,
    Name,
    Nil,
    Record,
    Str,
    Var,
    Wild,
)
from gpuengine.language.type_environment import UNKNOWN, TypeEnvironment

_OPERATORS = ("Bottom", "Top", "Lub", "Glb", "Leq")
_BUILT_IN = {"min": ORDERED, "max": ORDERED, "bor": INTEGRAL, "band": INTEGRAL}
_HINT = "write Lub -> @f(_, _) with a functor of two values, or min(_, _), max(_, _), _ bor _, _ band _"


@dataclass(frozen=True, slots=True)
class Lattice:
    """How two values of a type are joined and met; `least` is `bottom` as it is written."""

    type: Type
    merge: Merge
    meet: str | None
    bottom: Term | None
    least: Arg | None

    @property
    def has_meets(self) -> bool:
        return self.meet is not None and self.least is not None


class Lattices:
    """The lattices of a program by the names of their types, and the columns that have them by relation."""

    def __init__(
        self,
        declared: Iterable[tuple[LatticeDecl, Scope]],
        environment: TypeEnvironment,
        functors: Mapping[str, FunctorSignature],
        reporter: Reporter,
    ) -> None:
        self._environment, self._functors, self._reporter = environment, functors, reporter
        self._of: dict[str, Lattice] = {}
        self._columns: dict[str, dict[int, Lattice]] = {}
        for decl, scope in declared:
            self._declare(decl, scope)

    def __bool__(self) -> bool:
        return bool(self._columns)

    def merges(
        self, relation: str, attributes: Sequence[Attribute], names: Mapping[int, Name]
    ) -> tuple[Merge, ...]:
        """What a relation joins; `names` are the types of those of its attributes that are to be joined."""
        columns: dict[int, Lattice] = {}
        for place, name in names.items():
            type_ = attributes[place].type
            if type_.name in self._of:
                columns[place] = self._of[type_.name]
            elif type_ is not UNKNOWN:
                hint = f"declare it: .lattice {name.text}<> {{ Lub -> .. }}, or leave out <>"
                self._error(f"there is no lattice for the type {name.text}", name.start, name.end, hint)
        if columns:
            self._columns[relation] = columns
        return tuple(Merge(place, one.merge.op, one.merge.span, one.bottom) for place, one in columns.items())

    # -- declarations --------------------------------------------------------------------------------------

    def _declare(self, decl: LatticeDecl, scope: Scope) -> None:
        type_ = self._environment.lookup(decl.type, scope)
        if type_ is None:
            message = f"the type {decl.type.text} is not declared"
            self._reporter.error(
                codes.UNDECLARED_TYPE, message, decl.type.start, decl.type.end, "declare it with .type"
            )
            return
        operators: dict[str, Arg] = {}
        for name, arg in decl.operators:
            if name.text not in _OPERATORS:
                hint = f"known are {', '.join(_OPERATORS)}"
                self._error(f"a lattice has no {name.text}", name.start, name.end, hint)
            elif name.text in operators:
                self._error(f"{name.text} is given twice", name.start, name.end, "leave one of them out")
            operators.setdefault(name.text, arg)
        if "Lub" not in operators:
            self._error(f"the lattice of {decl.type.text} has no Lub", decl.start, decl.end, _HINT)
            return
        join = self._operation(operators["Lub"], type_)
        meet = self._operation(operators["Glb"], type_) if "Glb" in operators else None
        least = operators.get("Bottom")
        bottom = None if least is None else self._constant(least, type_, scope)
        if join is None or type_.name in self._of:
            if join is not None:
                message = f"the lattice of {decl.type.text} is declared twice"
                self._reporter.error(codes.DUPLICATE, message, decl.type.start, decl.type.end)
            return
        span = self._reporter.sources.span(operators["Lub"].start, operators["Lub"].end)
        self._of[type_.name] = Lattice(type_, Merge(0, join, span), meet, bottom, least)

    def _operation(self, arg: Arg, type_: Type) -> str | None:
        """The name of what joins or meets two values."""
        if (
            not isinstance(arg, Call)
            or len(arg.args) != 2
            or not all(isinstance(one, Wild) for one in arg.args)
        ):
            self._error("this says not how two values are joined or met", arg.start, arg.end, _HINT)
            return None
        if arg.op.startswith("@"):
            signature = self._functors.get(arg.op[1:])
            if signature is None:
                hint = f"declare it: .functor {arg.op[1:]}(x: {type_.name}, y: {type_.name}): {type_.name}"
                message = f"the functor {arg.op} is not declared"
                self._reporter.error(codes.USER_FUNCTOR, message, arg.start, arg.end, hint)
                return None
            spaces = [one.space for one in (*signature.arguments, signature.result)]
            if spaces != [type_.space] * 3:
                hint = f"it takes two values of {type_.name}, and gives one"
                self._error(f"{arg.op} can't join or meet values of {type_.name}", arg.start, arg.end, hint)
                return None
            return arg.op
        if arg.op not in _BUILT_IN or type_.kind not in _BUILT_IN[arg.op]:
            self._error(f"{arg.op} can't join or meet values of {type_.name}", arg.start, arg.end, _HINT)
            return None
        return arg.op

    def _constant(self, arg: Arg, type_: Type, scope: Scope) -> Term | None:
        root = self._environment.roots[type_.space]
        if isinstance(arg, Int) and type_.kind in (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT):
            return Constant(float(arg.value) if type_.kind is Kind.FLOAT else arg.value, root)
        if isinstance(arg, Float) and type_.kind is Kind.FLOAT:
            return Constant(arg.value, root)
        if isinstance(arg, Str) and type_.kind is Kind.SYMBOL:
            return Constant(arg.value, root)
        if isinstance(arg, Nil) and type_.kind is Kind.RECORD:
            return Constant(None, root)
        branch, fields = None, None
        if isinstance(arg, Record) and type_.kind is Kind.RECORD:
            fields = self._environment.records[type_.space].fields
        elif isinstance(arg, BranchValue):
            branch = scope.resolve(arg.branch.text, self._environment.branches)
            entry = self._environment.branches[branch] if branch is not None else None
            fields = entry.branch.fields if entry is not None and entry.type.space == type_.space else None
        if isinstance(arg, Record | BranchValue) and fields is not None and len(fields) == len(arg.args):
            parts = [
                self._constant(part, field.type, scope) for part, field in zip(arg.args, fields, strict=True)
            ]
            if None not in parts:
                return Pack(root, branch, tuple(part for part in parts if part is not None))
            return None
        self._error(f"this is no constant of {type_.name}", arg.start, arg.end, "write a value of the type")
        return None

    def _error(self, message: str, start: int, end: int, hint: str) -> None:
        self._reporter.error(codes.LATTICE, message, start, end, hint)

    # -- bodies --------------------------------------------------------------------------------------------

    def met(self, body: list[Plain], relations: Mapping[str, Relation], scope: Scope) -> list[Plain]:
        """A body in which what is read from several attributes of lattices is met."""
        of = self._read_from_lattices(body, relations, scope)
        read: dict[str, list[tuple[Lattice, Var]]] = {}
        added: list[Plain] = []
        atoms: dict[int, list[Arg]] = {}
        for number, part in enumerate(body):
            full = scope.resolve(part.name.text, relations) if isinstance(part, Atom) else None
            if not isinstance(part, Atom) or full is None:
                continue
            args = list(part.args)
            columns = self._columns.get(full, {})
            for place, arg in enumerate(part.args):
                lattice = columns.get(place) or (of.get(arg.name) if isinstance(arg, Var) else None)
                if lattice is None or not lattice.has_meets or isinstance(arg, Wild):
                    continue
                own = Var(f"@met{number}.{place}", arg.start, arg.end)
                args[place] = own
                if isinstance(arg, Var):
                    read.setdefault(arg.name, []).append((lattice, own))
                else:
                    added.append(_above_bottom(lattice, _meeting(lattice, own, arg), arg))
            atoms[number] = args
        result = list(body)
        for number, part in enumerate(body):
            if isinstance(part, Atom):
                args = atoms.get(number, part.args)
                result[number] = Atom(part.name, _renamed(part.args, args, read), part.start, part.end)
        for name, places in read.items():
            if len(places) > 1:
                lattice, first = places[0]
                value: Arg = first
                for _, other in places[1:]:
                    value = _meeting(lattice, value, other)
                met = Var(name, first.start, first.end)
                added.append(Compare("=", met, value, first.start, first.end))
                added.append(_above_bottom(lattice, met, first))
        return [*result, *added]

    def _read_from_lattices(
        self, body: Iterable[Plain], relations: Mapping[str, Relation], scope: Scope
    ) -> dict[str, Lattice]:
        """The variables that stand for values of lattices, wherever they stand besides."""
        variables: dict[str, Lattice] = {}
        for part in body:
            full = scope.resolve(part.name.text, relations) if isinstance(part, Atom) else None
            if isinstance(part, Atom) and full is not None:
                for place, lattice in self._columns.get(full, {}).items():
                    arg = part.args[place] if place < len(part.args) else None
                    if isinstance(arg, Var):
                        variables[arg.name] = lattice
        return variables


def _renamed(
    args: Sequence[Arg], named: Sequence[Arg], read: Mapping[str, Sequence[tuple[Lattice, Var]]]
) -> list[Arg]:
    """Arguments with the names that were given to them, unless they are read there alone."""
    return [
        arg if isinstance(arg, Var) and own is not arg and len(read[arg.name]) == 1 else own
        for arg, own in zip(args, named, strict=True)
    ]


def _meeting(lattice: Lattice, one: Arg, other: Arg) -> Arg:
    assert lattice.meet is not None
    return Call(lattice.meet, [one, other], other.start, other.end)


def _above_bottom(lattice: Lattice, value: Arg, place: Arg) -> Compare:
    assert lattice.least is not None
    return Compare("!=", value, lattice.least, place.start, place.end)
