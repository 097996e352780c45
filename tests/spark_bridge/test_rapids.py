"""What the RAPIDS Accelerator says of the plans that the bridge issues: which of them would run on the GPU.

It only explains: that needs no GPU. The bridge runs in another process, where every frame is explained before
it is computed.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gpuengine.spark_bridge.sessions import RAPIDS_VERSION
from tests.spark_bridge.rapids_jar import fetch_rapids_jar, not_on_gpu
from tests.spark_bridge.scripts import ROOT, run_script, start_script

NOT_ON_GPU = {
    "LocalTableScanExec": "tables that the driver holds",
    "RDDScanExec": "rounds without a checkpoint directory",
    "CollectLimitExec": "a few rows for the driver",
    "FileSourceScanExec": "text",
    "Invoke": "the check of binary columns",
    "PythonUDF": "what is packed for the driver",
}
"""What of ours runs on the CPU, by the name that RAPIDS has for it. docs/spark.md tells more of each."""

START = """
import json, re, sys
import pyarrow as pa
from pyspark.sql import SparkSession, functions as F
jar, folder = sys.argv[1:3]
def start(**conf):
    builder = SparkSession.builder.master("local[1]").config("spark.driver.extraClassPath", jar)
    settings = {
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2",
        # The cache's serializer, as `session(rapids=True)` sets it, would use the GPU but for this.
        "spark.rapids.sql.mode": "explainOnly",
        "spark.sql.cache.serializer": "com.nvidia.spark.ParquetCachedBatchSerializer",
    }
    settings.update({name.replace("_", "."): value for name, value in conf.items()})
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
"""

# Frames come from Parquet and are kept as Parquet, as they should be for a GPU. Thresholds are set so that
# few rows do what many would.
BRIDGE = '''
import gpuengine.spark_bridge.dictionary as dictionary
import gpuengine.spark_bridge.frames as frames
import gpuengine.spark_bridge.strata as strata
from gpuengine.spark_bridge import Limits, materialise

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl weight(x: symbol, w: unsigned, f: float, n: number)
.decl path(x: symbol, y: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
.decl far(x: symbol, y: symbol)
far(x, y) :- path(x, y), !edge(x, y).
.decl degree(x: symbol, n: number, s: number, m: number)
degree(x, n, s, m) :- edge(x, _), n = count : { edge(x, _) }, s = sum v : { weight(x, _, _, v) },
    m = min v : { weight(x, _, _, v) }.
.decl heavy(x: symbol, w: unsigned, f: float)
heavy(x, w, f) :- weight(x, w, f, n), n * 2 > 6.
.decl cyclic()
cyclic() :- path(x, x), !edge("n0", "n9").
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y), x != "n1".
reach(x, z) :- reach(x, y), edge(y, z), !heavy(z, _, _).
.decl same(x: symbol, y: symbol)
same(x, y) :- edge(x, y).
same(x, y) :- same(y, x).
same(x, z) :- same(x, y), same(y, z).
"""

def make_inputs(spark, folder):
    edges = [("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n2")]
    spark.createDataFrame(edges, "x string, y string").write.parquet(folder + "/edge")
    columns = ("concat('n', id) x", "cast(id as decimal(20,0)) w", "id / 2D f", "id n")
    weights = spark.range(6).selectExpr(*columns)
    weights.write.parquet(folder + "/weight")

def run(spark, folder, name, wanted, *methods):
    inputs = {name: spark.read.parquet(folder + "/" + name) for name in ("edge", "weight")}
    limits = Limits(methods=methods)
    with materialise(spark, PROGRAM, inputs, where="cluster", wanted=wanted, limits=limits,
                     checkpoint=folder + "/checkpoint-" + name) as results:
        counts = {name: results[name].count() for name in results}
        return counts, [stratum.method for stratum in results.report.strata]

def broadcast(spark, folder):
    dictionary._LOCAL_ROWS = 0
    wanted = ["path", "far", "degree", "heavy", "cyclic"]
    return run(spark, folder, "broadcast", wanted, "rounds")

def shuffled(spark, folder):
    dictionary.BROADCAST_BYTES = dictionary._FEW_VALUES = frames.BROADCAST_ROWS = strata.SMALL_DELTA = 0
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    return run(spark, folder, "shuffled", ["path", "far", "degree"], "rounds")

def parts(spark, folder):
    return run(spark, folder, "parts", ["reach", "same"], "decomposed", "condensed")
