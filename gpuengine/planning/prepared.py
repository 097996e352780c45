"""A program ready to be evaluated: rewritten, with what is stored once, and what may be stored how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuengine.language.editing import ProgramText
from gpuengine.language.program import Program, Rule
from gpuengine.planning.evaluators import Evaluators, read_evaluators
from gpuengine.planning.passes import rewrite
from gpuengine.planning.plan import Plan
from gpuengine.planning.schemes import SchemePlan, plan_schemes, read_overrides, tables_only
from gpuengine.planning.sharing import Alias, share_equal_relations
from gpuengine.planning.strata import make_plan


@dataclass(frozen=True)
class Prepared:
    """`text` is what it was made from; `program` has no rule that mentions an alias.

    Two are equal only if they are the same object.
    """

    text: ProgramText
    program: Program
    aliases: Mapping[str, Alias]
    schemes: Mapping[str, SchemePlan]
    overrides: Mapping[str, str]
    evaluators: Mapping[str, str]

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def source(self) -> Program:
        """The program as it was written."""
        return self.text.program

    @property
    def has_limits(self) -> bool:
        """Does a relation stop at some size, so that what it holds is not determined?"""
        return any(directive.kind == "limitsize" for directive in self.program.directives)

    def stored(self, relation: str) -> str:
        """The relation that holds the facts of another."""
        return self.aliases[relation].of if relation in self.aliases else relation

    def plan(self, wanted: Iterable[str] | None = None) -> Plan:
        """Strata and delta variants; with `wanted`, only what those relations depend on."""
        names = None if wanted is None else [self.stored(name) for name in wanted]
        return make_plan(self.program, names, self.schemes)

    def choose_evaluators(self, plan: Plan | None = None) -> Evaluators:
        """What chooses by what each rule, or each rule of a plan, is evaluated; nothing is chosen yet."""
        live = None
        if plan is not None:
            live = [v.rule for stratum in plan.strata for v in (*stratum.once, *stratum.recursive)]
        return Evaluators(self.program.rules, self.evaluators, live)

    def with_rules(self, rules: Sequence[Rule], kept: Iterable[str]) -> Prepared:
        """The same with other rules and what these allow; relations in `kept` stay what they are."""
        program = replace(self.program, rules=tuple(rules))
        possible = plan_schemes(program, {}, self.aliases)
        return replace(self, program=program, schemes=possible | {name: self.schemes[name] for name in kept})


def prepare(
    text: ProgramText, schemes: Mapping[str, str] | None, evaluators: Mapping[str, str] | None = None
) -> Prepared:
    """Rewrite a program and see what its relations may be stored as.

    Raises `SchemeError` and `EvaluatorError` for what is asked for and can't be.
    """
    rewritten = rewrite(text.program)
    overrides = read_overrides(rewritten, schemes)
    program, aliases = share_equal_relations(rewritten, tables_only(rewritten, overrides))
    asked = read_evaluators(program, evaluators)
    return Prepared(text, program, aliases, plan_schemes(program, overrides, aliases), overrides, asked)
