"""Scopes and kinds: a rule as it is written becomes one that can be evaluated.

After `Typing.rule` every variable name means one variable, every expression knows the kind of its
operands, names are those of the flat program, and arguments of positive atoms are patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from tests.oracle.components import Flat, Scope
from tests.oracle.functors import MATHEMATICAL, wrap
from tests.oracle.syntax import (
    Agg,
    Atom,
    Bool,
    Call,
    Cast,
    Compare,
    Const,
    Not,
    Pack,
    Rule,
    Var,
    Wild,
    children,
)
from tests.oracle.values import held

PRIMITIVES = ("number", "unsigned", "float", "symbol")
INTEGERS = frozenset({"number", "unsigned"})
NUMERIC = frozenset({"number", "unsigned", "float"})
ORDERED = NUMERIC | {"symbol"}
#: Functors whose operands and result have one kind.
UNIFORM = {
    **dict.fromkeys(("-", "*", "/", "^", "neg", "range"), NUMERIC),
    **dict.fromkeys(("+", "min", "max"), ORDERED),
    **dict.fromkeys(("%", "band", "bor", "bxor", "bshl", "bshr", "bshru", "bnot"), INTEGERS),
    **dict.fromkeys(("land", "lor", "lxor", "lnot"), INTEGERS),
}
#: The kinds of the arguments (the last one repeats) and of the result.
FIXED: dict[str, tuple[tuple[frozenset[str], ...], str]] = {
    "cat": ((frozenset({"symbol"}),), "symbol"),
    "strlen": ((frozenset({"symbol"}),), "number"),
    "substr": ((frozenset({"symbol"}), frozenset({"number"})), "symbol"),
    "to_number": ((ORDERED,), "number"),
    "to_unsigned": ((ORDERED,), "unsigned"),
    "to_float": ((ORDERED,), "float"),
    "to_string": ((ORDERED,), "symbol"),
}


class Types:
    """The root of every type: a primitive, or the record or ADT that it is a subtype or union of."""

    def __init__(self, flat: Flat) -> None:
        self._declared = {scope.prefix + type_.name: (type_, scope) for type_, scope in flat.types}
        self._known = {*PRIMITIVES, *self._declared}
        self.fields: dict[tuple[str, str], tuple[str, ...]] = {}  # by root and tag, as roots
        self.branches: dict[str, str] = {}  # the root of each tag
        for name, (type_, scope) in self._declared.items():
            if type_.form == "record":
                self.fields[name, "[]"] = tuple(self.root(part, scope) for part in type_.parts)
            elif type_.form == "adt":
                for tag, parts in type_.parts:
                    self.branches[tag] = name
                    self.fields[name, tag] = tuple(self.root(part, scope) for part in parts)

    def root(self, name: str, scope: Scope) -> str:
        full = scope.find_type(name, self._known)
        if full in PRIMITIVES:
            return full
        type_, inner = self._declared[full]
        return self.root(type_.parts[0], inner) if type_.form == "same" else full


# -- which variable a name means ---------------------------------------------------------------------


def scoped(rule: Rule) -> Rule:
    """Local variables of aggregates get names of their own; wildcards in them are variables too."""
    fresh = count()
    visible = {name: name for name in _direct([rule.head, *rule.body])}
    head, *body = (_scope(literal, visible, fresh) for literal in (rule.head, *rule.body))
    return replace(rule, head=head, body=tuple(body))


def _direct(nodes: Iterable[Any]) -> list[str]:
    """The names that stand outside of aggregates."""
    found: list[str] = []
    for node in nodes:
        found += [node.name] if isinstance(node, Var) else _direct(children(node))
    return found


def _scope(node: Any, names: Mapping[str, str], fresh: Iterable[int], counted: bool = False) -> Any:
    if isinstance(node, Var):
        return Var(names.get(node.name, node.name))
    if isinstance(node, Wild) and counted:
        return Var(f"_@{next(iter(fresh))}")
    if isinstance(node, Agg):
        return _scope_aggregate(node, names, fresh)
    if isinstance(node, Not):
        return Not(_scope(node.term, names, fresh))
    if isinstance(node, Atom | Call | Pack):
        return replace(node, args=tuple(_scope(arg, names, fresh, counted) for arg in node.args))
    if isinstance(node, Compare):
        return replace(node, left=_scope(node.left, names, fresh), right=_scope(node.right, names, fresh))
    return replace(node, arg=_scope(node.arg, names, fresh)) if isinstance(node, Cast) else node


def _scope_aggregate(node: Agg, names: Mapping[str, str], fresh: Iterable[int]) -> Agg:
    """A name is the rule's if it is visible there, unless target and body both mention it."""
    inside = _direct(node.body)
    target = _direct([] if node.target is None else [node.target])
    inner = dict(names)
    for name in inside:
        is_local = name in target or name not in names
        if is_local and inner.get(name, name) == names.get(name, name):  # not yet named anew
            inner[name] = f"{name}@{next(iter(fresh))}"
    for name in target:  # perhaps only an aggregate inside the body mentions it
        inner.setdefault(name, f"{name}@{next(iter(fresh))}")
    body = tuple(_scope(literal, inner, fresh, isinstance(literal, Atom)) for literal in node.body)
    aim = None if node.target is None else _scope(node.target, inner, fresh)
    mentioned = {*_all(body), *_all([] if aim is None else [aim])}
    return Agg(node.op, aim, body, frozenset(mentioned & {*names.values()}))


