"""Which rules can derive something at all, by the relations that have no facts.

A rule that reads an empty relation is neither ordered nor compiled: of an ontology's rules most are about
classes and properties that the data do not have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gpuengine.evaluation.rules.database import Database
from gpuengine.language.program import Atom, Rule


def can_apply(rule: Rule, database: Database, filled: Collection[str] = ()) -> bool:
    """Has every relation that a body reads facts, or is it among those that will be `filled`?"""
    return all(
        part.relation in filled or not _is_empty(part.relation, database)
        for part in rule.body
        if isinstance(part, Atom)
    )


def applicable(rules: Sequence[Rule], database: Database, filled: Iterable[str] = ()) -> list[Rule]:
    """The rules of a recursion that may come to derive something, in their order.

    Relations in `filled` get facts by other means than these rules.
    """
    relations = set(filled)
    waiting = dict.fromkeys(range(len(rules)))
    while more := [number for number in waiting if can_apply(rules[number], database, relations)]:
        for number in more:
            relations.add(rules[number].head.relation)
            del waiting[number]
    return [rule for number, rule in enumerate(rules) if number not in waiting]


def _is_empty(relation: str, database: Database) -> bool:
    scheme = database.tables[relation]
    return scheme.is_listed and not len(scheme)
