"""Random programs whose rules have cyclic bodies, and ways to have small ones evaluated over hypertrees.

Every program is correct by construction, as in strategies.py: relations come in layers, negation and
aggregates read lower ones, and what recursive rules compute stays within a few numbers. Some have
rules that say how they may be stored: `c` is a closure, `s` an equivalence, `u` a union; `k` has records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from gpuengine.evaluation.driver import stratum
from gpuengine.evaluation.rules import reduction
from gpuengine.evaluation.rules.tree_join import TreeJoin
from gpuengine.language.program import Atom
from gpuengine.planning import evaluators
from gpuengine.planning.plan import Variant
from gpuengine.schemes.table import Table
from tests.generated import Case, Clause, Relation

HEADER = ".type Couple = [left: number, right: number]\n"
INPUTS = (
    Relation("e", ("number",) * 2, 0),
    Relation("f", ("number",) * 2, 0),
    Relation("m", ("number",), 0),
    Relation("t", ("number",) * 3, 0),
)
BELOW = (
    Relation("c", ("number",) * 2, 1),
    Relation("s", ("number",) * 2, 1, "eqrel"),
    Relation("u", ("number",) * 2, 1),
    Relation("k", ("number", "Couple"), 1),
)
RECURSIVE = (
    Relation("p", ("number",) * 2, 2),
    Relation("q", ("number",) * 2, 2),
    Relation("r", ("number",) * 3, 2),
)
ABOVE = (
    Relation("v", ("number",) * 2, 3),
    Relation("w", ("number",) * 3, 3),
    Relation("o", ("number",), 3),
    Relation("z", (), 3),
    Relation("j", ("number", "Couple"), 3),
)
RELATIONS = (*INPUTS, *BELOW, *RECURSIVE, *ABOVE)
STRUCTURE = (
    Clause(("c(a, b)",), ("e(a, b)",)),
    Clause(("c(a, b)",), ("c(a, x)", "c(x, b)")),
    Clause(("s(a, b)",), ("f(a, b)", "m(a)")),
    Clause(("u(a, b)",), ("e(a, b)",)),
    Clause(("u(b, a)",), ("f(a, b)",)),
    Clause(("k(a, [a, b])",), ("e(a, b)",)),
)


@dataclass(frozen=True)
class Mode:
    """Reduce whatever can be, or nothing; the first pass by indexes is made if the delta is `ratio` times
    smaller than another atom: with 0 always."""

    reduces: bool
    ratio: int = 3


PIPELINES = Mode(False)
MODES = (PIPELINES, Mode(True, 0), Mode(True, 1), Mode(True, 3), Mode(True, 1 << 30))


@contextmanager
def hypertrees(mode: Mode) -> Iterator[None]:
    """Take hypertrees for all cyclic bodies, however little they cost, and go through their nodes as said."""

    def is_worth_while(join: TreeJoin, variant: Variant, cost: float) -> bool:
        atoms = [part for part in variant.rule.body if isinstance(part, Atom)]
        tables = [join._database.tables[atom.relation] for atom in atoms]
        are_tables = all(isinstance(table, Table) for table in tables)
        return mode.reduces and are_tables and join._shape(variant.rule) is not None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluators, "LEAST_COST", 0)
        patch.setattr(evaluators, "LEAST_GAIN", 0)
        patch.setattr(TreeJoin, "is_worth_while", is_worth_while)
        patch.setattr(reduction, "FIRST_PASS_RATIO", mode.ratio)
        if mode.reduces:
            patch.setattr(stratum, "SMALL_DELTA", -1)  # the compiled rounds reduce nothing
        yield


class _Bodies:
    """Draws the clauses of one program."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def clause(self, heads: Sequence[Relation], usable: Sequence[Relation]) -> Clause:
        """A rule with a cycle, most often; `heads` share a layer."""
        layer = heads[0].layer
        below = [relation for relation in RELATIONS if relation.layer < min(layer, 3)]
        is_recursive = any(relation.layer == layer for relation in usable)
        names = "abcdxy"[: self.draw(st.integers(3, 6))]
        body = self._cycle(names, [one for one in usable if one.types == ("number", "number")])
        for _ in range(self.draw(st.integers(0, 7 - len(body)))):
            at = self.draw(st.integers(0, len(body)))
            body.insert(at, self._atom(self.draw(st.sampled_from(usable)), names))
        bound = sorted({name for name in names for atom in body if name in _arguments(atom)}) or ["0"]
        if self.draw(st.integers(0, 3)) == 3:
            body.append(self._filter(bound, below))
        if self.draw(st.integers(0, 3)) == 3:
            body.append(self._negation(bound, below))
        if self.draw(st.integers(0, 5)) == 5:
            body.append(self._alternatives(bound, below))
        if self.draw(st.integers(0, 3)) == 3:
            bounded = " % 5" if is_recursive else ""
            body.append(f"g = ({self._bound(bound)} + {self._bound(bound)}){bounded}")
            bound = [*bound, "g"]
        if layer == 3 and self.draw(st.integers(0, 3)) == 3:
            body.append(f"h = {self._aggregate(bound, below)}")
            bound = [*bound, "h"]
        return Clause(tuple(self._head(head, bound) for head in heads), tuple(body))

    def _cycle(self, names: str, usable: Sequence[Relation]) -> list[str]:
        """Binary atoms around a cycle of variables, in either direction; now and then one breaks it."""
        atoms = []
        length = self.draw(st.integers(3, len(names)))
        for i in range(length):
            ends = [names[i], names[(i + 1) % length]]
            if self.draw(st.booleans()):
                ends.reverse()
            if self.draw(st.integers(0, 11)) == 11:
                ends[self.draw(st.integers(0, 1))] = self._odd()
            atoms.append(f"{self.draw(st.sampled_from(usable)).name}({', '.join(ends)})")
        return atoms

    def _odd(self) -> str:
        return str(self.draw(st.sampled_from(["_", "_", "1", "2"])))

    def _atom(self, relation: Relation, names: str) -> str:
        args = []
        for kind in relation.types:
            choice = self.draw(st.integers(0, 7))
            one, other = (self.draw(st.sampled_from(names)) for _ in range(2))
            if kind == "Couple":
                args.append(f"[{one}, {other if choice else '_'}]" if choice < 6 else "_")
            else:
                args.append(one if choice < 6 else self._odd())
        return f"{relation.name}({', '.join(args)})"

    def _bound(self, bound: Sequence[str]) -> str:
        return str(self.draw(st.sampled_from([*bound, *bound, "1"])))

    def _filter(self, bound: Sequence[str], below: Sequence[Relation]) -> str:
        op = self.draw(st.sampled_from(["<", "<=", "!=", "="]))
        return f"{self._bound(bound)} {op} {self._bound(bound)}"

    def _negation(self, bound: Sequence[str], below: Sequence[Relation]) -> str:
        relation = self.draw(st.sampled_from([one for one in below if "Couple" not in one.types]))
        args = [self._bound(bound) if self.draw(st.integers(0, 3)) else "_" for _ in relation.types]
        return f"!{relation.name}({', '.join(args)})"

    def _alternatives(self, bound: Sequence[str], below: Sequence[Relation]) -> str:
        """Two atoms of one relation, or of two, or two filters."""
        one, other = (self.draw(st.sampled_from(INPUTS)) for _ in range(2))
        sides = []
        for relation in (one, self.draw(st.sampled_from([one, one, other]))):
            args = [self._bound(bound) if self.draw(st.booleans()) else "_" for _ in relation.types]
            sides.append(f"{relation.name}({', '.join(args)})")
        return f"({' ; '.join(sides)})"

    def _aggregate(self, bound: Sequence[str], below: Sequence[Relation]) -> str:
        relation = self.draw(st.sampled_from([one for one in below if one.types == ("number", "number")]))
        inner = f"{relation.name}({self._bound(bound)}, i)"
        op = self.draw(st.sampled_from(["count :", "sum i :", "max i :"]))
        return f"{op} {{ {inner} }}"

    def _head(self, relation: Relation, bound: Sequence[str]) -> str:
        args = []
        for kind in relation.types:
            one, other = self._bound(bound), self._bound(bound)
            args.append(f"[{one}, {other}]" if kind == "Couple" else one)
        return f"{relation.name}({', '.join(args)})"


