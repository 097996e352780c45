"""Executors and Python workers that are killed in the middle: the same results, and an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_bridge.scripts import QUIET, run_script

pytestmark = pytest.mark.slow

SCRIPT = f"""
import os, signal, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from tests.spark_bridge.test_materialise import CLOSURE, ONLY, assert_same

builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for key, value in {QUIET!r}.items():
    builder = builder.config(key, value)
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
tracker = spark.sparkContext.statusTracker()


def processes(of):
    # Processes of this application: executors by its id, Python workers by the executor they belong to.
    found = {{}}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            found[int(folder.name)] = (command, parent)
    executors = [pid for pid, (command, _) in found.items()
                 if "CoarseGrainedExecutorBackend" in command and spark.sparkContext.applicationId in command]
    if of == "executor":
        return executors
    daemons = [pid for pid, (_, parent) in found.items() if parent in executors]
    return [pid for pid, (_, parent) in found.items() if parent in daemons]


def kill_one(of):
    pids = processes(of)
    if pids:
        os.kill(pids[0], signal.SIGKILL)
        killed.append(of)
    return bool(pids)


def kill_when_busy(of):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if tracker.getActiveStageIds() and kill_one(of):
            return
        time.sleep(0.02)


def kill_at_round(number):
    def listen(text):
        heard.append(text)
        if f"round {{number}} " in text and not killed:
            kill_one("executor")
    return listen


CHAIN = [(n, n + 1) for n in range(6)]
MANY = [(100 * c + n, 100 * c + n + 1) for c in range(80) for n in range(60)]


def check(name, facts, method, **options):
    started = time.monotonic()
    report = assert_same(spark, CLOSURE, {{"edge": facts}}, where="cluster", limits=ONLY[method], **options)
    assert killed, name
    assert {{stratum.method for stratum in report.strata}} == {{method}}, report
    print(name, round(time.monotonic() - started, 1), flush=True)


killed, heard = [], []
check("rounds", CHAIN, "rounds", watch=kill_at_round(2))
assert any("beginning anew" in text for text in heard), heard
killed, heard = [], []
check("rounds, kept in files", CHAIN, "rounds", watch=kill_at_round(2), checkpoint=sys.argv[1])
assert not any("beginning anew" in text for text in heard), heard
for of in ("executor", "worker"):
    killed = []
    threading.Thread(target=kill_when_busy, args=(of,), daemon=True).start()
    check(f"decomposed, {{of}}", MANY, "decomposed")
print("done")
spark.stop()
"""


def test_what_is_killed_is_done_again(tmp_path: Path) -> None:
    assert run_script(SCRIPT, tmp_path, str(tmp_path / "checkpoint"), timeout=300).endswith("done\n")
