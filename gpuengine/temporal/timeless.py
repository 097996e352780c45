"""Strata without time as ordinary Datalog: where nothing changes, intervals cost and say nothing.

A component of the dependency graph is timeless if its rules have no operators and no negation, and if all
facts that they read hold throughout the horizon (by default, always). What it derives does too, so the
Datalog engine
derives it, with its join plans, closures and threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.temporal.evaluation import World
from gpuengine.temporal.relations import TemporalRelation
from gpuengine.temporal.strata import body_predicates, components, head_predicate
from gpuengine.temporal.syntax import Comparison, Constant, Relational, Rule, Term, Variable
from gpuengine.terms.text import single


def timeless_rules(rules: Sequence[Rule], world: World) -> list[Rule]:
    """The rules of all timeless components that have facts to begin with."""
    settled = {name for name, relation in world.relations.items() if _is_settled(relation, world)}
    rules_to_close: list[Rule] = []
    for members in components(rules):
        own = [rule for rule in rules if head_predicate(rule) in members]
        inside = set(members)
        if not own:
            continue
        reads = {name for rule in own for name in body_predicates(rule)} - inside
        if inside | reads <= settled and all(map(_is_plain, own)):
            rules_to_close += own
        else:
            settled -= inside
    return rules_to_close


def _is_settled(relation: TemporalRelation, world: World) -> bool:
    """Do all facts hold throughout the horizon?"""
    if not len(relation):
        return True
    _, lower, upper = relation.entries()
    return bool((lower <= world.horizon[0]).all() and (upper >= world.horizon[1]).all())


def _is_plain(rule: Rule) -> bool:
    return isinstance(rule.head, Relational) and all(
        isinstance(literal, Relational)
        or (isinstance(literal, Comparison) and literal.operator in ("=", "!="))
        for literal in rule.body
    )


def derive_timeless(rules: Sequence[Rule], world: World) -> None:
    """Put in what timeless rules derive: ids are numbers to the engine."""
    import pyarrow as pa

    from gpuengine.engine import Engine

    numbers = {name: f"p{number}" for number, name in enumerate(world.relations)}
    used = {
        name for rule in rules for name in (*body_predicates(rule), head_predicate(rule)) if name is not None
    }
    derived = {name for rule in rules if (name := head_predicate(rule)) is not None}
    text = [_declaration(numbers[name], world.relations[name].arity) for name in sorted(used)]
    text += [_rule(rule, numbers, world) for rule in rules]
    engine = Engine("\n".join(text) + "\n", backend="cpu")
    for name in used:
        relation = world.relations[name]
        if len(relation):
            atoms = np.flatnonzero(relation.runs.counts[: relation.pool.rows])
            columns = {f"a{j}": relation.column(j, atoms).astype(np.int64) for j in range(relation.arity)}
            engine.load(numbers[name], pa.table(columns or {"a0": np.zeros(1, np.int64)}))
    engine.materialise(wanted=[numbers[name] for name in sorted(derived)])
    for name in derived:
        relation = world.relations[name]
        table = engine[numbers[name]].to_arrow()
        if table.num_rows:
            columns_in = [table.column(j).to_numpy().astype(np.uint32) for j in range(relation.arity)]
            atoms = relation.intern(columns_in, table.num_rows)
            lower = np.full(len(atoms), world.horizon[0], np.int64)
            relation.merge(atoms, lower, np.full(len(atoms), world.horizon[1], np.int64))


def _declaration(name: str, arity: int) -> str:
    # A relation without arguments has one here, always 0, so that it has facts like any other.
    return f".decl {name}({', '.join(f'a{j}: number' for j in range(max(arity, 1)))})"


def _rule(rule: Rule, numbers: dict[str, str], world: World) -> str:
    variables: dict[Variable, str] = {}

    def term(one: Term) -> str:
        if isinstance(one, Constant):
            return str(int(world.dictionary.encode_text(single(one.text))[0]))
        return variables.setdefault(one, f"v{len(variables)}")

    def atom(one: Relational) -> str:
        return f"{numbers[one.predicate]}({', '.join(map(term, one.terms)) or '0'})"

    assert isinstance(rule.head, Relational)
    body = [
        f"{term(literal.left)} {literal.operator} {term(literal.right)}"
        if isinstance(literal, Comparison)
        else atom(literal)
        for literal in rule.body
        if isinstance(literal, Comparison | Relational)
    ]
    return f"{atom(rule.head)} :- {', '.join(body)}."
