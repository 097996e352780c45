"""A plan put into words and numbers: plain data that `explain` prints, `svg` draws and JSON carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gpuengine.language.program import Aggregate, Atom, Literal, Negation, Program, Rule
from gpuengine.planning.evaluator_views import EvaluatorViews, HypertreeView
from gpuengine.planning.evaluators import Chooser, Evaluator, rule_names
from gpuengine.planning.order import Statistics
from gpuengine.planning.plan import Plan, Stratum, Variant, describe
from gpuengine.planning.scheme_views import SchemeView, view_schemes
from gpuengine.planning.split import find_split
from gpuengine.planning.step_views import Measured, RuleMeasured, VariantView
from gpuengine.schemes.table import Table

ASSUMED_INPUT = 100_000.0
ASSUMED_DERIVED = 1_000_000.0
_ASSUMED_DISTINCT_POWER = 0.75


class Facts(Protocol):
    """What is known of the facts of one relation."""

    def __len__(self) -> int: ...

    def distinct(self, column: int) -> float: ...

    def skew(self, column: int) -> float: ...


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

    def skew(self, relation: str, column: int) -> float:
        if relation in self._derived or self._loaded is None:
            return 1.0
        return self._loaded[relation].skew(column)


@dataclass(frozen=True, slots=True)
class SplitView:
    """Two atoms that a run may join first into a relation of their own; costs are expected bindings."""

    relation: str
    joins: str
    cost_before: float
    cost_after: float


@dataclass(frozen=True, slots=True)
class RuleView:
    """`name` is the head's relation and which of its rules it is; `evaluator` is join, hypertree or written.

    Costs are expected bindings, of the join plans and of the hypertree, or 0 if nobody had to know them. A
    rule with a `hypertree` has its `variants` there, by node. `implied_by` is the scheme that makes
    evaluating the rule needless, "" if none does; then there may be no evaluator.
    """

    name: str
    text: str
    where: str
    head: str
    evaluator: str
    why: str
    join_cost: float
    tree_cost: float
    hypertree: HypertreeView | None
    variants: tuple[VariantView, ...]
    split: SplitView | None
    implied_by: str = ""
    measured: RuleMeasured | None = None

    @property
    def all_variants(self) -> tuple[VariantView, ...]:
        """Those of its nodes, if it has any."""
        nodes = self.hypertree.nodes if self.hypertree is not None else ()
        return (*(variant for node in nodes for variant in node.variants), *self.variants)


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

    `facts` is counted if `known`, else assumed. `scheme` is how it is stored and `why` the reason; `nbytes`
    is what it takes, if it was evaluated.
    """

    name: str
    columns: tuple[str, ...]
    origin: str
    facts: float
    known: bool
    outputs: tuple[str, ...]
    scheme: str = "table"
    why: str = ""
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class DroppedView:
    text: str
    where: str
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole plan; `statistics` is ``loaded``, ``assumed``, or ``measured`` by a run."""

    program: str
    statistics: str
    relations: tuple[RelationView, ...]
    strata: tuple[StratumView, ...]
    dropped: tuple[DroppedView, ...]


def explain_plan(
    name: str,
    plan: Plan,
    loaded: Mapping[str, Table] | None = None,
    chooser: Chooser | None = None,
    measured: Measured | None = None,
) -> Explanation:
    """Choose what evaluates each rule and order it by the statistics at hand, and describe the result.

    `chooser` knows what evaluators are asked for; None is nothing. With `measured`, orders, schemes and sizes
    are those of a run, and what it came to is told.
    """
    statistics = PlanStatistics(plan.program, loaded)
    schemes = view_schemes(plan, loaded)
    evaluated = EvaluatorViews(plan, chooser, statistics, schemes, measured)
    strata = tuple(_stratum(stratum, plan.program, statistics, schemes, evaluated) for stratum in plan.strata)
    if measured is not None:
        strata = tuple(_with_measures(stratum, plan, measured) for stratum in strata)
    read = {dependency.relation for stratum in strata for dependency in stratum.reads}
    live = read | {name for stratum in strata for name in stratum.relations}
    live |= {rule.head.relation for rule in plan.facts}
    live |= {d.relation for d in plan.program.directives if d.kind in ("output", "printsize")}
    live |= set(plan.program.aliases)
    relations = tuple(
        _relation(r, plan.program, statistics, schemes) for r in plan.program.relations if r in live
    )
    if measured is not None:
        relations = tuple(_measured_relation(relation, measured) for relation in relations)
    dropped = tuple(
        DroppedView(_one_line(rule.text), str(rule.span), f"no output depends on {rule.head.relation}")
        for rule in plan.dropped
    )
    basis = "measured" if measured is not None else "assumed" if loaded is None else "loaded"
    return Explanation(name, basis, relations, strata, dropped)


def _with_measures(stratum: StratumView, plan: Plan, measured: Measured) -> StratumView:
    """With what its rules cost."""
    by_name = {name: rule for rule, name in rule_names(plan.program.rules).items()}
    rules = [replace(rule, measured=measured.rule(by_name[rule.name])) for rule in stratum.rules]
    return replace(stratum, rules=tuple(rules))


def _measured_relation(view: RelationView, measured: Measured) -> RelationView:
    figures = measured.relation(view.name)
    if figures is None:
        return view
    facts = float(figures.facts)
    return replace(
        view, facts=facts, known=True, scheme=figures.scheme, why=figures.why, nbytes=figures.nbytes
    )


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
    stratum: Stratum,
    program: Program,
    statistics: Statistics,
    schemes: Mapping[str, SchemeView],
    evaluated: EvaluatorViews,
) -> StratumView:
    variants: dict[int, list[Variant]] = {}
    for variant in (*stratum.once, *stratum.recursive):
        variants.setdefault(id(variant.rule), []).append(variant)
    rules = [given[0].rule for given in variants.values()]
    views = tuple(
        _rule(rule, given, stratum, program, statistics, schemes, evaluated)
        for rule, given in zip(rules, variants.values(), strict=True)
    )
    indexes = sorted({index for rule in views for variant in rule.all_variants for index in variant.indexes})
    reads = dict.fromkeys(dependency for rule in rules for dependency in _dependencies(rule.body))
    return StratumView(
        stratum.number + 1, stratum.relations, stratum.is_recursive, views, tuple(reads), tuple(indexes)
    )


def _rule(
    rule: Rule,
    variants: Sequence[Variant],
    stratum: Stratum,
    program: Program,
    statistics: Statistics,
    schemes: Mapping[str, SchemeView],
    evaluated: EvaluatorViews,
) -> RuleView:
    name, text, where = evaluated.name(rule), _one_line(rule.text), str(rule.span)
    implied = _implied(rule, schemes)
    if _is_implied(rule, schemes):
        return RuleView(name, text, where, rule.head.relation, "", "", 0.0, 0.0, None, (), None, implied)
    choice = evaluated.choose(rule, stratum)
    may_split = variants[0].delta is not None and choice.evaluator is Evaluator.JOIN
    return RuleView(
        name,
        text,
        where,
        rule.head.relation,
        choice.evaluator.value,
        choice.why,
        choice.join_cost,
        choice.tree_cost,
        evaluated.hypertree(rule, choice, stratum),
        evaluated.variants(rule, choice, variants),
        _split(rule, stratum, program, statistics) if may_split else None,
        implied,
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


def _one_line(text: str) -> str:
    return " ".join(text.split())
