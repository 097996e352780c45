"""Stratification: no relation depends on its own negation or on an aggregate over itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gpuengine.errors import Span
from gpuengine.language.graphs import strong_components
from gpuengine.language.program import Aggregate, Atom, Literal, Negation, Rule

SUBSUMED = "<="


class Edge(NamedTuple):
    """`head` depends on `body`; `how` is empty, ``"!"``, ``"<="`` or the name of an aggregate."""

    head: str
    body: str
    how: str
    span: Span


def dependencies(literals: Iterable[Literal], how: str = "") -> Iterator[tuple[str, str, Span]]:
    """The relations a body reads, and how."""
    for literal in literals:
        if isinstance(literal, Atom):
            yield literal.relation, how, literal.span
        elif isinstance(literal, Negation):
            yield literal.atom.relation, how or "!", literal.atom.span
        elif isinstance(literal, Aggregate):
            yield from dependencies(literal.body, how or literal.op)


def bad_cycles(rules: Iterable[Rule]) -> list[list[Edge]]:
    """For each unstratifiable group of relations one cycle; its first edge is the negative one."""
    edges: dict[str, dict[tuple[str, str], Edge]] = {}
    for rule in rules:
        head = rule.head.relation
        out = edges.setdefault(head, {})
        literals = list(rule.body)
        if rule.subsumes:  # the two facts that it compares are of the relation itself
            pair = [part for part in literals if isinstance(part, Atom)][:2]
            literals = [part for part in literals if not any(part is one for one in pair)]
        for body, how, span in dependencies(literals, SUBSUMED if rule.subsumes else ""):
            out.setdefault((body, how), Edge(head, body, how, span))
    component = components({head: [body for body, _ in out] for head, out in edges.items()})
    cycles: list[list[Edge]] = []
    reported: set[int] = set()
    for head, out in edges.items():
        for edge in out.values():
            group = component[head]
            if edge.how and component[edge.body] == group and group not in reported:
                reported.add(group)
                cycles.append([edge, *shortest_path(edge.body, head, edges)])
    return cycles


def shortest_path(start: str, goal: str, edges: dict[str, dict[tuple[str, str], Edge]]) -> list[Edge]:
    """A shortest path of edges from `start` to `goal`."""
    came_by: dict[str, Edge | None] = {start: None}
    queue = deque([start])
    while queue and goal not in came_by:
        for edge in edges.get(queue[0], {}).values():
            if edge.body not in came_by:
                came_by[edge.body] = edge
                queue.append(edge.body)
        queue.popleft()
    path: list[Edge] = []
    step = came_by[goal]
    while step is not None:
        path.append(step)
        step = came_by[step.head]
    return path[::-1]


def components(graph: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """The number of each node's strongly connected component; those that it depends on come before it."""
    return {name: number for number, members in enumerate(strong_components(graph)) for name in members}
