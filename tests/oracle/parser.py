"""Program text to items, by recursive descent: Soufflé's dialect without preprocessing.

A body is brought into disjunctive normal form by `rules_of`, one rule for each head and alternative.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from tests.oracle.functors import MATHEMATICAL
from tests.oracle.syntax import (
    Agg,
    And,
    Atom,
    Bool,
    Call,
    Cast,
    Clause,
    Comp,
    Compare,
    Const,
    Decl,
    Directive,
    Init,
    Lattice,
    Merge,
    Not,
    Or,
    Override,
    Pack,
    Rule,
    TypeDecl,
    Use,
    Var,
    Wild,
)

TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<directive>\.(?:decl|type|symbol_type|number_type|input|output|printsize|limitsize|pragma|plan
                        |comp|init|override|lattice)\b)
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    | (?P<int>0x[0-9a-fA-F]+u?|0b[01]+u?|\d+u?)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<branch>\$[A-Za-z_?][\w?]*)
    | (?P<name>choice-domain|[A-Za-z_?][\w?]*)
    | (?P<mark>:-|->|<:|<=|>=|!=|[-+*/%^=<>!.,:;(){}\[\]|])
    """,
    re.VERBOSE | re.DOTALL,
)
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
#: Binary operators, the loosest first; all associate to the left.
LEVELS = (
    ("lor",),
    ("lxor",),
    ("land",),
    ("bor",),
    ("bxor",),
    ("band",),
    ("bshl", "bshr", "bshru"),
    ("+", "-"),
    ("*", "/", "%"),
)
FUNCTORS = {
    *("cat", "ord", "range", "strlen", "substr"),
    *("to_float", "to_number", "to_string", "to_unsigned"),
}
AGGREGATES = ("count", "sum", "min", "max", "mean")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
QUALIFIERS = {
    *("overridable", "inline", "no_inline", "magic", "no_magic", "brie", "btree", "btree_delete"),
    *("eqrel", "output", "input", "printsize"),
}


class NotUnderstoodError(Exception):
    """The oracle can't read this text."""


def parse(text: str) -> list[Any]:
    """The items of a program."""
    return list(Parser(text).items())


def tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise NotUnderstoodError(f"no token begins here: {text[place : place + 20]!r}")
        place = match.end()
        if match.lastgroup:
            yield match.lastgroup, match[match.lastgroup]
    yield "end", ""


