"""Components unfolded: what they declare stands in the flat program under ``instance.name``."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import Any

from tests.oracle.parser import rules_of
from tests.oracle.syntax import Clause, Comp, Decl, Directive, Init, Override, Rule, TypeDecl, Use


@dataclass
class Scope:
    """Names of an instance: its own first, then those of what it was instantiated in."""

    prefix: str = ""
    outer: Scope | None = None
    params: dict[str, tuple[str, Scope]] = field(default_factory=dict)
    components: dict[str, Comp] = field(default_factory=dict)

    def find(self, name: str, known: Container[str]) -> str:
        """The full name of a relation or a branch."""
        if self.prefix + name in known:
            return self.prefix + name
        if self.outer is None:
            raise KeyError(name)
        return self.outer.find(name, known)

    def find_type(self, name: str, known: Container[str]) -> str:
        """The full name of a type, which may be given as a parameter."""
        bound = self.parameter(name)
        return self.find(name, known) if bound is None else bound[1].find_type(bound[0], known)

    def parameter(self, name: str) -> tuple[str, Scope] | None:
        if name in self.params or self.outer is None:
            return self.params.get(name)
        return self.outer.parameter(name)

    def component(self, name: str) -> Comp:
        bound = self.parameter(name)
        if bound is not None:
            return bound[1].component(bound[0])
        if name in self.components:
            return self.components[name]
        if self.outer is None:
            raise KeyError(name)
        return self.outer.component(name)


@dataclass
class Flat:
    """A program without components: each part with the scope that its names are meant in."""

    declarations: list[tuple[Decl, Scope]] = field(default_factory=list)
    types: list[tuple[TypeDecl, Scope]] = field(default_factory=list)
    directives: list[tuple[Directive, Scope]] = field(default_factory=list)
    rules: list[tuple[Rule, Scope]] = field(default_factory=list)


def flatten(items: list[Any], scope: Scope) -> Flat:
    flat = Flat()
    _list(items, scope, frozenset(), flat)
    return flat


def _list(items: Any, scope: Scope, overridden: frozenset[str], flat: Flat) -> None:
    """List the items in a scope; rules of overridden relations are left out."""
    scope.components.update((item.type.name, item) for item in items if isinstance(item, Comp))
    for item in items:
        if isinstance(item, Decl):
            flat.declarations.append((item, scope))
        elif isinstance(item, TypeDecl):
            flat.types.append((item, scope))
        elif isinstance(item, Directive):
            flat.directives.append((item, scope))
        elif isinstance(item, Clause):
            kept = tuple(head for head in item.heads if head.relation not in overridden)
            flat.rules += [(rule, scope) for rule in rules_of(replace(item, heads=kept))]
        elif isinstance(item, Init):
            component = scope.component(item.type.name)
            inner = Scope(f"{scope.prefix}{item.name}.", scope, _bound(component, item.type, scope))
            _enter(component, inner, frozenset(), flat)


def _enter(component: Comp, scope: Scope, overridden: frozenset[str], flat: Flat) -> None:
    """List a component's items, after those that it inherits; it shares its names with its bases."""
    own = {item.name for item in component.items if isinstance(item, Override)}
    for used in component.bases:
        base = scope.component(used.name)
        inherited = Scope(scope.prefix, scope.outer, _bound(base, used, scope), scope.components)
        _enter(base, inherited, overridden | own, flat)
    _list(component.items, scope, overridden, flat)


def _bound(component: Comp, used: Use, scope: Scope) -> dict[str, tuple[str, Scope]]:
    return {
        formal: (actual, scope) for formal, actual in zip(component.type.params, used.params, strict=True)
    }
