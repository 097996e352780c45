"""Relations as tables of SQLite and DuckDB databases.

A relation is the table, or on reading the view, of its name; its columns are the attributes. A database may
hold relations and tables of others: those stay as they are. One that is read may be anybody's: it is opened
for reading, without extensions, and DuckDB may touch no other file.

| attribute | SQLite | DuckDB |
|---|---|---|
| number | INTEGER | BIGINT |
| unsigned | INTEGER of the same 64 bits, as Soufflé has it | UBIGINT |
| float | of no type: reals, and a NaN, which SQLite lacks, as the text nan | DOUBLE |
| symbol, record, ADT value | TEXT | VARCHAR |
| boolean | INTEGER, 0 or 1 | BOOLEAN |
| date, time, timestamp, instant | TEXT | DATE, TIME, TIMESTAMP, TIMESTAMPTZ |
| decimal_2 | TEXT | DECIMAL(19, 2) |
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.admission import Admission
from gpuengine.io.conform import Place, conform
from gpuengine.io.convert import shown
from gpuengine.io.logical import from_digits, value_of_object
from gpuengine.io.options import Format, pick_columns
from gpuengine.io.schema import TEXTUAL, Facts, NestedTerms, arrow_schema, nullary
from gpuengine.io.tabular import arrow_column
from gpuengine.language.program import Attribute, Kind, Type
from gpuengine.limits import check

if TYPE_CHECKING:
    import duckdb

_ROWS = 1 << 16
# A column of type REAL would take -0.0 for 0.
_SQLITE_TYPES = {Kind.NUMBER: "INTEGER", Kind.UNSIGNED: "INTEGER", Kind.FLOAT: ""}
_DUCKDB_TYPES = {Kind.NUMBER: "BIGINT", Kind.UNSIGNED: "UBIGINT", Kind.FLOAT: "DOUBLE"}
_DUCKDB_LOGICAL = {
    "boolean": "BOOLEAN",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "instant": "TIMESTAMPTZ",
}
_NULLARY = "()"
"""The column of a relation without attributes, which has a row if it holds."""


def quoted(name: str) -> str:
    """A name as an identifier of SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def read_database(
    path: Path,
    format: Format,
    table: str,
    attributes: Sequence[Attribute],
    columns: tuple[int, ...] | None,
    *,
    relation: str,
    skip_bad_rows: bool,
    terms: NestedTerms,
    admission: Admission,
) -> Facts:
    """The facts in a table or view of a database. Raises `DataError`."""
    if "\0" in table:
        raise DataError(f"{path}: {table!r} is no name of a table")
    place = Place(f"{path}: {relation}", relation, skip_bad_rows, terms, admission)
    if format is Format.DUCKDB:
        return _read_duckdb(path, table, attributes, columns, place)
    with _sqlite(path, "ro") as database:
        return _read_sqlite(database, path, table, attributes, columns, place)


