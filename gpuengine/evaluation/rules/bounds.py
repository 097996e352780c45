"""Which ids can reach each column: what lets sets and indexes be addressed directly.

Joins only move ids from column to column, so the ids a rule can derive lie within the bounds of the
columns its variables come from. Flowing the bounds through a stratum's rules before it runs
means that no set has to be widened while pipelines insert into it. Columns that rules compute are
widened when the values are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuengine.evaluation.rules.database import Database
from gpuengine.language.program import Atom, Comparison, Constant, Rule, Variable

NOTHING = (0, 0)
"""The bounds of a column without ids."""


def flow_bounds(rules: Sequence[Rule], database: Database) -> None:
    """Widen the heads of `rules` until nothing changes."""
    readers: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        for name in {part.relation for part in rule.body if isinstance(part, Atom)}:
            readers.setdefault(name, []).append(number)
    # What another scheme admits depends on more than its own rules: who reads one is asked each time.
    others = [n for name in readers if not database.tables[name].is_listed for n in readers[name]]
    waiting = dict.fromkeys(range(len(rules)))
    while waiting:
        number = next(iter(waiting))
        del waiting[number]
        if widen_head(rules[number], database):
            waiting.update(dict.fromkeys(readers.get(rules[number].head.relation, ())))
            waiting.update(dict.fromkeys(others))


def widen_head(rule: Rule, database: Database) -> bool:
    """Have the head of a rule admit what its body can bring; did it not already?"""
    table = database.tables[rule.head.relation]
    before = table.bounds
    table.widen(_head_bounds(rule, database))
    return table.bounds != before


def _head_bounds(rule: Rule, database: Database) -> list[tuple[int, int]]:
    """For each head column the bounds of what the rule can put there; a computed column adds nothing."""
    current = database.tables[rule.head.relation].bounds
    variables = _variable_bounds(rule, database)
    if variables is None:
        return current
    result = []
    for column, arg in enumerate(rule.head.args):
        if isinstance(arg, Constant):
            id = database.dictionary.intern_constant(arg)
            result.append((id, id + 1))
        elif isinstance(arg, Variable) and arg in variables:
            result.append(variables[arg])
        else:
            result.append(current[column])
    return result


def _variable_bounds(rule: Rule, database: Database) -> dict[Variable, tuple[int, int]] | None:
    """What the columns that a variable stands in have in common; None if nothing can be derived."""
    common: dict[Variable, tuple[int, int]] = {}
    for literal in rule.body:
        if not isinstance(literal, Atom):
            continue
        for arg, bounds in zip(literal.args, database.tables[literal.relation].bounds, strict=True):
            if bounds == NOTHING:
                return None
            if isinstance(arg, Variable):
                common[arg] = intersect(common.get(arg, bounds), bounds)
                if common[arg] == NOTHING:
                    return None
    _follow_equations(rule, common, database)
    return common


def _follow_equations(rule: Rule, found: dict[Variable, tuple[int, int]], database: Database) -> None:
    """Give variables that only equal another variable or a constant its bounds."""
    equations = [part for part in rule.body if isinstance(part, Comparison) and part.op == "="]
    changed = True
    while changed:
        changed = False
        for equation in equations:
            for one, other in ((equation.left, equation.right), (equation.right, equation.left)):
                if isinstance(one, Variable) and one not in found:
                    if isinstance(other, Constant):
                        id = database.dictionary.intern_constant(other)
                        found[one] = (id, id + 1)
                        changed = True
                    elif isinstance(other, Variable) and other in found:
                        found[one] = found[other]
                        changed = True


def intersect(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The ids within both bounds; NOTHING if there are none."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low < high else NOTHING
