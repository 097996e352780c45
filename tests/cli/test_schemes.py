"""Storage schemes from the command line: choosing, showing, and relations that are too large to list."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.processes import OnTerminal, gpuengine, reach_project, visible_files, worked_by_children

CLOSURE = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
"""
NODES = 60_000
PAIRS = NODES * (NODES - 1) // 2
AT_ONCE = 20.0  # seconds of the processor; listing 1.8 billion pairs takes minutes


def project(folder: Path, edges: np.ndarray | list[tuple[int, int]], header: str = ".output path\n") -> Path:
    (folder / "p.dl").write_text(CLOSURE + header)
    (folder / "edge.facts").write_text("".join(f"{x}\t{y}\n" for x, y in np.asarray(edges).tolist()))
    return folder


def chain(nodes: int) -> list[tuple[int, int]]:
    return [(x, x + 1) for x in range(nodes - 1)]


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of 60,000 nodes: 1.8 billion pairs."""
    return project(tmp_path_factory.mktemp("huge"), chain(NODES), ".printsize path\n")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("small"), [(1, 2), (2, 3), (3, 1), (3, 4)])


def answers(path: Path) -> list[str]:
    return sorted(path.read_text().splitlines())


EXPECTED = sorted(f"{x}\t{y}" for x in (1, 2, 3) for y in (1, 2, 3, 4))


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--scheme", "path=closure"],
        ["--scheme", "path=table", "--no-modules"],
        ["--scheme", "*=table"],
        ["--scheme", "*=closure", "--scheme", "edge=auto"],
    ],
    ids=" ".join,
)
def test_every_choice_gives_the_same_output(small: Path, tmp_path: Path, options: list[str]) -> None:
    done = gpuengine("run", "p.dl", "-F", ".", "-D", tmp_path, "--json", *options, cwd=small)
    assert (done.returncode, done.stderr) == (0, "")
    assert answers(tmp_path / "path.csv") == EXPECTED
    scheme = "closure" if any(option.endswith("=closure") for option in options) else "table"
    stored = json.loads(done.stdout)["storage"]["path"]
    assert (stored["scheme"], stored["facts"]) == (scheme, 12) and stored["nbytes"] > 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["path=closur"],
            1,
            "error: no scheme 'closur' for path; did you mean 'closure'?\n  hint: it is one of",
        ),
        (["paht=closure"], 1, "error: no relation 'paht' to choose a scheme for; did you mean 'path'?\n"),
        (["path=closure", "path=table"], 1, "error: --scheme asks for path=closure and for path=table\n"),
        (
            ["edge=closure"],
            1,
            "error: edge can't be stored as closure: no rule makes it transitive\n  hint: leave",
        ),
        (["path=equivalence"], 1, "error: path can't be stored as equivalence: no rule makes it symmetric\n"),
        (["path"], 2, "'path' is not RELATION=SCHEME, such as path=closure"),
        (["=closure"], 2, "'=closure' is not RELATION=SCHEME, such as path=closure"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_choices_that_are_refused(
    small: Path, tmp_path: Path, options: list[str], code: int, message: str
) -> None:
    given = [part for option in options for part in ("--scheme", option)]
    done = gpuengine("run", "p.dl", "-F", ".", "-D", tmp_path, *given, cwd=small)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr and "Traceback" not in done.stderr
    assert visible_files(tmp_path) == []


def test_pragma(tmp_path: Path) -> None:
    project(tmp_path, [(1, 2), (2, 3)], '.printsize path\n.pragma "scheme" "path=closure"\n')
    done = gpuengine("run", "p.dl", "-F", ".", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["storage"]["path"]["scheme"] == "closure"
    done = gpuengine("run", "p.dl", "-F", ".", "--json", "--scheme", "path=table", cwd=tmp_path)
    assert json.loads(done.stdout)["storage"]["path"]["scheme"] == "table", "the command line goes first"
    (tmp_path / "p.dl").write_text(CLOSURE + '.printsize path\n.pragma "scheme" "path=union path=table"\n')
    done = gpuengine("run", "p.dl", "-F", ".", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: two pragmas ask for different schemes of path: union and table\n"


def test_plan_says_which_and_why(small: Path, huge: Path) -> None:
    shown = gpuengine("plan", "p.dl", "-F", ".", cwd=small).stdout
    why = "path(x, z) :- path(x, y), path(y, z) makes it transitive"
    assert f"stored as table: {why}, but about 12 pairs from 4 edges are few" in shown
    shown = gpuengine("plan", "p.dl", "-F", ".", "--scheme", "path=closure", cwd=small).stdout
    assert f"stored as closure: {why}; asked for" in shown
    assert "not evaluated: the closure implies it" in shown
    plan = json.loads(gpuengine("plan", "p.dl", "-F", ".", "--json", cwd=huge).stdout)
    path = next(relation for relation in plan["relations"] if relation["name"] == "path")
    assert (
        path["scheme"] == "closure"
        and path["why"].startswith(f"{why}; ")
        and "pairs from 59,999" in path["why"]
    )
    (rule,) = (rule for s in plan["strata"] for rule in s["rules"] if "path(y, z)" in rule["text"])
    assert rule["implied_by"] == "closure"


def test_statistics_say_how_relations_are_stored(huge: Path) -> None:
    done = gpuengine("run", "p.dl", "-F", ".", "--stats", cwd=huge)
    header, *rows = [
        line.split()
        for line in done.stderr.splitlines()
        if "│" in line or "stored as" in line or "path" in line
    ]
    assert "stored as" in done.stderr
    assert any("path" in row and "closure" in row and f"{PAIRS:,}" in row for row in [header, *rows])


def test_sizes_are_exact_and_nothing_is_listed(huge: Path) -> None:
    before = worked_by_children()
    done = gpuengine("run", "p.dl", "-F", ".", "--memory", "500MB", cwd=huge)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"path\t{PAIRS}\n"
    assert worked_by_children() - before < AT_ONCE


@pytest.mark.parametrize(
    ("query", "count", "rows"),
    [("path(x, y)", PAIRS, 5), ("path(y, x)", PAIRS, 5), ("path(7, x)", NODES - 8, 5), ("path(9, 7)", 0, 0)],
)
def test_queries_with_a_limit_answer_at_once(huge: Path, query: str, count: int, rows: int) -> None:
    before = worked_by_children()
    done = gpuengine("query", "p.dl", query, "-F", ".", "--limit", "5", "--json", cwd=huge)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["count"], len(found["rows"])) == (count, rows)
    if query == "path(x, y)":
        assert all(x < y for x, y in found["rows"])
    if query == "path(y, x)":
        assert found["columns"] == ["y", "x"] and all(y < x for y, x in found["rows"])
    assert worked_by_children() - before < AT_ONCE


def test_a_table_that_is_far_too_large_is_refused(huge: Path) -> None:
    options = ["--scheme", "path=table", "--memory", "200MB"]
    done = gpuengine("run", "p.dl", "-F", ".", *options, cwd=huge)
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("error: path was asked for as a table, but has about ")
    about = int(first.split("about ")[1].split(" facts")[0].replace(",", ""))
    assert PAIRS / 2 < about < PAIRS * 2
    assert first.endswith("or more, and the memory budget is 200 MB")
    assert second == "  hint: leave out path=table, so that it becomes a closure, or raise it with --memory"


def test_a_closure_that_is_too_large_itself_is_refused(tmp_path: Path) -> None:
    edges = np.sort(np.random.default_rng(0).integers(0, 20_000, (200_000, 2)), axis=1)
    project(tmp_path, edges, ".printsize path\n")
    done = gpuengine("run", "p.dl", "-F", ".", "--memory", "10MB", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: out of the memory budget of 10.0 MB: ")
    assert "path" in done.stderr and "Traceback" not in done.stderr


def test_outputs_are_the_same_whatever_the_scheme(tmp_path: Path) -> None:
    """1,275 pairs and a cycle, written from a closure, from a table, and by rules alone."""
    project(tmp_path, [*chain(51), (40, 30)])
    written = []
    for number, options in enumerate(["path=closure", "path=table", "*=auto"]):
        done = gpuengine("run", "p.dl", "-F", ".", "-D", f"out{number}", "--scheme", options, cwd=tmp_path)
        assert done.returncode == 0
        written.append(answers(tmp_path / f"out{number}" / "path.csv"))
    assert written[0] == written[1] == written[2]
    assert len(written[0]) == len(set(written[0])) == 51 * 50 // 2 + 11 * 12 // 2


def test_linear_recursion_becomes_a_closure_too(tmp_path: Path) -> None:
    reach_project(tmp_path, chain(1000))
    done = gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", "--json", cwd=tmp_path)
    stored = json.loads(done.stdout)["storage"]["path"]
    assert (stored["scheme"], stored["facts"]) == ("closure", 1000 * 999 // 2)
    assert len(answers(tmp_path / "out" / "path.csv")) == 1000 * 999 // 2


def test_ctrl_c_while_a_closure_is_made(tmp_path: Path) -> None:
    """What 60,000 nodes reach by 600,000 edges takes seconds to make."""
    nodes = 60_000
    edges = np.sort(np.random.default_rng(0).integers(0, nodes, (10 * nodes, 2)), axis=1)
    project(tmp_path, edges)
    process = OnTerminal("run", "p.dl", "-F", ".", "-D", "out", cwd=tmp_path)
    process.wait_for("stratum 1/1")
    time.sleep(0.3)
    seconds = process.signal(signal.SIGINT)
    assert process.process.returncode == 130
    assert seconds < 3.0
    assert process.shown.count("interrupted; no output file was changed") == 1
    assert "Traceback" not in process.shown and visible_files(tmp_path / "out") == []
