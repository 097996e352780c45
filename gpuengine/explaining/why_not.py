"""Why a fact does not hold: how far the body of each rule gets that could derive it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuengine.explaining.explain import Known, asked_atom
from gpuengine.explaining.folds import as_it_is, is_kept
from gpuengine.explaining.instances import Given, Questions, with_inverses
from gpuengine.explaining.proof import spell_value
from gpuengine.explaining.rules import WrittenRule, WrittenRules
from gpuengine.explaining.words import is_named, spell
from gpuengine.language.program import (
    Atom,
    AtomArg,
    Comparison,
    Constant,
    Literal,
    Negation,
    Rule,
    Variable,
    binds,
)
from gpuengine.planning.plan import describe

_COUNTED = 100_000
"""So many bindings of the part of a body that holds are counted."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How far a rule gets. `held` are the literals that hold together, in the order they were tried, for
    `bindings` (`at_least` so many), one of which is the `example`; `failed` is the one that then does not.

    `because` says of that one what there is instead; if the head can't be the fact, only that is told.
    """

    rule: str
    place: str | None
    because: str
    failed: str | None = None
    held: tuple[str, ...] = ()
    bindings: int = 0
    at_least: bool = False
    example: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WhyNot:
    """Why a query has no answer; `holds` if it has one."""

    query: str
    holds: bool
    attempts: tuple[Attempt, ...]
    note: str = ""

    def __bool__(self) -> bool:
        return not self.holds

    def __str__(self) -> str:
        if self.holds:
            return f"{self.query} holds: explain says why\n"
        lines = [f"{self.query} does not hold" + (f": {self.note}" if self.note else "")]
        for one in self.attempts:
            lines.append(f"├─ {one.rule}" + (f"  ({one.place})" if one.place else ""))
            if one.failed is None:
                lines.append(f"│  {one.because}")
                continue
            if one.held:
                many = f"{'more than ' if one.at_least else ''}{one.bindings:,}"
                example = ", ".join(f"{name} = {value}" for name, value in one.example.items())
                shown = f", such as {example}" if example else ""
                plural = "s" if one.bindings != 1 or one.at_least else ""
                lines.append(f"│  holds: {', '.join(one.held)}   for {many} binding{plural}{shown}")
            lines.append(f"│  fails: {one.failed}   {one.because}")
        if self.attempts:
            is_query = self.attempts[0].place is None
            lines.append("└─ nothing else is asked for" if is_query else "└─ and it is not stated")
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """As what JSON can hold."""
        return {
            "query": self.query,
            "holds": self.holds,
            "note": self.note,
            "attempts": [
                {
                    "rule": one.rule,
                    "place": one.place,
                    "held": list(one.held),
                    "bindings": one.bindings,
                    "at_least": one.at_least,
                    "example": one.example,
                    "failed": one.failed,
                    "because": one.because,
                }
                for one in self.attempts
            ],
        }

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def why_not(known: Known, query: Rule, text: str) -> WhyNot:
    """How far each rule gets that could derive what a query asks for; if it is no single atom, itself."""
    questions = Questions(known.program, known.dictionary, known.relations)
    atom = asked_atom(query)
    variables = tuple(arg for arg in query.head.args if isinstance(arg, Variable))
    if questions.ask(query.body, variables, most=1).count:
        return WhyNot(text.strip(), True, ())
    trier = _Trier(questions)
    if atom is None:
        written = WrittenRules(known.program, query).rules[-1]
        return WhyNot(text.strip(), False, (trier.attempt(written, query.head.args, is_query=True),))
    rules = WrittenRules(known.program)
    own = rules.of(atom.relation)
    note = "" if own else f"it is not stated, and no rule derives {atom.relation}"
    return WhyNot(text.strip(), False, tuple(trier.attempt(written, atom.args) for written in own), note)


class _Trier:
    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def attempt(self, written: WrittenRule, asked: Sequence[AtomArg], is_query: bool = False) -> Attempt:
        place = None if is_query else written.place
        bindings: dict[Variable, int] = {}
        dictionary = self._questions.dictionary
        for arg, wanted in zip(written.head.args, asked, strict=True):
            if not isinstance(wanted, Constant):
                continue
            if isinstance(arg, Constant):
                if dictionary.intern_constant(arg) != dictionary.intern_constant(wanted):
                    return Attempt(written.text, place, f"its head is only for {spell(written.head, {})}")
            else:
                assert isinstance(arg, Variable)
                id = dictionary.intern_constant(wanted)
                if bindings.setdefault(arg, id) != id:
                    return Attempt(
                        written.text, place, f"its head has the same value twice: {written.head.relation}"
                    )
        given = [Given((one,), [np.array([id], np.uint32)], 1) for one, id in bindings.items()]
        order = _order(written.rule.body, frozenset(bindings))
        bound = set(bindings)
        rows, is_whole = {one: np.array([id], np.uint32) for one, id in bindings.items()}, True
        count = 1
        for tried, literal in enumerate(order):
            now = bound | (binds(literal, frozenset(bound)) or frozenset())
            wanted_now = tuple(sorted(now, key=lambda one: one.name))
            answer = self._questions.ask(with_inverses(order[: tried + 1]), wanted_now, given, most=_COUNTED)
            if not answer.count:
                return self._failed(written, place, order, tried, rows, count, is_whole)
            rows = dict(zip(wanted_now, answer.columns, strict=True))
            count, is_whole, bound = answer.count, answer.is_whole, now
        return Attempt(written.text, place, "every literal holds, but not for this fact")

    def _failed(
        self,
        written: WrittenRule,
        place: str | None,
        order: Sequence[Literal],
        tried: int,
        rows: dict[Variable, np.ndarray],
        count: int,
        is_whole: bool,
    ) -> Attempt:
        dictionary = self._questions.dictionary
        values = {
            one: dictionary.to_arrow(one.type, np.ascontiguousarray(ids[:1])).to_pylist()[0]
            for one, ids in rows.items()
        }
        words = {one: spell_value(value, one.type) for one, value in values.items()}
        literal = order[tried]
        if is_kept(literal):
            literal = as_it_is(literal)
        shown = spell(literal, words)
        others = count > 1 or not is_whole
        if isinstance(literal, Negation):
            because = f"there is {spell(literal.atom, words)}"
        elif isinstance(literal, Atom):
            because = f"there is no {shown}"
        elif isinstance(literal, Comparison):
            because = f"it would be {shown}"
        else:
            because = f"there is no such value: {shown}"
        return Attempt(
            written.text,
            place,
            because + (", nor for the other bindings" if others else ""),
            describe(literal),
            tuple(describe(part) for part in order[:tried] if not is_kept(part)),
            count,
            not is_whole,
            {one.name: value for one, value in values.items() if is_named(one)},
        )


def _order(body: Sequence[Literal], bound: frozenset[Variable]) -> list[Literal]:
    """The literals as they stand, each as soon as it can be evaluated."""
    waiting, order = list(body), list[Literal]()
    while waiting:
        at = next((at for at, part in enumerate(waiting) if binds(part, bound) is not None), 0)
        literal = waiting.pop(at)
        bound |= binds(literal, bound) or frozenset()
        order.append(literal)
    return order
