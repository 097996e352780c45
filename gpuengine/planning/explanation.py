"""A plan put into words and numbers: plain data that `explain` prints, `svg` draws and JSON carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpuengine.language.program import Aggregate, Atom, Constant, Literal, Negation, Program, Rule, Variable
from gpuengine.planning.order import Statistics, order_body
from gpuengine.planning.plan import Access, BodyPlan, Plan, Step, Stratum, Variant, describe
from gpuengine.planning.scheme_views import SchemeView, view_schemes
from gpuengine.planning.sharing import Alias
from gpuengine.planning.split import find_split
from gpuengine.schemes.table import Table

ASSUMED_INPUT = 100_000.0
ASSUMED_DERIVED = 1_000_000.0
_ASSUMED_DISTINCT_POWER = 0.75


class Facts(Protocol):
    """What is known of the facts of one relation."""

    def __len__(self) -> int: ...

    def distinct(self, column: int) -> float: ...


class PlanStatistics:
    """Sizes for a plan that is not evaluated: loaded relations as they are, the others assumed.

    What rules derive is unknown before they run, so it is assumed large. `loaded` None assumes the
    inputs as well, except the facts that stand in the program.
    """

    def __init__(self, program: Program, loaded: Mapping[str, Facts] | None) -> None:
        self._derived = {rule.head.relation for rule in program.rules if rule.body}
        self._inputs = {d.relation for d in program.directives if d.kind == "input"}
        self._written: dict[str, int] = {}
        for rule in program.rules:
            if not rule.body:
                self._written[rule.head.relation] = self._written.get(rule.head.relation, 0) + 1
        self._loaded = loaded

    def known(self, relation: str) -> bool:
        """Is the size a fact, not an assumption?"""
        return relation not in self._derived and (self._loaded is not None or relation not in self._inputs)

    def count(self, relation: str) -> float:
        if relation in self._derived:
            return ASSUMED_DERIVED
        if self._loaded is not None:
            return float(len(self._loaded[relation]))
        return ASSUMED_INPUT if relation in self._inputs else float(self._written.get(relation, 0))

    def distinct(self, relation: str, column: int) -> float:
        if relation not in self._derived and self._loaded is not None:
            return self._loaded[relation].distinct(column)
        return float(self.count(relation) ** _ASSUMED_DISTINCT_POWER)


@dataclass(frozen=True, slots=True)
class StepView:
    """One literal in its place. `domain` is which facts it reads: all, new (the delta) or old.

    `columns` are the bound ones, by name; `estimate` the bindings expected after it; `rivals` the
    atoms that compete to bind the same variable (the one with fewest matches is read for each binding);
    `inner` the steps of an aggregate's body. `scheme` is how the relation is stored, "" for a table;
    `enumerates` says that all facts of a compact one are listed.
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


@dataclass(frozen=True, slots=True)
class VariantView:
    """One way a rule is evaluated: once (`delta` None), or for the new facts of a relation."""

    delta: str | None
    steps: tuple[StepView, ...]
    indexes: tuple[str, ...]
    cost: float
    reason: str


@dataclass(frozen=True, slots=True)
class SplitView:
    """Two atoms that a run may join first into a relation of their own; costs are expected bindings."""

    relation: str
    joins: str
    cost_before: float
    cost_after: float


@dataclass(frozen=True, slots=True)
class RuleView:
    """`implied_by` is the scheme that makes evaluating the rule needless, "" if none does."""

    text: str
    where: str
    head: str
    variants: tuple[VariantView, ...]
    split: SplitView | None
    implied_by: str = ""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A relation that a stratum reads; `how` is ``reads``, ``negates`` or ``aggregates``."""

    relation: str
    how: str


@dataclass(frozen=True, slots=True)
class StratumView:
    number: int
    relations: tuple[str, ...]
    recursive: bool
    rules: tuple[RuleView, ...]
    reads: tuple[Dependency, ...]
    indexes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelationView:
    """`origin` is input, program (its facts stand there), derived or empty.

    `facts` is counted if `known`, else assumed. `scheme` is how it is stored and `why` the reason.
    """

    name: str
    columns: tuple[str, ...]
    origin: str
    facts: float
    known: bool
    outputs: tuple[str, ...]
    scheme: str = "table"
    why: str = ""


@dataclass(frozen=True, slots=True)
class DroppedView:
    text: str
    where: str
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole plan; `statistics` is ``loaded`` or ``assumed``."""

    program: str
    statistics: str
    relations: tuple[RelationView, ...]
    strata: tuple[StratumView, ...]
    dropped: tuple[DroppedView, ...]


