"""Where a program is evaluated: by one engine on the driver, by one on an executor, or by the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuengine.errors import SparkError
from gpuengine.evaluation.budget import Budget, parse_size, show_size
from gpuengine.language.program import Program, Relation
from gpuengine.spark_bridge.carriers import has_no_carrier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = ("auto", "driver", "executor", "cluster")

_BYTES_PER_VALUE = 32
"""What a value takes in a table with its indexes and its share of the dictionary, about, counting as many
derived facts as given ones."""


@dataclass(frozen=True, slots=True)
class Place:
    """`where` is one of `PLACES` but ``auto``; `why` is a short sentence for a user."""

    where: str
    why: str


def choose_place(
    spark: SparkSession,
    program: Program,
    rows: Mapping[str, int],
    asked: str,
    memory: int | None = None,
) -> Place:
    """Where to evaluate a program over inputs of so many rows; raises `SparkError` if it can't be there."""
    if asked not in PLACES:
        raise SparkError(f"no place {asked!r} to evaluate at\n  hint: it is one of {', '.join(PLACES)}")
    only_one = needs_one_engine(program)
    if asked == "cluster" and only_one:
        raise SparkError(f"a cluster can't evaluate this program: {only_one}\n  hint: where='driver'")
    if asked == "executor" and has_no_carrier(program):
        raise SparkError(f"no executor can: {has_no_carrier(program)}\n  hint: where='driver'")
    if asked != "auto":
        return Place(asked, "it was asked for")
    needed = _needed_bytes(program.relations, rows)
    room = Budget(memory).limit
    if only_one:
        return Place("driver", only_one)
    told = f"{sum(rows.values()):,} facts may take {show_size(needed)}"
    if needed <= room:
        return Place("driver", f"{told}, of {show_size(room)} that an engine on the driver has")
    executor = _executor_memory(spark)
    if needed <= executor:
        return Place("executor", f"{told}, of {show_size(executor)} that an executor has")
    return Place("cluster", f"{told}, too much for one engine")


def needs_one_engine(program: Program) -> str:
    """Why a program can't be evaluated in parts; empty if it can."""
    limited = [directive.relation for directive in program.directives if directive.kind == "limitsize"]
    if limited:
        return f"{limited[0]} has a .limitsize, which only one engine can count to"
    return has_no_carrier(program)


def _needed_bytes(relations: Mapping[str, Relation], rows: Mapping[str, int]) -> int:
    return sum(count * max(1, relations[name].arity) * _BYTES_PER_VALUE for name, count in rows.items())


def _executor_memory(spark: SparkSession) -> int:
    """What Python has on an executor; 0 if there are none but the driver."""
    context = spark.sparkContext
    master = context.master or ""
    if master == "local" or master.startswith("local["):
        return 0
    conf = context.getConf()
    own = conf.get("spark.executor.pyspark.memory")
    if own is not None:
        return _size(own)
    # Python's memory is outside of the JVM's; that there is as much of it as of that is a guess.
    return _size(conf.get("spark.executor.memory", "1g") or "1g")


def _size(text: str) -> int:
    """As Spark writes sizes: ``2g``, ``512m``, or a number of MiB."""
    return int(text) << 20 if text.isdigit() else parse_size(text.removesuffix("b"))
