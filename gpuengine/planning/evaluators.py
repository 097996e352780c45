"""By what each rule is evaluated: a join plan, or a hypertree of its body. By cost, unless the user says."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from gpuengine.errors import EvaluatorError
from gpuengine.language.program import Atom, Literal, Program, Rule
from gpuengine.planning.choices import read_pragmas
from gpuengine.planning.hypergraph import is_cyclic
from gpuengine.planning.join_size import join_cost
from gpuengine.planning.node_rules import (
    NodeNames,
    NodeRules,
    make_node_rules,
    united_body,
    wanted_variables,
)
from gpuengine.planning.order import Statistics, order_body
from gpuengine.planning.plan import Access

EVERY = "*"
PRAGMA = "evaluator"
LEAST_COST = 100_000
"""Bodies expected to cost fewer bindings than this are joined."""
LEAST_GAIN = 1.5
"""A hypertree must be expected to cost so many times less."""


class Evaluator(Enum):
    """By what a rule is evaluated; AUTO leaves it to the cost model."""

    AUTO = "auto"
    JOIN = "join"
    HYPERTREE = "hypertree"
    WRITTEN = "written"


@dataclass(frozen=True)
class Choice:
    """What was chosen for a rule, and why; `node_rules` are there if it is a hypertree.

    Costs are expected bindings: of the join plans of all rules with the same body, and of the hypertree.
    """

    evaluator: Evaluator
    why: str
    node_rules: NodeRules | None = None
    join_cost: float = 0.0
    tree_cost: float = 0.0


def parse_evaluator(text: str) -> tuple[str, str]:
    """``path=hypertree`` as rule and evaluator."""
    rule, equals, evaluator = text.partition("=")
    if not equals or not rule or not evaluator:
        raise EvaluatorError(f"{text!r} is not RULE=EVALUATOR; write it like path=hypertree or path:2=join")
    return rule.strip(), evaluator.strip()


def rule_names(rules: Iterable[Rule]) -> dict[Rule, str]:
    """How rules are called: the relation, and which of its rules it is, in the order of the text."""
    names: dict[Rule, str] = {}
    numbers: dict[str, int] = {}
    for rule in rules:
        if rule.body and rule not in names:
            relation = rule.head.relation
            numbers[relation] = numbers.get(relation, 0) + 1
            names[rule] = f"{relation}:{numbers[relation]}"
    return names


def read_evaluators(program: Program, given: Mapping[str, str] | None) -> dict[str, str]:
    """What pragmas of the program and then `given` say, by rule or relation; ``*`` is all that is not named.

    Raises `EvaluatorError` for what is no evaluator.
    """
    asked = {**read_pragmas(program, PRAGMA, parse_evaluator, EvaluatorError), **(given or {})}
    kinds = [one.value for one in Evaluator]
    for name, evaluator in asked.items():
        if evaluator not in kinds:
            near = difflib.get_close_matches(evaluator, kinds, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise EvaluatorError(
                f"no evaluator {evaluator!r} for {name}{hint}\n  hint: it is one of {', '.join(kinds)}"
            )
    return asked


def check_evaluated(program: Program, source: Program, asked: Iterable[str]) -> None:
    """Raise `EvaluatorError` if evaluators are asked for what is no rule.

    Of relations that `source` has, but `program` stores as others, nothing is evaluated: they may be named.
    """
    names = rule_names(program.rules)
    derived = [rule.head.relation for rule in (*program.rules, *source.rules) if rule.body]
    known = [*dict.fromkeys(derived), *names.values()]
    for name in asked:
        if name != EVERY and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            what = f"no rule {name!r}" if ":" in name else f"no rules for {name!r}"
            raise EvaluatorError(f"{what} to choose an evaluator for{hint}")


class Chooser:
    """Chooses for the rules of a program; rules with the same body share a hypertree.

    `live` are the rules that are evaluated at all; None is all.
    `asked` has evaluators by relation, by rule (``path:2`` is the second rule of path), or for all (``*``).
    """

    def __init__(
        self, rules: Sequence[Rule], asked: Mapping[str, str], live: Collection[Rule] | None = None
    ) -> None:
        self._by_name = asked
        self._asked: dict[Rule, Evaluator] = {}
        self._bodies: dict[Rule, tuple[Rule, ...]] = {}
        self._names = NodeNames()
        self._made: dict[tuple[Rule, ...], NodeRules | None] = {}
        self.add(rules, live)

    def add(self, rules: Sequence[Rule], live: Collection[Rule] | None = None) -> None:
        """Know the rules of the program, which may have others by now; `live` ones share their bodies."""
        names = rule_names(rules)
        new = {rule: self._asked_for(rule, names[rule]) for rule in names if rule not in self._asked}
        self._asked |= new
        evaluated = new if live is None else set(live)
        self._bodies |= _with_equal_bodies(rule for rule in new if rule in evaluated)

    def _asked_for(self, rule: Rule, name: str) -> Evaluator:
        asked = self._by_name
        return Evaluator(asked.get(name, asked.get(rule.head.relation, asked.get(EVERY, "auto"))))

    def with_same_body(self, rule: Rule) -> tuple[Rule, ...]:
        """The rules that share a hypertree with a rule, itself included."""
        return self._bodies.get(rule, ())

    def choose(
        self, rule: Rule, members: Collection[str], statistics: Statistics, chosen: Mapping[Rule, Choice]
    ) -> Choice:
        """What evaluates a rule of the stratum `members`, after what was `chosen` for others."""
        if rule not in self._asked:  # a rewritten one
            self._asked[rule] = self._asked_for(rule, "")
        self._bodies.setdefault(rule, (rule,))
        asked = self._asked[rule]
        if asked in (Evaluator.JOIN, Evaluator.WRITTEN):
            return Choice(asked, "asked for")
        atoms = sum(isinstance(part, Atom) for part in rule.body)
        if atoms < 2 or (asked is Evaluator.AUTO and atoms < 3):
            return Choice(Evaluator.JOIN, "" if asked is Evaluator.AUTO else "too few atoms to decompose")
        if asked is Evaluator.AUTO and not is_cyclic(rule.body):
            return Choice(Evaluator.JOIN, "its body has no cycle")
        group = self._bodies[rule]
        for other in group:
            if other in chosen and chosen[other].node_rules is not None:
                return chosen[other]
        cost = sum(_passes(one.body, members) * join_cost(one, statistics) for one in group)
        if asked is Evaluator.AUTO and cost < LEAST_COST:
            return Choice(Evaluator.JOIN, "its body has a cycle, but costs little", join_cost=cost)
        if group not in self._made:
            self._made[group] = self._decompose(group, statistics)
        node_rules = self._made[group]
        if node_rules is None:
            return Choice(Evaluator.JOIN, "its best decomposition is one node: a join", join_cost=cost)
        tree_cost = _tree_cost(node_rules, members)
        if asked is Evaluator.HYPERTREE:
            return Choice(Evaluator.HYPERTREE, "asked for", node_rules, cost, tree_cost)
        if cost < LEAST_GAIN * tree_cost:
            return Choice(Evaluator.JOIN, "its hypertree would not cost much less", None, cost, tree_cost)
        if _is_intersected(rule, statistics):
            why = "its variables are found by intersections, which list no more than they find"
            return Choice(Evaluator.JOIN, why, None, cost, tree_cost)
        nodes = (
            f"{len(node_rules.relations)} nodes cost" if len(node_rules.relations) > 1 else "one node costs"
        )
        why = f"its body has a cycle, and {nodes} less than {'its joins' if len(group) > 1 else 'its join'}"
        return Choice(Evaluator.HYPERTREE, why, node_rules, cost, tree_cost)

    def _decompose(self, group: tuple[Rule, ...], statistics: Statistics) -> NodeRules | None:
        from gpuengine.planning.hypertree import decompose

        body = united_body(group)
        assert body is not None
        divided = any(self._asked[rule] is Evaluator.HYPERTREE for rule in group)
        decomposition = decompose(body, statistics, wanted_variables(group), divided=divided)
        if decomposition is None or (len(decomposition.nodes) < 2 and len(group) < 2):
            return None
        return make_node_rules(group, body, decomposition, self._names)


def _is_intersected(rule: Rule, statistics: Statistics) -> bool:
    """Does a join plan bind every variable after those of its first atom by atoms that compete?

    As for triangles and cliques: what that costs is bounded by the shortest lists, not by partial joins.
    """
    steps = [step for step in order_body(rule.body, statistics).steps if isinstance(step.literal, Atom)]
    return all(step.alternatives or step.access is Access.CHECK for step in steps[1:])


def _passes(body: Sequence[Literal], members: Collection[str]) -> int:
    """How often all facts of a body pass through its join: once for each atom that reads a delta."""
    return max(sum(isinstance(part, Atom) and part.relation in members for part in body), 1)


def _tree_cost(node_rules: NodeRules, members: Collection[str]) -> float:
    """What the nodes cost until the fixpoint, and the semi-joins between them."""
    body, decomposition = node_rules.body, node_rules.decomposition
    again = sum(
        (_passes([body[at] for at in node.atoms], members) - 1) * node.cost for node in decomposition.nodes
    )
    return decomposition.cost + again


def _with_equal_bodies(rules: Iterable[Rule]) -> dict[Rule, tuple[Rule, ...]]:
    """For each rule all rules of the same clause that have the same body, up to wildcards."""
    clauses: dict[object, list[list[Rule]]] = {}
    for rule in rules:
        groups = clauses.setdefault((rule.span, len(rule.body)), [])
        for group in groups:
            if united_body([*group, rule]) is not None:
                group.append(rule)
                break
        else:
            groups.append([rule])
    return {rule: tuple(group) for groups in clauses.values() for group in groups for rule in group}
