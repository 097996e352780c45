"""Component expansion: ``.comp``, ``.init``, ``.override`` become flat items, each with its `Scope`.

Nothing is copied: an item of a component is listed once for each instance, with the scope that says
what its names mean there.

    .comp C<T> { .decl R(x: T)  R(1). }          R(x: T)  in the scope  a. with T = number
    .init a = C<number>                     ->   R(1).    in the same scope: a.R
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from gpuengine.language import codes
from gpuengine.language.diagnostics import LOST_COMPONENT, Reporter, counted, nearest
from gpuengine.language.syntax import (
    AdtDecl,
    Atom,
    Clause,
    Component,
    ComponentType,
    DirectiveDecl,
    FunctorDecl,
    Instance,
    Item,
    LatticeDecl,
    Name,
    Override,
    Pragma,
    RecordDecl,
    RelationDecl,
    SubtypeDecl,
    TypeDecl,
    UnionDecl,
)

MAX_INSTANCES = 10_000
MAX_DEPTH = 60


class Scope:
    """What names mean inside one instance: first here, then in the scope it was instantiated in."""

    __slots__ = ("components", "outer", "params", "prefix")

    def __init__(
        self,
        prefix: str,
        outer: Scope | None,
        params: dict[str, tuple[Name, Scope]],
        components: dict[str, Component],
    ) -> None:
        self.prefix = prefix
        self.outer = outer
        self.params = params
        self.components = components

    def resolve(self, name: str, known: Container[str]) -> str | None:
        """The full name that `name` stands for here, if there is one in `known`."""
        scope: Scope | None = self
        while scope is not None:
            full = scope.prefix + name
            if full in known:
                return full
            scope = scope.outer
        return None

    def parameter(self, name: str) -> tuple[Name, Scope] | None:
        """What a type parameter is bound to, and the scope in which that name is meant."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.params:
                return scope.params[name]
            scope = scope.outer
        return None


class ScopedClause(NamedTuple):
    clause: Clause
    heads: list[Atom]  # without those that a derived component overrides
    scope: Scope


class Flat:
    """The program without components. Relations and types are listed with the name they are declared by."""

    def __init__(self) -> None:
        self.relations: list[tuple[Name, RelationDecl, Scope]] = []
        self.types: list[tuple[TypeDecl, Scope]] = []
        self.directives: list[tuple[DirectiveDecl, Scope]] = []
        self.functors: list[tuple[FunctorDecl, Scope]] = []
        self.lattices: list[tuple[LatticeDecl, Scope]] = []
        self.clauses: list[ScopedClause] = []
        self.pragmas: list[Pragma] = []
        self.overrides: list[tuple[Name, Scope]] = []
        self.instances: dict[str, Name] = {}


def expand(items: list[Item], reporter: Reporter) -> tuple[Flat, Scope]:
    """The flat program and its global scope."""
    expander = _Expander(reporter)
    scope = Scope("", None, {}, {})
    expander.fill(items, scope, frozenset(), top=True)
    return expander.flat, scope


