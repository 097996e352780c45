"""Executors that are processes of their own: the same results, by two of them, speculative tasks or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_bridge.scripts import QUIET, run_script

pytestmark = pytest.mark.slow

SCRIPT = f"""
from pyspark.sql import SparkSession
from tests.spark_bridge.test_computing import assert_same_rows
from tests.spark_bridge.test_materialise import CLOSURE, EDGES, ONLY, assert_same

builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for key, value in {QUIET!r}.items():
    builder = builder.config(key, value)
# Tasks are started twice as soon as some are a little slower than others.
for key, value in {{"": "true", ".quantile": "0.1", ".multiplier": "1.01", ".interval": "10ms",
                   ".minTaskRuntime": "1ms"}}.items():
    builder = builder.config(f"spark.speculation{{key}}", value)
# With the Java that Spark generates, which other tests do without.
for key, value in {{"wholeStage": "true", "factoryMode": "FALLBACK"}}.items():
    builder = builder.config(f"spark.sql.codegen.{{key}}", value)
spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()

PROGRAM = '''
.decl item(k: symbol, n: number, u: unsigned, f: float)
.decl link(a: symbol, b: symbol)
.decl linked(a: symbol, b: symbol)
.decl lone(a: symbol)
.decl sums(a: symbol, n: number, u: unsigned)
.decl most(a: symbol, u: unsigned, m: float, c: number)
.decl text(a: symbol, l: number)
.decl holds()
linked(a, b) :- link(a, b).
linked(a, c) :- linked(a, b), linked(b, c).
lone(k) :- item(k, _, _, _), !linked(k, _).
sums(k, n, u) :- item(k, _, _, _), n = sum x : {{ item(k, x, _, _) }}, u = min x : {{ item(k, _, x, _) }}.
most(k, u, m, c) :- item(k, _, _, _), u = max x : {{ item(k, _, x, _) }},
    m = mean x : {{ item(k, _, _, x) }}, c = count : {{ item(k, _, _, _) }}.
TEXT
holds() :- lone(_).
'''
NAMES = ["a", "", "\u00fc 'q'", "d"]
ITEMS = [(NAMES[i % 4], (-1) ** i * 2 ** (62 - i % 3), 2**64 - 1 - i * 2**62, i / 4 - 1) for i in range(4)]
ITEMS += [(name, n, u, f - 0.5) for name, n, u, f in ITEMS]
LINKS = [("a", ""), ("", "d"), ("d", "e"), ("e", "a")]
FACTS = {{"item": ITEMS, "link": LINKS}}

for method in ("condensed", "decomposed", "exchanged", "rounds"):
    report = assert_same(spark, CLOSURE, {{"edge": EDGES}}, where="cluster", limits=ONLY[method])
    assert [stratum.method for stratum in report.strata] == [method]
# With the functor, symbols travel as text; without, as ids.
with_text = PROGRAM.replace("TEXT", "text(cat(k, k), strlen(k)) :- item(k, _, _, _).")
assert assert_same(spark, with_text, FACTS, where="executor").where == "executor"
assert_same_rows(spark, PROGRAM.replace("TEXT", ""), FACTS)

ran = {{}}
executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)
for n in range(executors.size()):
    executor = executors.apply(n)
    ran[executor.id()] = executor.totalTasks()
print({{name: tasks for name, tasks in ran.items() if name != "driver"}})
assert sum(tasks > 0 for name, tasks in ran.items() if name != "driver") == 2, ran
print("done")
spark.stop()
"""


def test_two_executors(tmp_path: Path) -> None:
    assert run_script(SCRIPT, tmp_path, timeout=300).endswith("done\n")
