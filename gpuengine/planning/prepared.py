"""A program ready to be evaluated: rewritten, with what is stored once, and what may be stored how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gpuengine.language.editing import ProgramText
from gpuengine.language.program import Alias, Program, Rule
from gpuengine.planning.evaluators import Chooser, read_evaluators
from gpuengine.planning.passes import rewrite
from gpuengine.planning.plan import Plan
from gpuengine.planning.schemes import SchemePlan, plan_schemes, read_overrides, with_schemes
from gpuengine.planning.selection import selections_of
from gpuengine.planning.strata import make_plan


@dataclass(frozen=True)
class Prepared:
    """`text` is what it was made from; `program` has no rule that mentions an alias.

    Two are equal only if they are the same object.
    """

    text: ProgramText
    program: Program
    schemes: Mapping[str, SchemePlan]
    evaluators: Mapping[str, str]

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def aliases(self) -> Mapping[str, Alias]:
        """Relations that are stored as others."""
        return self.program.aliases

    @property
    def source(self) -> Program:
        """The program as it was written."""
        return self.text.program

    @property
    def has_limits(self) -> bool:
        """Does a relation stop at some size, so that what it holds is not determined?"""
        return any(directive.kind == "limitsize" for directive in self.program.directives)

    @cached_property
    def selects(self) -> bool:
        """Does a relation not keep all that is derived, so that what comes may have others go?"""
        return bool(selections_of(self.program))

    def stored(self, relation: str) -> str:
        """The relation that holds the facts of another."""
        return self.aliases[relation].of if relation in self.aliases else relation

    def plan(self, wanted: Iterable[str] | None = None) -> Plan:
        """Strata and delta variants, made once; with `wanted`, only what those relations depend on."""
        if wanted is None:
            return self._plan
        names = frozenset(self.stored(name) for name in wanted)
        if names not in self._restricted:
            self._restricted[names] = self._plan.restricted_to(names)
        return self._restricted[names]

    @cached_property
    def _plan(self) -> Plan:
        return make_plan(self.program, None, self.schemes)

    @cached_property
    def _restricted(self) -> dict[frozenset[str], Plan]:
        return {}

    def chooser(self, plan: Plan | None = None) -> Chooser:
        """What chooses by what each rule, or each rule of a plan, is evaluated."""
        live = None
        if plan is not None:
            live = [v.rule for stratum in plan.strata for v in (*stratum.once, *stratum.recursive)]
        return Chooser(self.program.rules, self.evaluators, live)

    def with_rules(self, rules: Sequence[Rule], kept: Iterable[str]) -> Prepared:
        """The same with other rules and what these allow; relations in `kept` stay what they are."""
        program = replace(self.program, rules=tuple(rules))
        possible = plan_schemes(program, {})
        return replace(self, program=program, schemes=possible | {name: self.schemes[name] for name in kept})


def prepare(
    text: ProgramText, schemes: Mapping[str, str] | None, evaluators: Mapping[str, str] | None = None
) -> Prepared:
    """Rewrite a program and see what its relations may be stored as.

    Raises `SchemeError` and `EvaluatorError` for what is asked for and can't be.
    """
    program = rewrite(with_schemes(text.program, schemes))
    asked = read_evaluators(program, evaluators)
    return Prepared(text, program, plan_schemes(program, read_overrides(program)), asked)
