"""Datasets as frames, and frames as datasets: Parquet, ORC, tables, text as fact files have it, N-Triples.

They are found as ``.input`` and ``.output`` say, and written beside their places: moved there when all of
them are complete.
"""

from __future__ import annotations

import csv
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from gpuengine.errors import DataError, GpuEngineError
from gpuengine.exchange.spark_frames import HOLDS
from gpuengine.io.convert import shown
from gpuengine.io.options import (
    CODEC_OF_SUFFIX,
    Dialect,
    codec_of,
    pick_columns,
    reading_dialect,
    text_dialect,
)
from gpuengine.language.parameters import is_a_stream
from gpuengine.language.program import Attribute, Directive, Kind, Relation
from gpuengine.spark_bridge.checking import refuse_logical
from gpuengine.spark_bridge.connect import is_connect, require_jvm
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.filesystem import FileSystem, beside_of, join, name_of, parent_of
from gpuengine.spark_bridge.table_formats import TABLE_FORMATS, read_table, table_format
from gpuengine.spark_bridge.versions import is_valid_utf8, try_cast

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_WHOLE = r"^[ \t]*[+-]?[0-9]+[ \t]*$"
_FLOAT = r"^[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*$"
_NOT_FINITE = r"^[ \t]*[+-]?(nan|inf|infinity)[ \t]*$"

# Loops that give nothing back (*+) are not recursive in Java: long texts would overflow its stack.
_IRI = r"<(?:[^<>\"{}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*+>"
_BLANK = r"_:[^\s<>\"]*[^\s<>\".]"
_TEXT = r"\"(?:[^\"\\\n\r]|\\.)*+\""
_LITERAL = rf"{_TEXT}(?:\^\^{_IRI}|@[A-Za-z]+(?:-[A-Za-z0-9]+)*)?"
_TRIPLE = (
    rf"^[ \t]*({_IRI}|{_BLANK})[ \t]*({_IRI})[ \t]*({_IRI}|{_BLANK}|{_LITERAL})"
    r"[ \t]*\.[ \t]*(?:#.*)?$"
)
_NO_TRIPLE = r"^[ \t]*(#.*)?$"


@dataclass(frozen=True)
class Parsed:
    """Rows of text: `values` are null where a field is not of its type; `fits` is false where the fields
    themselves can't be told; `text` is what a message shows of a row."""

    rows: DataFrame
    values: Sequence[Column]
    fits: Column
    text: Column


def require_all_parsed(parsed: Parsed, where: str, wanted: str) -> DataFrame:
    """The values, if every row has all of them; raises `DataError` with the number of those that have not and
    one of them. Looks through all rows."""
    from pyspark.sql import functions as F

    fits = parsed.fits
    for value in parsed.values:
        fits &= value.isNotNull()
    is_bad = ~F.coalesce(fits, F.lit(False))
    seen = parsed.rows.select(
        is_bad.alias("bad"),
        F.struct(parsed.text.alias("text"), F.input_file_name().alias("file")).alias("row"),
    )
    example = F.first(F.when(F.col("bad"), F.col("row")), ignorenulls=True)
    totals = seen.agg(F.count(F.when(F.col("bad"), 1)), F.count(F.lit(1)), example).first()
    assert totals is not None
    bad, total, row = totals
    if bad:
        verb = "is" if bad == 1 else "are"
        raise DataError(
            f"{where}: {bad:,} of {total:,} lines {verb} {wanted}\n  such as {shown(row.text)} in {row.file}"
        )
    return parsed.rows.select(*parsed.values)


def parse_fields(
    lines: DataFrame, relation: Relation, columns: Sequence[int], width: int, delimiter: str
) -> Parsed:
    """Lines of `width` fields, of which `columns` are the attributes."""
    from pyspark.sql import functions as F

    rows = lines.select("value", F.split("value", re.escape(delimiter), -1).alias("fields"))
    # `get` is null beyond the end, where an index would be an error.
    values = typed([F.get("fields", F.lit(column)) for column in columns], relation)
    fits = is_valid_utf8("value") & (F.size("fields") == width)
    return Parsed(rows, values, fits, F.col("value"))


