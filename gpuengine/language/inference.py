"""Type inference of one conjunctive clause.

First every expression gets a `Cell` and the cells are unified (what is represented how); a plain ``1``
becomes what its context needs.  Then `subtypes` gives each variable its declared type.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from gpuengine.language import codes, extensions
from gpuengine.language.cells import Cell, root_cell
from gpuengine.language.components import Scope
from gpuengine.language.declarations import Declarations
from gpuengine.language.diagnostics import Reporter, counted, nearest
from gpuengine.language.functors import NUMERIC, ORDERED, Fixed, Uniform, argument_range, signature
from gpuengine.language.literals import INT64_MAX, INT64_MIN
from gpuengine.language.normalise import Plain, TooManyDisjuncts, disjuncts
from gpuengine.language.patterns import UnsupportedPattern, translate
from gpuengine.language.program import FLOAT, NUMBER, SYMBOL, UNSIGNED, Attribute, Kind, Relation, Type
from gpuengine.language.scoping import Frame, VariableInfo, Variables, aggregate_frame, declare_direct
from gpuengine.language.subtypes import Sink, assign_types, join
from gpuengine.language.syntax import (
    Agg,
    Arg,
    Atom,
    Bool,
    BranchValue,
    Call,
    Cast,
    Compare,
    Float,
    Int,
    Merge,
    Nil,
    Not,
    Record,
    Str,
    Var,
    Wild,
)
from gpuengine.language.type_environment import UNKNOWN

_UNSIGNED_OR_FLOAT = frozenset((Kind.UNSIGNED, Kind.FLOAT))
_SIGNED_KINDS = frozenset((Kind.NUMBER, Kind.FLOAT))
_RECORD = frozenset((Kind.RECORD,))
_NESTED = frozenset((Kind.RECORD, Kind.ADT))
_SYMBOL = frozenset((Kind.SYMBOL,))
_DEFAULTS = (NUMBER, UNSIGNED, FLOAT)


class Use(Enum):
    """Where an argument stands: what is read of a relation narrows a type, what is derived must fit it.

    What is negated is only compared: it needs the same representation.
    """

    READ = "read"
    DERIVED = "derived"
    COMPARED = "compared"


class AggregateScope(NamedTuple):
    body: list[Plain]
    frame: Frame


class Inference:
    """The types of one clause; `run` reports what is wrong and says whether all is well."""

    def __init__(self, declarations: Declarations, scope: Scope, reporter: Reporter) -> None:
        self._declarations = declarations
        self._environment = declarations.environment
        self._scope = scope
        self._reporter = reporter
        self._failed = False
        self.variables = Variables()
        self.frame = Frame(self.variables, None)
        self.variable_of: dict[int, VariableInfo] = {}  # by id of the syntax node
        self.cells: dict[int, Cell] = {}
        self.relations: dict[int, Relation] = {}
        self.aggregates: dict[int, AggregateScope] = {}
        self.branches: dict[int, str] = {}
        self._records: list[tuple[Record, Cell, list[Cell]]] = []
        self._nils: list[Nil] = []
        self._casts: list[tuple[Cast, Cell]] = []
        self._sinks: list[Sink] = []

    def run(self, head: Atom | None, body: list[Plain]) -> bool:
        declare_direct(self.frame, () if head is None else (head,), body)
        if head is not None:
            self._atom(head, self.frame, Use.DERIVED)
        self._literals(body, self.frame)
        self._solve()
        infos = list(self.variables.all.values())
        return assign_types(infos, self._sinks, self._environment, self._reporter) and not self._failed

    def type_of(self, node: Arg) -> Type:
        """The root type of an expression, after `run`."""
        type_ = self.cells[id(node)].find().type
        return NUMBER if type_ is None else type_

    def _error(self, code: str, message: str, node: Arg | Atom | Compare, hint: str | None = None) -> None:
        self._failed = True
        self._reporter.error(code, message, node.start, node.end, hint)

    # Literals

    def _literals(self, body: list[Plain], frame: Frame) -> None:
        for literal in body:
            if isinstance(literal, Atom):
                self._atom(literal, frame, Use.READ)
            elif isinstance(literal, Not):
                assert isinstance(literal.term, Atom)
                self._atom(literal.term, frame, Use.COMPARED)
            elif isinstance(literal, Compare):
                self._compare(literal, frame)
            else:
                assert isinstance(literal, Bool)

    def _atom(self, atom: Atom, frame: Frame, use: Use) -> None:
        relation = self._declarations.find(atom.name, self._scope)
        if relation is None:
            self._failed = True
            for arg in atom.args:
                self._visit(arg, frame, wildcard=True)
            return
        self.relations[id(atom)] = relation
        if len(atom.args) != relation.arity:
            names = ", ".join(attribute.name for attribute in relation.attributes)
            self._error(
                codes.ARITY,
                f"{relation.name} has {counted(relation.arity, 'attribute')}, "
                f"{counted(len(atom.args), 'argument')} given",
                atom,
                f"it is declared as {relation.name}({names}) at {relation.span}",
            )
        for arg, attribute in zip(atom.args, relation.attributes, strict=False):
            self._assign(arg, attribute, frame, use)

    def _assign(self, arg: Arg, attribute: Attribute, frame: Frame, use: Use) -> None:
        """`arg` stands for an attribute or field of a known type."""
        type_ = attribute.type
        cell = self._visit(arg, frame, wildcard=True)
        if type_ is UNKNOWN:
            self._failed = True
            return
        if not cell.become(self._environment.roots[type_.space]):
            self._clash(arg, cell, type_.name, f" for {attribute.name}")
        elif isinstance(arg, Var) and use is Use.READ:
            self.variable_of[id(arg)].bounds.append(type_)
        elif isinstance(arg, Var | Cast) and use is Use.DERIVED and type_.name != type_.space:
            if isinstance(arg, Var):
                self._sinks.append(Sink(arg, self.variable_of[id(arg)], None, type_))
            else:
                self._sinks.append(Sink(arg, None, self._cast_type(arg), type_))
        elif isinstance(arg, Cast) and use is Use.READ:
            given = self._cast_type(arg)
            if given not in (None, UNKNOWN) and self._environment.meet(given, type_) is None:
                message = f"no value of {attribute.name} is both {given.name} and {type_.name}"
                self._error(codes.NO_COMMON_SUBTYPE, message, arg, f"cast to {type_.name}")

    def _compare(self, literal: Compare, frame: Frame) -> None:
        left = self._visit(literal.left, frame)
        right = self._visit(literal.right, frame)
        op = literal.op
        if op.endswith(("match", "contains")):
            self._restrict(literal.left, left, _SYMBOL)
            self._restrict(literal.right, right, _SYMBOL)
            if op.endswith("match") and isinstance(literal.left, Str):
                self._pattern(literal.left)
            return
        if op not in ("=", "!="):
            self._restrict(literal.left, left, ORDERED)
            self._restrict(literal.right, right, ORDERED)
        if not left.unify(right):
            message = f"can't compare {left.describe()} with {right.describe()}"
            self._error(codes.TYPE_CLASH, message, literal, _conversion(left, right))
        elif op == "=":
            self._equal(literal.left, literal.right)
            self._equal(literal.right, literal.left)

    def _pattern(self, pattern: Str) -> None:
        try:
            translate(pattern.value)
        except UnsupportedPattern as error:
            message = f"match does not have {error}"
            hint = "say it with several match, or with contains and substr"
            self._error(codes.PATTERN, message, pattern, hint)

    def _equal(self, left: Arg, right: Arg) -> None:
        """Equal variables share their subtype; a variable equal to a cast has the cast's type."""
        if isinstance(left, Var) and isinstance(right, Var):
            join(self.variable_of[id(left)], self.variable_of[id(right)])
        elif isinstance(left, Var) and isinstance(right, Cast):
            type_ = self._cast_type(right)
            if type_ is not None:
                self.variable_of[id(left)].bounds.append(type_)

    def _restrict(self, arg: Arg, cell: Cell, kinds: frozenset[Kind]) -> None:
        if not cell.restrict(kinds):
            expected = " or ".join(sorted(kind.value for kind in kinds))
            self._clash(arg, cell, expected, "")

    def _clash(self, arg: Arg, cell: Cell, expected: str, where: str) -> None:
        given = cell.describe()
        if isinstance(arg, Var):
            message = f"the variable {arg.name} is {_article(given)} elsewhere, but {_article(expected)} here"
        elif isinstance(arg, Int) and _out_of_range(arg.value, expected):
            message = f"{arg.value} does not fit {_article(expected)}: it has 64 bits"
            self._error(codes.LITERAL, message, arg)
            return
        elif isinstance(arg, Int) and cell.find().type is None:
            message = f"expected {_article(expected)}{where}, found the number {arg.value}"
        else:
            message = f"expected {_article(expected)}{where}, found {_article(given)}"
        type_ = self._environment.types.get(expected)
        self._error(
            codes.TYPE_CLASH, message, arg, _conversion(cell, *([] if type_ is None else [root_cell(type_)]))
        )

    # Expressions

    def _visit(self, arg: Arg, frame: Frame, wildcard: bool = False) -> Cell:
        """The cell of an expression; a wildcard is allowed only where `wildcard` says so."""
        if isinstance(arg, Var):
            info = frame.lookup(arg)
            self.variable_of[id(arg)] = info
            return info.cell
        if isinstance(arg, Int):
            cell = Cell(_integer_kinds(arg))
        elif isinstance(arg, Str):
            cell = root_cell(SYMBOL)
        elif isinstance(arg, Float):
            cell = root_cell(FLOAT)
        elif isinstance(arg, Wild):
            if not wildcard:
                hint = "give it a name, and bind that name in a positive atom"
                self._error(codes.WILDCARD, "a wildcard has no value to compute with", arg, hint)
            cell = Cell()
        elif isinstance(arg, Nil):
            cell = Cell(_RECORD)
            self._nils.append(arg)
        elif isinstance(arg, Call):
            cell = self._call(arg, frame)
        elif isinstance(arg, Record):
            cell = Cell(_RECORD)
            self._records.append((arg, cell, [self._visit(part, frame, wildcard=True) for part in arg.args]))
        elif isinstance(arg, BranchValue):
            cell = self._branch(arg, frame)
        elif isinstance(arg, Cast):
            cell = self._cast(arg, frame)
        elif isinstance(arg, Merge):
            hint = f"an aggregate in a body is written x = {arg.op} .. : {{ .. }}"
            self._error(codes.MERGE, f"{arg.op} without a body stands in the head of a rule only", arg, hint)
            cell = self._visit(arg.arg, frame)
        else:
            cell = self._aggregate(arg, frame)
        self.cells[id(arg)] = cell
        return cell

    def _call(self, call: Call, frame: Frame) -> Cell:
        wants = self._signature(call)
        cells = [self._visit(arg, frame) for arg in call.args]
        if wants is None:
            return Cell()
        least, most = argument_range(wants)
        if len(cells) < least or (most is not None and len(cells) > most):
            wanted = f"{least} or more arguments" if most is None else f"{least} to {most} arguments"
            wanted = counted(least, "argument") if least == most else wanted
            message = f"{call.op} takes {wanted}, {len(cells)} given"
            self._error(codes.ARGUMENT_COUNT, message, call)
        if isinstance(wants, Uniform):
            result = Cell(wants.kinds)
            for arg, cell in zip(call.args, cells, strict=True):
                if not cell.unify(result):
                    expected = result.describe()
                    self._clash(arg, cell, expected, f" for {call.op}")
            return result
        declared = self._declarations.functors.get(call.op[1:]) if call.op.startswith("@") else None
        for position, (arg, cell) in enumerate(zip(call.args, cells, strict=True)):
            kinds = wants.args[min(position, len(wants.args) - 1)]
            if declared is not None and kinds <= _NESTED and position < len(declared.arguments):
                type_ = declared.arguments[position]
                if not cell.become(self._environment.roots[type_.space]):
                    self._clash(arg, cell, type_.name, f" for {call.op}")
            else:
                self._restrict(arg, cell, kinds)
        if declared is not None and wants.result in _NESTED:
            return root_cell(self._environment.roots[declared.result.space])
        return Cell(frozenset((wants.result,)))

    def _signature(self, call: Call) -> Uniform | Fixed | None:
        """What a functor takes and gives; reported if it is one that nobody declares."""
        name = call.op.removeprefix("@")
        declared = self._declarations.functors.get(name) if call.op.startswith("@") else None
        if declared is not None:
            if UNKNOWN in (*declared.arguments, declared.result):
                self._failed = True
                return None
            kinds = tuple(frozenset((type_.kind,)) for type_ in declared.arguments)
            return Fixed(kinds, declared.result.kind)
        if call.op.startswith("@") and extensions.functor(call.op) is None:
            hint = nearest(name, self._declarations.functors, "functor")
            hint = hint or f"declare it: .functor {name}(x: number): number"
            self._error(codes.USER_FUNCTOR, f"the functor {call.op} is not declared", call, hint)
            return None
        return signature(call.op)

    def _branch(self, value: BranchValue, frame: Frame) -> Cell:
        environment = self._environment
        full = self._scope.resolve(value.branch.text, environment.branches)
        if full is None:
            hint = nearest(value.branch.text, environment.branches, "branch")
            self._error(codes.UNKNOWN_BRANCH, f"there is no branch {value.branch.text}", value, hint)
            for arg in value.args:
                self._visit(arg, frame, wildcard=True)
            return Cell()
        type_, branch = environment.branches[full]
        self.branches[id(value)] = full
        self._fields(value, full, branch.fields)
        for arg, field in zip(value.args, branch.fields, strict=False):
            self._assign(arg, field, frame, Use.READ)
        return root_cell(type_)

    def _fields(self, value: Record | BranchValue, name: str, fields: tuple[Attribute, ...]) -> None:
        if len(value.args) != len(fields):
            given = counted(len(value.args), "argument")
            message = f"{name} has {counted(len(fields), 'field')}, {given} given"
            self._error(codes.ARGUMENT_COUNT, message, value)

    def _cast(self, cast: Cast, frame: Frame) -> Cell:
        inner = self._visit(cast.arg, frame)
        type_ = self._cast_type(cast)
        if type_ is None:
            hint = nearest(cast.type.text, self._environment.types, "type")
            self._error(codes.UNDECLARED_TYPE, f"the type {cast.type.text} is not declared", cast, hint)
            return Cell()
        if type_ is UNKNOWN:
            self._failed = True
            return Cell()
        root = self._environment.roots[type_.space]
        if isinstance(cast.arg, Record | Nil | Int):  # what is written down is of that type at once
            inner.become(root)
        self._casts.append((cast, inner))
        return root_cell(root)

    def _cast_type(self, cast: Cast) -> Type | None:
        return self._environment.lookup(cast.type, self._scope)

    def _aggregate(self, aggregate: Agg, frame: Frame) -> Cell:
        try:
            bodies = disjuncts(aggregate.body)
        except TooManyDisjuncts:
            bodies = []
        if len(bodies) != 1:
            hint = "define a relation with the alternatives, and aggregate over it"
            self._error(codes.AGGREGATE_BODY, "an aggregate's body can't have alternatives", aggregate, hint)
            bodies = bodies[:1] or [[]]
        inner = aggregate_frame(frame, aggregate.target, bodies[0])
        self.aggregates[id(aggregate)] = AggregateScope(bodies[0], inner)
        self._literals(bodies[0], inner)
        op = aggregate.op
        if (aggregate.target is None) != (op == "count"):
            message = "count takes no expression" if op == "count" else f"{op} needs an expression"
            hint = "write count : { .. }" if op == "count" else f"write {op} x : {{ .. }}"
            self._error(codes.AGGREGATE_BODY, message, aggregate, hint)
        if aggregate.target is None:
            return root_cell(NUMBER)
        target = self._visit(aggregate.target, inner)
        if aggregate.initial is not None:
            return self._fold(aggregate, target, aggregate.initial, frame)
        if op.startswith("@@"):
            self._restrict(aggregate.target, target, _SYMBOL)
            return root_cell(SYMBOL)
        self._restrict(aggregate.target, target, NUMERIC)
        if op == "mean":
            return root_cell(FLOAT)
        if op == "count":
            return root_cell(NUMBER)
        return target

    def _fold(self, aggregate: Agg, target: Cell, initial: Arg, frame: Frame) -> Cell:
        """An aggregate of the user: a functor of what there is so far and one value more."""
        name = aggregate.op[2:]
        assert aggregate.target is not None
        first = self._visit(initial, frame)
        declared = self._declarations.functors.get(name)
        if declared is None:
            hint = nearest(name, self._declarations.functors, "functor")
            hint = hint or f"declare it: .functor {name}(so_far: number, x: number): number"
            message = f"the functor of the aggregate {aggregate.op} is not declared"
            self._error(codes.USER_FUNCTOR, message, aggregate, hint)
            return Cell()
        if UNKNOWN in (*declared.arguments, declared.result):
            self._failed = True
            return Cell()
        kinds = [type_.kind for type_ in declared.arguments]
        if len(kinds) != 2 or kinds[0] is not declared.result.kind:
            message = f"the functor {name} can't be an aggregate: it must take what it gives, and one value"
            result = declared.result.name
            hint = f"declare it: .functor {name}(so_far: {result}, x: {result}): {result}"
            self._error(codes.USER_FUNCTOR, message, aggregate, hint)
            return Cell()
        if not isinstance(initial, Int | Float | Str):
            message = f"what {aggregate.op} begins with is a number or a text that is written down"
            self._error(codes.AGGREGATE_BODY, message, initial, f"write {aggregate.op} 0 : x, {{ .. }}")
        self._restrict(aggregate.target, target, frozenset((kinds[1],)))
        self._restrict(initial, first, frozenset((kinds[0],)))
        return Cell(frozenset((declared.result.kind,)))

    # Solving

    def _solve(self) -> None:
        """Give records the fields' types, and numbers without context a default."""
        pending = self._records
        while pending:
            waiting = [entry for entry in pending if not self._open_record(*entry)]
            if len(waiting) == len(pending):
                break
            pending = waiting
        unknown: list[Arg] = [record for record, _, _ in pending]
        unknown += [nil for nil in self._nils if self.cells[id(nil)].find().type is None]
        for node in () if self._failed else unknown:
            hint = "say which: as([..], Type)"
            self._error(codes.UNKNOWN_RECORD, "the type of this record can't be inferred", node, hint)
        cells: Iterable[Cell] = [*self.cells.values(), *(info.cell for info in self.variables.all.values())]
        for cell in cells:
            root = cell.find()
            if root.type is None:
                root.type = next((type_ for type_ in _DEFAULTS if type_.kind in root.kinds), None)
        for cast, inner in self._casts:
            self._check_cast(cast, inner)

    def _open_record(self, record: Record, cell: Cell, parts: list[Cell]) -> bool:
        type_ = cell.find().type
        if type_ is None:
            return False
        fields = self._environment.records[type_.space].fields
        self._fields(record, type_.name, fields)
        for arg, part, field in zip(record.args, parts, fields, strict=False):
            if field.type is UNKNOWN:
                self._failed = True
                continue
            if not part.become(self._environment.roots[field.type.space]):
                self._clash(arg, part, field.type.name, f" for {field.name}")
            elif isinstance(arg, Var):
                self.variable_of[id(arg)].bounds.append(field.type)
        return True

    def _check_cast(self, cast: Cast, inner: Cell) -> None:
        source, target = inner.find().type, self.cells[id(cast)].find().type
        if source is None or target is None or source.space == target.space:
            return
        if not _castable(source.kind, target.kind):
            message = f"can't cast {_article(source.name)} to {_article(target.name)}"
            hint = "convert it with to_number, to_unsigned, to_float, to_string or ord"
            self._error(codes.CAST, message, cast, hint)


