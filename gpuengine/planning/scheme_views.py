"""How the relations of a plan will be stored, as far as can be said before it is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuengine.language.program import Rule
from gpuengine.planning.plan import Plan, body_relations
from gpuengine.planning.scheme_costs import LEAST_PAIRS, is_worth_while, lists_itself
from gpuengine.planning.schemes import TABLE, SchemePlan
from gpuengine.planning.shapes import Candidate, Shape
from gpuengine.planning.sharing import copy_permutation
from gpuengine.schemes.estimate import estimate_closure
from gpuengine.schemes.table import Table

OPEN = " or table"
"""The end of a scheme that is decided when the facts are known."""


@dataclass(frozen=True, slots=True)
class SchemeView:
    """A scheme and why; `handled` are the rules that nobody has to evaluate if it is chosen."""

    scheme: str
    why: str
    handled: frozenset[Rule] = frozenset()

    @property
    def is_decided(self) -> bool:
        return not self.scheme.endswith(OPEN)

    @property
    def is_compact(self) -> bool:
        """Is it certainly no table?"""
        return self.is_decided and self.scheme != TABLE


def view_schemes(plan: Plan, loaded: Mapping[str, Table] | None) -> dict[str, SchemeView]:
    """How each relation that is not simply a table will be stored; `loaded` facts decide what they can."""
    views = {
        name: SchemeView(
            f"alias of {alias.of}", f"it holds the same facts as {alias.of}, and is stored there"
        )
        for name, alias in plan.program.aliases.items()
    }
    for name, selection in plan.selections.items():
        attributes = tuple(attribute.name for attribute in plan.program.relations[name].attributes)
        views[name] = SchemeView(TABLE, f"it {selection.describe(attributes)}")
    read = plan.read_relations
    for name, scheme in plan.schemes.items():
        equivalence, closure = scheme.candidate(Shape.EQUIVALENCE), scheme.candidate(Shape.CLOSURE)
        if equivalence is not None:
            views[name] = _view(equivalence, _asked(scheme))
        elif closure is not None:
            views[name] = (
                _view(closure, _asked(scheme)) if scheme.is_forced else _closure(closure, plan, loaded)
            )
        elif scheme.forced == TABLE and scheme.candidates:
            views[name] = SchemeView(TABLE, "asked for")
    changed = True
    while changed:
        changed = False
        for name, scheme in plan.schemes.items():
            union = scheme.candidate(Shape.UNION)
            if union is not None and (name not in views or views[name].scheme == TABLE):
                view = _view(union, "asked for") if scheme.is_forced else _union(union, views, read)
                if view is not None:
                    views[name] = view
                    changed = True
    return views


def _asked(scheme: SchemePlan) -> str:
    return "asked for" if scheme.is_forced else ""


def _view(candidate: Candidate, why: str, suffix: str = "") -> SchemeView:
    copies = {source.rule for source in candidate.sources} if candidate.shape is Shape.CLOSURE else set()
    return SchemeView(
        candidate.shape.value + suffix,
        f"{candidate.why}; {why}" if why else candidate.why,
        frozenset(candidate.handled) - copies,
    )


def _closure(candidate: Candidate, plan: Plan, loaded: Mapping[str, Table] | None) -> SchemeView:
    is_live = any(candidate.relation in stratum.relations for stratum in plan.strata)
    edges = _known_edges(candidate, plan, loaded) if loaded is not None and is_live else None
    if edges is None:
        return _view(candidate, f"decided when its facts are known: from {LEAST_PAIRS:,} pairs on", OPEN)
    stratum = next(one for one in plan.strata if candidate.relation in one.relations)
    rules = dict.fromkeys(variant.rule for variant in stratum.recursive)
    listed = lists_itself(candidate, rules, [plan.schemes[name] for name in stratum.relations])
    worth, why = is_worth_while(estimate_closure(*edges), listed=listed)
    return _view(candidate, why) if worth else SchemeView(TABLE, f"{candidate.why}, but {why}")


def _known_edges(
    candidate: Candidate, plan: Plan, loaded: Mapping[str, Table]
) -> tuple[np.ndarray, np.ndarray] | None:
    """The edges that are loaded, if rules add none but by copying what is loaded."""
    derived = {rule.head.relation for rule in plan.program.rules if rule.body}
    edges = [loaded[candidate.relation].columns()]
    implied = set(candidate.handled) - {source.rule for source in candidate.sources}
    for rule in plan.program.rules:
        if rule.head.relation != candidate.relation or not rule.body or rule in implied:
            continue
        permutation = copy_permutation(plan.program, rule)
        (source,) = body_relations(rule.body) if permutation is not None else ("",)
        if permutation is None or source in derived:
            return None
        columns = loaded[source].columns()
        outward = [columns[permutation.index(place)] for place in range(2)]
        edges.append(outward)
    sources, targets = (np.concatenate([pair[side] for pair in edges]) for side in (0, 1))
    return sources, targets


def _union(candidate: Candidate, views: Mapping[str, SchemeView], read: frozenset[str]) -> SchemeView | None:
    parts = {s.relation: views[s.relation] for s in candidate.sources if s.relation in views}
    compact = [name for name, part in parts.items() if part.is_compact]
    undecided = [name for name, part in parts.items() if not part.is_decided]
    if compact:
        return _view(candidate, f"{compact[0]} is not a table")
    if undecided:
        return _view(candidate, f"if {undecided[0]} is not a table", OPEN)
    if len(candidate.sources) > 1 and candidate.relation not in read:
        return _view(candidate, "no rule reads it")
    return None
