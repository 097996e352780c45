"""Temporal facts as users give them: lines of text, files, folders, tables; checked, as columns.

`GivenFacts` are the facts of one predicate, with exact times: integers of `unit` each, doubled with open
ends as `kernels.timeline` has them.
"""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gpuengine.errors import DataError
from gpuengine.kernels.timeline import INFINITY, LARGEST, MINUS_INFINITY
from gpuengine.language.diagnostics import counted
from gpuengine.limits import charge
from gpuengine.limits import check as check_memory
from gpuengine.temporal.encoding import Encoding, overflow, worst_of
from gpuengine.temporal.lines import parse_fact
from gpuengine.temporal.syntax import GivenFact, Interval
from gpuengine.terms.text import Text, from_strings

OnError = Literal["fail", "skip"]
MAX_MESSAGES = 5
_LONGEST_SHOWN = 200
TEXT_SUFFIXES = (".txt", ".facts")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arrow", ".arrows", ".ipc", ".feather")
_CODECS = (".gz", ".zst")
_PIECE = 1 << 20
_BLOCK = 1 << 22
"""So many bytes of text are read at a time; what is noted of their lines takes some times as much."""


@dataclass
class GivenFacts:
    """Facts of one predicate: a text column for each argument, and encoded ends in units of 1 / `scale`.

    `stamp` is the Arrow type of timestamps if the times are such.
    """

    predicate: str
    arguments: list[Text]
    lower: np.ndarray
    upper: np.ndarray
    scale: int
    stamp: Any = None

    def __len__(self) -> int:
        return len(self.lower)

    def arrays(self) -> Iterator[np.ndarray]:
        """What it is kept in; facts of one file share the text."""
        for text in self.arguments:
            yield from (text.starts, text.ends, text.data)
        yield from (self.lower, self.upper)


@dataclass
class Problems:
    """Bad rows: collected if they are to be skipped, else raised together."""

    on_error: OnError
    skipped: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, message: str) -> None:
        self.skipped += 1
        if len(self.messages) < MAX_MESSAGES:
            self.messages.append(message)

    def check(self) -> None:
        """Raise what was found, unless it is to be skipped."""
        if self.skipped and self.on_error == "fail":
            more = (
                f"\n  and {self.skipped - len(self.messages)} more"
                if self.skipped > len(self.messages)
                else ""
            )
            raise DataError(
                "\n".join(self.messages)
                + more
                + "\n  hint: --on-error skip (on_error='skip') leaves bad facts out"
            )


# -- lines of text ---------------------------------------------------------------------------------


def read_lines(
    data: bytes, where: str, problems: Problems, arities: Mapping[str, int], *, timestamps: bool = False
) -> list[GivenFacts]:
    """The facts of a text, by predicate; `arities` are those that are known."""
    from gpuengine.kernels.cpu import fact_text as kernel

    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        return []
    raw = np.frombuffer(data, np.uint8)
    bad = _BadLines(data, where)
    seen = dict(arities)
    given: list[GivenFacts] = []
    slow = []
    for begin, end in _blocks(data):
        lines, spans = _scan(raw, begin, end, kernel)
        lines = _without_bad_text(data, begin, end, lines, bad, kernel)
        status = lines[:, kernel.STATUS]
        if timestamps:
            slow.append(lines[status != kernel.BLANK])
        else:
            slow.append(lines[status == kernel.LEFT])
            given += _plain_facts(raw, lines[status == kernel.READ], spans, seen, bad, kernel)
        check_memory(f"reading {where}")
    # After the others, and together: a comment may go over several lines, and blocks.
    given += _slow_facts(np.concatenate(slow), seen, bad, timestamps, kernel)
    bad.report(problems)
    problems.check()
    return given


def _blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Stretches of whole lines, each of about `_BLOCK` bytes."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + _BLOCK) + 1 or len(data)
        yield begin, end
        begin = end


