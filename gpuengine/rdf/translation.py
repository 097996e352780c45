"""Rules over triples to clauses of the engine's own language, over the relations of a `Layout`.

    :Student[?x] :- :takes[?x, ?y], [?y, rdf:type, :Course] .
    c_Student(?x) :- p_takes(?x, ?y), c_Course(?y).

A variable in the place of a predicate, or of a class, stands for each relation in turn: the clause is written
once for each, with the variable replaced by the constant. What can't be said in a body directly (several
triples under a negation, what is aggregated) gets a relation of its own, named by a digest of the rule, so
that the same rule always becomes the same clauses: rules that go are found again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuengine.errors import GpuEngineError
from gpuengine.rdf.layout import ALWAYS, NAMED_CLASS, NAMED_PROPERTY, QUADS, TERM, TRIPLES, Layout, quoted
from gpuengine.rdf.rules import (
    Aggregate,
    Argument,
    Bind,
    BodyItem,
    Call,
    Constraint,
    Expression,
    Filter,
    Negation,
    Rule,
    Triple,
    Variable,
    canonical,
)
from gpuengine.rdf.terms import TYPE, XSD

EVERYTHING = "triple"
"""All triples of the default graph in one relation: where rules that come later have several variables for
predicates in one body."""

VALUE, HOLDS, AGGREGATE = "rdf_value", "rdf_holds", "rdf"
_MOST_ALTERNATIVES = 1000
_INTEGER = f'"^^<{XSD}integer>'
_PLAIN = re.compile(r"[A-Za-z0-9_]+")

Binding = Mapping[Variable, str]
Kept = Callable[[Variable], bool]


@dataclass(frozen=True)
class Clauses:
    """What a rule became: relations to declare (name, number of columns), and clauses."""

    declared: tuple[tuple[str, int], ...]
    clauses: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(clause + "\n" for clause in self.clauses)

    def declarations(self, known: Iterable[str] = ()) -> str:
        """The declarations of the relations that are not known yet."""
        known = set(known)
        return "".join(
            f".decl {name}({', '.join(f'x{j}: {TERM}' for j in range(arity))})\n"
            for name, arity in self.declared
            if name not in known
        )


def translate(
    rule: Rule | Constraint, layout: Layout, target: tuple[str, Sequence[Variable]] | None = None
) -> Clauses:
    """The clauses of a rule; with a `target`, those that derive there for which variables the body holds."""
    return _Translation(rule, layout).run(target)


def standing_clauses(name: str, layout: Layout) -> list[str]:
    """The clauses of a relation that means the same for all rules: `EVERYTHING`, or what a layout names."""
    if name == NAMED_CLASS:
        return [f"{name}({quoted(klass)})." for klass in layout.classes]
    if name == NAMED_PROPERTY:
        return [f"{name}({quoted(predicate)})." for predicate in layout.properties]
    if name != EVERYTHING:
        return []
    clauses = [f"{EVERYTHING}(s, p, o) :- {TRIPLES}(s, p, o)."]
    for predicate, klass, relation in layout.slots:
        if klass is None:
            clauses.append(f"{EVERYTHING}(s, {quoted(predicate)}, o) :- {relation}(s, o).")
        else:
            clauses.append(f"{EVERYTHING}(s, {quoted(predicate)}, {quoted(klass)}) :- {relation}(s).")
    return clauses


def expression_json(expression: Expression) -> str:
    """An expression as text."""
    return json.dumps(_as_json(expression), ensure_ascii=False, separators=(",", ":"))


def expression_of(text: str) -> Expression:
    """The expression that `expression_json` wrote."""
    return _from_json(json.loads(text))


def _as_json(expression: Expression) -> object:
    if isinstance(expression, Variable):
        return {"v": expression.name}
    if isinstance(expression, str):
        return expression
    return [expression.function, *map(_as_json, expression.arguments)]


def _from_json(value: object) -> Expression:
    if isinstance(value, dict):
        return Variable(value["v"])
    if isinstance(value, str):
        return value
    assert isinstance(value, list)
    return Call(value[0], tuple(_from_json(part) for part in value[1:]))


def variables_of(item: BodyItem | Expression | None) -> dict[Variable, None]:
    """The variables that an item shares with the rule around it, or that an expression has, in order."""
    if isinstance(item, Variable):
        return {item: None}
    if isinstance(item, Triple):
        places = (item.subject, item.predicate, item.object, item.graph)
        return {place: None for place in places if isinstance(place, Variable)}
    if isinstance(item, Call):
        return {one: None for argument in item.arguments for one in variables_of(argument)}
    if isinstance(item, Filter):
        return variables_of(item.condition)
    if isinstance(item, Bind):
        return {**variables_of(item.expression), item.variable: None}
    if isinstance(item, Negation):
        variables = {one: None for part in item.body for one in variables_of(part)}
        return {one: None for one in variables if one not in item.local}
    if isinstance(item, Aggregate):
        return dict.fromkeys([*item.groups, *(one.variable for one in item.aggregations)])
    return {}


class _Translation:
    """One rule."""

    def __init__(self, rule: Rule | Constraint, layout: Layout) -> None:
        self._rule = rule
        self._layout = layout
        self._declared: dict[str, int] = {}
        self._clauses: dict[str, None] = {}
        self._fresh = 0
        self._by_everything = False

    def run(self, target: tuple[str, Sequence[Variable]] | None) -> Clauses:
        body = self._rule.body
        heads: Sequence[Triple] = ()
        if target is None:
            assert isinstance(self._rule, Rule)
            heads = self._rule.heads
        for binding, parts in self._bodies(body):
            if target is not None:
                name, variables = target
                arguments = ", ".join(_term(_bound(variable, binding)) for variable in variables)
                self._clause([f"{name}({arguments})"], parts)
            elif heads:
                self._heads(heads, binding, parts, body)
        return Clauses(tuple(self._declared.items()), tuple(self._clauses))

    # Heads

    def _heads(
        self, heads: Sequence[Triple], binding: Binding, parts: list[str], body: Sequence[BodyItem]
    ) -> None:
        """One clause with all heads, or, if some have variables for predicates, one for each of those."""
        settled: list[str] = []
        for head in heads:
            head = _replaced(head, binding)
            if self._is_settled(head):
                settled.append(self._atom(head))
            else:
                self._open_head(head, parts, body, binding)
        if settled:
            self._clause(settled, parts)

    def _is_settled(self, triple: Triple) -> bool:
        if triple.graph is not None:
            return True
        if isinstance(triple.predicate, Variable):
            return not (self._layout.classes or self._layout.properties)
        return not (triple.predicate == TYPE and isinstance(triple.object, Variable) and self._layout.classes)

    def _open_head(self, head: Triple, parts: list[str], body: Sequence[BodyItem], binding: Binding) -> None:
        read = {
            (item.predicate, item.object)
            for item in (_replaced(item, binding) for item in body if isinstance(item, Triple))
            if item.graph is None and not self._by_everything
        }
        if (head.predicate, head.object) in read:  # it came of `t`, where no triple of another relation is
            self._clause([self._generic(head)], parts)
            return
        from_triples = any(predicate == head.predicate for predicate, _ in read)
        for predicate, klass, relation in self._layout.slots:
            guard = list(parts)
            if klass is None and from_triples:
                continue
            if isinstance(head.predicate, Variable):
                guard.append(f"{_term(head.predicate)} = {quoted(predicate)}")
            elif predicate != TYPE:
                continue
            if klass is None:
                self._clause([f"{relation}({_term(head.subject)}, {_term(head.object)})"], guard)
            elif isinstance(head.object, Variable):
                guard.append(f"{_term(head.object)} = {quoted(klass)}")
                self._clause([f"{relation}({_term(head.subject)})"], guard)
            elif head.object == klass:
                self._clause([f"{relation}({_term(head.subject)})"], guard)
        guard = list(parts)
        if isinstance(head.predicate, Variable):
            name = _term(head.predicate)
            guard += [f"!{self._named(NAMED_PROPERTY)}({name})"]
            self._clause([self._generic(head)], [*guard, f"{name} != {quoted(TYPE)}"])
            guard.append(f"{name} = {quoted(TYPE)}")
        if isinstance(head.object, Variable):
            named = f"!{self._named(NAMED_CLASS)}({_term(head.object)})"
            self._clause([self._generic(head)], [*guard, named])
        elif head.object not in self._layout.classes:
            self._clause([self._generic(head)], guard)

    def _named(self, relation: str) -> str:
        """The relation of what the layout names, which is declared where a rule reads it."""
        self._declared.setdefault(relation, 1)
        return relation

    # Bodies

    def _bodies(self, body: Sequence[BodyItem]) -> Iterator[tuple[Binding, list[str]]]:
        """For each choice of relations for the triples of a body: what that binds, and the literals."""
        triples = [item for item in body if isinstance(item, Triple)]
        open_ones = [triple for triple in triples if not self._is_settled(triple)]
        slots = len(self._layout.classes) + len(self._layout.properties) + 1
        free = {triple.predicate for triple in open_ones if isinstance(triple.predicate, Variable)}
        free |= {
            triple.object
            for triple in open_ones
            if triple.predicate == TYPE and isinstance(triple.object, Variable)
        }
        self._by_everything = slots ** len(free) > _MOST_ALTERNATIVES
        if self._by_everything:
            self._declared.setdefault(EVERYTHING, 3)
            choices: Iterable[Binding] = [{}]
        else:
            choices = self._choices(open_ones)
        for binding in choices:
            yield binding, self._literals(body, binding)

    def _choices(self, triples: Sequence[Triple]) -> Iterator[Binding]:
        """What the open triples of a body may be bound to, together."""
        if not triples:
            yield {}
            return
        first, *rest = triples
        for choice in self._alternatives(first):
            for more in self._choices([_replaced(triple, choice) for triple in rest]):
                yield {**choice, **more}

    def _alternatives(self, triple: Triple) -> Iterator[Binding]:
        yield {}
        if self._is_settled(triple):
            return
        for predicate, klass, _ in self._layout.slots:
            binding: dict[Variable, str] = {}
            if isinstance(triple.predicate, Variable):
                binding[triple.predicate] = predicate
            elif triple.predicate != predicate:
                continue
            if klass is not None:
                place = triple.object
                if isinstance(place, Variable) and binding.get(place, klass) == klass:
                    binding[place] = klass
                elif place != klass:
                    continue
            yield binding

    def _literals(self, body: Sequence[BodyItem], binding: Binding) -> list[str]:
        parts: list[str] = []
        bound = {
            one for item in body if isinstance(item, Triple | Bind | Aggregate) for one in variables_of(item)
        }
        for item in body:
            if isinstance(item, Triple):
                parts.append(self._atom(_replaced(item, binding)))
            elif isinstance(item, Filter) and (pair := _different(item.condition)):
                parts.append(" != ".join(_term(_bound(one, binding)) for one in pair))
            elif isinstance(item, Filter):
                parts.append(f'"true" = {self._call(HOLDS, item.condition, binding)}')
            elif isinstance(item, Bind):
                value = self._call(VALUE, item.expression, binding)
                parts.append(f"{_term(_bound(item.variable, binding))} = {value}")
            elif isinstance(item, Negation):
                parts.extend(self._negation(item, body, bound, binding))
            else:
                parts.extend(self._aggregate(item, binding))
        return parts

    def _call(self, functor: str, expression: Expression, binding: Binding) -> str:
        expression = _replaced_in(expression, binding)
        variables = list(variables_of(expression))
        # By number, so that rules which differ in names only become the same clauses.
        numbered = _replaced_in(expression, {one: Variable(str(j)) for j, one in enumerate(variables)})
        arguments = [quoted(expression_json(numbered)), *map(_term, variables)]
        return f"@{functor}({', '.join(arguments)})"

    def _negation(
        self, negation: Negation, body: Sequence[BodyItem], bound: set[Variable], binding: Binding
    ) -> Iterator[str]:
        """Variables of the negated body that nothing outside binds are its own."""
        inner = tuple(_replaced(triple, binding) for triple in negation.body)
        outside = bound - set(negation.local) - set(binding)
        if len(inner) == 1 and self._is_settled(inner[0]):
            yield "!" + self._atom(inner[0], lambda one: one in outside)
            return
        shared = [one for one in {v: None for part in inner for v in variables_of(part)} if one in outside]
        name = self._relation(len(shared))
        rest = _Translation(self._rule, self._layout)
        rest._fresh = self._fresh = self._fresh + 1
        for choice, parts in rest._bodies(list(inner)):
            head = f"{name}({', '.join(_term(_bound(one, choice)) for one in shared)})"
            self._clause([head], parts)
        self._take(rest)
        yield f"!{name}({', '.join(map(_term, shared))})"

    def _aggregate(self, item: Aggregate, binding: Binding) -> Iterator[str]:
        """``h(groups, others)`` has the bindings of the body; the aggregates range over it."""
        body: list[BodyItem] = list(item.body)
        targets: list[Variable | None] = []
        for one in item.aggregations:
            if one.argument is None or isinstance(one.argument, Variable):
                targets.append(one.argument)
            else:
                self._fresh += 1
                targets.append(Variable(f"@{self._fresh}"))
                body.append(Bind(one.argument, Variable(f"@{self._fresh}")))
        inside = {v: None for part in body for v in variables_of(part)}
        groups = [one for one in item.groups if one not in binding]
        others = [one for one in inside if one not in groups and one not in binding]
        name = self._relation(len(groups) + len(others))
        inner = _Translation(self._rule, self._layout)
        inner._fresh = self._fresh = self._fresh + 1
        replaced: list[BodyItem] = [_replaced_item(part, binding) for part in body]
        for choice, parts in inner._bodies(replaced):
            head = ", ".join(_term(_bound(one, choice)) for one in (*groups, *others))
            self._clause([f"{name}({head})"], parts)
        self._take(inner)
        group_terms = [_term(one) for one in groups]
        yield f"{name}({', '.join([*group_terms, *('_' for _ in others)])})"
        for number, (one, target) in enumerate(zip(item.aggregations, targets, strict=True)):
            source, columns = name, others
            if one.distinct and target is not None:
                source, columns = self._relation(len(groups) + 1), [target]
                kept = ", ".join([*group_terms, _term(target)])
                whole = ", ".join([*group_terms, *(_term(v) if v == target else "_" for v in others)])
                self._clause([f"{source}({kept})"], [f"{name}({whole})"])
            ranging = [f"{_term(v)}_{number}" for v in columns]
            inner_atom = f"{source}({', '.join([*group_terms, *ranging])})"
            result = _term(_bound(one.variable, binding))
            if one.function == "COUNT":
                yield f"n{number}_{self._fresh} = count : {{ {inner_atom} }}"
                count = f"to_string(n{number}_{self._fresh})"
                yield f'{result} = cat("\\"", {count}, {quoted(_INTEGER)})'
            elif target is None:
                raise GpuEngineError(f"{one.function} in AGGREGATE needs an argument")
            else:
                at = f"{_term(target)}_{number}"
                yield f'{result} = @@{AGGREGATE}_{one.function} "" : {at}, {{ {inner_atom} }}'

    # Atoms

    def _atom(self, triple: Triple, is_kept: Kept | None = None) -> str:
        """The atom of a triple whose relation is settled, or that is meant of `t`.

        Variables that are not kept are wildcards.
        """
        terms = [triple.subject, triple.predicate, triple.object]
        if triple.graph is not None:
            return f"{QUADS}({', '.join(_written(one, is_kept) for one in (*terms, triple.graph))})"
        if self._by_everything and not self._is_settled(triple):
            return f"{EVERYTHING}({', '.join(_written(one, is_kept) for one in terms)})"
        if isinstance(triple.predicate, str):
            klass = self._layout.classes.get(triple.object) if isinstance(triple.object, str) else None
            if triple.predicate == TYPE and klass is not None:
                return f"{klass}({_written(triple.subject, is_kept)})"
            relation = self._layout.properties.get(triple.predicate)
            if relation is not None:
                arguments = (_written(one, is_kept) for one in (triple.subject, triple.object))
                return f"{relation}({', '.join(arguments)})"
        return f"{TRIPLES}({', '.join(_written(one, is_kept) for one in terms)})"

    def _generic(self, triple: Triple) -> str:
        return f"{TRIPLES}({', '.join(map(_term, (triple.subject, triple.predicate, triple.object)))})"

    def _relation(self, arity: int) -> str:
        """A relation of the rule's own."""
        self._fresh += 1
        name = f"h_{_digest(self._rule)}_{self._fresh}"
        self._declared[name] = arity
        return name

    def _take(self, other: _Translation) -> None:
        self._declared |= other._declared
        self._clauses |= other._clauses
        self._fresh = max(self._fresh, other._fresh)

    def _clause(self, heads: Sequence[str], parts: Sequence[str]) -> None:
        clause = f"{', '.join(heads)} :- {', '.join(parts or [f'{ALWAYS}()'])}."
        self._clauses[clause] = None


