"""`Profile`: what an evaluation cost, by phase, stratum, round, rule and relation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gpuengine.errors import GpuEngineError
from gpuengine.evaluation.materialisation import Materialisation, Storage
from gpuengine.evaluation.progress import Progress, RuleStatistics, UsedPlan
from gpuengine.evaluation.timeline import RoundSpan
from gpuengine.language.program import Atom, Literal, Negation, Rule
from gpuengine.planning.plan import Step, Variant, describe
from gpuengine.profiling.measuring import is_bound, is_on_host, measured_bindings


@dataclass(frozen=True, slots=True)
class StepProfile:
    """A literal in its place: how it was read, by which columns, and the bindings expected after it.

    `domain` is which facts of its relation it read: all, new (the delta) or old; `facts` is how many that has
    in the end, None if there is none. `measured` are the bindings that there were, if they were counted.
    """

    literal: str
    access: str
    domain: str
    columns: tuple[str, ...]
    expected: float
    facts: int | None
    measured: int | None = None


@dataclass(frozen=True, slots=True)
class PlanProfile:
    """How a rule was evaluated once (`delta` None), or for the new facts of a relation.

    It is what was chosen last; `times` is how often it was chosen. The size of a relation was `assumed` if it
    had only begun to grow. There are no `steps` if it was evaluated otherwise, as `how` says. What steps
    measured is `at_most` so much if several of its relations grow with each other.
    """

    delta: str | None
    how: str
    times: int
    assumed: bool
    steps: tuple[StepProfile, ...]
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """A node of a rule's hypertree; `facts` is None if it was freed."""

    atom: str
    expected: float
    facts: int | None


@dataclass(frozen=True, slots=True)
class RuleProfile:
    """What a rule cost. `names` are those of `gpuengine plan`, `places` where it stands in the source.

    `candidates` are bindings that reached the head, `derived` of these were new facts, `duplicates` were not,
    and of `uncounted` ones nobody knows; `lost` are facts that an update found to lose a derivation by it, of
    which others may stay. `expected` are the candidates that its plan expected, None if sizes
    were assumed, or there was no plan. `backends` are seconds by where they
    were spent. `note` says why a rule was not evaluated.
    """

    names: tuple[str, ...]
    text: str
    places: tuple[str, ...]
    strata: tuple[int, ...]
    seconds: float
    candidates: int
    derived: int
    duplicates: int
    uncounted: int
    lost: int
    evaluations: int
    expected: float | None
    backends: Mapping[str, float]
    evaluator: str
    plans: tuple[PlanProfile, ...]
    nodes: tuple[NodeProfile, ...]
    note: str


@dataclass(frozen=True, slots=True)
class StratumProfile:
    """When and where a stratum ran, in seconds since the evaluation began; numbers count from 1.

    `rounds` are by backend, `moves` those between backends; `spans` has rounds that ran together as one.
    """

    number: int
    relations: tuple[str, ...]
    began: float
    seconds: float
    rounds: Mapping[str, int]
    moves: int
    spans: tuple[RoundSpan, ...]


@dataclass(frozen=True, slots=True)
class ThreadProfile:
    """How many seconds a thread worked on rules, in all and in each stretch of so many seconds.

    The first is the one that evaluates. Nothing is known of threads within schemes.
    """

    seconds: float
    stretch: float
    busy: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RelationProfile:
    """How a relation is stored; `own` are those that the evaluation made for itself."""

    name: str
    scheme: str
    why: str
    facts: int
    nbytes: int
    counter_nbytes: int
    own: bool = False


