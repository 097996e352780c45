"""Is an aggregate in recursion safe? Only if a better value never takes back what follows.

    path(x, z, min d) :- path(x, y, d1), edge(y, z, d2), d = d1 + d2.

While the fixpoint is computed, d1 only goes down, as path keeps the least. So does d, which is what `min d`
allows: what followed from the value before is replaced by something better. Each variable of a rule gets a
`Way` in which it may move; it must be one that its place allows:

| place | allowed |
|---|---|
| the ``min`` of a head | fixed or down; of a ``max`` or ``sum`` fixed or up |
| the same argument without ``sum`` | fixed: such facts are added, each once |
| the ``bor`` of a head | fixed, or gaining bits; of a ``band`` losing them |
| a join by a functor of the user | fixed, or what such functors make of what is joined |
| any other argument of a head, a negated atom, an aggregate, a pattern | fixed |
| an argument of an atom, other than the merged one of its relation | fixed |
| the smaller side of ``<`` and ``<=`` | fixed or down; the larger one fixed or up |
| ``x != 0`` | fixed or gaining bits |
| both sides of ``=`` where both are bound, ``!=``, ``match``, ``contains`` | fixed |

Arithmetic is taken as that of numbers without bounds. That a sum only goes up, as no value of it is negative,
is seen when it is evaluated; that functors of the user keep to the order of their lattice is up to the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Functor,
    Kind,
    Literal,
    Merge,
    Negation,
    Pack,
    Relation,
    Rule,
    Term,
    Variable,
    Wildcard,
    binds,
    literal_variables,
    term_variables,
)
from gpuengine.language.stratification import Edge, components, dependencies, shortest_path


class Way(Enum):
    """Where a value may move while the fixpoint is computed."""

    FIXED = "stays"
    DOWN = "goes down"
    UP = "goes up"
    GAINS = "gains bits"
    LOSES = "loses bits"
    JOINED = "is joined with more"
    ANY = "goes up or down"


_OPPOSITE = {Way.DOWN: Way.UP, Way.UP: Way.DOWN}
_COMPLEMENT = {Way.GAINS: Way.LOSES, Way.LOSES: Way.GAINS}
_OF = {
    **{"min": Way.DOWN, "max": Way.UP, "sum": Way.UP, "count": Way.UP},
    **{"bor": Way.GAINS, "band": Way.LOSES},
}
Merges = Mapping[str, Sequence[Merge]]
"""By relation, the columns in which it keeps one value for each key."""
_SAME = ("min", "max", "to_number", "to_unsigned", "to_float")
Signs = Mapping[Variable, bool]
"""The variables that a comparison of the rule says are not negative."""


def merges_of(rules: Iterable[Rule], relations: Mapping[str, Relation]) -> dict[str, tuple[Merge, ...]]:
    """What rules say in their heads, and declarations by lattices."""
    merges = {name: relation.lattice for name, relation in relations.items() if relation.lattice}
    return merges | {rule.head.relation: (rule.merge,) for rule in rules if rule.merge is not None}


def way_of(merge: Merge) -> Way:
    """Where the value of a column moves."""
    return _OF.get(merge.op, Way.JOINED)


def report_monotony(rules: Sequence[Rule], relations: Mapping[str, Relation], reporter: Reporter) -> None:
    """Report rules of a recursion through aggregates that are not monotone."""
    merges = merges_of(rules, relations)
    edges = _edges(rules)
    for rule, why, source in find_problems(rules, merges):
        cycle = [rule.head.relation, source]
        notes = [f"{rule.head.relation} reads {source} in this rule"]
        for edge in shortest_path(source, rule.head.relation, edges):
            cycle.append(edge.body)
            notes.append(f"{edge.head} reads {edge.body} at {edge.span}")
        what = "/".join(merge.op for merge in merges[source])
        reporter.error(
            codes.NOT_MONOTONE,
            f"the {what} of {source} is not safe in this recursion: {why}",
            *reporter.sources.positions(rule.span),
            "aggregate what is complete, in a later rule; or have the value only get better",
            [f"the recursion: {' -> '.join(cycle)}", *notes],
        )


def find_problems(rules: Sequence[Rule], merges: Merges) -> Iterator[tuple[Rule, str, str]]:
    """Rules of a recursion that are not monotone: each with why, and by the value of which relation."""
    if not merges:
        return
    graph = {head: [body for body, _ in out] for head, out in _edges(rules).items()}
    component = components(graph)
    for rule in rules:
        here = component.get(rule.head.relation)
        moving = {name: merge for name, merge in merges.items() if component.get(name) == here}
        if rule.subsumes or not any(isinstance(part, Atom) and part.relation in moving for part in rule.body):
            continue
        problem = _problem(rule, moving, merges.get(rule.head.relation, ()))
        if problem is not None:
            yield rule, *problem


def _edges(rules: Iterable[Rule]) -> dict[str, dict[tuple[str, str], Edge]]:
    edges: dict[str, dict[tuple[str, str], Edge]] = {}
    for rule in rules:
        out = edges.setdefault(rule.head.relation, {})
        for body, how, span in dependencies(rule.body):
            out.setdefault((body, how), Edge(rule.head.relation, body, how, span))
    return edges


def moving_variables(rule: Rule, moving: Merges) -> frozenset[Variable]:
    """The variables of a monotone rule that move, as the values of relations that are `moving` do."""
    ways: dict[Variable, Way] = {}
    for literal in rule.body:
        if isinstance(literal, Atom):
            for merge in moving.get(literal.relation, ()):
                arg = literal.args[merge.column]
                if isinstance(arg, Variable):
                    ways[arg] = way_of(merge)
    _follow_equations(rule.body, ways, known_signs(rule.body))
    return frozenset(variable for variable, way in ways.items() if way is not Way.FIXED)


def _problem(rule: Rule, moving: Merges, own: Sequence[Merge]) -> tuple[str, str] | None:
    """Why a rule is not monotone, and through which relation; None if it is."""
    ways: dict[Variable, Way] = {}
    origin: dict[Variable, str] = {}
    seen: dict[Variable, int] = {}
    for literal in rule.body:
        if not isinstance(literal, Atom):
            continue
        merges = {merge.column: merge for merge in moving.get(literal.relation, ())}
        for place, arg in enumerate(literal.args):
            if isinstance(arg, Variable):
                seen[arg] = seen.get(arg, 0) + 1
                if place in merges:
                    ways[arg], origin[arg] = way_of(merges[place]), literal.relation
            elif place in merges and not isinstance(arg, Wildcard):
                return "a better value than the one asked for would not match", literal.relation
    source = next(iter(origin.values()), "")
    for variable in ways:
        if seen[variable] > 1:
            return f"{_name(variable)} is compared with another argument", origin[variable]
    signs = known_signs(rule.body)
    problem = _follow_equations(rule.body, ways, signs)
    if problem is None:
        bottoms = [merge.bottom for merges in moving.values() for merge in merges if merge.bottom]
        problem = _check_literals(rule.body, ways, signs, bottoms)
    if problem is not None:
        return (problem, source) if source else None
    merged = {merge.column: merge for merge in own}
    for place, arg in enumerate(rule.head.args):
        way = ways.get(arg, Way.FIXED) if isinstance(arg, Variable) else Way.FIXED
        if way is Way.FIXED:
            continue
        if place not in merged:
            return f"{_name(arg)} {way.value}, and what it was before would stay in the head", source
        if way is not way_of(merged[place]):
            return f"the {merged[place].op} of the head is taken of what {way.value}", source
        if merged[place].is_sum and rule.merge is None:
            return (
                f"{_name(arg)} {way.value}, and without {merged[place].op} each value that it had would "
                "be added as a fact of its own",
                source,
            )
    return None


def _follow_equations(body: Iterable[Literal], ways: dict[Variable, Way], signs: Signs) -> str | None:
    """Find the ways of what equations define; why one can't be followed."""
    bound: frozenset[Variable] = frozenset().union(
        *(literal_variables(part) for part in body if isinstance(part, Atom))
    )
    waiting = [part for part in body if isinstance(part, Comparison | Aggregate)]
    progress = True
    while progress:
        progress = False
        for part in list(waiting):
            new = binds(part, bound)
            if new is None:
                continue
            waiting.remove(part)
            progress = True
            bound |= new
            if isinstance(part, Aggregate) or not new:
                continue
            sides = (part.left, part.right)
            target = next((side for side in sides if isinstance(side, Variable) and side in new), None)
            term = part.right if target is part.left else part.left
            if target is not None:
                ways[target] = _way(term, ways, signs)
                if ways[target] is Way.ANY:
                    return f"{_name(target)} goes up or down as the value gets better"
            else:
                way = _together(ways.get(variable, Way.FIXED) for variable in literal_variables(part) - new)
                if way is Way.JOINED:
                    ways |= dict.fromkeys(new, way)
                elif way is not Way.FIXED:
                    return "a value that moves is matched with a pattern"
    return None


