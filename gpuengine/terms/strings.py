"""String functors and relations on `Text`; `functors` states what they mean.

Texts of one row stand for constants and broadcast.
"""

from __future__ import annotations

import re
import warnings
from functools import reduce
from itertools import pairwise

import numpy as np

from gpuengine.errors import FunctorError, Span
from gpuengine.language.patterns import UnsupportedPattern, translate
from gpuengine.language.program import Functor
from gpuengine.terms.arithmetic import place
from gpuengine.terms.text import Text, concatenate, from_offsets, from_strings


def cat(parts: list[Text]) -> Text:
    """Concatenation row by row."""
    rows = _common_rows(*parts)
    return from_offsets(*concatenate(parts, rows))


def substr(text: Text, start: np.ndarray, length: np.ndarray) -> Text:
    """`length` bytes from byte `start`: empty where `start` is outside, to the end where length < 0.

    What is left of a character that this cuts becomes U+FFFD, so that every symbol is UTF-8.
    """
    rows = max(len(text), len(start), len(length)) if len(text) and len(start) and len(length) else 0
    text = text.broadcast(rows)
    rest = text.lengths - start
    inside = (start >= 0) & (rest >= 0)
    taken = np.where(length < 0, rest, np.minimum(length, rest))
    starts = np.where(inside, text.starts + start, text.starts)
    ends = np.where(inside, starts + taken, starts)
    cut_out = Text(starts, ends, text.data)
    if len(text.data) < 64 * rows and text.data.max() < 0x80:  # ASCII, which takes no time to see
        return cut_out
    cut = (starts < ends) & (_is_inside_character(text, starts) | _is_inside_character(text, ends))
    return _mended(cut_out, np.flatnonzero(cut)) if cut.any() else cut_out


def _is_inside_character(text: Text, places: np.ndarray) -> np.ndarray:
    """Is there at each place, before the end of its row, a byte that does not begin a character?"""
    last = max(len(text.data) - 1, 0)
    return (places < text.ends) & ((text.data[np.minimum(places, last)] & 0xC0) == 0x80)


def _mended(text: Text, rows: np.ndarray) -> Text:
    """The text with U+FFFD for what is no character in these rows."""
    offsets, data = text.take(rows).compact()
    pieces = [bytes(data[begin:end]) for begin, end in pairwise(offsets.tolist())]
    mended = from_strings([piece.decode("utf-8", "replace") for piece in pieces])
    starts, ends = text.starts.copy(), text.ends.copy()
    starts[rows], ends[rows] = mended.starts + len(text.data), mended.ends + len(text.data)
    return Text(starts, ends, np.concatenate([text.data, mended.data]))


def least(parts: list[Text]) -> Text:
    """The smallest row of several, by bytes."""
    return reduce(lambda left, right: _select(compare(right, left) < 0, right, left), parts)


def greatest(parts: list[Text]) -> Text:
    """The largest row of several, by bytes."""
    return reduce(lambda left, right: _select(compare(left, right) < 0, right, left), parts)


def compare(left: Text, right: Text) -> np.ndarray:
    """-1, 0 or 1 by row: lexicographic order of the bytes."""
    from gpuengine.kernels.cpu.text import compare_rows

    rows = _common_rows(left, right)
    left, right = left.broadcast(rows), right.broadcast(rows)
    order = np.empty(rows, np.int32)
    compare_rows(left.starts, left.ends, left.data, right.starts, right.ends, right.data, rows, order)
    return order


def contains(needle: Text, text: Text) -> np.ndarray:
    """Is `needle` somewhere in `text`?"""
    from gpuengine.kernels.cpu.text import contains_rows

    rows = _common_rows(needle, text)
    needle, text = needle.broadcast(rows), text.broadcast(rows)
    mask = np.empty(rows, np.uint8)
    contains_rows(needle.starts, needle.ends, needle.data, text.starts, text.ends, text.data, rows, mask)
    return mask.view(np.bool_)


def matches(pattern: str, text: Text, place: Span) -> np.ndarray | None:
    """Does the whole of each row match the pattern? None, with a warning, if there is no such pattern.

    `FunctorError` if it uses what `gpuengine.language.patterns` refuses.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets, data = text.compact()
    rows = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(text), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    try:
        translated = translate(pattern)
        pc.match_substring_regex(pa.array([""]), translated)  # by itself: its parentheses must pair up
    except UnsupportedPattern as error:
        raise FunctorError(f"{place}: `match` does not have {error} (in the pattern {pattern!r})") from None
    except pa.ArrowInvalid as error:
        reason = str(error).partition(": ")[2]
        if "too large" in reason or "repetition size" in reason:
            raise FunctorError(f"{place}: `match`: {pattern!r} is too large a pattern: {reason}") from None
        warnings.warn(f"match: {pattern!r} is not a regular expression: {reason}", stacklevel=2)
        return None
    hits = pc.match_substring_regex(rows, rf"\A(?:{translated})\z")
    return np.array(hits.to_numpy(zero_copy_only=False), np.bool_)


def parse_integers(text: Text, *, signed: bool, functor: Functor) -> np.ndarray:
    """The integer each row begins with; `FunctorError` where there is none or it is out of range."""
    values, good, _ = read_integers(text, signed=signed, prefixes=True)
    _reject(~good, text, "a number" if signed else "an unsigned", functor)
    return values


def read_integers(
    text: Text, *, signed: bool, prefixes: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The int64 or uint64 each row begins with: (values, is there one?, where its decimal digits end).

    With `prefixes`, ``0x`` and ``0b`` at the beginning say that it is hexadecimal or binary.
    """
    from gpuengine.kernels.cpu import text as kernels

    rows = len(text)
    magnitudes, status, stops = np.empty(rows, np.uint64), np.empty(rows, np.uint8), np.empty(rows, np.int64)
    kernels.parse_integers(text.starts, text.ends, text.data, rows, magnitudes, status, stops)
    if prefixes:
        kernels.parse_prefixed_integers(text.starts, text.ends, text.data, rows, magnitudes, status)
    if not signed:
        return magnitudes, status == 0, stops
    largest = np.where(status == 1, np.uint64(2**63), np.uint64(2**63 - 1))
    good = (status < 2) & (magnitudes <= largest)
    return np.where(status == 1, np.negative(magnitudes), magnitudes).view(np.int64), good, stops


