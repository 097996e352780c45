"""One typed conjunctive clause to a core rule: computed arguments and aggregates are pulled out.

    p(x + 1, s) :- q([x, _]), s = sum y : { r(x, y, _) }.

becomes ``p(@1, s) :- @1 = x + 1, q(@2), @2 = [x, @3], s = sum y : { r(x, y, @4) }``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.inference import Inference
from gpuengine.language.normalise import Plain
from gpuengine.language.program import (
    FLOAT,
    NUMBER,
    Aggregate,
    Atom,
    AtomArg,
    Comparison,
    Constant,
    Functor,
    Kind,
    Literal,
    Merge,
    Negation,
    Pack,
    Rule,
    Term,
    Type,
    Variable,
    Wildcard,
    literal_variables,
    term_variables,
)
from gpuengine.language.scoping import Frame
from gpuengine.language.syntax import (
    Agg,
    Arg,
    Bool,
    BranchValue,
    Call,
    Cast,
    Compare,
    Float,
    Int,
    Not,
    Record,
    Str,
    Var,
    Wild,
)
from gpuengine.language.syntax import Atom as AtomSyntax

_WILDCARD = Wildcard()
QUERY = "?"
AUTOINC = "autoinc"


class LoweredRule(NamedTuple):
    """A core rule, and where its clause and its variables stand."""

    rule: Rule
    start: int
    end: int
    variables: dict[str, tuple[int, int]]


class Lowering:
    """Lowers one clause after its `Inference` has run without errors."""

    def __init__(self, inference: Inference, reporter: Reporter) -> None:
        self._inference = inference
        self._reporter = reporter
        self._sources = reporter.sources
        self._fresh = 0
        self._in_aggregate = False
        self._in_query = False
        self._failed = False

    def rule(
        self,
        head: AtomSyntax,
        body: list[Plain],
        start: int,
        end: int,
        merge: Merge | None = None,
        subsumes: bool = False,
    ) -> LoweredRule | None:
        """The rule, or None if it could not be lowered (reported) or can never hold."""
        out: list[Literal] = []
        args = [self._head_arg(arg, out) for arg in head.args]
        self._body(body, self._inference.frame, out)
        if self._failed or any(isinstance(literal, Bool) and not literal.value for literal in body):
            return None
        name = self._inference.relations[id(head)].name
        core_head = Atom(name, tuple(args), self._sources.span(head.start, head.end))
        lowered = self._finish(core_head, out, start, end)
        return lowered._replace(rule=replace(lowered.rule, merge=merge, subsumes=subsumes))

    def query(self, body: list[Plain], start: int, end: int) -> LoweredRule | None:
        """A rule that answers with the named variables of `body`, in order of first appearance."""
        out: list[Literal] = []
        self._in_query = True
        self._body(body, self._inference.frame, out)
        if self._failed:
            return None
        infos = sorted(self._inference.frame.names.values(), key=lambda info: info.start)
        written = (info for info in infos if not info.name.startswith("@"))
        args = tuple(Variable(info.name, info.type) for info in written if info.type is not None)
        return self._finish(Atom(QUERY, args, self._sources.span(start, end)), out, start, end)

    def _finish(self, head: Atom, body: list[Literal], start: int, end: int) -> LoweredRule:
        rule = Rule(head, _by_value(body), self._sources.span(start, end), self._sources.text(start, end))
        places = {info.name: (info.start, info.end) for info in self._inference.variables.all.values()}
        return LoweredRule(rule, start, end, places)

    def _head_arg(self, arg: Arg, out: list[Literal]) -> AtomArg:
        if isinstance(arg, Wild) or _holds_wildcard(arg):
            self._failed = True
            hint = "use a variable that the body binds"
            message = "a wildcard in a head has no value"
            self._reporter.error(codes.WILDCARD, message, arg.start, arg.end, hint)
        return self._atom_arg(arg, self._inference.frame, out)

    # Bodies

    def _body(self, body: list[Plain], frame: Frame, out: list[Literal]) -> None:
        for literal in body:
            if isinstance(literal, AtomSyntax):
                self._positive(literal, frame, out)
            elif isinstance(literal, Not):
                assert isinstance(literal.term, AtomSyntax)
                self._negative(literal.term, frame, out)
            elif isinstance(literal, Compare):
                self._compare(literal, frame, out)
            elif not literal.value:
                span = self._sources.span(literal.start, literal.end)
                out.append(Comparison("=", Constant(0, NUMBER), Constant(1, NUMBER), span))

    def _positive(self, atom: AtomSyntax, frame: Frame, out: list[Literal]) -> None:
        extra: list[Literal] = []
        args: list[AtomArg] = []
        relation = self._inference.relations[id(atom)]
        for arg, attribute in zip(atom.args, relation.attributes, strict=True):
            if self._in_aggregate and isinstance(arg, Wild):
                args.append(self._fresh_variable(attribute.type))
            else:
                args.append(self._atom_arg(arg, frame, extra))
        out.append(Atom(relation.name, tuple(args), self._sources.span(atom.start, atom.end)))
        out.extend(extra)

    def _negative(self, atom: AtomSyntax, frame: Frame, out: list[Literal]) -> None:
        args = []
        for arg in atom.args:
            if _holds_wildcard(arg):
                self._failed = True
                hint = "match the record in a relation of its own, and negate that"
                message = "a wildcard inside a record can't stand in a negated atom"
                self._reporter.error(codes.WILDCARD, message, arg.start, arg.end, hint)
            args.append(self._atom_arg(arg, frame, out))
        relation = self._inference.relations[id(atom)]
        out.append(Negation(Atom(relation.name, tuple(args), self._sources.span(atom.start, atom.end))))

    def _compare(self, literal: Compare, frame: Frame, out: list[Literal]) -> None:
        op = literal.op
        left, right = literal.left, literal.right
        if op == "=":
            for variable, other in ((left, right), (right, left)):
                if isinstance(other, Agg) and isinstance(variable, Var):
                    self._aggregate(other, frame, out, self._variable(variable))
                    return
        span = self._sources.span(literal.start, literal.end)
        left_term = self._side(left, frame, out, op == "=")
        right_term = self._side(right, frame, out, op == "=" and not _is_alone(left_term))
        out.append(Comparison(op, left_term, right_term, span))

    def _side(self, arg: Arg, frame: Frame, out: list[Literal], may_be_range: bool) -> Term:
        if may_be_range and isinstance(arg, Call) and _stands_alone(arg.op):
            return self._functor(arg, frame, out)
        return self._term(arg, frame, out)

    # Terms

    def _atom_arg(self, arg: Arg, frame: Frame, out: list[Literal]) -> AtomArg:
        """An argument of an atom; what has to be computed goes to `out`."""
        if isinstance(arg, Wild):
            return _WILDCARD
        term = self._term(arg, frame, out)
        if isinstance(term, Variable | Constant):
            return term
        return self._define(term, term.type, arg, out)

    def _define(self, term: Term, type_: Type, arg: Arg, out: list[Literal]) -> Variable:
        variable = self._fresh_variable(type_)
        out.append(Comparison("=", variable, term, self._sources.span(arg.start, arg.end)))
        return variable

    def _term(self, arg: Arg, frame: Frame, out: list[Literal]) -> Term:
        if isinstance(arg, Var):
            return self._variable(arg)
        type_ = self._inference.type_of(arg)
        if isinstance(arg, Int):
            return Constant(float(arg.value) if type_.kind is Kind.FLOAT else arg.value, type_)
        if isinstance(arg, Str | Float):
            return Constant(arg.value, type_)
        if isinstance(arg, Call):
            functor = self._functor(arg, frame, out)
            return self._define(functor, type_, arg, out) if _stands_alone(arg.op) else functor
        if isinstance(arg, Record | BranchValue):
            branch = self._inference.branches[id(arg)] if isinstance(arg, BranchValue) else None
            return Pack(type_, branch, tuple(self._part(part, frame, out) for part in arg.args))
        if isinstance(arg, Cast):
            inner = self._term(arg.arg, frame, out)
            if inner.type.space == type_.space:
                return inner
            return Functor("as", (inner,), type_, self._sources.span(arg.start, arg.end))
        if isinstance(arg, Agg):
            return self._aggregate(arg, frame, out, self._fresh_variable(type_))
        return Constant(None, type_)

    def _functor(self, call: Call, frame: Frame, out: list[Literal]) -> Functor:
        if call.op == AUTOINC and (self._in_aggregate or self._in_query):
            self._failed = True
            where = "inside an aggregate" if self._in_aggregate else "in a query"
            hint = "number what is counted in a relation of its own"
            message = f"autoinc() can't stand {where}"
            self._reporter.error(codes.COUNTER, message, call.start, call.end, hint)
        args = tuple(self._term(arg, frame, out) for arg in call.args)
        type_ = self._inference.type_of(call)
        op = "cat" if call.op == "+" and type_.kind is Kind.SYMBOL else call.op
        return Functor(op, args, type_, self._sources.span(call.start, call.end))

    def _part(self, arg: Arg, frame: Frame, out: list[Literal]) -> Term:
        """A part of a record: a wildcard becomes a variable, so that the record can't be built of it."""
        if isinstance(arg, Wild):
            return self._fresh_variable(self._inference.type_of(arg))
        return self._term(arg, frame, out)

    def _variable(self, var: Var) -> Variable:
        info = self._inference.variable_of[id(var)]
        assert info.type is not None
        return Variable(info.name, info.type)

    def _fresh_variable(self, type_: Type) -> Variable:
        self._fresh += 1
        return Variable(f"@{self._fresh}", type_)

    def _aggregate(self, aggregate: Agg, frame: Frame, out: list[Literal], result: Variable) -> Variable:
        scope = self._inference.aggregates[id(aggregate)]
        enclosing, self._in_aggregate = self._in_aggregate, True
        body: list[Literal] = []
        self._body(scope.body, scope.frame, body)
        target = None
        if aggregate.target is not None:
            target = self._term(aggregate.target, scope.frame, body)
            if aggregate.op == "mean" and target.type.kind is not Kind.FLOAT:
                span = self._sources.span(aggregate.target.start, aggregate.target.end)
                target = Functor("to_float", (target,), FLOAT, span)
        initial = None
        if aggregate.initial is not None:
            term = self._term(aggregate.initial, frame, out)
            assert isinstance(term, Constant)
            initial = term
        self._in_aggregate = enclosing
        visible = frame.visible_names()
        mentioned = dict.fromkeys(
            variable for literal in body for variable in sorted(literal_variables(literal), key=_by_name)
        )
        if target is not None:
            mentioned |= dict.fromkeys(sorted(term_variables(target), key=_by_name))
        outer = tuple(variable for variable in mentioned if variable.name in visible)
        span = self._sources.span(aggregate.start, aggregate.end)
        out.append(Aggregate(result, aggregate.op, target, _by_value(body), outer, span, initial))
        return result