def explain_plan(
    name: str,
    plan: Plan,
    loaded: Mapping[str, Table] | None = None,
    aliases: Mapping[str, Alias] | None = None,
) -> Explanation:
    """Order every delta variant by the statistics at hand, and describe the result."""
    statistics = PlanStatistics(plan.program, loaded)
    schemes = view_schemes(plan, aliases or {}, loaded)
    strata = tuple(_stratum(stratum, plan.program, statistics, schemes) for stratum in plan.strata)
    read = {dependency.relation for stratum in strata for dependency in stratum.reads}
    live = read | {name for stratum in strata for name in stratum.relations}
    live |= {rule.head.relation for rule in plan.facts}
    live |= {d.relation for d in plan.program.directives if d.kind in ("output", "printsize")}
    live |= set(aliases or {})
    relations = tuple(
        _relation(r, plan.program, statistics, schemes) for r in plan.program.relations if r in live
    )
    dropped = tuple(
        DroppedView(_one_line(rule.text), str(rule.span), f"no output depends on {rule.head.relation}")
        for rule in plan.dropped
    )
    return Explanation(name, "assumed" if loaded is None else "loaded", relations, strata, dropped)


def _relation(
    name: str, program: Program, statistics: PlanStatistics, schemes: Mapping[str, SchemeView]
) -> RelationView:
    heads = [rule for rule in program.rules if rule.head.relation == name]
    kinds = [d.kind for d in program.directives if d.relation == name]
    stored = schemes.get(name, SchemeView("table", ""))
    if any(rule.body for rule in heads) or stored.scheme.startswith("alias"):
        origin = "derived"
    elif "input" in kinds:
        origin = "input"
    else:
        origin = "program" if heads else "empty"
    columns = tuple(attribute.name for attribute in program.relations[name].attributes)
    outputs = tuple(dict.fromkeys(kind for kind in kinds if kind != "input"))
    return RelationView(
        name,
        columns,
        origin,
        statistics.count(name),
        statistics.known(name),
        outputs,
        stored.scheme,
        stored.why,
    )


def _stratum(
    stratum: Stratum, program: Program, statistics: Statistics, schemes: Mapping[str, SchemeView]
) -> StratumView:
    variants: dict[int, list[VariantView]] = {}
    rules: dict[int, Rule] = {}
    for variant in (*stratum.once, *stratum.recursive):
        rules[id(variant.rule)] = variant.rule
        variants.setdefault(id(variant.rule), [])
        if not _is_implied(variant.rule, schemes):
            variants[id(variant.rule)].append(_variant(variant, program, statistics, schemes))
    recursive = {id(variant.rule) for variant in stratum.recursive}
    views = tuple(
        RuleView(
            _one_line(rule.text),
            str(rule.span),
            rule.head.relation,
            tuple(variants[key]),
            _split(rule, stratum, program, statistics)
            if key in recursive and not _is_implied(rule, schemes)
            else None,
            _implied(rule, schemes),
        )
        for key, rule in rules.items()
    )
    indexes = sorted({index for rule in views for variant in rule.variants for index in variant.indexes})
    reads = dict.fromkeys(dependency for rule in rules.values() for dependency in _dependencies(rule.body))
    return StratumView(
        stratum.number + 1, stratum.relations, stratum.is_recursive, views, tuple(reads), tuple(indexes)
    )


def _implied(rule: Rule, schemes: Mapping[str, SchemeView]) -> str:
    """The scheme of the head if it implies the rule, or may."""
    view = schemes.get(rule.head.relation)
    return view.scheme if view is not None and rule in view.handled else ""


def _is_implied(rule: Rule, schemes: Mapping[str, SchemeView]) -> bool:
    """Will the rule certainly not be evaluated?"""
    return bool(_implied(rule, schemes)) and schemes[rule.head.relation].is_decided


def _split(rule: Rule, stratum: Stratum, program: Program, statistics: Statistics) -> SplitView | None:
    split = find_split(rule, frozenset(stratum.relations), program.relations, statistics)
    if split is None:
        return None
    joins = ", ".join(describe(part) for part in split.inner.body)
    return SplitView(describe(split.inner.head), joins, split.cost_before, split.cost_after)


def _dependencies(body: Sequence[Literal], inside: str | None = None) -> Iterator[Dependency]:
    for literal in body:
        if isinstance(literal, Atom):
            yield Dependency(literal.relation, inside or "reads")
        elif isinstance(literal, Negation):
            yield Dependency(literal.atom.relation, inside or "negates")
        elif isinstance(literal, Aggregate):
            yield from _dependencies(literal.body, "aggregates")


def _variant(
    variant: Variant, program: Program, statistics: Statistics, schemes: Mapping[str, SchemeView]
) -> VariantView:
    body = variant.rule.body
    read = body[variant.delta] if variant.delta is not None else None
    compact = isinstance(read, Atom) and read.relation in schemes and schemes[read.relation].is_compact
    plan = order_body(body, statistics, driver=None if compact else variant.delta)
    domains = dict.fromkeys(variant.old, "old")
    if variant.delta is not None:
        domains[variant.delta] = "new"
    delta = body[variant.delta] if variant.delta is not None else None
    indexes: list[str] = []
    steps = _steps(body, plan, domains, program, statistics, indexes, schemes)
    return VariantView(
        delta.relation if isinstance(delta, Atom) else None,
        steps,
        tuple(dict.fromkeys(indexes)),
        plan.cost,
        plan.reason,
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


def _one_line(text: str) -> str:
    return " ".join(text.split())
