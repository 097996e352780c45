"""What a program declares, as Spark asks for it: schemas, and which relation is meant if nobody says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from gpuengine.errors import DataError, GpuEngineError
from gpuengine.exchange.spark_frames import HOLDS, spark_schema
from gpuengine.io.options import pick_columns
from gpuengine.io.schema import arrow_type, nullary, outer_schema
from gpuengine.language.program import Attribute, Program, Relation
from gpuengine.loading import declared_in
from gpuengine.planning.plan import body_relations
from gpuengine.spark_bridge.checking import check_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from gpuengine.relation import RelationView


def arrow_columns(attributes: Sequence[Attribute]) -> pa.Schema:
    """The columns of a relation with types that Spark has; one without columns has `HOLDS`."""
    if not attributes:
        return pa.schema([pa.field(HOLDS, pa.bool_())])
    return spark_schema(outer_schema(attributes))


def struct_of(attributes: Sequence[Attribute]) -> StructType:
    """The same as Spark has it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_columns(attributes), prefer_timestamp_ntz=True)


def batches_of(view: RelationView, rows: int = 1 << 16) -> Iterable[pa.RecordBatch]:
    """The facts of a relation as Arrow batches of the types of `arrow_columns`."""
    schema = arrow_columns(view.attributes)
    if not view.attributes:
        return [pa.RecordBatch.from_pylist([{HOLDS: True}], schema)] if len(view) else []
    return (batch.cast(schema) for batch in view.batches(rows))


def columns_for(relation: Relation, given: StructType) -> list[int]:
    """Which columns of a frame are the attributes; `DataError` if they can't be told or can't fit."""
    if not relation.attributes:
        return []
    wanted = [attribute.name for attribute in relation.attributes]
    picked = pick_columns(given.fieldNames(), wanted, None, relation.name, relation=relation.name)
    for at, attribute in zip(picked, relation.attributes, strict=True):
        check_type(relation, attribute, given.fields[at].name, given.fields[at].dataType)
    return picked


def facts_for(relation: Relation, rows: pa.Table, columns: Sequence[int], *, drop_nulls: bool) -> pa.Table:
    """Rows of a frame as facts, with the types that are declared; `DataError` for values that don't fit."""
    if not relation.attributes:
        return nullary(rows.num_rows > 0)
    names = [attribute.name for attribute in relation.attributes]
    picked = pa.table([rows.column(at) for at in columns], names=names)
    if drop_nulls:
        picked = picked.drop_null()
    for attribute, column in zip(relation.attributes, picked.columns, strict=True):
        if column.null_count:
            raise DataError(
                f"{relation.name}: column {attribute.name} has {column.null_count:,} "
                f"null{'s' * (column.null_count != 1)} in {picked.num_rows:,} "
                f"row{'s' * (picked.num_rows != 1)}\n  hint: leave these rows out before, or with nulls=drop"
            )
    cast = [_cast(relation, a, column) for a, column in zip(relation.attributes, picked.columns, strict=True)]
    return pa.table(cast, names=names)


def _cast(relation: Relation, attribute: Attribute, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if attribute.type.logical:
        # A date and the like, which the engine reads as it is.
        return column
    try:
        return column.cast(arrow_type(attribute.type))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{relation.name}: column {attribute.name} has a value that {attribute.type.name} has not: "
            f"{error}"
        ) from error


def create_views(frames: Mapping[str, DataFrame], prefix: str) -> list[str]:
    """Have SQL see relations, each as the temporary view of its name after a prefix; the names of the views.

    A name of a component's relation, as ``graph.path``, becomes ``graph_path``.
    """
    views = {f"{prefix}{name}".replace(".", "_"): name for name in frames}
    for view, name in views.items():
        frames[name].createOrReplaceTempView(view)
    return list(views)


def relation_to_fill(program: Program, named: str | None) -> Relation:
    """The relation that given facts are of: as named, else the only one that ``.input`` names, else the only
    one without rules. Raises `GpuEngineError` with the names if there are several, or none."""
    if named is not None:
        return declared_in(program, named)
    derived = {rule.head.relation for rule in program.rules if rule.body}
    plain = [name for name in program.relations if name not in derived]
    return _only(program, _directed(program, "input") or plain, "without rules", "input")


def filled_relations(program: Program) -> dict[str, Mapping[str, str]]:
    """The relations to fill from files, with the parameters of ``.input``: those that it names, or, if
    there is none, all without rules."""
    inputs = {one.relation: one.params for one in program.directives if one.kind == "input"}
    derived = {rule.head.relation for rule in program.rules}
    return inputs or {name: {} for name in program.relations if name not in derived}


def relation_to_read(program: Program, named: str | None) -> Relation:
    """The relation that is asked for: as named, else the only one that ``.output`` names, else the only one
    with rules that no other reads. Raises `GpuEngineError` with the names if there are several, or none."""
    if named is not None:
        return declared_in(program, named)
    derived = {rule.head.relation for rule in program.rules if rule.body}
    read = {
        name for rule in program.rules for name in body_relations(rule.body) if name != rule.head.relation
    }
    last = [name for name in program.relations if name in derived and name not in read]
    return _only(program, _directed(program, "output") or last, "that rules end in", "output")


def _directed(program: Program, kind: str) -> list[str]:
    named = (directive.relation for directive in program.directives if directive.kind == kind)
    return list(dict.fromkeys(named))


def _only(program: Program, names: Sequence[str], what: str, option: str) -> Relation:
    if len(names) == 1:
        return program.relations[names[0]]
    listed = ", ".join(names or program.relations)
    problem = f"there are {len(names)} relations {what}" if names else f"there is no relation {what}"
    raise GpuEngineError(
        f"{problem}: {listed}\n  hint: name one of them: {option} => '{(names or [listed])[0]}'"
    )