def parse_floats(text: Text, functor: Functor) -> np.ndarray:
    """The float each row begins with; `FunctorError` where there is none."""
    values, good, _ = read_floats(text)
    _reject(~good, text, "a float", functor)
    return values


def read_floats(text: Text) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The float64 each row begins with: (values, is there one?, where it ends)."""
    from gpuengine.kernels.cpu import text as kernels

    starts, ends = np.empty(len(text), np.int64), np.empty(len(text), np.int64)
    kernels.float_prefixes(text.starts, text.ends, text.data, len(text), starts, ends)
    values, good = np.zeros(len(text)), ends > starts
    written, others = np.flatnonzero(good), np.flatnonzero(~good)
    if len(written):
        values[written] = _decimal_floats(Text(starts[written], ends[written], text.data))
    if len(others):
        values[others], lengths = _named_floats(text.take(others))
        good[others] = lengths > 0
        ends[others] = text.starts[others] + lengths
    return values, good, ends


def format_integers(values: np.ndarray) -> Text:
    """Decimal integers."""
    from gpuengine.kernels.cpu import text as kernels

    negative = values < 0
    words = values.view(np.uint64)
    magnitudes = np.where(negative, np.negative(words), words)
    rows = len(values)
    out, starts, ends = np.empty(rows * 21 + 1, np.uint8), np.empty(rows, np.int64), np.empty(rows, np.int64)
    kernels.format_integers(magnitudes, negative.view(np.uint8), rows, out, starts, ends)
    return Text(starts, ends, out)


def format_floats(values: np.ndarray, style: str) -> Text:
    """Floats by a C format such as ``%f``; each distinct value is formatted once."""
    distinct, rows = np.unique(values.view(np.uint64), return_inverse=True)
    # One formatting call for all: a call for each value would cost several times as much.
    lines = "".join([style + "\n"] * len(distinct)) % tuple(distinct.view(np.float64).tolist())
    data = np.frombuffer(lines.encode() or b"\n", np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    return Text(starts, ends, data).take(rows)


def _common_rows(*parts: Text) -> int:
    sizes = {len(part) for part in parts}
    return 0 if 0 in sizes else max(sizes)


def _select(mask: np.ndarray, left: Text, right: Text) -> Text:
    """Rows of `left` where `mask` holds, of `right` elsewhere."""
    left, right = left.broadcast(len(mask)), right.broadcast(len(mask))
    if left.data is not right.data:
        (left_offsets, left_data), (right_offsets, right_data) = left.compact(), right.compact()
        data = np.concatenate([left_data, right_data, np.zeros(1, np.uint8)])
        left = from_offsets(left_offsets, data)
        right = from_offsets(right_offsets + len(left_data), data)
    return Text(np.where(mask, left.starts, right.starts), np.where(mask, left.ends, right.ends), left.data)


def _decimal_floats(text: Text) -> np.ndarray:
    import pyarrow as pa

    return np.array(text.to_arrow().cast(pa.float64()).to_numpy())


def _named_floats(text: Text) -> tuple[np.ndarray, np.ndarray]:
    """Rows that may be an infinity or NaN, each distinct one looked at once: (values, bytes read)."""
    encoded = text.to_arrow().dictionary_encode()
    values, lengths = np.zeros(len(encoded.dictionary)), np.zeros(len(encoded.dictionary), np.int64)
    for row, word in enumerate(encoded.dictionary.to_pylist()):
        named = re.match(r"[ \t-\r]*([+-]?(?:infinity|inf|nan))", word, re.IGNORECASE)
        if named:
            values[row], lengths[row] = float(named[1]), named.end()
    codes = encoded.indices.to_numpy()
    return values[codes], lengths[codes]


def _reject(bad: np.ndarray, text: Text, wanted: str, functor: Functor) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        shown = text.data[text.starts[row] : text.ends[row]].tobytes().decode(errors="replace")
        raise FunctorError(f"{place(functor)}: the symbol {shown!r} is not {wanted}")
