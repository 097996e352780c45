"""Evaluate a rule over everything by intersections, and insert what it derives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuengine.evaluation.rules.compute import Bindings
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.temporary import TemporaryTables
from gpuengine.language.program import Atom, BodyOrder, Variable
from gpuengine.planning.order import order_body
from gpuengine.planning.plan import Variant
from gpuengine.schemes.table import Table, as_table

if TYPE_CHECKING:
    from gpuengine.evaluation.rules.multiway import Multiway
    from gpuengine.evaluation.rules.variants import VariantRunner

LEAST_ATOMS = 3


class MultiwayJoin:
    """Evaluates variants for runners."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._database = context.database

    def find(self, variant: Variant) -> Multiway | None:
        """How to evaluate a variant by intersections, if it reads everything and that pays off."""
        rule = variant.rule
        if variant.delta is not None or variant.old or rule.order is not BodyOrder.CHEAPEST:
            return None
        if sum(isinstance(part, Atom) for part in rule.body) < LEAST_ATOMS:
            return None
        from gpuengine.evaluation.rules.multiway import find_multiway

        return find_multiway(rule, order_body(rule.body, self._database), self._context)

    def run(self, variant: Variant, multiway: Multiway, runner: VariantRunner, *, distinct: bool) -> int:
        """Derive what a variant derives; returns the bindings seen.

        `distinct` promises that its facts come out once each, and that there are none yet.
        """
        from gpuengine.evaluation.rules.multiway import intersected

        rule, seen = variant.rule, 0
        head = self._database.tables[rule.head.relation]
        is_direct = head.is_listed and not multiway.tail
        is_direct &= all(isinstance(arg, Variable) for arg in rule.head.args)
        for bindings in intersected(multiway, self._context):
            seen += bindings.rows
            if not bindings.rows:
                continue
            if is_direct:
                table = as_table(head)
                _insert(bindings, rule.head, table, distinct=distinct and not table.has_set)
                self._context.check_budget(table, rule.text)
            else:
                self._derive(bindings, multiway, variant, runner)
        return seen

    def _derive(
        self, bindings: Bindings, multiway: Multiway, variant: Variant, runner: VariantRunner
    ) -> None:
        """Evaluate what is left of the body for some bindings."""
        rule = variant.rule
        with TemporaryTables(self._database, self._context.backend_of(rule.head.relation)) as tables:
            table = tables.holding(list(bindings.columns.values()), bindings.rows)
            atom = Atom(table.name, tuple(bindings.columns), rule.span)
            rest = replace(rule, body=(atom, *multiway.tail))
            runner.like(rest).run(Variant(rest, None, frozenset(), variant.in_hindsight))


def _insert(bindings: Bindings, head: Atom, table: Table, *, distinct: bool) -> None:
    columns = [bindings.columns[arg] for arg in head.args if isinstance(arg, Variable)]
    if distinct:
        table.reserve(bindings.rows)
        table.rows.append(columns, bindings.rows)
    else:
        table.insert(columns, bindings.rows)
