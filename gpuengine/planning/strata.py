"""Order relations into strata and rules into delta variants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from gpuengine.language.program import Atom, Program, Rule
from gpuengine.planning.plan import Plan, Stratum, Variant, needs_of
from gpuengine.planning.selection import selections_of

if TYPE_CHECKING:
    from gpuengine.planning.schemes import SchemePlan


def make_plan(
    program: Program,
    wanted: Iterable[str] | None = None,
    schemes: Mapping[str, SchemePlan] | None = None,
) -> Plan:
    """Strata bottom-up, each rule once, without rules that no `wanted` relation needs (None wants all)."""
    by_head: dict[str, list[Rule]] = {}
    for rule in dict.fromkeys(rule for rule in program.rules if rule.body):
        by_head.setdefault(rule.head.relation, []).append(rule)
    strata: list[Stratum] = []
    selective = set(selections_of(program))  # facts alone may go by these
    for component in strong_components(needs_of(program)):
        own = [rule for name in component for rule in by_head.get(name, ())]
        if own or selective.intersection(component):
            strata.append(_stratum(len(strata), component, own))
    facts = tuple(rule for rule in program.rules if not rule.body)
    plan = Plan(program, tuple(strata), facts, (), schemes or {})
    return plan if wanted is None else plan.restricted_to(wanted)


def member_positions(rule: Rule, members: Collection[str]) -> list[int]:
    """Where the body reads relations of its own stratum."""
    return [i for i, part in enumerate(rule.body) if isinstance(part, Atom) and part.relation in members]


def delta_variants(rule: Rule, members: Collection[str]) -> list[Variant]:
    """One variant for each recursive atom: it reads the delta, the recursive atoms before it read OLD."""
    positions = member_positions(rule, members)
    return [Variant(rule, at, frozenset(positions[:k])) for k, at in enumerate(positions)]


def _stratum(number: int, component: tuple[str, ...], rules: list[Rule]) -> Stratum:
    once: list[Variant] = []
    recursive: list[Variant] = []
    members = frozenset(component)
    for rule in rules:
        variants = delta_variants(rule, members)
        recursive += variants
        if not variants:
            once.append(Variant(rule, None, frozenset()))
    return Stratum(number, component, tuple(once), tuple(recursive))


def strong_components(needs: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Strongly connected components, those that others need first (Tarjan, without recursion)."""
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
                    work.append((successor, iter(sorted(needs[successor]))))
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
