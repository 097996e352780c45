"""Type cells: the unknowns of type inference, merged by unification.

A cell stands for the representation of a value: one of `kinds`, and, once `type` is set, the root type
of one space.  Subtypes are not the cells' business; they are compared once the spaces are known.
"""

from __future__ import annotations

from gpuengine.language.functors import ANY
from gpuengine.language.program import FLOAT, NUMBER, SYMBOL, UNSIGNED, Kind, Type

_ONLY = {frozenset((type_.kind,)): type_ for type_ in (NUMBER, UNSIGNED, FLOAT, SYMBOL)}


class Cell:
    """`parent` is set once the cell has been merged into another."""

    __slots__ = ("kinds", "parent", "type")

    def __init__(self, kinds: frozenset[Kind] = ANY, type_: Type | None = None) -> None:
        self.parent: Cell | None = None
        self.kinds = kinds
        self.type = type_ if type_ is not None else _ONLY.get(kinds)

    def find(self) -> Cell:
        if self.parent is None:
            return self
        cell = self.parent
        while cell.parent is not None:
            cell = cell.parent
        self.parent = cell
        return cell

    def unify(self, other: Cell) -> bool:
        """Make both one; False, and nothing changes, if they can't be."""
        left, right = self.find(), other.find()
        if left is right:
            return True
        kinds = left.kinds & right.kinds
        type_ = left.type or right.type
        if not kinds or (left.type and right.type and left.type.space != right.type.space):
            return False
        left.parent = right
        right.kinds = kinds
        right.type = type_ or _ONLY.get(kinds)
        return True

    def become(self, root: Type) -> bool:
        """Make this a value of a root type; False, and nothing changes, if it can't be."""
        cell = self.find()
        if cell.type is not None:
            return cell.type.space == root.space
        if root.kind not in cell.kinds:
            return False
        cell.kinds = frozenset((root.kind,))
        cell.type = root
        return True

    def restrict(self, kinds: frozenset[Kind]) -> bool:
        """Leave only `kinds`; False, and nothing changes, if none would be left."""
        cell = self.find()
        remaining = cell.kinds & kinds
        if not remaining:
            return False
        cell.kinds = remaining
        cell.type = cell.type or _ONLY.get(remaining)
        return True

    def describe(self) -> str:
        cell = self.find()
        if cell.type is not None:
            return cell.type.name
        return " or ".join(sorted(kind.value for kind in cell.kinds))


def root_cell(type_: Type) -> Cell:
    """The cell of a value of a known root type."""
    return Cell(frozenset((type_.kind,)), type_)
