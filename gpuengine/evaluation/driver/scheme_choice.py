"""Which scheme each relation of a stratum gets: by the shape of its rules, then by the facts at hand."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuengine.errors import EvaluationError
from gpuengine.evaluation.host_work import Counted, HostOperation
from gpuengine.evaluation.progress import SchemeChoice
from gpuengine.evaluation.rules.context import Context
from gpuengine.language.program import Rule
from gpuengine.planning.plan import Stratum
from gpuengine.planning.scheme_costs import has_outgrown, is_worth_while, lists_itself
from gpuengine.planning.schemes import TABLE
from gpuengine.planning.shapes import Candidate, Shape
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.estimate import ClosureEstimate, estimate_closure
from gpuengine.schemes.table import Table, as_table
from gpuengine.schemes.union import Part, Union

if TYPE_CHECKING:
    from gpuengine.schemes.closure import Closure
    from gpuengine.schemes.pairs import PairScheme


@dataclass
class _Undecided:
    """A closure that waits for the facts of its edges, and what is thought of it when these are known."""

    candidate: Candidate
    estimate: ClosureEstimate | None = None
    listed: bool = False


class StratumSchemes:
    """Puts schemes in the place of the tables of a stratum's relations.

    In order: `begin` before any rule is run, for what the shape of rules decides; then the rules outside
    the recursion, without those in `postponed`; `decide` with the facts that these derived; and `reconsider`
    between rounds. `handled` are the rules that the schemes chosen so far imply.
    """

    def __init__(self, stratum: Stratum, context: Context) -> None:
        self.context = context
        self.database = context.database
        self.handled: set[Rule] = set()
        self._recursive = list(dict.fromkeys(variant.rule for variant in stratum.recursive))
        plans = context.plan.schemes
        self._plans = {name: plans[name] for name in stratum.relations if name in plans}
        self._waiting: dict[str, _Undecided] = {}
        self._tables: dict[str, _Undecided] = {}

    @property
    def postponed(self) -> Collection[Rule]:
        """Rules that copy into a relation that may become a union."""
        copying: set[Rule] = set()
        for name, plan in self._plans.items():
            candidate = plan.candidate(Shape.UNION)
            if candidate is not None and not self._is_decided(name):
                copying |= set(candidate.handled)
        return copying

    def begin(self) -> None:
        """Equivalences, and closures that are asked for."""
        for name, plan in self._plans.items():
            equivalence, closure = plan.candidate(Shape.EQUIVALENCE), plan.candidate(Shape.CLOSURE)
            if equivalence is not None:
                from gpuengine.schemes.equivalence import Equivalence

                self._replace(name, Equivalence(name), equivalence, "asked for" if plan.is_forced else "")
            elif closure is not None and self._may_be(closure, plan.is_forced):
                if plan.is_forced:
                    self._replace(name, self._closure(name), closure, "asked for")
                else:
                    self._waiting[name] = _Undecided(closure)

    def decide(self) -> None:
        """Closures by what a sample of nodes reaches; then unions, of which some read those."""
        self._foresee_tables()
        for name, undecided in self._waiting.items():
            undecided.estimate = self._estimate(name, undecided.candidate)
            undecided.listed = lists_itself(undecided.candidate, self._recursive, self._plans.values())
            budget = self.context.budget.limit
            worth, why = is_worth_while(undecided.estimate, listed=undecided.listed, budget=budget)
            if worth:
                self._replace(name, self._closure(name), undecided.candidate, why)
            else:
                self._tables[name] = undecided
                self._note(name, "table", f"{undecided.candidate.why}, but {why}")
        self._waiting = {}
        changed = True
        while changed:
            changed = False
            for name, plan in self._plans.items():
                union = plan.candidate(Shape.UNION)
                if union is not None and not self._is_decided(name):
                    why = "asked for" if plan.is_forced else self._why_union(name, union)
                    if why:
                        self._replace_by_union(name, union, why)
                        changed = True

    def reconsider(self) -> str | None:
        """A table that has come to hold ten times what its closure was thought to; it becomes one."""
        for name, undecided in self._tables.items():
            facts, budget = len(self.database.tables[name]), self.context.budget.limit
            if undecided.estimate is not None and has_outgrown(
                facts, undecided.estimate, listed=undecided.listed, budget=budget
            ):
                return name
        return None

    def turn_into_closure(self, name: str, external: Table | None) -> Closure:
        """Make a closure of a table that has outgrown what was thought of it.

        Its edges are its external facts, of a linear one those of its source; if neither are known, all
        facts.
        """
        closure = self._closure(name)
        undecided = self._tables.pop(name)
        edges: Scheme = external if external is not None else self.database.tables[name]
        permutation: tuple[int, ...] = (0, 1)
        if undecided.candidate.linear:
            source = undecided.candidate.sources[0]
            edges, permutation = self.database.tables[source.relation], source.permutation
        with self._counting(HostOperation.SCHEME, name, len(edges)):
            for batch in edges.scan():
                closure.insert(Part(edges, permutation).outward(batch), len(batch[0]))
        table = self.database.tables[name]
        for scheme in self.database.tables.values():
            scheme.replace(table, closure)
        facts = len(table)
        self.database.tables[name] = closure
        self._handle(undecided.candidate)
        self._note(
            name, closure.kind, f"{undecided.candidate.why}, and {facts:,} facts are more than expected"
        )
        return closure

    def _foresee_tables(self) -> None:
        """Refuse a table that was asked for where a closure is far too large for one."""
        for name, plan in self._plans.items():
            closure = next((one for one in plan.candidates if one.shape is Shape.CLOSURE), None)
            if plan.forced == TABLE and closure is not None:
                estimate = self._estimate(name, closure)
                self.context.budget.check_closure(name, estimate.pairs)

    def _is_decided(self, name: str) -> bool:
        return not self.database.tables[name].is_listed or name in self._waiting

    def _may_be(self, candidate: Candidate, is_forced: bool) -> bool:
        """A linear closure has no facts but those of its source."""
        if not candidate.linear or not len(self.database.tables[candidate.relation]):
            return True
        if is_forced:
            raise EvaluationError(
                f"{candidate.relation} can't be stored as closure: facts were loaded into it, and it is the "
                f"closure of {candidate.sources[0].relation} only without them\n"
                f"  hint: leave out the scheme, or load them into {candidate.sources[0].relation}"
            )
        return False

    def _closure(self, name: str) -> Closure:
        from gpuengine.schemes.closure import Closure

        context = self.context
        return Closure(name, stop=context.stop, threads=context.workers.threads, limit=context.budget.limit)

    def _replace(self, name: str, scheme: PairScheme, candidate: Candidate, why: str) -> None:
        """Put a scheme in the place of a table, with the facts that this has."""
        table = as_table(self.database.tables[name])
        scheme.widen(table.bounds)
        if len(table):
            with self._counting(HostOperation.SCHEME, name, len(table)):
                scheme.insert(table.columns(), len(table))
        self.database.tables[name] = scheme
        self._handle(candidate)
        self._note(name, scheme.kind, f"{candidate.why}; {why}" if why else candidate.why)

    def _handle(self, candidate: Candidate) -> None:
        """A closure still takes in what is copied into it."""
        copies = {source.rule for source in candidate.sources} if candidate.shape is Shape.CLOSURE else set()
        self.handled |= set(candidate.handled) - copies

    def _replace_by_union(self, name: str, candidate: Candidate, why: str) -> None:
        own = as_table(self.database.tables[name])
        parts = [Part(self.database.tables[s.relation], s.permutation) for s in candidate.sources]
        self.database.tables[name] = Union(name, parts, own)
        self._handle(candidate)
        self._note(name, "union", f"{candidate.why}; {why}")

    def _why_union(self, name: str, candidate: Candidate) -> str:
        """Why a view pays off: its parts are compact, or nobody reads it; "" if it does not."""
        parts = [self.database.tables[source.relation] for source in candidate.sources]
        compact = [part.name for part in parts if not part.is_listed]
        if compact:
            return f"{compact[0]} is not a table"
        if len(parts) > 1 and name not in self.context.plan.read_relations:
            return "no rule reads it"
        return ""

    def _estimate(self, name: str, candidate: Candidate) -> ClosureEstimate:
        table: Scheme = self.database.tables[name]
        columns = [0, 1]
        if candidate.linear and not len(table):
            source = candidate.sources[0]
            table = self.database.tables[source.relation]
            columns = list(source.permutation)
        if not table.is_listed or not len(table):
            return ClosureEstimate(0, 0, 0.0, True)
        with self._counting(HostOperation.STATISTICS, name, len(table)):
            ids = as_table(table).columns()
            return estimate_closure(ids[columns[0]], ids[columns[1]])

    @property
    def _counting(self) -> Callable[[HostOperation, str, int], AbstractContextManager[Counted]]:
        return self.context.progress.host_work.counting

    def _note(self, name: str, kind: str, why: str) -> None:
        self.context.progress.schemes[name] = SchemeChoice(kind, why)
