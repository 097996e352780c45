"""`Dictionary`: every term of a program as a dense 32-bit id.

There is one id space per `Type.space`; ids of different spaces have nothing to do with each other.

| kind | ids |
|---|---|
| number, unsigned | 0 <= v < `IDENTITY` is its own id and takes no memory; others from `IDENTITY` on |
| float | by bit pattern, as Soufflé's relations compare: -0.0 and 0.0 are two terms, NaN is NaN; from 0 |
| symbol | by bytes; from 0 |
| record | 0 is ``nil``, rows of field ids from 1 |
| ADT | rows (branch, argument ids...) from 0 |

Ids are given in order of first sight, never change and are never forgotten.  Unknown values are
interned by `encode`, `pack` and `intern_constant` and left alone by everything else.  Any number of threads
may use a dictionary; arrays it handed out stay valid when it grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuengine.errors import EvaluationError
from gpuengine.language.program import AdtType, Branch, Constant, Program, RecordType, Type
from gpuengine.terms import columns
from gpuengine.terms.functions import Functions
from gpuengine.terms.tables import RowTable, StringTable, WordTable
from gpuengine.terms.text import Text, single

IDENTITY = 2**24
"""Numbers and unsigned from 0 up to this are their own ids."""

_WORD_DTYPES = {"number": np.int64, "unsigned": np.uint64, "float": np.float64}


class Dictionary:
    """The terms of one engine. See the module for ids and life-cycle."""

    def __init__(self, program: Program | None = None) -> None:
        self._records: Mapping[str, RecordType] = {}
        self._adts: Mapping[str, AdtType] = {}
        self._words = {
            "number": WordTable("number", IDENTITY),
            "unsigned": WordTable("unsigned", IDENTITY),
            "float": WordTable("float", 0),
        }
        self._symbols = StringTable("symbol")
        self._constants: dict[tuple[str, int | float | str], int] = {}
        self._rows: dict[str, RowTable] = {}
        self.functions = Functions({})
        """What functors that the program only declares are computed by."""
        if program is not None:
            self.learn_types(program)

    def learn_types(self, program: Program) -> None:
        """Have the record and ADT types of a program, which may be one that was added to."""
        self._learn(program.records, program.adts)

    @property
    def compound_types(self) -> tuple[dict[str, RecordType], dict[str, AdtType]]:
        """The record and the ADT types, by space."""
        return dict(self._records), dict(self._adts)

    @classmethod
    def of_types(cls, records: Mapping[str, RecordType], adts: Mapping[str, AdtType]) -> Dictionary:
        """A dictionary for the types that another one has as `compound_types`."""
        made = cls()
        made._learn(records, adts)
        return made

    def _learn(self, records: Mapping[str, RecordType], adts: Mapping[str, AdtType]) -> None:
        rows = dict(self._rows)
        for space, record in records.items():
            if space not in rows:
                rows[space] = RowTable(space, max(1, len(record.fields)), 1)
        for space, adt in adts.items():
            if space not in rows:
                widest = max(len(branch.fields) for branch in adt.branches)
                rows[space] = RowTable(space, 1 + widest, 0)
        self._rows = rows  # before the types: who knows a type has its table
        self._records, self._adts = records, adts

    # -- values to ids -----------------------------------------------------------------------------

    def encode(self, space: str, values: Any) -> np.ndarray:
        """The ids of `values`, unknown ones interned: uint32[n].

        `values` is a NumPy array of the space's type, or an Arrow array or chunked array; records and ADT
        values are given as text (``[1, [2, nil]]``, ``$B(1, x)``). Raises `DataError` for nulls and for
        values that are not of the space's type.
        """
        pieces = [self._encode_array(space, piece) for piece in columns.pieces(values)]
        return pieces[0] if len(pieces) == 1 else np.concatenate([*pieces, np.zeros(0, np.uint32)])

    def find(self, space: str, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """(ids uint32[n], known bool[n]) of `values`, given as to `encode`; an id counts only where known."""
        pieces = [self._find_array(space, piece) for piece in columns.pieces(values)]
        if len(pieces) == 1:
            return pieces[0]
        ids = np.concatenate([*(ids for ids, _ in pieces), np.zeros(0, np.uint32)])
        return ids, np.concatenate([*(known for _, known in pieces), np.zeros(0, np.bool_)])

    def bad_values(self, space: str, values: Any, *, first_only: bool = False) -> dict[int, str]:
        """Which of the texts of records or ADT values `encode` would refuse: rows in order, each with what is
        to be said of its text (``is not a value of type ...``). Interns nothing.

        `values` is an Arrow array or chunked array of text without nulls, or a sequence of str. The first
        bad row alone, if so asked, costs no more than finding that all are good.
        """
        from gpuengine.terms.record_reader import broken_rows

        self._check_nested(space)
        bad: dict[int, str] = {}
        start = 0
        for piece in columns.pieces(values):
            broken = broken_rows(self, space, columns.strings(piece, space), first_only=first_only)
            bad.update({start + row: reason for row, reason in broken.items()})
            if bad and first_only:
                break
            start += len(piece)
        return bad

    def encode_text(self, strings: Text) -> np.ndarray:
        """The ids of symbols given as `Text`, unknown ones interned."""
        return self._symbols.intern(strings)

    def find_text(self, strings: Text) -> tuple[np.ndarray, np.ndarray]:
        """(ids, known) of symbols given as `Text`."""
        return self._symbols.find(strings)

    def encode_words(self, space: str, values: np.ndarray) -> np.ndarray:
        """The ids of an int64, uint64 or float64 array of exactly the space's type."""
        table = self._words[space]
        words = np.ascontiguousarray(values).view(np.uint64)
        # Negative numbers are the largest words, so one maximum decides whether all are their own ids.
        if table.identity and (len(words) == 0 or words.max() < table.identity):
            return words.astype(np.uint32)
        return table.intern(words)

    def intern_constant(self, constant: Constant) -> int:
        """The id of a constant, interned if it is unknown."""
        known = self.find_constant(constant)
        if known is not None:
            return known
        space, value = constant.type.space, constant.value
        if space == "symbol":
            return int(self._symbols.intern(single(str(value)))[0])
        return int(self.encode_words(space, _word(space, value))[0])

    def find_constant(self, constant: Constant) -> int | None:
        """The id of a constant, or None if no term has its value."""
        space, value = constant.type.space, constant.value
        if value is None:
            return 0
        if isinstance(value, int) and 0 <= value < IDENTITY and space != "float":
            return value
        # Python takes 0.0 and -0.0 for one key.
        key = (space, value) if space != "float" else (space, float(value).hex())
        cached = self._constants.get(key)
        if cached is not None:
            return cached
        if space == "symbol":
            ids, known = self._symbols.find(single(str(value)))
        else:
            ids, known = self._words[space].find(_word(space, value).view(np.uint64))
        if not known[0]:
            return None
        return self._constants.setdefault(key, int(ids[0]))

    # -- ids to values -----------------------------------------------------------------------------

    def values(self, space: str, ids: np.ndarray) -> np.ndarray:
        """The values of ids of number (int64), unsigned (uint64) or float (float64)."""
        table, dtype = self._words[space], _WORD_DTYPES[space]
        if table.identity == 0:
            return table.words.view(dtype)[ids]
        if len(table) == 0 or len(ids) == 0:
            return ids.astype(dtype)
        values = ids.astype(dtype)
        large = ids >= table.identity
        if large.any():
            values[large] = table.words.view(dtype)[ids[large] - np.uint32(table.identity)]
        return values

    def text(self, ids: np.ndarray) -> Text:
        """The symbols of ids; moves no bytes."""
        return self._symbols.text(ids)

    def strings(self, ids: np.ndarray) -> Any:
        """The symbols of ids as a `pa.LargeStringArray`."""
        return self.text(ids).to_arrow()

    def to_arrow(self, type: Type, ids: np.ndarray) -> Any:
        """Ids of a type as an Arrow array: int64, uint64, float64, or string (large_string past 2 GiB).

        Records and ADT values are formatted as Soufflé prints them.
        """
        if type.space in self._words:
            import pyarrow as pa

            values = self.values(type.space, ids)
            arrow_type = {"number": pa.int64(), "unsigned": pa.uint64(), "float": pa.float64()}[type.space]
            return pa.Array.from_buffers(arrow_type, len(ids), [None, pa.py_buffer(values)])
        return self.format(type, ids).to_arrow(large=False)

    def format(self, type: Type, ids: np.ndarray) -> Text:
        """Symbols as they are, records and ADT values as Soufflé prints them."""
        if type.space == "symbol":
            return self.text(ids)
        from gpuengine.terms.record_printer import format_rows

        return format_rows(self, type, ids)

    # -- records and ADT values --------------------------------------------------------------------

    def branches(self, space: str) -> tuple[Branch, ...]:
        """The branches of an ADT space; a record space has one, without a name."""
        adt = self._adts.get(space)
        return (Branch("", self._records[space].fields),) if adt is None else adt.branches

    def pack(
        self, space: str, branch: str | None, fields: Sequence[np.ndarray], rows: int | None = None
    ) -> np.ndarray:
        """The ids of records (`branch` None) or ADT values built from columns of field ids.

        `rows` tells how many where there are no columns.
        """
        return self._rows[space].intern(self._matrix(space, branch, fields, rows))

    def find_pack(
        self, space: str, branch: str | None, fields: Sequence[np.ndarray], rows: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(ids, known) of what `pack` would build, without interning."""
        return self._rows[space].find(self._matrix(space, branch, fields, rows))

    def unpack(self, space: str, ids: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """(tags uint32[n], columns of field ids) of records or ADT values, all contiguous.

        The tag of an ADT value is its branch's position, and there are as many columns as the widest
        branch has fields (the rest are 0). The tag of a record is 1, and 0 for nil, whose columns are 0.
        """
        table = self._rows[space]
        if space in self._adts:
            tags, *fields = (table.rows[:, j][ids] for j in range(table.width))
            return tags, fields
        present = ids != 0
        at = ids[present] - np.uint32(1)
        fields = [np.zeros(len(ids), np.uint32) for _ in self._records[space].fields]
        for position, field in enumerate(fields):
            field[present] = table.rows[:, position][at]
        return present.astype(np.uint32), fields

    # -- sizes -------------------------------------------------------------------------------------

    def bound(self, space: str) -> int:
        """Every id of the space is below this."""
        if space == "symbol":
            return self._symbols.bound
        return self._words[space].bound if space in self._words else self._rows[space].bound

    def value_table(self, space: str) -> np.ndarray:
        """The values of the ids from `IDENTITY` on (number, unsigned) or from 0 on (float); a view."""
        return self._words[space].words.view(_WORD_DTYPES[space])

    @property
    def word_tables(self) -> Mapping[str, WordTable]:
        """What holds the words of number, unsigned and float, by space."""
        return self._words

    def tables(self) -> dict[str, WordTable | StringTable | RowTable]:
        """What holds the terms of each space, by space."""
        return {**self._words, "symbol": self._symbols, **self._rows}

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        words = sum(table.nbytes for table in self._words.values())
        return words + self._symbols.nbytes + sum(table.nbytes for table in self._rows.values())

    def _encode_array(self, space: str, values: Any) -> np.ndarray:
        if columns.is_dictionary(values):
            codes, entries = columns.dictionary_parts(values, space)
            return self._encode_array(space, entries)[codes]
        if space in self._words:
            return self.encode_words(space, columns.words(values, space, _WORD_DTYPES[space]))
        if space == "symbol":
            return self._symbols.intern(columns.strings(values, space))
        return self._parse(space, values, intern=True)[0]

    def _find_array(self, space: str, values: Any) -> tuple[np.ndarray, np.ndarray]:
        if columns.is_dictionary(values):
            codes, entries = columns.dictionary_parts(values, space)
            ids, known = self._find_array(space, entries)
            return ids[codes], known[codes]
        if space in self._words:
            array = columns.words(values, space, _WORD_DTYPES[space])
            return self._words[space].find(np.ascontiguousarray(array).view(np.uint64))
        if space == "symbol":
            return self._symbols.find(columns.strings(values, space))
        return self._parse(space, values, intern=False)

    def _parse(self, space: str, values: Any, *, intern: bool) -> tuple[np.ndarray, np.ndarray]:
        from gpuengine.terms.record_reader import parse_rows

        self._check_nested(space)
        return parse_rows(self, space, columns.strings(values, space), intern=intern)

    def _check_nested(self, space: str) -> None:
        if space not in self._rows:
            raise EvaluationError(f"there is no type {space!r} in this program")

    def _matrix(
        self, space: str, branch: str | None, fields: Sequence[np.ndarray], rows: int | None
    ) -> np.ndarray:
        """Columns of field ids as the rows that the table of a space keeps."""
        count = len(fields[0]) if rows is None else rows
        matrix = np.zeros((count, self._rows[space].width), np.uint32)
        first = 0
        if branch is not None:
            names = [known.name for known in self._adts[space].branches]
            matrix[:, 0] = names.index(branch)
            first = 1
        for position, field in enumerate(fields, first):
            matrix[:, position] = field
        return matrix


def _word(space: str, value: int | float | str | None) -> np.ndarray:
    """A numeric constant as an array of its space's type."""
    return np.array([value], _WORD_DTYPES[space])
