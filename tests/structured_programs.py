"""Random programs whose rules imply structure: closures, equivalences, unions, inverses."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

INPUTS = ("e0", "e1")
FIRST, SECOND = ("p0", "p1", "p2"), ("q0", "q1")

# In the order of likelihood to interact: {h} is derived, {a} and {b} are read, {e} is an input.
STRUCTURE = (
    "{h}(x, z) :- {h}(x, y), {h}(y, z).",
    "{h}(z, x) :- {h}(y, x), {h}(z, y).",
    "{h}(y, x) :- {h}(x, y).",
    "{h}(x, y) :- {e}(x, y).",
    "{h}(y, x) :- {e}(x, y).",
    "{h}(x, z) :- {e}(x, y), {h}(y, z).",
    "{h}(x, z) :- {h}(x, y), {e}(y, z).",
    "{h}(x, y) :- {a}(x, y).",
    "{h}(y, x) :- {a}(x, y).",
)
ORDINARY = (
    "{h}(x, z) :- {a}(x, y), {b}(y, z).",
    "{h}(x, y) :- {a}(x, y), {b}(y, x).",
    "{h}(x, z) :- {h}(x, y), {e}(y, w), {h}(w, z).",
    "{h}(x, y) :- {a}(x, y), x < y.",
    "{h}(x, x) :- {a}(x, _).",
    "{h}(y, y) :- {a}(_, y), {e}(y, _).",
    "{h}(x, 2) :- {a}(x, x).",
    "{h}(1, y) :- {a}(y, 3).",
    "{h}(x, y) :- {e}(x, _), {a}(y, _).",
    "{h}(x, y + 1) :- {a}(x, y), y < 4.",
    "{h}(x, y) :- {a}(x, 1), {b}(2, y).",
)
ABOVE = (
    "{h}(x, y) :- {e}(x, y), !{a}(x, y).",
    "{h}(x, x) :- {e}(x, _), !{a}(x, _).",
    "{h}(y, y) :- {e}(y, _), !{a}(_, y).",
    "{h}(x, n) :- {e}(x, _), n = count : {{ {a}(x, _) }}.",
    "{h}(x, n) :- {e}(_, x), n = count : {{ {a}(_, x) }}.",
    "{h}(0, n) :- n = count : {{ {a}(_, _) }}.",
    "{h}(x, m) :- {e}(x, _), m = max y : {{ {a}(x, y) }}.",
    "{h}(x, m) :- m = max y : {{ {a}(x, y) }}.",
    "{h}(x, z) :- {e}(x, _), _m = min y : {{ {a}(y, z), {e}(z, x) }}.",
    "{h}(x, z) :- {a}(x, y), {b}(y, z), !{a}(z, x).",
    "{h}(x, y) :- {a}(x, y), {b}(x, y), {e}(y, _).",
)


@dataclass(frozen=True)
class Structured:
    """A program and the facts of its inputs."""

    text: str
    facts: dict[str, list[tuple[int, int]]]

    def __str__(self) -> str:
        return self.text


@st.composite
def structured_programs(draw: st.DrawFn) -> Structured:
    """Two layers of binary relations over numbers: the second may negate and aggregate the first."""
    lines = [f".decl {name}(x: number, y: number)\n.input {name}" for name in INPUTS]
    rules: list[str] = []
    for layer, below in ((FIRST, INPUTS), (SECOND, INPUTS + FIRST)):
        for name in layer:
            equivalence = draw(st.integers(0, 7)) == 0
            lines.append(
                f".decl {name}(x: number, y: number){' eqrel' if equivalence else ''}\n.output {name}"
            )
        menu = STRUCTURE * 2 + ORDINARY
        for _ in range(draw(st.integers(1, 7))):
            rules.append(_rule(draw, draw(st.sampled_from(menu)), layer, below + layer))
        if below != INPUTS:
            for _ in range(draw(st.integers(0, 3))):
                rules.append(_rule(draw, draw(st.sampled_from(ABOVE)), layer, below))
    pairs = st.tuples(st.integers(0, 6), st.integers(0, 6))
    facts = {name: draw(st.lists(pairs, max_size=9)) for name in INPUTS}
    if draw(st.booleans()):
        facts[draw(st.sampled_from(FIRST))] = draw(st.lists(pairs, max_size=3))
    return Structured("\n".join([*lines, *rules]), facts)


def _rule(draw: st.DrawFn, template: str, heads: tuple[str, ...], read: tuple[str, ...]) -> str:
    return template.format(
        h=draw(st.sampled_from(heads)),
        a=draw(st.sampled_from(read)),
        b=draw(st.sampled_from(read)),
        e=draw(st.sampled_from(INPUTS)),
    )