class _BadLines:
    """What is wrong with lines of a text, told in their order."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data = data
        self._where = where
        self._found: list[tuple[int, int, str]] = []

    def text(self, start: int, end: int) -> str:
        """What a line says."""
        return self._data[start:end].decode(errors="replace").strip()

    def add(self, start: int, end: int, what: str) -> None:
        """Remember that the line from `start` to `end` is bad."""
        self._found.append((start, end, what))

    def report(self, problems: Problems) -> None:
        for start, end, what in sorted(self._found):
            if len(problems.messages) >= MAX_MESSAGES:
                problems.skipped += 1  # it is counted, and not shown
                continue
            line = self._data.count(b"\n", 0, start) + 1
            text = self.text(start, min(end, start + _LONGEST_SHOWN))
            problems.add(
                f"{self._where}:{line}: {what}: {text}{'...' if end > start + _LONGEST_SHOWN else ''}"
            )


def _without_bad_text(
    data: bytes, begin: int, end: int, lines: np.ndarray, bad: _BadLines, kernel: Any
) -> np.ndarray:
    """The lines of a block that are UTF-8; the others are bad."""
    block = data[begin:end]
    if block.isascii():
        return lines
    try:
        block.decode()
        return lines
    except UnicodeDecodeError:
        pass  # which lines?
    odd = begin + np.flatnonzero(np.frombuffer(block, np.uint8) >= 128)
    is_good = np.ones(len(lines), np.bool_)
    for place in np.unique(np.searchsorted(lines[:, kernel.LINE_START], odd, "right") - 1).tolist():
        line_start, line_end = lines[place, [kernel.LINE_START, kernel.LINE_END]].tolist()
        try:
            data[line_start:line_end].decode()
        except UnicodeDecodeError:
            bad.add(line_start, line_end, "this is no UTF-8 text")
            is_good[place] = False
    return lines[is_good]


def _other_arity(name: str, here: int, known: int) -> str:
    return f"{name} has {counted(here, 'argument')} here, but {known} elsewhere"


def _scan(raw: np.ndarray, begin: int, end: int, kernel: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel reads of each line of a block, and the spans of all arguments."""
    block = raw[begin:end]
    most_lines = int(np.count_nonzero(block == 10)) + 1
    most_spans = int(np.count_nonzero(block == 44)) + most_lines
    lines = np.zeros((most_lines, kernel.WORDS), np.int64)
    spans = np.empty((most_spans, 2), np.int64)
    state = np.zeros(2, np.int64)
    stopped = kernel.scan_lines(raw, begin, end, lines, most_lines, spans, most_spans, state)
    assert stopped == end
    return lines[: state[0]], spans[: state[1]]


def _plain_facts(
    raw: np.ndarray, read: np.ndarray, spans: np.ndarray, arities: dict[str, int], bad: _BadLines, kernel: Any
) -> list[GivenFacts]:
    from gpuengine.terms.tables import StringTable

    if not len(read):
        return []
    names = StringTable("predicate")
    starts, ends = (np.ascontiguousarray(read[:, k]) for k in (kernel.NAME_START, kernel.NAME_END))
    codes = names.intern(Text(starts, ends, raw))
    texts = names.text(np.arange(len(names), dtype=np.uint32)).to_arrow().to_pylist()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(texts) + 1))
    given = []
    for code, name in enumerate(texts):
        rows = read[order[bounds[code] : bounds[code + 1]]]
        arity = arities.setdefault(name, int(rows[0, kernel.ARGUMENTS]))
        wrong = rows[:, kernel.ARGUMENTS] != arity
        for row in rows[wrong].tolist():
            what = _other_arity(name, row[kernel.ARGUMENTS], arity)
            bad.add(row[kernel.LINE_START], row[kernel.LINE_END], what)
        rows = rows[~wrong] if wrong.any() else rows
        if not len(rows):
            continue
        low, up, scale, empty = _encoded_ends(rows, kernel)
        for row in rows[empty].tolist():
            bad.add(row[kernel.LINE_START], row[kernel.LINE_END], "the interval holds no time")
        if empty.any():
            rows, low, up = rows[~empty], low[~empty], up[~empty]
        first = rows[:, kernel.FIRST_ARGUMENT]
        arguments = [Text(spans[first + j, 0].copy(), spans[first + j, 1].copy(), raw) for j in range(arity)]
        given.append(GivenFacts(name, arguments, low, up, scale))
    return given


