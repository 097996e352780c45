"""DataFrames against the declarations of a program: columns, types, nulls and ranges.

What passes has the columns ``c0``, ``c1``, ... of plain Spark types: number ``bigint``, unsigned ``bigint``
(its 64 bits), float ``double``, all others ``string``.  Values change type only where that loses nothing.
A relation of no columns has ``c0 bigint`` with at most one row.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gpuengine.errors import DataError
from gpuengine.io.options import pick_columns
from gpuengine.language.program import Attribute, Kind, Relation
from gpuengine.spark_bridge.carriers import column
from gpuengine.spark_bridge.versions import is_valid_utf8

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_DIGEST_PRIME = 16_777_213  # sums of remainders by this fit 64 bits up to 5 * 10**11 rows
_EXACT_DOUBLE = 2**53  # all integers up to this are doubles

_NUMERIC = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
_WANTED = {
    Kind.NUMBER: ("an integer type, decimal(p,0) or boolean", "bigint"),
    Kind.UNSIGNED: ("an integer type, decimal(p,0) or boolean", "decimal(20,0)"),
    Kind.FLOAT: ("double, float or another type of numbers", "double"),
    Kind.SYMBOL: ("string", "string"),
    Kind.RECORD: ("string", "string"),
    Kind.ADT: ("string", "string"),
}


@dataclass(frozen=True)
class Checked:
    """A relation's input that fits: `frame` has plain types, no nulls and perhaps duplicates.

    `rows` counts it, and `digest` depends on its rows but not on their order.
    """

    frame: DataFrame
    rows: int
    digest: int | None


@dataclass(frozen=True)
class _Conversion:
    """A column as its plain type: null where the value does not fit, and why it does not."""

    name: str  # for messages
    raw: Column
    value: Column
    misfit: str = ""  # empty if every value fits


def check_inputs(
    relations: Mapping[str, Relation],
    inputs: Mapping[str, DataFrame],
    *,
    nulls: Literal["fail", "drop"] = "fail",
    digest: bool = False,
) -> dict[str, Checked]:
    """Each input as what its relation declares; one Spark job for each.

    Columns are taken as `pick_columns` says. Raises `DataError` for a relation
    that does not exist, columns that don't fit, values out of range and nulls; with ``nulls="drop"`` rows
    with nulls are left out instead.
    """
    if nulls not in ("fail", "drop"):
        raise DataError(f"nulls={nulls!r} is not known\n  hint: nulls='fail' or nulls='drop'")
    # All declarations are looked at before the first job.
    planned = {name: _conversions(_declared(relations, name), frame) for name, frame in inputs.items()}
    return {
        name: _checked(name, inputs[name], conversions, nulls == "drop", digest)
        for name, conversions in planned.items()
    }


def _declared(relations: Mapping[str, Relation], name: str) -> Relation:
    if name not in relations:
        near = difflib.get_close_matches(name, relations, 1)
        raise DataError(
            f"no relation {name!r} in the program{f'; did you mean {near[0]!r}?' if near else ''}"
        )
    return relations[name]


def refuse_logical(relation: Relation) -> None:
    """Raise `DataError` if an attribute is declared as a date or the like, which only an engine reads."""
    for attribute in relation.attributes:
        if attribute.type.logical:
            raise DataError(
                f"{relation.name}: {attribute.name} is declared {attribute.type.name}, which Spark does not "
                "read here yet\n  hint: declare it as number, and give it as one, such as F.unix_date(day) "
                "or F.unix_micros(time); or load df.toArrow() into an Engine"
            )


def _conversions(relation: Relation, frame: Any) -> list[_Conversion]:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    refuse_logical(relation)
    if not isinstance(frame, DataFrame):
        given = f"{type(frame).__module__}.{type(frame).__name__}"
        raise DataError(
            f"{relation.name}: expected a Spark DataFrame, got {given}"
            "\n  hint: spark.createDataFrame makes one"
        )
    if not relation.attributes:
        return []
    wanted, name = [attribute.name for attribute in relation.attributes], relation.name
    picked = pick_columns(frame.columns, wanted, None, name, relation=name)
    types = [field.dataType for field in frame.schema.fields]
    return [
        _convert(relation, attribute, frame.columns[i], types[i], F.col(column(i)))
        for i, attribute in zip(picked, relation.attributes, strict=True)
    ]


def _convert(
    relation: Relation, attribute: Attribute, given: str, source: DataType, raw: Column
) -> _Conversion:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    check_type(relation, attribute, given, source)
    kind, type_name = attribute.type.kind, attribute.type.name
    name, whole = _called(attribute, given), _is_whole(source)
    plain = "double" if kind is Kind.FLOAT else "string" if kind not in _NUMERIC else "bigint"

    def within(low: int, high: int, value: Column) -> _Conversion:
        kept = F.when(raw.between(_decimal(low), _decimal(high)), value)
        return _Conversion(name, raw, kept, f"outside {low}..{high}, the range of {type_name}")

    if isinstance(source, T.NullType) or (kind in _NUMERIC and isinstance(source, T.BooleanType)):
        return _Conversion(name, raw, raw.cast(plain))
    if kind is Kind.NUMBER:
        if isinstance(source, T.DecimalType) and source.precision > 18:
            return within(-(2**63), 2**63 - 1, raw.cast("bigint"))
        return _Conversion(name, raw, raw.cast("bigint"))
    if kind is Kind.UNSIGNED:
        if isinstance(source, T.DecimalType) and source.precision > 18:
            lower = (raw - _decimal(2**64)).cast("bigint")
            bits = F.when(raw < _decimal(2**63), raw.cast("bigint")).otherwise(lower)
            return within(0, 2**64 - 1, bits)
        kept = F.when(raw >= 0, raw.cast("bigint"))
        return _Conversion(name, raw, kept, f"outside 0..{2**64 - 1}, the range of {type_name}")
    if kind is Kind.FLOAT:
        if isinstance(source, T.LongType) or (whole and isinstance(source, T.DecimalType)):
            exact = within(-_EXACT_DOUBLE, _EXACT_DOUBLE, raw.cast("double"))
            return _Conversion(name, raw, exact.value, "beyond 2**53, which a float may not hold exactly")
        return _Conversion(name, raw, raw.cast("double"))
    if not isinstance(source, T.BinaryType):
        # By type and not by name: names follow the session's collation, and symbols are compared by bytes.
        return _Conversion(name, raw, raw if source == T.StringType() else raw.cast(T.StringType()))
    text = raw.cast(T.StringType())
    return _Conversion(name, raw, F.when(is_valid_utf8(text), text), "not in UTF-8")


def check_type(relation: Relation, attribute: Attribute, given: str, source: DataType) -> None:
    """Raise `DataError` if no value of a column's type can be one of an attribute."""
    kind = attribute.type.kind
    if _takes(kind, source):
        return
    wanted, cast = _WANTED[kind]
    raise DataError(
        f"{relation.name}: column {_called(attribute, given)} holds {source.simpleString()}, but "
        f"{attribute.name} is declared {attribute.type.name}, which takes {wanted}"
        f'\n  hint: cast it first: df.withColumn("{given}", df["{given}"].cast("{cast}"))'
    )


