"""The plan: strata, the delta variants of each rule, and in what order a body is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from gpuengine.language.program import Aggregate, Atom, Comparison, Literal, Negation, Program, Rule, Variable
from gpuengine.planning.selection import Selection, selections_of

if TYPE_CHECKING:
    from gpuengine.planning.schemes import SchemePlan


@dataclass(frozen=True, slots=True)
class Variant:
    """One delta variant of a rule: which atom reads the delta, which atoms before it read OLD.

    `delta` is a position in the body, or None for the rule evaluated once over everything. It looks for
    instances that were there before if it is `in_hindsight`: one that can't be computed was not.
    """

    rule: Rule
    delta: int | None
    old: frozenset[int]
    in_hindsight: bool = False


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that depend on each other, with their rules.

    `once` are evaluated a single time, when the stratum begins; `recursive` again for every delta.
    """

    number: int
    relations: tuple[str, ...]
    once: tuple[Variant, ...]
    recursive: tuple[Variant, ...]

    @property
    def is_recursive(self) -> bool:
        return bool(self.recursive)


@dataclass(frozen=True)
class Plan:
    """`facts` are the program's own facts; `dropped` the rules that nothing wanted depends on.

    `schemes` say for each relation what it may be stored as; one that is not there is a table.
    """

    program: Program
    strata: tuple[Stratum, ...]
    facts: tuple[Rule, ...]
    dropped: tuple[Rule, ...]
    schemes: Mapping[str, SchemePlan] = field(default_factory=dict)

    def restricted_to(self, wanted: Iterable[str]) -> Plan:
        """Only what the given relations depend on; `wanted` are names of relations that are stored."""
        needs, live, todo = needs_of(self.program), set[str](), list(wanted)
        while todo:
            name = todo.pop()
            if name not in live:
                live.add(name)
                todo.extend(needs[name])
        strata = [stratum for stratum in self.strata if stratum.relations[0] in live]
        return replace(
            self,
            strata=tuple(replace(stratum, number=number) for number, stratum in enumerate(strata)),
            facts=tuple(fact for fact in self.facts if fact.head.relation in live),
            dropped=tuple(rule for rule in self.program.rules if rule.head.relation not in live),
        )

    @cached_property
    def derived(self) -> frozenset[str]:
        """The relations that rules derive."""
        return frozenset(name for stratum in self.strata for name in stratum.relations)

    @cached_property
    def left_out(self) -> frozenset[str]:
        """The relations of which rules were dropped."""
        return frozenset(rule.head.relation for rule in self.dropped if rule.body)

    @cached_property
    def size_limits(self) -> Mapping[str, int]:
        """How many facts relations stop at, by name."""
        return {d.relation: int(d.params["n"]) for d in self.program.directives if d.kind == "limitsize"}

    @cached_property
    def selections(self) -> Mapping[str, Selection]:
        """The relations that do not keep all that is derived, by name."""
        return selections_of(self.program)

    @cached_property
    def read_relations(self) -> frozenset[str]:
        """The relations that some rule reads."""
        return frozenset().union(*(body_relations(rule.body) for rule in self.program.rules))


class Access(Enum):
    """How a step reads its atom."""

    DRIVE = "drive"  # its rows start the pipeline
    SCAN = "scan"  # every row, for every binding so far
    PROBE = "probe"  # by an index on the bound columns
    CHECK = "check"  # is the fact there?
    EXISTS = "exists"  # is there a matching fact?


@dataclass(frozen=True, slots=True)
class Step:
    """One literal of an ordered body.

    `estimate` is the expected number of bindings after it. `alternatives` are further atoms with the
    same new variable: the shortest of their lists is read and the others are checked.
    """

    literal: Literal
    position: int
    access: Access | None
    bound_columns: tuple[int, ...] = ()
    estimate: float = 0.0
    alternatives: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """An order in which every literal is evaluable when its turn comes. `reason` says why this one."""

    steps: tuple[Step, ...]
    cost: float
    reason: str


def body_relations(body: Iterable[Literal]) -> set[str]:
    """Every relation a body reads, aggregates included."""
    relations: set[str] = set()
    for literal in body:
        if isinstance(literal, Atom):
            relations.add(literal.relation)
        elif isinstance(literal, Negation):
            relations.add(literal.atom.relation)
        elif isinstance(literal, Aggregate):
            relations |= body_relations(literal.body)
    return relations


def needs_of(program: Program) -> dict[str, set[str]]:
    """For each relation those that its rules read."""
    needs: dict[str, set[str]] = {name: set() for name in program.relations}
    for rule in (*program.rules, *program.subsumptions):
        needs[rule.head.relation] |= body_relations(rule.body)
    return needs


def is_relational(literal: Literal) -> bool:
    """Atoms and negations are read by kernels; the rest computes on values."""
    return isinstance(literal, Atom | Negation)


def describe(literal: Literal) -> str:
    """A literal as one would write it."""
    if isinstance(literal, Negation):
        return f"!{describe(literal.atom)}"
    if isinstance(literal, Atom):
        return f"{literal.relation}({', '.join(_describe_term(arg) for arg in literal.args)})"
    if isinstance(literal, Comparison):
        if literal.op.lstrip("!") in ("match", "contains"):
            return f"{literal.op}({_describe_term(literal.left)}, {_describe_term(literal.right)})"
        op = "=" if literal.op == "==" else literal.op
        return f"{_describe_term(literal.left)} {op} {_describe_term(literal.right)}"
    assert isinstance(literal, Aggregate)
    target = f" {_describe_term(literal.target)}" if literal.target is not None else ""
    body = ", ".join(describe(part) for part in literal.body)
    if literal.initial is not None:
        first = _describe_term(literal.initial)
        return f"{_describe_term(literal.result)} = {literal.op} {first} :{target}, {{ {body} }}"
    return f"{_describe_term(literal.result)} = {literal.op}{target} : {{ {body} }}"


def _describe_term(term: object) -> str:
    from gpuengine.language.program import Constant, Functor, Pack

    if isinstance(term, Variable):
        return term.name.partition("@")[0] or "_"
    if isinstance(term, Constant):
        return (
            "nil"
            if term.value is None
            else (f'"{term.value}"' if isinstance(term.value, str) else str(term.value))
        )
    if isinstance(term, Functor):
        args = [_describe_term(arg) for arg in term.args]
        return (
            f"({args[0]} {term.op} {args[1]})"
            if len(args) == 2 and not term.op.isalpha()
            else f"{term.op}({', '.join(args)})"
        )
    if isinstance(term, Pack):
        args_text = ", ".join(_describe_term(arg) for arg in term.args)
        return f"[{args_text}]" if term.branch is None else f"${term.branch}({args_text})"
    return "_"
