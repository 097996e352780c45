"""What is let in besides plain values: nulls, and dates and times where numbers or texts are declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from gpuengine.errors import DataError
from gpuengine.io.logical import is_temporal, value_of_object, value_of_text
from gpuengine.language.parameters import DATES
from gpuengine.language.program import Attribute, Kind

NULLS_HINT = 'nulls="drop" leaves such rows out, nulls=VALUE puts a value in their place'


@dataclass(frozen=True, slots=True)
class Admission:
    """`nulls` are refused ("fail"), left out with their rows ("drop"), or replaced by a value, or by one for
    each column that a mapping names; `dates` says whether columns of dates and times may become numbers
    ("days") or texts ("text") where those are declared."""

    nulls: Any = "fail"
    dates: str | None = None

    def __post_init__(self) -> None:
        if self.dates not in (None, *DATES):
            raise DataError(f"dates={self.dates!r} is not known\n  hint: dates='days' or dates='text'")
        if self.nulls is None:
            raise DataError(f"nulls=None is not known\n  hint: {NULLS_HINT}")

    def said(self, params: Mapping[str, str]) -> Admission:
        """This, but for what the parameters of an ``.input`` say."""
        given = {key: params[key] for key in ("nulls", "dates") if key in params}
        return replace(self, **given) if given else self

    def admits(self, attribute: Attribute) -> bool:
        """May there be nulls in a column, to be left out or replaced when all is read?"""
        if isinstance(self.nulls, Mapping):
            return attribute.name in self.nulls
        return not _is(self.nulls, "fail")

    def settle(self, table: pa.Table, attributes: Sequence[Attribute], where: str) -> pa.Table:
        """The table of a relation, whose columns are of its types, without the nulls that were admitted."""
        drop = isinstance(self.nulls, str) and self.nulls == "drop"
        keep = None
        for i, attribute in enumerate(attributes):
            column = table.column(i)
            if not column.null_count or not self.admits(attribute):
                continue
            if drop:
                valid = np.asarray(column.is_valid().to_numpy(), np.bool_)
                keep = valid if keep is None else keep & valid
            else:
                filled = column.fill_null(pa.scalar(self._replacement(attribute, where), column.type))
                table = table.set_column(i, table.field(i), filled)
        return table if keep is None else table.filter(pa.array(keep))

    def _replacement(self, attribute: Attribute, where: str) -> int | float | str:
        value = self.nulls[attribute.name] if isinstance(self.nulls, Mapping) else self.nulls
        try:
            if isinstance(value, str) and attribute.type.kind is not Kind.SYMBOL:
                return value_of_text(value.encode(), attribute.type)
            return value_of_object(value, attribute.type)
        except ValueError as error:
            misfit = f"nulls={value!r} does not fit column {attribute.name}: {error}"
            hint = 'nulls={"column": VALUE} has one for each'
            raise DataError(f"{where}: {misfit}\n  hint: {hint}") from error

    def without_dates(self, column: pa.ChunkedArray, attribute: Attribute) -> pa.ChunkedArray:
        """A column of dates or times as the numbers or texts that `dates` lets them be, if it does."""
        if self.dates is None or attribute.type.logical or not is_temporal(column.type):
            return column
        kind = attribute.type.kind
        if self.dates == "text" and kind is Kind.SYMBOL:
            return column.cast(pa.string())
        if self.dates == "days" and kind is Kind.NUMBER:
            source = column.type
            if pt.is_date(source):
                return column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
            unit = pa.time64("us") if pt.is_time(source) else pa.timestamp("us", source.tz)
            return column.cast(unit).cast(pa.int64())
        return column


PLAIN = Admission()


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word
