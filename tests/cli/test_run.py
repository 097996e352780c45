"""`gpuengine run` where all goes well."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.cli.processes import gpuengine, reach_project, visible_files

SECONDS = {"startup", "parse", "load", "evaluate", "write", "total"}


def test_outputs_are_files(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert visible_files(tmp_path / "out") == ["path.csv"]
    assert sorted((tmp_path / "out" / "path.csv").read_text().splitlines()) == ["1\t2", "1\t3", "2\t3"]


def test_defaults_are_the_current_folder(tmp_path: Path) -> None:
    reach_project(tmp_path)
    (tmp_path / "facts" / "edge.facts").rename(tmp_path / "edge.facts")
    assert gpuengine("run", "reach.dl", cwd=tmp_path).returncode == 0
    assert "path.csv" in visible_files(tmp_path)


def test_output_to_standard_output(tmp_path: Path) -> None:
    reach_project(tmp_path, [(1, 2)])
    done = gpuengine("run", "reach.dl", "-Ffacts", "-D-", cwd=tmp_path)
    assert done.stdout == "---------------\npath\nx\ty\n===============\n1\t2\n===============\n"
    assert done.stderr == ""
    assert visible_files(tmp_path) == ["facts/edge.facts", "reach.dl"]


def test_facts_from_standard_input(tmp_path: Path) -> None:
    reach_project(tmp_path)
    program = (tmp_path / "reach.dl").read_text().replace(".input edge", ".input edge(IO=stdin)")
    (tmp_path / "reach.dl").write_text(program)
    done = gpuengine("run", "reach.dl", "-D-", cwd=tmp_path, stdin="7\t8\n")
    assert "7\t8\n" in done.stdout


def test_without_outputs_every_size_is_printed(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(
        ".decl a(x: number)\n.decl b(x: number)\na(1). a(2).\nb(x) :- a(x), x > 1.\n"
    )
    done = gpuengine("run", "p.dl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "a\t2\nb\t1\n")


def test_what_no_output_needs_is_not_read(tmp_path: Path) -> None:
    reach_project(tmp_path)
    with (tmp_path / "reach.dl").open("a") as program:
        program.write(
            ".decl unused(x: number)\n.input unused\n.decl more(x: number)\nmore(x) :- unused(x).\n"
        )
    assert gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", cwd=tmp_path).returncode == 0


def test_json_is_one_object(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", "-j", "1", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.stderr == ""
    assert report["program"] == "reach.dl"
    assert report["relations"] == {"path": 3}
    assert report["seconds"].keys() == SECONDS
    phases = sum(seconds for phase, seconds in report["seconds"].items() if phase != "total")
    assert report["seconds"]["total"] == pytest.approx(phases)
    assert report["threads"] == 1
    assert report["backend"] == "cpu"
    assert report["facts"] == 5
    assert report["rounds"] >= 2
    assert report["peak_rss_bytes"] > 10_000_000
    assert isinstance(report["compiled_kernels"], dict)
    assert "rules" not in report


def test_json_with_statistics_has_the_rules(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", "--json", "--stats", cwd=tmp_path)
    rules = {rule["text"]: rule for rule in json.loads(done.stdout)["rules"]}
    assert rules.keys() == {"path(x, y) :- edge(x, y).", "path(x, z) :- path(x, y), edge(y, z)."}
    base = rules["path(x, y) :- edge(x, y)."]
    assert (base["candidates"], base["derived"], base["evaluations"]) == (2, 2, 1)
    assert "slowest first" in done.stderr


def test_statistics_are_tables(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", "--stats", cwd=tmp_path)
    assert done.stdout == ""
    for word in ("path", "evaluate (s)", "peak memory", "rounds", "path(x, z) :- path(x, y), edge(y, z)."):
        assert word in done.stderr


def test_bad_rows_are_skipped_and_counted(tmp_path: Path) -> None:
    reach_project(tmp_path)
    (tmp_path / "facts" / "edge.facts").write_text("1\t2\n2\tx\n\t\t\n2\t3\n")
    arguments = ("run", "reach.dl", "-F", "facts", "-D", "out", "--on-error", "skip")
    done = gpuengine(*arguments, "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["skipped_rows"] == {"edge": 2}
    assert json.loads(done.stdout)["relations"] == {"path": 3}
    assert "skipped 2 bad rows" in done.stderr
    assert "edge.facts:2" in done.stderr
    assert gpuengine(*arguments, "-w", cwd=tmp_path).stderr == ""


def test_macros_and_includes(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "decl.dl").write_text(".decl a(x: number)\n.output a\n")
    (tmp_path / "p.dl").write_text('.include "decl.dl"\na(LOW). a(HIGH).\n')
    done = gpuengine("run", "p.dl", "-I", "lib", "-M", "LOW=3 HIGH=4", "-D-", cwd=tmp_path)
    assert done.stderr == ""
    assert "3\n4\n" in done.stdout


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    import subprocess

    from tests.cli.processes import COMMAND

    (tmp_path / "p.dl").write_text(".decl a(x: number)\n.output a\na(x) :- x = range(0, 500000).\n")
    command = " ".join([*COMMAND, "run", "p.dl", "-D-"])
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -n 4; echo ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "141"


def test_columns_by_position_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(".decl edge(x: number, y: number)\n.input edge\n.output edge\n")
    (tmp_path / "edge").mkdir()
    for part in range(2):
        parquet.write_table(pa.table({"src": [part], "dst": [5]}), tmp_path / "edge" / f"{part}.parquet")
    done = gpuengine("run", "p.dl", "-D", "out", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("warning: edge: no column is named as an attribute: the columns (src, dst)") == 1
    assert "warning" not in gpuengine("run", "p.dl", "-D", "out", "-w", cwd=tmp_path).stderr
    parquet.write_table(pa.table({"y": [1], "src": [5]}), tmp_path / "edge" / "2.parquet")
    done = gpuengine("run", "p.dl", "-D", "out", cwd=tmp_path)
    assert done.returncode == 1 and "the columns are (y, src), the attributes (x, y)" in done.stderr


def test_sorted_outputs(tmp_path: Path) -> None:
    program = ".decl a(x: number, s: symbol)\n.output a(IO=stdout)\n"
    program += 'a(10, "b"). a(9, "a"). a(10, "a"). a(-1, "z").\n'
    (tmp_path / "p.dl").write_text(program)
    for options in ((), ("--sort",), ("-v",)):
        done = gpuengine("run", "p.dl", *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "-1\tz\n9\ta\n10\ta\n10\tb\n" in done.stdout
        assert ("gpuengine: materialised 4 facts in " in done.stderr) == (options == ("-v",))
