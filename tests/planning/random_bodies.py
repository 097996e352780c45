"""Random bodies of atoms with constants, wildcards and repeated variables, beside literals of other kinds."""

from __future__ import annotations

from hypothesis import strategies as st

from gpuengine.errors import Span
from gpuengine.language.program import (
    NUMBER,
    Atom,
    AtomArg,
    Comparison,
    Constant,
    Literal,
    Negation,
    Variable,
    Wildcard,
)

NOWHERE = Span("test.dl", 1, 1, 1, 1)
VARIABLES = [Variable(name, NUMBER) for name in "abcdefgh"]
ARGUMENTS: list[AtomArg] = [*VARIABLES, *VARIABLES, Constant(7, NUMBER), Wildcard()]


@st.composite
def atoms(draw: st.DrawFn) -> Atom:
    args = tuple(draw(st.lists(st.sampled_from(ARGUMENTS), min_size=1, max_size=4)))
    return Atom(f"{draw(st.sampled_from('rst'))}{len(args)}", args, NOWHERE)


@st.composite
def edges(draw: st.DrawFn) -> Atom:
    """A binary atom: many of these make cycles."""
    args = draw(st.lists(st.sampled_from(VARIABLES[:6]), min_size=2, max_size=2))
    return Atom(draw(st.sampled_from(["e", "f"])), tuple(args), NOWHERE)


@st.composite
def bodies(draw: st.DrawFn, least: int = 0, most: int = 7) -> tuple[Literal, ...]:
    """`least` to `most` atoms, and sometimes literals that have no part in a hypergraph."""
    kind = draw(st.sampled_from([atoms(), edges(), st.one_of(atoms(), edges())]))
    body: list[Literal] = list(draw(st.lists(kind, min_size=least, max_size=most)))
    for literal in (
        Negation(Atom("n", tuple(VARIABLES[:4]), NOWHERE)),
        Comparison("<", VARIABLES[0], VARIABLES[5], NOWHERE),
    ):
        if draw(st.booleans()):
            body.insert(draw(st.integers(0, len(body))), literal)
    return tuple(body)
