"""The nodes of hypertrees that the rules of a stratum read: made, filled, and freed if they do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuengine.errors import MemoryBudgetError
from gpuengine.evaluation.rules.bounds import flow_bounds
from gpuengine.evaluation.rules.context import Context
from gpuengine.language.program import Rule
from gpuengine.planning.node_rules import NodePart, NodeRules
from gpuengine.planning.plan import Variant
from gpuengine.planning.strata import member_positions
from gpuengine.schemes.table import Table, as_table

if TYPE_CHECKING:
    from gpuengine.evaluation.driver.stratum import StratumEvaluation

OUTGROWN, LEAST_OUTGROWN = 4, 1 << 20
"""A node of a recursion is left if it has so many times as many facts as expected, and so many at least."""


class StratumNodes:
    """Chooses by what the rules of a stratum are evaluated, and keeps the nodes that they need.

    Nodes that read relations of the stratum become members of it, and their rules are evaluated in rounds;
    others are filled at once. A node that another stratum has made is there already. `filled` are the tables
    that were filled here.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._database = context.database
        self.filled: list[Table] = []
        self._context.nodes_in_use = frozenset()

    def in_rounds(self, rule: Rule, evaluation: StratumEvaluation) -> list[Rule]:
        """The rules of nodes that have to be evaluated in rounds with a rule; its other nodes are filled."""
        if self._context.plan.size_limits:
            return []
        members = evaluation.stratum.relations
        choice = self._database.evaluators.choose(rule, members, self._database)
        if choice.node_rules is None:
            return []
        others = self._context.nodes_in_use
        own = frozenset(node.head.relation for node in choice.node_rules.nodes) - others
        self._context.nodes_in_use |= own
        try:
            recursive = self._make(choice.node_rules, evaluation)
        except MemoryBudgetError:
            self._let_go(choice.node_rules, own, evaluation)
            self._context.nodes_in_use = others
            return []
        flow_bounds([choice.node_rules.over[rule]], self._database)
        return recursive

    def outgrown(self, members: frozenset[str]) -> list[NodeRules]:
        """The nodes of rules, among them one of the stratum, that hold far more facts than was expected."""
        made = [choice.node_rules for choice in self._database.evaluators.choices.values()]
        distinct = {id(one): one for one in made if one is not None}
        return [
            one for one in distinct.values() if any(self._has_outgrown(part, members) for part in one.parts)
        ]

    def _has_outgrown(self, part: NodePart, members: frozenset[str]) -> bool:
        name = part.atom.relation
        if part.rule is None or name not in members:
            return False
        return len(self._database.tables[name]) > max(OUTGROWN * part.node.rows, LEAST_OUTGROWN)

    def _make(self, node_rules: NodeRules, evaluation: StratumEvaluation) -> list[Rule]:
        """Fill nodes, then make those that grow in rounds: if some do not fit, none of those is there yet."""
        recursive = [node for node in node_rules.nodes if member_positions(node, evaluation.members)]
        for node in node_rules.nodes:
            self._bring(node.head.relation, evaluation)
        for node in node_rules.nodes:
            if node not in recursive and node.head.relation not in self._database.tables:
                self._fill(node, evaluation)
        for node in recursive:
            if node.head.relation not in self._database.tables:
                evaluation.add_member(_table(node, evaluation))
        return recursive

    def _bring(self, name: str, evaluation: StratumEvaluation) -> None:
        """Have a node that another stratum made where this one is evaluated."""
        if name in self._database.tables:
            table = as_table(self._database.tables[name])
            evaluation.retrying(lambda: table.move_to(evaluation.placement.current))

    def _fill(self, node: Rule, evaluation: StratumEvaluation) -> None:
        table = _table(node, evaluation)
        self._database.tables[table.name] = table
        flow_bounds([node], self._database)
        evaluation.runner.bound_rules.append(node)
        evaluation.run_variant(Variant(node, None, frozenset()))
        self._context.check_budget(table, node.text)
        table.settle()
        self.filled.append(table)

    def _let_go(self, node_rules: NodeRules, names: frozenset[str], evaluation: StratumEvaluation) -> None:
        """The nodes do not fit: free those that no other rule reads, and join as if there were no tree."""
        evaluation.runner.forget()
        evaluation.runner.bound_rules = [
            rule for rule in evaluation.runner.bound_rules if rule.head.relation not in names
        ]
        self.filled = [table for table in self.filled if table.name not in names]
        for name in names & set(self._database.tables):
            del self._database.tables[name]
        self._database.evaluators.join_instead(node_rules, "its nodes do not fit the memory budget")


def _table(node: Rule, evaluation: StratumEvaluation) -> Table:
    return Table(node.head.relation, len(node.head.args), evaluation.placement.current)
