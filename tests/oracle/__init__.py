"""The oracle: a slow, obvious evaluator of program text, to compare the engine with.

It shares nothing with the product: text goes through its own parser (parser.py), components are unfolded
(components.py), rules get scopes and kinds (typing.py) and are evaluated naively (evaluation.py).
It takes programs to be correct. What was decided (the functors' table is in functors.py):

| construct | meaning |
|---|---|
| values | number, unsigned: int; float: float; symbol: its bytes (values.py) |
| record, ADT values | ``("[]", args...)`` or None for nil; ``("$Branch", args...)`` |
| floats | relations, joins and ``x = y`` go by bit pattern, other comparisons by value (values.py) |
| a stratum | rules that do not recur once, then all others over all facts until nothing is new |
| order of literals | any in which each is bound when it needs to be; what can fail is evaluated last |
| comparison of symbols | by UTF-8 bytes (which is the order of code points) |
| ``match`` | the regular expression matches the whole string, byte by byte |
| aggregate | for each binding of its outer variables, over the distinct bindings of its body |
| a name in an aggregate | the rule's if the rule mentions it outside, unless it also stands in the target |
| aggregate of nothing | ``count`` and ``sum`` are 0; ``min``, ``max`` and ``mean`` do not hold |
| ``mean`` | a float, whatever is averaged |
| eqrel | reflexive on what is mentioned, symmetric, transitive |
| inline | a call: the distinct answers of its rules to the arguments that are bound |
| ``p(x, min d)`` | after each round, of the facts that agree on the rest the one with the least d is left |
| ``p(x, sum d)`` | in each round, the sum of d over the distinct bindings of each rule's body, wildcards |
| | included, and what is stated, or derived by rules that do not say ``sum``, each such fact once |
| ``p(x, bor d)``, ``any`` | after each round one fact is left, of what all values come to |
| ``x: T<>`` | after each round one fact is left, with the join of each such place; none with a bottom |
| | a variable that is read at several places, one of them so, is the meet of all, above bottom |
| ``p(x) <= p(y) :- ..`` | each round's new facts go that another one of them or an older one subsumes, then |
| | older ones that a new one subsumes; stated facts are those of the first round |
| choice-domain | nothing is chosen: `derive_by` is told what was, and tells what follows |
| ``.limitsize r(n=N)`` | the stratum of r ends after the first round with N or more facts of r |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.oracle.components import Scope, flatten
from tests.oracle.evaluation import Evaluator, Facts, Known, Row, fixpoint, strata
from tests.oracle.functors import Failure
from tests.oracle.lattices import columns_of, met
from tests.oracle.parser import parse
from tests.oracle.syntax import Const, Lattice, Rule, renamed
from tests.oracle.typing import Types, Typing
from tests.oracle.values import canonical, held, shown

__all__ = ["Facts", "Failure", "Program", "Row", "Rule", "canonical", "derive", "fact_of", "renamed", "shown"]


class Program:
    """A program that was read: relations with the roots of their attributes' types, and typed rules."""

    def __init__(self, text: str) -> None:
        scope = Scope()
        items = parse(text)
        self._columns = columns_of(items)
        flat = flatten([item for item in items if not isinstance(item, Lattice)], scope)
        types = Types(flat)
        everything = {
            inner.prefix + name: tuple(types.root(type_, inner) for type_ in declaration.types)
            for declaration, inner in flat.declarations
            for name in declaration.names
        }
        qualified: dict[str, set[str]] = {}
        for declaration, inner in flat.declarations:
            for name in declaration.names:
                for qualifier in declaration.qualifiers:
                    qualified.setdefault(qualifier, set()).add(inner.prefix + name)
        self._scope, self._typing = scope, Typing(types, everything)
        rules = [self._typing.rule(met(rule, self._columns), inner) for rule, inner in flat.rules]
        directed = [
            (inner.find(name, everything), directive)
            for directive, inner in flat.directives
            for name in directive.names
        ]
        kept = {name for name, _ in directed}
        kept.update(*(qualified.get(directive, ()) for directive in ("input", "output", "printsize")))
        inlined = qualified.get("inline", set()) - kept
        self.relations = {name: roots for name, roots in everything.items() if name not in inlined}
        self.equivalences = qualified.get("eqrel", set()) - inlined
        self.limits = {
            name: int(directive.params["n"]) for name, directive in directed if directive.kind == "limitsize"
        }
        self.rules = rules
        self.choices = {
            inner.prefix + name: declaration.choices
            for declaration, inner in flat.declarations
            for name in declaration.names
            if declaration.choices
        }
        self.inlines = inlined

    def derive(self, facts: Mapping[str, Iterable[Row]]) -> Facts:
        """Every fact that follows from `facts`, by relation; raises `Failure` if evaluation fails."""
        return self.derive_by(self.rules, facts)

    def rules_of(self, text: str) -> list[Rule]:
        """The rules of a text that uses what this program declares."""
        flat = flatten(parse(text), self._scope)
        return [self._typing.rule(met(rule, self._columns), self._scope) for rule, _ in flat.rules]

    def derive_by(
        self,
        rules: Iterable[Rule],
        facts: Mapping[str, Iterable[Row]],
        chosen: Mapping[str, Iterable[Row]] | None = None,
    ) -> Facts:
        """What follows by these rules instead of the program's own.

        Of relations that choose, `chosen` says what; without it everything is kept.
        """
        rules = list(rules)
        choice = {name: {self.row(name, row) for row in rows} for name, rows in (chosen or {}).items()}
        given = {name: {self.row(name, row) for row in facts.get(name, ())} for name in self.relations}
        inlines = {name: [r for r in rules if r.head.relation == name] for name in self.inlines}
        evaluator = Evaluator(Known(given), inlines)
        for stratum in strata([*self.relations, *self.inlines], rules):
            if not stratum & self.inlines:
                own = [rule for rule in rules if rule.head.relation in stratum]
                fixpoint(stratum, own, evaluator, self.equivalences, self.limits, choice, self._columns)
        return evaluator.known.facts

    def row(self, name: str, row: Row) -> Row:
        """A row that is given, as the oracle holds it."""
        return tuple(held(value, kind) for value, kind in zip(row, self.relations[name], strict=True))


def derive(text: str, facts: Mapping[str, Iterable[Row]]) -> Facts:
    return Program(text).derive(facts)


def fact_of(rule: Rule) -> Row | None:
    """The row that a rule without a body states; None if the rule must be evaluated."""
    if rule.body or not all(isinstance(arg, Const) for arg in rule.head.args):
        return None
    return tuple(arg.value for arg in rule.head.args)