@dataclass(frozen=True)
class Profile:
    """What an evaluation or an update cost; rules come slowest first, strata as they ran.

    `work` is which, and of an update whether what there was could be maintained, or why not. `seconds` has
    the phases that are known, ``evaluate`` or ``update`` among them; `outside_rules` are those of it that
    belong to no rule: making schemes and indexes, planning, settling. `compiled_kernels` are seconds by
    kernel that was not in the cache. `process` is what is known of the process beyond that.
    """

    program: str
    work: str
    seconds: Mapping[str, float]
    outside_rules: float
    rounds: int
    facts: int
    threads: int
    backend: str
    terms_nbytes: int
    compiled_kernels: Mapping[str, float]
    strata: tuple[StratumProfile, ...]
    rules: tuple[RuleProfile, ...]
    relations: tuple[RelationProfile, ...]
    threads_busy: tuple[ThreadProfile, ...] = ()
    process: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, which JSON can carry."""
        return asdict(self)

    def to_text(self) -> str:
        """Tables and the plans of the slowest rules, for a terminal."""
        from gpuengine.profiling.text import told

        return told(self)

    def to_html(self) -> str:
        """A document that needs nothing else."""
        from gpuengine.profiling.page import page

        return page(self)

    def __str__(self) -> str:
        return self.to_text()


def profile_of(
    state: Materialisation,
    worked: tuple[Progress, float] | None,
    storage: Mapping[str, Storage],
    *,
    threads: int,
    backend: str,
    compiled_kernels: Mapping[str, float],
    steps: bool = False,
    program: str = "",
    seconds: Mapping[str, float] | None = None,
    process: Mapping[str, Any] | None = None,
) -> Profile:
    """The profile of what `worked` tells was done here, and took so long; raises if that is nothing.

    With `steps`, the bindings of each step of an evaluation are counted now.
    """
    if worked is None:
        raise GpuEngineError(
            "there is nothing to profile: nothing was evaluated here yet\n  hint: call materialise() first"
        )
    progress, spent = worked
    phase = "update" if progress.work.startswith("update") else "evaluate"
    rules = _rules(state, progress, storage, steps=steps and phase == "evaluate")
    evaluated = spent if seconds is None else seconds[phase]
    return Profile(
        program,
        progress.work,
        {phase: evaluated} if seconds is None else dict(seconds),
        max(evaluated - sum(rule.seconds for rule in rules), 0.0),
        progress.rounds,
        progress.facts if phase == "evaluate" else sum(one.facts for one in storage.values()),
        threads,
        backend,
        state.dictionary.nbytes,
        dict(compiled_kernels),
        tuple(_strata(progress)),
        tuple(sorted(rules, key=lambda rule: -rule.seconds)),
        tuple(_relations(state, storage)),
        tuple(_threads(progress)),
        dict(process or {}),
    )


def _threads(progress: Progress) -> Iterable[ThreadProfile]:
    times = progress.timeline.threads
    for seconds, busy in zip(times.seconds(), times.busy, strict=True):
        yield ThreadProfile(seconds, times.width, tuple(busy))


def _strata(progress: Progress) -> Iterable[StratumProfile]:
    for placed, span in zip(progress.placed, progress.timeline.strata, strict=True):
        yield StratumProfile(
            placed.number + 1,
            placed.relations,
            span.began,
            span.seconds,
            dict(placed.rounds),
            placed.moves,
            tuple(span.rounds),
        )


def _relations(state: Materialisation, storage: Mapping[str, Storage]) -> Iterable[RelationProfile]:
    profiles = [
        RelationProfile(name, one.scheme, one.why, one.facts, one.nbytes, one.counter_nbytes)
        for name, one in storage.items()
    ]
    tables = state.database.tables if state.database is not None else {}
    for name, scheme in tables.items():
        if name not in storage:
            why = "made by the evaluation, for its own use"
            profiles.append(RelationProfile(name, scheme.kind, why, len(scheme), scheme.nbytes, 0, own=True))
    return sorted(profiles, key=lambda one: -(one.nbytes + one.counter_nbytes))


# -- rules ---------------------------------------------------------------------------------------------


class _Gathered:
    """What there is of the rules of one text: clauses with several heads, or ``;``, are several rules."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: list[str] = []
        self.places: list[str] = []
        self.heads: list[str] = []
        self.strata: set[int] = set()
        self.evaluators: list[str] = []
        self.plans: list[PlanProfile] = []
        self.nodes: list[NodeProfile] = []
        self.is_planned = self.is_dropped = self.subsumes = False


