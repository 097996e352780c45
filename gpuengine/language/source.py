"""Source text: where every character of a program came from.

All buffers (the program, its includes) share one space of positions: a buffer starts at `base`, so
one integer names a file, a line and a column.  Tokens and syntax nodes carry such integers; a `Span`
is made only for what leaves this package.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from gpuengine.errors import Span


class _Name(str):
    """The name of one buffer. Two buffers may share a name; a span's tells by identity which it means."""

    __slots__ = ()


class Buffer:
    """One text with its name, its place in the position space and, if it is a file, its path."""

    __slots__ = ("_line_starts", "base", "name", "path", "text")

    def __init__(self, name: str, text: str, base: int, path: Path | None) -> None:
        self.name: str = _Name(name)
        self.text = text
        self.base = base
        self.path = path
        self._line_starts: list[int] | None = None

    def locate(self, position: int) -> tuple[int, int]:
        """Line and column (from 1) of a position in this buffer."""
        offset = position - self.base
        starts = self.line_starts
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    @property
    def line_starts(self) -> list[int]:
        if self._line_starts is None:
            starts = [0]
            find = self.text.find
            at = find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = find("\n", at + 1)
            self._line_starts = starts
        return self._line_starts

    def line_text(self, line: int) -> str:
        start = self.line_starts[line - 1]
        end = self.text.find("\n", start)
        return (self.text[start:] if end < 0 else self.text[start:end]).rstrip("\r")


class SourceMap:
    """All buffers of one program. Positions of different buffers never overlap."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self._bases: list[int] = []

    def add(self, name: str, text: str, path: Path | None = None) -> Buffer:
        base = self.buffers[-1].base + len(self.buffers[-1].text) + 1 if self.buffers else 0
        buffer = Buffer(name, text, base, path)
        self.buffers.append(buffer)
        self._bases.append(base)
        return buffer

    def copy(self) -> SourceMap:
        """A map that begins with the same buffers, and can grow by itself."""
        other = SourceMap()
        other.buffers, other._bases = list(self.buffers), list(self._bases)
        return other

    def buffer_at(self, position: int) -> Buffer:
        return self.buffers[bisect_right(self._bases, position) - 1]

    def span(self, start: int, end: int) -> Span:
        """The span of ``[start, end)``; cut to one character where it leaves the buffer of its start."""
        buffer = self.buffers[0] if len(self.buffers) == 1 else self.buffer_at(start)
        line, column = buffer.locate(start)
        if not start <= end <= buffer.base + len(buffer.text):
            return Span(buffer.name, line, column, line, column + 1)
        starts = buffer.line_starts
        if line == len(starts) or end - buffer.base < starts[line]:
            return Span(buffer.name, line, column, line, column + end - start)
        end_line, end_column = buffer.locate(end)
        return Span(buffer.name, line, column, end_line, end_column)

    def positions(self, span: Span) -> tuple[int, int]:
        """The inverse of `span`, for spans that it made."""
        buffer = next(buffer for buffer in self.buffers if buffer.name is span.file)
        starts = buffer.line_starts
        return (
            buffer.base + starts[span.line - 1] + span.column - 1,
            buffer.base + starts[span.end_line - 1] + span.end_column - 1,
        )

    def line_at(self, position: int) -> str:
        """The whole line that holds `position`."""
        buffer = self.buffer_at(position)
        return buffer.line_text(buffer.locate(position)[0])

    def text(self, start: int, end: int) -> str:
        """The text of ``[start, end)``, or up to the end of its first line if it leaves the buffer."""
        buffer = self.buffer_at(start)
        if start <= end <= buffer.base + len(buffer.text):
            return buffer.text[start - buffer.base : end - buffer.base]
        offset = start - buffer.base
        line = buffer.text.find("\n", offset)
        return buffer.text[offset:] if line < 0 else buffer.text[offset:line]
