"""Datasets as frames: Parquet, ORC, text as fact files have it, N-Triples; found as ``.input`` says."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from gpuengine.errors import DataError
from gpuengine.io.options import CODEC_OF_SUFFIX, Dialect, pick_columns, reading_dialect
from gpuengine.language.program import Relation
from gpuengine.spark_bridge.filesystem import FileSystem, join, name_of
from gpuengine.spark_bridge.text_columns import Parsed, parse_fields, parse_triples, require_all_parsed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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
        found = [path] if files.exists(path) else files.matches(path) if _PATTERN.search(path) else []
        if not found:
            raise DataError(f"no facts for {relation}: looked for {path}")
        if not all(files.is_inside(one, fact_dir) for one in found):
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
    """The rows of a file, a folder or a pattern, for a relation.

    `format` is ``parquet``, ``orc``, ``text`` or ``ntriples``; without it ``IO=`` of the `params` decides,
    then the extension, then what a folder contains. Parquet and ORC come as they are, text with the declared
    types (unsigned as decimal(20,0)), triples as three strings in the spelling of the file. Text is looked
    through once before this returns: `DataError` if a row does not fit. Numbers are decimal there.
    """
    params = params or {}
    files = FileSystem(spark)
    if not files.exists(path) and not (_PATTERN.search(path) and files.matches(path)):
        raise DataError(f"no facts for {relation.name}: there is no {path}")
    format = format or _format_of(files, path, params, relation.name)
    try:
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
    raise DataError(f"{path}: there is no format {format!r}\n  hint: parquet, orc, text or ntriples")


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
    found = _by_suffix(path)
    if found is None and files.is_directory(path):
        found = _by_content(files, path)
    if found is None and _PATTERN.search(path):
        found = next(filter(None, map(_by_suffix, files.matches(path))), None)
    return found or TEXT


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
        found = _by_content(files, inside) if files.is_directory(inside) else _by_suffix(name)
        if found is not None:
            return found
    return None


def _columnar(
    spark: SparkSession, path: str, format: str, relation: Relation, params: Mapping[str, str]
) -> DataFrame:
    frame = spark.read.format(format).load(path)
    dialect = reading_dialect(PurePath(name_of(path)), params, relation.arity)
    if dialect.columns is None or not relation.arity:
        return frame
    wanted = [attribute.name for attribute in relation.attributes]
    picked = pick_columns(frame.columns, wanted, dialect.columns, f"{path}: {relation.name}")
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

    from gpuengine.spark_bridge.text_columns import typed

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
