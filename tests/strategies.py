"""Random correct programs in Soufflé's dialect, with small fact sets, for hypothesis.

A `Case` keeps a program as declarations and clauses, a clause as heads and literals, so that tests
can permute and rename parts of it. Every program is correct by construction:

- relations come in layers; a rule reads its own and lower layers, negation and aggregates only lower
  ones, so the program is stratified;
- every variable is bound by a positive atom or an equation over bound variables;
- rules that compute values either read lower layers only, or compute within a finite set (a modulus,
  a mask, a guarded counter), so evaluation ends.

Variables are called ``v0, v1, ...`` (and ``w0, ...`` inside aggregates), relations ``r0, r1, ...``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.generated import (
    BOUNDED,
    COMPARISONS,
    COMPOUND_TYPES,
    EXPRESSIONS,
    PACKS,
    PRIMITIVES,
    VALUES,
    Case,
    Clause,
    Relation,
    literal,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]


class _Clauses:
    """Draws the clauses of one program; knows the relations and the pool of values of each type."""

    def __init__(self, draw: Draw, relations: Sequence[Relation], pools: dict[str, list[Any]]) -> None:
        self.draw = draw
        self.relations = relations
        self.pools = pools

    def constant(self, type_: str) -> str:
        if type_ in PACKS:
            template, slots = self.draw(st.sampled_from([p for p in PACKS[type_] if type_ not in p[1]]))
            return str(template.format(*(self.constant(slot) for slot in slots)))
        return literal(self.draw(st.sampled_from(self.pools[type_])), type_)

    def atom(self, relation: Relation, bound: dict[str, str], prefix: str = "v") -> str:
        """An atom over new and old variables; `bound` (name to type) learns the new ones."""
        return (
            f"{relation.name}({', '.join(self._pattern(type_, bound, prefix) for type_ in relation.types)})"
        )

    def _pattern(self, type_: str, bound: dict[str, str], prefix: str, depth: int = 1) -> str:
        choice = self.draw(st.integers(0, 9))
        if choice == 7 and type_ not in PACKS:
            return self.constant(type_)
        if choice >= 8:
            return "_"
        if choice >= 5 and type_ in PACKS and depth:
            template, slots = self.draw(st.sampled_from(PACKS[type_]))
            return str(template.format(*(self._pattern(slot, bound, prefix, depth - 1) for slot in slots)))
        # Two names per type, so that joins and repeated variables are common.
        start = 2 * (*PRIMITIVES, *PACKS).index(type_)
        name = f"{prefix}{start + self.draw(st.integers(0, 1))}"
        bound.setdefault(name, type_)
        return name

    def known(self, type_: str, bound: dict[str, str]) -> str:
        """A bound variable of `type_`, or a constant."""
        names = [name for name, its_type in bound.items() if its_type == type_]
        if names and self.draw(st.integers(0, 4)):
            return str(self.draw(st.sampled_from(names)))
        return self.constant(type_)

    def expression(self, type_: str, bound: dict[str, str], table: dict[str, Any]) -> str:
        template, slots = self.draw(st.sampled_from(table[type_]))
        return str(template.format(*(self.known(slot, bound) for slot in slots)))

    def filter(self, bound: dict[str, str], below: Sequence[Relation], groups: bool = True) -> str:
        """A literal that binds nothing: a comparison, a negation, a string test, or with `groups` a group."""
        choice = self.draw(st.integers(0, 5))
        if choice <= 1 and below:
            relation = self.draw(st.sampled_from(below))
            args = (self.known(t, bound) if self.draw(st.booleans()) else "_" for t in relation.types)
            return f"!{relation.name}({', '.join(args)})"
        if choice == 2 and groups:
            left, right = self._comparison(bound), self._comparison(bound)
            return f"({left} ; {right})"
        if choice == 3:
            test = self.draw(st.sampled_from(['contains("a", {})', 'match("a.*", {})', '!match("[ab]", {})']))
            return str(test.format(self.known("symbol", bound)))
        return self._comparison(bound)

    def _comparison(self, bound: dict[str, str]) -> str:
        type_ = self.draw(st.sampled_from(sorted({*bound.values()} & {*PRIMITIVES}) or ["number"]))
        op = self.draw(st.sampled_from(COMPARISONS))
        return f"{self.known(type_, bound)} {op} {self.known(type_, bound)}"

    def aggregate(
        self, bound: dict[str, str], below: Sequence[Relation], nested: bool = True
    ) -> tuple[str, str]:
        """An aggregate over lower layers, and its type; it may read the bound variables."""
        relation = self.draw(st.sampled_from(below))
        local: dict[str, str] = {}
        args = [
            self.known(type_, bound)
            if self.draw(st.integers(0, 2)) == 0
            else self._pattern(type_, local, "w")
            for type_ in relation.types
        ]
        body = [f"{relation.name}({', '.join(args)})"]
        numeric = [(name, type_) for name, type_ in local.items() if type_ in ("number", "unsigned", "float")]
        if self.draw(st.booleans()):
            body.append(self._comparison({**bound, **local}))
        if nested and self.draw(st.integers(0, 4)) == 4:
            inner, type_ = self.aggregate({**bound, **local}, below, nested=False)
            # The inner aggregate's own variables must not meet the outer one's.
            inner = re.sub(r"\bw(\d+)\b", lambda m: m[0] if m[0] in local else f"w{int(m[1]) + 50}", inner)
            body.append(f"{literal(VALUES[type_][1], type_)} <= {inner}")
        if not numeric or self.draw(st.booleans()):
            return f"count : {{ {', '.join(body)} }}", "number"
        name, type_ = self.draw(st.sampled_from(numeric))
        op = self.draw(
            st.sampled_from(("sum", "min", "max", "mean") if type_ == "float" else ("sum", "min", "max"))
        )
        return f"{op} {name} : {{ {', '.join(body)} }}", type_

    def rule(self, heads: Sequence[Relation], recursion: bool) -> Clause:
        """A rule for `heads`, which share a layer; with `recursion` it may read that layer too."""
        layer = heads[0].layer
        below = [relation for relation in self.relations if relation.layer < layer]
        usable = [relation for relation in self.relations if relation.layer < layer + recursion]
        bound: dict[str, str] = {}
        atoms = self.draw(st.lists(st.sampled_from(usable), max_size=3))
        body = [self.atom(relation, bound) for relation in atoms]
        recursive = any(relation.layer == layer for relation in atoms)
        if self.draw(st.integers(0, 3)) == 3:
            body.append(self._alternatives(bound, below))
        for _ in range(self.draw(st.integers(0, 2))):
            body.append(self.filter(bound, below))
        if self.draw(st.integers(0, 2)) == 2:
            type_ = self.draw(st.sampled_from(PRIMITIVES))
            expression = self.expression(type_, bound, BOUNDED if recursive else EXPRESSIONS)
            body.append(self.binding(f"v{40 + len(body)}", type_, expression, bound))
        if below and not recursive and self.draw(st.integers(0, 2)) == 2:
            aggregate, type_ = self.aggregate(bound, below)
            body.append(self.binding(f"v{60 + len(body)}", type_, aggregate, bound))
        if self.draw(st.integers(0, 9)) == 9:
            body.append(self.binding(f"v{80 + len(body)}", "number", "range(-1, 3)", bound))
        return Clause(tuple(self.head(head, bound, recursive) for head in heads), tuple(body))

    def _alternatives(self, bound: dict[str, str], below: Sequence[Relation]) -> str:
        """``(p(v), ... ; q(v), ...)``: both sides bind one variable of the same type."""
        options = [(r, i) for r in below for i in range(len(r.types)) if r.types[i] in PRIMITIVES]
        if not options:
            return self.filter(bound, below)
        relation, position = self.draw(st.sampled_from(options))
        type_ = relation.types[position]
        others = [option for option in options if option[0].types[option[1]] == type_]
        name = f"v{30 + 2 * PRIMITIVES.index(type_)}"
        sides = []
        for one, place in ((relation, position), self.draw(st.sampled_from(others))):
            args = [name if i == place else "_" for i in range(len(one.types))]
            sides.append(", ".join([f"{one.name}({', '.join(args)})", self.filter(bound, below)]))
        bound[name] = type_
        return f"({' ; '.join(sides)})"

    def binding(self, name: str, type_: str, expression: str, bound: dict[str, str]) -> str:
        """``v = expression`` or ``expression = v``; v may also be an old variable, which makes it a test."""
        old = [other for other, its_type in bound.items() if its_type == type_]
        target = self.draw(st.sampled_from(old)) if old and self.draw(st.integers(0, 4)) == 4 else name
        bound.setdefault(target, type_)
        if self.draw(st.booleans()):
            return f"{target} = {expression}"
        return f"{expression} = {target}"

    def head(self, relation: Relation, bound: dict[str, str], recursive: bool) -> str:
        return f"{relation.name}({', '.join(self._head_arg(t, bound, recursive) for t in relation.types)})"

    def _head_arg(self, type_: str, bound: dict[str, str], recursive: bool) -> str:
        if type_ in PACKS and not recursive and self.draw(st.booleans()):
            template, slots = self.draw(st.sampled_from(PACKS[type_]))
            return str(template.format(*(self.known(slot, bound) for slot in slots)))
        if type_ in PRIMITIVES and self.draw(st.integers(0, 5)) == 5:
            return self.expression(type_, bound, BOUNDED if recursive else EXPRESSIONS)
        return self.known(type_, bound)

    def fact(self, relation: Relation) -> Clause:
        return Clause((f"{relation.name}({', '.join(map(self.constant, relation.types))})",))

    def closure(self, relation: Relation) -> list[Clause]:
        """A recursive rule for a binary relation over one type: linear, nonlinear or symmetric."""
        name = relation.name
        shapes = (
            Clause((f"{name}(v0, v2)",), (f"{name}(v0, v1)", f"{name}(v1, v2)")),
            Clause((f"{name}(v1, v0)",), (f"{name}(v0, v1)",)),
            Clause(
                (f"{name}(v0, v2)", f"{name}(v2, v0)"), (f"{name}(v0, v1)", f"{name}(v2, v1)", "v0 != v2")
            ),
        )
        return [self.draw(st.sampled_from(shapes))]


@st.composite
def cases(draw: Draw, types: Sequence[str] = PRIMITIVES, compound: bool = False) -> Case:
    """A program of up to three layers of rules over up to three loaded relations."""
    types = draw(st.lists(st.sampled_from(types), min_size=1, max_size=2, unique=True))
    allowed = [
        *types,
        *(draw(st.lists(st.sampled_from([*PACKS]), min_size=1, max_size=2)) if compound else ()),
    ]
    pools = {
        type_: draw(st.lists(st.sampled_from(VALUES[type_]), min_size=2, max_size=5, unique=True))
        for type_ in PRIMITIVES
    }
    inputs = draw(st.lists(_shape(types), min_size=1, max_size=3))
    derived = draw(st.lists(st.tuples(_shape(allowed, least=0), st.integers(1, 3)), min_size=1, max_size=4))
    relations = [Relation(f"r{i}", shape, 0) for i, shape in enumerate(inputs)]
    for shape, layer in derived:
        same = len(shape) == 2 and shape[0] == shape[1]
        qualifier = "eqrel" if same and draw(st.integers(0, 3)) == 3 else ""
        relations.append(Relation(f"r{len(relations)}", shape, layer, qualifier))
    facts = {
        relation.name: draw(
            st.lists(
                st.tuples(*(st.sampled_from(pools[t]) for t in relation.types)), max_size=14, unique=True
            )
        )
        for relation in relations
        if relation.layer == 0 or (pools.keys() >= {*relation.types} and draw(st.integers(0, 3)) == 3)
    }
    header = COMPOUND_TYPES if compound else ""
    return Case(header, tuple(relations), tuple(_clauses(draw, relations, pools)), facts)


def _clauses(draw: Draw, relations: list[Relation], pools: dict[str, list[Any]]) -> list[Clause]:
    builder = _Clauses(draw, relations, pools)
    clauses: list[Clause] = []
    for relation in relations:
        if relation.layer == 0:
            continue
        for i in range(draw(st.integers(1, 3))):
            heads = [relation]
            if draw(st.integers(0, 7)) == 7:
                heads.append(draw(st.sampled_from([r for r in relations if r.layer == relation.layer])))
            clauses.append(builder.rule(heads, recursion=i > 0))
        if draw(st.integers(0, 2)) == 2:
            clauses.append(builder.fact(relation))
        if len(relation.types) == 2 and relation.types[0] == relation.types[1] and draw(st.booleans()):
            clauses += builder.closure(relation)
    return clauses


def _shape(types: Sequence[str], least: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    """Attribute types, mostly one to three; binary relations over one type are common."""
    one = st.sampled_from(types)
    return st.one_of(
        one.map(lambda type_: (type_, type_)),
        st.lists(one, min_size=least, max_size=3).map(tuple),
        st.lists(one, min_size=4, max_size=4).map(tuple),
        st.lists(one, min_size=5, max_size=9).map(tuple),
    )


@st.composite
def queries(draw: Draw) -> tuple[Case, Clause]:
    """A program, and a query over its relations as the rule ``q(variables) :- query.``"""
    case = draw(cases())
    pools = {type_: [*VALUES[type_][:3]] for type_ in PRIMITIVES}
    builder = _Clauses(draw, case.relations, pools)
    bound: dict[str, str] = {}
    atoms = draw(st.lists(st.sampled_from(case.relations), min_size=1, max_size=2))
    body = [builder.atom(relation, bound) for relation in atoms]
    for _ in range(draw(st.integers(0, 2))):
        body.append(builder.filter(bound, case.relations, groups=False))
    if draw(st.integers(0, 2)) == 2:
        type_ = draw(st.sampled_from(PRIMITIVES))
        body.append(builder.binding("v40", type_, builder.expression(type_, bound, EXPRESSIONS), bound))
    answer = Relation("q", tuple(bound.values()), 9)
    whole = replace(case, relations=(*case.relations, answer))
    return whole, Clause((f"q({', '.join(bound)})",), tuple(body))


@st.composite
def counters(draw: Draw) -> Case:
    """Guarded recursion over computed values: numbers, strings and lists that grow to a bound."""
    bound, step = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    start = draw(st.sampled_from([0, 1, -3, 2**24 - 6, 2**31 - 6, 2**32 - 6, 2**63 - 20]))
    relations = (
        Relation("r0", ("number",), 0),
        Relation("r1", ("number",), 1),
        Relation("r2", ("symbol",), 1),
        Relation("r3", ("number", "List"), 1),
        Relation("r4", ("number", "number"), 2),
    )
    clauses = (
        Clause(("r1(v0)",), ("r0(v0)",)),
        Clause((f"r1(v0 + {step})",), ("r1(v0)", f"v0 >= {start}", f"v0 < {start + bound}")),
        Clause(('r2("")',)),
        Clause(
            ("r2(v1)",),
            ("r2(v0)", f"strlen(v0) < {min(bound, 4)}", '(v1 = cat(v0, "a") ; v1 = cat("b", v0))'),
        ),
        Clause(("r3(0, nil)",)),
        Clause(("r3(v2, [v0, v1])",), (f"v0 < {min(bound, 5)}", "v2 = v0 + 1", "r3(v0, v1)")),
        Clause(("r4(v0, v1)",), ("r3(v0, [v1, [_, _]])",)),
        Clause(("r4(v0, v1)",), ("r1(v0)", "v1 = count : { r1(w0), w0 < v0 }")),
    )
    facts = {"r0": [(start,)] if draw(st.booleans()) else [(start,), (0,), (start + 1,)]}
    return Case(COMPOUND_TYPES, relations, clauses, facts)
