"""When a compact scheme costs less than a table."""

from __future__ import annotations

from collections.abc import Iterable

from gpuengine.language.program import Atom, Comparison, Constant, Rule, literal_variables
from gpuengine.planning.linearise import external_name, read_external
from gpuengine.planning.schemes import SchemePlan
from gpuengine.planning.shapes import Candidate, Shape
from gpuengine.schemes.estimate import ClosureEstimate

LEAST_PAIRS = 300_000
"""A closure of fewer pairs is small, and fast, as a table."""
LEAST_GROWTH = 4
"""A closure with fewer pairs than so many times its edges is as small as a table."""
OFF = 10
"""An estimate that is wrong by such a factor is made again."""


_ROW_BYTES = 24
"""What a pair takes in a table with its set and an index, about."""
_COMFORTABLE = 4
"""A table may take one part in so many of the memory budget before a closure is better whatever it costs."""


def lists_itself(candidate: Candidate, rules: Iterable[Rule], plans: Iterable[SchemePlan]) -> bool:
    """Do rules of a closure's own recursion take most of its facts, not only some?

    vf(z, x), vf(z, y) lists them; r(x, y), s(x, y) looks up those of s, r(x, 5) a few. What a rule lists of a
    closure comes a chunk at a time, and costs several times what a join of tables does. `plans` are those
    of the stratum: what copies into a union is not evaluated.
    """
    name = candidate.relation
    unions = [plan.candidate(Shape.UNION) for plan in plans]
    implied = {*candidate.handled, *(rule for union in unions if union is not None for rule in union.handled)}
    remaining = [read_external(rule, name, external_name(name)) for rule in rules if rule not in implied]
    return any(_lists(name, rule) for rule in remaining)


def _lists(relation: str, rule: Rule) -> bool:
    atoms = [literal for literal in rule.body if isinstance(literal, Atom)]
    others = [literal_variables(atom) for atom in atoms if atom.relation != relation]
    for atom in atoms:
        is_known = any(literal_variables(atom) <= known for known in others)
        if atom.relation == relation and not is_known and not _has_constant(atom, rule):
            return True
    return False


def _has_constant(atom: Atom, rule: Rule) -> bool:
    """Is an argument of the atom a constant, or a variable that the rule says is one?"""
    named = {
        side
        for literal in rule.body
        if isinstance(literal, Comparison) and literal.op == "="
        for side, other in ((literal.left, literal.right), (literal.right, literal.left))
        if isinstance(other, Constant)
    }
    return any(isinstance(arg, Constant) or arg in named for arg in atom.args)


def is_worth_while(
    estimate: ClosureEstimate, *, listed: bool = False, budget: float = float("inf")
) -> tuple[bool, str]:
    """Is a closure better than a table, and why?

    `listed`: rules of its own recursion list its facts, which is worth it only if a table is too large.
    """
    about = f"about {estimate.pairs:,.0f} pairs from {estimate.edges:,} edges"
    if not estimate.complete:
        about = f"at least {about}"
    if estimate.pairs < LEAST_PAIRS:
        return False, f"{about} are few"
    if estimate.pairs < LEAST_GROWTH * estimate.edges:
        return False, f"it is sparse: {about}"
    if listed and estimate.pairs * _ROW_BYTES * _COMFORTABLE < budget:
        return False, f"rules of its own recursion list its facts: {about} fit a table"
    return True, about


def has_outgrown(
    facts: int, estimate: ClosureEstimate, *, listed: bool = False, budget: float = float("inf")
) -> bool:
    """Does a table hold far more than was expected of its closure when it became a table?"""
    if listed and facts * _ROW_BYTES * _COMFORTABLE < budget:
        return False
    return facts > OFF * max(estimate.pairs, LEAST_PAIRS)