def _arguments(atom: str) -> set[str]:
    inside = atom.partition("(")[2].rstrip(")")
    return set(inside.replace("[", "").replace("]", "").replace(" ", "").split(","))


@st.composite
def cyclic_programs(draw: st.DrawFn) -> Case:
    """Up to five rules with cyclic bodies, some of them recursive through one relation or two."""
    bodies = _Bodies(draw)
    clauses = []
    members = list(RECURSIVE[: draw(st.integers(1, 3))])
    plain = [Clause(("p(a, b)",), ("e(a, b)",)), Clause(("q(a, b)",), ("f(b, a)",))]
    clauses += [clause for clause in plain if draw(st.booleans())]
    for _ in range(draw(st.integers(0, 3))):
        heads = draw(st.lists(st.sampled_from(members), min_size=1, max_size=2))
        usable = [*INPUTS, *draw(st.sampled_from([(), BELOW, BELOW[:1]])), *members]
        clauses.append(bodies.clause(heads, usable))
    for _ in range(draw(st.integers(0, 2))):
        heads = draw(st.lists(st.sampled_from(ABOVE), min_size=1, max_size=3))
        usable = draw(st.sampled_from([INPUTS, (*INPUTS, *BELOW), (*INPUTS, *BELOW, *members)]))
        clauses.append(bodies.clause(heads, usable))
    text = "\n".join(map(str, clauses))
    relations = [one for one in RELATIONS if one in INPUTS or f"{one.name}(" in text]
    names = {relation.name for relation in relations}
    clauses += [clause for clause in STRUCTURE if clause.heads[0][0] in names]
    facts: dict[str, list[tuple[Any, ...]]] = {}
    numbers = range(draw(st.sampled_from([3, 4, 6])))
    least = draw(st.sampled_from([0, 5, 7]))
    for relation in relations:
        if relation in INPUTS or relation == RECURSIVE[0]:
            row = st.tuples(*(st.sampled_from(numbers) for _ in relation.types))
            fewest = least if len(relation.types) > 1 else 0
            facts[relation.name] = draw(st.lists(row, min_size=fewest, max_size=9, unique=True))
    return Case(HEADER, tuple(relations), tuple(clauses), facts)
