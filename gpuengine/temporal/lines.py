"""One line of temporal facts at a time: ``P("a b",c)@[1/3,inf)``, for what is not plain, and for messages."""

from __future__ import annotations

import re
from fractions import Fraction

from gpuengine.temporal.spelling import number_of, timestamp_of
from gpuengine.temporal.syntax import Interval

_NAME = re.compile(r"\s*([^\W\d]\w*)\s*")
_QUOTED = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\')\s*')
_BARE = re.compile(r"\s*([^,()\"']*[^,()\"'\s])\s*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_LONGEST_SHOWN = 40
_COMMENT = re.compile(r"\s*(?:%.*|//.*|/\*.*\*/\s*)?$")


def parse_fact(text: str, *, timestamps: bool = False) -> tuple[str, tuple[str, ...], Interval]:
    """(predicate, constants, interval) of a fact; a `ValueError` says what is wrong with it."""
    name = _NAME.match(text)
    if name is None:
        raise ValueError("a fact begins with the name of a predicate")
    at = name.end()
    arguments: list[str] = []
    if text[at : at + 1] == "(":
        at += 1
        if re.match(r"\s*\)", text[at:]):
            at = text.index(")", at) + 1
        else:
            while True:
                at = _argument(text, at, arguments)
                mark = text[at : at + 1]
                at += 1
                if mark == ")":
                    break
                if mark != ",":
                    raise ValueError("a comma or a closing parenthesis is missing")
    at += len(text[at:]) - len(text[at:].lstrip())
    if text[at : at + 1] != "@":
        raise ValueError("the time is missing, as in P(a)@[1,2]")
    return name[1], tuple(arguments), _interval(text[at + 1 :], timestamps)


def interval_of(text: str, *, timestamps: bool = False) -> Interval:
    """The interval that a text is; a `ValueError` says what is wrong with it."""
    return _interval(text, timestamps)


def _argument(text: str, at: int, arguments: list[str]) -> int:
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        content = quoted[1] if quoted[1] is not None else quoted[2]
        arguments.append(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), content))
        return quoted.end()
    bare = _BARE.match(text, at)
    if bare is None:
        raise ValueError("a constant is missing, or a quote does not end")
    arguments.append(bare[1])
    return bare.end()


def _interval(text: str, timestamps: bool) -> Interval:
    text = text.strip()
    if text[:1] not in ("[", "("):
        alone = re.match(r"[^\s%]+", text)
        if alone is None or not _COMMENT.fullmatch(text[alone.end() :]):
            raise ValueError("an interval such as [1,2) is missing after @")
        value = _time(alone[0].rstrip(".") if not alone[0][-1:].isdigit() else alone[0], timestamps)
        if not isinstance(value, Fraction):
            raise ValueError("a fact can't hold at infinity alone")
        return Interval(value, value)
    close = re.search(r"[\])]", text[1:])
    if close is None:
        raise ValueError("the interval does not end")
    end = close.start() + 1
    if not _COMMENT.fullmatch(text[end + 1 :].strip().removeprefix(".")):
        raise ValueError(f"there is more than a fact on this line, from {text[end + 1 :].strip()!r} on")
    ends = text[1:end].split(",")
    if len(ends) not in (1, 2):
        raise ValueError("an interval has two ends")
    low, high = _time(ends[0].strip(), timestamps), _time(ends[-1].strip(), timestamps)
    if low == float("inf") or high == float("-inf"):
        raise ValueError("an interval begins with -inf or a number, and ends with inf or a number")
    interval = Interval(
        low if isinstance(low, Fraction) else None,
        high if isinstance(high, Fraction) else None,
        text[0] == "(" or not isinstance(low, Fraction),
        text[end] == ")" or not isinstance(high, Fraction),
    )
    if interval.is_empty:
        raise ValueError("the interval holds no time")
    return interval


def _time(text: str, timestamps: bool) -> Fraction | float:
    if text in ("inf", "+inf", "-inf"):
        return float(text)
    value = timestamp_of(text.strip("\"'")) if timestamps else number_of(text)
    if value is None:
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
        raise ValueError(f"{shown!r} is no {'timestamp' if timestamps else 'number'}")
    return value
