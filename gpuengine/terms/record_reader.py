"""Records and ADT values from text, as Soufflé reads them.

``[1, [2, nil]]``, ``$Leaf``, ``$Node($Leaf, x, $Leaf)``: white space between tokens is free, a symbol reaches
to the next comma or closing bracket, or stands in double quotes. There a backslash makes ``n``, ``t`` and
``r`` line break, tab and carriage return, and leaves any other character as it is.  Values nest as deeply as
memory allows: a kernel makes one pass over the text, then the nodes it found are interned from the innermost
outwards, whole columns at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.errors import DataError
from gpuengine.language.program import Attribute, Branch, Kind
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
    """(ids, known) of values written as text; all are known when interning.

    Raises `DataError` for the first row of broken text, before anything is interned.
    """
    if len(column) == 0:
        return np.zeros(0, np.uint32), np.zeros(0, np.bool_)
    shapes = _Shapes(dictionary, space)
    parsed = _parse(shapes, column, first_only=True)
    tokens = _read_tokens(shapes, parsed)
    if parsed.broken:
        row, reason = _reasons(shapes, column, parsed).popitem()
        raise DataError(f"row {row + 1}: {_row_text(column, row)!r} {reason}")
    ids, known = _Resolver(dictionary, shapes, parsed, tokens, intern).run()
    return ids[parsed.roots], known[parsed.roots]


def broken_rows(dictionary: Dictionary, space: str, column: Text, *, first_only: bool) -> dict[int, str]:
    """The rows that are not values of the space, in order, each with the reason (``is not a value of type
    ...``); only the first of them if so asked, which costs less where there are many."""
    if len(column) == 0:
        return {}
    shapes = _Shapes(dictionary, space)
    parsed = _parse(shapes, column, first_only=first_only)
    _read_tokens(shapes, parsed)
    return _reasons(shapes, column, parsed)


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
                for type in (attribute.type for attribute in branch.fields):
                    nested = type.kind in _NESTED
                    if nested and type.space not in self.spaces:
                        self.spaces.append(type.space)
                    kinds.append(
                        NESTED + self.spaces.index(type.space) if nested else _TOKEN_KINDS[type.kind]
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


@dataclass(slots=True)
class _Parsed:
    """Text as nodes[k, 4] and children[c, 2], laid out as `parse_records` says; node 0 is nil.

    `roots` has the node of each row, and `resolved` the bytes of the tokens. A row that is `broken` has
    the place where something else was expected, and what. With `first_only`, rows after the first
    broken one may be missing from all of this.
    """

    nodes: np.ndarray
    children: np.ndarray
    roots: np.ndarray
    resolved: np.ndarray
    first_only: bool
    broken: dict[int, tuple[int, str]] = field(default_factory=dict)

    def note(self, row: int, place: int, wanted: str) -> None:
        """Remember what is wrong with a row: the first such place counts."""
        if row not in self.broken or place < self.broken[row][0]:
            self.broken[row] = place, wanted


def _parse(shapes: _Shapes, column: Text, *, first_only: bool) -> _Parsed:
    """All rows, or with `first_only` those up to the first that does not parse."""
    from gpuengine.kernels.cpu.records import parse_records

    rows = len(column)
    resolved = column.data.copy() if (column.data == _BACKSLASH).any() else column.data
    nodes, children = np.zeros((2 * rows + 16, 4), np.int64), np.zeros((4 * rows + 16, 2), np.int64)
    stack = np.empty(4 * (int(column.lengths.max()) + 2), np.int64)
    parsed = _Parsed(nodes, children, np.zeros(rows, np.int64), resolved, first_only)
    state = np.array([1, 0, 0, 0], np.int64)
    begin = 0
    while True:
        begin = parse_records(
            column.starts, column.ends, column.data, resolved, begin, rows, 0,
            shapes.first_branch, shapes.closings, shapes.first_field, shapes.kinds,
            shapes.name_offsets, shapes.names,
            nodes, len(nodes), children, len(children), stack, parsed.roots, state,
        )  # fmt: skip
        stopped_early = begin < rows
        if stopped_early and state[2]:
            parsed.note(begin, int(state[3]), _wanted(shapes, int(state[2])))
            begin += 1
        elif stopped_early:
            nodes = np.concatenate([nodes, np.zeros_like(nodes)])
            children = np.concatenate([children, np.zeros_like(children)])
        if not stopped_early or (first_only and parsed.broken):
            parsed.nodes, parsed.children = nodes[: state[0]], children[: state[1]]
            return parsed


_Tokens = dict[tuple[int, int], tuple[np.ndarray, Text | np.ndarray]]


def _read_tokens(shapes: _Shapes, parsed: _Parsed) -> _Tokens:
    """(nodes, their values) of every (branch, field) that is not nested; bad ones are noted in `parsed`."""
    tokens: _Tokens = {}
    for number, (_, branch) in enumerate(shapes.branches):
        members = np.flatnonzero(parsed.nodes[:, 0] == number)
        members = members[members > 0]
        for position, attribute in enumerate(branch.fields):
            if attribute.type.kind not in _NESTED:
                tokens[number, position] = members, _read(parsed, members, position, attribute)
    return tokens


def _read(parsed: _Parsed, members: np.ndarray, position: int, attribute: Attribute) -> Text | np.ndarray:
    """The values of one field of nodes of one branch."""
    at = parsed.nodes[:, 1][members] + position
    text = Text(parsed.children[:, 0][at], parsed.children[:, 1][at], parsed.resolved)
    if attribute.type.kind is Kind.SYMBOL:
        return text
    if attribute.type.kind is Kind.FLOAT:
        values, good, stops = strings.read_floats(text)
    else:
        values, good, stops = strings.read_integers(text, signed=attribute.type.kind is Kind.NUMBER)
    bad = np.flatnonzero(~good | (stops != text.ends))
    rows = parsed.nodes[members[bad], 3]  # ascending, as nodes are made row by row
    if parsed.first_only:
        bad, rows = bad[rows == rows[:1]], rows[rows == rows[:1]]
    for row, place in zip(rows.tolist(), text.starts[bad].tolist(), strict=True):
        parsed.note(row, place, f"a value of type {attribute.type.name}")
    return values


class _Resolver:
    """Gives parsed nodes their ids, innermost first."""

    def __init__(
        self, dictionary: Dictionary, shapes: _Shapes, parsed: _Parsed, tokens: _Tokens, intern: bool
    ) -> None:
        self._dictionary, self._shapes, self._intern = dictionary, shapes, intern
        self._nodes, self._children, self._tokens = parsed.nodes, parsed.children, tokens
        self._ids = np.zeros(len(parsed.nodes), np.uint32)
        self._known = np.zeros(len(parsed.nodes), np.bool_)
        self._known[0] = True

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """(ids, known) of every node."""
        leaves = self._find_leaves()
        branch, height = self._nodes[1:, 0], self._nodes[1:, 2]
        order = np.lexsort((branch, height)) + 1
        keys = self._nodes[order][:, [2, 0]]
        cuts = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
        for members in np.split(order, cuts) if len(order) else []:
            self._resolve(members, leaves)
        return self._ids, self._known

    def _find_leaves(self) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
        """(ids, known) by node of the tokens of every (branch, field)."""
        leaves = {}
        for place, (members, values) in self._tokens.items():
            ids, known = np.zeros(len(self._nodes), np.uint32), np.zeros(len(self._nodes), np.bool_)
            space = self._shapes.branches[place[0]][1].fields[place[1]].type.space
            if self._intern:
                ids[members], known[members] = self._encode(space, values), True
            else:
                ids[members], known[members] = self._find(space, values)
            leaves[place] = ids, known
        return leaves

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


def _wanted(shapes: _Shapes, code: int) -> str:
    """What an error code of the kernel says was expected."""
    from gpuengine.kernels.cpu.records import NO_BRANCH, NO_END, NO_TOKEN

    if code == NO_BRANCH:
        return "a branch: " + ", ".join(f"${branch.name}" for _, branch in shapes.branches if branch.name)
    return {NO_TOKEN: "a number", NO_END: "nothing more", ord('"'): 'a closing "'}.get(code, repr(chr(code)))


def _reasons(shapes: _Shapes, column: Text, parsed: _Parsed) -> dict[int, str]:
    """What is wrong with each broken row, in order of rows, or with the first of them."""
    reasons = {}
    rows = sorted(parsed.broken)
    for row in rows[:1] if parsed.first_only else rows:
        place, wanted = parsed.broken[row]
        before = column.data[int(column.starts[row]) : place].tobytes().decode(errors="replace")
        reasons[row] = (
            f"is not a value of type {shapes.spaces[0]}: expected {wanted} at character {len(before) + 1}"
        )
    return reasons


def _row_text(column: Text, row: int) -> str:
    return column.data[int(column.starts[row]) : int(column.ends[row])].tobytes().decode(errors="replace")
