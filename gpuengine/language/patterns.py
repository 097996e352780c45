"""The regular expressions of ``match``: read as C++ does (ECMAScript, by bytes), written for RE2.

RE2 takes time linear in the text, whatever the pattern. So it has no back-references and no look-around,
which are refused by name, as is what only other languages have.

| in C++ | here |
|---|---|
| ``.`` | any byte but a line feed or carriage return |
| ``\\d \\w \\s`` and POSIX classes | of ASCII |
| ``\\b`` in a class, ``\\cX``, ``\\xHH``, ``\\uHHHH``, ``\\0`` | the byte they name |
| ``\\`` before any other character | that character |
| ``[]``, ``[^]`` | no byte, any byte |
"""

from __future__ import annotations

import re

_SPACES = r"\t\n\x0b\x0c\r "
_NO_SPACES = r"\x00-\x08\x0e-\x1f\x21-\xff"
_CONTROLS = {"f": r"\x0c", "n": r"\n", "r": r"\r", "t": r"\t", "v": r"\x0b", "0": r"\x00"}
_REPETITION = re.compile(r"\{(\d+)(?:,(\d+)?)?\}")
_MOST_REPEATED = 1000
_GROUPS = {
    "(?=": "look-ahead (?=",
    "(?!": "look-ahead (?!",
    "(?<=": "look-behind (?<=",
    "(?<!": "look-behind (?<!",
    "(?<": "the named group (?<",
    "(?P": "the named group (?P",
}


class UnsupportedPattern(Exception):
    """A pattern uses what `match` does not have: says what."""


def translate(pattern: str) -> str:
    """The same pattern for RE2 over bytes; one that is broken stays so. Raises `UnsupportedPattern`."""
    return _Translation(pattern).run()


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def run(self) -> str:
        written: list[str] = []
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == "\\":
                written.append(self._escape(inside=False))
            elif character == "[":
                written.append(self._class())
            elif character == "(":
                written.append(self._group())
            elif character == "{":
                self._check_repetition()
                self._at += 1
                written.append("{")
            else:
                self._at += 1
                written.append(r"[^\n\r]" if character == "." else _bytes_of(character))
        return "".join(written)

    def _group(self) -> str:
        rest = self._pattern[self._at : self._at + 4]
        if rest.startswith("(?:"):
            self._at += 3
            return "(?:"
        if rest.startswith("(?"):
            names = (name for start, name in _GROUPS.items() if rest.startswith(start))
            raise UnsupportedPattern(next(names, f"the flag or group {rest[:3]}"))
        self._at += 1
        return "("

    def _check_repetition(self) -> None:
        counted = _REPETITION.match(self._pattern, self._at)
        if counted and max(int(number) for number in counted.groups("0")) > _MOST_REPEATED:
            raise UnsupportedPattern(f"more than {_MOST_REPEATED:,} repetitions: {counted[0]}")

    def _escape(self, inside: bool) -> str:
        """What a backslash begins, `inside` a class or not."""
        following = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if following in "123456789" and following:
            raise UnsupportedPattern(f"the back-reference \\{following}")
        if following in _CONTROLS:
            return _CONTROLS[following]
        if following in ("d", "D", "w", "W"):
            return f"\\{following}"
        if following in ("s", "S"):
            spaces = _SPACES if following == "s" else _NO_SPACES
            return spaces if inside else f"[{spaces}]"
        if following in ("b", "B") and not inside:
            return f"\\{following}"
        if following == "b":
            return r"\x08"
        if following == "c":
            letter = self._pattern[self._at : self._at + 1]
            self._at += 1
            return rf"\x{ord(letter) % 32:02x}" if letter else "\\"
        if following in ("x", "u"):
            return self._code(2 if following == "x" else 4)
        return _literal(following) if following else "\\"

    def _code(self, digits: int) -> str:
        written = self._pattern[self._at : self._at + digits]
        self._at += digits
        try:
            code = int(written, 16) if len(written) == digits else -1
        except ValueError:
            code = -1
        if code > 255:
            raise UnsupportedPattern(f"the character \\u{written}, which is no byte")
        return rf"\x{code:02x}" if code >= 0 else "\\"

    def _class(self) -> str:
        """``[...]``; an end that is missing stays missing."""
        self._at += 1
        negated = self._pattern[self._at : self._at + 1] == "^"
        self._at += negated
        written: list[str] = []
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == "]":
                self._at += 1
                if not written:
                    return r"[\x00-\xff]" if negated else r"[^\x00-\xff]"
                return f"[{'^' if negated else ''}{''.join(written)}]"
            if character == "\\":
                written.append(self._escape(inside=True))
            elif self._pattern.startswith("[:", self._at) and ":]" in self._pattern[self._at + 2 :]:
                end = self._pattern.index(":]", self._at + 2) + 2
                written.append(self._pattern[self._at : end])
                self._at = end
            else:
                self._at += 1
                written.append(r"\[" if character == "[" else _bytes_of(character))
        return "["


def _literal(character: str) -> str:
    """A character that stands for itself."""
    if not character.isascii():
        return _bytes_of(character)
    return character if character.isalnum() or character == "_" else rf"\x{ord(character):02x}"


def _bytes_of(character: str) -> str:
    """A character of a pattern as it is, or byte by byte if it has several."""
    if character.isascii():
        return character
    return "".join(rf"\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
