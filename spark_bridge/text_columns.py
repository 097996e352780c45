"""Lines of text as columns of the declared types, by expressions: fields of fact files, and N-Triples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuengine.errors import DataError
from gpuengine.io.convert import shown
from gpuengine.language.program import Attribute, Kind, Relation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    found = seen.agg(F.count(F.when(F.col("bad"), 1)), F.count(F.lit(1)), example).first()
    assert found is not None
    bad, total, row = found
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
    fits = F.is_valid_utf8("value") & (F.size("fields") == width)
    return Parsed(rows, values, fits, F.col("value"))


def parse_triples(lines: DataFrame, names: Sequence[str]) -> Parsed:
    """Lines of N-Triples, without comments and blank lines; terms keep the spelling of the file."""
    from pyspark.sql import functions as F

    rows = lines.where(~F.col("value").rlike(_NO_TRIPLE))
    values = [F.regexp_extract("value", _TRIPLE, i).alias(name) for i, name in enumerate(names, 1)]
    fits = F.is_valid_utf8("value") & F.col("value").rlike(_TRIPLE)
    return Parsed(rows, values, fits, F.col("value"))


def typed(fields: Sequence[Column], relation: Relation) -> list[Column]:
    """Texts as the attributes' types: null where one does not denote a value."""
    return [_typed(field, attribute) for field, attribute in zip(fields, relation.attributes, strict=True)]


def _typed(field: Column, attribute: Attribute) -> Column:
    from pyspark.sql import functions as F

    kind = attribute.type.kind
    if kind is Kind.NUMBER:
        value = F.when(field.rlike(_WHOLE), F.trim(field).try_cast("bigint"))
    elif kind is Kind.UNSIGNED:
        wide = F.when(field.rlike(_WHOLE), F.trim(field).try_cast("decimal(20,0)"))
        value = F.when(wide.between(F.lit(0), F.lit(str(2**64 - 1)).cast("decimal(20,0)")), wide)
    elif kind is Kind.FLOAT:
        number = F.trim(field).try_cast("double")
        finite = F.when(F.abs(number) < F.lit(float("inf")), number)
        value = F.when(field.rlike(_FLOAT), finite)
        value = value.when(F.lower(field).rlike(_NOT_FINITE), number)
    else:
        value = F.when(F.is_valid_utf8(field), field)
    return value.alias(attribute.name)