def _takes(kind: Kind, source: DataType) -> bool:
    from pyspark.sql import types as T

    if isinstance(source, T.NullType):
        return True
    if kind is Kind.FLOAT:
        return isinstance(source, T.NumericType | T.BooleanType)
    if kind in _NUMERIC:
        return _is_whole(source) or isinstance(source, T.BooleanType)
    return isinstance(source, T.StringType | T.CharType | T.VarcharType | T.BinaryType)


def _is_whole(source: DataType) -> bool:
    from pyspark.sql import types as T

    is_decimal = isinstance(source, T.DecimalType) and source.scale <= 0
    return isinstance(source, T.IntegralType) or is_decimal


def _called(attribute: Attribute, given: str) -> str:
    return attribute.name if given == attribute.name else f"{attribute.name} (given as {given})"


def _decimal(value: int) -> Column:
    from pyspark.sql import functions as F

    return F.lit(str(value)).cast("decimal(20,0)")


def _checked(
    name: str, frame: DataFrame, conversions: Sequence[_Conversion], drop: bool, digest: bool
) -> Checked:
    from pyspark.sql import functions as F

    if not conversions:
        # Any row means that the relation holds.
        held = frame.limit(1).select(F.lit(0).cast("bigint").alias(column(0)))
        rows = held.count()
        return Checked(held, rows, rows if digest else None)

    # By position: names may be ambiguous, or have dots in them.
    raw = frame.toDF(*(column(i) for i in range(len(frame.columns))))
    names = [column(j) for j in range(len(conversions))]
    complete = F.lit(True)
    for conversion in conversions:
        complete &= conversion.raw.isNotNull()
    values = [c.value.alias(n) for c, n in zip(conversions, names, strict=True)]

    sums = [F.count(F.lit(1)), F.count(F.when(complete, 1))]
    sums += [F.count(F.when(c.raw.isNull(), 1)) for c in conversions]
    misfits = [c for c in conversions if c.misfit]
    sums += [
        F.count(F.when((complete if drop else c.raw.isNotNull()) & c.value.isNull(), 1)) for c in misfits
    ]
    if digest:
        sums.append(_digest_of([c.value for c in conversions], complete))
    row = raw.agg(*(total.alias(f"t{i}") for i, total in enumerate(sums))).first()
    assert row is not None
    total, kept, *counts = row

    problems = [
        f"{name}: column {c.name} has {_counted(bad, 'value')} {c.misfit}, in {_counted(total, 'row')}"
        for c, bad in zip(misfits, counts[len(conversions) :], strict=False)
        if bad
    ]
    if not drop:
        gaps = [
            f"{name}: column {c.name} has {_counted(missing, 'null')} in {_counted(total, 'row')}"
            for c, missing in zip(conversions, counts, strict=False)
            if missing
        ]
        problems += gaps
        if gaps:
            problems.append("  hint: nulls='drop' (--nulls drop) leaves these rows out")
    if problems:
        raise DataError("\n".join(problems))
    result = raw.select(*values) if kept == total else raw.where(complete).select(*values)
    return Checked(result, kept, counts[-1] if digest else None)


def rows_and_digest(frame: DataFrame) -> tuple[int, int]:
    """How many rows a frame of carriers has, and what depends on them but not on their order."""
    from pyspark.sql import functions as F

    columns = [F.col(name) for name in frame.columns]
    row = frame.agg(F.count(F.lit(1)), _digest_of(columns, F.lit(True))).first()
    assert row is not None
    return row[0], row[1]


def _digest_of(values: Sequence[Column], among: Column) -> Column:
    from pyspark.sql import functions as F

    row = F.pmod(F.xxhash64(*values), F.lit(_DIGEST_PRIME))
    return F.coalesce(F.sum(F.when(among, row)), F.lit(0))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
