"""Relations and directives of the flat program, resolved and checked."""

from __future__ import annotations

from collections.abc import Mapping

from gpuengine.language import codes, parameters
from gpuengine.language.components import Flat, Scope
from gpuengine.language.diagnostics import Reporter, nearest
from gpuengine.language.lattices import Lattices
from gpuengine.language.program import Attribute, Directive, FunctorSignature, Relation
from gpuengine.language.syntax import DirectiveDecl, FunctorDecl, Name, RelationDecl
from gpuengine.language.type_environment import UNKNOWN, TypeEnvironment, resolve_attributes

_IO_QUALIFIERS = ("input", "output", "printsize")


class Declarations:
    """All relations by full name, in source order, and the directives that concern them."""

    def __init__(self, flat: Flat, environment: TypeEnvironment, reporter: Reporter) -> None:
        self.environment = environment
        self.relations: dict[str, Relation] = {}
        self.directives: list[Directive] = []
        self.functors: dict[str, FunctorSignature] = {}
        self._reporter = reporter
        for functor, scope in flat.functors:
            self._functor(functor, scope)
        self.lattices = Lattices(flat.lattices, environment, self.functors, reporter)
        for name, relation, scope in flat.relations:
            self._relation(name, relation, scope)
        for directive, scope in flat.directives:
            self._directive(directive, scope)
        for name, scope in flat.overrides:
            self._override(name, scope)

    def find(self, name: Name, scope: Scope) -> Relation | None:
        """The relation a name stands for in a scope; reported if there is none."""
        full = scope.resolve(name.text, self.relations)
        if full is not None:
            return self.relations[full]
        hint = nearest(name.text, self.relations, "relation")
        hint = hint or f"declare it: .decl {name.text}(..)"
        message = f"the relation {name.text} is not declared"
        self._reporter.error(codes.UNDECLARED_RELATION, message, name.start, name.end, hint)
        return None

    def _relation(self, name: Name, decl: RelationDecl, scope: Scope) -> None:
        full = scope.prefix + name.text
        span = self._reporter.sources.span(name.start, name.end)
        if full in self.relations:
            self._reporter.error(
                codes.DUPLICATE,
                f"the relation {full} is declared twice",
                name.start,
                name.end,
                notes=[f"first declared at {self.relations[full].span}"],
            )
            return
        attributes = resolve_attributes(decl.attributes, scope, self.environment, self._reporter)
        tags = [tag.text for tag in decl.tags]
        qualifiers = frozenset(tags).difference(_IO_QUALIFIERS)
        choices = tuple(self._choice(key, full, attributes) for key in decl.choices)
        joined = {place: one.type for place, one in enumerate(decl.attributes) if one.is_joined}
        lattice = self.lattices.merges(full, attributes, joined)
        relation = self.relations[full] = Relation(full, attributes, qualifiers, span, choices, lattice)
        self.directives += [Directive(tag, full, {}, span) for tag in tags if tag in _IO_QUALIFIERS]
        types = {attribute.type for attribute in attributes} - {UNKNOWN}
        if "eqrel" in qualifiers and (relation.arity != 2 or len(types) > 1):
            message = f"the eqrel relation {full} must have two attributes of the same type"
            self._reporter.error(codes.EQREL, message, name.start, name.end)

    def _choice(self, key: list[Name], relation: str, attributes: tuple[Attribute, ...]) -> tuple[int, ...]:
        """The columns of one key of a choice-domain."""
        names = [attribute.name for attribute in attributes]
        for name in key:
            if name.text not in names:
                message = f"{relation} has no attribute {name.text} to choose by"
                hint = nearest(name.text, names, "attribute")
                self._reporter.error(codes.CHOICE_DOMAIN, message, name.start, name.end, hint)
        return tuple(sorted({names.index(name.text) for name in key if name.text in names}))

    def _functor(self, decl: FunctorDecl, scope: Scope) -> None:
        name, find = decl.name, self.environment.lookup
        span = self._reporter.sources.span(name.start, name.end)
        if name.text in self.functors:
            self._reporter.error(
                codes.DUPLICATE,
                f"the functor {name.text} is declared twice",
                name.start,
                name.end,
                notes=[f"first declared at {self.functors[name.text].span}"],
            )
            return
        types = []
        for written in [*(parameter.type for parameter in decl.parameters), decl.result]:
            type_ = find(written, scope)
            if type_ is None:
                hint = nearest(written.text, self.environment.types, "type") or "declare it with .type"
                message = f"the type {written.text} is not declared"
                self._reporter.error(codes.UNDECLARED_TYPE, message, written.start, written.end, hint)
            types.append(UNKNOWN if type_ is None else type_)
        self.functors[name.text] = FunctorSignature(
            name.text, tuple(types[:-1]), types[-1], decl.stateful, span
        )

    def _directive(self, decl: DirectiveDecl, scope: Scope) -> None:
        params = {param.key.text: param.value for param in decl.params}
        relations = [(name, relation) for name in decl.relations if (relation := self.find(name, scope))]
        if decl.kind == "limitsize":
            self._limit(decl, params)
        else:
            self._values(decl, relations, params)
        unknown = {key for key, _ in parameters.unknown(decl.kind, params)}
        params = {key: value for key, value in params.items() if key not in unknown}
        # Soufflé has a second way to write .printsize.
        kind = "printsize" if params.get("IO") == "stdoutprintsize" else decl.kind
        span = self._reporter.sources.span(decl.start, decl.end)
        self.directives += [Directive(kind, relation.name, params, span) for _, relation in relations]

    def _limit(self, decl: DirectiveDecl, params: Mapping[str, str]) -> None:
        if params.get("n", "").isdecimal():
            self._names(decl, params)
            return
        self._reporter.error(
            codes.DIRECTIVE,
            ".limitsize needs the largest number of facts as a parameter n",
            decl.start,
            decl.end,
            f"write .limitsize {decl.relations[0].text}(n=1000)",
        )

    def _values(
        self, decl: DirectiveDecl, relations: list[tuple[Name, Relation]], params: Mapping[str, str]
    ) -> None:
        """Check the parameters of a directive that reads or writes; a mistake is shown for one relation."""
        wrong: dict[str, tuple[Name, parameters.ParameterError]] = {}
        for name, relation in relations:
            for error in parameters.wrong(decl.kind, params, relation):
                wrong.setdefault(error.key, (name, error))
        for key, (name, error) in wrong.items():
            message = f".{decl.kind} {name.text}: {error.message}"
            self._parameter_error(codes.DIRECTIVE, message, decl, key, error.hint)
        if "IO" not in wrong:  # else the others may well be its own
            self._names(decl, params)

    def _names(self, decl: DirectiveDecl, params: Mapping[str, str]) -> None:
        for key, hint in parameters.unknown(decl.kind, params):
            message = f".{decl.kind} {decl.relations[0].text}: there is no parameter {key}"
            self._parameter_warning(message, decl, key, hint)

    def _parameter_error(self, code: str, message: str, decl: DirectiveDecl, key: str, hint: str) -> None:
        place = next(param.key for param in reversed(decl.params) if param.key.text == key)
        self._reporter.error(code, message, place.start, place.end, hint)

    def _parameter_warning(self, message: str, decl: DirectiveDecl, key: str, hint: str) -> None:
        place = next(param.key for param in reversed(decl.params) if param.key.text == key)
        self._reporter.warning(codes.PARAMETER, message, place.start, place.end, hint)

    def _override(self, name: Name, scope: Scope) -> None:
        relation = self.relations.get(scope.prefix + name.text)
        if relation is None:
            message, hint = f"there is no inherited relation {name.text} to override", None
            hint = nearest(name.text, (n for n in self.relations if n.startswith(scope.prefix)), "relation")
        elif "overridable" not in relation.qualifiers:
            message = f"the relation {name.text} can't be overridden"
            hint = f"declare it overridable at {relation.span}"
        else:
            return
        self._reporter.error(codes.OVERRIDE, message, name.start, name.end, hint)
