"""Nested Python values as the text of records and ADT values, as their types say."""

from __future__ import annotations

import re
from typing import Any

from gpuengine.io.convert import from_object, shown
from gpuengine.io.schema import NESTED, NestedTerms
from gpuengine.language.program import Branch, Kind, Type

_Piece = str | int | tuple[Any, Type]
"""Text, a value that is to become text, or the `id` of a value all of which has become text."""
_MISREAD = re.compile(r'[,()\[\]"\t\n\r]|\A[\t\n\v\f\r ]|[\t\n\v\f\r ]\Z')
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def record_text(value: Any, type: Type, terms: NestedTerms) -> str:
    """``(1, (2, None))`` is ``[1, [2, nil]]``, and ``("$B", 1)`` is ``$B(1)`` in a type with a branch B.

    A str in the place of a record or ADT value is its text; the outermost is taken as it is. Symbols are
    quoted where they could be misread. Values nest as deeply as memory allows. Raises `ValueError` for what
    is no value of the type.
    """
    if isinstance(value, str | bytes):
        return str(from_object(value, type.kind))
    try:
        return _text(value, type, terms)
    except ValueError as error:
        raise ValueError(
            f"{shown(value)}: {error}" if isinstance(value, tuple | list) else str(error)
        ) from None


def _text(value: Any, type: Type, terms: NestedTerms) -> str:
    parts: list[str] = []
    waiting: list[_Piece] = [(value, type)]
    inside: set[int] = set()  # the values that are open, so that one inside itself is found
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, str):
            parts.append(piece)
        elif isinstance(piece, int):
            inside.remove(piece)
        elif piece[1].kind in NESTED and isinstance(piece[0], tuple | list):
            if id(piece[0]) in inside:
                raise ValueError("it holds itself")
            inside.add(id(piece[0]))
            waiting.append(id(piece[0]))
            waiting.extend(reversed(_opened(*piece, terms)))
        else:
            parts.append(_closed(*piece, terms))
    return "".join(parts)


def _opened(value: tuple[Any, ...] | list[Any], type: Type, terms: NestedTerms) -> list[_Piece]:
    """The brackets and commas of a record or ADT value, and what is to stand between them."""
    branch, fields = _branch(value, type, terms)
    if len(fields) != len(branch.fields):
        raise ValueError(f"{len(fields)} values, expected {len(branch.fields)}: {shown(value)}")
    opening, closing = ("[", "]") if not branch.name else (f"${branch.name}(", ")")
    pieces: list[_Piece] = [opening if fields or not branch.name else f"${branch.name}"]
    for position, (field, inner) in enumerate(zip(branch.fields, fields, strict=True)):
        pieces += [", ", (inner, field.type)] if position else [(inner, field.type)]
    return [*pieces, closing] if fields or not branch.name else pieces


def _branch(
    value: tuple[Any, ...] | list[Any], type: Type, terms: NestedTerms
) -> tuple[Branch, tuple[Any, ...] | list[Any]]:
    branches = terms.branches(type.space)
    if type.kind is Kind.RECORD and branches:
        return branches[0], value
    name = value[0] if value and isinstance(value[0], str) else ""
    for branch in branches:
        if name == f"${branch.name}":
            return branch, value[1:]
    raise _no_value(value, type)


def _closed(value: Any, type: Type, terms: NestedTerms) -> str:
    """The text of a value that holds no other Python values."""
    kind = type.kind
    if kind in NESTED:
        if value is None and kind is Kind.RECORD:
            return "nil"
        if not isinstance(value, str | bytes):
            raise _no_value(value, type)
        text = str(from_object(value, kind))
        for reason in terms.bad_values(type.space, [text], first_only=True).values():
            raise ValueError(f"{shown(text)} {reason}")
        return text
    leaf = from_object(value, kind)
    if isinstance(leaf, float):
        return f"{leaf:.17g}"
    return _symbol(leaf) if isinstance(leaf, str) else str(leaf)


def _no_value(value: Any, type: Type) -> ValueError:
    return ValueError(f"{shown(value)} is not a value of type {type.name}")


def _symbol(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"' if _MISREAD.search(value) else value
