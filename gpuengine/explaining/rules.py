"""The rules of a program as they were written, each with what a proof by it has to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuengine.explaining.folds import is_kept, shown_folds
from gpuengine.explaining.instances import with_inverses
from gpuengine.language.program import (
    Atom,
    AtomArg,
    Literal,
    Program,
    Rule,
    Variable,
    Wildcard,
    literal_variables,
)
from gpuengine.planning.passes import close_equivalences


@dataclass(frozen=True)
class WrittenRule:
    """A rule whose wildcards are variables, so that an instance says which facts it rests on.

    `deep` are the places of atoms whose facts have to be proved in their turn; those of other atoms are
    stated. `key` are the variables of the head and of deep atoms: for a least proof nothing else matters.
    `body` is what to ask for instances that derive given facts.
    """

    number: int
    rule: Rule
    deep: tuple[int, ...]
    key: tuple[Variable, ...]
    rest: tuple[Variable, ...]
    body: tuple[Literal, ...]

    @property
    def head(self) -> Atom:
        return self.rule.head

    @property
    def text(self) -> str:
        return " ".join(self.rule.text.split())

    @property
    def place(self) -> str:
        return str(self.rule.span)

    def atom(self, position: int) -> Atom:
        literal = self.rule.body[position]
        assert isinstance(literal, Atom)
        return literal

    @property
    def shallow_body(self) -> tuple[Literal, ...]:
        """What is left of the body when the deep atoms are known to hold."""
        return tuple(part for place, part in enumerate(self.rule.body) if place not in self.deep)


class WrittenRules:
    """The rules by the relation that they derive; `derived` are the relations that have any."""

    def __init__(self, program: Program, query: Rule | None = None) -> None:
        self.program = close_equivalences(program)
        rules = [rule for rule in shown_folds(self.program) if rule.body]
        if query is not None:
            rules.append(query)
        self.derived = frozenset(rule.head.relation for rule in rules)
        self.rules = tuple(
            _written(number, rule, self.derived, self.program) for number, rule in enumerate(rules)
        )
        self._of: dict[str, list[WrittenRule]] = {}
        for written in self.rules:
            self._of.setdefault(written.head.relation, []).append(written)

    def of(self, relation: str) -> list[WrittenRule]:
        return self._of.get(relation, [])

    def needed(self, relations: Iterable[str]) -> set[str]:
        """The relations that facts of the given ones may rest on, themselves among them."""
        from gpuengine.planning.plan import body_relations

        needed, todo = set[str](), list(relations)
        while todo:
            name = todo.pop()
            if name not in needed:
                needed.add(name)
                for written in self.of(name):
                    body = [part for part in written.rule.body if not is_kept(part)]
                    todo.extend(body_relations(body))
        return needed


def named(rule: Rule, program: Program) -> Rule:
    """A rule with variables, ``@0``, ``@1``, … in the place of the wildcards of its positive atoms."""
    number = 0
    body: list[Literal] = []
    for literal in rule.body:
        if isinstance(literal, Atom) and any(isinstance(arg, Wildcard) for arg in literal.args):
            args: list[AtomArg] = []
            for arg, attribute in zip(
                literal.args, program.relations[literal.relation].attributes, strict=True
            ):
                if isinstance(arg, Wildcard):
                    arg = Variable(f"@_{number}", attribute.type)
                    number += 1
                args.append(arg)
            literal = replace(literal, args=tuple(args))
        body.append(literal)
    return replace(rule, body=tuple(body))


def _written(number: int, rule: Rule, derived: frozenset[str], program: Program) -> WrittenRule:
    rule = named(rule, program)
    deep = tuple(
        place for place, part in enumerate(rule.body) if isinstance(part, Atom) and part.relation in derived
    )
    mentioned = dict.fromkeys(arg for arg in rule.head.args if isinstance(arg, Variable))
    for place in deep:
        mentioned |= dict.fromkeys(sorted(literal_variables(rule.body[place]), key=lambda one: one.name))
    everything = dict(mentioned)
    for part in rule.body:
        everything |= dict.fromkeys(sorted(literal_variables(part), key=lambda one: one.name))
    rest = tuple(variable for variable in everything if variable not in mentioned)
    return WrittenRule(number, rule, deep, tuple(mentioned), rest, with_inverses(rule.body))
