"""Which variable a name means: aggregates have local variables of their own.

Inside an aggregate a name is the rule's variable if the rule mentions it outside the aggregate, unless
the aggregate's target and body both mention it; every other name is local.  Local variables that share
their name with another variable of the rule get a name of their own (``y@1``), so that in the core
program a name means one variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuengine.language.cells import Cell
from gpuengine.language.normalise import Plain
from gpuengine.language.program import Type
from gpuengine.language.syntax import Arg, Atom, BranchValue, Call, Cast, Compare, Not, Record, Var


class VariableInfo:
    """One variable of a clause: its unique name, its cell, where it first stands, its upper bounds."""

    __slots__ = ("bounds", "cell", "end", "group", "name", "start", "type")

    def __init__(self, name: str, start: int, end: int) -> None:
        self.name = name
        self.cell = Cell()
        self.start = start
        self.end = end
        self.bounds: list[Type] = []
        self.group: VariableInfo | None = None  # an equal variable, see `inference`
        self.type: Type | None = None


class Variables:
    """All variables of one clause."""

    def __init__(self) -> None:
        self.all: dict[str, VariableInfo] = {}

    def add(self, name: str, start: int, end: int) -> VariableInfo:
        unique = name
        if name in self.all:
            unique = f"{name}@{len(self.all)}"
        info = self.all[unique] = VariableInfo(unique, start, end)
        return info


class Frame:
    """The names visible in a rule body or in an aggregate's body."""

    __slots__ = ("names", "outer", "variables")

    def __init__(self, variables: Variables, outer: Frame | None) -> None:
        self.variables = variables
        self.outer = outer
        self.names: dict[str, VariableInfo] = {}

    def lookup(self, var: Var) -> VariableInfo:
        frame: Frame | None = self
        while frame is not None:
            info = frame.names.get(var.name)
            if info is not None:
                return info
            frame = frame.outer
        return self.declare(var)

    def declare(self, var: Var) -> VariableInfo:
        """A variable of this frame, whatever the name means outside."""
        info = self.names.get(var.name)
        if info is None:
            info = self.names[var.name] = self.variables.add(var.name, var.start, var.end)
        return info

    def visible_names(self) -> set[str]:
        """The unique names of all variables this frame and those around it declare."""
        names: set[str] = set()
        frame: Frame | None = self
        while frame is not None:
            names.update(info.name for info in frame.names.values())
            frame = frame.outer
        return names


def declare_direct(frame: Frame, atoms: Iterable[Atom], body: Iterable[Plain]) -> None:
    """Declare every name that a rule mentions outside its aggregates."""
    for atom in atoms:
        for var in _direct_in(atom.args):
            frame.declare(var)
    for var in direct_variables(body):
        frame.declare(var)


def aggregate_frame(outer: Frame, target: Arg | None, body: list[Plain]) -> Frame:
    """The frame of an aggregate's body: its local names declared, the others left to `outer`."""
    frame = Frame(outer.variables, outer)
    of_target = list(_direct_in(() if target is None else (target,)))
    in_target = {var.name for var in of_target}
    for var in direct_variables(body):
        if var.name in in_target:
            frame.declare(var)
        else:
            frame.lookup(var)
    for var in of_target:  # else one that only an aggregate inside the body mentions would be local there
        frame.lookup(var)
    return frame


def direct_variables(body: Iterable[Plain]) -> Iterator[Var]:
    """The variables of literals, those inside their aggregates left out."""
    for literal in body:
        if isinstance(literal, Not):
            assert isinstance(literal.term, Atom)
            yield from _direct_in(literal.term.args)
        elif isinstance(literal, Atom):
            yield from _direct_in(literal.args)
        elif isinstance(literal, Compare):
            yield from _direct_in((literal.left, literal.right))


def _direct_in(args: Iterable[Arg]) -> Iterator[Var]:
    for arg in args:
        if isinstance(arg, Var):
            yield arg
        elif isinstance(arg, Call | Record | BranchValue):
            yield from _direct_in(arg.args)
        elif isinstance(arg, Cast):
            yield from _direct_in((arg.arg,))
