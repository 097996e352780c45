"""Find relations whose rules imply a structure that can be kept in a better way than fact by fact.

    path(x, y) :- edge(x, y).                      a closure: a graph and its reachability
    path(x, z) :- path(x, y), path(y, z).

    same(y, x) :- same(x, y).                      an equivalence: classes
    same(x, z) :- same(x, y), same(y, z).

    agent(x) :- person(x).                         a union: read where its facts already are
    agent(x) :- company(x).

The program is one after `rewrite` and `share_equal_relations`. Rules are recognised by what they say,
whatever the names of variables and the order of atoms.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpuengine.language.program import Atom, Program, Relation, Rule, Variable
from gpuengine.planning.plan import describe
from gpuengine.planning.sharing import Part, composition, copy_cycles, copy_permutation, is_transitive


class Shape(Enum):
    """A structure of a relation."""

    CLOSURE = "closure"
    EQUIVALENCE = "equivalence"
    UNION = "union"


@dataclass(frozen=True, slots=True)
class Source:
    """The relation that `rule` copies: u(a_0, ..) holds if relation(b_0, ..), b_j = a_{permutation[j]}."""

    relation: str
    permutation: tuple[int, ...]
    rule: Rule

    @property
    def part(self) -> Part:
        return self.relation, self.permutation


@dataclass(frozen=True, slots=True)
class Candidate:
    """A shape that a relation can have.

    `handled` are the rules that the structure implies: nobody has to evaluate them. `sources` are those
    of a union, or the one relation whose closure a linear closure is. `linear` says that it is a
    closure by linear recursion over this relation: nothing else may derive into it, and no facts may
    be loaded. `why` is a short sentence for a user.
    """

    relation: str
    shape: Shape
    handled: tuple[Rule, ...]
    sources: tuple[Source, ...]
    linear: bool
    why: str


def find_shapes(program: Program) -> dict[str, tuple[Candidate, ...]]:
    """The shapes that each relation can have, best first; only relations that can have one."""
    finder = _Finder(program)
    shapes: dict[str, tuple[Candidate, ...]] = {}
    for name in program.relations:
        results = [finder.judge(name, shape) for shape in (Shape.EQUIVALENCE, Shape.CLOSURE, Shape.UNION)]
        if candidates := tuple(result for result in results if isinstance(result, Candidate)):
            shapes[name] = candidates
    return shapes


def shape_problem(program: Program, relation: str, shape: Shape) -> str:
    """Why the relation can't have that shape, for an error message; empty if it can."""
    result = _Finder(program).judge(relation, shape)
    return result if isinstance(result, str) else ""