def _encoded_ends(rows: np.ndarray, kernel: Any) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """(lower, upper, scale, which are empty) of what the kernel read."""
    digits = max(int(rows[:, kernel.LOW_DIGITS].max()), int(rows[:, kernel.HIGH_DIGITS].max()))
    scale = 10**digits
    values = []
    for value, decimals, kind in (
        (kernel.LOW, kernel.LOW_DIGITS, kernel.LOW_KIND),
        (kernel.HIGH, kernel.HIGH_DIGITS, kernel.HIGH_KIND),
    ):
        amount = rows[:, value]
        if digits:
            missing = digits - rows[:, decimals]
            sizes = np.abs(amount).astype(np.float64) * 10.0**missing
            if sizes.max() >= LARGEST / 2:
                raise overflow(_worst_time(rows, kernel), scale)
            amount = amount * np.power(10, missing)
        values.append((2 * amount, rows[:, kind]))
    (low, low_kind), (up, up_kind) = values
    low = np.where(low_kind == kernel.INFINITE, MINUS_INFINITY, low + (low_kind == kernel.OPEN))
    up = np.where(up_kind == kernel.INFINITE, INFINITY, up - (up_kind == kernel.OPEN))
    finite = np.concatenate([low[low != MINUS_INFINITY], up[up != INFINITY]])
    if len(finite) and int(np.abs(finite).max()) >= LARGEST:
        raise overflow(Fraction(int(finite[np.argmax(np.abs(finite))]), 2 * scale), scale)
    return low, up, scale, low > up


def _worst_time(rows: np.ndarray, kernel: Any) -> Fraction:
    """Of all times that the kernel read the one with the most decimals, of those the largest."""
    times = []
    for value, decimals in ((kernel.LOW, kernel.LOW_DIGITS), (kernel.HIGH, kernel.HIGH_DIGITS)):
        finest = rows[rows[:, decimals] == rows[:, decimals].max()]
        largest = finest[np.argmax(np.abs(finest[:, value]))]
        times.append(Fraction(int(largest[value]), 10 ** int(largest[decimals])))
    return worst_of(times)


def _slow_facts(
    slow: np.ndarray, arities: dict[str, int], bad: _BadLines, timestamps: bool, kernel: Any
) -> list[GivenFacts]:
    by_predicate: dict[str, tuple[list[tuple[str, ...]], list[Interval]]] = {}
    in_comment = False
    for start, end in slow[:, [kernel.LINE_START, kernel.LINE_END]].tolist():
        text = bad.text(start, end)
        # A comment over several lines: they may hold anything.
        if in_comment or text.startswith("/*"):
            in_comment = "*/" not in text
            continue
        try:
            predicate, arguments, range = parse_fact(text, timestamps=timestamps)
        except ValueError as error:
            bad.add(start, end, str(error))
            continue
        arity = arities.setdefault(predicate, len(arguments))
        if len(arguments) != arity:
            bad.add(start, end, _other_arity(predicate, len(arguments), arity))
            continue
        rows = by_predicate.setdefault(predicate, ([], []))
        rows[0].append(arguments)
        rows[1].append(range)
    stamp = None
    if timestamps:
        import pyarrow as pa

        stamp = pa.timestamp("us", "UTC")
    return [
        from_ranges(predicate, rows, ranges, arities[predicate], stamp)
        for predicate, (rows, ranges) in by_predicate.items()
    ]


def from_ranges(
    predicate: str, rows: Sequence[tuple[str, ...]], ranges: Sequence[Interval], arity: int, stamp: Any = None
) -> GivenFacts:
    """Facts given one by one."""
    times = [end for range in ranges for end in (range.lower, range.upper) if end is not None]
    encoding = Encoding().with_times(times)
    encoded = [encoding.range(range) for range in ranges]
    return GivenFacts(
        predicate,
        [from_strings([row[j] for row in rows]) for j in range(arity)],
        np.array([low for low, _ in encoded], np.int64),
        np.array([up for _, up in encoded], np.int64),
        encoding.scale,
        stamp,
    )


