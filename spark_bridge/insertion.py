"""Facts that are inserted into relations that are there: what follows from them, stratum by stratum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from gpuengine.language.program import Atom, Rule
from gpuengine.planning.plan import Plan, Stratum, Variant, body_relations
from gpuengine.spark_bridge.frames import Held, RoundState, union
from gpuengine.spark_bridge.progress import StratumReport
from gpuengine.spark_bridge.strata import StrataRun, reads, rules_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Insertion:
    """Brings the relations of a plan up to date.

    `before` are all relations as they were, `stated` the facts that were given (not derived), the new ones
    among them, and `delta` the new facts of each relation so far. `anew` are the relations that were
    evaluated again.
    """

    run: StrataRun
    before: Mapping[str, Held]
    stated: Mapping[str, Held]
    delta: dict[str, Held]
    anew: dict[str, Held] = field(default_factory=dict)

    def update(self, plan: Plan) -> None:
        """Fill `delta` and `anew`, stratum by stratum."""
        self.delta = {name: held for name, held in self.delta.items() if held.rows}
        self.run.strata = len(plan.strata)
        for stratum in plan.strata:
            touched = reads(rules_of(stratum)) | set(stratum.relations)
            if not touched & (set(self.delta) | set(self.anew)):
                continue
            if self._may_lose_facts(stratum):
                self._evaluate_anew(stratum)
            else:
                self._extend(stratum)

    def now(self, name: str) -> Held:
        """A relation with its new facts."""
        if name in self.anew:
            return self.anew[name]
        return union([self.before[name], self.delta[name]]) if name in self.delta else self.before[name]

    def _may_lose_facts(self, stratum: Stratum) -> bool:
        changed = set(self.delta) | set(self.anew)
        for rule in rules_of(stratum):
            for part in rule.body:
                read = body_relations([part])
                if read & (set(self.anew) if isinstance(part, Atom) else changed):
                    return True
        return False

    def _evaluate_anew(self, stratum: Stratum) -> None:
        frames = {name: self.now(name) for name in self.before if name not in stratum.relations}
        frames.update({name: self.stated[name] for name in stratum.relations})
        for name, held in self.run.evaluate(stratum, frames, is_read=True).items():
            self.anew[name] = held
            self.delta.pop(name, None)

    def _extend(self, stratum: Stratum) -> None:
        report = StratumReport(stratum.number, stratum.relations, "extended", "facts were inserted")
        self.run.reports.append(report)
        with self.run.watch.named(
            f"inserting: stratum {stratum.number + 1} ({', '.join(stratum.relations)})"
        ):
            start = {name: self._first(stratum, name) for name in stratum.relations}
            new = {name: held for name, held in start.items() if held.rows}
            if new and stratum.is_recursive:
                frames = {name: self.now(name) for name in self.before if name not in stratum.relations}
                pieces = {
                    name: [self.before[name], *([new[name]] if name in new else [])]
                    for name in stratum.relations
                }
                recursion = self.run.recursion(stratum, frames, report)
                new = recursion.added(RoundState(0, pieces, new))
        for name in stratum.relations:
            self.delta.pop(name, None)
            if name in new and new[name].rows:
                self.delta[name] = new[name]

    def _first(self, stratum: Stratum, name: str) -> Held:
        """New facts of a relation that follow without recursion: given ones, and those from lower changes."""
        heads = [
            self._head(variant, stratum)
            for rule in rules_of(stratum)
            if rule.head.relation == name
            for variant in self._variants(rule, stratum)
        ]
        own = [self.delta[name].frame] if name in self.delta else []
        if not heads:
            return self.delta[name] if own else Held(self.before[name].frame.limit(0), 0)
        candidates: DataFrame = reduce(lambda a, b: a.unionAll(b), [*own, *heads]).distinct()
        new = candidates.join(self.before[name].frame, candidates.columns, "left_anti")
        return self.run.keeper.cut(f"inserted/stratum-{stratum.number}/{name}", new)

    def _variants(self, rule: Rule, stratum: Stratum) -> Sequence[Variant]:
        changed = [
            position
            for position, part in enumerate(rule.body)
            if isinstance(part, Atom)
            and part.relation in self.delta
            and part.relation not in stratum.relations
        ]
        return [Variant(rule, at, frozenset(changed[:k])) for k, at in enumerate(changed)]

    def _head(self, variant: Variant, stratum: Stratum) -> DataFrame:
        rows = {name: held.rows for name, held in self.before.items()}
        return self.run.rule_frames(rows).head(variant.rule, self._reader(variant, stratum), variant.delta)

    def _reader(self, variant: Variant, stratum: Stratum) -> Callable[[int, str], Held]:
        def read(position: int, relation: str) -> Held:
            if position == variant.delta:
                return self.delta[relation]
            if position in variant.old or relation in stratum.relations:
                return self.before[relation]
            return self.now(relation)

        return read