def _all(nodes: Iterable[Any]) -> list[str]:
    """The names of scoped nodes; of aggregates those from outside."""
    found: list[str] = []
    for node in nodes:
        if isinstance(node, Agg):
            found += node.outer
        else:
            found += [node.name] if isinstance(node, Var) else _all(children(node))
    return found


# -- what kind a value has ---------------------------------------------------------------------------


class Cell:
    """What is known of one expression: the kinds (or roots) it may have, None while it may be anything."""

    def __init__(self, kinds: Iterable[str] | None = None) -> None:
        self._same: Cell | None = None
        self.kinds = None if kinds is None else frozenset(kinds)

    def top(self) -> Cell:
        cell = self
        while cell._same is not None:
            cell = cell._same
        return cell

    def limit(self, kinds: Iterable[str]) -> None:
        top = self.top()
        top.kinds = frozenset(kinds) if top.kinds is None else top.kinds & frozenset(kinds)
        assert top.kinds, "no kind is left"

    def unify(self, other: Cell) -> None:
        mine, its = self.top(), other.top()
        if mine is not its:
            its._same = mine
            if its.kinds is not None:
                mine.limit(its.kinds)

    @property
    def kind(self) -> str:
        """The one kind; a plain number without context is the first of these that is possible."""
        kinds = self.top().kinds or {"number"}
        return next(kind for kind in (*PRIMITIVES, *kinds) if kind in kinds)


@dataclass
class Typing:
    """Types rules of one flat program."""

    types: Types
    relations: Mapping[str, tuple[str, ...]]  # the roots of the attributes

    def rule(self, rule: Rule, scope: Scope) -> Rule:
        return _Rule(self, scope).typed(scoped(rule))


