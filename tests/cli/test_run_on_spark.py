"""``run --on spark`` and ``update --on spark`` as a user types them; each starts a Spark of its own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from gpuengine import Engine
from gpuengine.cli.spark import telling_lines
from tests.cli.processes import OnTerminal, gpuengine, reach_project

ON_SPARK = ("--on", "spark", "--master", "local[2]", "--conf", "spark.ui.enabled=false")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run reach.dl --master local[2]", "--master goes with --on spark only"),
        ("run reach.dl --conf a=b", "--conf goes with --on spark only"),
        ("run reach.dl --rapids", "--rapids goes with --on spark only"),
        ("run reach.dl --encoded facts", "--encoded goes with --on spark only"),
        ("run reach.dl --on spark -j 2", "-j does not go with --on spark"),
        ("run reach.dl --on spark --backend cpu", "--backend does not go with --on spark"),
        ("run reach.dl --on spark --on-error skip", "--on-error does not go with --on spark"),
        ("run reach.dl --on spark --conf nothing", "is not KEY=VALUE"),
        ("run reach.dl --on spark --where moon", "invalid choice"),
        ("run reach.dl --on spark --where driver --encoded e", "does not go with --where driver"),
        ("run reach.dl --on spark --master lokal[2]", "'lokal[2]' is no master of Spark"),
        ("update kb --insert edge=new --conf a=b", "--conf goes with --on spark only"),
        ("run a.nt --on spark --save kb", "--save does not go with --on spark for RDF"),
        ("run a.nt --on spark --encoded e", "--encoded does not go with --on spark for RDF"),
        ("run a.nt --on spark --format ttl", "Spark does not write ttl"),
        ("run a.nt --on spark --on-error skip", "--on-error does not go with --on spark"),
        ("update kb --on spark --insert edge=new --changes out", "--changes does not go with --on spark"),
        ("update kb --on spark --add-rules more.dl", "--add-rules does not go with --on spark"),
        ("update kb --on spark --insert edge=-", "executors of Spark have no standard input"),
    ],
)
def test_options_of_the_other_place_are_refused(tmp_path: Path, command: str, message: str) -> None:
    done = gpuengine(*command.split(), cwd=reach_project(tmp_path))
    assert done.returncode == 2
    assert message in done.stderr


def test_mistakes_are_found_before_spark_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no Java that Spark could be started with: that would be said instead."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    folder = reach_project(tmp_path)
    (folder / "bad.dl").write_text(".decl a(x: number)\n.output a(IO=arrow)\n")
    gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", "--save", "kb", cwd=folder)
    for arguments, message in (
        (("run", "none.dl"), "there is no program none.dl"),
        (("run", "bad.dl"), "can't be written by Spark"),
        (("run", "reach.dl", "-D", "-", "--json"), "--json needs standard output"),
        (("update", "kb", "--insert", "edge=facts/edge.facts"), "kb is a knowledge base of one engine"),
    ):
        done = gpuengine(*arguments, *ON_SPARK, cwd=folder)
        assert done.returncode == 1 and message in done.stderr
        assert "Traceback" not in done.stderr


def test_of_what_the_jvm_wrote_the_lines_that_tell_are_shown() -> None:
    log = (
        "26/01/01 00:00:00 WARN Utils: Your hostname resolves to a loopback address\n"
        'Exception in thread "main" org.apache.spark.SparkException: no such master\n'
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1045)\n"
        "\t... 12 more\n"
        "26/01/01 00:00:01 ERROR Backend: Application has been killed.\n"
    )
    assert [line[:20] for line in telling_lines(log)] == ["Exception in thread ", "26/01/01 00:00:01 ER"]
    assert telling_lines("nothing\nof note\n") == ["nothing", "of note"]


@pytest.mark.slow
def test_datasets_in_and_out_equal_a_local_run_and_are_updated(tmp_path: Path) -> None:
    folder = reach_project(tmp_path, [(i, i + 1) for i in range(20)])
    with (folder / "reach.dl").open("a") as program:
        program.write(".printsize path\n.output edge(IO=stdout)\n")
    facts = (folder / "facts").as_uri()
    arguments = ("run", "reach.dl", *ON_SPARK, "-F", facts, "-D", "out", "--save", "saved")
    done = gpuengine(*arguments, "--stats", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "path\t210\n" in done.stdout and "19\t20\n" in done.stdout
    assert "evaluated" in done.stderr and "WARN" not in done.stderr
    again = Engine(".decl path(x: number, y: number)")
    again.load("path", folder / "out" / "path.parquet")
    assert sorted(again["path"].to_pylist()) == [(i, j) for i in range(21) for j in range(i + 1, 21)]
    assert [p.name for p in (folder / "out").iterdir()] == ["path.parquet"]

    # What is there is not replaced unasked, which is found before anything is read.
    done = gpuengine(*arguments, "-F", "nowhere", cwd=folder)
    assert done.returncode == 1 and "saved is a saved materialisation already" in done.stderr

    (folder / "new.facts").write_text("20\t21\n")
    (folder / "old.facts").write_text("0\t1\n")
    change = ("--insert", "edge=new.facts", "--delete", "edge=old.facts")
    done = gpuengine("update", "saved", *ON_SPARK, *change, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    # One came and one went: the closure of a chain of 21 nodes it is, as before.
    assert report["relations"] == {} and report["facts"] == {"edge": 20, "path": 210}
    assert [step["where"] for step in report["spark"]] == ["driver", "driver"]

    shown = gpuengine("show", "saved", "--rules", cwd=folder)
    assert "saved was saved by Spark" in shown.stdout and "path(x: number, y: number)    210" in shown.stdout
    assert json.loads(gpuengine("show", "saved", "--json", cwd=folder).stdout)["saved_by"] == "spark"
    for command in (
        ("update", "saved", "--insert", "edge=new.facts"),
        ("query", "saved", "path(x, y)"),
        ("compact", "saved"),
    ):
        done = gpuengine(*command, cwd=folder)
        assert done.returncode == 1 and "saved was saved by Spark" in done.stderr, done.stderr


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
def test_encoded_inputs_are_saved_once_and_used_again(tmp_path: Path) -> None:
    folder = reach_project(tmp_path)
    arguments = ("run", "reach.dl", *ON_SPARK, "-D", "out", "--encoded", "encoded", "--json")
    done = gpuengine(*arguments, "-F", "facts", cwd=folder)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert json.loads(done.stdout)["relations"] == {"path": 3}
    done = gpuengine(*arguments, "-F", "nowhere", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "note: the inputs are those in encoded; -F is not read\n"
    report = json.loads(done.stdout)
    assert report["relations"] == {"path": 3} and report["spark"]["where"] == "cluster"


@pytest.mark.slow
def test_an_interrupt_ends_a_run_soon_and_writes_nothing(tmp_path: Path) -> None:
    """The program counts on and on; the interrupt comes when it is at it."""
    (tmp_path / "long.dl").write_text(
        ".decl e(x: number)\n.input e\n.decl n(x: number)\n.output n\n"
        "n(x) :- e(x).\nn(x + 1) :- n(x), x < 1000000000.\n"
    )
    (tmp_path / "e.facts").write_text("0\n")
    process = OnTerminal("run", "long.dl", *ON_SPARK, "--where", "cluster", "-D", "out", cwd=tmp_path)
    process.wait_for("stratum 1/1 n")
    assert process.signal(signal.SIGINT) < 10
    assert process.process.returncode == 130, process.shown
    assert process.shown.strip().endswith("interrupted; no output file was changed")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
def test_the_closure_of_triples_is_that_of_a_local_run(tmp_path: Path) -> None:
    (tmp_path / "data.ttl").write_text(
        "@prefix : <http://example.org/> .\n:a :knows :b , _:x . :b :knows :c .\n"
        ":knows a <http://www.w3.org/2002/07/owl#TransitiveProperty> .\n"
    )
    (tmp_path / "more.nq").write_text(
        '_:x <http://example.org/knows> "caf\\u00e9"@EN <http://example.org/g> .\n'
    )
    (tmp_path / "rules.dlog").write_text("PREFIX : <http://example.org/>\n:Person[?x] :- :knows[?x, ?y] .\n")
    command = ("run", "rules.dlog", "data.ttl", "more.nq", "--owl2rl")
    local = gpuengine(*command, "-D", "-", cwd=tmp_path)
    done = gpuengine(*command, *ON_SPARK, "-D", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = sorted((tmp_path / "out" / "closure.nq").glob("part-*"))
    lines = [line for part in written for line in part.read_text().splitlines()]
    assert sorted(lines) == sorted(local.stdout.splitlines())
    assert json.loads(done.stdout)["triples"] == len(lines)
