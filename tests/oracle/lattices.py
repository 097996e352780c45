"""Lattices of integers: attributes of which a relation keeps the join, and what bodies read of them.

Outside components, and joined and met by ``min``, ``max``, ``bor`` and ``band`` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tests.oracle.syntax import Atom, Call, Compare, Decl, Lattice, Rule, Var, Wild

Columns = dict[str, dict[int, Lattice]]


def columns_of(items: Iterable[Any]) -> Columns:
    """By relation the lattices of its places."""
    found = list(items)
    lattices = {item.type: item for item in found if isinstance(item, Lattice)}
    return {
        name: {place: lattices[item.types[place]] for place in item.joined}
        for item in found
        if isinstance(item, Decl) and item.joined
        for name in item.names
    }


def met(rule: Rule, columns: Mapping[str, Mapping[int, Lattice]]) -> Rule:
    """The rule with an equation for each variable that several places are read for, one of a lattice."""
    of = {
        atom.args[place].name: lattice
        for atom in rule.body
        if isinstance(atom, Atom)
        for place, lattice in columns.get(atom.relation, {}).items()
        if isinstance(atom.args[place], Var) and lattice.meet
    }
    times: dict[str, list[Var]] = {}
    body: list[Any] = []
    added: list[Any] = []
    for number, literal in enumerate(rule.body):
        if isinstance(literal, Atom):
            args = list(literal.args)
            for place, arg in enumerate(literal.args):
                own = Var(f"@m{number}.{place}")
                lattice = columns.get(literal.relation, {}).get(place)
                if isinstance(arg, Var) and arg.name in of:
                    times.setdefault(arg.name, []).append(own)
                    args[place] = own
                elif lattice is not None and lattice.meet and not isinstance(arg, Var | Wild):
                    args[place] = own
                    added.append(Compare("!=", Call(lattice.meet, (own, arg)), lattice.bottom))
            literal = Atom(literal.relation, tuple(args))
        body.append(literal)
    for name, (first, *others) in times.items():
        value: Any = first
        for other in others:
            value = Call(of[name].meet, (value, other))
        added.append(Compare("=", Var(name), value))
        if others:
            added.append(Compare("!=", Var(name), of[name].bottom))
    return replace(rule, body=(*body, *added))
