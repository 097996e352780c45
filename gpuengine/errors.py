"""Every error a user can see, in one hierarchy.

A `GpuEngineError` renders as: what is wrong, where (``file:line:column``, the line, a caret)
and what to do.  Errors of a program carry a stable code (``E0101``) so that docs, tests and
editors can refer to them; `ProgramErrors` bundles all errors found in one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open stretch of source text; lines and columns count from 1."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class GpuEngineError(Exception):
    """Base of all errors this package raises on purpose. `exit_code` is what the CLI returns."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding in a program: `code` is stable, `hint` says what to do, `notes` point elsewhere.

    Codes of warnings begin with W. `subject` is the relation that one is about, if it is about one.
    """

    code: str
    message: str
    span: Span
    source_line: str
    hint: str | None = None
    notes: tuple[str, ...] = ()
    subject: str | None = None

    @property
    def severity(self) -> str:
        return "warning" if self.code.startswith("W") else "error"

    def render(self) -> str:
        on_one_line = self.span.end_line == self.span.line
        width = max(1, self.span.end_column - self.span.column) if on_one_line else 1
        gutter = " " * len(str(self.span.line))
        pad = "".join("\t" if c == "\t" else " " for c in self.source_line[: self.span.column - 1])
        lines = [
            f"{self.severity}[{self.code}]: {self.message}",
            f"{gutter}--> {self.span}",
            f"{gutter} |",
            f"{self.span.line} | {self.source_line}",
            f"{gutter} | {pad}{'^' * width}",
        ]
        lines += [f"{gutter} = note: {note}" for note in self.notes]
        if self.hint:
            lines.append(f"{gutter} = hint: {self.hint}")
        return "\n".join(lines)


class ProgramErrors(GpuEngineError):
    """The program is wrong; nothing was evaluated. Holds every `Diagnostic` found, in source order.

    Or there are warnings, and who runs it takes them for errors.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.render())

    def render(self) -> str:
        count = len(self.diagnostics)
        plural = "s" if count != 1 else ""
        summary = f"{count} error{plural}; nothing was evaluated"
        if all(found.severity == "warning" for found in self.diagnostics):
            summary = f"{count} warning{plural} taken for errors; nothing was evaluated"
        return "\n\n".join([*(d.render() for d in self.diagnostics), summary])


class DataError(GpuEngineError):
    """Bad data: names the file (or object), the row, the column and the value."""


class DataWarning(UserWarning):
    """Data was taken in a way that may not be the one that was meant."""


class SchemeError(GpuEngineError):
    """A storage scheme was asked for that a relation can't have."""


class EvaluatorError(GpuEngineError):
    """An evaluator was asked for that does not exist, or for a rule that does not."""


class EvaluationError(GpuEngineError):
    """Evaluation can't go on (overflow of the term dictionary, division by zero, ...)."""


class FunctorError(EvaluationError):
    """A functor has no value for its arguments: names its place, and the values."""


class MemoryBudgetError(EvaluationError):
    """The result would not fit the memory budget; names the rule, its sizes and what to do."""


class Busy(GpuEngineError):
    """Another thread is using the engine, and took longer than one was willing to wait; nothing changed."""


class StoreError(GpuEngineError):
    """A knowledge base on disk can't be read or written: names the file, what is wrong and what to do."""


class BackendError(GpuEngineError):
    """The backend asked for is not usable on this machine; says what is missing."""


class SparkError(GpuEngineError):
    """Spark can't be used, or failed: says what is missing, or what failed where."""


class Interrupted(GpuEngineError):
    """Stopped by the user; the state before the operation is intact. `where` says what was being done."""

    exit_code = 130
    where = ""


class TimedOut(Interrupted):
    """Out of the time that was given; the state before the operation is intact."""

    exit_code = 124
