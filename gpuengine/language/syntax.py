"""The surface syntax tree, as written: one dataclass for each construct.

`start` and `end` are positions in the `SourceMap`.  Nodes are shared (several heads share a body) and
never changed once built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(eq_default=False)
def node(cls: type[T]) -> type[T]:
    """A dataclass with as little generated as possible: importing so many of them must be quick."""
    cls.__doc__ = cls.__doc__ or cls.__name__  # else its signature is rendered for the docstring
    return dataclass(slots=True, eq=False, repr=False, match_args=False)(cls)


# Names and declarations


@node
class Name:
    """A possibly qualified name ``a.b.R``."""

    text: str
    start: int
    end: int


@node
class Attribute:
    """``x: T``, or ``x: T<>`` of which the values of a key are joined."""

    name: Name
    type: Name
    is_joined: bool = False


@node
class RelationDecl:
    names: list[Name]
    attributes: list[Attribute]
    tags: list[Name]
    start: int
    end: int
    choices: list[list[Name]]  # the keys of its choice-domain


@node
class LatticeDecl:
    """``.lattice T<> { Lub -> @lub(_, _), Bottom -> 0 }``."""

    type: Name
    operators: list[tuple[Name, Arg]]
    start: int
    end: int


@node
class FunctorDecl:
    """``.functor f(x: number, symbol): symbol``; a parameter without a name has an empty one."""

    name: Name
    parameters: list[Attribute]
    result: Name
    stateful: bool
    start: int
    end: int


@node
class SubtypeDecl:
    name: Name
    parent: Name


@node
class UnionDecl:
    """A union, or an alias if it has one member."""

    name: Name
    members: list[Name]


@node
class RecordDecl:
    name: Name
    fields: list[Attribute]


@node
class BranchDecl:
    name: Name
    fields: list[Attribute]


@node
class AdtDecl:
    name: Name
    branches: list[BranchDecl]


TypeDecl = SubtypeDecl | UnionDecl | RecordDecl | AdtDecl


@node
class Parameter:
    """``key=value``; `key` has the place of the whole."""

    key: Name
    value: str


@node
class DirectiveDecl:
    kind: str
    relations: list[Name]
    params: list[Parameter]
    start: int
    end: int


@node
class Pragma:
    key: str
    value: str
    start: int
    end: int


@node
class ComponentType:
    name: Name
    params: list[Name]


@node
class Component:
    type: ComponentType
    bases: list[ComponentType]
    items: list[Item]


@node
class Instance:
    name: Name
    type: ComponentType


@node
class Override:
    name: Name


# Arguments


@node
class Var:
    name: str
    start: int
    end: int


@node
class Wild:
    start: int
    end: int


@node
class Int:
    """An integer literal; `suffix` is ``"u"``, ``"x"`` for hex or binary (never a float), or empty."""

    value: int
    suffix: str
    start: int
    end: int


@node
class Float:
    value: float
    start: int
    end: int


@node
class Str:
    value: str
    start: int
    end: int


@node
class Nil:
    start: int
    end: int


@node
class Call:
    """A functor; `op` as in `program.Functor`."""

    op: str
    args: list[Arg]
    start: int
    end: int


@node
class Record:
    args: list[Arg]
    start: int
    end: int


@node
class BranchValue:
    branch: Name
    args: list[Arg]
    start: int
    end: int


@node
class Cast:
    arg: Arg
    type: Name
    start: int
    end: int


@node
class Agg:
    """``op target : body``; ``@@op initial : target, body`` is one of the user's."""

    op: str
    target: Arg | None
    body: Term
    start: int
    end: int
    initial: Arg | None = None


@node
class Merge:
    """``min d`` in a head: of all facts that agree on the other arguments, the one with the least d stays."""

    op: str
    arg: Arg
    start: int
    end: int


Arg = Var | Wild | Int | Float | Str | Nil | Call | Record | BranchValue | Cast | Agg | Merge


# Bodies


@node
class Atom:
    name: Name
    args: list[Arg]
    start: int
    end: int


@node
class Compare:
    op: str
    left: Arg
    right: Arg
    start: int
    end: int


@node
class Bool:
    value: bool
    start: int
    end: int


@node
class Not:
    term: Term
    start: int
    end: int


@node
class Conj:
    terms: list[Term]


@node
class Disj:
    terms: list[Term]


Term = Atom | Compare | Bool | Not | Conj | Disj


@node
class Clause:
    """``heads :- body.``; a fact has no body. ``head <= dominating :- body.`` is a subsumption."""

    heads: list[Atom]
    body: Term | None
    start: int
    end: int
    dominating: Atom | None = None


Item = (
    RelationDecl
    | TypeDecl
    | LatticeDecl
    | FunctorDecl
    | DirectiveDecl
    | Pragma
    | Component
    | Instance
    | Override
    | Clause
)