def given_facts(facts: Iterable[GivenFact]) -> list[GivenFacts]:
    """The facts among rules, by predicate."""
    by_predicate: dict[tuple[str, bool], list[GivenFact]] = {}
    for fact in facts:
        by_predicate.setdefault((fact.atom.predicate, fact.is_timestamp), []).append(fact)
    given = []
    for (name, is_timestamp), own in by_predicate.items():
        rows = [tuple(str(getattr(t, "text", t)) for t in fact.atom.terms) for fact in own]
        stamp = None
        if is_timestamp:
            import pyarrow as pa

            stamp = pa.timestamp("us", "UTC")
        given.append(from_ranges(name, rows, [fact.range for fact in own], len(rows[0]), stamp))
    return given


# -- files -----------------------------------------------------------------------------------------


def read_path(
    path: Path, arities: Mapping[str, int], problems: Problems, *, timestamps: bool = False
) -> Iterator[GivenFacts]:
    """The facts of a file, or of every file of a folder whose name says what it is."""
    if path.is_dir():
        files = fact_files(path)
        if not files:
            raise DataError(
                f"{path} has no facts\n"
                "  hint: PREDICATE.csv, .tsv, .parquet or .arrow; or .txt with lines P(a)@[1,2]"
            )
        for file in files:
            yield from read_path(file, arities, problems, timestamps=timestamps)
        return
    if not path.exists():
        names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, names, 1)
        raise DataError(
            f"there are no facts in {path}: it does not exist"
            + (f"\n  hint: did you mean {path.parent / near[0]}?" if near else "")
        )
    if suffix_of(path) in TABLE_SUFFIXES:
        predicate = path.name.removesuffix(
            "".join(path.suffixes[-2:]) if path.suffix in _CODECS else path.suffix
        )
        from gpuengine.temporal.tables import read_table

        yield read_table(path, predicate, arities.get(predicate), problems, timestamps=timestamps)
        return
    yield from read_lines(content_of(path), str(path), problems, arities, timestamps=timestamps)


def fact_files(folder: Path) -> list[Path]:
    """The files of a folder whose names say that they have facts."""
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return [file for file in files if suffix_of(file) in (*TABLE_SUFFIXES, *TEXT_SUFFIXES)]


def suffix_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in _CODECS else "".join(suffixes[-1:])


def first_line(path: Path) -> str:
    """The first line of a text file that may be compressed."""
    if path.suffix.lower() in _CODECS:
        return content_of(path).split(b"\n", 1)[0].decode(errors="replace").rstrip("\r")
    try:
        with path.open("rb") as lines:
            return lines.readline().decode("utf-8-sig", errors="replace").rstrip("\r\n")
    except OSError as error:
        raise DataError(f"can't read {path}: {error.strerror or error}") from error


def content_of(path: Path) -> bytes:
    """What a file holds that may be compressed; held to the memory budget as it grows."""
    import zlib

    try:
        if path.suffix.lower() == ".gz":
            import gzip

            with gzip.open(path) as content:
                return _all_of(content, path)
        if path.suffix.lower() == ".zst":
            import pyarrow as pa

            with pa.input_stream(str(path), compression="zstd") as content:
                return _all_of(content, path)
        charge(path.stat().st_size, f"the text of {path}")
        return path.read_bytes()
    except (zlib.error, EOFError) as error:
        raise DataError(f"can't read {path}: damaged: {error}") from error
    except OSError as error:
        raise DataError(f"can't read {path}: {error.strerror or error}") from error


def _all_of(content: Any, path: Path) -> bytes:
    pieces = []
    while piece := content.read(_PIECE):
        pieces.append(piece)
        check_memory(f"decompressing {path}")
    return b"".join(pieces)
