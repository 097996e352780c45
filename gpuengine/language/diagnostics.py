"""Collects the diagnostics of one run, so that all errors are shown together."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gpuengine.errors import Diagnostic, ProgramErrors
from gpuengine.language import codes
from gpuengine.language.source import SourceMap

MAX_DIAGNOSTICS = 50


# Errors that the loss of some declaration, or of a component, would cause by itself.
LOST_COMPONENT = frozenset(
    (codes.UNDECLARED_RELATION, codes.UNDECLARED_TYPE, codes.UNKNOWN_BRANCH, codes.OVERRIDE)
)
LOST_DECLARATION = LOST_COMPONENT | {codes.UNKNOWN_COMPONENT}


class TooManyErrors(Exception):
    """Raised inside the package when further findings would only bury the first ones."""


class Reporter:
    """Errors by position; each (code, place, message) is kept once, at most `limit` of them (0: all).

    Where a declaration could not be read, `ignore` keeps what refers to it from being reported too.
    """

    def __init__(self, sources: SourceMap, limit: int = MAX_DIAGNOSTICS) -> None:
        self.sources = sources
        self._limit = limit
        self._ignored: set[str] = set()
        self._found: dict[tuple[int, str, str], Diagnostic] = {}
        self._warned: dict[tuple[int, str, str], Diagnostic] = {}

    def error(
        self,
        code: str,
        message: str,
        start: int,
        end: int,
        hint: str | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        key = (start, code, message)
        if key in self._found or code in self._ignored:
            return
        span = self.sources.span(start, end)
        line = self.sources.line_at(start)
        self._found[key] = Diagnostic(code, message, span, line, hint, tuple(notes))
        if 0 < self._limit <= len(self._found):
            raise TooManyErrors

    def warning(
        self,
        code: str,
        message: str,
        start: int,
        end: int,
        hint: str | None = None,
        notes: Iterable[str] = (),
        *,
        subject: str | None = None,
    ) -> None:
        """What is no error; `subject` is the relation that it is about. The first ones are kept."""
        key = (start, code, message)
        if key in self._warned or len(self._warned) >= MAX_DIAGNOSTICS:
            return
        span, line = self.sources.span(start, end), self.sources.line_at(start)
        self._warned[key] = Diagnostic(code, message, span, line, hint, tuple(notes), subject)

    def warnings(self) -> tuple[Diagnostic, ...]:
        """All warnings, in source order."""
        return tuple(self._warned[key] for key in sorted(self._warned))

    def ignore(self, consequences: Iterable[str]) -> None:
        """Report no errors of these codes any more: they would follow from one reported already."""
        self._ignored.update(consequences)

    def __bool__(self) -> bool:
        """Has anything been found?"""
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def errors(self) -> ProgramErrors:
        """Everything found, in source order."""
        return ProgramErrors([self._found[key] for key in sorted(self._found)])


def nearest(name: str, candidates: Iterable[str], what: str) -> str | None:
    """A hint that names the candidate closest to a misspelt name, if one is close."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return f"did you mean the {what} '{close[0]}'?" if close else None


def counted(number: int, noun: str) -> str:
    """``1 argument``, ``2 arguments``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