def _by_value(body: list[Literal]) -> tuple[Literal, ...]:
    """The body with ``==`` where a float that an atom binds is compared with what is not a variable."""
    read = {arg for part in body if isinstance(part, Atom) for arg in part.args}
    return tuple(
        replace(part, op="==") if isinstance(part, Comparison) and _compares_floats(part, read) else part
        for part in body
    )


def _compares_floats(part: Comparison, read: set[AtomArg]) -> bool:
    if (
        part.op != "="
        or part.left.type.kind is not Kind.FLOAT
        or _is_range(part.left)
        or _is_range(part.right)
    ):
        return False
    read_sides = [side for side in (part.left, part.right) if side in read]
    return bool(read_sides) and not all(isinstance(side, Variable) for side in (part.left, part.right))


def _by_name(variable: Variable) -> str:
    return variable.name


def _stands_alone(op: str) -> bool:
    """Can a functor have several values or none, so that it may only be one side of an ``=``?"""
    return op == "range" or op.startswith("@")


def _is_alone(term: Term) -> bool:
    return isinstance(term, Functor) and _stands_alone(term.op)


def _is_range(term: Term) -> bool:
    return isinstance(term, Functor) and term.op == "range"


def _holds_wildcard(arg: Arg) -> bool:
    if isinstance(arg, Record | BranchValue):
        return any(isinstance(part, Wild) or _holds_wildcard(part) for part in arg.args)
    return False
