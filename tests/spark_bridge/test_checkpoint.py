"""Runs that were cut short, from where they were: killed drivers, and checkpoints that are refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuengine.engine import Engine
from gpuengine.errors import SparkError
from gpuengine.spark_bridge import encode, materialise
from tests.spark_bridge.scripts import ROOT
from tests.spark_bridge.test_materialise import ONLY, assert_same, engine_of, facts_of, frames_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PROGRAM = """
.decl edge(a: symbol, b: symbol)
.decl node(a: symbol)
.decl odd(a: symbol, b: symbol)
.decl even(a: symbol, b: symbol)
.decl uneven(a: symbol, b: symbol)
.input edge
.output uneven
.printsize edge, node, odd, even
node(x) :- edge(x, _).
node(x) :- edge(_, x).
odd(x, y) :- edge(x, y), node(x).
even(x, z) :- odd(x, y), edge(y, z).
odd(x, z) :- even(x, y), edge(y, z).
uneven(x, y) :- odd(x, y), !even(x, y).
"""
CHAIN = [(f"n{i}", f"n{i + 1}") for i in range(7)]
ROUNDS = ONLY["rounds"]

DRIVER = """
import sys
from pyspark.sql import SparkSession
from gpuengine.spark_bridge import Limits, materialise

spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2").getOrCreate())
program, edges, checkpoint = sys.argv[1:]
materialise(spark, program, {"edge": edges}, where="cluster", limits=Limits(methods=("rounds",)),
    checkpoint=checkpoint, watch=lambda text: print(text, flush=True))
print("not killed", flush=True)
"""


def run_until(command: Sequence[str], log: Path, is_time: Callable[[], bool], seconds: float = 120) -> None:
    """Start a process, and kill it and the JVM that it started once it is time; it must not end before."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with log.open("w") as written:
        process = subprocess.Popen(
            command, env=environment, stdout=written, stderr=subprocess.STDOUT, start_new_session=True
        )
    end = time.monotonic() + seconds
    try:
        while not is_time():
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.01)
        assert process.poll() is None, log.read_text()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, its facts as a dataset, and the checkpoint of a driver that was killed after round 3."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "program.dl").write_text(PROGRAM)
    edges = frames_of(spark, Engine(PROGRAM), {"edge": CHAIN})["edge"]
    edges.write.parquet(str(folder / "facts" / "edge.parquet"))
    script = folder / "driver.py"
    script.write_text(DRIVER)
    given = [str(folder / name) for name in ("program.dl", "facts/edge.parquet", "checkpoint")]
    log = folder / "driver.log"
    run_until([sys.executable, str(script), *given], log, lambda: "round 3 " in log.read_text())
    return folder


def checkpoint_of(files: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(files / "checkpoint", tmp_path / "checkpoint"))


def test_a_killed_driver_goes_on_from_the_last_round(spark: SparkSession, files: Path) -> None:
    at = str(files / "checkpoint")
    progress = json.loads(Path(at, "progress.json").read_text())
    done = progress["round"]["number"]
    assert done >= 3
    report = assert_same(spark, PROGRAM, {"edge": CHAIN}, where="cluster", limits=ROUNDS, checkpoint=at)
    methods = {stratum.relations: stratum.method for stratum in report.strata}
    assert methods == {("node",): "resumed", ("even", "odd"): "rounds", ("uneven",): "joins"}
    (rounds,) = [stratum.rounds for stratum in report.strata if stratum.method == "rounds"]
    assert rounds[0].number == done + 1
    report = assert_same(spark, PROGRAM, {"edge": CHAIN}, where="cluster", limits=ROUNDS, checkpoint=at)
    assert {stratum.method for stratum in report.strata} == {"resumed"}


def test_a_checkpoint_of_something_else_is_refused(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    at = checkpoint_of(files, tmp_path)
    before = _content(at)

    def refused(program: str, facts: Any, **options: Any) -> None:
        with pytest.raises(
            SparkError, match="is a checkpoint of another program, of other facts or of other"
        ):
            materialise(spark, program, facts, where="cluster", checkpoint=at, limits=ROUNDS, **options)

    def frames(edges: Sequence[tuple[str, str]]) -> Any:
        return frames_of(spark, Engine(PROGRAM), {"edge": edges})

    refused(PROGRAM, frames([*CHAIN[:-1], ("n6", "other")]))
    refused(PROGRAM, frames(CHAIN[:-1]))
    refused(PROGRAM.replace("node(x) :- edge(_, x).", ""), frames(CHAIN))
    refused(PROGRAM.replace("even(a: symbol, b: symbol)", "even(a: symbol, b: symbol) eqrel"), frames(CHAIN))
    refused(PROGRAM, frames(CHAIN), wanted=["node"])
    refused(PROGRAM, encode(spark, PROGRAM, frames(CHAIN[:-1])))
    assert _content(at) == before


def test_where_the_text_of_a_program_stands_is_nothing_to_a_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    at, facts = str(tmp_path / "checkpoint"), {"edge": CHAIN[:1]}
    assert_same(spark, PROGRAM, facts, where="cluster", limits=ROUNDS, checkpoint=at)
    moved = f"// a comment\n\n{PROGRAM}"
    report = assert_same(spark, moved, facts, where="cluster", limits=ROUNDS, checkpoint=at)
    assert {stratum.method for stratum in report.strata} == {"resumed"}


def test_encoded_inputs_are_told_apart_by_their_facts(spark: SparkSession, tmp_path: Path) -> None:
    program = ".decl e(a: number, b: number)\n.decl r(b: number)\nr(b) :- e(1, b).\n"
    at = str(tmp_path / "checkpoint")

    def run(row: tuple[int, int]) -> Any:
        encoded = encode(spark, program, {"e": spark.createDataFrame([row], "a bigint, b bigint")})
        return materialise(spark, program, encoded, checkpoint=at)["r"].collect()

    assert run((1, 2)) == run((1, 2)) == [(2,)]
    with pytest.raises(SparkError, match="of other facts"):
        run((1, 3))


def test_a_directory_of_something_else_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    frames = frames_of(spark, Engine(PROGRAM), {"edge": CHAIN})
    with pytest.raises(
        SparkError, match="is no checkpoint, and not empty\n  hint: give a directory of its own"
    ):
        materialise(spark, PROGRAM, frames, where="cluster", checkpoint=str(tmp_path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["precious.txt"]
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "progress.json").write_text('{"version": ')
    with pytest.raises(SparkError, match=r"progress\.json is damaged"):
        materialise(spark, PROGRAM, frames, where="cluster", checkpoint=str(damaged))


def test_the_command_line_goes_on_too(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpuengine", "run", str(files / "program.dl"), "--on", "spark", "--json"]
    command += ["--master", "local[2]", "--where", "cluster", "-F", str(files / "facts"), "--quiet"]
    command += ["-D", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "checkpoint")]
    progress = tmp_path / "checkpoint" / "progress.json"

    def has_a_stratum() -> bool:
        return progress.exists() and "0" in json.loads(progress.read_text())["strata"]

    run_until(command, tmp_path / "log", has_a_stratum)
    assert not (tmp_path / "out" / "uneven.parquet").exists()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    expected = engine_of(PROGRAM, {"edge": CHAIN})
    assert report["spark"]["strata"][0]["method"] == "resumed"
    assert report["relations"] == {name: len(facts_of(expected, name)) for name in expected.relations}
    written = spark.read.parquet(str(tmp_path / "out" / "uneven.parquet")).collect()
    assert sorted(repr(tuple(row)) for row in written) == facts_of(expected, "uneven")


def _content(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
