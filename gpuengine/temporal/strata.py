"""The dependency graph of a program: components, layers of negation, recursive predicates (Definition 5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gpuengine.language.graphs import strong_components
from gpuengine.temporal.syntax import Negated, Relational, Rule, atoms_of, head_atom


def head_predicate(rule: Rule) -> str | None:
    """The predicate that a rule derives; None for constraints and for Top."""
    head = head_atom(rule.head)
    return head.predicate if isinstance(head, Relational) else None


def body_predicates(rule: Rule, *, negated: bool | None = None) -> list[str]:
    """The predicates of the body: all, or those of atoms that are (not) negated."""
    return [
        atom.predicate
        for literal in rule.body
        if negated is None or isinstance(literal, Negated) is negated
        for atom in atoms_of(literal)
    ]


def components(rules: Iterable[Rule]) -> list[tuple[str, ...]]:
    """The strongly connected components of the predicates, each after those that it depends on."""
    needs: dict[str, set[str]] = {}
    for rule in rules:
        for name in body_predicates(rule):
            needs.setdefault(name, set())
        head = head_predicate(rule)
        if head is not None:
            needs.setdefault(head, set()).update(body_predicates(rule))
    return strong_components(needs)


def recursive_predicates(rules: Sequence[Rule]) -> set[str]:
    """Those that a path with a cycle leads to: new facts of them may come in every round."""
    recursive: set[str] = set()
    for members in components(rules):
        for rule in rules:
            head = head_predicate(rule)
            if head in members:
                body = body_predicates(rule)
                if any(name in recursive or name in members for name in body):
                    recursive.update(members)
    return recursive


def layers(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Rules in layers: what a rule negates is complete in an earlier one. One layer without negation.

    Constraints come where what they read is complete: behind everything else, in a layer of their own if
    there are any.
    """
    depth: dict[str, int] = {}
    for members in components(rules):
        level = 0
        for rule in rules:
            if head_predicate(rule) in members:
                inside = set(members)
                for name in body_predicates(rule, negated=False):
                    level = max(level, depth.get(name, 0) if name not in inside else 0)
                for name in body_predicates(rule, negated=True):
                    level = max(level, depth.get(name, 0) + 1)
        depth.update(dict.fromkeys(members, level))
    deriving = [rule for rule in rules if head_predicate(rule) is not None]
    by_depth: list[list[Rule]] = [[] for _ in range(max((depth[_head(r)] for r in deriving), default=-1) + 1)]
    for rule in deriving:
        by_depth[depth[_head(rule)]].append(rule)
    return [layer for layer in by_depth if layer]


def _head(rule: Rule) -> str:
    name = head_predicate(rule)
    assert name is not None
    return name


def negative_cycle(rules: Sequence[Rule]) -> tuple[list[str], Rule, Negated] | None:
    """A cycle through a negation: its predicates, in the order of derivation, and where the negation is."""
    for members in components(rules):
        inside = set(members)
        for rule in rules:
            head = head_predicate(rule)
            if head not in inside:
                continue
            assert head is not None
            for literal in rule.body:
                if isinstance(literal, Negated):
                    for atom in atoms_of(literal):
                        if atom.predicate in inside:
                            return _path(rules, head, atom.predicate, inside), rule, literal
    return None


def _path(rules: Sequence[Rule], start: str, goal: str, inside: Collection[str]) -> list[str]:
    """Predicates from `start` to `goal`, each used by a rule for the next."""
    before: dict[str, str | None] = {start: None}
    waiting = [start]
    for name in waiting:
        if name == goal:
            break
        for rule in rules:
            head = head_predicate(rule)
            if head in inside and head not in before and name in body_predicates(rule):
                assert head is not None
                before[head] = name
                waiting.append(head)
    path: list[str] = []
    at: str | None = goal
    while at is not None:
        path.append(at)
        at = before[at]
    return path[::-1]


def reached_from(rules: Iterable[Rule], names: Iterable[str]) -> set[str]:
    """The predicates that facts of `names` may have a part in, with these themselves."""
    rules = list(rules)
    reached = set(names)
    grew = True
    while grew:
        grew = False
        for rule in rules:
            head = head_predicate(rule)
            if head is not None and head not in reached and not reached.isdisjoint(body_predicates(rule)):
                reached.add(head)
                grew = True
    return reached