class _Rule:
    def __init__(self, typing: Typing, scope: Scope) -> None:
        self._types, self._relations, self._scope = typing.types, typing.relations, scope
        self._variables: dict[str, Cell] = {}
        self._cells: dict[int, Cell] = {}
        self._packs: list[tuple[Cell, Pack, list[Cell]]] = []
        self._fresh = count()

    def typed(self, rule: Rule) -> Rule:
        self._literals([rule.head, *rule.body])
        self._solve()
        head = Atom(self._name(rule.head), tuple(self._finish(arg) for arg in rule.head.args))
        return replace(rule, head=head, body=tuple(self._finished(rule.body)))

    def _name(self, atom: Atom) -> str:
        return self._scope.find(atom.relation, self._relations)

    def _literals(self, literals: Iterable[Any]) -> None:
        for literal in literals:
            if isinstance(literal, Not):
                literal = literal.term
            if isinstance(literal, Atom):
                for arg, kind in zip(literal.args, self._relations[self._name(literal)], strict=True):
                    self._visit(arg).limit({kind})
            elif isinstance(literal, Compare):
                left, right = self._visit(literal.left), self._visit(literal.right)
                left.unify(right)
                if literal.op.endswith(("match", "contains")):
                    left.limit({"symbol"})
                elif literal.op not in ("=", "!="):
                    left.limit(ORDERED)

    def _visit(self, node: Any) -> Cell:
        cell = self._cells[id(node)] = self._cell(node)
        return cell

    def _cell(self, node: Any) -> Cell:
        if isinstance(node, Var):
            return self._variables.setdefault(node.name, Cell())
        if isinstance(node, Const):
            return Cell(NUMERIC if node.kind == "int" else None if node.kind == "nil" else {node.kind})
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Pack):
            cell = Cell(None if node.tag == "[]" else {self._types.branches[node.tag]})
            self._packs.append((cell, node, [self._visit(arg) for arg in node.args]))
            return cell
        if isinstance(node, Cast):
            inner, root = self._visit(node.arg), self._types.root(node.type, self._scope)
            if isinstance(node.arg, Const) and node.arg.kind == "int" and root in NUMERIC:
                inner.limit({root})
            return Cell({root})
        if isinstance(node, Agg):
            self._literals(node.body)
            target = Cell({"number"}) if node.target is None else self._visit(node.target)
            target.limit(NUMERIC)
            return Cell({"float"}) if node.op == "mean" else target
        return Cell()

    def _call(self, node: Call) -> Cell:
        cells = [self._visit(arg) for arg in node.args]
        if node.op in MATHEMATICAL:
            cells[0].limit({"float"})
            return Cell({"float"})
        if node.op in UNIFORM:
            result = Cell(UNIFORM[node.op])
            for cell in cells:
                result.unify(cell)
            return result
        kinds, kind = FIXED[node.op]
        for place, cell in enumerate(cells):
            cell.limit(kinds[min(place, len(kinds) - 1)])
        return Cell({kind})

    def _solve(self) -> None:
        """Give the fields of records their kinds, from the outside in."""
        waiting = self._packs
        while waiting:
            later = []
            for cell, pack, parts in waiting:
                kinds = cell.top().kinds
                if kinds is None:
                    later.append((cell, pack, parts))
                    continue
                (root,) = kinds
                for part, kind in zip(parts, self._types.fields[root, pack.tag], strict=True):
                    part.limit({kind})
            assert len(later) < len(waiting), "a record without a type"
            waiting = later

    # -- the typed rule --------------------------------------------------------------------------

    def _finished(self, body: Iterable[Any]) -> list[Any]:
        found: list[Any] = []
        for literal in body:
            if isinstance(literal, Atom):
                equations: list[Any] = []
                args = tuple(self._pattern(self._finish(arg), equations) for arg in literal.args)
                found += [Atom(self._name(literal), args), *equations]
            elif isinstance(literal, Not):
                args = tuple(self._finish(arg) for arg in literal.term.args)
                found.append(Not(Atom(self._name(literal.term), args)))
            elif isinstance(literal, Compare):
                aliases = (
                    literal.op == "=" and isinstance(literal.left, Var) and isinstance(literal.right, Var)
                )
                kind = "alias" if aliases else self._cells[id(literal.left)].kind
                found.append(
                    Compare(literal.op, self._finish(literal.left), self._finish(literal.right), kind)
                )
            else:
                assert isinstance(literal, Bool)
                found.append(literal)
        return found

    def _pattern(self, arg: Any, equations: list[Any]) -> Any:
        """What is computed in a positive atom becomes a variable, and an equation beside the atom."""
        if isinstance(arg, Var | Const | Wild):
            return arg
        if isinstance(arg, Pack):
            return replace(arg, args=tuple(self._pattern(part, equations) for part in arg.args))
        variable = Var(f"@{next(self._fresh)}")
        equations.append(Compare("=", variable, arg, "alias"))
        return variable

    def _finish(self, node: Any) -> Any:
        kind = self._cells[id(node)].kind
        if isinstance(node, Const):
            value = held(node.value, kind)
            return Const(wrap(value, kind) if kind in INTEGERS else value, kind)
        if isinstance(node, Call):
            operand = self._cells[id(node.args[0])].kind
            args = tuple(self._finish(arg) for arg in node.args)
            return Call("cat" if node.op == "+" and kind == "symbol" else node.op, args, operand, kind)
        if isinstance(node, Pack):
            return replace(node, args=tuple(self._finish(arg) for arg in node.args))
        if isinstance(node, Cast):
            return Call("as", (self._finish(node.arg),), self._cells[id(node.arg)].kind, kind)
        if isinstance(node, Agg):
            target = None if node.target is None else self._finish(node.target)
            return replace(node, target=target, body=tuple(self._finished(node.body)), kind=kind)
        return node
