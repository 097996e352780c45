"""A generated program as parts that tests can permute and rename, and the texts it is made of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

PRIMITIVES = ("number", "symbol", "unsigned", "float")
#: Ids of small integers are the integers themselves up to 2^24: values on both sides of it matter.
VALUES: dict[str, tuple[Any, ...]] = {
    "number": (
        *(0, 1, 2, 3, -1, 7, 2**24 - 1, 2**24, 2**24 + 1, -(2**24), 2**31 - 1, 2**31),
        *(-(2**31), 2**32 - 1, 2**32, 2**62, 2**63 - 1, -(2**63)),
    ),
    "unsigned": (0, 1, 2, 3, 2**24 - 1, 2**24, 2**31, 2**32, 2**63, 2**64 - 1),
    "float": (0.0, 1.0, 0.5, -1.0, 2.25, 1048576.0, -0.125),
    "symbol": ("a", "b", "", "ab", "ba", "A", "10", "-1", "é", "日本", 'say "a"', "back\\slash", "a b"),
}
COMPOUND_TYPES = """\
.type Pair = [left: number, right: symbol]
.type List = [head: number, tail: List]
.type Shape = Dot {} | Circle { radius: number } | Named { name: symbol, shape: Shape }
"""
#: Ways to build or take apart a compound value: the text with one slot per argument, and their types.
PACKS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "Pair": (("[{}, {}]", ("number", "symbol")), ("nil", ())),
    "List": (("nil", ()), ("[{}, {}]", ("number", "List"))),
    "Shape": (("$Dot()", ()), ("$Circle({})", ("number",)), ("$Named({}, {})", ("symbol", "Shape"))),
}
EXPRESSIONS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "number": (
        ("{} + 1", ("number",)),
        ("{} + {}", ("number", "number")),
        ("{} - {}", ("number", "number")),
        ("{} * {}", ("number", "number")),
        ("{} / 3", ("number",)),
        ("{} % -7", ("number",)),
        ("-({})", ("number",)),
        ("({} % 10) ^ 3", ("number",)),
        ("bnot {}", ("number",)),
        ("{} band {}", ("number", "number")),
        ("{} bor {}", ("number", "number")),
        ("{} bxor 5", ("number",)),
        ("{} bshl 4", ("number",)),
        ("{} bshr {}", ("number", "number")),
        ("{} bshru 60", ("number",)),
        ("lnot {}", ("number",)),
        ("{} land {}", ("number", "number")),
        ("{} lor {}", ("number", "number")),
        ("{} lxor 1", ("number",)),
        ("min({}, {}, 2)", ("number", "number")),
        ("max({}, {})", ("number", "number")),
        ("to_number({})", ("unsigned",)),
        ("to_number({})", ("float",)),
    ),
    "unsigned": (
        ("{} + 1u", ("unsigned",)),
        ("{} - {}", ("unsigned", "unsigned")),
        ("{} * {}", ("unsigned", "unsigned")),
        ("{} / 3u", ("unsigned",)),
        ("{} % 5u", ("unsigned",)),
        ("{} bshr 1u", ("unsigned",)),
        ("max({}, {})", ("unsigned", "unsigned")),
        ("to_unsigned({})", ("number",)),
        ("as({}, unsigned)", ("number",)),
    ),
    "float": (
        ("{} + {}", ("float", "float")),
        ("{} - 0.5", ("float",)),
        ("{} * 2.0", ("float",)),
        ("min({}, {})", ("float", "float")),
        ("to_float({})", ("number",)),
        ("to_float({})", ("unsigned",)),
    ),
    "symbol": (
        ("cat({}, {})", ("symbol", "symbol")),
        ('cat({}, "-", {})', ("symbol", "symbol")),
        ("min({}, {})", ("symbol", "symbol")),
        ("max({}, {})", ("symbol", "symbol")),
        ("to_string({})", ("number",)),
        ("to_string({})", ("unsigned",)),
        ("to_string({})", ("float",)),
    ),
}
#: Expressions with few possible values, safe in recursive rules.
BOUNDED: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "number": (("({} + 1) % 5", ("number",)), ("({} - {}) band 3", ("number", "number"))),
    "unsigned": (("({} + 1u) % 4u", ("unsigned",)),),
    "float": (("min({}, {})", ("float", "float")),),
    "symbol": (("max({}, {})", ("symbol", "symbol")), ("to_string({} % 3)", ("number",))),
}
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Relation:
    name: str
    types: tuple[str, ...]
    layer: int
    qualifier: str = ""

    def declaration(self) -> str:
        attributes = ", ".join(f"a{i}: {type_}" for i, type_ in enumerate(self.types))
        return f".decl {self.name}({attributes}) {self.qualifier}".rstrip()


@dataclass(frozen=True)
class Clause:
    heads: tuple[str, ...]
    body: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.body:
            return " ".join(f"{head}." for head in self.heads)
        return f"{', '.join(self.heads)} :- {', '.join(self.body)}."


@dataclass(frozen=True)
class Case:
    """A program and the facts to load; `str(case)` is the program's text."""

    header: str
    relations: tuple[Relation, ...]
    clauses: tuple[Clause, ...]
    facts: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def __str__(self) -> str:
        declarations = [relation.declaration() for relation in self.relations]
        outputs = [f".output {relation.name}" for relation in self.relations]
        return "\n".join([self.header, *declarations, *outputs, *map(str, self.clauses)]) + "\n"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How hypothesis shows a falsifying case: as the text that one can run."""
        printer.text(f'"""{self}""", facts={self.facts}')

    def renamed(self) -> Case:
        """The same program with every variable called differently."""

        def other(text: str) -> str:
            return re.sub(
                r"\b([vw])(\d+)\b", lambda m: f"{'x' if m[1] == 'v' else 'a'}_{99 - int(m[2])}", text
            )

        clauses = tuple(
            Clause(tuple(map(other, clause.heads)), tuple(map(other, clause.body))) for clause in self.clauses
        )
        return replace(self, clauses=clauses)


def literal(value: Any, type_: str) -> str:
    """A primitive value as a constant in program text."""
    if type_ == "symbol":
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    return f"{value}u" if type_ == "unsigned" else str(value)