def parse_triples(lines: DataFrame, names: Sequence[str]) -> Parsed:
    """Lines of N-Triples, without comments and blank lines; terms keep the spelling of the file."""
    from pyspark.sql import functions as F

    rows = lines.where(~F.col("value").rlike(_NO_TRIPLE))
    values = [F.regexp_extract("value", _TRIPLE, i).alias(name) for i, name in enumerate(names, 1)]
    fits = is_valid_utf8("value") & F.col("value").rlike(_TRIPLE)
    return Parsed(rows, values, fits, F.col("value"))


def typed(fields: Sequence[Column], relation: Relation) -> list[Column]:
    """Texts as the attributes' types: null where one does not denote a value."""
    return [_typed(field, attribute) for field, attribute in zip(fields, relation.attributes, strict=True)]


def _typed(field: Column, attribute: Attribute) -> Column:
    from pyspark.sql import functions as F

    kind = attribute.type.kind
    if kind is Kind.NUMBER:
        value = F.when(field.rlike(_WHOLE), try_cast(F.trim(field), "bigint"))
    elif kind is Kind.UNSIGNED:
        wide = F.when(field.rlike(_WHOLE), try_cast(F.trim(field), "decimal(20,0)"))
        value = F.when(wide.between(F.lit(0), F.lit(str(2**64 - 1)).cast("decimal(20,0)")), wide)
    elif kind is Kind.FLOAT:
        number = try_cast(F.trim(field), "double")
        finite = F.when(F.abs(number) < F.lit(float("inf")), number)
        value = F.when(field.rlike(_FLOAT), finite)
        value = value.when(F.lower(field).rlike(_NOT_FINITE), number)
    else:
        value = F.when(is_valid_utf8(field), field)
    return value.alias(attribute.name)


