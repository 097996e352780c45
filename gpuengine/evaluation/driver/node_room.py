"""How much memory nodes of hypertrees may take when nothing is evaluated, and what becomes of larger ones.

A node can hold many more facts than all relations together. While rules are evaluated that is what makes them
fast; afterwards nodes only serve updates, for which they need sets and indexes as well. Large ones are not
worth it: they are freed, and updates evaluate their rules by join plans, which from a small change find
little else than they do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpuengine.evaluation.placement.budget import Budget
from gpuengine.evaluation.rules.database import Database
from gpuengine.planning.node_rules import NodeRules, is_node
from gpuengine.planning.plan import Plan

_LEAST = 64 << 20
_BUDGET_SHARE = 4
"""Nodes take at most one part in so many of the memory budget."""
_MAINTAINED = 3
"""With what updates need, a node takes so many times its rows."""


def node_room(database: Database, budget: Budget) -> int:
    """The bytes that nodes may take: as many as the relations, within a share of the budget."""
    relations = sum(database.tables[name].host_nbytes for name in database.program.relations)
    return min(max(relations, _LEAST), budget.limit // _BUDGET_SHARE)


def free_large_nodes(database: Database, budget: Budget, needed: Collection[str] = ()) -> None:
    """Free nodes, large ones first, until those that are left and not `needed` fit."""
    tables = database.tables
    nodes = [name for name in tables if is_node(name) and name not in needed]
    room = node_room(database, budget) if nodes else 0
    for name in sorted(nodes, key=lambda name: tables[name].nbytes):
        room -= tables[name].nbytes
        if room < 0:
            del tables[name]


def join_large_nodes(plan: Plan, database: Database, budget: Budget, *, only_new: bool = False) -> None:
    """Have updates evaluate by join plans what has nodes that are too large to be kept for them.

    With `only_new`, of the rules for which nothing was chosen yet: the others have what they have.
    """
    decided = set(database.evaluators.choices)
    groups: dict[int, NodeRules] = {}
    kept: set[int] = set()
    for stratum in plan.strata:
        for variant in (*stratum.once, *stratum.recursive):
            choice = database.evaluators.choose(variant.rule, stratum.relations, database)
            if choice.node_rules is not None:
                groups[id(choice.node_rules)] = choice.node_rules
                if only_new and variant.rule in decided:
                    kept.add(id(choice.node_rules))
    room = float(node_room(database, budget)) if groups else 0.0
    sized = {number: _MAINTAINED * _expected_bytes(one, database) for number, one in groups.items()}
    for number in sorted(groups, key=lambda number: (number not in kept, sized[number])):
        room -= sized[number]
        if room < 0 and number not in kept:
            database.evaluators.join_instead(groups[number], "its nodes are too large to be kept for updates")
            _free_unshared(groups, number, database)


def _free_unshared(groups: Mapping[int, NodeRules], given_up: int, database: Database) -> None:
    """Free the nodes of a group that no other one reads."""
    others = [one for number, one in groups.items() if number != given_up]
    shared = {name for one in others if _is_chosen(one, database) for name in one.relations}
    for node in groups[given_up].nodes:
        if node.head.relation not in shared:
            database.tables.pop(node.head.relation, None)


def _is_chosen(node_rules: NodeRules, database: Database) -> bool:
    choices = database.evaluators.choices
    return any(rule in choices and choices[rule].node_rules is node_rules for rule in node_rules.over)


def _expected_bytes(node_rules: NodeRules, database: Database) -> float:
    """What the rows of the nodes take, or are expected to if they are not there."""
    rows = {part.atom.relation: part.node.rows for part in node_rules.parts}
    total = 0.0
    for node in node_rules.nodes:
        name = node.head.relation
        count = len(database.tables[name]) if name in database.tables else rows[name]
        total += 4.0 * len(node.head.args) * count
    return total
