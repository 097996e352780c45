"""Checked inputs as frames of carriers, and frames of carriers as what a user reads.

Encoded inputs can be saved and used again: a directory with ``encoded.json``, written last, beside
``relations/NAME`` and ``terms/SPACE``, both Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gpuengine.errors import DataError
from gpuengine.language.program import Kind, Program, Relation
from gpuengine.spark_bridge.carriers import ID_SPACES, Carriers, column, symbol_constants
from gpuengine.spark_bridge.checking import Checked
from gpuengine.spark_bridge.dictionary import TermDictionary
from gpuengine.spark_bridge.filesystem import FileSystem, join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFEST = "encoded.json"
VERSION = 1
HOLDS = "holds"
"""The one column that a user sees of a relation without columns."""

_NAN_BITS = 0x7FF8000000000000

Constants = Mapping[str, Mapping[int | float | str, int]]


class Dictionaries(Mapping[str, TermDictionary]):
    """The dictionaries of the encoded spaces, by space."""

    def __init__(self, by_space: Mapping[str, TermDictionary]) -> None:
        self._by_space = dict(by_space)

    @classmethod
    def load(
        cls, spark: SparkSession, paths: Mapping[str, str], *, used: Collection[str] = ID_SPACES
    ) -> Dictionaries:
        """What `TermDictionary.save` wrote, each at the path of its space; those not `used` stay empty."""
        return cls(
            {
                space: TermDictionary.load(spark, path)
                if space in used
                else TermDictionary.empty(spark, _kind(space))
                for space, path in paths.items()
            }
        )

    def __getitem__(self, space: str) -> TermDictionary:
        return self._by_space[space]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_space)

    def __len__(self) -> int:
        return len(self._by_space)

    def release(self) -> None:
        """Have the executors forget them."""
        for dictionary in self._by_space.values():
            dictionary.release()


@dataclass(frozen=True)
class Encoded:
    """Inputs as carriers: `frames` by relation, of distinct rows, lazy; `constants` are ids by space.

    `spaces` are those of the columns of each frame, for the check that a saved one fits a program.
    """

    frames: Mapping[str, DataFrame]
    dictionaries: Dictionaries
    constants: Constants
    spaces: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def save(self, path: str) -> None:
        """Write all but the constants, which belong to a program, to a directory that has no saved inputs."""
        from pyspark.sql import SparkSession

        files = FileSystem(SparkSession.active())
        if files.exists(join(path, MANIFEST)):
            raise DataError(
                f"{path}: encoded inputs are there already\n  hint: delete them, or choose another directory"
            )
        for name, frame in self.frames.items():
            frame.write.mode("overwrite").parquet(_relation_path(path, name))
        for space, dictionary in self.dictionaries.items():
            dictionary.save(_terms_path(path, space))
        manifest = {
            "version": VERSION,
            "encoded": sorted(self.dictionaries),
            "relations": {name: list(self.spaces[name]) for name in self.frames},
        }
        files.write_text(join(path, MANIFEST), json.dumps(manifest, indent=1))

    def fitted(self, spark: SparkSession, program: Program, carriers: Carriers) -> Encoded:
        """As inputs of a program: with the ids of its constants. Raises `DataError` if they don't fit it."""
        _check_fit(self, program, carriers)
        own = encode_inputs(spark, program, {}, carriers, self.dictionaries)
        return replace(self, dictionaries=own.dictionaries, constants=own.constants)


def used_spaces(program: Program) -> set[str]:
    """The spaces of which a program has columns or constants."""
    columns = {a.type.space for relation in program.relations.values() for a in relation.attributes}
    return columns | {space for space in ID_SPACES if symbol_constants(program, space)}


def is_encoded(spark: SparkSession, path: str) -> bool:
    """Has `Encoded.save` written a directory to the end?"""
    return FileSystem(spark).exists(join(path, MANIFEST))