@contextmanager
def _sqlite(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    try:
        address = f"{path.resolve().as_uri()}?mode={mode}"
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            yield database
    except sqlite3.Error as error:
        raise DataError(f"{path}: SQLite says: {error}") from error


def _read_sqlite(
    database: sqlite3.Connection,
    path: Path,
    table: str,
    attributes: Sequence[Attribute],
    columns: tuple[int, ...] | None,
    place: Place,
) -> Facts:
    # By the schema: of what is no column SQLite would make a text.
    names = [row[1] for row in database.execute(f"PRAGMA table_info({quoted(table)})")]
    if not names:
        known = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type != 'index'")]
        raise DataError(_no_table(path, table, known))
    if not attributes:
        holds = database.execute(f"SELECT EXISTS (SELECT 1 FROM {quoted(table)})").fetchone()[0]
        return Facts(nullary(bool(holds)))
    wanted = [attribute.name for attribute in attributes]
    picked = pick_columns(names, wanted, columns, place.name, relation=place.relation)
    values = ", ".join(
        f"CAST({quoted(names[i])} AS TEXT)" if attribute.type.kind in TEXTUAL else quoted(names[i])
        for i, attribute in zip(picked, attributes, strict=True)
    )
    cursor = database.execute(f"SELECT {values} FROM {quoted(table)}")
    pieces: list[list[pa.ChunkedArray]] = []
    rows = 0
    while fetched := cursor.fetchmany(_ROWS):
        check(f"reading {path}")
        columns_found = zip(*fetched, strict=True)
        pieces.append(
            [
                _sqlite_column(list(values), rows, i, attribute, place)
                for i, values, attribute in zip(picked, columns_found, attributes, strict=True)
            ]
        )
        rows += len(fetched)
    schema = arrow_schema(attributes)
    tables = [pa.Table.from_arrays(piece, names=wanted) for piece in pieces]
    whole = pa.concat_tables(tables, promote_options="permissive") if tables else schema.empty_table()
    return conform(whole, attributes, place, columns=tuple(range(len(wanted))))


def _sqlite_column(
    values: list[Any], first: int, index: int, attribute: Attribute, place: Place
) -> pa.ChunkedArray:
    """Values as SQLite has them: numbers may be texts, and unsigned ones their 64 bits as a signed number."""
    kind = attribute.type.kind
    if attribute.type.logical:
        for row, value in enumerate(values):
            if value is not None:
                try:
                    values[row] = value_of_object(value, attribute.type)
                except ValueError as error:
                    place.note(first + row, index, attribute, str(error))
                    values[row] = None
    elif kind is Kind.UNSIGNED:
        values = [v + (1 << 64) if isinstance(v, int) and v < 0 else v for v in values]
    if kind not in TEXTUAL and any(isinstance(value, str) for value in values):
        read = float if kind is Kind.FLOAT else int
        for row, value in enumerate(values):
            if isinstance(value, str):
                try:
                    values[row] = read(value)
                except ValueError:
                    place.note(first + row, index, attribute, f"{shown(value)} is no {attribute.type.name}")
                    values[row] = None
    has_null = any(value is None for value in values)
    if has_null and not place.bad_rows and not place.admission.admits(attribute):
        row = next(row for row, value in enumerate(values) if value is None)
        place.note(first + row, index, attribute, "null; facts have no nulls")
    if attribute.type.logical:
        # Of a decimal these are its digits, which a whole number would not be.
        return pa.chunked_array([from_digits(values, attribute.type)])
    if place.bad_rows or has_null:
        return pa.chunked_array([pa.array(values, arrow_schema([attribute]).types[0])])
    return arrow_column(values, attribute, index, place)


def _no_table(path: Path, table: str, known: Iterable[str]) -> str:
    names = sorted(name for name in known if not name.startswith("sqlite_"))
    there = f"there is {', '.join(names[:10])}" if names else "it has no tables"
    return f"{path}: there is no table or view {table}\n  hint: {there}"


def _duckdb(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError:
        raise DataError(
            f"{path}: IO=duckdb needs DuckDB\n  hint: pip install duckdb, or use IO=sqlite"
        ) from None
    safe: dict[str, Any] = {"enable_external_access": "false", "autoinstall_known_extensions": "false"}
    try:
        return duckdb.connect(str(path), read_only=read_only, config=safe)
    except duckdb.Error as error:
        raise DataError(f"{path}: DuckDB says: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _read_duckdb(
    path: Path,
    table: str,
    attributes: Sequence[Attribute],
    columns: tuple[int, ...] | None,
    place: Place,
) -> Facts:
    with closing(_duckdb(path, read_only=True)) as database:
        import duckdb

        try:
            tables = database.execute("SELECT table_name FROM information_schema.tables").fetchall()
            if (table,) not in tables:
                raise DataError(_no_table(path, table, (row[0] for row in tables)))
            answer: Any = database.sql(f"SELECT * FROM {quoted(table)}")
            # DuckDB 2 has another name for it.
            read = getattr(answer, "to_arrow_reader", None) or answer.fetch_record_batch
            reader = read(_ROWS)
            batches = []
            for batch in reader:
                check(f"reading {path}")
                batches.append(batch)
        except duckdb.Error as error:
            raise DataError(f"{path}: DuckDB says: {_first_line(error)}") from error
        whole = pa.Table.from_batches(batches, reader.schema)
    if not attributes:
        return Facts(nullary(whole.num_rows > 0))
    return conform(whole, attributes, place, columns=columns)


def write_database(
    path: Path,
    earlier: Path,
    format: Format,
    table: str,
    batches: Iterable[pa.RecordBatch],
    attributes: Sequence[Attribute],
) -> int:
    """Make a table of a database at `path`, which is new, or begins as a copy of the one at `earlier`.

    What had the table's name before goes. Returns how many rows there are.
    """
    if format is Format.DUCKDB:
        return _write_duckdb(path, earlier, table, batches, attributes)
    is_new = not path.exists() or path.stat().st_size == 0
    with _sqlite(path, "rwc") as database:
        if is_new and earlier.exists():
            with _sqlite(earlier, "ro") as before:
                before.backup(database)
        database.execute("PRAGMA synchronous = OFF")  # what is not complete is never put in its place
        database.execute("BEGIN")
        kind = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        if kind is not None:
            database.execute(f"DROP {'VIEW' if kind[0] == 'view' else 'TABLE'} {quoted(table)}")
        database.execute(f"CREATE TABLE {quoted(table)} ({_columns(attributes, _sqlite_type)})")
        places = ", ".join("?" * max(len(attributes), 1))
        insert = f"INSERT INTO {quoted(table)} VALUES ({places})"
        rows = 0
        for batch in batches:
            columns = [_for_sqlite(c, a) for c, a in zip(batch.columns, attributes, strict=True)]
            database.executemany(insert, zip(*columns, strict=True) if columns else [(1,)] * batch.num_rows)
            rows += batch.num_rows
        database.execute("COMMIT")
    return rows


def _sqlite_type(type: Type) -> str:
    if type.logical:
        return "INTEGER" if type.logical == "boolean" else "TEXT"
    return _SQLITE_TYPES.get(type.kind, "TEXT")


def _duckdb_type(type: Type) -> str:
    if type.logical.startswith("decimal"):
        return f"DECIMAL(19, {type.logical.removeprefix('decimal_')})"
    return _DUCKDB_LOGICAL.get(type.logical) or _DUCKDB_TYPES.get(type.kind, "VARCHAR")


def _columns(attributes: Sequence[Attribute], name: Callable[[Type], str]) -> str:
    declared = [f"{quoted(a.name)} {name(a.type)}" for a in attributes]
    return ", ".join(declared) or f"{quoted(_NULLARY)} INTEGER"


def _for_sqlite(column: pa.Array, attribute: Attribute) -> list[Any]:
    if attribute.type.logical:
        column = column.cast(pa.int64() if attribute.type.logical == "boolean" else pa.string())
    elif attribute.type.kind is Kind.UNSIGNED:
        column = column.view(pa.int64())
    values: list[Any] = column.to_pylist()
    if attribute.type.kind is Kind.FLOAT:
        return ["nan" if value != value else value for value in values]
    return values


def _write_duckdb(
    path: Path, earlier: Path, table: str, batches: Iterable[pa.RecordBatch], attributes: Sequence[Attribute]
) -> int:
    import shutil

    if path.exists() and path.stat().st_size == 0:
        path.unlink()  # DuckDB makes the file itself
    if not path.exists() and earlier.exists():
        shutil.copyfile(earlier, path)
    with closing(_duckdb(path, read_only=False)) as database:
        import duckdb

        try:
            query = "SELECT table_type FROM information_schema.tables WHERE table_name = ?"
            kind = database.execute(query, [table]).fetchone()
            if kind is not None:
                database.execute(f"DROP {'VIEW' if kind[0] == 'VIEW' else 'TABLE'} {quoted(table)}")
            database.execute(f"CREATE TABLE {quoted(table)} ({_columns(attributes, _duckdb_type)})")
            rows = 0
            for batch in batches:
                given = (
                    pa.Table.from_batches([batch])
                    if attributes
                    else pa.table({_NULLARY: [1] * batch.num_rows})
                )
                view = database.from_arrow(given)
                view.insert_into(quoted(table))
                rows += batch.num_rows
        except duckdb.Error as error:
            raise DataError(f"{path}: DuckDB says: {_first_line(error)}") from error
    return rows