class _Finder:
    """Judges relation by relation: each shape is found, or there is a reason why not."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._rules: dict[str, list[Rule]] = {name: [] for name in program.relations}
        for rule in program.rules:
            self._rules[rule.head.relation].append(rule)
        self._directives = {(directive.relation, directive.kind) for directive in program.directives}
        self._cyclic = {rule.head.relation: rule for copies in copy_cycles(program) for rule in copies}

    def judge(self, name: str, shape: Shape) -> Candidate | str:
        if (name, "limitsize") in self._directives:
            return "it has a .limitsize"
        if shape is Shape.UNION:
            return self._union(name)
        relation = self._program.relations[name]
        problem = _not_over_one_type(relation, shape)
        if problem:
            return problem
        return self._closure(name) if shape is Shape.CLOSURE else self._equivalence(relation)

    def _union(self, name: str) -> Candidate | str:
        sources = [source for source in self._sources(name) if source.relation != name]
        if name in self._cyclic:
            return f"{_told(self._cyclic[name])} is part of a cycle of rules that copy it to itself"
        if not sources:
            return "no rule copies another relation into it"
        first: dict[Part, Source] = {}
        for source in sources:
            first.setdefault(source.part, source)
        handled = tuple(source.rule for source in sources)
        why = f"{_told(handled[0])} copies {sources[0].relation} into it"
        if len(handled) > 1:
            rules = f"{len(handled) - 1} more rule{'s' if len(handled) > 2 else ''}"
            why = f"{_told(handled[0])} and {rules} copy relations into it"
        return Candidate(name, Shape.UNION, handled, tuple(first.values()), False, why)

    def _closure(self, name: str) -> Candidate | str:
        transitive = next((rule for rule in self._rules[name] if is_transitive(rule)), None)
        if transitive is None:
            return self._linear_closure(name)
        within = {(name, (0, 1)), *(source.part for source in self._sources(name))}
        handled = self._compositions(name, within)
        return Candidate(name, Shape.CLOSURE, handled, (), False, f"{_told(transitive)} makes it transitive")

    def _linear_closure(self, name: str) -> Candidate | str:
        """r(x, y) :- e(x, y) with r(x, z) :- e(x, y), r(y, z) or r(x, z) :- r(x, y), e(y, z), or both."""
        itself = (name, (0, 1))
        sources = {s.part: s for s in reversed(self._sources(name)) if s.relation != name}
        pairs = [(rule, composition(rule) or ()) for rule in self._rules[name]]
        linear = [(rule, part) for rule, pair in pairs if itself in pair for part in pair if part in sources]
        if not linear:
            return "no rule makes it transitive"
        recursive, part = linear[0]
        source = sources[part]
        steps = self._compositions(name, {itself, source.part})
        copies = [other.rule for other in self._sources(name) if other.part == source.part]
        closure = "the closure of " + source.relation + (" reversed" if source.permutation == (1, 0) else "")
        for rule in self._rules[name]:
            if rule not in steps and rule not in copies:
                return f"{_told(rule)} makes it more than {closure}"
        if (name, "input") in self._directives:
            return f"it has an .input, which makes it more than {closure}"
        why = f"{_told(recursive)} makes it {closure}"
        return Candidate(name, Shape.CLOSURE, tuple(self._rules[name]), (source,), True, why)

    def _equivalence(self, relation: Relation) -> Candidate | str:
        """Symmetric and transitive; so each end of a fact is equal to itself, and direction is no matter."""
        name = relation.name
        symmetric = [s.rule for s in self._sources(name) if s.part == (name, (1, 0))]
        if not symmetric:
            return "no rule makes it symmetric"
        itself: set[Part] = {(name, (0, 1)), (name, (1, 0))}
        transitive = self._compositions(name, itself)
        if not transitive:
            return "no rule makes it transitive"
        sources = {source.relation for source in self._sources(name)}
        within = itself | {(source, order) for source in sources for order in ((0, 1), (1, 0))}
        implied = (*symmetric, *self._compositions(name, within))
        handled = tuple(rule for rule in self._rules[name] if rule in implied or _is_reflexive(rule))
        why = f"{_told(symmetric[0])} makes it symmetric and {_told(transitive[0])} transitive"
        if "eqrel" in relation.qualifiers:
            why = "it is declared eqrel"
        return Candidate(name, Shape.EQUIVALENCE, handled, (), False, why)

    def _sources(self, name: str) -> list[Source]:
        """What each copy rule of the relation copies, in the order of rules."""
        sources: list[Source] = []
        for rule in self._rules[name]:
            permutation = copy_permutation(self._program, rule)
            if permutation is not None:
                assert isinstance(rule.body[0], Atom)
                sources.append(Source(rule.body[0].relation, permutation, rule))
        return sources

    def _compositions(self, name: str, within: set[Part]) -> tuple[Rule, ...]:
        """The rules that compose two parts, both of them in `within`."""
        composed = [(rule, composition(rule)) for rule in self._rules[name]]
        return tuple(rule for rule, parts in composed if parts and within.issuperset(parts))


def _is_reflexive(rule: Rule) -> bool:
    """Is it r(x, x) :- r(x, _) or r(x, x) :- r(_, x)?"""
    body = rule.body[0] if len(rule.body) == 1 else None
    if not isinstance(body, Atom) or body.relation != rule.head.relation:
        return False
    x, other = rule.head.args
    return isinstance(x, Variable) and x == other


def _not_over_one_type(relation: Relation, shape: Shape) -> str:
    if relation.arity != 2:
        columns = f"{relation.arity} column{'' if relation.arity == 1 else 's'}"
        article = "an" if shape is Shape.EQUIVALENCE else "a"
        return f"{relation.name} has {columns}; {article} {shape.value} has 2"
    first, second = (attribute.type for attribute in relation.attributes)
    if first.space != second.space:
        return f"its columns have different types ({first.name}, {second.name})"
    return ""


def _told(rule: Rule) -> str:
    """The rule as one would write it, on one line."""
    head = describe(rule.head)
    return f"{head} :- {', '.join(map(describe, rule.body))}" if rule.body else f"the fact {head}"
