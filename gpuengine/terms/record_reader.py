"""Records and ADT values from text, as Soufflé reads them.

``[1, [2, nil]]``, ``$Leaf``, ``$Node($Leaf, x, $Leaf)``: white space between tokens is free, a symbol reaches
to the next comma or closing bracket, or stands in double quotes with backslash escapes.  Values nest as
deeply as memory allows: a kernel makes one pass over the text, then the nodes it found are interned from
the innermost outwards, whole columns at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuengine.errors import DataError
from gpuengine.language.program import Attribute, Branch, Kind, Type
from gpuengine.terms import strings
from gpuengine.terms.text import Text, from_strings

if TYPE_CHECKING:
    from gpuengine.terms.dictionary import Dictionary

_NESTED = (Kind.RECORD, Kind.ADT)
_TOKEN_KINDS = {Kind.NUMBER: 0, Kind.UNSIGNED: 1, Kind.FLOAT: 2, Kind.SYMBOL: 3}
_BACKSLASH = ord("\\")


def parse_rows(
    dictionary: Dictionary, space: str, column: Text, *, intern: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(ids, known) of values written as text; all are known when interning. `DataError` for broken text."""
    if len(column) == 0:
        return np.zeros(0, np.uint32), np.zeros(0, np.bool_)
    shapes = _Shapes(dictionary, space)
    resolved = column.data.copy() if (column.data == _BACKSLASH).any() else column.data
    nodes, children, roots = _parse(shapes, column, resolved)
    ids, known = _Resolver(dictionary, shapes, column, resolved, nodes, children, intern).run()
    return ids[roots], known[roots]


class _Shapes:
    """The types inside one space, as the tables that the kernel reads; the space itself is number 0."""

    def __init__(self, dictionary: Dictionary, space: str) -> None:
        from gpuengine.kernels.cpu.records import NESTED

        self.spaces = [space]
        self.branches: list[tuple[str, Branch]] = []
        first_branch, closings, first_field, kinds = [0], [], [0], []
        for name in self.spaces:  # grows while it is walked
            for branch in dictionary.branches(name):
                self.branches.append((name, branch))
                closings.append(ord(")") if branch.name else ord("]"))
                for field in branch.fields:
                    if field.type.kind in _NESTED and field.type.space not in self.spaces:
                        self.spaces.append(field.type.space)
                    nested = field.type.kind in _NESTED
                    kinds.append(
                        NESTED + self.spaces.index(field.type.space)
                        if nested
                        else _TOKEN_KINDS[field.type.kind]
                    )
                first_field.append(len(kinds))
            first_branch.append(len(self.branches))
        names = from_strings([branch.name for _, branch in self.branches])
        self.first_branch = np.array(first_branch, np.int64)
        self.closings = np.array(closings, np.int64)
        self.first_field = np.array(first_field, np.int64)
        self.kinds = np.array([*kinds, 0], np.int64)
        self.name_offsets = np.append(names.starts, names.ends[-1])
        self.names = names.data


