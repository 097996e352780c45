"""Random programs that use much of the language at once: what `strategies` does not write.

Components with parameters and inheritance, inline relations, chains of subtypes and unions, limits, means,
ranges, NaN or infinities, relations of a dozen columns, strings and their functors, what can fail behind its
guard, `true` and `false`, records in records. A program is made of a seed, and correct by construction:

- relations come in layers; a rule reads its own and lower layers, negation and aggregates only lower ones;
- a rule that reads its own layer computes nothing, except under a limit;
- a variable goes into a head only where its type fits;
- NaN and infinities are never in one program: operations on infinities make a NaN with other bits.

Each declaration is a line that begins with a dot, an inline relation or a component with all its rules; each
other line is one clause.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.generated import literal

#: Each type with its root; a type is a subtype of those before it that have the same root.
CHAINS: dict[str, tuple[str, ...]] = {
    "number": ("number", "Id", "Key"),
    "unsigned": ("unsigned", "Size"),
    "float": ("float", "Weight"),
    "symbol": ("symbol", "Place", "City", "Town"),
}
TYPES = """\
.type Id <: number
.type Key <: Id
.type Size <: unsigned
.type Weight = float
.type Village <: symbol
.type Place = City | Village
.type City <: symbol
.type Town <: City
.type Pair = [left: number, right: symbol]
.type Deep = [pair: Pair, rest: Deep]
.type Shape = Dot {} | Circle { radius: Id } | Named { name: symbol, shape: Shape }"""
ROOT = {name: root for root, chain in CHAINS.items() for name in chain}
PACKS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "Pair": (("[{}, {}]", ("number", "symbol")), ("nil", ())),
    "Deep": (("[{}, {}]", ("Pair", "Deep")), ("nil", ())),
    "Shape": (("$Dot()", ()), ("$Circle({})", ("number",)), ("$Named({}, {})", ("symbol", "Shape"))),
}
POOLS: dict[str, tuple[Any, ...]] = {
    "number": (0, 1, 2, 3, -1, 7, 12, 2**24, -(2**31), 2**63 - 1),
    "unsigned": (0, 1, 2, 3, 9, 2**32, 2**64 - 1),
    "float": (0.0, 1.0, 0.5, -1.0, 2.25, -0.125, 0.1, -0.7, 1e16, 3e-9),
    "symbol": (
        *("a", "b", "", "ab", "abc", "10", "0x1f", "7", "é", "日本"),
        *("a b", "a, b", '"a"', " a ", "a]", "$Dot", "nil", "\\", "(\n)"),
    ),
}
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
#: Expressions by the root of their value, with the roots of their slots; nothing here can fail.
EXPRESSIONS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "number": (
        ("{} + {}", ("number", "number")),
        ("{} * 3 - {}", ("number", "number")),
        ("strlen({})", ("symbol",)),
        ("strlen(cat({}, {}))", ("symbol", "symbol")),
        ("max({}, {}, 1)", ("number", "number")),
        ("to_number({})", ("unsigned",)),
        ("({} band 7) bxor {}", ("number", "number")),
        ("to_number(to_string({}))", ("number",)),
    ),
    "unsigned": (
        ("{} + 1", ("unsigned",)),
        ("{} - {}", ("unsigned", "unsigned")),
        ("to_unsigned({})", ("number",)),
        ("min({}, {})", ("unsigned", "unsigned")),
        ("{} bshr 2", ("unsigned",)),
    ),
    "float": (
        ("{} + {}", ("float", "float")),
        ("{} * 2", ("float",)),
        ("to_float({} band 1023)", ("number",)),
        ("max({}, {})", ("float", "float")),
        ("{} / 4", ("float",)),
    ),
    "symbol": (
        ("cat({}, {})", ("symbol", "symbol")),
        ("substr({}, 1, 2)", ("symbol",)),
        ("substr({}, {}, {})", ("symbol", "number", "number")),
        ("to_string({})", ("number",)),
        ("to_string({})", ("unsigned",)),
        ("min({}, {})", ("symbol", "symbol")),
        ('{} + "x"', ("symbol",)),
    ),
}
#: What can fail, with its guard and the type of its value; {0} is computed with, {1} divides.
GUARDED = (
    ("number", "number", "{0} / {1}", "{1} != 0"),
    ("number", "number", "{0} % {1}", "{1} > 0"),
    ("number", "number", "{0} / ({1} - 1)", "{1} != 1"),
    ("unsigned", "unsigned", "{0} / {1}", "{1} != 0"),
    ("number", "symbol", "to_number({1})", 'match("[0-9]+", {1})'),
    ("unsigned", "symbol", "to_unsigned({1})", 'match("[0-9]|10", {1})'),
)


@dataclass(frozen=True)
class Relation:
    name: str
    types: tuple[str, ...]
    layer: int
    inline: bool = False


@dataclass
class WideProgram:
    """A program and the facts of its inputs."""

    text: str
    facts: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


def wide_program(seed: int, limits: bool = True) -> WideProgram:
    return _Writer(Random(seed), limits).program()


class _Writer:
    def __init__(self, random: Random, limits: bool) -> None:
        self.random = random
        self.limits = limits
        self.pools = {root: random.sample(values, min(len(values), 5)) for root, values in POOLS.items()}
        special = random.choice([(), (), (math.nan,), (math.inf, -math.inf)])
        self.pools["float"] += special
        self.relations: list[Relation] = []
        self.declarations: list[str] = []
        self.clauses: list[str] = []
        self.facts: dict[str, list[tuple[Any, ...]]] = {}
        self.guards: tuple[str, ...] = ()
        self._names = 0

    def program(self) -> WideProgram:
        random = self.random
        self._inputs()
        if random.random() < 0.7:
            self._guards()
        for layer in (1, 2, 3)[: random.randint(1, 3)]:
            for _ in range(random.randint(1, 2)):
                self._derived(layer)
            if random.random() < 0.4:
                self._component(layer)
            if random.random() < 0.3:
                self._inlined(layer)
            if self.limits and random.random() < 0.25:
                self._limited(layer)
        return WideProgram("\n".join([TYPES, *self.declarations, *self.clauses]) + "\n", self.facts)

    # -- relations -------------------------------------------------------------------------------

    def _inputs(self) -> None:
        for number in range(self.random.randint(1, 3)):
            types = self._types(compound=False)
            relation = self._declare(f"e{number}", types, 0)
            rows = {
                tuple(self.random.choice(self.pools[ROOT[type_]]) for type_ in types)
                for _ in range(self.random.randint(0, 9))
            }
            self.facts[relation.name] = sorted(rows, key=repr)

    def _types(self, compound: bool) -> tuple[str, ...]:
        size = self.random.choice([1, 2, 2, 2, 3, 3, 4, 12, 17])
        roots = self.random.sample(sorted(CHAINS), 2)
        types = [self.random.choice(CHAINS[self.random.choice(roots)]) for _ in range(size)]
        if compound and self.random.random() < 0.4:
            types[self.random.randrange(size)] = self.random.choice(sorted(PACKS))
        return tuple(types)

    def _declare(self, name: str, types: Sequence[str], layer: int, qualifier: str = "") -> Relation:
        relation = Relation(name, tuple(types), layer, qualifier == "inline")
        attributes = ", ".join(f"a{i}: {type_}" for i, type_ in enumerate(types))
        self.declarations.append(f".decl {name}({attributes}) {qualifier}".rstrip())
        self.relations.append(relation)
        return relation

    def _new(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _below(self, layer: int) -> list[Relation]:
        return [relation for relation in self.relations if relation.layer < layer]

    def _derived(self, layer: int) -> None:
        types = self._types(compound=True)
        same = len(types) == 2 and types[0] == types[1]
        qualifier = "eqrel" if same and self.random.random() < 0.4 else ""
        relation = self._declare(self._new("r"), types, layer, qualifier)
        for number in range(self.random.randint(1, 3)):
            self.clauses.append(self._rule(relation, self._below(layer + (number > 0))))
        if self.random.random() < 0.3:
            args = ", ".join(map(self._constant, types))
            self.clauses.append(f"{relation.name}({args}).")

    def _guards(self) -> None:
        """Inline relations that only compare, and whose arguments must be bound."""
        self.declarations.append(".decl least(x: number, y: number) inline  least(x, y) :- x <= y.")
        self.declarations.append(
            ".decl near(x: number, y: number) inline  near(x, y) :- x = y. near(x, y) :- x = y + 1."
        )
        self.guards = ("least({}, {})", "!least({}, {})", "near({}, {})", "!near({}, {})")

    def _inlined(self, layer: int) -> None:
        relation = Relation(self._new("i"), self._types(compound=False), layer, inline=True)
        attributes = ", ".join(f"a{i}: {type_}" for i, type_ in enumerate(relation.types))
        rules = [self._rule(relation, self._below(layer)) for _ in range(self.random.randint(1, 2))]
        self.declarations.append(f".decl {relation.name}({attributes}) inline  {' '.join(rules)}")
        self.relations.append(relation)

    def _component(self, layer: int) -> None:
        """A component over a lower relation, perhaps one that inherits from it, and an instance or two."""
        below = [r for r in self._below(layer) if len(r.types) > 1 and r.types[0] == r.types[1] in ROOT]
        if not below:
            return
        source = self.random.choice(below)
        rest = ", ".join(["_"] * (len(source.types) - 2))
        read = f"{source.name}(x, y{', ' * bool(rest)}{rest})"
        comp, derived, inst = self._new("Comp"), self._new("Comp"), self._new("c")
        step = self.random.choice(["p(x, y), p(y, z)", "q(x, y), p(y, z)", "p(x, y), q(y, z), x != z"])
        self.declarations.append(
            f".comp {comp}<T> {{ .decl q(x: T, y: T) overridable  .decl p(x: T, y: T)  "
            f"q(x, y) :- {read}. p(x, y) :- q(x, y). p(x, z) :- {step}. }}"
        )
        turned = self.random.choice(["q(y, x)", "q(x, x)", "q(x, y), q(y, x)"])
        override = f".override q  {turned} :- {read}." if self.random.random() < 0.6 else ""
        self.declarations.append(
            f".comp {derived}<U, V> : {comp}<U> {{ {override} .comp Inner {{ .decl s(x: U)  "
            f"s(x) :- p(x, x). }} .init inner = Inner  .decl n(v: V)  n(v) :- v = count : {{ p(_, _) }}. }}"
        )
        type_ = source.types[0]
        for name, use in ((inst, f"{comp}<{type_}>"), (f"{inst}d", f"{derived}<{type_}, number>")):
            self.declarations.append(f".init {name} = {use}")
            self.relations += [
                Relation(f"{name}.p", (type_, type_), layer),
                Relation(f"{name}.q", (type_, type_), layer),
            ]
        self.relations += [
            Relation(f"{inst}d.inner.s", (type_,), layer),
            Relation(f"{inst}d.n", ("number",), layer),
        ]

    def _limited(self, layer: int) -> None:
        """Recursion that only its limit ends."""
        relation = self._declare(self._new("l"), ("number", "symbol"), layer)
        name = relation.name
        self.declarations.append(f".limitsize {name}(n={self.random.randint(1, 9)})")
        self.clauses.append(f'{name}({self.random.randint(-2, 2)}, "").')
        self.clauses.append(f'{name}(x + {self.random.randint(1, 3)}, cat(s, "y")) :- {name}(x, s).')
        if self.random.random() < 0.5:
            self.clauses.append(f"{name}(x * 2, s) :- x > 1, {name}(x, s).")

    # -- rules -----------------------------------------------------------------------------------

    def _rule(self, head: Relation, readable: Sequence[Relation]) -> str:
        random = self.random
        atoms = [random.choice(readable) for _ in range(random.choice([1, 1, 2, 2, 3]))]
        recursive = any(relation.layer == head.layer for relation in atoms)
        below = [relation for relation in readable if relation.layer < head.layer]
        bound: dict[str, str] = {}
        body = [self._atom(relation, bound) for relation in atoms]
        for _ in range(random.randint(0, 2)):
            body.append(self._filter(bound, below))
        if not recursive:
            for add in (self._computed, self._ranged):
                if random.random() < 0.25:
                    body += add(bound)
            if random.random() < 0.25:
                body += self._fallible(bound, guarded=head.inline)
            if below and random.random() < 0.35:
                body.append(self._aggregate(bound, below))
        random.shuffle(body)
        args = ", ".join(self._head(type_, bound, recursive) for type_ in head.types)
        return f"{head.name}({args}) :- {', '.join(body)}."

    def _atom(self, relation: Relation, bound: dict[str, str], prefix: str = "") -> str:
        wide = len(relation.types) > 6
        args = (self._pattern(type_, bound, prefix, 0.5 if wide else 0.12) for type_ in relation.types)
        return f"{relation.name}({', '.join(args)})"

    def _pattern(self, type_: str, bound: dict[str, str], prefix: str, blank: float, depth: int = 2) -> str:
        chance = self.random.random()
        if chance < blank:
            return "_"
        if chance > 0.9 and type_ in ROOT:
            return self._constant(type_)
        if type_ in PACKS and depth and chance > 0.4:
            template, slots = self.random.choice(PACKS[type_])
            return template.format(*(self._pattern(s, bound, prefix, blank, depth - 1) for s in slots))
        root = ROOT.get(type_, type_)
        name = f"{prefix}{root[:2].lower()}{self.random.randint(0, 1)}"
        bound[name] = _narrower(bound.get(name, type_), type_)
        return name

    def _constant(self, type_: str) -> str:
        if type_ in PACKS:
            template, slots = self.random.choice([p for p in PACKS[type_] if type_ not in p[1]])
            return template.format(*map(self._constant, slots))
        root = ROOT[type_]
        value = self.random.choice([value for value in self.pools[root] if _is_written(value)])
        return literal(value, root)

    def _known(self, type_: str, bound: dict[str, str]) -> str:
        """A bound variable that fits a type, or a constant."""
        names = [name for name, its in bound.items() if _fits(its, type_)]
        return self.random.choice(names) if names and self.random.random() < 0.85 else self._constant(type_)

    def _filter(self, bound: dict[str, str], below: Sequence[Relation]) -> str:
        random = self.random
        chance = random.random()
        if chance < 0.3 and below:
            relation = random.choice(below)
            types = [
                ROOT.get(type_, type_) for type_ in relation.types
            ]  # a value of any subtype may be absent
            args = (self._known(type_, bound) if random.random() < 0.6 else "_" for type_ in types)
            return f"!{relation.name}({', '.join(args)})"
        if chance < 0.45 and self.guards:
            guard = random.choice(self.guards)
            return guard.format(self._known("number", bound), self._known("number", bound))
        if chance < 0.55:
            tests = (
                'contains("a", {})',
                'match("[a-z]*", {})',
                '!match(".b?", {})',
                "{} != substr({}, 0, 1)",
            )
            return random.choice(tests).format(*(self._known("symbol", bound) for _ in range(2)))
        if chance < 0.62:
            return random.choice(["true", "true", "!(false)"])
        return self._comparison(bound)

    def _comparison(self, bound: dict[str, str]) -> str:
        roots = sorted({ROOT[type_] for type_ in bound.values() if type_ in ROOT}) or ["number"]
        root = self.random.choice(roots)
        op = self.random.choice(COMPARISONS[1:] if root == "float" else COMPARISONS)
        return f"{self._known(root, bound)} {op} {self._known(root, bound)}"

    def _computed(self, bound: dict[str, str]) -> list[str]:
        root = self.random.choice(sorted(EXPRESSIONS))
        expression = self._expression(root, bound)
        return [f"{self._fresh(root, bound)} = {expression}"]

    def _expression(self, root: str, bound: dict[str, str]) -> str:
        template, slots = self.random.choice(EXPRESSIONS[root])
        return template.format(*(self._known(slot, bound) for slot in slots))

    def _fresh(self, root: str, bound: dict[str, str]) -> str:
        name = self._new("v")
        bound[name] = root
        return name

    def _fallible(self, bound: dict[str, str], guarded: bool) -> list[str]:
        """Something that can fail, and its guard; without one it fails if any row comes to it."""
        root, operand, expression, guard = self.random.choice(GUARDED)
        names = [name for name, type_ in bound.items() if _fits(type_, operand)]
        if not names:
            return []
        divisor = self.random.choice(names)
        dividend = self._known(root, bound)
        value = expression.format(dividend, divisor)
        guards = [guard.format(dividend, divisor)] if guarded or self.random.random() < 0.7 else []
        if self.random.random() < 0.5:
            return [f"{self._fresh(root, bound)} = {value}", *guards]
        return [f"{value} >= {self._constant(root)}", *guards]

    def _ranged(self, bound: dict[str, str]) -> list[str]:
        root = self.random.choice(["number", "number", "unsigned", "float"])
        start = {"number": "{} band 3", "unsigned": "{} band 3", "float": "0.0"}[root]
        start = start.format(self._known(root, bound))
        end = {"number": ("4", "-2, -1", "9, 4"), "unsigned": ("6", "0", "9, 2"), "float": ("1.0, 0.25",)}[
            root
        ]
        return [f"{self._fresh(root, bound)} = range({start}, {self.random.choice(end)})"]

    def _aggregate(self, bound: dict[str, str], below: Sequence[Relation]) -> str:
        random = self.random
        relation = random.choice(below)
        local: dict[str, str] = {}
        args = [
            self._known(type_, bound) if random.random() < 0.3 else self._pattern(type_, local, "w", 0.2)
            for type_ in relation.types
        ]
        body = [f"{relation.name}({', '.join(args)})"]
        if random.random() < 0.3:
            body.append(self._comparison({**bound, **local}))
        if random.random() < 0.25:
            body.append(random.choice(["true", "false"]))
        random.shuffle(body)
        numeric = [(n, ROOT[t]) for n, t in local.items() if t in ROOT and ROOT[t] != "symbol"]
        if not numeric or random.random() < 0.3:
            return f"{self._fresh('number', bound)} = count : {{ {', '.join(body)} }}"
        name, root = random.choice(numeric)
        op = random.choice(["sum", "min", "max", "mean"])
        target = name
        if op == "mean" and root != "float":
            target = f"{name} band 1023"  # the sum is exact, in whatever order
        result = self._fresh("float" if op == "mean" else root, bound)
        return f"{result} = {op} {target} : {{ {', '.join(body)} }}"

    def _head(self, type_: str, bound: dict[str, str], recursive: bool) -> str:
        if recursive:
            return self._known(type_, bound)
        if type_ in PACKS and self.random.random() < 0.5:
            template, slots = self.random.choice(PACKS[type_])
            return template.format(*(self._known(slot, bound) for slot in slots))
        if type_ in ROOT and self.random.random() < 0.15:
            return self._expression(ROOT[type_], bound)
        return self._known(type_, bound)


def _is_written(value: Any) -> bool:
    """Is there a literal for it?"""
    return not isinstance(value, float) or math.isfinite(value)


def _fits(type_: str, wanted: str) -> bool:
    """Is a type the wanted one, or a subtype of it?"""
    if type_ not in ROOT or ROOT[type_] != ROOT.get(wanted):
        return type_ == wanted
    chain = CHAINS[ROOT[type_]]
    return chain.index(type_) >= chain.index(wanted)


def _narrower(one: str, other: str) -> str:
    return one if _fits(one, other) else other
