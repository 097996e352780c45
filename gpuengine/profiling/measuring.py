"""How many bindings the steps of a plan really have: counted again, over what was derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpuengine.evaluation.materialisation import Storage
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.rules.body import compile_body
from gpuengine.evaluation.rules.database import Database
from gpuengine.language.program import Atom, Rule, Variable, literal_variables
from gpuengine.planning.plan import BodyPlan, Plan, Variant, body_relations
from gpuengine.planning.step_views import RelationMeasured, RuleMeasured
from gpuengine.planning.strata import member_positions
from gpuengine.schemes.union import tables_in

MOST_COUNTED = 20_000_000
"""Steps with more bindings are not counted to their end."""


def measured_bindings(variant: Variant, plan: BodyPlan, database: Database) -> tuple[int | None, ...]:
    """For each step the bindings after it, if every atom reads all facts; None where there are too many.

    Of a variant that starts from new facts, and reads no other relation that grows with them, that is what
    all rounds together had; of others it is a bound.
    """
    counts: list[int | None] = []
    for number in range(1, len(plan.steps) + 1):
        counts.append(_bindings(variant, replace(plan, steps=plan.steps[:number]), database))
        if counts[-1] is None:
            break
    return (*counts, *[None] * (len(plan.steps) - len(counts)))


def is_on_host(plan: BodyPlan, database: Database) -> bool:
    """Are all tables that a plan reads on the host, where bindings are counted?"""
    schemes = [database.tables[name] for name in body_relations(step.literal for step in plan.steps)]
    return all(table.backend.on_host for scheme in schemes for table in tables_in(scheme))


def _bindings(variant: Variant, plan: BodyPlan, database: Database) -> int | None:
    bound: dict[Variable, None] = {}
    for step in plan.steps:
        bound.update(dict.fromkeys(sorted(literal_variables(step.literal), key=str)))
    body = compile_body(
        variant.rule.body,
        plan,
        database,
        sink=tuple(bound),
        stop=np.zeros(1, np.int64),
        exact=True,
        in_hindsight=True,
    )
    stage = body.stages[0]
    rows = stage.input.count if stage.input is not None else stage.pipeline.driver.rows.count
    bindings = 0
    for chunk in body.collect(0, rows):
        bindings += chunk.rows
        if bindings > MOST_COUNTED:
            return None
    return bindings


class Measurement:
    """What a materialisation that was evaluated here came to, for who describes its plan."""

    def __init__(
        self, plan: Plan, progress: Progress, database: Database, storage: Mapping[str, Storage]
    ) -> None:
        self._plan, self._progress, self._database, self._storage = plan, progress, database, storage

    def plan(self, variant: Variant) -> BodyPlan | None:
        """In what order a variant was joined last; None if it was not, or not by a plan."""
        used = self._progress.plans.get(variant)
        return used.plan if used is not None else None

    def bindings(self, variant: Variant, plan: BodyPlan) -> Sequence[int | None]:
        """How many bindings there were after each step; None where they can't be counted."""
        if not is_on_host(plan, self._database):
            return [None] * len(plan.steps)
        return measured_bindings(variant, plan, self._database)

    def is_bound(self, variant: Variant) -> bool:
        """Does the variant read several relations that grow with each other?"""
        return is_bound(variant, self._plan)

    def rule(self, rule: Rule) -> RuleMeasured | None:
        """What a rule cost; None if it was not evaluated."""
        one = self._progress.rules.get(rule.text)
        if one is None:
            return None
        duplicates = max(one.candidates - one.uncounted - one.derived, 0)
        return RuleMeasured(one.seconds, one.candidates, one.derived, duplicates, one.evaluations)

    def relation(self, name: str) -> RelationMeasured | None:
        """How a relation is stored; None if it was left out."""
        one = self._storage.get(name)
        return None if one is None else RelationMeasured(one.facts, one.scheme, one.why, one.nbytes)


def is_bound(variant: Variant, plan: Plan) -> bool:
    """Are the bindings counted for a variant a bound only: does it read several relations that grow?"""
    driver = variant.rule.body[variant.delta] if variant.delta is not None else None
    name = driver.relation if isinstance(driver, Atom) else None
    growing = next((one.relations for one in plan.strata if name in one.relations), ())
    return len(member_positions(variant.rule, frozenset(growing))) > 1
