"""Preprocessing on tokens: includes, macros, conditional parts.

A token that comes out of a macro stands where the macro was used, a token of an included file in that
file; so every later error points at text the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import NamedTuple

from gpuengine.errors import GpuEngineError
from gpuengine.language import codes
from gpuengine.language.conditions import ConditionError, evaluate
from gpuengine.language.diagnostics import LOST_DECLARATION, Reporter
from gpuengine.language.lexer import (
    BROKEN,
    BROKEN_LINE,
    ERROR,
    INCLUDE,
    ONCE,
    OPEN,
    PREPROCESSOR_LINE,
    Token,
    tokenize,
)
from gpuengine.language.macros import REST, EndlessExpansion, MacroError, Macros, make_macro
from gpuengine.language.source import Buffer
from gpuengine.language.tables import END

BUILT_IN = ("__LINE__", "__FILE__", "RAM_DOMAIN_SIZE")
"""Names that stand for something without being defined; the last is how many bits numbers have."""
MAX_INCLUDES = 1_000
MAX_INCLUDE_DEPTH = 50
_SPECIAL = frozenset((PREPROCESSOR_LINE, INCLUDE, ONCE, OPEN, ERROR))
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//.*|/\*.*?\*/', re.DOTALL)
_LINE = re.compile(r"#\s*([A-Za-z_]*)\s*(.*)", re.DOTALL)
_DEFINE = re.compile(r"([A-Za-z_]\w*)(\(([^()]*)\))?(.*)", re.DOTALL)
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))")
_WORD = re.compile(r"[A-Za-z_]\w*\Z")
_FILE = re.compile(r'(?:"([^"]*)"|<([^>]*)>)\s*\Z')


class Included(NamedTuple):
    """What one include read: the file as errors call it, its real path, its text."""

    name: str
    path: str
    text: str


class _Conditional:
    """One open ``#if``: whether its present part is read, whether a part of it still may be, and whether an
    ``#else`` came already."""

    __slots__ = ("active", "after_else", "open", "token")

    def __init__(self, active: bool, enclosing: bool, token: Token) -> None:
        self.active = active and enclosing
        self.open = enclosing and not active
        self.after_else = False
        self.token = token

    def turn(self, condition: bool) -> None:
        """Go on to the next part, which is read if nothing before was and its condition holds."""
        self.active = self.open and condition
        self.open = self.open and not condition


