"""Progress in files: a run that was cut short goes on from the last completed round.

A checkpoint is a directory with ``progress.json`` and the frames it names, as Parquet. The JSON file is
replaced in one step after each round and each stratum, so that it always names complete frames. It has a
fingerprint of program, facts and what is wanted: a checkpoint of anything else is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from gpuengine.errors import SparkError
from gpuengine.language.program import Program
from gpuengine.spark_bridge.carriers import Carriers, column
from gpuengine.spark_bridge.filesystem import FileSystem, join
from gpuengine.spark_bridge.keeping import Held, Keeper, RoundState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROGRESS = "progress.json"
VERSION = 1


class CheckpointKeeper(Keeper):
    """Keeps every frame in a directory, and with it how far a run has come."""

    keeps_all = True

    def __init__(
        self, spark: SparkSession, path: str, program: Program, carriers: Carriers, fingerprint: str
    ) -> None:
        super().__init__()
        self._spark = spark
        self._path = path
        self._files = FileSystem(spark)
        self._program = program
        self._carriers = carriers
        self._progress: dict[str, Any] = {"version": VERSION, "fingerprint": fingerprint, "strata": {}}
        self._open(fingerprint)

    def _open(self, fingerprint: str) -> None:
        at = join(self._path, PROGRESS)
        if not self._files.exists(at):
            if self._files.exists(self._path) and self._files.list(self._path):
                raise SparkError(
                    f"{self._path} is no checkpoint, and not empty\n  hint: give a directory of its own"
                )
            self._write()
            return
        try:
            found = json.loads(self._files.read_text(at))
            version, mark = found["version"], found["fingerprint"]
        except (ValueError, KeyError, TypeError) as error:
            raise SparkError(f"{at} is damaged: {error}\n  hint: delete {self._path}") from error
        if (version, mark) != (VERSION, fingerprint):
            raise SparkError(
                f"{self._path} is a checkpoint of another program, of other facts or of other relations\n"
                "  hint: delete it, or give another directory"
            )
        self._progress = found

    def keep(self, name: str, frame: DataFrame) -> Held:
        path = join(self._path, "frames", name)
        frame.write.mode("overwrite").parquet(path)
        kept = self._read([path], frame)
        return Held(kept, kept.count(), (path,))

    def cut(self, name: str, frame: DataFrame) -> Held:
        return self.keep(name, frame)

    def earlier_results(self, stratum: int) -> dict[str, Held] | None:
        saved = self._progress["strata"].get(str(stratum))
        if saved is None:
            return None
        return {name: self._restored(name, one) for name, one in saved.items()}

    def earlier_round(self, stratum: int) -> RoundState | None:
        saved = self._progress.get("round")
        if saved is None or saved["stratum"] != stratum:
            return None
        pieces = {name: [self._restored(name, one) for one in each] for name, each in saved["pieces"].items()}
        delta = {name: pieces[name][-1] for name in saved["delta"]}
        return RoundState(saved["number"], pieces, delta)

    def round_done(self, stratum: int, state: RoundState) -> None:
        self._progress["round"] = {
            "stratum": stratum,
            "number": state.number,
            "pieces": {name: [_saved(one) for one in each] for name, each in state.pieces.items()},
            "delta": list(state.delta),
        }
        self._write()

    def stratum_done(self, stratum: int, results: Mapping[str, Held]) -> None:
        kept = {
            name: held if held.paths else self.keep(f"stratum-{stratum}/{name}/result", held.frame)
            for name, held in results.items()
        }
        self._progress["strata"][str(stratum)] = {name: _saved(held) for name, held in kept.items()}
        self._progress.pop("round", None)
        self._write()

    def _write(self) -> None:
        self._files.make_directories(self._path)
        self._files.write_text(join(self._path, PROGRESS), json.dumps(self._progress))

    def _restored(self, name: str, saved: Mapping[str, Any]) -> Held:
        schema = self._carriers.schema(self._program.relations[name]) or f"{column(0)} bigint"
        frame = self._spark.read.schema(schema).parquet(*saved["paths"])
        return Held(frame, saved["rows"], tuple(saved["paths"]))

    def _read(self, paths: list[str], like: DataFrame) -> DataFrame:
        return self._spark.read.schema(like.schema).parquet(*paths)


def _saved(held: Held) -> dict[str, Any]:
    return {"paths": list(held.paths), "rows": held.rows}


def fingerprint(program: Program, wanted: Iterable[str], facts: Mapping[str, tuple[int, int | None]]) -> str:
    """What tells runs apart: a carried program, what is wanted of it, and rows and digest of each input."""
    parts = [_spelled((rule.head, rule.body)) for rule in program.rules]
    parts += [
        _spelled((relation.name, relation.attributes, tuple(sorted(relation.qualifiers))))
        for relation in program.relations.values()
    ]
    parts += [repr(sorted(wanted)), repr(sorted(facts.items()))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _spelled(node: object) -> str:
    """A text of part of a program; where in a file it stands is no part of it."""
    if isinstance(node, tuple):
        return f"({', '.join(map(_spelled, node))})"
    if is_dataclass(node):
        parts = tuple(getattr(node, field.name) for field in fields(node) if field.compare)
        return type(node).__name__ + _spelled(parts)
    return repr(node)