def load_encoded(spark: SparkSession, path: str) -> Encoded:
    """What `Encoded.save` wrote; `Encoded.fitted` makes it the inputs of a program."""
    files = FileSystem(spark)
    if not files.is_directory(path):
        raise DataError(f"{path}: there is no such directory")
    if not files.exists(join(path, MANIFEST)):
        raise DataError(
            f"{path}: not complete: it has no {MANIFEST}, so it was not written to the end"
            "\n  hint: encode and save the inputs again"
        )
    try:
        manifest: dict[str, Any] = json.loads(files.read_text(join(path, MANIFEST)))
        version, encoded, relations = manifest["version"], manifest["encoded"], manifest["relations"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{join(path, MANIFEST)}: does not describe encoded inputs: {error}") from error
    if version != VERSION:
        raise DataError(
            f"{path}: written in version {version} of the format, and only version {VERSION} can be read"
            "\n  hint: encode and save the inputs again"
        )
    return Encoded(
        {name: spark.read.parquet(_relation_path(path, name)) for name in relations},
        Dictionaries.load(spark, {space: _terms_path(path, space) for space in encoded}),
        {},
        relations,
    )


def encode_inputs(
    spark: SparkSession,
    program: Program,
    checked: Mapping[str, Checked],
    carriers: Carriers,
    dictionaries: Dictionaries | None,
) -> Encoded:
    """Inputs as carriers, with ids for all their terms and for the constants of the program.

    `dictionaries` are extended, and no id in them changes. Computes the dictionaries; the frames are lazy.
    """
    if dictionaries is not None and set(dictionaries) != carriers.encoded:
        raise DataError(
            f"the dictionaries are of {_listed(dictionaries)}, but the program has ids for "
            f"{_listed(carriers.encoded)}\n  hint: use them with programs that look into the same types"
        )
    names = {
        name: {
            space: [
                column(j)
                for j, attribute in enumerate(program.relations[name].attributes)
                if attribute.type.space == space
            ]
            for space in carriers.encoded
        }
        for name in checked
    }
    extended: dict[str, TermDictionary] = {}
    constants: dict[str, dict[int | float | str, int]] = {}
    for space in sorted(carriers.encoded):
        present = TermDictionary.empty(spark, _kind(space)) if dictionaries is None else dictionaries[space]
        stated: list[Any] = symbol_constants(program, space)
        columns = [_as_one(checked[name].frame, each[space]) for name, each in names.items() if each[space]]
        rows = sum(checked[name].rows * len(each[space]) for name, each in names.items())
        if stated:
            columns.append(present.local_terms(stated))
        extended[space] = present.extended(columns, rows=rows + len(stated))
        constants[space] = extended[space].find(stated)
    frames: dict[str, DataFrame] = {}
    for name, one in checked.items():
        frame = one.frame
        for space, dictionary in extended.items():
            frame = dictionary.encode(frame, names[name][space], rows=one.rows)
        frame = _viewed(frame, _float_columns(program.relations[name]), to_bits=True)
        frames[name] = frame.distinct()
    spaces = {name: [a.type.space for a in program.relations[name].attributes] for name in checked}
    return Encoded(frames, Dictionaries(extended), constants, spaces)


def decode(frame: DataFrame, relation: Relation, carriers: Carriers, dictionaries: Dictionaries) -> DataFrame:
    """A frame of carriers as a user reads it: the declared names, and values of Spark's own types."""
    from pyspark.sql import functions as F

    if not relation.attributes:
        return frame.select(F.lit(True).alias(HOLDS))
    # Floats first, while the batches that go through Python have no text in them.
    frame = _viewed(frame, _float_columns(relation), to_bits=False)
    for space in sorted(carriers.encoded):
        names = [column(j) for j, a in enumerate(relation.attributes) if a.type.space == space]
        frame = dictionaries[space].decode(frame, names)
    values = []
    for j, attribute in enumerate(relation.attributes):
        value = F.col(column(j))
        if attribute.type.kind is Kind.UNSIGNED:
            # Bits of a negative bigint are those of a value that is greater by 2**64.
            wide = value.cast("decimal(20,0)")
            above = F.lit(str(2**64)).cast("decimal(20,0)")
            value = F.when(value < 0, wide + above).otherwise(wide).cast("decimal(20,0)")
        values.append(value.alias(attribute.name))
    return frame.select(*values)


def _as_one(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """The values of several columns in one, by one pass over the frame."""
    from pyspark.sql import functions as F

    return frame.select(*names) if len(names) == 1 else frame.select(F.explode(F.array(*names)))


def _float_columns(relation: Relation) -> list[str]:
    return [column(j) for j, a in enumerate(relation.attributes) if a.type.kind is Kind.FLOAT]


def _viewed(frame: DataFrame, names: Sequence[str], *, to_bits: bool) -> DataFrame:
    """Columns of doubles as bigints with the same bits, or back."""
    from pyspark.sql import types as T

    if not names:
        return frame
    new_type = T.LongType() if to_bits else T.DoubleType()
    fields = [T.StructField(f.name, new_type) if f.name in names else f for f in frame.schema.fields]
    return frame.mapInArrow(_view(frozenset(names), to_bits), T.StructType(fields))


def _view(names: frozenset[str], to_bits: bool) -> Callable[[Iterable[Any]], Iterable[Any]]:
    nan_bits = _NAN_BITS

    # Sent to the workers by value, so that it asks nothing of them but Arrow.
    def view(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        def viewed(values: Any) -> Any:
            if not to_bits:
                return values.view(pa.float64())
            bits = values.view(pa.int64())
            nan = pc.is_nan(values)
            return pc.if_else(nan, pa.scalar(nan_bits, pa.int64()), bits) if pc.any(nan).as_py() else bits

        for batch in batches:
            given = zip(batch.schema.names, batch.columns, strict=True)
            arrays = [viewed(values) if name in names else values for name, values in given]
            yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    return view


def _check_fit(encoded: Encoded, program: Program, carriers: Carriers) -> None:
    if set(encoded.dictionaries) != carriers.encoded:
        raise DataError(
            f"the saved inputs have ids for {_listed(encoded.dictionaries)}, but the program needs them for "
            f"{_listed(carriers.encoded)}\n  hint: encode the inputs again, for this program"
        )
    for name, spaces in encoded.spaces.items():
        declared = program.relations.get(name)
        if declared is None:
            raise DataError(f"the saved inputs have {name!r}, and the program has no such relation")
        wanted = [a.type.space for a in declared.attributes]
        if wanted != list(spaces):
            raise DataError(
                f"{name}: saved as ({', '.join(spaces)}), but the program declares ({', '.join(wanted)})"
                "\n  hint: encode the inputs again, for this program"
            )


def _kind(space: str) -> Any:
    assert space in ID_SPACES
    return space


def _listed(spaces: Any) -> str:
    return " and ".join(sorted(spaces)) or "no type"


def _relation_path(path: str, name: str) -> str:
    return join(path, "relations", quote(name, safe=""))


def _terms_path(path: str, space: str) -> str:
    return join(path, "terms", space)
