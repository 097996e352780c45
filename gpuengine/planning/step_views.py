"""The steps of a join plan put into words and numbers: what a rule reads, in which order, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gpuengine.language.program import (
    Aggregate,
    Atom,
    BodyOrder,
    Constant,
    Literal,
    Negation,
    Program,
    Rule,
    Variable,
)
from gpuengine.planning.order import Statistics, order_as_written, order_body
from gpuengine.planning.plan import Access, BodyPlan, Step, Variant, describe
from gpuengine.planning.scheme_views import SchemeView


@dataclass(frozen=True, slots=True)
class StepView:
    """One literal in its place. `domain` is which facts it reads: all, new (the delta) or old.

    `columns` are the bound ones, by name; `estimate` the bindings expected after it; `rivals` the
    atoms that compete to bind the same variable (the one with fewest matches is read for each binding);
    `inner` the steps of an aggregate's body. `scheme` is how the relation is stored, "" for a table;
    `enumerates` says that all facts of a compact one are listed. `measured` are the bindings that there were
    after it, if they were counted, or a bound of them.
    """

    literal: str
    relation: str | None
    access: str
    domain: str
    columns: tuple[str, ...]
    estimate: float
    rivals: tuple[str, ...]
    inner: tuple[StepView, ...]
    scheme: str = ""
    enumerates: bool = False
    measured: int | None = None


@dataclass(frozen=True, slots=True)
class VariantView:
    """One way a rule is evaluated: once (`delta` None), or for the new facts of a relation."""

    delta: str | None
    steps: tuple[StepView, ...]
    indexes: tuple[str, ...]
    cost: float
    reason: str
    at_most: bool = False
    """Are the measured bindings a bound of what there was?"""


@dataclass(frozen=True, slots=True)
class RuleMeasured:
    """What a rule cost in a run, as `RuleStatistics` has it."""

    seconds: float
    candidates: int
    derived: int
    duplicates: int
    evaluations: int


@dataclass(frozen=True, slots=True)
class RelationMeasured:
    """How a relation is stored after a run, and in how many bytes."""

    facts: int
    scheme: str
    why: str
    nbytes: int


class Measured(Protocol):
    """What a run of the plan came to."""

    def plan(self, variant: Variant) -> BodyPlan | None:
        """In what order a variant was joined last; None if it was not."""
        ...

    def bindings(self, variant: Variant, plan: BodyPlan) -> Sequence[int | None]:
        """How many bindings there were after each step."""
        ...

    def is_bound(self, variant: Variant) -> bool:
        """Are these no more than a bound?"""
        ...

    def rule(self, rule: Rule) -> RuleMeasured | None:
        """What a rule cost; None if it was not evaluated."""
        ...

    def relation(self, name: str) -> RelationMeasured | None:
        """How a relation is stored."""
        ...


def view_variant(
    variant: Variant,
    program: Program,
    statistics: Statistics,
    schemes: Mapping[str, SchemeView],
    measured: Measured | None = None,
) -> VariantView:
    """Order the body of a variant by the statistics at hand, or as a run did, and describe the result."""
    body = variant.rule.body
    read = body[variant.delta] if variant.delta is not None else None
    compact = isinstance(read, Atom) and read.relation in schemes and schemes[read.relation].is_compact
    order = order_as_written if variant.rule.order is BodyOrder.WRITTEN else order_body
    used = measured.plan(variant) if measured is not None else None
    plan = used or order(body, statistics, driver=None if compact else variant.delta)
    domains = dict.fromkeys(variant.old, "old")
    if variant.delta is not None:
        domains[variant.delta] = "new"
    delta = body[variant.delta] if variant.delta is not None else None
    indexes: list[str] = []
    steps = _steps(body, plan, domains, program, statistics, indexes, schemes)
    if measured is not None and used is not None:
        counts = measured.bindings(variant, used)
        steps = tuple(replace(step, measured=bindings) for step, bindings in zip(steps, counts, strict=True))
    return VariantView(
        delta.relation if isinstance(delta, Atom) else None,
        steps,
        tuple(dict.fromkeys(indexes)),
        plan.cost,
        plan.reason,
        measured is not None and measured.is_bound(variant),
    )


def _steps(
    body: Sequence[Literal],
    plan: BodyPlan,
    domains: Mapping[int, str],
    program: Program,
    statistics: Statistics,
    indexes: list[str],
    schemes: Mapping[str, SchemeView],
) -> tuple[StepView, ...]:
    """Describe the steps in their order; the indexes they need are added to `indexes`."""
    views = []
    for step in plan.steps:
        literal = step.literal
        atom = literal.atom if isinstance(literal, Negation) else literal
        inner: tuple[StepView, ...] = ()
        columns: tuple[str, ...] = ()
        if isinstance(literal, Aggregate):
            own = order_body(literal.body, statistics, given=frozenset(literal.outer))
            inner = _steps(literal.body, own, {}, program, statistics, indexes, schemes)
        if isinstance(atom, Atom):
            columns = _names(program, atom.relation, step.bound_columns)
            stored = schemes.get(atom.relation)
            if (
                step.access in (Access.PROBE, Access.EXISTS)
                and columns
                and (stored is None or not stored.is_compact)
            ):
                indexes.append(f"{atom.relation} by ({', '.join(columns)})")
        rivals = []
        for position in step.alternatives:
            rival = body[position]
            assert isinstance(rival, Atom)
            bound = _names(program, rival.relation, _rival_columns(rival, atom))
            indexes.append(f"{rival.relation} by ({', '.join(bound)})")
            rivals.append(describe(rival))
        views.append(
            StepView(
                describe(literal),
                atom.relation if isinstance(atom, Atom) else None,
                _access(step),
                domains.get(step.position, "all") if isinstance(atom, Atom) else "",
                columns,
                step.estimate,
                tuple(rivals),
                inner,
                *_stored(atom, step, schemes),
            )
        )
    return tuple(views)


def _stored(atom: Literal, step: Step, schemes: Mapping[str, SchemeView]) -> tuple[str, bool]:
    """How a step's relation is stored, if not in a table, and whether the step lists all of it."""
    view = schemes.get(atom.relation) if isinstance(atom, Atom) else None
    if view is None or not view.is_compact:
        return "", False
    assert isinstance(atom, Atom)
    several = sum(isinstance(arg, Variable) for arg in atom.args) > 1
    return view.scheme, several and step.access in (Access.DRIVE, Access.SCAN)


def _rival_columns(rival: Atom, atom: Literal) -> tuple[int, ...]:
    """The columns of `rival` that are bound when it competes with `atom`: all but the variable both bind."""
    assert isinstance(atom, Atom)
    counted = [arg for arg in rival.args if isinstance(arg, Variable)]
    shared = {arg for arg in counted if arg in atom.args}
    new = next((arg for arg in counted if arg in shared and counted.count(arg) == 1), None)
    return tuple(
        c
        for c, arg in enumerate(rival.args)
        if isinstance(arg, Constant) or (isinstance(arg, Variable) and arg != new)
    )


def _access(step: Step) -> str:
    if step.access is not None:
        return step.access.value
    return "aggregate" if isinstance(step.literal, Aggregate) else "compute"


def _names(program: Program, relation: str, columns: Sequence[int]) -> tuple[str, ...]:
    return tuple(program.relations[relation].attributes[column].name for column in columns)
