"""``gpuengine run --on spark`` as a user types it; each run starts a Spark of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gpuengine import Engine
from tests.cli.processes import COMMAND, gpuengine, reach_project

ON_SPARK = ("--on", "spark", "--master", "local[2]", "--conf", "spark.ui.enabled=false")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--master", "local[2]"), "--master goes with --on spark only"),
        (("--conf", "a=b"), "--conf goes with --on spark only"),
        (("--rapids",), "--rapids goes with --on spark only"),
        (("--on", "spark", "-j", "2"), "-j does not go with --on spark"),
        (("--on", "spark", "--backend", "cpu"), "--backend does not go with --on spark"),
        (("--on", "spark", "--on-error", "skip"), "--on-error does not go with --on spark"),
        (("--on", "spark", "--conf", "nothing"), "is not KEY=VALUE"),
        (("--on", "spark", "--where", "moon"), "invalid choice"),
    ],
)
def test_options_of_the_other_place_are_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = gpuengine("run", "reach.dl", *options, cwd=reach_project(tmp_path))
    assert done.returncode == 2
    assert message in done.stderr


def test_mistakes_are_found_before_spark_is_started(tmp_path: Path) -> None:
    folder = reach_project(tmp_path)
    (folder / "bad.dl").write_text(".decl a(x: number)\n.output a(IO=arrow)\n")
    for arguments, message in (
        (("none.dl",), "there is no program none.dl"),
        (("bad.dl",), "can't be written by Spark"),
        (("reach.dl", "-D", "-", "--json"), "--json needs standard output"),
    ):
        began = time.perf_counter()
        done = gpuengine("run", *arguments, *ON_SPARK, cwd=folder)
        assert done.returncode == 1 and message in done.stderr
        assert "Traceback" not in done.stderr and time.perf_counter() - began < 30


@pytest.mark.slow
def test_datasets_in_and_out_equal_a_local_run(tmp_path: Path) -> None:
    folder = reach_project(tmp_path, [(i, i + 1) for i in range(20)])
    with (folder / "reach.dl").open("a") as program:
        program.write(".printsize path\n.output edge(IO=stdout)\n")
    facts = (folder / "facts").as_uri()
    done = gpuengine("run", "reach.dl", *ON_SPARK, "-F", facts, "-D", "out", "--stats", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "path\t210\n" in done.stdout and "19\t20\n" in done.stdout
    assert "evaluated" in done.stderr and "WARN" not in done.stderr
    again = Engine(".decl path(x: number, y: number)")
    again.load("path", folder / "out" / "path.parquet")
    assert sorted(again["path"].to_pylist()) == [(i, j) for i in range(21) for j in range(i + 1, 21)]
    assert [p.name for p in (folder / "out").iterdir()] == ["path.parquet"]


@pytest.mark.slow
def test_json_says_where_it_ran_and_data_errors_leave_outputs_alone(tmp_path: Path) -> None:
    folder = reach_project(tmp_path)
    done = gpuengine("run", "reach.dl", *ON_SPARK, "-F", "facts", "-D", "out", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["relations"] == {"path": 3} and report["spark"]["where"] == "driver"
    before = {p: p.stat().st_mtime_ns for p in (folder / "out").rglob("*")}
    (folder / "facts" / "edge.facts").write_text("1\tx\n")
    done = gpuengine("run", "reach.dl", *ON_SPARK, "-F", "facts", "-D", "out", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("error: facts/edge.facts: edge: 1 of 1 lines is not 2 fields")
    assert {p: p.stat().st_mtime_ns for p in (folder / "out").rglob("*")} == before


@pytest.mark.slow
def test_an_interrupt_ends_a_run_soon_and_writes_nothing(tmp_path: Path) -> None:
    """The program counts on and on; the interrupt comes when it is at it."""
    (tmp_path / "long.dl").write_text(
        ".decl e(x: number)\n.input e\n.decl n(x: number)\n.output n\n"
        "n(x) :- e(x).\nn(x + 1) :- n(x), x < 1000000000.\n"
    )
    (tmp_path / "e.facts").write_text("0\n")
    arguments = ["run", "long.dl", *ON_SPARK, "--where", "cluster", "-D", "out"]
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 90
    while not (tmp_path / "out").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(8)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert time.monotonic() - began < 10
    assert errors.strip().endswith("interrupted; no output file was changed")
    assert list((tmp_path / "out").iterdir()) == []
