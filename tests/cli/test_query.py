"""`gpuengine query`."""

from __future__ import annotations

import json
from pathlib import Path

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