def _check_literals(
    body: Iterable[Literal], ways: Mapping[Variable, Way], signs: Signs, bottoms: Sequence[Term]
) -> str | None:
    defined: set[Variable] = set()
    for part in body:
        if isinstance(part, Atom):
            continue
        variables = literal_variables(part)
        moving = [variable for variable in variables if ways.get(variable, Way.FIXED) is not Way.FIXED]
        if not moving:
            continue
        name = _name(min(moving, key=lambda variable: variable.name))
        if isinstance(part, Negation):
            return f"{name} stands in a negated atom"
        if isinstance(part, Aggregate):
            return f"{name} stands in an aggregate"
        if part.op == "=":
            target = next(
                (side for side in (part.left, part.right) if isinstance(side, Variable) and side in ways),
                None,
            )
            other = part.right if target is part.left else part.left
            is_new = target is not None and target not in defined and target not in term_variables(other)
            if is_new and target is not None and ways[target] is _way(other, ways, signs):
                defined.add(target)
                continue
            return f"{name} is compared with = to something else"
        if part.op in ("<", "<=", ">", ">="):
            small, large = (part.left, part.right) if part.op[0] == "<" else (part.right, part.left)
            if _way(small, ways, signs) in (Way.FIXED, Way.DOWN) and _way(large, ways, signs) in (
                Way.FIXED,
                Way.UP,
            ):
                continue
            return f"a comparison that held may not hold any more when {name} gets better"
        if part.op == "!=" and (part.left in bottoms or part.right in bottoms):
            continue  # what is above the least value stays so
        if part.op == "!=" and _gains_bits(part.left, part.right, ways, signs):
            continue
        return f"{name} is compared by {part.op}"
    return None


