"""How a DatalogMTL program would be evaluated: strata, where it moves facts, what Procedure 3 may drop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuengine.temporal.propagation import drifts, is_backward, is_forward
from gpuengine.temporal.strata import (
    body_predicates,
    components,
    head_predicate,
    layers,
    recursive_predicates,
)
from gpuengine.temporal.syntax import Bottom, Negated, Program, Relational, Rule, Unary, atoms_of, head_atom


@dataclass(frozen=True)
class RulePlan:
    """One rule: which way it propagates, and by what Procedure 3 may drop it."""

    number: int
    text: str
    propagates: str
    may_be_dropped: str


@dataclass(frozen=True)
class TemporalPlan:
    """What `gpuengine plan` shows of a DatalogMTL program."""

    strata: list[dict[str, Any]]
    propagates: str
    drifts: list[str]
    rules: list[RulePlan]
    constraints: list[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "strata": self.strata,
            "propagates": self.propagates,
            "moves_for_ever": self.drifts,
            "rules": [vars(rule) for rule in self.rules],
            "constraints": self.constraints,
        }

    def render(self) -> str:
        lines = [f"The program is {self.propagates}."]
        for number, stratum in enumerate(self.strata, 1):
            kind = "recursive" if stratum["recursive"] else "not recursive"
            if stratum["reads_recursive"] and not stratum["recursive"]:
                kind = "reads what is recursive"
            if stratum["timeless"]:
                kind += ", no operators"
            lines.append(f"stratum {number}: {', '.join(stratum['predicates'])} ({kind})")
        if self.drifts:
            lines += [f"moves facts for ever: {drift}" for drift in self.drifts]
            lines.append("  so it needs --rounds or --horizon")
        else:
            lines.append(
                "no recursion moves facts through time for ever: no bound is needed for facts with ends"
            )
        lines.append("rules:")
        for rule in self.rules:
            lines.append(f"  {rule.number}. {rule.text}")
            lines.append(f"     {rule.propagates}; Procedure 3: {rule.may_be_dropped}")
        if self.constraints:
            lines.append("constraints:")
            lines += [f"  {text}" for text in self.constraints]
        return "\n".join(lines) + "\n"


def plan_of(program: Program) -> TemporalPlan:
    """The plan, from the program alone: facts are taken to have ends."""
    deriving = [rule for rule in program.rules if head_predicate(rule) is not None]
    recursive = recursive_predicates(deriving)
    layer_of = {id(rule): number for number, layer in enumerate(layers(deriving), 1) for rule in layer}
    strata = []
    for members in components(deriving):
        own = [rule for rule in deriving if head_predicate(rule) in members]
        inside = set(members)
        if own:
            strata.append(
                {
                    "predicates": sorted(members),
                    "layer": max(layer_of[id(rule)] for rule in own),
                    "recursive": any(not inside.isdisjoint(body_predicates(rule)) for rule in own),
                    "reads_recursive": not recursive.isdisjoint(inside),
                    "timeless": all(is_timeless(rule) for rule in own),
                }
            )
    rules = [
        RulePlan(number, str(rule), _direction([rule]), _dropping(rule, recursive, deriving))
        for number, rule in enumerate(program.rules, 1)
        if head_predicate(rule) is not None
    ]
    constraints = [str(rule) for rule in program.rules if isinstance(head_atom(rule.head), Bottom)]
    moving = [str(drift) for drift in drifts(deriving, {})]
    return TemporalPlan(strata, _direction(deriving), moving, rules, constraints)


def is_timeless(rule: Rule) -> bool:
    """No operators at all: the rule says the same at every time."""
    return isinstance(rule.head, Relational) and not any(
        isinstance(literal, Negated) or not _plain(literal) for literal in rule.body
    )


def _plain(literal: Any) -> bool:
    return not isinstance(literal, Unary) and (
        isinstance(literal, Relational) or not any(True for _ in atoms_of(literal))
    )


def _direction(rules: list[Rule]) -> str:
    forward, backward = all(map(is_forward, rules)), all(map(is_backward, rules))
    if forward and backward:
        return "forward- and backward-propagating"
    if forward or backward:
        return "forward-propagating" if forward else "backward-propagating"
    return "neither forward- nor backward-propagating"


def _dropping(rule: Rule, recursive: set[str], rules: list[Rule]) -> str:
    head = head_predicate(rule)
    if head not in recursive:
        return f"dropped when all predicates that are not recursive are complete ({head} is one)"
    settled = [
        str(literal)
        for literal in rule.body
        if not isinstance(literal, Negated)
        and (names := [atom.predicate for atom in atoms_of(literal)])
        and not any(name in recursive for name in names)
    ]
    if not settled:
        return "kept: all of its body is recursive"
    text = f"dropped if one of these holds nowhere: {'; '.join(settled)}"
    if all(map(is_forward, rules)) or all(map(is_backward, rules)):
        text += "; or when new facts are past the times at which they hold"
    return text
