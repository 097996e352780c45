"""Random DatalogMTL: programs as text, with every operator, and facts with every kind of interval."""

from __future__ import annotations

import random
from fractions import Fraction

from gpuengine.temporal.syntax import Interval

CONSTANTS = ("a", "b", "c")
ARITIES = {"P": 1, "Q": 1, "R": 2, "S": 2, "N": 0}
DERIVED = ("P", "R", "N", "D")
ARITIES_ALL = {**ARITIES, "D": 1}
Fact = tuple[str, tuple[str, ...], Interval]


def random_interval(rng: random.Random, most: int = 3) -> str:
    low = rng.randint(0, most)
    high = rng.randint(low, most)
    if rng.random() < 0.08:
        return f"{rng.choice('[(')}{low},inf)"
    if low == high:
        return rng.choice([f"[{low},{low}]", f"[{low}]"])
    return f"{rng.choice('[(')}{low},{high}{rng.choice('])')}"


def random_atom(rng: random.Random, variables: list[str], names: tuple[str, ...]) -> str:
    name = rng.choice(names)
    arity = ARITIES_ALL[name]
    terms = [rng.choice(variables) if rng.random() < 0.9 else rng.choice(CONSTANTS) for _ in range(arity)]
    return f"{name}({','.join(terms)})" if terms else name


def random_metric(rng: random.Random, variables: list[str], depth: int, names: tuple[str, ...]) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        if rng.random() < 0.04:
            return rng.choice(["Top", "Bottom"])
        return random_atom(rng, variables, names)
    if kind < 0.75:
        operator = rng.choice(
            ["Diamondminus", "Diamondplus", "Boxminus", "Boxplus", "<->", "<+>", "[-]", "[+]"]
        )
        return f"{operator}{random_interval(rng)} {_inner(rng, variables, depth - 1, names)}"
    operator = rng.choice(["Since", "Until"])
    left = _inner(rng, [*variables, "L"], depth - 1, names)
    return f"{left} {operator}{random_interval(rng)} {_inner(rng, variables, depth - 1, names)}"


def _inner(rng: random.Random, variables: list[str], depth: int, names: tuple[str, ...]) -> str:
    metric = random_metric(rng, variables, depth, names)
    return f"({metric})" if "Since" in metric or "Until" in metric else metric


def random_rule(rng: random.Random, head: str, names: tuple[str, ...], negated: tuple[str, ...] = ()) -> str:
    """A safe rule: every variable of head, negation and comparison is in a plain atom or under operators."""
    variables = ["X", "Y"]
    body = [
        random_metric(rng, variables, rng.choice([0, 1, 1, 2]), names)
        for _ in range(rng.choice([1, 1, 2, 3]))
    ]
    arity = ARITIES_ALL[head]
    # What binds variables for sure.
    anchors = {1: "Q(X)", 2: "S(X,Y)"}
    if arity or negated:
        body.append(
            rng.choice(["", "Diamondminus[0,2] ", "Diamondplus[0,1] "]) + anchors[2 if arity == 2 else 1]
        )
    bound = ["X", "Y"] if arity == 2 else ["X"]
    if negated and rng.random() < 0.8:
        metric = random_metric(rng, bound, rng.choice([0, 1, 2]), negated).replace("L", "X")
        body.append(f"not ({metric})")
    if arity == 2 and rng.random() < 0.2:
        body.append(rng.choice(["X != Y", "X = Y"]))
    rng.shuffle(body)
    boxes = ""
    for _ in range(rng.choice([0, 0, 1, 2])):
        boxes += f"{rng.choice(['Boxminus', 'Boxplus'])}{random_interval(rng, 2)} "
    terms = [rng.choice(bound) for _ in range(arity)]
    atom = f"{head}({','.join(terms)})" if terms else head
    return f"{boxes}{atom} :- {', '.join(body)}"


def random_program(rng: random.Random, rules: int = 3) -> str:
    return "\n".join(random_rule(rng, rng.choice(("P", "R", "N")), tuple(ARITIES)) for _ in range(rules))


def random_facts(rng: random.Random, count: int = 7) -> list[Fact]:
    found: list[Fact] = []
    for _ in range(count):
        name = rng.choice(list(ARITIES))
        arguments = tuple(rng.choice(CONSTANTS[:2]) for _ in range(ARITIES[name]))
        low = rng.randint(0, 5)
        high = rng.randint(low, 6)
        lower_open, upper_open = (rng.random() < 0.4 and low < high for _ in range(2))
        interval = Interval(Fraction(low), Fraction(high), lower_open, upper_open)
        if rng.random() < 0.06:
            interval = Interval(None, interval.upper, True, interval.upper_open)
        if rng.random() < 0.06:
            interval = Interval(interval.lower, None, interval.lower_open, True)
        found.append((name, arguments, interval))
    return found


def fact_text(fact: Fact) -> str:
    name, arguments, interval = fact
    return f"{name}({','.join(arguments)})@{interval}" if arguments else f"{name}@{interval}"