def _gains_bits(left: Term, right: Term, ways: Mapping[Variable, Way], signs: Signs) -> bool:
    """Is this ``bits != 0``?"""
    if isinstance(left, Constant):
        left, right = right, left
    return isinstance(right, Constant) and right.value == 0 and _way(left, ways, signs) is Way.GAINS


def _way(term: Term | Wildcard, ways: Mapping[Variable, Way], signs: Signs) -> Way:
    """Where a term moves when its variables do."""
    if isinstance(term, Variable):
        return ways.get(term, Way.FIXED)
    if isinstance(term, Constant | Wildcard):
        return Way.FIXED
    parts = [_way(arg, ways, signs) for arg in term.args]
    if all(part is Way.FIXED for part in parts):
        return Way.FIXED
    if isinstance(term, Pack) or term.op.startswith("@"):
        is_pack = isinstance(term, Pack)
        return Way.ANY if is_pack and set(parts) - {Way.FIXED, Way.JOINED} else Way.JOINED
    if Way.JOINED in parts:
        return Way.JOINED
    if Way.GAINS in parts or Way.LOSES in parts:
        return _bitwise(term.op, parts)
    if term.op == "-":
        parts[1] = _OPPOSITE.get(parts[1], parts[1])
        return _together(parts)
    if term.op == "neg":
        return _OPPOSITE.get(parts[0], parts[0])
    if term.op == "+" or term.op in _SAME:
        return _together(parts) if term.type.kind is not Kind.SYMBOL or term.op in _SAME else Way.ANY
    if term.op in ("*", "/"):
        return _scaled(term, parts, signs)
    return Way.ANY


def _bitwise(op: str, parts: Sequence[Way]) -> Way:
    if op in ("bor", "band"):
        return _together(parts)
    if op in ("bshl", "bshru"):
        return parts[0] if parts[1] is Way.FIXED else Way.ANY
    return _COMPLEMENT[parts[0]] if op == "bnot" else Way.ANY


def _scaled(term: Functor, parts: Sequence[Way], signs: Signs) -> Way:
    """A product with, or quotient by, what stays and has a known sign."""
    left, right = term.args
    moving, factor = (left, right) if parts[1] is Way.FIXED else (right, left)
    way = parts[0] if moving is left else parts[1]
    if Way.FIXED not in parts or (term.op == "/" and factor is left):
        both_positive = all(_is_positive(arg, signs) for arg in term.args)
        return _together(parts) if both_positive and term.op == "*" else Way.ANY
    if _is_positive(factor, signs):
        return way
    if isinstance(factor, Constant) and isinstance(factor.value, int | float) and factor.value < 0:
        return _OPPOSITE.get(way, way)
    return Way.ANY


def _is_positive(term: Term, signs: Signs) -> bool:
    """Is it known not to be negative?"""
    if term.type.kind is Kind.UNSIGNED:
        return True
    if isinstance(term, Constant):
        return isinstance(term.value, int | float) and term.value >= 0
    return isinstance(term, Variable) and term in signs


def known_signs(body: Iterable[Literal]) -> dict[Variable, bool]:
    """The variables that comparisons with constants keep from being negative."""
    signs: dict[Variable, bool] = {}
    for part in body:
        if isinstance(part, Comparison):
            for op, variable, bound in (
                (part.op, part.left, part.right),
                (_turned(part.op), part.right, part.left),
            ):
                value = bound.value if isinstance(bound, Constant) else None
                if op in (">", ">=") and isinstance(variable, Variable) and isinstance(value, int | float):
                    signs |= {variable: True} if value >= 0 else {}
    return signs


def _turned(op: str) -> str:
    return {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)


def _together(parts: Iterable[Way]) -> Way:
    moving = {part for part in parts if part is not Way.FIXED}
    return Way.FIXED if not moving else moving.pop() if len(moving) == 1 else Way.ANY


def _name(variable: object) -> str:
    assert isinstance(variable, Variable)
    return variable.name.partition("@")[0] or "what is computed"
