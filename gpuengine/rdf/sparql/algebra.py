"""Queries and updates as they are evaluated.

A `Group` is a list of steps, each joined with what the steps before it gave, then its filters: long groups
are long lists, not deep trees. Sequences, alternatives and inverses of property paths are triples and unions
by now; a `PathPattern` has what must be searched for. `EXISTS` and aggregates inside of expressions stand as
variables whose names begin with a point, as blank nodes do: such variables are never part of an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuengine.rdf.rules import Argument, Expression, Triple, Variable

HIDDEN = "."
"""The first character of variables that the text does not have."""


# Property paths


@dataclass(frozen=True)
class Link:
    predicate: str


@dataclass(frozen=True)
class Inverse:
    path: Path


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Path, ...]


@dataclass(frozen=True)
class Alternatives:
    parts: tuple[Path, ...]


@dataclass(frozen=True)
class Repeated:
    """``path*``, ``path+``, ``path?``: `least` times or more, at most once if `once`."""

    path: Path
    least: int
    once: bool


@dataclass(frozen=True)
class Negated:
    """``!(p | ^q)``: any predicate but these; None if that direction is not asked for."""

    forward: tuple[str, ...] | None
    backward: tuple[str, ...] | None


Path = Link | Inverse | Sequence | Alternatives | Repeated | Negated


# Patterns


@dataclass(frozen=True)
class Exists:
    """A pattern inside of an expression; `name` is the variable that stands for whether it has a solution."""

    name: str
    pattern: Group


@dataclass(frozen=True)
class Formula:
    expression: Expression
    exists: tuple[Exists, ...] = ()


@dataclass(frozen=True)
class Basic:
    """A basic graph pattern."""

    triples: tuple[Triple, ...]


@dataclass(frozen=True)
class PathPattern:
    subject: Argument
    path: Repeated | Negated
    object: Argument


@dataclass(frozen=True)
class Optional:
    group: Group


@dataclass(frozen=True)
class Minus:
    group: Group


@dataclass(frozen=True)
class Union:
    branches: tuple[Group, ...]


@dataclass(frozen=True)
class Bind:
    variable: str
    formula: Formula


@dataclass(frozen=True)
class Values:
    variables: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class InGraph:
    """``GRAPH name { … }``."""

    name: Argument
    group: Group


@dataclass(frozen=True)
class Group:
    steps: tuple[Step, ...]
    filters: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class Aggregation:
    """An aggregate; `name` is the variable that stands for it. Without argument it is ``COUNT(*)``."""

    name: str
    function: str
    argument: Formula | None
    distinct: bool
    separator: str = " "


@dataclass(frozen=True)
class Order:
    formula: Formula
    descending: bool


@dataclass(frozen=True)
class Select:
    """A query or subquery. `groups` is None if nothing is grouped; its keys may be `keyed`."""

    pattern: Group
    variables: tuple[str, ...] | None
    """None: all (``*``)."""
    assigned: tuple[Bind, ...] = ()
    keyed: tuple[Bind, ...] = ()
    groups: tuple[str, ...] | None = None
    aggregations: tuple[Aggregation, ...] = ()
    having: tuple[Formula, ...] = ()
    order: tuple[Order, ...] = ()
    distinct: bool = False
    limit: int | None = None
    offset: int = 0
    values: Values | None = None


Step = Basic | PathPattern | Optional | Minus | Union | Bind | Values | InGraph | Group | Select


# Queries and updates


@dataclass(frozen=True)
class Dataset:
    """``FROM`` and ``FROM NAMED``, ``USING`` or ``WITH``: texts of IRIs; None: what the store has."""

    default: tuple[str, ...] | None = None
    named: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Query:
    form: str
    """``SELECT``, ``ASK``, ``CONSTRUCT`` or ``DESCRIBE``."""
    select: Select
    template: tuple[Triple, ...] = ()
    described: tuple[Argument, ...] = ()
    dataset: Dataset = Dataset()
    base: str | None = None
    prefixes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Modify:
    """``INSERT DATA``, ``DELETE DATA``, ``DELETE … INSERT … WHERE``; triples name their graph."""

    delete: tuple[Triple, ...]
    insert: tuple[Triple, ...]
    pattern: Group | None = None
    dataset: Dataset = Dataset()
    base: str | None = None


@dataclass(frozen=True)
class Clear:
    """``CLEAR`` and ``DROP``: all triples of ``DEFAULT``, ``NAMED``, ``ALL`` or an IRI."""

    graph: str


@dataclass(frozen=True)
class Transfer:
    """``ADD``, ``COPY`` and ``MOVE`` from one graph to another; None is the default graph."""

    source: str | None
    target: str | None
    replaces: bool
    moves: bool


Operation = Modify | Clear | Transfer


@dataclass(frozen=True)
class Update:
    operations: tuple[Operation, ...]


def bound_variables(step: Step) -> list[str]:
    """Names of the variables that a step can bind, in order of appearance; hidden ones too."""
    names: dict[str, None] = {}

    def note(*arguments: Argument | None) -> None:
        names.update((a.name, None) for a in arguments if isinstance(a, Variable))

    def visit(step: Step) -> None:
        if isinstance(step, Basic):
            for triple in step.triples:
                note(triple.subject, triple.predicate, triple.object)
        elif isinstance(step, PathPattern):
            note(step.subject, step.object)
        elif isinstance(step, Optional):
            visit(step.group)
        elif isinstance(step, Union):
            for branch in step.branches:
                visit(branch)
        elif isinstance(step, Bind):
            names[step.variable] = None
        elif isinstance(step, Values):
            names.update(dict.fromkeys(step.variables))
        elif isinstance(step, InGraph):
            note(step.name)
            visit(step.group)
        elif isinstance(step, Group):
            for inner in step.steps:
                visit(inner)
        elif isinstance(step, Select):
            names.update(dict.fromkeys(answer_variables(step)))

    visit(step)
    return list(names)


def answer_variables(select: Select) -> tuple[str, ...]:
    """The variables of the answer, in order."""
    if select.variables is not None:
        return select.variables
    names = bound_variables(select.pattern)
    if select.values is not None:
        names += [name for name in select.values.variables if name not in names]
    return tuple(name for name in names if not name.startswith(HIDDEN))