def _digest(rule: Rule | Constraint) -> str:
    plain = canonical(rule)
    text = repr((plain.heads, plain.body) if isinstance(plain, Rule) else (plain.name, plain.body))
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _term(argument: Argument) -> str:
    if isinstance(argument, Variable):
        name = argument.name
        if _PLAIN.fullmatch(name):
            return f"?{name}"
        return "?_" + hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
    return quoted(argument)


def _written(argument: Argument, is_kept: Kept | None) -> str:
    if isinstance(argument, Variable) and is_kept is not None and not is_kept(argument):
        return "_"
    return _term(argument)


def _bound(argument: Argument, binding: Binding) -> Argument:
    return binding.get(argument, argument) if isinstance(argument, Variable) else argument


def _replaced(triple: Triple, binding: Binding) -> Triple:
    if not binding:
        return triple
    graph = None if triple.graph is None else _bound(triple.graph, binding)
    return Triple(
        _bound(triple.subject, binding),
        _bound(triple.predicate, binding),
        _bound(triple.object, binding),
        graph,
    )


def _replaced_item(item: BodyItem, binding: Binding) -> BodyItem:
    if isinstance(item, Triple):
        return _replaced(item, binding)
    if isinstance(item, Filter):
        return Filter(_replaced_in(item.condition, binding))
    if isinstance(item, Bind):
        return replace(item, expression=_replaced_in(item.expression, binding))
    if isinstance(item, Negation):
        return replace(item, body=tuple(_replaced(part, binding) for part in item.body))
    return replace(item, body=tuple(_replaced_item(part, binding) for part in item.body))


def _different(condition: Expression) -> tuple[Argument, ...]:
    """The terms of ``!sameTerm(?x, ?y)``: the engine compares them itself."""
    if isinstance(condition, Call) and condition.function == "!":
        inner = condition.arguments[0]
        if isinstance(inner, Call) and inner.function == "SAMETERM":
            return tuple(one for one in inner.arguments if not isinstance(one, Call))
    return ()


def _replaced_in(expression: Expression, binding: Mapping[Variable, Argument]) -> Expression:
    if isinstance(expression, Variable):
        return binding.get(expression, expression)
    if isinstance(expression, Call):
        return Call(expression.function, tuple(_replaced_in(one, binding) for one in expression.arguments))
    return expression
