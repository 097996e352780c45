"""Random graphs and random queries of SPARQL."""

from __future__ import annotations

from random import Random

XSD = "http://www.w3.org/2001/XMLSchema#"
NODES = [f"<http://e/{name}>" for name in "abcdef"]
BLANKS = ["_:x", "_:y"]
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
PREDICATES = [*(f"<http://e/{name}>" for name in "pqr"), TYPE]
GRAPHS = ["<http://e/g1>", "<http://e/g2>"]
LITERALS = [
    *(f'"{number}"^^<{XSD}integer>' for number in (-1, 0, 1, 2, 3)),
    *(f'"{number}"^^<{XSD}decimal>' for number in ("0.5", "1.5", "2.25")),
    *(f'"{number}"^^<{XSD}double>' for number in ("1", "2.5")),
    f'"true"^^<{XSD}boolean>',
    '"a"',
    '"ab"',
    '"B"',
    '"a"@en',
    '"x"@de',
    f'"2020-01-02"^^<{XSD}date>',
    f'"2020-01-02T03:04:05Z"^^<{XSD}dateTime>',
    '"?"^^<http://e/unknown>',
]

Quad = tuple[str, str, str, str | None]


def random_quads(random: Random) -> list[Quad]:
    def one() -> Quad:
        subject = random.choice(NODES + BLANKS)
        target = random.choice(NODES + BLANKS if random.random() < 0.6 else LITERALS)
        graph = random.choice(GRAPHS) if random.random() < 0.25 else None
        return subject, random.choice(PREDICATES), target, graph

    # pyoxigraph has a path of no steps end at a constant only if the graph has it; the standard always.
    whole = [(node, "<http://e/s>", node, None) for node in NODES]
    return whole + [one() for _ in range(random.randint(0, 30))]


