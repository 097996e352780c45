"""`encode`: DataFrames checked and encoded once, to be saved and used by several runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpuengine.language.editing import ProgramText
from gpuengine.loading import as_source
from gpuengine.planning.prepared import prepare
from gpuengine.spark_bridge.carriers import Carriers, find_carriers
from gpuengine.spark_bridge.checking import check_inputs
from gpuengine.spark_bridge.encoding import Encoded, encode_inputs
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.launching import check_session
from gpuengine.spark_bridge.materialisation import frames_of
from gpuengine.spark_bridge.shipping import ship_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def encode(
    spark: SparkSession,
    program: str | os.PathLike[str],
    inputs: Mapping[str, DataFrame | str],
    *,
    extending: Encoded | None = None,
    integers: bool = False,
    nulls: Literal["fail", "drop"] = "fail",
    include_dirs: Sequence[os.PathLike[str]] = (),
    macros: Mapping[str, str] | None = None,
) -> Encoded:
    """Inputs as the cluster evaluates them: checked, terms as ids of a distributed dictionary, distinct.

    `Encoded.save` and `load_encoded` keep them as Parquet, `materialise` takes them in place of DataFrames.
    The same terms get the same ids, whatever the cluster. With `extending`, its dictionary grows by the terms
    that are new, and no id changes. Symbols are encoded unless a rule of the program looks inside of them;
    with `integers`, numbers likewise.
    """
    check_session(spark)
    ship_package(spark)
    directories = [Path(directory) for directory in include_dirs]
    text = ProgramText.read(as_source(program), include_dirs=directories, macros=macros)
    prepared = prepare(text, None)
    with spark_failures("encoding"):
        checked = check_inputs(prepared.program.relations, frames_of(spark, prepared, inputs), nulls=nulls)
        if extending is None:
            carriers, known = find_carriers(prepared.program, integers=integers), None
        else:
            carriers, known = Carriers(frozenset(extending.dictionaries)), extending.dictionaries
        return encode_inputs(spark, prepared.program, checked, carriers, known)
