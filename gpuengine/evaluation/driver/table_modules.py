"""Transitivity and symmetry on tables, evaluated as the modular paper does instead of rule by rule.

A transitive relation that stays a table is joined with its *external* facts, those that other rules derive: a
chain of them leads to every fact (section 5). The join is a rule like others, evaluated in rounds with them,
so that it is compiled and runs where the tables are. A symmetric and transitive relation is closed by its
connected components (section 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuengine.evaluation.host_work import HostOperation
from gpuengine.evaluation.rules.context import Context
from gpuengine.language.program import Rule
from gpuengine.planning.linearise import external_name, linear_rule, read_external, with_external_facts
from gpuengine.planning.plan import Stratum
from gpuengine.planning.shapes import Candidate, Shape
from gpuengine.schemes.modules import SymmetricTransitiveModule, TransitiveModule
from gpuengine.schemes.table import Table, as_table

if TYPE_CHECKING:
    from gpuengine.schemes.closure import Closure


@dataclass
class _Closing:
    """A table that is kept closed under symmetry and transitivity; `closed` are the rows that are."""

    module: SymmetricTransitiveModule
    closed: int = 0


class TableModules:
    """The modules of one stratum's tables."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.database = context.database
        self.closing: list[_Closing] = []
        self._linear: dict[str, Candidate] = {}
        self._transitive: dict[str, TransitiveModule] = {}

    def take_over(self, rules: Sequence[Rule], stratum: Stratum) -> tuple[list[Rule], list[Table]]:
        """The rules that are left to evaluate in rounds, and the tables of external facts that they fill."""
        remaining = list(rules)
        added = []
        for name in stratum.relations:
            plan, scheme = self.context.plan.schemes.get(name), self.database.tables[name]
            if scheme.kind == Shape.CLOSURE.value:
                from gpuengine.schemes.closure import as_closure

                remaining, externals = self._read_edges(remaining, as_closure(scheme))
                added += externals
            if plan is None or not scheme.is_listed:
                continue
            table = as_table(scheme)
            shapes = {candidate.shape: candidate for candidate in plan.candidates}
            if Shape.EQUIVALENCE in shapes:
                self.closing.append(_Closing(SymmetricTransitiveModule(table)))
                remaining = [rule for rule in remaining if rule not in shapes[Shape.EQUIVALENCE].handled]
            elif Shape.CLOSURE in shapes and not shapes[Shape.CLOSURE].linear:
                candidate = shapes[Shape.CLOSURE]
                self._linear[name] = candidate
                remaining, table_of_externals = self._linearise(remaining, table, candidate)
                added += [table_of_externals] if table_of_externals is not None else []
        return remaining, added

    def _read_edges(self, rules: list[Rule], closure: Closure) -> tuple[list[Rule], list[Table]]:
        """Have rules that derive a closure from itself read its edges only, where that is enough."""
        external = external_name(closure.name)
        changed = [read_external(rule, closure.name, external) for rule in rules]
        if changed == rules:
            return rules, []
        table = Table(external, 2, self.context.placement.current)
        table.widen(closure.bounds)
        closure.keep_external(table)
        return changed, [table]

    def rewritten(self, rules: Sequence[Rule]) -> list[Rule]:
        """Rules with the transitive ones of tables in linear form."""
        rewritten = list(rules)
        for name, candidate in self._linear.items():
            relation = self.database.program.relations[name]
            rewritten = with_external_facts(rewritten, relation, candidate.handled)
        return rewritten

    def give_back(self, name: str) -> Table | None:
        """A table has become a closure and needs no module; what other rules derived, if that is known."""
        self._linear.pop(name, None)
        module = self._transitive.get(name)
        return module.external if module is not None else None

    def end(self) -> None:
        """Forget the external facts."""
        for module in self._transitive.values():
            self.database.tables.pop(module.external.name, None)

    def close(self) -> None:
        """Close the tables of symmetric and transitive relations over what was added to them."""
        for closing in self.closing:
            table = closing.module.table
            added = len(table) - closing.closed
            with self.context.progress.host_work.counting(HostOperation.SCHEME, table.name, added):
                fresh = [column[closing.closed :].copy() for column in table.columns()]
                implied = closing.module.add(fresh, len(fresh[0]))
                table.insert(implied, len(implied[0]))
            closing.closed = len(table)

    def _linearise(
        self, rules: list[Rule], table: Table, candidate: Candidate
    ) -> tuple[list[Rule], Table | None]:
        """Put external facts on one side of the join; no table for them if nothing more derives any."""
        relation = self.database.program.relations[table.name]
        module = self._transitive[table.name] = TransitiveModule(table, external_name(table.name))
        external = module.external
        external.widen(table.bounds)
        external.insert(table.rows.device_columns(), len(table))
        if any(rule.head.relation == table.name and rule not in candidate.handled for rule in rules):
            return with_external_facts(rules, relation, candidate.handled), external
        external.settle()
        self.database.tables[external.name] = external
        remaining = [rule for rule in rules if rule not in candidate.handled]
        return [*remaining, linear_rule(relation, external.name)], None
