"""Records and ADT values as text, as Soufflé prints them.

``[1, [2, nil]]``, ``$Leaf``, ``$Node($Leaf, x, $Leaf)``: symbols stand bare, or in quotes where they would be
read as something else, floats have 17 significant digits.  Each distinct value is printed once, from the
innermost outwards, whole columns at a time, so that values may nest as deeply as memory allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.language.program import Branch, Kind, Type
from gpuengine.limits import charge
from gpuengine.terms import strings
from gpuengine.terms.text import Text, concatenate, from_offsets, single

if TYPE_CHECKING:
    from gpuengine.terms.dictionary import Dictionary

_NESTED = (Kind.RECORD, Kind.ADT)
FLOAT_FORMAT = "%.17g"


@dataclass(slots=True)
class _Group:
    """Values of one space and branch that wait to be printed; None is the branch of ``nil``."""

    space: str
    branch: Branch | None
    ids: np.ndarray
    columns: list[np.ndarray]

    def take(self, rows: np.ndarray) -> _Group:
        return _Group(self.space, self.branch, self.ids[rows], [column[rows] for column in self.columns])


class _Printed:
    """Where the text of each id of each space is: data[starts[id]:ends[id]]; an end of -1 means not yet."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._places: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._data = np.empty(1 << 12, np.uint8)
        self._used = 0

    def places(self, space: str) -> tuple[np.ndarray, np.ndarray]:
        """(starts, ends) by id."""
        if space not in self._places:
            bound = self._dictionary.bound(space)
            self._places[space] = np.zeros(bound, np.int64), np.full(bound, -1, np.int64)
        return self._places[space]

    def text(self, space: str, ids: np.ndarray) -> Text:
        """The text of printed ids."""
        starts, ends = self.places(space)
        return Text(starts[ids], ends[ids], self._data)

    def add(self, space: str, ids: np.ndarray, parts: list[Text]) -> None:
        """Print ids as the concatenation of `parts`."""
        offsets, content = concatenate(parts, len(ids))
        begin = self._used
        self._used += len(content)
        if self._used > len(self._data):
            charge(2 * self._used, f"the text of values of type {space}")
            larger = np.empty(2 * self._used, np.uint8)
            larger[:begin] = self._data[:begin]
            self._data = larger
        self._data[begin : self._used] = content
        starts, ends = self.places(space)
        starts[ids] = offsets[:-1] + begin
        ends[ids] = offsets[1:] + begin


def format_rows(dictionary: Dictionary, type: Type, ids: np.ndarray) -> Text:
    """Records or ADT values as Soufflé prints them."""
    printed = _Printed(dictionary)
    # Inner values were found last, so one pass backwards prints all but those that outer ones share.
    waiting = _reachable(dictionary, type.space, ids)[::-1]
    while waiting:
        rest = [_print_ready(dictionary, group, printed) for group in waiting]
        waiting = [group for group in rest if len(group.ids)]
    return printed.text(type.space, ids)


def _reachable(dictionary: Dictionary, space: str, ids: np.ndarray) -> list[_Group]:
    """All values inside the given ones and these themselves, each once, in the order they were found."""
    seen: dict[str, np.ndarray] = {}
    groups: list[_Group] = []
    frontier = [(space, ids)]
    while frontier:
        inner: list[tuple[str, np.ndarray]] = []
        for name, candidates in frontier:
            if name not in seen:
                seen[name] = np.zeros(dictionary.bound(name), np.bool_)
            fresh = _distinct(np.sort(candidates[~seen[name][candidates]]))
            seen[name][fresh] = True
            for group in _by_branch(dictionary, name, fresh):
                groups.append(group)
                fields = group.branch.fields if group.branch else ()
                inner += [
                    (field.type.space, column)
                    for field, column in zip(fields, group.columns, strict=False)
                    if field.type.kind in _NESTED
                ]
        frontier = inner
    return groups


def _distinct(ordered: np.ndarray) -> np.ndarray:
    """The distinct values of a sorted array."""
    keep = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def _by_branch(dictionary: Dictionary, space: str, ids: np.ndarray) -> list[_Group]:
    """Ids of a space apart by branch, those of a record space by being nil or not; no group is empty."""
    tags, columns = dictionary.unpack(space, ids)
    branches: tuple[Branch | None, ...] = dictionary.branches(space)
    if branches[0] is not None and not branches[0].name:
        branches = (None, branches[0])
    whole = [_Group(space, branch, ids, columns) for branch in branches]
    apart = [group.take(np.flatnonzero(tags == tag)) for tag, group in enumerate(whole)]
    return [group for group in apart if len(group.ids)]


def _print_ready(dictionary: Dictionary, group: _Group, printed: _Printed) -> _Group:
    """Print those values of a group whose inner values are printed; returns the others."""
    if group.branch is None:
        printed.add(group.space, group.ids, [single("nil")])
        return group.take(np.zeros(0, np.int64))
    fields = list(zip(group.branch.fields, group.columns, strict=False))
    ready = np.ones(len(group.ids), np.bool_)
    for field, column in fields:
        if field.type.kind in _NESTED:
            ready &= printed.places(field.type.space)[1][column] >= 0
    if not ready.any():
        return group
    now = group if ready.all() else group.take(ready)
    opening, closing = _brackets(group.branch)
    parts = [single(opening)]
    for position, (field, column) in enumerate(zip(group.branch.fields, now.columns, strict=False)):
        if position:
            parts.append(single(", "))
        nested = field.type.kind in _NESTED
        parts.append(
            printed.text(field.type.space, column) if nested else _leaves(dictionary, field.type, column)
        )
    printed.add(group.space, now.ids, [*parts, single(closing)])
    return group.take(~ready)


def _brackets(branch: Branch) -> tuple[str, str]:
    if not branch.name:
        return "[", "]"
    return (f"${branch.name}(", ")") if branch.fields else (f"${branch.name}", "")


def _leaves(dictionary: Dictionary, type: Type, ids: np.ndarray) -> Text:
    if type.kind is Kind.SYMBOL:
        return _quoted(dictionary.text(ids))
    values = dictionary.values(type.space, ids)
    if type.kind is Kind.FLOAT:
        return strings.format_floats(values, FLOAT_FORMAT)
    return strings.format_integers(values)


def _quoted(symbols: Text) -> Text:
    """Symbols as they stand inside a record: in quotes if they could be misread, else as they are."""
    from gpuengine.kernels.cpu.records import quote_rows, quoted_lengths

    rows = len(symbols)
    offsets = np.zeros(rows + 1, np.int64)
    if not quoted_lengths(symbols.starts, symbols.ends, symbols.data, rows, offsets[1:]):
        return symbols
    np.cumsum(offsets, out=offsets)
    data = np.empty(max(int(offsets[-1]), 1), np.uint8)
    quote_rows(symbols.starts, symbols.ends, symbols.data, rows, offsets, data)
    return from_offsets(offsets, data)
