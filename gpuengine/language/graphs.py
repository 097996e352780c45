"""Graphs of names: which of them depend on each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def strong_components(needs: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Strongly connected components, those that others need first (Tarjan, without recursion).

    What `needs` has no entry for needs nothing.
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    components: list[tuple[str, ...]] = []
    for root in needs:
        if root in order:
            continue
        work = [(root, iter(sorted(needs[root])))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in order:
                    order[successor] = low[successor] = len(order)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(sorted(needs.get(successor, ())))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], order[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    members = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        members.append(member)
                        if member == node:
                            break
                    components.append(tuple(sorted(members)))
    return components