def _rules(
    state: Materialisation, progress: Progress, storage: Mapping[str, Storage], *, steps: bool
) -> list[RuleProfile]:
    from gpuengine.planning.evaluators import rule_names

    plan, source = state.plan, state.prepared.source
    by_text: dict[str, _Gathered] = {}

    def of(rule: Rule) -> _Gathered:
        return by_text.setdefault(rule.text, _Gathered(rule.text))

    for rule in (*source.rules, *source.subsumptions):
        if rule.body:
            gathered = of(rule)
            gathered.subsumes |= rule.subsumes
            gathered.heads.append(rule.head.relation)
            if str(rule.span) not in gathered.places:
                gathered.places.append(str(rule.span))
    for rule, name in rule_names(plan.program.rules).items():
        of(rule).names.append(name)
    for stratum in plan.strata:
        for variant in (*stratum.once, *stratum.recursive):
            of(variant.rule).is_planned = True
            of(variant.rule).strata.add(stratum.number + 1)
    for rule in plan.dropped:
        if rule.body:
            of(rule).is_dropped = True
    for variant, used in progress.plans.items():
        of(variant.rule).plans.append(_plan(variant, used, state, measured=steps))
    if state.database is not None:
        for rule, choice in state.database.evaluators.choices.items():
            if choice.why or choice.node_rules is not None:
                of(rule).evaluators.append(f"{choice.evaluator.value}: {choice.why}")
            if choice.node_rules is not None and not of(rule).nodes:
                for part in choice.node_rules.parts:
                    kept = state.database.tables.get(part.atom.relation)
                    facts = len(kept) if kept is not None else None
                    of(rule).nodes.append(NodeProfile(describe(part.atom), part.node.rows, facts))
    for text in progress.rules:
        by_text.setdefault(text, _Gathered(text))
    untouched = "" if progress.work == "evaluation" else "nothing that it reads has changed"
    profiles = []
    for text, gathered in by_text.items():
        statistics = progress.rules.get(text)
        note = (untouched or _note(gathered, storage)) if statistics is None else ""
        profiles.append(_rule(gathered, statistics, note))
    return profiles


def _rule(gathered: _Gathered, statistics: RuleStatistics | None, note: str) -> RuleProfile:
    statistics = statistics or RuleStatistics(gathered.text)
    expected = [plan.steps[-1].expected for plan in gathered.plans if plan.steps]
    is_expected = bool(expected) and all(plan.steps and not plan.assumed for plan in gathered.plans)
    return RuleProfile(
        tuple(gathered.names),
        gathered.text,
        tuple(gathered.places),
        tuple(sorted(gathered.strata)),
        statistics.seconds,
        statistics.candidates,
        statistics.derived,
        max(statistics.candidates - statistics.uncounted - statistics.derived - statistics.lost, 0),
        statistics.uncounted,
        statistics.lost,
        statistics.evaluations,
        sum(expected) if is_expected else None,
        dict(statistics.places),
        "; ".join(dict.fromkeys(gathered.evaluators)),
        tuple(gathered.plans),
        tuple(gathered.nodes),
        note,
    )


def _note(gathered: _Gathered, storage: Mapping[str, Storage]) -> str:
    """Why a rule has no statistics."""
    stored = [storage[name] for name in gathered.heads if name in storage]
    if gathered.subsumes:
        return "applied where its relation selects what it keeps, which is not timed by rule"
    if gathered.is_dropped:
        return f"not evaluated: no output depends on {', '.join(dict.fromkeys(gathered.heads))}"
    if any(one.scheme == "alias" for one in stored):
        return f"not evaluated: {stored[0].why}"
    if any(one.scheme != "table" for one in stored):
        return f"not evaluated: the {stored[0].scheme} implies it"
    if not gathered.is_planned:
        return "not evaluated as it stands: the planner has rewritten it"
    return "not evaluated: there was nothing to start from, or another way to derive the same"


def _plan(variant: Variant, used: UsedPlan, state: Materialisation, *, measured: bool) -> PlanProfile:
    delta = None if variant.delta is None else _relation(variant.rule.body[variant.delta])
    if used.plan is None:
        return PlanProfile(delta, used.how, used.times, used.assumed, ())
    database = state.database
    counts: Sequence[int | None] = [None] * len(used.plan.steps)
    if measured and database is not None and is_on_host(used.plan, database):
        counts = measured_bindings(variant, used.plan, database)
    steps = tuple(
        _step(step, variant, state, count) for step, count in zip(used.plan.steps, counts, strict=True)
    )
    at_most = is_bound(variant, state.plan)
    return PlanProfile(delta, used.plan.reason, used.times, used.assumed, steps, at_most)


def _step(step: Step, variant: Variant, state: Materialisation, measured: int | None) -> StepProfile:
    relation = _relation(step.literal)
    declared = state.prepared.program.relations.get(relation) if relation is not None else None
    stored = state.database.tables.get(relation) if state.database is not None and relation else None
    columns = tuple(
        declared.attributes[column].name if declared is not None else f"{column + 1}"
        for column in step.bound_columns
    )
    domain = ""
    if relation is not None:
        domain = "new" if step.position == variant.delta else "old" if step.position in variant.old else "all"
    access = step.access.value if step.access is not None else "compute"
    facts = len(stored) if stored is not None else None
    return StepProfile(describe(step.literal), access, domain, columns, float(step.estimate), facts, measured)


def _relation(literal: Literal) -> str | None:
    atom = literal.atom if isinstance(literal, Negation) else literal
    return atom.relation if isinstance(atom, Atom) else None
