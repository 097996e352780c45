"""`RelationView`: the facts of a relation, or the answers of a query, in whatever form the caller wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.language.program import Attribute
from gpuengine.schemes.table import Table
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

BATCH_ROWS = 1 << 20


class RelationView:
    """A read-only view of facts. It stays valid, and unchanged, when the engine materialises again.

    Rows are distinct and in no promised order. Numbers come out as int64, unsigned as uint64, floats as
    float64, symbols as strings, records and ADT values as their text. Implements the Arrow PyCapsule
    protocol, so that Arrow, Polars, DuckDB and pandas read it directly.
    """

    def __init__(
        self, name: str, attributes: Sequence[Attribute], table: Table, dictionary: Dictionary
    ) -> None:
        self.name = name
        self.attributes = tuple(attributes)
        self._table = table
        self._dictionary = dictionary
        self._count = len(table)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [attribute.name for attribute in self.attributes]

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        shown = ", ".join(f"{a.name}: {a.type.name}" for a in self.attributes)
        return f"<{self.name}({shown}): {self._count:,} facts>"

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Each fact as a tuple of Python values."""
        for batch in self.batches():
            if not self.attributes:
                yield from [()] * batch.num_rows
            else:
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def __contains__(self, fact: Sequence[Any]) -> bool:
        if len(fact) != len(self.attributes) or not self._count:
            return False
        columns = []
        for attribute, value in zip(self.attributes, fact, strict=True):
            ids, found = self._dictionary.find(attribute.type.space, _array(value, attribute))
            if not found[0]:
                return False
            columns.append(ids)
        return bool(self._table.contains(columns, 1)[0])

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The facts as Arrow record batches of at most `rows` rows, decoded one at a time."""
        import pyarrow as pa

        from gpuengine.io import arrow_schema

        if not self.attributes:
            if self._count:
                empty = pa.StructArray.from_arrays([], fields=[], mask=pa.array([False]))
                yield pa.RecordBatch.from_struct_array(empty)
            return
        schema = arrow_schema(self.attributes)
        for start in range(0, self._count, rows):
            end = min(start + rows, self._count)
            arrays = [
                self._dictionary.to_arrow(attribute.type, self._table.rows.column(j)[start:end])
                for j, attribute in enumerate(self.attributes)
            ]
            # A cast imports pyarrow.compute, which takes longer than many programs.
            arrays = [
                array if array.type == field.type else array.cast(field.type)
                for array, field in zip(arrays, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def to_arrow(self) -> pa.Table:
        """All facts as an Arrow table."""
        import pyarrow as pa

        from gpuengine.io import arrow_schema

        batches = list(self.batches())
        if not self.attributes:
            return pa.Table.from_batches(batches) if batches else pa.table({})
        return pa.Table.from_batches(batches, schema=arrow_schema(self.attributes))

    def to_pandas(self) -> pandas.DataFrame:
        """All facts as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """All facts as a Polars DataFrame."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_numpy(self) -> np.ndarray:
        """All facts as one array of shape (facts, columns).

        Of the columns' type if they share one (int64, uint64, float64), else of objects.
        """
        arrays = [
            np.asarray(column.to_numpy(zero_copy_only=False)) for column in self.to_arrow().itercolumns()
        ]
        if not arrays:
            return np.empty((self._count, 0), np.int64)
        kinds = {array.dtype for array in arrays}
        return np.stack([a if len(kinds) == 1 else a.astype(object) for a in arrays], axis=1)

    def to_pylist(self) -> list[tuple[Any, ...]]:
        """All facts as a list of tuples."""
        return list(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _array(value: Any, attribute: Attribute) -> Any:
    """One value as an Arrow array of the attribute's type; a value that can't be one is nobody's member."""
    import pyarrow as pa

    from gpuengine.io import arrow_type

    return pa.array([value], arrow_type(attribute.type))