class Preprocessor:
    """Turns one buffer and all it includes into a list of grammar tokens that ends with `END`.

    `included` lists what the includes read, in their order.
    """

    def __init__(
        self,
        reporter: Reporter,
        include_dirs: Sequence[Path],
        macros: Mapping[str, str],
    ) -> None:
        self._sources = reporter.sources
        self._reporter = reporter
        self._include_dirs = tuple(include_dirs)
        self._macros = Macros(self._built_in())
        for name, value in macros.items():
            try:
                self._macros.define(make_macro(name, None, value))
            except MacroError as error:
                raise GpuEngineError(f"the macro {name} can't be {value!r}: {error}") from None
        self._root: Path | None = None  # where the program is
        self._tree: Path | None = None  # what its includes stay inside
        self._open_files: list[Path] = []
        self._read_once: set[Path] = set()
        self._recorded: Iterator[Included] = iter(())
        self.included: list[Included] = []
        self._out: list[Token] = []

    def resume(self, reporter: Reporter, recorded: Iterable[Included], again: bool) -> Preprocessor:
        """One that goes on after what this one has read, and with its macros; `self` stays as it is.

        The first includes are taken from `recorded` and not from files.  Files that are to be read once
        are read once more if `again`.
        """
        other = copy(self)
        other._sources = reporter.sources
        other._reporter = reporter
        other._macros = self._macros.resume(other._built_in())
        other._open_files = list(self._open_files)
        other._read_once = set() if again else set(self._read_once)
        other._recorded = iter(recorded)
        other.included = []
        other._out = []
        return other

    def run(self, buffer: Buffer) -> list[Token]:
        if buffer.path is not None:
            self._root = buffer.path.parent.resolve()
            self._tree = _tree_of(buffer.path)
            self._open_files.append(buffer.path.resolve())
        self._read(buffer)
        end = buffer.base + len(buffer.text)
        self._out.append((END, "", end, end))
        return self._out

    def _read(self, buffer: Buffer) -> None:
        tokens = tokenize(buffer)
        plain = not self._macros and not any(name in buffer.text for name in BUILT_IN)
        if plain and not any(token[0] in _SPECIAL for token in tokens):
            self._out.extend(tokens)
            return
        conditionals: list[_Conditional] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            kind = token[0]
            at += 1
            if kind == PREPROCESSOR_LINE:
                self._line(buffer, token, conditionals)
            elif conditionals and not conditionals[-1].active:
                continue
            elif kind == INCLUDE:
                at = self._include_directive(buffer, tokens, at)
            elif kind == ONCE:
                if self._seen_once(buffer):
                    return
            elif kind in (OPEN, ERROR):
                self._bad_token(token)
            elif token[1] in self._macros:
                at = self._expand(tokens, at - 1)
            else:
                self._out.append(token)
        for conditional in conditionals:
            message = "this condition is never closed"
            self._error(codes.PREPROCESSOR, message, conditional.token, "add an #endif")

    # Directives

    def _line(self, buffer: Buffer, token: Token, conditionals: list[_Conditional]) -> None:
        _, text, start, _ = token
        line_start = buffer.text.rfind("\n", 0, start - buffer.base) + 1
        active = not conditionals or conditionals[-1].active
        if buffer.text[line_start : start - buffer.base].strip():
            if active:
                self._error(codes.CHARACTER, "unexpected character '#'", (token[0], "#", start, start + 1))
                self._out.append((BROKEN_LINE, "#", start, start + 1))
            return
        text = _COMMENT.sub(lambda match: match.group(1) or " ", re.sub(r"\\\r?\n", " ", text))
        match = _LINE.match(text)
        word, rest = (match.group(1), match.group(2).strip()) if match else ("", "")
        if word in ("ifdef", "ifndef"):
            if not _WORD.match(rest):
                self._error(codes.PREPROCESSOR, f"#{word} needs the name of a macro", token)
            conditionals.append(_Conditional((rest in self._macros) == (word == "ifdef"), active, token))
        elif word == "if":
            conditionals.append(_Conditional(active and self._condition(word, rest, token), active, token))
        elif word in ("elif", "elifdef", "elifndef", "else", "endif"):
            self._turn(word, rest, token, conditionals)
        elif active:
            self._active_line(buffer, token, word, rest)

    def _turn(self, word: str, rest: str, token: Token, conditionals: list[_Conditional]) -> None:
        if not conditionals:
            self._error(codes.PREPROCESSOR, f"#{word} without #if, #ifdef or #ifndef", token)
            return
        innermost = conditionals[-1]
        if word == "endif":
            conditionals.pop()
        elif innermost.after_else:
            what = "a second #else for" if word == "else" else f"#{word} after the #else of"
            self._error(codes.PREPROCESSOR, f"{what} the same condition", token)
        elif word == "else":
            innermost.after_else = True
            innermost.turn(True)
        elif word == "elif":
            innermost.turn(innermost.open and self._condition(word, rest, token))
        else:
            innermost.turn((rest in self._macros) == (word == "elifdef"))

    def _condition(self, word: str, text: str, token: Token) -> bool:
        """Whether the expression of an ``#if`` holds; one that is wrong is reported, and does not."""
        text = _DEFINED.sub(lambda match: str(int((match[1] or match[2]) in self._macros)), text)
        try:
            return evaluate(self._macros.expand_text(text, token)) != 0
        except (ConditionError, MacroError) as error:
            self._error(codes.PREPROCESSOR, f"#{word}: {error}", token)
            return False

    def _active_line(self, buffer: Buffer, token: Token, word: str, rest: str) -> None:
        if word == "define":
            self._define(token, rest)
        elif word == "undef":
            self._macros.undefine(rest)
        elif word == "include":
            match = _FILE.match(rest) or _FILE.match(self._expanded_text(rest, token))
            if match:
                self._include(buffer, match.group(1) or match.group(2) or "", token)
            else:
                self._error(codes.PREPROCESSOR, '#include needs a file name: #include "file.dl"', token)
        elif word in ("line", "pragma") or (not word and (not rest or rest[0].isdigit())):
            return
        elif word == "error":
            self._error(codes.PREPROCESSOR, f"#error {rest}", token)
        elif word == "warning":
            self._reporter.warning(codes.WARNING, f"#warning {rest}", token[2], token[3])
        else:
            hint = "there are #define, #undef, #include, #if, #ifdef, #ifndef, #elif, #else, #endif, #error"
            message = f"the preprocessor directive #{word or rest} is not supported"
            self._error(codes.PREPROCESSOR, message, token, hint)

    def _define(self, token: Token, rest: str) -> None:
        match = _DEFINE.match(rest)
        if not match:
            self._error(codes.MACRO, "#define needs a name", token, "write #define NAME value")
            return
        name, is_function, params, body = match.groups()
        names = [param.strip() for param in params.split(",")] if params and params.strip() else []
        variadic = bool(names) and names[-1].endswith("...")
        if variadic:
            names[-1] = names[-1].removesuffix("...").strip() or REST
        if not all(_WORD.match(param) for param in names) or len(set(names)) < len(names):
            self._error(codes.MACRO, f"the parameters of the macro {name} are malformed", token)
            return
        try:
            macro = make_macro(name, tuple(names) if is_function else None, body, variadic=variadic)
        except MacroError as error:
            self._error(codes.MACRO, str(error), token)
            return
        if any(part.kind in (INCLUDE, ONCE) for part in macro.body):
            self._error(codes.MACRO, f"the macro {name} can't include files: write #include", token)
            return
        self._macros.define(macro)

    def _seen_once(self, buffer: Buffer) -> bool:
        if buffer.path is None:
            return False
        path = buffer.path.resolve()
        seen = path in self._read_once
        self._read_once.add(path)
        return seen

    # Includes

    def _include_directive(self, buffer: Buffer, tokens: list[Token], at: int) -> int:
        if at < len(tokens) and tokens[at][0] == "STRING":
            self._include(buffer, tokens[at][1][1:-1], tokens[at])
            return at + 1
        self._error(codes.PREPROCESSOR, '.include needs a file name: .include "file.dl"', tokens[at - 1])
        return at

    def _include(self, buffer: Buffer, name: str, token: Token) -> None:
        recorded = next(self._recorded, None)
        path = Path(recorded.path) if recorded else self._find(buffer, name, token)
        if path is None:
            self._reporter.ignore(LOST_DECLARATION)
            return
        resolved = path.resolve()
        cyclic = resolved in self._open_files
        if cyclic or len(self.included) >= MAX_INCLUDES or len(self._open_files) > MAX_INCLUDE_DEPTH:
            reason = "includes itself" if cyclic else "is included too deeply or too often"
            self._error(codes.INCLUDE_CYCLE, f"'{name}' {reason}", token, "start each file with .once")
            return
        try:
            file = recorded or Included(str(path), str(resolved), read_source(path))
        except (OSError, UnicodeDecodeError) as error:
            self._error(codes.UNREADABLE, f"can't read '{name}': {describe(error)}", token)
            self._reporter.ignore(LOST_DECLARATION)
            return
        self.included.append(file)
        self._open_files.append(resolved)
        self._read(self._sources.add(file.name, file.text, path))
        self._open_files.pop()

    def _find(self, buffer: Buffer, name: str, token: Token) -> Path | None:
        """The file an include names: beside the including file, or in an include directory.

        A text without a file that is read after a program's file is taken to stand beside that.
        """
        directories = list(self._include_dirs)
        beside = self._root if buffer.path is None else buffer.path.parent
        if beside is not None:
            directories.insert(0, beside)
        allowed = [directory.resolve() for directory in directories]
        if self._tree is not None:
            allowed.append(self._tree)
        outside = not directories
        for directory in directories:
            candidate = directory / name
            if "\0" in name or not any(candidate.resolve().is_relative_to(place) for place in allowed):
                outside = True
            elif candidate.is_file():
                return candidate
        if outside:
            self._error(
                codes.INCLUDE_OUTSIDE,
                f"'{name}' is outside the program's directory and the include directories",
                token,
                "move the file, or name its directory as an include directory",
            )
        else:
            hint = "searched beside the including file and in the include directories"
            self._error(codes.UNREADABLE, f"there is no file '{name}'", token, hint)
        return None

    # Tokens

    def _expand(self, tokens: list[Token], at: int) -> int:
        """Append what the name at `at` stands for; returns where to go on."""
        _, text, start, end = tokens[at]
        expanded: list[Token] = []
        try:
            following = self._macros.expand(tokens, at, expanded)
        except MacroError as error:
            self._error(codes.MACRO, str(error), tokens[at])
            self._out.append((BROKEN, text, start, end))
            if isinstance(error, EndlessExpansion):
                self._macros.clear()
            return at + 1
        for token in expanded:
            if token[0] in _SPECIAL:
                message = f"the macro {text} leaves {token[1]!r} here, which is no text of a program"
                self._error(codes.MACRO, message, tokens[at])
                self._out.append((BROKEN, text, start, end))
            else:
                self._out.append(token)
        return following

    def _expanded_text(self, text: str, token: Token) -> str:
        try:
            return self._macros.expand_text(text, token)
        except MacroError as error:
            self._error(codes.MACRO, str(error), token)
            return ""

    def _built_in(self) -> dict[str, Callable[[int], tuple[str, str]]]:
        sources = self._sources

        def line(position: int) -> tuple[str, str]:
            return "NUMBER", str(sources.buffer_at(position).locate(position)[0])

        def file(position: int) -> tuple[str, str]:
            name = sources.buffer_at(position).name
            escaped = name.replace("\\", "\\\\").replace('"', '\\"')
            return "STRING", f'"{escaped}"'

        return dict(zip(BUILT_IN, (line, file, lambda _: ("NUMBER", "64")), strict=True))

    def _bad_token(self, token: Token) -> None:
        kind, text, start, end = token
        if kind == OPEN:
            what, hint = ("string", 'close it with "; a line break is written \\n')
            if text.startswith("/*"):
                what, hint = ("comment", "close it with */")
            self._reporter.error(codes.UNTERMINATED, f"this {what} never ends", start, start + 1, hint)
            self._out.append((BROKEN_LINE, text, start, end))
        else:
            self._error(codes.CHARACTER, f"unexpected character {text!r}", token)
            self._out.append((BROKEN, text, start, end))

    def _error(self, code: str, message: str, token: Token, hint: str | None = None) -> None:
        self._reporter.error(code, message, token[2], token[3], hint)


def _tree_of(path: Path) -> Path:
    """The folder that a program belongs to: of ``project/rules/main.dl``, as a user gave it, ``project``."""
    if path.is_absolute() or ".." in path.parts:
        return path.parent.resolve()
    return Path(path.parts[0]).resolve() if len(path.parts) > 1 else Path().resolve()


def read_source(path: Path) -> str:
    """The text of a program file; raises OSError or UnicodeDecodeError."""
    return path.read_text(encoding="utf-8-sig")


def describe(error: OSError | UnicodeDecodeError) -> str:
    """Why a file can't be read, for a user."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {error.start})"
    return (error.strerror or str(error)).lower()
