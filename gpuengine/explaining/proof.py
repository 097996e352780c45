"""`Proof`: the steps from stated facts to those that were asked for; each is there once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuengine.language.program import Kind, Type


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact by its values; `text` is how one would write it."""

    relation: str
    values: tuple[Any, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class FactPremise:
    """A positive literal: a fact, proved by a step. `reversed`: of an equivalence, used backwards."""

    literal: str
    step: int
    reversed: bool = False


@dataclass(frozen=True, slots=True)
class Absence:
    """A negated literal: there is no such fact."""

    literal: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison or an equation, and what it says with the values of its variables."""

    literal: str
    values: str


@dataclass(frozen=True, slots=True)
class Group:
    """An aggregate: its value, the first `rows` of what it ranges over, and how many those are.

    Each of the rows has the values of `columns`. `at_least` says that not all were counted.
    """

    literal: str
    value: Any
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    count: int
    at_least: bool = False


Premise = FactPremise | Absence | Condition | Group


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a fact follows from others. `kind` is

    ``stated``: it was given, nothing has to be shown; `place` is known if the program gives it;
    ``rule``: it is an instance of `rule`, at `place`, with these `bindings`;
    ``path``: it follows from a chain of facts by applying `rule`, which is transitive or linear, repeatedly;
    ``chain``: the same in an equivalence, where facts may be used backwards.
    """

    kind: str
    rule: str | None = None
    place: str | None = None
    bindings: Mapping[str, Any] = field(default_factory=dict)
    premises: tuple[Premise, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of the steps that it rests on."""
        return tuple(premise.step for premise in self.premises if isinstance(premise, FactPremise))


@dataclass(frozen=True, slots=True)
class Step:
    """A fact and how it follows; `height` is 0 for what is stated, else one more than the highest premise."""

    fact: Fact
    derivation: Derivation
    height: int


@dataclass(frozen=True)
class Proof:
    """Proofs of the facts that a query asked for, least in height, with what they share once.

    `goals` are the numbers of their steps, of `count` that there are; none if the query has no answer. A step
    rests only on steps of less height. `others` are, if all derivations were asked for, those of each
    goal, the one of its step among them; `cut` says of which goals there are more. `is_least` is False where
    so many facts lead to the goals that the proofs may be higher than they have to be.
    """

    query: str
    steps: tuple[Step, ...]
    goals: tuple[int, ...]
    count: int
    others: Mapping[int, tuple[Derivation, ...]] = field(default_factory=dict)
    cut: frozenset[int] = frozenset()
    is_least: bool = True

    @property
    def holds(self) -> bool:
        """Has the query an answer?"""
        return bool(self.goals)

    @property
    def height(self) -> int:
        """That of the highest goal."""
        return max((self.steps[goal].height for goal in self.goals), default=0)

    def __bool__(self) -> bool:
        return self.holds

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __str__(self) -> str:
        from gpuengine.explaining.text import tell

        return tell(self)

    def __repr__(self) -> str:
        if not self.holds:
            return f"<proof of {self.query}: it does not hold>"
        return f"<proof of {self.query}: {len(self.steps):,} steps, height {self.height}>"

    def to_text(self, depth: int | None = None) -> str:
        """As a tree of text; with `depth`, no deeper than that."""
        from gpuengine.explaining.text import tell

        return tell(self, depth)

    def to_svg(self, depth: int | None = None) -> str:
        """As a drawing."""
        from gpuengine.explaining.drawing import draw

        return draw(self, depth)

    def to_html(self, depth: int | None = None) -> str:
        """As a page of its own, in which steps open and close."""
        from gpuengine.explaining.page import page

        return page(self, depth)

    def to_dict(self, depth: int | None = None) -> dict[str, Any]:
        """As what JSON can hold; with `depth`, without what is deeper."""
        kept = set(self.within(depth))
        return {
            "query": self.query,
            "holds": self.holds,
            "count": self.count,
            "height": self.height,
            "is_least": self.is_least,
            "goals": list(self.goals),
            "steps": {str(number): self._step_dict(number) for number in sorted(kept)},
            **(
                {
                    "derivations": {
                        str(goal): [_derivation(one) for one in all] for goal, all in self.others.items()
                    }
                }
                if self.others
                else {}
            ),
            **({"cut": sorted(self.cut)} if self.cut else {}),
        }

    def within(self, depth: int | None = None) -> dict[int, int]:
        """The steps that are at most so deep below a goal, each with how deep; shallow ones first."""
        waves = dict.fromkeys(self.goals, 0)
        for all in self.others.values():
            if depth is None or depth > 0:
                for derivation in all:
                    for step in derivation.steps:
                        waves.setdefault(step, 1)
        todo = list(waves)
        for number in todo:
            level = waves[number] + 1
            if depth is None or level <= depth:
                for step in self.steps[number].derivation.steps:
                    if step not in waves:
                        waves[step] = level
                        todo.append(step)
        return waves

    def _step_dict(self, number: int) -> dict[str, Any]:
        step = self.steps[number]
        return {
            "fact": step.fact.text,
            "relation": step.fact.relation,
            "values": list(step.fact.values),
            "height": step.height,
            **_derivation(step.derivation),
        }

    def _repr_html_(self) -> str:
        from gpuengine.explaining.page import fragment

        return fragment(self)


def _derivation(one: Derivation) -> dict[str, Any]:
    entry: dict[str, Any] = {"by": one.kind}
    if one.rule is not None:
        entry["rule"] = one.rule
    if one.place is not None:
        entry["place"] = one.place
    if one.bindings:
        entry["bindings"] = dict(one.bindings)
    if one.premises:
        entry["premises"] = [_premise(premise) for premise in one.premises]
    return entry


def _premise(premise: Premise) -> dict[str, Any]:
    if isinstance(premise, FactPremise):
        entry: dict[str, Any] = {"literal": premise.literal, "step": premise.step}
        return {**entry, "reversed": True} if premise.reversed else entry
    if isinstance(premise, Absence):
        return {"literal": premise.literal, "absent": premise.pattern}
    if isinstance(premise, Condition):
        return {"literal": premise.literal, "holds": premise.values}
    return {
        "literal": premise.literal,
        "value": premise.value,
        "columns": list(premise.columns),
        "rows": [list(row) for row in premise.rows],
        "count": premise.count,
        **({"at_least": True} if premise.at_least else {}),
    }


def spell_value(value: Any, type: Type) -> str:
    """A value as one would write it in a program; records and ADT values are text already."""
    if type.kind is Kind.SYMBOL:
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"'
    return str(value)