class RandomQuery:
    """A query; without `paths` it has none."""

    def __init__(self, random: Random, *, paths: bool = True) -> None:
        self.random = random
        self.paths = paths
        self.fresh = 0

    def new(self) -> str:
        self.fresh += 1
        return f"?n{self.fresh}"

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def variable(self) -> str:
        return self.pick("?a", "?b", "?c", "?d")

    def constant(self) -> str:
        return self.random.choice(NODES + LITERALS)

    def subject(self) -> str:
        return self.variable() if self.random.random() < 0.8 else self.random.choice(NODES)

    def object(self) -> str:
        return self.variable() if self.random.random() < 0.7 else self.constant()

    def predicate(self) -> str:
        if self.random.random() < 0.15:
            return self.variable()
        return self.random.choice(PREDICATES)

    def path(self, depth: int = 2) -> str:
        kind = self.random.random()
        if depth == 0 or kind < 0.3:
            return self.random.choice(PREDICATES)
        inner = self.path(depth - 1)
        if kind < 0.4:
            return f"^({inner})"
        if kind < 0.55:
            return f"({inner})/({self.path(depth - 1)})"
        if kind < 0.65:
            # Two ways from node to node are two solutions; pyoxigraph has one.
            return f"({inner}|{self.path(depth - 1)})*"
        if kind < 0.72:
            return self.pick("!{0}", "!(^{0})", "(!({0}|^{1}))?").format(*self.random.sample(PREDICATES, 2))
        return f"({inner}){self.pick('*', '+', '?')}"

    def expression(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.3:
            return self.variable() if self.random.random() < 0.7 else self.constant()
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        forms = (
            "({x} = {y})", "({x} != {y})", "({v} < {n})", "({v} >= {n})", "({x} > {n})",
            "({x} + {y})", "({x} - {y})", "({x} * {y})", "(BOUND({v}))", "(!({x}))",
            "(({x}) && ({y}))", "(({x}) || ({y}))", "isIRI({x})", "isLiteral({x})",
            "isBlank({x})", "isNumeric({x})", "STR({x})", "DATATYPE({x})", "LANG({x})", "COALESCE({x}, {y})",
            "IF({c}, {x}, {y})", "({x} IN ({y}, {k}))", "({x} NOT IN ({y}))", "STRLEN({x})", "UCASE({x})",
            "CONTAINS({x}, \"a\")", "STRSTARTS(STR({x}), {y})", "REGEX(STR({x}), \"[a-c]$\", \"i\")",
            "ABS({x})",
            "ROUND({x})", "CEIL({x})", "YEAR({x})", "sameTerm({x}, {y})", "CONCAT(STR({x}), STR({y}))",
            "SUBSTR(STR({x}), 2)", "LANGMATCHES(LANG({x}), \"*\")", "STRAFTER(STR({x}), \"/\")", "(- {x})",
            "REPLACE(STR({x}), \"e\", \"E\")", "MD5(STR({x}))", f"<{XSD}integer>({{x}})",
            f"<{XSD}string>({{x}})",
        )  # fmt: skip
        return self.random.choice(forms).format(
            x=x,
            y=y,
            v=self.variable(),
            c=self.expression(depth - 1),
            k=self.constant(),
            # pyoxigraph does not order booleans, and simplifies x >= x for all x.
            n=self.random.choice([literal for literal in LITERALS if "boolean" not in literal]),
        )

    def group(self, depth: int) -> str:
        return f"{{ {self.elements(depth)} }}"

    def elements(self, depth: int) -> str:
        parts = [self.element(depth) for _ in range(self.random.randint(1, 3))]
        if self.random.random() < 0.3:
            parts.append(self.filter(depth))
        return " ".join(parts)

    def filter(self, depth: int) -> str:
        if depth and self.random.random() < 0.3:
            return f"FILTER {self.pick('', 'NOT ')}EXISTS {{ {self.triple()} }}"
        return f"FILTER(({self.expression()}) = {self.expression()})"

    def triple(self) -> str:
        return f"{self.subject()} {self.predicate()} {self.object()} ."

    def element(self, depth: int) -> str:
        kind = self.random.random()
        if depth == 0 or kind < 0.45:
            return self.triple()
        if kind < 0.55 and self.paths:
            path = (
                self.path(1) if self.random.random() < 0.4 else f"({self.path()}){self.pick('*', '+', '?')}"
            )
            end = self.random.choice(NODES) if self.random.random() < 0.3 else self.variable()
            return f"{self.subject()} {path} {end} ."
        if kind < 0.68:
            return f"OPTIONAL {self.group(depth - 1)}"
        if kind < 0.76:
            return f"{self.group(depth - 1)} UNION {self.group(depth - 1)}"
        if kind < 0.82:
            return f"MINUS {self.group(depth - 1)}"
        if kind < 0.88:
            return f"BIND({self.expression()} AS {self.new()})"
        if kind < 0.92:
            rows = " ".join(f"({self.data()} {self.data()})" for _ in range(self.random.randint(0, 3)))
            return f"VALUES (?a ?b) {{ {rows} }}"
        if kind < 0.96:
            return f"GRAPH {self.pick('?g', *GRAPHS)} {{ {self.triple()} {self.triple()} }}"
        return f"{{ {self.select(depth - 1)} }}"

    def data(self) -> str:
        return "UNDEF" if self.random.random() < 0.2 else self.constant()

    def select(self, depth: int) -> str:
        group = self.group(depth)
        kind = self.random.random()
        if kind < 0.3:
            aggregate = self.pick(
                "COUNT(*)", "COUNT({d}{e})", "SUM({d}{e})", "AVG({d}{e})", "MIN({e})", "MAX({e})"
            )
            distinct = self.pick("", "DISTINCT ")
            name = self.new()
            # pyoxigraph has no count where an expression fails; by the standard the row does not count.
            inner = self.variable() if aggregate.startswith("COUNT") else self.expression(1)
            aggregate = aggregate.format(d=distinct, e=inner)
            key = self.variable()
            having = f"HAVING({self.pick('COUNT(*)', 'COUNT(?a)')} > 1)" if self.random.random() < 0.3 else ""
            return f"SELECT {key} ({aggregate} AS {name}) WHERE {group} GROUP BY {key} {having}"
        if kind < 0.5:
            return f"SELECT DISTINCT {' '.join(self.random.sample(['?a', '?b', '?c'], 2))} WHERE {group}"
        if kind < 0.6:
            return f"SELECT ?a ({self.expression()} AS {self.new()}) WHERE {group}"
        return f"SELECT * WHERE {group}"
