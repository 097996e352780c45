"""Saved materialisations that follow tables of Delta or Iceberg: what changed since the last time goes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gpuengine.errors import DataError
from gpuengine.spark_bridge.checking import check_inputs
from gpuengine.spark_bridge.declarations import columns_for
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.filesystem import FileSystem
from gpuengine.spark_bridge.saved import SavedMaterialisation
from gpuengine.spark_bridge.strata import Limits
from gpuengine.spark_bridge.table_formats import DELTA, ICEBERG, read_table, table_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CAME = ("insert", "update_postimage")
_KEEPS_ROWS = ("append", "replace")


def follow(
    saved: SavedMaterialisation,
    relation: str,
    table: str,
    *,
    nulls: Literal["fail", "drop"] = "fail",
    limits: Limits | None = None,
) -> dict[str, int]:
    """Bring the facts of a relation up to what a table is now; says by how many facts relations changed.

    `table` is the path or the name of a table of Delta, whose change data feed must be on, or of Iceberg, in
    which rows are only added. The first call inserts all rows, later ones what changed since: the version of
    the table is committed with the facts. Nothing else should state or delete facts of the relation. Rows
    that went are deleted in a commit of their own, before; if the second fails, the next call does both.
    """
    spark = saved.spark
    with spark_failures(f"following {table}"):
        followed = _table(spark, table)
        newest = followed.newest()
        saved.refresh()
        since = saved.last_batch(followed.stream)
        if since == newest:
            return {}
        declared = saved.declared(relation)
        now = followed.at(newest)
        columns = [now.columns[at] for at in columns_for(declared, now.schema)]
        facts = now.select(*(now[f"`{name}`"] for name in columns))
        changes = _Changes(facts, None) if since is None else followed.changes(since, newest, columns, facts)
        changed: dict[str, int] = {}
        if changes.went is not None and not changes.went.isEmpty():
            check_inputs({relation: declared}, {relation: changes.came}, nulls=nulls)
            changed = saved.delete({relation: changes.went}, nulls="drop", limits=limits)
        batch = (followed.stream, newest)
        gained = saved.insert({relation: changes.came}, nulls=nulls, limits=limits, batch=batch)
        total = {name: changed.get(name, 0) + gained.get(name, 0) for name in {**changed, **gained}}
        return {name: rows for name, rows in total.items() if rows}


@dataclass(frozen=True)
class _Changes:
    """Rows that came and, if any went, those that did; as the columns of a relation."""

    came: DataFrame
    went: DataFrame | None


def _table(spark: SparkSession, name: str) -> _Delta | _Iceberg:
    files = FileSystem(spark)
    if files.is_directory(name):
        format = table_format(files, name)
        stream = files.qualified(name)
    else:
        stream, format = name, _provider(spark, name)
    if format == DELTA:
        return _Delta(spark, name, f"{DELTA}:{stream}", is_path=stream != name or "/" in name)
    if format == ICEBERG:
        return _Iceberg(spark, name, f"{ICEBERG}:{stream}", is_path=stream != name or "/" in name)
    raise DataError(
        f"{name} is no table of Delta or Iceberg, which have versions\n"
        "  hint: insert the new facts: saved.insert({…: df})"
    )


def _provider(spark: SparkSession, name: str) -> str | None:
    """The format of a table of a catalog."""
    if not spark.catalog.tableExists(name):
        raise DataError(f"there is no table {name}, and no folder of that name")
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Provider'").first()
    return None if described is None else str(described["data_type"]).lower()


@dataclass(frozen=True)
class _Delta:
    """Versions are numbers from 0; the change data feed has the rows that came and went with each."""

    spark: SparkSession
    name: str
    stream: str
    is_path: bool

    def newest(self) -> int:
        named = f"delta.`{self.name}`" if self.is_path else self.name
        if self.is_path:
            read_table(self.spark, self.name, DELTA)  # says so if there is no package
        row: Any = self.spark.sql(f"DESCRIBE HISTORY {named} LIMIT 1").first()
        return int(row["version"])

    def at(self, version: int) -> DataFrame:
        return self._read(versionAsOf=str(version))

    def changes(self, since: int, until: int, columns: list[str], now: DataFrame) -> _Changes:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            feed = self._read(
                readChangeFeed="true", startingVersion=str(since + 1), endingVersion=str(until)
            ).select("_change_type", *(f"`{name}`" for name in columns))
            feed = feed.distinct()
            is_came = feed["_change_type"].isin(*_CAME)
            only_came = feed.where(~is_came).isEmpty()
        except (PySparkException, Py4JError) as error:
            if "CHANGE_DATA" not in str(error) and "change data" not in str(error).lower():
                raise
            raise DataError(
                f"{self.name} has no change data feed from version {since + 1} to {until}\n  hint: ALTER "
                "TABLE … SET TBLPROPERTIES (delta.enableChangeDataFeed = true), and materialise anew once"
            ) from error
        came, went = (feed.where(one).drop("_change_type") for one in (is_came, ~is_came))
        if only_came:
            return _Changes(came, None)
        # A row may have come and gone, or be there once more: what is there now decides.
        return _Changes(came.intersect(now), went.subtract(now))

    def _read(self, **options: str) -> DataFrame:
        reader = self.spark.read.options(**options)
        return reader.format(DELTA).load(self.name) if self.is_path else reader.table(self.name)


@dataclass(frozen=True)
class _Iceberg:
    """Snapshots go by the milliseconds at which they became the current one."""

    spark: SparkSession
    name: str
    stream: str
    is_path: bool

    def newest(self) -> int:
        history = self._history()
        if not history:
            raise DataError(f"{self.name} has no snapshot yet\n  hint: write to it first")
        return max(history)

    def at(self, version: int) -> DataFrame:
        return self._load("", **{"snapshot-id": str(self._history()[version][0])})

    def changes(self, since: int, until: int, columns: list[str], now: DataFrame) -> _Changes:
        history = self._history()
        if since not in history:
            raise DataError(
                f"the snapshot of {self.name} that was followed is not in its history any more: it expired, "
                "or the table was rolled back\n  hint: materialise anew"
            )
        for at, (snapshot, operation) in history.items():
            if since < at <= until and operation not in _KEEPS_ROWS:
                raise DataError(
                    f"snapshot {snapshot} of {self.name} is of the kind {operation!r}: it takes rows out, "
                    "which Iceberg has no incremental reading for\n  hint: materialise anew"
                )
        ends = {"start-snapshot-id": str(history[since][0]), "end-snapshot-id": str(history[until][0])}
        came = self._load("", **ends)
        return _Changes(came.select(*(came[f"`{name}`"] for name in columns)), None)

    def _history(self) -> dict[int, tuple[int, str]]:
        """(snapshot, operation) of the table's present line of snapshots, by when each became current."""
        snapshots = self._load("snapshots").select("snapshot_id", "operation")
        history = self._load("history").where("is_current_ancestor")
        rows = history.join(snapshots, "snapshot_id").selectExpr(
            "unix_millis(made_current_at) at", "snapshot_id", "operation"
        )
        return {row["at"]: (row["snapshot_id"], row["operation"]) for row in rows.collect()}

    def _load(self, part: str, **options: str) -> DataFrame:
        if self.is_path:
            read_table(self.spark, self.name, ICEBERG)
        at = f"{self.name}{'#' if self.is_path else '.'}{part}" if part else self.name
        return self.spark.read.format(ICEBERG).options(**options).load(at)
