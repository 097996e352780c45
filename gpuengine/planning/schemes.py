"""Which storage schemes a relation may have, by the shape of its rules and by what the user asks for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpuengine.errors import SchemeError
from gpuengine.language.program import Program
from gpuengine.planning.choices import read_pragmas
from gpuengine.planning.selection import selective_strata
from gpuengine.planning.shapes import Candidate, Shape, find_shapes, shape_problem

TABLE, AUTO, EVERY = "table", "auto", "*"
NAMES = (AUTO, TABLE, *(shape.value for shape in Shape))
PRAGMA = "scheme"


@dataclass(frozen=True, slots=True)
class SchemePlan:
    """What a relation may be stored as. `forced` is a name of a scheme; None leaves it to shape and data."""

    relation: str
    candidates: tuple[Candidate, ...]
    forced: str | None

    def candidate(self, shape: Shape) -> Candidate | None:
        """What makes a shape possible, unless another scheme is asked for."""
        if self.forced not in (None, shape.value):
            return None
        return next((one for one in self.candidates if one.shape is shape), None)

    @property
    def is_forced(self) -> bool:
        return self.forced is not None


def read_overrides(program: Program, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """What pragmas of the program and then `given` say, by relation; ``*`` is all that is not named.

    Raises `SchemeError` for what is no relation or no scheme, and if pragmas contradict each other.
    """
    overrides = {**read_pragmas(program, PRAGMA, parse_override, SchemeError), **(given or {})}
    for relation, scheme in overrides.items():
        _check_names(program, relation, scheme)
    return overrides


def with_schemes(program: Program, given: Mapping[str, str] | None) -> Program:
    """The program with pragmas that ask for what its own do and what is given besides."""
    asked = read_overrides(program, given)
    others = tuple(pragma for pragma in program.pragmas if pragma[0] != PRAGMA)
    return replace(program, pragmas=others + tuple((PRAGMA, f"{name}={one}") for name, one in asked.items()))


def parse_override(text: str) -> tuple[str, str]:
    """``path=closure`` as relation and scheme."""
    relation, equals, scheme = text.partition("=")
    if not equals or not relation or not scheme:
        raise SchemeError(f"{text!r} is not RELATION=SCHEME; write it like path=closure")
    return relation.strip(), scheme.strip()


def tables_only(program: Program, overrides: Mapping[str, str]) -> frozenset[str]:
    """The relations that must be tables of their own."""
    default = overrides.get(EVERY)
    return selective_strata(program) | frozenset(
        name for name in program.relations if overrides.get(name, default) == TABLE
    )


def plan_schemes(program: Program, overrides: Mapping[str, str]) -> dict[str, SchemePlan]:
    """For each relation what it may be stored as. Raises `SchemeError` for what its rules do not allow."""
    forced: dict[str, tuple[str, str]] = {}
    for name, scheme in overrides.items():
        if name == EVERY or scheme == AUTO:
            continue
        kept = program.aliases[name].of if name in program.aliases else name
        other, earlier = forced.setdefault(kept, (name, scheme))
        if earlier != scheme:
            raise SchemeError(
                f"{other} and {name} hold the same facts and are stored once: {other}={earlier} and "
                f"{name}={scheme} contradict each other"
            )
    tables = selective_strata(program)
    for name, (_, scheme) in forced.items():
        if scheme != TABLE and name in tables:
            raise SchemeError(
                f"{name} can't be stored as {scheme}: it depends on facts that go again (by aggregates in "
                f"heads, choice-domain or subsumption)\n  hint: leave out {name}={scheme}"
            )
        if scheme != TABLE and (problem := shape_problem(program, name, Shape(scheme))):
            raise SchemeError(
                f"{name} can't be stored as {scheme}: {problem}\n"
                f"  hint: leave out {name}={scheme}, or see what `gpuengine plan` chooses"
            )
    default = overrides.get(EVERY, AUTO)
    shapes = find_shapes(program)
    plans = {}
    for name in program.relations:
        candidates = shapes.get(name, ()) if name not in tables else ()
        choice = forced.get(name, ("", _default(default, name, overrides, candidates)))[1]
        plans[name] = SchemePlan(name, candidates, None if choice == AUTO else choice)
    return plans


def _default(default: str, name: str, overrides: Mapping[str, str], candidates: Iterable[Candidate]) -> str:
    """What ``*`` means for a relation: a table, or a shape where the rules have it."""
    if name in overrides:
        return overrides[name]
    possible = {candidate.shape.value for candidate in candidates}
    return default if default in (TABLE, AUTO) or default in possible else AUTO


def _check_names(program: Program, relation: str, scheme: str) -> None:
    if relation != EVERY and relation not in program.relations:
        near = difflib.get_close_matches(relation, program.relations, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SchemeError(f"no relation {relation!r} to choose a scheme for{hint}")
    if scheme not in NAMES:
        near = difflib.get_close_matches(scheme, NAMES, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SchemeError(
            f"no scheme {scheme!r} for {relation}{hint}\n  hint: it is one of {', '.join(NAMES)}"
        )
