"""`gpuengine query`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.cli.processes import gpuengine, reach_project


def test_answers_are_rows_under_a_header(tmp_path: Path) -> None:
    reach_project(tmp_path, [(1, 2), (2, 3), (3, 4)])
    done = gpuengine("query", "reach.dl", "-F", "facts", "path(1, x), !edge(1, x)", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    header, *rows = done.stdout.splitlines()
    assert header == "x"
    assert sorted(rows) == ["3", "4"]


def test_limit(tmp_path: Path) -> None:
    reach_project(tmp_path, [(1, 2), (2, 3), (3, 4)])
    done = gpuengine("query", "reach.dl", "-F", "facts", "path(x, y)", "--limit", "2", cwd=tmp_path)
    assert len(done.stdout.splitlines()) == 3


def test_json(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("query", "reach.dl", "-F", "facts", "path(x, 3)", "--json", cwd=tmp_path)
    answers = json.loads(done.stdout)
    assert (answers["columns"], sorted(answers["rows"]), answers["count"]) == (["x"], [[1], [2]], 2)


def test_yes_or_no(tmp_path: Path) -> None:
    reach_project(tmp_path)
    assert gpuengine("query", "reach.dl", "-F", "facts", "path(1, 3)", cwd=tmp_path).stdout == "true\n"
    assert gpuengine("query", "reach.dl", "-F", "facts", "path(3, 1)", cwd=tmp_path).stdout == "false\n"


def test_a_typo_in_the_query(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("query", "reach.dl", "-F", "facts", "pth(1, x)", cwd=tmp_path)
    assert done.returncode == 1
    assert "pth" in done.stderr
    assert "path" in done.stderr


def test_parameters_order_and_formats(tmp_path: Path) -> None:
    reach_project(tmp_path, [(1, 2), (2, 3), (3, 4)])
    common = ("query", "reach.dl", "-F", "facts")
    done = gpuengine(*common, "path($a, x)", "--param", "a=1", "--order=-x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "x\n4\n3\n2\n"), done.stderr
    done = gpuengine(*common, "x : path(x, y)", "--order", "x", "--format", "table", cwd=tmp_path)
    assert done.stdout == "x\n─\n1\n2\n3\n"
    done = gpuengine(*common, "path(x, 4)", "--order", "x", "--format", "csv", "-o", "a.csv", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "a.csv").read_text()) == (0, "x\n1\n2\n3\n"), done.stderr
    done = gpuengine(*common, "path(x, 4)", "--order", "x", "-o", "a.json", cwd=tmp_path)
    assert json.loads((tmp_path / "a.json").read_text()) == [{"x": 1}, {"x": 2}, {"x": 3}]
    done = gpuengine(*common, "path(x, 4)", "--format", "parquet", cwd=tmp_path)
    assert done.returncode == 1 and "-o FILE.parquet" in done.stderr


def test_from_standard_input(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("query", "reach.dl", "-F", "facts", "-", cwd=tmp_path, stdin="path(1, 3)\n")
    assert (done.returncode, done.stdout) == (0, "true\n"), done.stderr


def test_alternatives_and_aggregates_in_every_format(tmp_path: Path) -> None:
    reach_project(tmp_path, [(1, 2), (2, 3)])
    text = "x, n : (edge(x, _); edge(_, x)), n = count : { path(x, _) }"
    common = ("query", "reach.dl", "-F", "facts", text, "--order", "x")
    expected = [{"x": 1, "n": 2}, {"x": 2, "n": 1}, {"x": 3, "n": 0}]
    done = gpuengine(*common, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "x\tn\n1\t2\n2\t1\n3\t0\n"), done.stderr
    for name in ("a.parquet", "a.csv", "a.tsv", "a.json"):
        assert gpuengine(*common, "-o", name, cwd=tmp_path).returncode == 0
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == expected
    assert json.loads((tmp_path / "a.json").read_text()) == expected
    assert (tmp_path / "a.csv").read_text() == "x,n\n1,2\n2,1\n3,0\n"
    done = gpuengine(*common, "--format", "csv", "--limit", "1", cwd=tmp_path)
    assert done.stdout == "x,n\n1,2\n"
    done = gpuengine("query", "reach.dl", "-F", "facts", "x : edge(1, x); edge(y, 1)", cwd=tmp_path)
    assert done.returncode == 1
    assert "1 | x : edge(1, x); edge(y, 1)\n  | ^\n" in done.stderr


def test_dates_and_nulls(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(".decl born(who: symbol, day: date)\n.input born\n")
    (tmp_path / "born.facts").write_text("ann\t2024-02-29\nbob\t\n")
    ask = ("query", "p.dl", "born(w, d)")
    done = gpuengine(*ask, "--nulls", "drop", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["rows"] == [["ann", "2024-02-29"]]
    done = gpuengine(*ask, "--nulls", "1970-01-01", "--format", "csv", cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == ['"ann",2024-02-29', '"bob",1970-01-01', "w,d"]
    failed = gpuengine(*ask, cwd=tmp_path)
    assert (failed.returncode, "column 2 (day: date): '' is no date" in failed.stderr) == (1, True)
    wrong = gpuengine("run", "p.dl", "--on", "spark", "--nulls", "0", cwd=tmp_path)
    assert "with --on spark, --nulls is fail or drop" in wrong.stderr
