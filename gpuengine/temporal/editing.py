"""Programs whose rules come and go: texts that are added to a program, and rules that are taken out of it.

Rules are compared up to the names of their variables. What is taken out goes from the text too, so that
the text of a program always says what its rules are; facts in it count once, when it is first read.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from gpuengine.errors import GpuEngineError
from gpuengine.temporal.language import parse_extended, parse_program, parse_unchecked
from gpuengine.temporal.syntax import (
    GivenFact,
    Program,
    Rule,
    Term,
    Variable,
    literal_with_terms,
    with_terms,
)

_END = re.compile(r"\s*\.")


@dataclass(frozen=True)
class Edited:
    """A program after an edit, and the facts among what was added or removed."""

    program: Program
    facts: tuple[GivenFact, ...]


def with_rules(program: Program, source: str | Path) -> Edited:
    """The program with the rules of a text too; raises `ProgramErrors` if they do not go with it."""
    added, text = parse_extended(program, source)
    present = {canonical(rule) for rule in program.rules}
    if all(canonical(rule) in present for rule in added.rules) and not added.facts:
        return Edited(program, ())
    return Edited(parse_program(f"{program.text}\n{text}\n"), added.facts)


def without_rules(program: Program, source: str | Path) -> Edited:
    """The program without the rules of a text; raises if it has no such rule."""
    removed = parse_unchecked(source)
    gone = {canonical(rule) for rule in removed.rules}
    unknown = [rule for rule in removed.rules if canonical(rule) not in set(map(canonical, program.rules))]
    if unknown:
        raise GpuEngineError("\n".join(_unknown(rule, program, removed) for rule in unknown))
    text = program.text
    for rule in sorted(program.rules, key=lambda rule: -rule.span[0]):
        if canonical(rule) in gone:
            start, end = rule.span
            final = _END.match(text, end)
            text = text[:start] + text[final.end() if final else end :]
    return Edited(parse_program(text + "\n"), removed.facts)


def difference(old: Program, new: Program) -> tuple[list[Rule], list[Rule]]:
    """The rules of the new program that the old one has not, and the other way round."""
    was, now = ({canonical(rule): rule for rule in program.rules} for program in (old, new))
    return [now[key] for key in now if key not in was], [was[key] for key in was if key not in now]


def canonical(rule: Rule) -> str:
    """The text of a rule with variables named by where they first stand."""
    names: dict[Variable, Variable] = {}

    def term(one: Term) -> Term:
        return names.setdefault(one, Variable(f"V{len(names)}")) if isinstance(one, Variable) else one

    return str(Rule(with_terms(rule.head, term), tuple(literal_with_terms(one, term) for one in rule.body)))


def _unknown(rule: Rule, program: Program, removed: Program) -> str:
    place = removed.sources.span(*rule.span)
    near = difflib.get_close_matches(str(rule), list(map(str, program.rules)), 1)
    hint = f"\n  hint: there is {near[0]}" if near else ""
    return f"{place}: the program has no rule {rule}{hint}"