class Parser:
    def __init__(self, text: str) -> None:
        self.functors = FUNCTORS.union(MATHEMATICAL) - set(re.findall(r"\.decl\s+(\w+)", text))
        self.tokens = list(tokens(text))
        self.place = 0

    @property
    def word(self) -> str:
        return self.tokens[self.place][1]

    @property
    def kind(self) -> str:
        return self.tokens[self.place][0]

    def next(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1][1]

    def sees(self, *words: str) -> bool:
        return self.kind in ("mark", "name", "directive") and self.word in words

    def takes(self, *words: str) -> bool:
        found = self.sees(*words)
        self.place += found
        return found

    def expect(self, word: str) -> None:
        if not self.takes(word):
            context = " ".join(text for _, text in self.tokens[max(0, self.place - 8) : self.place + 3])
            raise NotUnderstoodError(f"expected {word!r}, found {self.word!r} in {context!r}")

    def name(self) -> str:
        if self.kind != "name":
            raise NotUnderstoodError(f"expected a name, found {self.word!r}")
        return self.next()

    def qualified(self) -> str:
        found = self.name()
        while self.sees(".") and self.tokens[self.place + 1][0] == "name":
            self.place += 1
            found += f".{self.name()}"
        return found

    def list_of(self, one: Callable[[], Any], separator: str = ",") -> tuple[Any, ...]:
        found = [one()]
        while self.takes(separator):
            found.append(one())
        return tuple(found)

    def enclosed(self, opening: str, one: Callable[[], Any], closing: str) -> tuple[Any, ...]:
        self.expect(opening)
        if self.takes(closing):
            return ()
        found = self.list_of(one)
        self.expect(closing)
        return found

    # -- items -----------------------------------------------------------------------------------

    def items(self) -> Iterator[Any]:
        while self.kind != "end" and not self.sees("}"):
            found = self.item()
            if found is not None:
                yield found

    def item(self) -> Any:
        if self.kind != "directive":
            return self.clause()
        match self.next():
            case ".decl":
                names = self.list_of(self.name)
                attributes = self.enclosed("(", self.named_attribute, ")")
                qualifiers = set()
                while self.sees(*QUALIFIERS):
                    qualifiers.add(self.next())
                known = [name for name, _, _ in attributes]
                joined = tuple(place for place, (_, _, is_joined) in enumerate(attributes) if is_joined)
                keys = self.list_of(self.key) if self.takes("choice-domain") else ()
                choices = tuple(tuple(known.index(name) for name in key) for key in keys)
                types = tuple(type_ for _, type_, _ in attributes)
                return Decl(names, types, frozenset(qualifiers), choices, joined)
            case ".lattice":
                return self.lattice()
            case ".type":
                return self.type_declaration(self.name())
            case ".symbol_type":
                return TypeDecl(self.name(), "same", ("symbol",))
            case ".number_type":
                return TypeDecl(self.name(), "same", ("number",))
            case ".input" | ".output" | ".printsize" | ".limitsize" as kind:
                names = self.list_of(self.qualified)
                params = dict(self.enclosed("(", self.parameter, ")")) if self.sees("(") else {}
                return Directive(kind[1:], names, params)
            case ".pragma":
                while self.kind == "string":
                    self.next()
                return None
            case ".comp":
                type_ = self.use()
                bases = self.list_of(self.use) if self.takes(":") else ()
                self.expect("{")
                items = tuple(self.items())
                self.expect("}")
                return Comp(type_, bases, items)
            case ".init":
                name = self.name()
                self.expect("=")
                return Init(name, self.use())
            case ".override":
                return Override(self.name())
            case other:
                raise NotUnderstoodError(other)

    def attribute(self) -> str:
        return self.named_attribute()[1]

    def named_attribute(self) -> tuple[str, str, bool]:
        name = self.name()
        self.expect(":")
        type_, is_joined = self.qualified(), self.takes("<")
        if is_joined:
            self.expect(">")
        return name, type_, is_joined

    def lattice(self) -> Lattice:
        type_ = self.qualified()
        self.expect("<")
        self.expect(">")
        operators = dict(self.enclosed("{", self.operator, "}"))
        join, meet = operators["Lub"].op, operators.get("Glb")
        return Lattice(type_, join, None if meet is None else meet.op, operators.get("Bottom"))

    def operator(self) -> tuple[str, Any]:
        name = self.name()
        self.expect("->")
        return name, self.argument()

    def key(self) -> tuple[str, ...]:
        return self.enclosed("(", self.name, ")") if self.sees("(") else (self.name(),)

    def parameter(self) -> tuple[str, str]:
        name = self.name()
        self.expect("=")
        return name, self.next()

    def use(self) -> Use:
        name = self.name()
        return Use(name, self.enclosed("<", self.qualified, ">") if self.sees("<") else ())

    def type_declaration(self, name: str) -> TypeDecl:
        if self.takes("<:"):
            return TypeDecl(name, "same", (self.qualified(),))
        if not self.takes("="):
            return TypeDecl(name, "same", ("symbol",))
        if self.sees("["):
            return TypeDecl(name, "record", self.enclosed("[", self.attribute, "]"))
        if self.tokens[self.place + 1][1] == "{":
            return TypeDecl(name, "adt", self.list_of(self.branch, "|"))
        return TypeDecl(name, "same", self.list_of(self.qualified, "|"))

    def branch(self) -> tuple[str, tuple[str, ...]]:
        return f"${self.name()}", self.enclosed("{", self.attribute, "}")

    # -- clauses ---------------------------------------------------------------------------------

    def clause(self) -> Clause:
        heads = self.list_of(self.atom)
        dominating = self.atom() if self.takes("<=") else None
        body = self.body() if self.takes(":-") else None
        self.expect(".")
        return Clause(heads, body, dominating)

    def atom(self) -> Atom:
        name = self.qualified()
        return Atom(name, self.enclosed("(", self.merged, ")"))

    def merged(self) -> Any:
        """An argument of an atom: in a head, perhaps with an aggregate."""
        start = self.place
        if self.sees("min", "max", "sum", "count", "any", "all", "bor", "band"):
            op = self.next()
            try:
                arg = self.argument()
                if self.sees(",", ")"):
                    return Merge(op, arg)
            except NotUnderstoodError:
                pass
        self.place = start
        return self.argument()

    def body(self) -> Any:
        return Or(self.list_of(lambda: And(self.list_of(self.term)), ";"))

    def term(self) -> Any:
        if self.takes("!"):
            return Not(self.term())
        if self.sees("("):  # a group, unless it turns out to be arithmetic
            start = self.place
            try:
                self.place += 1
                group = self.body()
                self.expect(")")
                if self.sees(",", ";", ".", ")", "}") or self.kind == "end":
                    return group
            except NotUnderstoodError:
                pass
            self.place = start
        if self.sees("true", "false"):
            return Bool(self.next() == "true")
        if self.sees("match", "contains"):
            op = self.next()
            left, right = self.enclosed("(", self.argument, ")")
            return Compare(op, left, right)
        following = self.tokens[self.place + 1][1]
        words = self.functors.union(AGGREGATES, ("as", "bnot", "lnot"))
        if self.kind == "name" and self.word not in words and following in ("(", "."):
            return self.atom()
        left = self.argument()
        if not self.sees(*COMPARISONS):
            raise NotUnderstoodError(f"expected a comparison, found {self.word!r}")
        return Compare(self.next(), left, self.argument())

    # -- expressions -----------------------------------------------------------------------------

    def argument(self, level: int = 0) -> Any:
        if level == len(LEVELS):
            return self.unary()
        found = self.argument(level + 1)
        while self.sees(*LEVELS[level]):
            found = Call(self.next(), (found, self.argument(level + 1)))
        return found

    def unary(self) -> Any:
        if self.takes("-"):
            found = self.unary()
            if isinstance(found, Const) and found.kind in ("int", "float"):
                return Const(-found.value, found.kind)
            return Call("neg", (found,))
        if self.sees("bnot", "lnot"):
            return Call(self.next(), (self.unary(),))
        found = self.primary()
        return Call("^", (found, self.unary())) if self.takes("^") else found

    def primary(self) -> Any:
        kind, word = self.tokens[self.place]
        self.place += 1
        match kind:
            case "string":
                return Const(re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), word[1:-1]), "symbol")
            case "float":
                return Const(float(word), "float")
            case "int":
                value = int(word.rstrip("u"), {"0x": 16, "0b": 2}.get(word[:2], 10))
                return Const(value, "unsigned" if word.endswith("u") else "int")
            case "branch":
                return Pack(word, self.enclosed("(", self.argument, ")") if self.sees("(") else ())
            case "name":
                return self.named(word)
        if word == "(":
            found = self.argument()
            self.expect(")")
            return found
        if word == "[":
            self.place -= 1
            return Pack("[]", self.enclosed("[", self.argument, "]"))
        raise NotUnderstoodError(f"expected a value, found {word!r}")

    def named(self, word: str) -> Any:
        if word == "_":
            return Wild()
        if word == "nil":
            return Const(None, "nil")
        if word == "as":
            self.expect("(")
            value = self.argument()
            self.expect(",")
            cast = Cast(value, self.qualified())
            self.expect(")")
            return cast
        if word in self.functors and (word in FUNCTORS or self.sees("(")):
            return Call(word, self.enclosed("(", self.argument, ")"))
        if word in AGGREGATES:
            return self.aggregate(word)
        return Var(word)

    def aggregate(self, op: str) -> Any:
        if op in ("min", "max") and self.sees("("):
            start = self.place
            args = self.enclosed("(", self.argument, ")")
            if len(args) > 1:
                return Call(op, args)
            self.place = start
        target = None if self.sees(":") else self.argument()
        self.expect(":")
        if self.takes("{"):
            body = self.body()
            self.expect("}")
        else:
            body = self.atom()
        (conjunction,) = alternatives(body)
        return Agg(op, target, conjunction)


