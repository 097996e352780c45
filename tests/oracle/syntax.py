"""What the oracle's parser makes of a program's text, before and after typing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

# -- expressions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Var:
    name: str


@dataclass(frozen=True)
class Wild:
    pass


@dataclass(frozen=True)
class Const:
    """`kind` is ``int`` (a plain 1, until typed), ``nil``, or one of the primitive types."""

    value: Any
    kind: str


@dataclass(frozen=True)
class Call:
    """An intrinsic; typing adds the kind of its operands, and of its result where that differs."""

    op: str
    args: tuple[Any, ...]
    kind: str = ""
    result: str = ""


@dataclass(frozen=True)
class Pack:
    """``[a, b]`` with the tag ``[]``, or ``$Branch(a, b)`` with the tag ``$Branch``."""

    tag: str
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Merge:
    """``min d`` as an argument of a head."""

    op: str
    arg: Any


@dataclass(frozen=True)
class Cast:
    """``as(arg, type)``; typing makes a `Call` of it."""

    arg: Any
    type: str


@dataclass(frozen=True)
class Agg:
    """``op target : { body }``; scoping says which variables of the body are the rule's, typing the kind."""

    op: str
    target: Any
    body: tuple[Any, ...]
    outer: frozenset[str] = frozenset()
    kind: str = ""


# -- literals, and what they are grouped by ----------------------------------------------------------


@dataclass(frozen=True)
class Atom:
    relation: str
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Not:
    """``!atom``; in a text ``!`` of anything."""

    term: Any


@dataclass(frozen=True)
class Compare:
    """`op` is ``= != < <= > >= match contains !match !contains``; typing adds the kind of both sides.

    The kind ``alias`` says that both sides are one value, bit by bit: an equation of two variables.
    """

    op: str
    left: Any
    right: Any
    kind: str = ""


@dataclass(frozen=True)
class Bool:
    value: bool


@dataclass(frozen=True)
class And:
    terms: tuple[Any, ...]


@dataclass(frozen=True)
class Or:
    terms: tuple[Any, ...]


# -- items of a program ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    """``head <= dominating :- body.`` if there is a dominating atom."""

    heads: tuple[Atom, ...]
    body: Any = None
    dominating: Atom | None = None


@dataclass(frozen=True)
class Rule:
    """One head, a conjunction; a fact has an empty body.

    `merge` is the place of an aggregate in the head, and which. The body of one that `subsumes`
    begins with the two facts that it compares.
    """

    head: Atom
    body: tuple[Any, ...] = ()
    merge: tuple[int, str] | None = None
    subsumes: bool = False


@dataclass(frozen=True)
class Lattice:
    """``.lattice T<> { Lub -> join(_, _), Glb -> meet(_, _), Bottom -> bottom }``."""

    type: str
    join: str
    meet: str | None
    bottom: Const | None


@dataclass(frozen=True)
class Decl:
    """`joined` are the places of ``x: T<>``."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    qualifiers: frozenset[str]
    choices: tuple[tuple[int, ...], ...] = ()
    joined: tuple[int, ...] = ()


@dataclass(frozen=True)
class TypeDecl:
    """`form` is ``same`` (of one of the named types), ``record`` or ``adt`` (branches with field types)."""

    name: str
    form: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Directive:
    kind: str
    names: tuple[str, ...]
    params: dict[str, str]


@dataclass(frozen=True)
class Use:
    """A component's name with its type arguments (or formal parameters)."""

    name: str
    params: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comp:
    type: Use
    bases: tuple[Use, ...]
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Init:
    name: str
    type: Use


@dataclass(frozen=True)
class Override:
    name: str


def children(node: Any) -> tuple[Any, ...]:
    """The parts of an expression or a literal, an aggregate's left out."""
    if isinstance(node, Call | Pack | Atom):
        return node.args
    if isinstance(node, Compare):
        return (node.left, node.right)
    if isinstance(node, Cast):
        return (node.arg,)
    return (node.term,) if isinstance(node, Not) else ()


def variables(node: Any) -> set[str]:
    """The names of the rule's own variables in a scoped node: of an aggregate, those from outside."""
    if isinstance(node, Var):
        return {node.name}
    if isinstance(node, Agg):
        return set(node.outer)
    return set().union(*(variables(child) for child in children(node)))


def has(node: Any, test: Any) -> bool:
    """Does `test` hold of this node, or of one below it, aggregates included?"""
    below = children(node)
    if isinstance(node, Agg):
        below = (*node.body, *([] if node.target is None else [node.target]))
    return bool(test(node)) or any(has(child, test) for child in below)


def mapped(node: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a node with every variable and wildcard changed, first to last."""
    if isinstance(node, Var | Wild):
        return change(node)
    if isinstance(node, Call | Pack | Atom):
        return replace(node, args=tuple(mapped(arg, change) for arg in node.args))
    if isinstance(node, Compare):
        return replace(node, left=mapped(node.left, change), right=mapped(node.right, change))
    if isinstance(node, Not):
        return Not(mapped(node.term, change))
    if isinstance(node, Agg):
        target = None if node.target is None else mapped(node.target, change)
        body = tuple(mapped(literal, change) for literal in node.body)
        return replace(node, target=target, body=body, outer=frozenset())
    return node


def renamed(rule: Rule) -> Rule:
    """A typed rule with its variables numbered: equal for rules that differ in their names only.

    A variable that occurs once, in a positive atom of the body, is the wildcard that it means.
    """
    occurrences: list[str] = []

    def count(node: Any) -> Any:
        if isinstance(node, Var):
            occurrences.append(node.name)
        return node

    for part in (rule.head, *rule.body):
        mapped(part, count)
    names: dict[str, Var] = {}

    def number(node: Any) -> Any:
        return names.setdefault(node.name, Var(f"v{len(names)}")) if isinstance(node, Var) else node

    def blank(node: Any) -> Any:
        return Wild() if isinstance(node, Var) and occurrences.count(node.name) == 1 else number(node)

    head = mapped(rule.head, number)
    body = tuple(mapped(part, blank if isinstance(part, Atom) else number) for part in rule.body)
    return replace(rule, head=head, body=body)
