"""Program text to tokens. MeTeoR's files need no more than their own syntax; the rest is beyond it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuengine.language.diagnostics import Reporter
from gpuengine.temporal import codes
from gpuengine.temporal.spelling import DURATION, NUMBER, STAMP

_PLAIN_STAMP = STAMP.replace(r"(\d", r"(?:\d").replace("(Z", "(?:Z")
_TOKEN = re.compile(
    rf"""
    (?P<blank>[ \t\r\f\v]+|%[^\n]*|//[^\n]*)
  | (?P<newline>\n)
  | (?P<comment>/\*.*?\*/)
  | (?P<open_comment>/\*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<open_string>["'])
  | (?P<stamp>{_PLAIN_STAMP})
  | (?P<duration>{DURATION})
  | (?P<number>{NUMBER})
  | (?P<name>[^\W\d]\w*)
  | (?P<mark>:-|<->|<\+>|\[-\]|\[\+\]|!=|<=|>=|[@.,()\[\]<>=+-])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is name, number, duration, stamp, string, newline, end, or the mark itself."""

    kind: str
    text: str
    start: int
    end: int


def tokens_of(text: str, base: int, reporter: Reporter) -> list[Token]:
    """All tokens; newlines where one can end a rule."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            reporter.error(codes.CHARACTER, f"unexpected character {text[at]!r}", base + at, base + at + 1)
            at += 1
            continue
        kind = match.lastgroup or ""
        if kind == "open_comment":
            reporter.error(
                codes.UNTERMINATED, "this comment never ends", base + at, base + at + 2, "end it with */"
            )
            break
        if kind == "open_string":
            hint = f"end it with {match[0]} on the same line"
            reporter.error(codes.UNTERMINATED, "this constant never ends", base + at, base + at + 1, hint)
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        if kind == "newline" or kind not in ("blank", "comment"):
            mark = match[0] if kind == "mark" else kind
            content = _unquoted(match[0]) if kind == "string" else match[0]
            tokens.append(Token(mark, content, base + at, base + match.end()))
        at = match.end()
    tokens.append(Token("newline", "", base + len(text), base + len(text)))
    tokens.append(Token("end", "", base + len(text), base + len(text)))
    return tokens


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])