def alternatives(term: Any, positive: bool = True) -> list[tuple[Any, ...]]:
    """The conjunctions of literals whose disjunction is `term`, or its negation."""
    if isinstance(term, Not):
        return alternatives(term.term, not positive)
    if isinstance(term, And | Or):
        parts = [alternatives(part, positive) for part in term.terms]
        if isinstance(term, Or) == positive:
            return [conjunction for part in parts for conjunction in part]
        return [sum(choice, ()) for choice in product(*parts)]
    if positive:
        return [(term,)]
    if isinstance(term, Atom):
        return [(Not(term),)]
    if isinstance(term, Bool):
        return [(Bool(not term.value),)]
    op = OPPOSITE.get(term.op) or (term.op[1:] if term.op.startswith("!") else f"!{term.op}")
    return [(Compare(op, term.left, term.right),)]


def rules_of(clause: Clause) -> list[Rule]:
    bodies = [()] if clause.body is None else alternatives(clause.body)
    if clause.dominating is not None:
        (head,) = clause.heads
        args = tuple(Var(f"_@{at}") if isinstance(arg, Wild) else arg for at, arg in enumerate(head.args))
        head = Atom(head.relation, args)
        return [Rule(head, (head, clause.dominating, *body), subsumes=True) for body in bodies]
    return [_unmerged(head, body) for body in bodies for head in clause.heads]


def _unmerged(head: Atom, body: tuple[Any, ...]) -> Rule:
    merges = [(place, arg.op) for place, arg in enumerate(head.args) if isinstance(arg, Merge)]
    args = tuple(arg.arg if isinstance(arg, Merge) else arg for arg in head.args)
    if not merges:
        return Rule(Atom(head.relation, args), body)
    ((place, op),) = merges
    if op == "count":
        args = (*args[:place], Const(1, "int"), *args[place + 1 :])
    if op in ("sum", "count"):  # every fact that a wildcard stands for counts
        body = tuple(
            replace(part, args=tuple(_named(arg, at, number) for number, arg in enumerate(part.args)))
            if isinstance(part, Atom)
            else part
            for at, part in enumerate(body)
        )
    return Rule(Atom(head.relation, args), body, (place, op))


def _named(arg: Any, at: int, number: int) -> Any:
    return Var(f"_@{at}.{number}") if isinstance(arg, Wild) else arg
