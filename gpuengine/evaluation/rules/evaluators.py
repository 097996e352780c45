"""By what each rule is evaluated here, as sizes have it so far."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from gpuengine.language.program import BodyOrder, Rule
from gpuengine.planning.evaluators import Choice, Chooser, Evaluator
from gpuengine.planning.node_rules import NodeRules
from gpuengine.planning.order import Statistics


class Evaluators:
    """What was chosen for rules, each once when it was first asked for: maintenance goes on with the same.

    Nodes that outgrow what was expected, or do not fit, are left for join plans.
    """

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self.choices: dict[Rule, Choice] = {}

    def add(self, rules: Sequence[Rule]) -> None:
        """Know the rules of the program, which may have others by now."""
        self._chooser.add(rules)

    def choose(self, rule: Rule, members: Collection[str], statistics: Statistics) -> Choice:
        """What evaluates a rule of the stratum `members`; asked again, the same."""
        if rule not in self.choices:
            self.choices[rule] = self._chooser.choose(rule, members, statistics, self.choices)
        return self.choices[rule]

    def evaluated(self, rule: Rule) -> Rule:
        """The rule as it is evaluated, so far as that is chosen."""
        choice = self.choices.get(rule)
        if choice is None:
            return rule
        if choice.node_rules is not None:
            return choice.node_rules.over[rule]
        return replace(rule, order=BodyOrder.WRITTEN) if choice.evaluator is Evaluator.WRITTEN else rule

    def nodes_read_by(self, rules: Iterable[Rule]) -> set[str]:
        """The nodes that rules will be evaluated over, so far as others with the same body are by now."""
        nodes: set[str] = set()
        for rule in rules:
            for other in self._chooser.with_same_body(rule):
                choice = self.choices.get(other)
                if choice is not None and choice.node_rules is not None:
                    nodes.update(choice.node_rules.relations)
        return nodes

    def join_instead(self, node_rules: NodeRules, why: str) -> None:
        """Evaluate by join plans what was to be evaluated over nodes, from now on."""
        for rule in node_rules.over:
            self.choices[rule] = Choice(Evaluator.JOIN, why)