'''

# What Spark is asked to compute is explained first.
WATCH = """
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.readwriter import DataFrameWriter
explained = []
joins = set()
def explain(frame):
    return spark._jvm.com.nvidia.spark.rapids.ExplainPlan.explainPotentialGpuPlan(frame._jdf, "ALL")
def watch(kind, action, frame_of):
    original = getattr(kind, action)
    def watched(self, *args, **options):
        frame = frame_of(self)
        explained.append(explain(frame))
        plan = frame._jdf.queryExecution().executedPlan().toString()
        joins.update(map(" ".join, re.findall(r"(\\w+Join) .*, (Inner|Left\\w+)", plan)))
        return original(self, *args, **options)
    setattr(kind, action, watched)
def watch_all():
    watch(DataFrame, "count", lambda frame: frame.groupBy().count())
    for action in ("collect", "first", "toArrow", "toLocalIterator", "localCheckpoint", "persist"):
        watch(DataFrame, action, lambda frame: frame)
    for action in ("parquet", "save"):
        watch(DataFrameWriter, action, lambda writer: writer._df)
"""

EXPLAIN = """
spark = start()
make_inputs(spark, folder)
watch_all()
found = {}
for step in (broadcast, shuffled, parts):
    counts, methods = step(spark, folder)
    found[step.__name__] = {"counts": counts, "methods": methods, "plans": list(explained)}
    found[step.__name__]["joins"] = sorted(joins)
    explained.clear()
    joins.clear()
"""

ON_CPU = """
from gpuengine.engine import Engine
from gpuengine.spark_bridge.checking import check_inputs
from gpuengine.spark_bridge.datasets import read_dataset
from gpuengine.spark_bridge.frames import _packed
spark.range(9).selectExpr("id c0", "id * 2 c1").write.parquet(folder + "/pairs")
pairs = spark.read.parquet(folder + "/pairs")
with open(folder + "/e.facts", "w") as file:
    file.write("1\\ta\\n")
engine = Engine(".decl e(x: number, y: symbol)")
on_cpu = {
    "LocalTableScanExec": explain(spark.createDataFrame(pa.table({"c0": [1]}))),
    "RDDScanExec": explain(pairs.distinct().localCheckpoint().filter("c0 > 3")),
    "CollectLimitExec": explain(pairs.limit(3)),
    "FileSourceScanExec": explain(read_dataset(spark, folder + "/e.facts", engine.declared("e"))),
    "PythonUDF": explain(_packed(pairs)),
}
explained.clear()
check_inputs(engine.relations, {"e": pairs.selectExpr("c0 x", "cast(cast(c1 as string) as binary) y")})
on_cpu["Invoke"] = explained[-1]
print(json.dumps([found, on_cpu]))
spark.stop()
"""

# The plugin writes its explanations to the log: one for each query, when it is run.
RUN = """
spark = start(spark_plugins="com.nvidia.spark.SQLPlugin", spark_sql_adaptive_enabled="false")
make_inputs(spark, folder)
print("LOG BEGINS", file=sys.stderr, flush=True)
counts, methods = broadcast(spark, folder)
print("LOG ENDS", file=sys.stderr, flush=True)
print(json.dumps(counts))
spark.stop()
"""

EXPLAINED = """
*Exec <ProjectExec> will run on GPU
  *Expression <Alias> c0#10L AS x#7L will run on GPU
    ^ <FormatString> format_string(%d, c0#4L) will run on GPU via CPU bridge because there is no other way
      ^Expression <Hex> hex(c0#4L) will run on GPU via CPU bridge because it avoids excess transfers
  #Exec <SortExec> could run on GPU but is going to be removed because replacing sortMergeJoin
    !Exec <InMemoryTableScanExec> cannot run on GPU because ParquetCachedBatchSerializer is not being used
      @Expression <AttributeReference> c0#4L could run on GPU
  @Exec <FilterExec> could run on GPU because it ends with
 a line of its own
"""


def names_in(lines: list[str]) -> set[str]:
    """What the lines of an explanation are about."""
    found = [re.search(r"<(\w+)>", line) for line in lines]
    return {match[1] if match else line for match, line in zip(found, lines, strict=True)}


def test_the_lines_that_tell_of_the_cpu() -> None:
    found = [line.partition(">")[0] for line in not_on_gpu(EXPLAINED)]
    assert found == [
        "^ <FormatString",
        "^Expression <Hex",
        "!Exec <InMemoryTableScanExec",
        "@Exec <FilterExec",
    ]
    assert not_on_gpu(EXPLAINED)[-1].endswith("ends with a line of its own")
    assert not_on_gpu("*Exec <MapInArrowExec> will partially run on GPU\n\n") == []
    with pytest.raises(ValueError, match="not a line of an explanation"):
        not_on_gpu("could not be planned")


def test_the_docs_name_what_would_not_run_on_the_gpu() -> None:
    page = (ROOT / "docs" / "spark.md").read_text()
    section = page.partition("### What would not run on the GPU")[2].partition("\n#")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(NOT_ON_GPU)


@pytest.mark.slow
def test_the_docs_pair_the_jar_with_the_versions_of_spark_that_it_knows() -> None:
    with zipfile.ZipFile(fetch_rapids_jar()) as jar:
        known = {match[1] for name in jar.namelist() if (match := re.match(r"spark(\d{3})/", name))}
    assert told_pairs() == known


def told_pairs() -> set[str]:
    """The versions of Spark that the docs pair with the jar, without their dots."""
    page = (ROOT / "docs" / "spark.md").read_text()
    table = page.partition(f"| jar of {RAPIDS_VERSION} | Spark |")[2].partition("\n\n")[0]
    told: set[str] = set()
    for minor, first, last in re.findall(r"\| (\d\.\d)\.(\d)(?: to \d\.\d\.(\d))?", table):
        told |= {f"{minor}{patch}".replace(".", "") for patch in range(int(first), int(last or first) + 1)}
    return told


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What is said of the bridge's steps, and of what is known not to run on the GPU, in one session."""
    jar, folder = fetch_rapids_jar(), tmp_path_factory.mktemp("explained")
    script = START + BRIDGE + WATCH + EXPLAIN + ON_CPU
    out = run_script(script, folder, str(jar), str(folder), timeout=560)
    said: list[dict[str, Any]] = json.loads(out.splitlines()[-1])
    return said


@pytest.mark.slow
def test_the_pipeline_and_the_rounds_would_run_on_the_gpu(explained: list[dict[str, Any]]) -> None:
    found, _ = explained
    allowed = {"LocalTableScanExec", "CollectLimitExec"}
    for step, one in found.items():
        lines = [line for plan in one["plans"] for line in not_on_gpu(plan)]
        assert names_in(lines) <= allowed, (step, [line for line in lines if not names_in([line]) <= allowed])
    # The steps did what they are there for.
    on_gpu = {
        step: set(re.findall(r"\*Exec <(\w+)>", "\n".join(one["plans"]))) for step, one in found.items()
    }
    assert {"BroadcastHashJoinExec", "HashAggregateExec", "WindowExec", "ShuffleExchangeExec"} <= on_gpu[
        "broadcast"
    ]
    assert {"SortMergeJoinExec", "ShuffleExchangeExec", "FileSourceScanExec"} <= on_gpu["shuffled"]
    assert {"MapInArrowExec", "InMemoryTableScanExec", "ShuffleExchangeExec"} <= on_gpu["parts"]
    for step, joins in (("broadcast", "BroadcastHashJoin"), ("shuffled", "SortMergeJoin")):
        assert {f"{joins} {kind}" for kind in ("Inner", "LeftAnti", "LeftOuter")} <= set(found[step]["joins"])
    assert set(found["parts"]["methods"]) >= {"decomposed", "condensed"}
    assert "rounds" in found["broadcast"]["methods"] and "rounds" in found["shuffled"]["methods"]
    assert found["broadcast"]["counts"]["path"] == found["shuffled"]["counts"]["path"] == 16
    assert found["broadcast"]["counts"]["cyclic"] == 1


@pytest.mark.slow
def test_what_would_not_is_known_by_name(explained: list[dict[str, Any]]) -> None:
    _, found = explained
    assert set(found) == set(NOT_ON_GPU)
    for name, text in found.items():
        assert [line for line in not_on_gpu(text) if line[0] == "!" and f"<{name}>" in line], text


@pytest.mark.slow
def test_the_plugin_itself_says_so_too(tmp_path: Path) -> None:
    jar = fetch_rapids_jar()
    done = start_script(START + BRIDGE + RUN, tmp_path, str(jar), str(tmp_path), timeout=560)
    assert done.returncode == 0, done.stderr[-6000:]
    assert json.loads(done.stdout.splitlines()[-1])["path"] == 16
    log = done.stderr.partition("LOG BEGINS")[2].partition("LOG ENDS")[0]
    lines = [line for line in log.splitlines() if re.match(r"\s*[*#!@^]\s?(\w+ )?<", line)]
    off = not_on_gpu("\n".join(lines))
    assert names_in(off) <= {"LocalTableScanExec", "CollectLimitExec"}, off
    for part in ("InMemoryTableScanExec", "BroadcastHashJoinExec", "HashAggregateExec", "WindowExec"):
        assert f"*Exec <{part}> will run on GPU" in log
    assert "<InsertIntoHadoopFsRelationCommand> will run on GPU" in log
