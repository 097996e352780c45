"""Rules over the nodes of a hypertree: each node a relation of its own, which rules of its own derive.

    p(x, y) :- a(x, u), p(u, y), b(x, v), p(v, y).

becomes, with the nodes {a(x, u), p(u, y)} and {b(x, v), p(v, y)},

    @p.node1(x, y) :- a(x, u), p(u, y).
    @p.node2(x, y) :- b(x, v), p(v, y).
    p(x, y)        :- @p.node1(x, y), @p.node2(x, y).

A node keeps the variables that the head, or another node, needs; its facts are the instantiations inst_p of
the thesis, projected on these. Nodes of one atom are that atom. Rules with the same body (several heads of
one clause) share the nodes, and so do nodes that differ in the names of their variables only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuengine.language.program import (
    Aggregate,
    Atom,
    BodyOrder,
    Literal,
    Rule,
    Variable,
    Wildcard,
    binds,
    canonical,
    literal_variables,
)
from gpuengine.planning.fallible import can_fail
from gpuengine.planning.passes import blank_rule

if TYPE_CHECKING:
    from gpuengine.planning.hypertree import Decomposition, Node

_NODE = re.compile(r"@.*\.node\d+")


def is_node(relation: str) -> bool:
    """Is it the name of a relation that holds the instantiations of a node?"""
    return _NODE.fullmatch(relation) is not None


@dataclass(frozen=True)
class NodePart:
    """A node as rules have it: the atom that stands for it, what filters it, and the rule that derives it.

    The rule is in the variables of this body. None derives a node of one atom.
    """

    node: Node
    atom: Atom
    filters: tuple[Literal, ...]
    rule: Rule | None


@dataclass(frozen=True)
class NodeRules:
    """What takes the place of some rules with one body.

    `nodes` derive the relations of the nodes, each once; `over` has for each of the rules the one over the
    nodes; `parts` are all nodes in preorder.
    """

    decomposition: Decomposition
    body: tuple[Literal, ...]
    parts: tuple[NodePart, ...]
    nodes: tuple[Rule, ...]
    over: Mapping[Rule, Rule]

    @property
    def relations(self) -> tuple[str, ...]:
        """The node relations, or the relation itself for a node of one atom, in preorder."""
        return tuple(part.atom.relation for part in self.parts)


def united_body(rules: Sequence[Rule]) -> tuple[Literal, ...] | None:
    """One body for rules that differ in their wildcards only: with a variable wherever one of them has it.

    None if there is none. A variable may stand for a wildcard of another rule only if that rule has no other
    use for it: alternatives of one clause, as in ``(q(x, _) ; q(x, y))``, may say different things.
    """
    united = list(rules[0].body)
    for rule in rules[1:]:
        if len(rule.body) != len(united):
            return None
        for place, (one, other) in enumerate(zip(united, rule.body, strict=True)):
            if isinstance(one, Atom) and isinstance(other, Atom) and one.relation == other.relation:
                pairs = list(zip(one.args, other.args, strict=True))
                if any(
                    a != b and not isinstance(a, Wildcard) and not isinstance(b, Wildcard) for a, b in pairs
                ):
                    return None
                united[place] = replace(
                    one, args=tuple(b if isinstance(a, Wildcard) else a for a, b in pairs)
                )
            elif one != other:
                return None
    body = tuple(united)
    are_equal = all(blank_rule(replace(rule, body=body)).body == blank_rule(rule).body for rule in rules)
    return body if are_equal else None


def wanted_variables(rules: Iterable[Rule]) -> frozenset[Variable]:
    """What is needed of a body besides its atoms: the variables of heads and of all other literals."""
    variables: set[Variable] = set()
    for rule in rules:
        variables |= literal_variables(rule.head)
        for literal in rule.body:
            if not isinstance(literal, Atom):
                variables |= literal_variables(literal)
    return frozenset(variables)


class NodeNames:
    """Names the node relations of a program: nodes whose rules say the same are one, with the first rule."""

    def __init__(self) -> None:
        self._rules: dict[Rule, Rule] = {}
        self._taken: set[str] = set()

    def named(self, rule: Rule, near: str) -> Rule:
        """The rule of a node, with a head named after a relation for which it was first made."""
        key = canonical(replace(rule, head=replace(rule.head, relation="@")))
        if key not in self._rules:
            number = 1
            while f"@{near}.node{number}" in self._taken:
                number += 1
            name = f"@{near}.node{number}"
            self._taken.add(name)
            head = replace(rule.head, relation=name)
            variables = ", ".join(str(arg.name) for arg in head.args if isinstance(arg, Variable))
            text = f"{name}({variables}) // a node of: {rule.text}"
            self._rules[key] = replace(rule, head=head, text=text)
        return self._rules[key]


def make_node_rules(
    rules: Sequence[Rule], body: tuple[Literal, ...], decomposition: Decomposition, names: NodeNames
) -> NodeRules | None:
    """The rules over the nodes of a decomposition of `body`, which is the united one of `rules`.

    None if a node has nothing to do with the rest of the body.
    """
    filters, tail = _place_filters(body, decomposition)
    needed = frozenset().union(*(literal_variables(part) for part in tail))
    needed |= frozenset().union(*(literal_variables(rule.head) for rule in rules))
    parts: list[NodePart] = []
    nodes: dict[str, Rule] = {}
    for node in decomposition.nodes:
        others = [other.variables for other in decomposition.nodes if other is not node]
        part = _part(node, node.variables & needed.union(*others), filters[node], rules[0], body)
        if part is None:
            return None
        if part.rule is not None:
            named = names.named(part.rule, rules[0].head.relation)
            nodes[named.head.relation] = named
            part = replace(part, atom=replace(part.atom, relation=named.head.relation))
        parts.append(part)
    over_body = (*dict.fromkeys(part.atom for part in parts), *tail)
    over = {rule: replace(rule, body=over_body, order=BodyOrder.TREE) for rule in rules}
    return NodeRules(decomposition, body, tuple(parts), tuple(nodes.values()), over)


def _part(
    node: Node, wanted: frozenset[Variable], filters: list[Literal], first: Rule, body: Sequence[Literal]
) -> NodePart | None:
    """A node whose variables in `wanted` are needed elsewhere, its relation unnamed; None if none are."""
    literals = [body[at] for at in _in_order(node, body)]
    if len(literals) == 1 and not filters:
        (atom,) = literals
        assert isinstance(atom, Atom)
        return NodePart(node, _forget(atom, wanted), (), None)
    kept = tuple(dict.fromkeys(v for part in literals for v in _variables_in_order(part) if v in wanted))
    if not kept:
        return None
    head = Atom("@", kept, first.span)
    rule = blank_rule(Rule(head, (*literals, *filters), first.span, first.text))
    return NodePart(node, head, tuple(filters), rule)


def _place_filters(
    body: Sequence[Literal], decomposition: Decomposition
) -> tuple[dict[Node, list[Literal]], list[Literal]]:
    """The literals that only filter, at the first node that binds all their variables; and the others.

    What can fail is among the others: it filters what all nodes leave.
    """
    placed: dict[Node, list[Literal]] = {node: [] for node in decomposition.nodes}
    tail: list[Literal] = []
    for literal in body:
        if isinstance(literal, Atom):
            continue
        home = None
        if not isinstance(literal, Aggregate) and not can_fail(literal):
            home = next((n for n in placed if binds(literal, n.variables) == frozenset()), None)
        (tail if home is None else placed[home]).append(literal)
    return placed, tail


def _in_order(node: Node, body: Sequence[Literal]) -> list[int]:
    """The atoms of a node such that nodes that say the same list them in the same order."""
    return sorted(node.atoms, key=lambda at: (_relation(body[at]), at))


def _relation(literal: Literal) -> str:
    assert isinstance(literal, Atom)
    return literal.relation


def _variables_in_order(literal: Literal) -> list[Variable]:
    assert isinstance(literal, Atom)
    return [arg for arg in literal.args if isinstance(arg, Variable)]


def _forget(atom: Atom, wanted: frozenset[Variable]) -> Atom:
    """The atom with wildcards for variables that nothing else needs, unless it compares them itself."""
    args = tuple(
        Wildcard() if isinstance(arg, Variable) and arg not in wanted and atom.args.count(arg) == 1 else arg
        for arg in atom.args
    )
    return replace(atom, args=args)