def _parse(shapes: _Shapes, column: Text, resolved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(nodes[k, 4], children[c, 2], root of each row) as `parse_records` lays them out; node 0 is nil."""
    from gpuengine.kernels.cpu.records import parse_records

    rows = len(column)
    nodes, children = np.zeros((2 * rows + 16, 4), np.int64), np.zeros((4 * rows + 16, 2), np.int64)
    stack = np.empty(4 * (int(column.lengths.max()) + 2), np.int64)
    roots, state = np.empty(rows, np.int64), np.array([1, 0, 0, 0], np.int64)
    begin = 0
    while True:
        begin = parse_records(
            column.starts, column.ends, column.data, resolved, begin, rows, 0,
            shapes.first_branch, shapes.closings, shapes.first_field, shapes.kinds,
            shapes.name_offsets, shapes.names,
            nodes, len(nodes), children, len(children), stack, roots, state,
        )  # fmt: skip
        if begin == rows:
            return nodes[: state[0]], children[: state[1]], roots
        if state[2]:
            raise _broken(shapes, column, begin, int(state[3]), _wanted(shapes, int(state[2])))
        nodes = np.concatenate([nodes, np.zeros_like(nodes)])
        children = np.concatenate([children, np.zeros_like(children)])


class _Resolver:
    """Gives parsed nodes their ids, innermost first."""

    def __init__(
        self,
        dictionary: Dictionary,
        shapes: _Shapes,
        column: Text,
        resolved: np.ndarray,
        nodes: np.ndarray,
        children: np.ndarray,
        intern: bool,
    ) -> None:
        self._dictionary, self._shapes, self._column = dictionary, shapes, column
        self._resolved, self._nodes, self._children, self._intern = resolved, nodes, children, intern
        self._ids = np.zeros(len(nodes), np.uint32)
        self._known = np.zeros(len(nodes), np.bool_)
        self._known[0] = True

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """(ids, known) of every node."""
        leaves = self._read_leaves()
        branch, height = self._nodes[1:, 0], self._nodes[1:, 2]
        order = np.lexsort((branch, height)) + 1
        keys = self._nodes[order][:, [2, 0]]
        cuts = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
        for members in np.split(order, cuts) if len(order) else []:
            self._resolve(members, leaves)
        return self._ids, self._known

    def _read_leaves(self) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
        """(ids, known) by node of the tokens of every (branch, field); all are checked before interning."""
        tokens = {}
        for number, (_, branch) in enumerate(self._shapes.branches):
            members = np.flatnonzero(self._nodes[:, 0] == number)
            members = members[members > 0]
            for position, field in enumerate(branch.fields):
                if field.type.kind not in _NESTED:
                    tokens[number, position] = members, self._read(members, position, field)
        leaves = {}
        for place, (members, values) in tokens.items():
            ids, known = np.zeros(len(self._nodes), np.uint32), np.zeros(len(self._nodes), np.bool_)
            space = self._shapes.branches[place[0]][1].fields[place[1]].type.space
            if self._intern:
                ids[members], known[members] = self._encode(space, values), True
            else:
                ids[members], known[members] = self._find(space, values)
            leaves[place] = ids, known
        return leaves

    def _read(self, members: np.ndarray, position: int, field: Attribute) -> Text | np.ndarray:
        """The values of one field of nodes of one branch."""
        tokens = self._children[self._nodes[members, 1] + position]
        text = Text(tokens[:, 0].copy(), tokens[:, 1].copy(), self._resolved)
        if field.type.kind is Kind.SYMBOL:
            return text
        if field.type.kind is Kind.FLOAT:
            values, good, stops = strings.read_floats(text)
        else:
            values, good, stops = strings.read_integers(text, signed=field.type.kind is Kind.NUMBER)
        bad = ~good | (stops != text.ends)
        if bad.any():
            first = int(np.argmax(bad))
            row = int(self._nodes[members[first], 3])
            raise _broken(self._shapes, self._column, row, int(text.starts[first]), _value_of(field.type))
        return values

    def _encode(self, space: str, values: Text | np.ndarray) -> np.ndarray:
        if isinstance(values, Text):
            return self._dictionary.encode_text(values)
        return self._dictionary.encode(space, values)

    def _find(self, space: str, values: Text | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(values, Text):
            return self._dictionary.find_text(values)
        return self._dictionary.find(space, values)

    def _resolve(
        self, members: np.ndarray, leaves: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """The ids of nodes of one branch and height."""
        number = int(self._nodes[members[0], 0])
        space, branch = self._shapes.branches[number]
        fields, complete = [], np.ones(len(members), np.bool_)
        for position in range(len(branch.fields)):
            if (number, position) in leaves:
                ids, known = leaves[number, position]
                at = members
            else:
                ids, known = self._ids, self._known
                at = self._children[self._nodes[members, 1] + position, 0]
            fields.append(ids[at])
            complete &= known[at]
        name = branch.name or None
        if self._intern:
            self._ids[members] = self._dictionary.pack(space, name, fields, len(members))
            self._known[members] = True
        else:
            self._ids[members], known = self._dictionary.find_pack(space, name, fields, len(members))
            self._known[members] = known & complete


def _value_of(type: Type) -> str:
    return f"a value of type {type.name}"


def _wanted(shapes: _Shapes, code: int) -> str:
    """What an error code of the kernel says was expected."""
    from gpuengine.kernels.cpu.records import NO_BRANCH, NO_END, NO_TOKEN

    if code == NO_BRANCH:
        return "a branch: " + ", ".join(f"${branch.name}" for _, branch in shapes.branches if branch.name)
    return {NO_TOKEN: "a number", NO_END: "nothing more", ord('"'): 'a closing "'}.get(code, repr(chr(code)))


def _broken(shapes: _Shapes, column: Text, row: int, place: int, wanted: str) -> DataError:
    start, end = int(column.starts[row]), int(column.ends[row])
    shown = column.data[start:end].tobytes().decode(errors="replace")
    character = len(column.data[start:place].tobytes().decode(errors="replace")) + 1
    return DataError(
        f"row {row + 1}: {shown!r} is not a value of type {shapes.spaces[0]}: "
        f"expected {wanted} at character {character}"
    )