PARQUET, ORC, TEXT, TRIPLES = "parquet", "orc", "text", "ntriples"
_FORMAT_OF_SUFFIX = {
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".orc": ORC,
    ".facts": TEXT,
    ".csv": TEXT,
    ".tsv": TEXT,
    ".txt": TEXT,
    ".nt": TRIPLES,
}
_FORMAT_OF_IO = {"file": TEXT, "csv": TEXT, "tsv": TEXT, "parquet": PARQUET}
_CODECS = (*CODEC_OF_SUFFIX, ".bz2")
_TEXT_SUFFIXES = tuple(s + z for s in (".csv", ".tsv", ".facts", ".txt", ".nt") for z in ("", *_CODECS))
_LOOKED_FOR = (".parquet", "", ".orc", *_TEXT_SUFFIXES)
_PATTERN = re.compile(r"[*?\[{]")
_TABLE_NAME = re.compile(r"(?:[A-Za-z_]\w*|`[^`]+`)(?:\.(?:\w+|`[^`]+`))*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD = "_bad"


def find_dataset(files: FileSystem, relation: str, params: Mapping[str, str], fact_dir: str) -> str:
    """The file, folder or pattern that an ``.input`` reads.

    ``filename=`` if given, else what is called as the relation: Parquet, a folder, ORC, then text. Raises
    `DataError` if there is none, or if a file that the program names is not inside `fact_dir`.
    """
    if params.get("IO") == "stdin":
        raise DataError(
            f"{relation} is read from standard input, which executors of Spark have not\n"
            "  hint: put its facts in a file of the fact directory"
        )
    if "filename" in params:
        path = confined(params["filename"], fact_dir, "fact directory", relation)
        paths = [path] if files.exists(path) else files.matches(path) if _PATTERN.search(path) else []
        if not paths:
            raise DataError(f"no facts for {relation}: looked for {path}")
        if not all(files.is_inside(one, fact_dir) for one in paths):
            raise DataError(_leaves(params["filename"], fact_dir, "fact directory", relation))
        return path
    present = set(files.list(fact_dir)) if files.is_directory(fact_dir) else None
    looked_for = [f"{relation}{suffix}" for suffix in _LOOKED_FOR]
    for name in looked_for:
        if present and name in present:
            return join(fact_dir, name)
    where = "; that is not a directory" if present is None else ""
    names = ", ".join(f"{relation}{suffix}" for suffix in _LOOKED_FOR if not suffix.endswith(_CODECS))
    raise DataError(
        f"no facts for {relation}: looked for {names} (text also compressed as .gz, .zst, .bz2) "
        f"in {fact_dir}{where}"
    )


def confined(filename: str, directory: str, what: str, relation: str) -> str:
    """The path of a file that a program names, if it stays inside the directory that the user named."""
    if not filename or "\0" in filename:
        raise DataError(f"filename={filename!r} of {relation} is not a file name")
    inside = filename.startswith(f"{directory.rstrip('/')}/") and directory != ""
    away = _SCHEME.match(filename) or filename.startswith("/")
    if ".." in PurePath(filename).parts or (away and not inside):
        raise DataError(_leaves(filename, directory, what, relation))
    return filename if inside and away else join(directory, filename)


def _leaves(filename: str, directory: str, what: str, relation: str) -> str:
    return (
        f'filename="{filename}" of {relation} leaves the {what} {directory}; '
        f"move the file there, or choose another {what}"
    )


def read_dataset(
    spark: SparkSession,
    path: str,
    relation: Relation,
    *,
    format: str | None = None,
    params: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of a file, a folder or a pattern, or of a table of the catalog, for a relation.

    `format` is ``parquet``, ``orc``, ``text`` or ``ntriples``; without it ``IO=`` of the `params` decides,
    then the extension, then what a folder contains. Parquet, ORC, Delta and Iceberg come as they are, text
    with the declared types (unsigned as decimal(20,0)), triples as three strings in the spelling of the file.
    Text is looked through once before this returns: `DataError` if a row does not fit. Numbers are decimal
    there.
    """
    params = params or {}
    refuse_logical(relation)
    table = _table(spark, path) if format is None and not params else None
    if is_connect(spark):
        return table if table is not None else _by_its_ending(spark, path, relation)
    files = FileSystem(spark)
    if table is not None:
        if files.exists(path):
            raise DataError(
                f"{relation.name}: {path} is a table and a dataset\n"
                f"  hint: give spark.table({path!r}), or ./{path}"
            )
        return table
    if not files.exists(path) and not (_PATTERN.search(path) and files.matches(path)):
        raise DataError(f"no facts for {relation.name}: there is no {path}")
    format = format or _format_of(files, path, params, relation.name)
    try:
        if format in TABLE_FORMATS:
            return read_table(spark, path, format)
        if format in (PARQUET, ORC):
            return _columnar(spark, path, format, relation, params)
        if format == TRIPLES:
            return _triples(spark, path, relation)
        if format == TEXT:
            return _text(spark, files, path, relation, params)
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{path}: {relation.name} can't be read: {_first_line(error)}") from error
    raise DataError(
        f"{path}: there is no format {format!r}\n  hint: parquet, orc, delta, iceberg, text or ntriples"
    )


def _table(spark: SparkSession, name: str) -> DataFrame | None:
    """A table or a view of the session's catalogs."""
    if not _TABLE_NAME.fullmatch(name):
        return None
    with suppress(Exception):  # a catalog that is not there, or not for such names
        if spark.catalog.tableExists(name):
            return spark.table(name)
    return None


def _by_its_ending(spark: SparkSession, path: str, relation: Relation) -> DataFrame:
    """A dataset that nobody can look at before it is read, as over Spark Connect."""
    format = _by_suffix(path)
    if format not in (PARQUET, ORC):
        require_jvm(spark, f"{relation.name}: reading {path}, which does not end in .parquet or .orc,")
    assert format is not None
    with spark_failures(f"reading {path}"):
        return spark.read.format(format).load(path)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _format_of(files: FileSystem, path: str, params: Mapping[str, str], relation: str) -> str:
    name = params.get("IO")
    if name is not None:
        if name not in _FORMAT_OF_IO:
            raise DataError(f"IO={name} of {relation} can't be read by Spark\n  hint: use Parquet, or text")
        if name != "file":
            return _FORMAT_OF_IO[name]
    if files.is_directory(path) and (table := table_format(files, path)) is not None:
        return table
    kind = _by_suffix(path)
    if kind is None and files.is_directory(path):
        kind = _by_content(files, path)
    if kind is None and _PATTERN.search(path):
        kind = next(filter(None, map(_by_suffix, files.matches(path))), None)
    return kind or TEXT


def _by_suffix(path: str) -> str | None:
    suffixes = [suffix.lower() for suffix in PurePath(name_of(path)).suffixes]
    if suffixes and suffixes[-1] in _CODECS:
        suffixes.pop()
    return _FORMAT_OF_SUFFIX.get(suffixes[-1]) if suffixes else None


def _by_content(files: FileSystem, folder: str) -> str | None:
    """The format of the first part file; folders in it are partitions, as in ``year=2024/``."""
    for name in files.list(folder):
        if name.startswith((".", "_")):
            continue
        inside = join(folder, name)
        kind = _by_content(files, inside) if files.is_directory(inside) else _by_suffix(name)
        if kind is not None:
            return kind
    return None


def _columnar(
    spark: SparkSession, path: str, format: str, relation: Relation, params: Mapping[str, str]
) -> DataFrame:
    frame = spark.read.format(format).load(path)
    dialect = reading_dialect(PurePath(name_of(path)), params, relation.arity)
    if dialect.columns is None or not relation.arity:
        return frame
    wanted = [attribute.name for attribute in relation.attributes]
    picked = pick_columns(
        frame.columns, wanted, dialect.columns, f"{path}: {relation.name}", relation=relation.name
    )
    by_position = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    return by_position.select([by_position[f"c{i}"].alias(n) for i, n in zip(picked, wanted, strict=True)])


def _triples(spark: SparkSession, path: str, relation: Relation) -> DataFrame:
    if relation.arity != 3:
        raise DataError(f"{path}: triples have 3 columns, but {relation.name} has {relation.arity}")
    parsed = parse_triples(_lines(spark, path), [attribute.name for attribute in relation.attributes])
    return require_all_parsed(parsed, f"{path}: {relation.name}", "no triples")


def _text(
    spark: SparkSession, files: FileSystem, path: str, relation: Relation, params: Mapping[str, str]
) -> DataFrame:
    name = PurePath(name_of(path) if not files.is_directory(path) else _a_part(files, path))
    dialect = reading_dialect(name, params, relation.arity)
    lines = _lines(spark, path)
    if not relation.arity:
        return lines
    first_row = lines.first()
    first = first_row["value"] if first_row is not None else ""
    dialect = dialect.settled(first.encode(), relation.attributes)
    if dialect.headers:
        where = f"{path}: {relation.name}"
        dialect = dialect.named(first.encode(), relation.attributes, where, relation.name)
    assert dialect.delimiter is not None
    delimiter = dialect.delimiter.decode()
    width = relation.arity if dialect.columns is None else _width(first, delimiter, dialect.quoting)
    columns = dialect.columns or tuple(range(relation.arity))
    if max(columns) >= width:
        raise DataError(
            f"{path}: {relation.name}: columns= asks for column {max(columns)}, but there are {width}"
        )
    if dialect.quoting or dialect.headers:
        parsed = _with_quotes(spark, path, relation, dialect, columns, width)
    else:
        parsed = parse_fields(lines, relation, columns, width, delimiter)
    types = ", ".join(attribute.type.name for attribute in relation.attributes)
    wanted = f"not {width} field{'s' * (width != 1)}, or not of the types ({types})"
    return require_all_parsed(parsed, f"{path}: {relation.name}", wanted)


def _lines(spark: SparkSession, path: str) -> DataFrame:
    from pyspark.sql import functions as F

    lines = spark.read.option("lineSep", "\n").text(path)
    # No regular expression: it would make other characters of bytes that are not UTF-8.
    shorter = F.left("value", F.length("value") - 1)
    return lines.select(
        F.when(F.endswith("value", F.lit("\r")), shorter).otherwise(F.col("value")).alias("value")
    )


def _a_part(files: FileSystem, folder: str) -> str:
    names = [name for name in files.list(folder) if not name.startswith((".", "_"))]
    return names[0] if names else name_of(folder)


def _width(line: str, delimiter: str, quoting: bool) -> int:
    if quoting and len(delimiter) == 1:
        return len(next(csv.reader([line], delimiter=delimiter), []))
    return len(line.split(delimiter))


def _with_quotes(
    spark: SparkSession,
    path: str,
    relation: Relation,
    dialect: Dialect,
    columns: tuple[int, ...],
    width: int,
) -> Parsed:
    """Text with quotes or a header, by Spark's own reader: fields as text first, then as their types."""
    from pyspark.sql import functions as F

    assert dialect.delimiter is not None
    schema = ", ".join([*(f"f{i} string" for i in range(width)), f"{_BAD} string"])
    quote = '"' if dialect.quoting else ""
    frame = spark.read.csv(
        path,
        schema=schema,
        sep=dialect.delimiter.decode(),
        quote=quote,
        escape=quote,
        header=dialect.headers,
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=_BAD,
        multiLine=dialect.quoting,
        # A file's own header says nothing that the schema does not.
        enforceSchema=True,
    )
    # An empty field is null to this reader, but an empty text to us.
    fields: list[Column] = [F.coalesce(F.col(f"f{i}"), F.lit("")) for i in columns]
    values = typed(fields, relation)
    shown = F.coalesce(F.col(_BAD), F.concat_ws(dialect.delimiter.decode(), *(f"f{i}" for i in range(width))))
    return Parsed(frame, values, F.col(_BAD).isNull(), shown)


PARQUET, ORC, TEXT = "parquet", "orc", "text"
_WRITTEN_BY_SUFFIX = {".parquet": PARQUET, ".pq": PARQUET, ".orc": ORC}
_WRITTEN_AS_TEXT = (".csv", ".tsv", ".txt", ".facts")
_WRITTEN_BY_IO = {"parquet": PARQUET, "csv": TEXT, "tsv": TEXT}
_NOT_WRITTEN = ("arrow", "ipc", "feather")
_SUCCESS = "_SUCCESS"
_CLEANING_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Target:
    """Where a relation goes: the folder of a dataset, its format, and what ``.output`` says of it."""

    relation: str
    path: str
    format: str
    params: Mapping[str, str]


def find_targets(directives: Iterable[Directive], output_dir: str) -> list[Target]:
    """Where each ``.output`` goes but those of ``IO=stdout``: ``filename=``, or ``NAME.parquet``.

    Raises `DataError` if two relations would go to one place, or if one would leave `output_dir`.
    """
    targets: dict[tuple[str, str], Target] = {}
    owner: dict[str, str] = {}
    for directive in directives:
        if directive.kind != "output" or is_a_stream(directive.params):
            continue
        target = _target(directive.relation, directive.params, output_dir)
        if owner.setdefault(target.path, target.relation) != target.relation:
            raise DataError(
                f"{owner[target.path]} and {target.relation} would both be written to {target.path}"
            )
        targets[target.relation, target.path] = target
    return list(targets.values())


def check_targets(spark: SparkSession, targets: Iterable[Target]) -> None:
    """See before any work that the folders of the targets can be made, and that nothing else is there."""
    files = FileSystem(spark)
    for target in targets:
        if files.is_directory(target.path) and not _is_dataset(files, target.path):
            raise DataError(
                f"can't write {target.path}: it is a directory, and not one that Spark has written\n"
                "  hint: move it away, or choose another output directory"
            )
        files.make_directories(parent_of(target.path))


def write_results(
    spark: SparkSession,
    frames: Mapping[str, DataFrame],
    targets: Iterable[Target],
    *,
    on_written: Callable[[str], None] | None = None,
    on_replaced: Callable[[list[str], list[str]], None] | None = None,
) -> None:
    """Write all frames that have targets, or none.

    Each is written to a hidden folder beside its place. When all are complete they take the place of what was
    there before; whatever stops the writing earlier leaves that as it was. `on_written` is told each relation
    that is complete, `on_replaced` which places were taken and which are still to be. An error between two of
    these says so: no file system moves several folders at once.
    """
    files = FileSystem(spark)
    targets = list(targets)
    check_targets(spark, targets)
    waiting: dict[str, str] = {}
    try:
        for target in targets:
            beside = beside_of(target.path)
            waiting[beside] = target.path
            with spark_failures(f"writing {target.relation} to {target.path}"):
                _write(frames[target.relation], target, beside)
            if on_written is not None:
                on_written(target.relation)
        replaced: list[str] = []
        for beside, path in list(waiting.items()):
            try:
                files.replace(beside, path)
            except GpuEngineError as error:
                if replaced:
                    rest = ", ".join(waiting.values())
                    error.add_note(f"note: replaced: {', '.join(replaced)}; not replaced: {rest}")
                raise
            del waiting[beside]
            replaced.append(path)
            if on_replaced is not None:
                on_replaced(replaced, list(waiting.values()))
    finally:
        if waiting:
            _delete(spark, list(waiting))


def _target(relation: str, params: Mapping[str, str], output_dir: str) -> Target:
    io = params.get("IO", "file")
    if io in _NOT_WRITTEN:
        raise DataError(f"IO={io} of {relation} can't be written by Spark\n  hint: use IO=parquet, or text")
    if "filename" in params:
        path = confined(params["filename"], output_dir, "output directory", relation)
        format = _WRITTEN_BY_IO.get(io) or _WRITTEN_BY_SUFFIX.get(_suffix(path), TEXT)
    else:
        format = _WRITTEN_BY_IO.get(io) or (TEXT if _says_text(params) else PARQUET)
        suffix = f".{io}" if io in _WRITTEN_BY_IO else ".csv" if format == TEXT else ".parquet"
        path = join(output_dir, f"{relation}{suffix}")
    if format == TEXT and text_dialect(params).headers and not text_dialect(params).quoting:
        raise DataError(
            f"{relation}: Spark writes no headers to text without quotes\n"
            "  hint: add rfc4180=true, or leave out headers=true"
        )
    return Target(relation, path, format, dict(params))


def _says_text(params: Mapping[str, str]) -> bool:
    return bool(params.keys() & {"delimiter", "rfc4180", "headers"})


def _suffix(path: str) -> str:
    return PurePath(name_of(path)).suffix.lower()


def _is_dataset(files: FileSystem, path: str) -> bool:
    """Is this a folder that may be replaced: a dataset, or nothing?"""
    names = files.list(path)
    return not names or _SUCCESS in names


def _write(frame: DataFrame, target: Target, path: str) -> None:
    if target.format != TEXT:
        frame.write.format(target.format).save(path)
        return
    dialect = text_dialect(target.params)
    assert dialect.delimiter is not None
    delimiter = dialect.delimiter.decode()
    codec = codec_of(PurePath(name_of(target.path)), target.params) or "none"
    if not dialect.quoting:
        _as_lines(frame, delimiter).write.text(path, compression=codec, lineSep="\n")
        return
    frame.write.csv(
        path,
        sep=delimiter,
        header=dialect.headers,
        compression=codec,
        quote='"',
        escape='"',
        # An empty text is an empty field.
        emptyValue="",
        ignoreLeadingWhiteSpace=False,
        ignoreTrailingWhiteSpace=False,
    )


def _as_lines(frame: DataFrame, delimiter: str) -> DataFrame:
    """Fields as they are, with a delimiter between them, as Soufflé writes them."""
    from pyspark.sql import functions as F

    if frame.dtypes == [(HOLDS, "boolean")]:
        return frame.select(F.lit("()").alias("value"))
    fields = [frame[f"`{name}`"].cast("string") for name in frame.columns]
    return frame.select(F.concat_ws(delimiter, *fields).alias("value"))


def _delete(spark: SparkSession, folders: list[str]) -> None:
    """Remove what is not finished: from a thread of its own, as this one may have been interrupted in the
    middle of a call to the JVM, the answer to which is still to come."""

    def delete() -> None:
        for folder in folders:
            with suppress(Exception):
                FileSystem(spark).delete(folder)

    thread = threading.Thread(target=delete, name="gpuengine-cleaning", daemon=True)
    thread.start()
    thread.join(_CLEANING_SECONDS)
