"""Rules with Bottom in their heads: what must never be, and where it is."""

from __future__ import annotations

from collections.abc import Mapping

from gpuengine.errors import DataError
from gpuengine.temporal.compiled import compile_rule
from gpuengine.temporal.evaluation import World, answers, collect
from gpuengine.temporal.relations import TemporalRelation
from gpuengine.temporal.spelling import range_text
from gpuengine.temporal.syntax import (
    Bottom,
    Constant,
    Program,
    Rule,
    Term,
    Variable,
    binding_atoms,
    head_atom,
    literal_with_terms,
    variables_of,
)
from gpuengine.temporal.view import Calendar, TemporalView

MAX_VIOLATIONS = 10


class Inconsistent(DataError):
    """Facts violate a constraint, a rule with Bottom in its head; names the rule, the facts and the times."""


def check_constraints(program: Program, world: World, calendar: Calendar, within: tuple[int, int]) -> None:
    """Raise `Inconsistent` if the body of a rule with Bottom in its head holds `within` encoded ends."""
    violations: list[str] = []
    count = 0
    for rule in program.rules:
        if not isinstance(head_atom(rule.head), Bottom):
            continue
        bound = [v for literal in rule.body for atom in binding_atoms(literal) for v in variables_of(atom)]
        variables = tuple(v for v in dict.fromkeys(bound) if not v.name.startswith("_"))
        result = TemporalRelation("Bottom", len(variables))
        for compiled in compile_rule(rule, 0):
            for batch, runs in answers(compiled, world):
                collect(result, batch, variables, runs, within)
        if len(result):
            place = program.sources.span(*rule.span)
            view = TemporalView("Bottom", [str(v) for v in variables], result, world.dictionary, calendar)
            count += len(view)
            for *values, interval in view:
                if len(violations) < MAX_VIOLATIONS:
                    binding = dict(zip(variables, values, strict=True))
                    shown = range_text(interval, as_timestamp=calendar.stamp is not None)
                    violations.append(f"  {place}: {_instance(rule, binding)}, at {shown}")
    if violations:
        more = [f"  and {count - len(violations)} more"] if count > len(violations) else []
        raise Inconsistent(
            "\n".join(["the facts are inconsistent: a constraint is violated", *violations, *more])
        )


def _instance(rule: Rule, binding: Mapping[Variable, str]) -> str:
    """The body with constants for variables."""

    def term(one: Term) -> Term:
        return Constant(binding[one]) if isinstance(one, Variable) and one in binding else one

    return ", ".join(str(literal_with_terms(literal, term)) for literal in rule.body)