class _Expander:
    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._active: list[Component] = []
        self._count = 0
        self.flat = Flat()

    def fill(self, items: list[Item], scope: Scope, overridden: frozenset[str], top: bool) -> None:
        """List `items` in `scope`; heads named in `overridden` are left out."""
        flat = self.flat
        instances: list[Instance] = []
        declared: dict[str, Component] = {}
        for item in items:
            if isinstance(item, Clause):
                heads = item.heads
                if overridden:
                    heads = [head for head in heads if head.name.text not in overridden]
                if heads:
                    flat.clauses.append(ScopedClause(item, heads, scope))
            elif isinstance(item, RelationDecl):
                flat.relations.extend((name, item, scope) for name in item.names)
            elif isinstance(item, DirectiveDecl):
                flat.directives.append((item, scope))
            elif isinstance(item, SubtypeDecl | UnionDecl | RecordDecl | AdtDecl):
                flat.types.append((item, scope))
            elif isinstance(item, FunctorDecl):
                flat.functors.append((item, scope))
            elif isinstance(item, LatticeDecl):
                flat.lattices.append((item, scope))
            elif isinstance(item, Pragma):
                flat.pragmas.append(item)
            elif isinstance(item, Component):
                self._declare(item, declared)
                scope.components[item.type.name.text] = item
            elif isinstance(item, Instance):
                instances.append(item)
            elif top:
                self._override_error(item, f".override {item.name.text} stands outside a component")
            else:
                flat.overrides.append((item.name, scope))
        for instance in instances:
            self._instantiate(instance, scope)

    def _declare(self, component: Component, declared: dict[str, Component]) -> None:
        name = component.type.name
        if name.text in declared:
            earlier = self._reporter.sources.span(declared[name.text].type.name.start, name.end)
            self._reporter.error(
                codes.DUPLICATE,
                f"the component {name.text} is declared twice",
                name.start,
                name.end,
                notes=[f"first declared at {earlier}"],
            )
        declared[name.text] = component

    def _override_error(self, item: Override, message: str) -> None:
        hint = "an .override belongs into a component that inherits the relation"
        self._reporter.error(codes.OVERRIDE, message, item.name.start, item.name.end, hint)

    def _instantiate(self, instance: Instance, scope: Scope) -> None:
        full = scope.prefix + instance.name.text
        if full in self.flat.instances:
            self._reporter.error(
                codes.DUPLICATE,
                f"the instance {full} is declared twice",
                instance.name.start,
                instance.name.end,
                notes=[f"first declared at {self._span(self.flat.instances[full])}"],
            )
            return
        self.flat.instances[full] = instance.name
        component = self._find(instance.type, scope)
        if component is None:
            return
        self._count += 1
        params = self._bind(component, instance.type, scope)
        inner = Scope(f"{full}.", scope, params, {})
        self._enter(component, instance.type, inner, frozenset())

    def _enter(
        self, component: Component, used: ComponentType, scope: Scope, overridden: frozenset[str]
    ) -> None:
        """List the items of `component` and of the components it inherits from."""
        name = used.name
        if component in self._active or len(self._active) >= MAX_DEPTH or self._count > MAX_INSTANCES:
            reason = "contains itself" if component in self._active else "is nested too deeply or too often"
            self._reporter.error(
                codes.COMPONENT_CYCLE, f"the component {name.text} {reason}", name.start, name.end
            )
            return
        self._active.append(component)
        own = {item.name.text for item in component.items if isinstance(item, Override)}
        for base in component.bases:
            parent = self._find(base, scope)
            if parent is not None:
                params = self._bind(parent, base, scope)
                inherited = Scope(scope.prefix, scope.outer, params, scope.components)
                self._enter(parent, base, inherited, overridden | own)
        self.fill(component.items, scope, overridden, top=False)
        self._active.pop()

    def _find(self, used: ComponentType, scope: Scope) -> Component | None:
        name, where = used.name, scope
        while (bound := where.parameter(name.text)) is not None:
            name, where = bound
        names: list[str] = []
        # A component given as a parameter may also be one that the using component declares.
        for start in (where, scope):
            outer: Scope | None = start
            while outer is not None:
                if name.text in outer.components:
                    return outer.components[name.text]
                names += outer.components
                outer = outer.outer
        self._reporter.error(
            codes.UNKNOWN_COMPONENT,
            f"there is no component {name.text}",
            used.name.start,
            used.name.end,
            nearest(name.text, names, "component"),
        )
        self._reporter.ignore(LOST_COMPONENT)
        return None

    def _bind(self, component: Component, used: ComponentType, scope: Scope) -> dict[str, tuple[Name, Scope]]:
        formal, actual = component.type.params, used.params
        if len(formal) != len(actual):
            takes = counted(len(formal), "type parameter")
            self._reporter.error(
                codes.COMPONENT_PARAMETERS,
                f"the component {used.name.text} takes {takes}, {len(actual)} given",
                used.name.start,
                used.name.end,
                notes=[f"declared at {self._span(component.type.name)}"],
            )
            self._reporter.ignore(LOST_COMPONENT)
        bound = {name.text: (value, scope) for name, value in zip(formal, actual, strict=False)}
        bound |= {name.text: (name, _GLOBAL) for name in formal[len(actual) :]}
        return bound

    def _span(self, name: Name) -> str:
        return str(self._reporter.sources.span(name.start, name.end))


_GLOBAL = Scope("", None, {}, {})