def _castable(source: Kind, target: Kind) -> bool:
    """Numbers keep their bits; an integer and anything else meet in the id that stands for the value."""
    if source in NUMERIC and target in NUMERIC:
        return True
    return source in _INTEGERS or target in _INTEGERS


_INTEGERS = frozenset((Kind.NUMBER, Kind.UNSIGNED))
_CONVERT = "convert with to_number, to_unsigned, to_float or to_string"


def _conversion(*cells: Cell) -> str:
    """How to make one type of another: of what has no text or number, only its id is one."""
    if any(not cell.find().kinds & ORDERED for cell in cells):
        return "only ord(..), or as(.., Type), makes a number of a record or an ADT value"
    return _CONVERT


def _integer_kinds(literal: Int) -> frozenset[Kind]:
    value = literal.value
    if literal.suffix == "u":
        return frozenset((Kind.UNSIGNED,))
    kinds = NUMERIC if INT64_MIN <= value <= INT64_MAX else _UNSIGNED_OR_FLOAT
    if value < 0:
        kinds = _SIGNED_KINDS if value >= INT64_MIN else frozenset((Kind.FLOAT,))
    return kinds - {Kind.FLOAT} if literal.suffix == "x" else kinds


def _out_of_range(value: int, primitive: str) -> bool:
    if primitive == "number":
        return not INT64_MIN <= value <= INT64_MAX
    return primitive == "unsigned" and value < 0


def _article(name: str) -> str:
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"
