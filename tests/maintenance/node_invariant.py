"""The invariant of appendix A of the thesis: every node table holds Π_p[I], by the naive oracle."""

from __future__ import annotations

from typing import Any

from gpuengine.errors import EvaluationError
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.language.program import Attribute, Rule, Variable
from gpuengine.planning.node_rules import is_node
from gpuengine.relation import RelationView
from gpuengine.schemes.table import Table
from tests.core_oracle import consequences
from tests.differential.compare import Rows, is_refusal, shown_facts
from tests.maintenance.streams import (
    Model,
    Stream,
    assert_counted,
    assert_is_difference,
    commit,
    facts_of,
    is_maintained,
    is_possible,
    started,
    state_of,
)
from tests.oracle import Facts, shown


def nodes_of(kb: Any) -> dict[str, Table]:
    return {name: table for name, table in kb.database.tables.items() if is_node(name)}


def node_rule(kb: Any, name: str) -> Rule:
    """The one rule of a node."""
    found = {
        rule
        for choice in kb.database.evaluators.choices.values()
        if choice.node_rules is not None
        for rule in choice.node_rules.nodes
        if rule.head.relation == name
    }
    (rule,) = found
    return rule


def node_rows(kb: Any, name: str) -> Rows:
    """What a node table holds, as values."""
    variables = [arg for arg in node_rule(kb, name).head.args if isinstance(arg, Variable)]
    attributes = [Attribute(variable.name, variable.type) for variable in variables]
    rows = list(RelationView(name, attributes, kb.database.tables[name], kb.dictionary, Budget(None)))
    assert len(rows) == len(set(rows)), f"{name} holds an instantiation twice"
    return set(rows)


def assert_nodes(kb: Any, known: Facts) -> int:
    """Every node that is there holds the join of its atoms over the facts; how many there are."""
    for name in nodes_of(kb):
        rule = node_rule(kb, name)
        expected = {tuple(map(shown, row)) for row in consequences(rule, known)}
        assert node_rows(kb, name) == expected, f"{name}, which is {rule.body}"
    return len(nodes_of(kb))


def assert_maintained_nodes(kb: Any) -> None:
    """There are exactly the nodes that are maintained, each by one rule."""
    if is_maintained(kb):
        heads = [rule.head.relation for rule in kb._updater._maintainer.rules]
        nodes = [name for name in heads if is_node(name)]
        assert sorted(nodes) == sorted(nodes_of(kb))


def follow(kb: Any, model: Model, stream: Stream) -> bool:
    """Make the transactions: after each, relations, nodes, counters and the change are as they should be.

    False if one of them is refused; then nothing has changed.
    """
    known = model.derived()
    assert known is not None
    before = shown_facts(known)
    for transaction in stream.transactions:
        calls = [call for call in transaction if is_possible(model, call)]
        after = model.derived()
        try:
            change = commit(kb, calls)
        except EvaluationError as error:
            assert after is None or is_refusal(error)
            assert state_of(kb) == before, f"after {calls}, which failed"
            assert_nodes(kb, known)
            return False
        assert after is not None, "an error of evaluation went unnoticed"
        known, state = after, shown_facts(after)
        assert state_of(kb) == state, f"after {calls}"
        assert facts_of(kb) == model.shown_facts(), f"stated after {calls}"
        assert_nodes(kb, known)
        assert_maintained_nodes(kb)
        assert_counted(kb)
        assert_is_difference(change, before, state)
        before = state
    return True


def begun(stream: Stream) -> tuple[Any, Model] | None:
    """An engine that has materialised what a stream begins with, and the model of it; None if it can't."""
    model = Model(stream)
    known = model.derived()
    try:
        kb = started(stream)
    except EvaluationError as error:
        assert known is None or is_refusal(error)
        return None
    assert known is not None and state_of(kb) == shown_facts(known)
    assert_nodes(kb, known)
    return kb, model
