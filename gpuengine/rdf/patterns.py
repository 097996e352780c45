"""Regular expressions of XPath, as `REGEX` and `REPLACE` take them, by Python's `re`."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache

from gpuengine.rdf.values import ValueFault

# Characters of names of XML: those that begin one, and those that go on.
_INITIAL = r":A-Z_a-zÀ-ÖØ-öø-˿Ͱ-ͽͿ-῿\u200C-\u200D⁰-↏Ⰰ-\u2FEF、-\uD7FF豈-\uFDCFﷰ-\uFFFD\U00010000-\U000EFFFF"
_NAME = _INITIAL + r"\-.0-9·̀-ͯ‿-⁀"

_BLOCKS = {
    "IsBasicLatin": r"\x00-\x7F",
    "IsLatin-1Supplement": r"\x80-\xFF",
    "IsGreek": "Ͱ-Ͽ",
    "IsCyrillic": "Ѐ-ӿ",
}


@lru_cache(maxsize=64)
def _category(name: str) -> str:
    """The inside of a character class for a general category of Unicode (``L``, ``Lu``) or a block."""
    if name in _BLOCKS:
        return _BLOCKS[name]
    if not re.fullmatch("[LMNPZSC][a-z]?", name):
        raise ValueFault(f"\\p{{{name}}} is no category of characters")
    ranges: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    if not ranges:
        raise ValueFault(f"\\p{{{name}}} is no category of characters")
    return "".join(f"\\U{low:08X}-\\U{high:08X}" for low, high in ranges)


class _Translation:
    """A walk over a pattern; `python` is what `re` takes."""

    def __init__(self, pattern: str, flags: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.multiline = "m" in flags
        self.spaced = "x" in flags
        self.python = self._alternatives()

    def _alternatives(self) -> str:
        parts: list[str] = []
        while self.place < len(self.pattern):
            character = self.pattern[self.place]
            if character == "[":
                parts.append(self._class())
                continue
            self.place += 1
            if character == "\\":
                parts.append(self._escape())
            elif character == "$" and not self.multiline:
                parts.append(r"\Z")
            elif character == "(" and self.pattern.startswith("?", self.place):
                if not self.pattern.startswith("?:", self.place):
                    raise ValueFault("a group that XPath does not have")
                parts.append("(")
            elif self.spaced and character in " \t\n\r":
                continue
            elif character == "#" and self.spaced:
                parts.append(r"\#")
            else:
                parts.append(character)
        return "".join(parts)

    def _escape(self, inside: bool = False) -> str:
        if self.place >= len(self.pattern):
            raise ValueFault("a pattern that ends in a backslash")
        character = self.pattern[self.place]
        self.place += 1
        if character in "pP":
            end = self.pattern.find("}", self.place)
            if not self.pattern.startswith("{", self.place) or end < 0:
                raise ValueFault("\\p without its category")
            name = self.pattern[self.place + 1 : end]
            self.place = end + 1
            if inside and character == "P":
                raise ValueFault("\\P inside of brackets")
            return _category(name) if inside else f"[{'^' if character == 'P' else ''}{_category(name)}]"
        if character in "icIC":
            names = _INITIAL if character in "iI" else _NAME
            if inside and character in "IC":
                raise ValueFault(f"\\{character} inside of brackets")
            return names if inside else f"[{'^' if character in 'IC' else ''}{names}]"
        if character in "nrtdDsSwW" or character in "\\|.-^?*+{}()[]$":
            return f"\\{character}"
        if character in "123456789" and not inside:
            return f"\\{character}"
        raise ValueFault(f"\\{character} is no escape of XPath")

    def _class(self) -> str:
        """``[a-z-[aeiou]]``: a class, and what is taken from it."""
        self.place += 1
        parts = ["["]
        if self.pattern.startswith("^", self.place):
            parts.append("^")
            self.place += 1
        taken = ""
        first = True
        while True:
            if self.place >= len(self.pattern):
                raise ValueFault("brackets that do not end")
            character = self.pattern[self.place]
            if character == "]" and not first:
                self.place += 1
                break
            if self.pattern.startswith("-[", self.place):
                self.place += 1
                taken = f"(?!{self._class()})"
                if not self.pattern.startswith("]", self.place):
                    raise ValueFault("brackets that do not end")
                self.place += 1
                break
            self.place += 1
            first = False
            if character == "\\":
                parts.append(self._escape(inside=True))
            else:
                parts.append(f"\\{character}" if character in "[&~|" else character)
        return taken + "".join(parts) + "]"


@lru_cache(maxsize=512)
def compiled(pattern: str, flags: str) -> re.Pattern[str]:
    """A pattern of XPath with its flags (``s m i x q``)."""
    if set(flags) - set("smixq"):
        raise ValueFault(f"flags {flags!r}: there are s, m, i, x and q")
    python = re.escape(pattern) if "q" in flags else _Translation(pattern, flags).python
    options = re.RegexFlag(0)
    for flag, option in (("s", re.DOTALL), ("m", re.MULTILINE), ("i", re.IGNORECASE)):
        if flag in flags:
            options |= option
    try:
        return re.compile(python, options)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueFault(f"no regular expression: {error}") from None


def replaced(text: str, pattern: str, replacement: str, flags: str) -> str:
    """`fn:replace`: ``$1`` is a group, ``\\$`` a dollar."""
    search = compiled(pattern, flags)
    if search.search("") is not None:
        raise ValueFault("a pattern that matches the empty text")
    if "q" in flags:
        return search.sub(lambda _: replacement, text)
    parts: list[str | int] = []
    place = 0
    while place < len(replacement):
        character = replacement[place]
        place += 1
        if character == "\\":
            if place >= len(replacement) or replacement[place] not in "\\$":
                raise ValueFault("a backslash before neither \\ nor $")
            parts.append(replacement[place])
            place += 1
        elif character == "$":
            if (
                place >= len(replacement)
                or not replacement[place].isascii()
                or not replacement[place].isdigit()
            ):
                raise ValueFault("a $ without the number of a group")
            group = int(replacement[place])
            place += 1
            # As many digits as there are groups for.
            while place < len(replacement) and replacement[place] in "0123456789":
                longer = group * 10 + int(replacement[place])
                if longer > search.groups:
                    break
                group = longer
                place += 1
            parts.append(group)
        else:
            parts.append(character)

    def result(found: re.Match[str]) -> str:
        return "".join(
            part if isinstance(part, str) else ((found[part] or "") if part <= search.groups else "")
            for part in parts
        )

    return search.sub(result, text)
