"""Order relations into strata and rules into delta variants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from gpuengine.language.graphs import strong_components
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
