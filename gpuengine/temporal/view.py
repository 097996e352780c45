"""`TemporalView`: facts or answers with their times, in whatever form is wanted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.kernels.timeline import INFINITY, MINUS_INFINITY
from gpuengine.limits import charge
from gpuengine.temporal.encoding import Encoding
from gpuengine.temporal.relations import TemporalRelation
from gpuengine.temporal.spelling import constant_text, decimal_digits, time_text
from gpuengine.temporal.syntax import Interval
from gpuengine.temporal.tables import TIME_COLUMNS
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.text import from_arrow

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

_FACT_BYTES = 2 * 8 + 4
"""What a fact takes in a view besides its arguments: both ends, and the number of its atom on the way."""
_LINE_BYTES = 400
"""About what a fact takes as a line, with the parts that it is put together from."""


@dataclass(frozen=True)
class Calendar:
    """How encoded times are shown: in which unit, and as timestamps of which Arrow type, if they are."""

    encoding: Encoding
    stamp: Any = None


class TemporalView:
    """Facts with the intervals in which they hold. It keeps what was there when it was taken.

    Columns are the arguments, then ``start``, ``end``, ``start_closed``, ``end_closed``. Times are int64 if
    all are whole, decimals if these are exact, else text such as ``1/3``, or timestamps if those were
    loaded; null is
    infinity. Rows are coalesced: the intervals of one atom neither overlap nor touch. Copied and pickled by
    value.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        relation: TemporalRelation,
        dictionary: Dictionary,
        calendar: Calendar,
    ) -> None:
        self.name = name
        self.arguments = list(columns)
        charge(len(relation) * (_FACT_BYTES + 4 * relation.arity), f"a view of {name}")
        atoms, lower, upper = relation.entries()
        self._ids = [relation.column(j, atoms) for j in range(relation.arity)]
        self._lower, self._upper = lower.copy(), upper.copy()
        self._dictionary = dictionary
        self._calendar = calendar

    def __getstate__(self) -> dict[str, Any]:
        """What it shows, with texts in the place of the engine's ids."""
        state = self.__dict__.copy()
        dictionary = state.pop("_dictionary")
        return state | {"_ids": [dictionary.text(ids).to_arrow() for ids in self._ids]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._dictionary = Dictionary()
        self._ids = [self._dictionary.encode_text(from_arrow(texts)) for texts in state["_ids"]]

    @property
    def is_stamped(self) -> bool:
        """Are the times timestamps?"""
        return self._calendar.stamp is not None

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [*self.arguments, *TIME_COLUMNS]

    def __len__(self) -> int:
        return len(self._lower)

    def __repr__(self) -> str:
        return f"<{self.name}({', '.join(self.arguments)}) with times: {len(self):,} facts>"

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Each fact as its constants and an `Interval`."""
        decode = self._calendar.encoding.decode
        texts = [self._dictionary.strings(ids).to_pylist() for ids in self._ids]
        for k, (low, up) in enumerate(zip(self._lower.tolist(), self._upper.tolist(), strict=True)):
            yield (*(column[k] for column in texts), decode(low, up))

    def to_arrow(self) -> pa.Table:
        """All facts as an Arrow table."""
        import pyarrow as pa

        charge(len(self) * _FACT_BYTES, f"a table of {self.name}")
        arrays = [self._dictionary.text(ids).to_arrow(large=False) for ids in self._ids]
        return pa.table([*arrays, *self._times()], names=self.columns)

    def to_pandas(self) -> pandas.DataFrame:
        """All facts as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """All facts as a Polars DataFrame."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_pylist(self) -> list[tuple[Any, ...]]:
        """All facts as tuples of constants and an `Interval`."""
        return list(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def lines(self) -> list[str]:
        """Each fact as ``P(a,b)@[0,2.5)``, sorted."""
        charge(len(self) * _LINE_BYTES, f"the text of {self.name}")
        texts = []
        for ids in self._ids:
            codes, places = np.unique(ids, return_inverse=True)
            spelled = [constant_text(text) for text in self._dictionary.strings(codes).to_pylist()]
            texts.append(np.array(spelled, object)[places])
        low, up = self._end_texts(self._lower, MINUS_INFINITY), self._end_texts(self._upper, INFINITY)
        arguments = [",".join(row) for row in zip(*texts, strict=True)] if texts else [""] * len(self)
        sortable = []
        for k in range(len(self)):
            atom = f"{self.name}({arguments[k]})" if texts else self.name
            sortable.append((atom, int(self._lower[k]), f"{atom}@{low[k]},{up[k]}"))
        return [text for _, _, text in sorted(sortable)]

    def _end_texts(self, ends: np.ndarray, infinity: int) -> np.ndarray:
        """``[1`` and ``(1`` of lower ends, ``2]`` and ``2)`` of upper ones."""
        distinct, places = np.unique(ends, return_inverse=True)
        texts = []
        is_lower = infinity == MINUS_INFINITY
        for end in distinct.tolist():
            if end == infinity:
                texts.append("(-inf" if is_lower else "inf)")
                continue
            interval = self._calendar.encoding.decode(end, end)
            value = interval.lower if is_lower else interval.upper
            assert value is not None
            text = time_text(value, as_timestamp=self._calendar.stamp is not None)
            mark = ("(" if end & 1 else "[") if is_lower else (")" if end & 1 else "]")
            texts.append(mark + text if is_lower else text + mark)
        return np.array(texts, object)[places] if texts else np.zeros(0, object)

    def _times(self) -> list[Any]:
        """The four columns of times."""
        import pyarrow as pa

        lower, upper = self._lower, self._upper
        low_missing, up_missing = lower == MINUS_INFINITY, upper == INFINITY
        start = np.where(low_missing, 0, (lower - (lower & 1)) >> 1)
        end = np.where(up_missing, 0, (upper + (upper & 1)) >> 1)
        scale = self._calendar.encoding.scale
        common = math.gcd(scale, int(np.gcd.reduce(start, initial=0)), int(np.gcd.reduce(end, initial=0)))
        unit = scale // common
        columns = [
            self._time_column(start // common, low_missing, unit),
            self._time_column(end // common, up_missing, unit),
        ]
        closed = [~low_missing & (lower & 1 == 0), ~up_missing & (upper & 1 == 0)]
        return [*columns, *(_array(pa.bool_(), _bits(flags), len(flags)) for flags in closed)]

    def _time_column(self, values: np.ndarray, missing: np.ndarray, unit: int) -> Any:
        """Times in units of 1 / `unit`."""
        import pyarrow as pa

        stamp = self._calendar.stamp
        if stamp is not None:
            return _timestamps(values, missing, unit, stamp)
        if unit == 1:
            return _array(pa.int64(), values, len(values), missing)
        digits = decimal_digits(unit)
        if digits is None or digits > 18:
            return _as_text(values, missing, unit)
        factor = 10**digits // unit
        if int(np.abs(values).max(initial=0)) * factor >= 2**63:
            return _as_text(values, missing, unit)
        unscaled = np.stack([values * factor, np.where(values < 0, -1, 0)], axis=1)
        return _array(pa.decimal128(38, digits), np.ascontiguousarray(unscaled), len(values), missing)


def _array(type: Any, data: np.ndarray, count: int, missing: np.ndarray | None = None) -> Any:
    """An Arrow array of these bytes; `pa.array` would import pandas, if that is installed."""
    import pyarrow as pa

    validity = None if missing is None or not missing.any() else pa.py_buffer(_bits(~missing))
    return pa.Array.from_buffers(type, count, [validity, pa.py_buffer(data)])


def _bits(flags: np.ndarray) -> np.ndarray:
    return np.packbits(flags, bitorder="little")


def _timestamps(values: np.ndarray, missing: np.ndarray, unit: int, stamp: Any) -> Any:
    """Of the type that was loaded, or a finer one where that is needed to be exact."""
    import pyarrow as pa

    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    for name, parts in per_second.items():
        if parts >= per_second[stamp.unit] and parts % unit == 0:
            factor = parts // unit
            if int(np.abs(values).max(initial=0)) * factor < 2**63:
                return _array(pa.timestamp(name, stamp.tz), values * factor, len(values), missing)
    return _as_text(values, missing, unit)


def _as_text(values: np.ndarray, missing: np.ndarray, unit: int) -> Any:
    from fractions import Fraction

    import pyarrow as pa

    distinct, places = np.unique(values, return_inverse=True)
    texts = np.array([time_text(Fraction(value, unit)) for value in distinct.tolist()], object)
    return pa.array(texts[places], pa.string(), mask=missing)


def times_of(relation: TemporalRelation, atom: int, encoding: Encoding) -> list[Interval]:
    """When an atom holds."""
    lower, upper = relation.list_of(atom)
    return [encoding.decode(low, up) for low, up in zip(lower.tolist(), upper.tolist(), strict=True)]
