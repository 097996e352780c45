"""`RelationView`: the facts of a relation, or the answers of a query, in whatever form the caller wants."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.errors import DataError, GpuEngineError
from gpuengine.evaluation.materialisation import Materialisation
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.evaluation.placement.failures import device_failures
from gpuengine.language.program import Attribute, Kind
from gpuengine.limits import Limits
from gpuengine.limits import check as check_memory
from gpuengine.membership import find_fact
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table, as_table
from gpuengine.schemes.union import tables_in
from gpuengine.states import States
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from gpuengine.exchange.outgoing import OutgoingFacts

BATCH_ROWS = 1 << 20
_SORTED_IN_PYTHON = 1000
"""Up to so many rows sorting takes less time than importing what sorts more."""
_LISTED_BYTES = 8
"""What a value takes in an Arrow column, about."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Of which state of an engine a view shows a relation: as long as it stands, its indexes can be used.

    A view of one relation does not keep the others of a state that is gone. Answers to a query are no
    `relation`.
    """

    states: States
    state: weakref.ref[Materialisation]
    relation: str | None

    @contextmanager
    def standing(self) -> Iterator[Scheme | None]:
        with self.states.standing(self.state() if self.relation is not None else None) as schemes:
            yield schemes[self.relation] if schemes is not None and self.relation is not None else None


class RelationView:
    """A read-only view of facts. It goes on showing what it showed, whatever becomes of the engine.

    Any number of threads may read it. `scheme` is what nobody changes; `origin` says where the same facts
    stand.

    Rows are distinct and in no promised order. Numbers come out as int64, unsigned as uint64, floats as
    float64, symbols as strings, records and ADT values as their text; what is declared as a date, time,
    timestamp, instant, boolean or decimal as that. Implements the Arrow PyCapsule
    protocol, so that Arrow, Polars, DuckDB and pandas read it directly, and, for facts that are on a
    device, DLPack and the Arrow C device interface. Copied and pickled by value, as the Arrow table.
    """

    def __init__(
        self,
        name: str,
        attributes: Sequence[Attribute],
        scheme: Scheme,
        dictionary: Dictionary,
        budget: Budget | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.name = name
        self.attributes = tuple(attributes)
        self._scheme = scheme
        self._dictionary = dictionary
        self._budget = budget
        self._origin = origin
        self._count = len(scheme)

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

    def __contains__(self, fact: object) -> bool:
        """Is this row, a sequence of values, among the facts? By value: what can't be a fact is none."""
        columns = find_fact(fact, self.attributes, self._dictionary) if self._count else None
        if columns is None:
            return False
        with self._standing() as scheme, self._reading(scheme):
            return bool(scheme.contains(columns, 1)[0])

    @contextmanager
    def _standing(self) -> Iterator[Scheme]:
        """What has the facts and, as long as it can be had, indexes."""
        if self._origin is None:
            yield self._scheme
            return
        with self._origin.standing() as scheme:
            yield scheme if scheme is not None else self._scheme

    @contextmanager
    def _reading(self, scheme: Scheme) -> Iterator[None]:
        """For whatever reads facts that may be on a device."""
        tables = tables_in(scheme)
        with self._on_device(scheme), device_failures(lambda: f"reading {self.name}", lambda: tables):
            for table in tables:
                table.backend.bind_thread()
            yield

    def __reduce__(self) -> tuple[Any, ...]:
        """By value, as its Arrow table: a copy is a view of facts of its own, in whatever process it is."""
        types = self._dictionary.compound_types
        return _restored, (self.name, self.attributes, self._count, self.to_arrow(), types)

    def _on_device(self, scheme: Scheme | None = None) -> AbstractContextManager[None]:
        """For whatever uses the device, if the facts are there."""
        if self._origin is None:
            return nullcontext()
        return self._origin.states.on_device([scheme if scheme is not None else self._scheme])

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The facts as Arrow record batches of at most `rows` rows, decoded one at a time."""
        if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
            raise GpuEngineError(f"rows must be a whole number above 0, not {rows!r}")
        return self._batches(int(rows))

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from gpuengine.io import arrow_schema, outer_schema
        from gpuengine.io.logical import from_numbers

        if not self.attributes:
            if self._count:
                empty = pa.StructArray.from_arrays([], fields=[], mask=pa.array([False]))
                yield pa.RecordBatch.from_struct_array(empty)
            return
        schema, outer = arrow_schema(self.attributes), outer_schema(self.attributes)
        for columns in self._columns(rows):
            with self._limits().applied():
                arrays = [
                    self._dictionary.to_arrow(attribute.type, column)
                    for attribute, column in zip(self.attributes, columns, strict=True)
                ]
                # A cast imports pyarrow.compute, which takes longer than many programs.
                arrays = [
                    array if array.type == field.type else array.cast(field.type)
                    for array, field in zip(arrays, schema, strict=True)
                ]
                arrays = [
                    from_numbers(array, attribute, self.name)
                    for array, attribute in zip(arrays, self.attributes, strict=True)
                ]
            yield pa.RecordBatch.from_arrays(arrays, schema=outer)

    def _limits(self) -> Limits:
        """What making values of the facts may take; what the caller has made of others does not count."""
        memory = None if self._budget is None else self._budget.limit
        return Limits(memory, lambda: self._dictionary.nbytes, lambda: f"reading {self.name}")

    def _columns(self, rows: int) -> Iterator[list[np.ndarray]]:
        """The facts as columns of ids, at most `rows` at a time."""
        if not self._scheme.is_listed:
            pieces = _put_together(self._scheme.scan(room=rows), rows)
            while True:
                with self._reading(self._scheme):
                    piece = next(pieces, None)
                if piece is None:
                    return
                yield piece
        with self._reading(self._scheme):
            columns = as_table(self._scheme).columns()
        for start in range(0, self._count, rows):
            yield [column[start : min(start + rows, self._count)] for column in columns]

    def id_columns(self) -> list[np.ndarray]:
        """All facts as columns of ids of the engine's dictionary."""
        self._check_listing()
        if not self._count:
            return [np.zeros(0, np.uint32) for _ in self.attributes]
        return _joined(list(self._columns(max(self._count, 1))))

    def to_arrow(self) -> pa.Table:
        """All facts as an Arrow table.

        Raises `MemoryBudgetError` if the relation is kept compactly and its facts, listed, exceed the budget.
        """
        import pyarrow as pa

        from gpuengine.io import outer_schema

        self._check_listing()
        with self._limits().applied():
            batches = []
            for batch in self.batches():
                check_memory(f"{self.name} as Arrow columns")
                batches.append(batch)
        if not self.attributes:
            return pa.Table.from_batches(batches) if batches else pa.table({})
        return pa.Table.from_batches(batches, schema=outer_schema(self.attributes))

    def _check_listing(self) -> None:
        """Foresee that facts which are not stored one by one do not fit when they are."""
        if self._budget is not None and not self._scheme.is_listed:
            self._budget.check_listing(self.name, self._count, _LISTED_BYTES * len(self.attributes))

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

    def to_cupy(self) -> dict[str, Any]:
        """Each column by name as a CuPy array: int64, uint64 or float64, decoded on the device.

        The arrays are the caller's own. Facts that are on the host are copied to CuPy's current device.
        Raises `DataError` if a column is not of numbers: `to_cudf` has text as well.
        """
        from gpuengine.exchange.outgoing import to_cupy

        with self._on_device():
            return to_cupy(self._outgoing())

    def to_cudf(self) -> Any:
        """All facts as a cuDF DataFrame; numbers on the device get there without passing the host."""
        from gpuengine.exchange.outgoing import to_cudf

        with self._on_device():
            return to_cudf(self._outgoing())

    def to_spark(self, spark: Any) -> Any:
        """All facts as a DataFrame of a Spark session, in few partitions.

        Numbers are bigint, unsigned decimal(20,0), floats double, all else string; a relation without columns
        has the one column ``holds``. The facts are copied to Spark's driver when this is called.
        """
        from gpuengine.exchange.spark_frames import to_spark

        self._check_listing()
        return to_spark(self.batches(), self.attributes, spark)

    def to_pylist(self) -> list[tuple[Any, ...]]:
        """All facts as a list of tuples."""
        return list(self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """All facts as a list of dicts by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self]

    def head(self, rows: int = 10) -> RelationView:
        """At most the first `rows` facts, as a view of its own."""
        if rows < 0:
            raise DataError(f"a view can't have {rows} rows")
        if not self.attributes or rows >= self._count:
            return self if rows else self._of([], 0)
        columns = next(self._columns(rows), []) if rows else []
        return self._of([np.array(column) for column in columns], rows)

    limit = head

    def sort(self, *columns: str) -> RelationView:
        """The facts in the order of some columns, ``-name`` for descending, then of the others; ascending.

        Text comes in the order of its code points, records and ADT values by their text.
        """
        names = [name.removeprefix("-") for name in columns]
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            raise DataError(
                f"{self.name} has no column {unknown[0]}\n  hint: it has {', '.join(self.columns)}"
            )
        if not self.attributes:
            return self
        if not columns and self._count <= _SORTED_IN_PYTHON and not self._has_floats():
            rows = self.to_pylist()
            few = np.array(sorted(range(len(rows)), key=rows.__getitem__), np.int64)
            return self._of([column[few] for column in self.id_columns()], self._count)
        import pyarrow.compute as pc

        keys = [
            (name.removeprefix("-"), "descending" if name.startswith("-") else "ascending")
            for name in columns
        ]
        keys += [(name, "ascending") for name in self.columns if name not in names]
        order = pc.sort_indices(self.to_arrow(), keys).to_numpy()
        return self._of([column[order] for column in self.id_columns()], self._count)

    def _has_floats(self) -> bool:
        """Are there floats, which Python has no order of if some are NaN?"""
        return any(attribute.type.kind is Kind.FLOAT for attribute in self.attributes)

    def _of(self, columns: list[np.ndarray], count: int) -> RelationView:
        """A view of some of the facts."""
        table = Table(self.name, len(self.attributes))
        table.restore(columns, count)
        return RelationView(self.name, self.attributes, table, self._dictionary, self._budget)

    def write(self, path: str | os.PathLike[str], **params: str) -> int:
        """Write all facts to a file: text, Parquet or Arrow by its ending; how many there are.

        `params` are those of ``.output``. Unless they say otherwise text has a header, and what is called
        ``.csv`` has commas.
        """
        from gpuengine.io import write_facts

        written = {"headers": "true"}
        if ".csv" in Path(path).suffixes:
            written |= {"delimiter": ",", "rfc4180": "true"}
        return write_facts(Path(path), self.batches(), self.attributes, written | params)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """What `to_numpy` gives."""
        if copy is False:
            raise ValueError("a view has no array of its own: np.asarray makes one")
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype)

    def _repr_html_(self) -> str:
        from gpuengine.showing import MOST_ROWS, html_table

        return html_table(self.columns, self.head(MOST_ROWS).to_pylist(), self._count, repr(self)[1:-1])

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_device_array__(self, requested_schema: Any = None, **options: Any) -> tuple[Any, Any]:
        """All facts as one batch: on the device if they are there and all columns are numbers."""
        from gpuengine.io import arrow_schema
        from gpuengine.io.arrow_device import export_columns

        unknown = [name for name, value in options.items() if value is not None]
        if unknown:
            raise NotImplementedError(f"option {unknown[0]} of __arrow_c_device_array__")
        with self._on_device():
            facts = self._outgoing()
            is_logical = any(attribute.type.logical for attribute in self.attributes)
            if facts.device is None or not self.attributes or is_logical or not facts.is_numeric:
                return self._batch().__arrow_c_device_array__(requested_schema)
            arrays = list(facts.numbers().values())
            addresses = [facts.device.address(array) for array in arrays]
            return export_columns(arrow_schema(self.attributes), arrays, addresses, facts.location())

    def __dlpack__(self, **options: Any) -> Any:
        """The facts as an array (facts, columns), or a vector of the only column; of one type of number."""
        from gpuengine.exchange.outgoing import require_one_type

        with self._on_device():
            facts = self._outgoing()
            require_one_type(facts)
            return facts.matrix().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        from gpuengine.exchange.outgoing import require_one_type

        with self._on_device():
            facts = self._outgoing()
            require_one_type(facts)
            return facts.location()

    def _outgoing(self) -> OutgoingFacts:
        from gpuengine.exchange.outgoing import OutgoingFacts

        table = as_table(self._scheme) if self._scheme.is_listed else self._listed_table()
        return OutgoingFacts(self.name, self.attributes, table, self._count, self._dictionary)

    def _listed_table(self) -> Table:
        """The facts of another scheme, enumerated."""
        self._check_listing()
        table = Table(self.name, len(self.attributes))
        batches = list(self._columns(BATCH_ROWS))
        if batches:
            table.rows.append(_joined(batches), self._count)
        return table

    def _batch(self) -> pa.RecordBatch:
        """All facts as one record batch on the host."""
        import pyarrow as pa

        table = self.to_arrow()
        if not self.attributes:
            return next(iter(table.to_batches()), pa.RecordBatch.from_arrays([], names=[]))
        return pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in table.columns], schema=table.schema
        )


def _restored(
    name: str, attributes: Sequence[Attribute], count: int, facts: pa.Table, types: tuple[Any, Any]
) -> RelationView:
    """A view of facts that came as an Arrow table."""
    from gpuengine.io.conform import Place, conform_column

    dictionary = Dictionary.of_types(*types)
    place = Place(name, name, terms=dictionary)
    table = Table(name, len(attributes))
    columns = [conform_column(facts.column(j), j, one, place) for j, one in enumerate(attributes)]
    ids = [dictionary.encode(a.type.space, c) for a, c in zip(attributes, columns, strict=True)]
    table.restore(ids, count)
    return RelationView(name, attributes, table, dictionary)


def _put_together(pieces: Iterator[list[np.ndarray]], rows: int) -> Iterator[list[np.ndarray]]:
    """Columns in pieces of `rows` rows, the last of fewer, from smaller ones: large arrays decode faster."""
    waiting: list[list[np.ndarray]] = []
    count = 0
    for piece in pieces:
        while count + len(piece[0]) >= rows:
            taken = rows - count
            waiting.append([column[:taken] for column in piece])
            yield _joined(waiting)
            piece = [column[taken:] for column in piece]
            waiting, count = [], 0
        if len(piece[0]):
            waiting.append(piece)
            count += len(piece[0])
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[list[np.ndarray]]) -> list[np.ndarray]:
    if len(pieces) == 1:
        return pieces[0]
    return [np.concatenate(columns) for columns in zip(*pieces, strict=True)]
