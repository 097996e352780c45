"""`run --save`, `update`, `query`, `show` and `compact`: knowledge bases on the command line."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import gpuengine as ge
from tests.cli.processes import OnTerminal, gpuengine, reach_project, visible_files
from tests.cli_processes import CommandLines, Finished

HOLD = """
import sys, gpuengine
kb = gpuengine.open(sys.argv[1])
print("open", flush=True)
for line in sys.stdin:
    with kb.update() as u:
        u.insert("edge", [tuple(map(int, line.split()))])
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLines]:
    lines = CommandLines(tmp_path_factory.mktemp("commands"))
    yield lines
    lines.close()


class Project:
    """A folder with a program, its facts, and ``kb``, which is what follows from them."""

    def __init__(self, folder: Path, commands: CommandLines) -> None:
        self.folder = folder
        self._commands = commands

    def run(self, *arguments: str | Path) -> Finished:
        return self._commands.run([str(argument) for argument in arguments], self.folder)

    def succeed(self, *arguments: str | Path) -> str:
        done = self.run(*arguments)
        assert (done.code, done.err) == (0, "")
        return done.out

    def fail(self, *arguments: str | Path, code: int = 1) -> str:
        """Run what must fail and change nothing; the message."""
        files, facts = visible_files(self.folder), self.facts()
        done = self.run(*arguments)
        assert done.code == code, done.err
        assert done.out == "" and "Traceback" not in done.err
        assert [name for name in visible_files(self.folder) if name != "kb/lock"] == [
            name for name in files if name != "kb/lock"
        ]
        assert self.facts() == facts
        return done.err

    def write(self, name: str, *lines: str) -> str:
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))
        return name

    def facts(self) -> dict[str, set[Any]]:
        if not (self.folder / "kb" / "manifest.json").exists():
            return {}
        with ge.open(self.folder / "kb", read_only=True) as kb:
            return {name: set(kb[name]) for name in kb.relations}

    def query(self, text: str) -> set[str]:
        return set(self.succeed("query", "kb", text).splitlines()[1:])


@pytest.fixture
def project(tmp_path: Path, commands: CommandLines) -> Project:
    reach_project(tmp_path)
    made = Project(tmp_path, commands)
    made.succeed("run", "reach.dl", "-F", "facts", "-D", "out", "--save", "kb")
    return made


# -- saving --------------------------------------------------------------------------------------------

PARTLY_WANTED = """
.decl a(x: number)
.input a
.decl b(x: number)
.input b
.decl c(x: number)
.decl d(x: number)
.output c
c(x) :- a(x).
d(x) :- b(x).
"""


def test_run_saves_what_it_derived(project: Project) -> None:
    assert sorted((project.folder / "out" / "path.csv").read_text().split("\n")) == [
        "",
        "1\t2",
        "1\t3",
        "2\t3",
    ]
    assert project.facts() == {"edge": {(1, 2), (2, 3)}, "path": {(1, 2), (2, 3), (1, 3)}}


def test_save_derives_and_reads_everything(tmp_path: Path, commands: CommandLines) -> None:
    project = Project(tmp_path, commands)
    project.write("p.dl", PARTLY_WANTED)
    project.write("a.facts", "1")
    assert "no facts for b" in project.fail("run", "p.dl", "--save", "kb")
    project.write("b.facts", "2")
    project.succeed("run", "p.dl", "--save", "kb")
    assert project.facts() == {"a": {(1,)}, "b": {(2,)}, "c": {(1,)}, "d": {(2,)}}
    assert (tmp_path / "c.csv").read_text() == "1\n"
    assert not (tmp_path / "d.csv").exists()


def test_replace(project: Project) -> None:
    save = ("run", "reach.dl", "-F", "facts", "-D", "out", "--save", "kb")
    project.write("facts/edge.facts", "7\t8")
    message = project.fail(*save)
    assert (
        message == "error: kb is a knowledge base already\n  hint: --replace replaces it; update changes it\n"
    )
    project.succeed(*save, "--replace")
    assert project.facts() == {"edge": {(7, 8)}, "path": {(7, 8)}}
    assert "--replace goes with --save KB only" in project.fail(*save[:6], "--replace", code=2)


def test_save_to_what_is_no_knowledge_base(project: Project) -> None:
    save = ("run", "reach.dl", "-F", "facts", "-D", "out", "--save")
    assert "it is not empty, and not a knowledge base" in project.fail(*save, "facts")
    assert "it is not empty, and not a knowledge base" in project.fail(*save, "facts", "--replace")
    assert "it is a file" in project.fail(*save, "reach.dl")
    (project.folder / "empty").mkdir()
    project.succeed(*save, "empty")
    project.succeed(*save, "new/deep/kb")


def test_seconds_of_saving(project: Project) -> None:
    arguments = ("run", "reach.dl", "-F", "facts", "-D", "out", "--save", "kb", "--replace", "--json")
    report = json.loads(project.succeed(*arguments))
    assert report["relations"] == {"path": 3}
    assert list(report["seconds"]) == ["startup", "parse", "load", "evaluate", "save", "write", "total"]


# -- updating ------------------------------------------------------------------------------------------


def test_update_prints_what_changed(project: Project) -> None:
    new, old = project.write("new.csv", "3,4", "4,5"), project.write("old.facts", "1\t2", "9\t9")
    out = project.succeed("update", "kb", "--insert", f"edge={new}", "--delete", f"edge={old}")
    assert out.splitlines() == ["edge\t+2\t-1", "path\t+5\t-2"]
    assert project.facts()["edge"] == {(2, 3), (3, 4), (4, 5)}
    assert project.query("path(2, x)") == {"3", "4", "5"}
    assert project.succeed("update", "kb", "--insert", f"edge={new}") == ""


def test_formats_by_extension(project: Project) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    parquet.write_table(pa.table({"y": [11], "x": [10]}), project.folder / "a.parquet")
    feather.write_feather(pa.table({"x": [20], "y": [21]}), project.folder / "b.arrow")
    parts = project.folder / "parts"
    parts.mkdir()
    (parts / "part-0.csv").write_text("x,y\n30,31\n")
    (parts / "part-1.tsv").write_text("40\t41\n")
    inserts = [f"--insert=edge={name}" for name in ("a.parquet", "b.arrow", "parts")]
    assert project.succeed("update", "kb", *inserts).splitlines()[0] == "edge\t+4\t-0"
    assert {(10, 11), (20, 21), (30, 31), (40, 41)} < project.facts()["edge"]


def test_the_order_on_the_command_line_counts(project: Project) -> None:
    project.write("f", "5\t6")
    project.succeed("update", "kb", "--insert", "edge=f", "--delete", "edge=f")
    assert (5, 6) not in project.facts()["edge"]
    project.succeed("update", "kb", "--delete", "edge=f", "--insert", "edge=f")
    assert (5, 6) in project.facts()["edge"]
    project.write("declare.dl", ".decl back(x: number, y: number)", "back(y, x) :- edge(x, y).")
    project.write("b", "100\t200")
    message = project.fail("update", "kb", "--insert", "back=b", "--add-rules", "declare.dl")
    assert "no relation 'back' in the program" in message
    project.succeed("update", "kb", "--add-rules", "declare.dl", "--insert", "back=b")
    assert project.facts()["back"] == {(2, 1), (3, 2), (6, 5), (100, 200)}


def test_rules_come_and_go(project: Project) -> None:
    project.write("old.dl", "path(a, c) :- path(a, b), edge(b, c).")
    project.write("new.dl", "path(x, y) :- edge(y, x).", "edge(8, 9).")
    out = project.succeed("update", "kb", "--remove-rules", "old.dl", "--add-rules", "new.dl")
    assert sorted(out.splitlines()) == ["edge\t+1\t-0", "path\t+4\t-1"]
    assert project.facts()["path"] == {(1, 2), (2, 1), (2, 3), (3, 2), (8, 9), (9, 8)}
    shown = project.succeed("show", "kb", "--rules")
    assert shown.endswith("\n\npath(x, y) :- edge(x, y).\npath(x, y) :- edge(y, x).\n")
    message = project.fail("update", "kb", "--remove-rules", "old.dl")
    assert "E0601" in message and "old.dl:1:1" in message


def test_changes_in_files(project: Project) -> None:
    project.write("f", "3\t4")
    project.write("g", "1\t2")
    arguments = ("update", "kb", "--insert", "edge=f", "--delete", "edge=g", "--changes")
    project.succeed(*arguments, "changes/1")
    changes = project.folder / "changes" / "1"
    assert {file.name: sorted(file.read_text().splitlines()) for file in changes.iterdir()} == {
        "edge.inserted.tsv": ["3\t4"],
        "edge.deleted.tsv": ["1\t2"],
        "path.inserted.tsv": ["2\t4", "3\t4"],
        "path.deleted.tsv": ["1\t2", "1\t3"],
    }
    project.succeed(*arguments, "changes/2")
    assert visible_files(project.folder / "changes" / "2") == []


@pytest.mark.parametrize("form", ["tsv", "csv", "parquet", "arrow"])
def test_changes_can_be_taken_back(project: Project, form: str) -> None:
    before = project.facts()
    project.write("f", "3\t4", "4\t5")
    project.write("g", "1\t2")
    project.succeed(
        "update", "kb", "--insert", "edge=f", "--delete", "edge=g", "--changes", "ch", "--format", form
    )
    assert project.facts() != before
    files = (f"--delete=edge=ch/edge.inserted.{form}", f"--insert=edge=ch/edge.deleted.{form}")
    project.succeed("update", "kb", *files)
    assert project.facts() == before


def test_update_as_json(project: Project) -> None:
    project.write("f", "3\t4", "4\tfive")
    done = project.run("update", "kb", "--insert", "edge=f", "--on-error", "skip", "--json")
    assert done.code == 0
    assert done.err.startswith("warning: f: skipped 1 bad row\n") and "'five' is not a number" in done.err
    found = json.loads(done.out)
    assert found["relations"] == {
        "edge": {"inserted": 1, "deleted": 0},
        "path": {"inserted": 3, "deleted": 0},
    }
    assert found["skipped_rows"] == {"edge": 1}
    assert list(found["seconds"]) == ["startup", "open", "read", "update", "write", "total"]


def test_standard_input(project: Project) -> None:
    done = gpuengine("update", "kb", "--insert", "edge=-", cwd=project.folder, stdin="3\t4\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "edge\t+1\t-0\npath\t+3\t-0\n", "")


def test_options_of_the_engine(project: Project) -> None:
    project.write("f", "3\t4")
    project.succeed(
        "update", "kb", "--insert", "edge=f", "-j", "1", "--memory", "1GB", "--backend", "cpu", "--quiet"
    )
    assert (3, 4) in project.facts()["path"]


# -- errors --------------------------------------------------------------------------------------------


def test_relation_that_is_not_there(project: Project) -> None:
    project.write("f", "3\t4")
    message = project.fail("update", "kb", "--insert", "edge=f", "--delete", "egde=f")
    assert message == "error: no relation 'egde' in the program; did you mean 'edge'?\n"


def test_files_that_are_not_there(project: Project) -> None:
    assert project.fail("update", "kb", "--insert", "edge=nix.csv") == "error: nix.csv: no such file\n"
    assert project.fail("update", "kb", "--add-rules", "nix.dl") == "error: nix.dl: no such file\n"
    assert project.fail("update", "kb", "--remove-rules", "facts") == "error: facts: is a directory\n"


def test_bad_rows_are_located(project: Project) -> None:
    project.write("f", "3\t4", "4\tfive")
    message = project.fail("update", "kb", "--delete", "edge=facts", "--insert", "edge=f")
    assert message == "error: f:2: edge: column 2 (y: number): 'five' is not a number\n"


def test_bad_rules_are_located(project: Project) -> None:
    project.write("f.dl", "path(x, y) :- egde(x, y).")
    message = project.fail("update", "kb", "--delete", "edge=facts", "--add-rules", "f.dl")
    assert "f.dl:1:15" in message and "edge" in message


def test_evaluation_that_fails(project: Project) -> None:
    project.write("zero.dl", ".decl inverse(x: number)", "inverse(1 / (x - 1)) :- edge(x, _).")
    assert "zero" in project.fail("update", "kb", "--add-rules", "zero.dl")


def test_memory_that_does_not_suffice(project: Project) -> None:
    project.write("p.dl", ".decl n(x: number)", ".decl pair(x: number, y: number)")
    project.write("q.dl", "n(x) :- x = range(0, 20000).", "pair(x, y) :- n(x), n(y).")
    project.succeed("update", "kb", "--add-rules", "p.dl")
    message = project.fail("update", "kb", "--add-rules", "q.dl", "--memory", "60MB")
    assert "memory budget of 60" in message


def test_folder_of_changes_that_can_not_be_made(project: Project) -> None:
    project.write("f", "3\t4")
    message = project.fail("update", "kb", "--insert", "edge=f", "--changes", "reach.dl")
    assert message.startswith("error: can't write to reach.dl: ")


def test_changes_that_can_not_be_written(project: Project) -> None:
    """The update is committed by then, and the message says so."""
    project.write("f", "3\t4")
    (project.folder / "ch" / "path.inserted.tsv").mkdir(parents=True)
    done = project.run("update", "kb", "--insert", "edge=f", "--changes", "ch")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: can't write ch/path.inserted.tsv: ")
    assert "  note: the update is committed" in done.err
    assert (3, 4) in project.facts()["path"]
    assert visible_files(project.folder / "ch") == []


@pytest.mark.parametrize("command", [("update", "--insert", "edge=f"), ("show",), ("compact",)])
def test_what_is_no_knowledge_base(project: Project, command: Sequence[str]) -> None:
    project.write("f", "3\t4")
    for path, why in (("nix", "there is no such directory"), ("facts", "it has no manifest.json")):
        message = project.fail(command[0], path, *command[1:])
        assert message.startswith(f"error: {path} is not a knowledge base: {why}.")
    assert not (project.folder / "facts" / "lock").exists()


def test_knowledge_base_where_a_program_is_wanted(project: Project) -> None:
    assert project.fail("run", "kb").startswith("error: kb is a knowledge base, not a program\n")
    assert project.fail("query", "facts", "path(x, y)").startswith(
        "error: facts is a directory, not a program"
    )


def test_damage_is_found(project: Project) -> None:
    segment = next((project.folder / "kb").glob("*.arrow"))
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    project.write("f", "3\t4")
    for command in (("update", "kb", "--insert", "edge=f"), ("query", "kb", "edge(x, y)")):
        done = project.run(*command)
        assert done.code == 1
        assert f"{segment.relative_to(project.folder)} is damaged" in done.err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("update",), "KB"),
        (("update", "kb"), "nothing to do"),
        (("update", "kb", "--insert", "edge"), "'edge' is not RELATION=FILE"),
        (("update", "kb", "--insert", "=f"), "'=f' is not RELATION=FILE"),
        (("update", "kb", "--insert", "e=-", "--delete", "e=-"), "can be read once only"),
        (("update", "kb", "--insert", "e=f", "--format", "csv"), "--format goes with --changes"),
        (("update", "kb", "--insert", "e=f", "--changes", "d", "--format", "xml"), "invalid choice: 'xml'"),
        (("update", "kb", "--insert", "e=f", "--scheme", "e=table"), "--scheme"),
        (("show",), "KB"),
        (("compact", "kb", "-F", "facts"), "-F"),
        *(
            (
                ("query", "kb", "path(x, y)", *option),
                f"{option[0]} is for programs, but kb is a knowledge base",
            )
            for option in (
                ("-F", "facts"),
                ("-I", "."),
                ("-M", "A=1"),
                ("--scheme", "path=table"),
                ("--evaluator", "path=join"),
                ("--no-modules",),
                ("--on-error", "fail"),
            )
        ),
    ],
)
def test_usage(project: Project, arguments: Sequence[str], what: str) -> None:
    assert what in project.fail(*arguments, code=2)


# -- others beside -------------------------------------------------------------------------------------


def test_another_writer_and_readers(project: Project) -> None:
    project.write("f", "3\t4")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, "kb"],
        cwd=project.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None and holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        writer = f"process {holder.pid} on "
        for command in (
            ("update", "kb", "--insert", "edge=f"),
            ("compact", "kb"),
            ("run", "reach.dl", "-F", "facts", "-D", "out", "--save", "kb", "--replace"),
        ):
            message = project.fail(*command)
            assert message.startswith(f"error: kb is being written by {writer}")
        assert json.loads(project.succeed("show", "kb", "--json"))["writer"].startswith(writer)
        assert project.query("path(1, x)") == {"2", "3"}
        holder.stdin.write("3 4\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "done\n"
        assert project.query("path(1, x)") == {"2", "3", "4"}
    finally:
        holder.communicate()
    assert json.loads(project.succeed("show", "kb", "--json"))["writer"] is None
    project.write("g", "4\t5")
    project.succeed("update", "kb", "--insert", "edge=g")


# -- querying, showing, compacting ---------------------------------------------------------------------


def test_query(project: Project) -> None:
    assert project.succeed("query", "kb/", "path(1, x), !edge(1, x)") == "x\n3\n"
    assert project.succeed("query", "kb", "path(1, 3)") == "true\n"
    assert len(project.succeed("query", "kb", "path(x, y)", "--limit", "2").splitlines()) == 3
    answers = json.loads(project.succeed("query", "kb", "path(x, 3)", "--json"))
    assert (answers["columns"], sorted(answers["rows"]), answers["count"]) == (["x"], [[1], [2]], 2)
    assert "path" in project.fail("query", "kb", "pth(x, y)")


def test_show(project: Project) -> None:
    text = project.succeed("show", "kb")
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["relation", "facts", "stated", "stored", "as", "size"]
    assert lines[1][:7] == ["edge(x:", "number,", "y:", "number)", "2", "2", "table"]
    assert lines[2][:7] == ["path(x:", "number,", "y:", "number)", "3", "0", "table"]
    found = {line[0]: line[1:] for line in lines[4:]}
    assert (
        found["rules"] == ["2"] and found["journal"][:2] == ["0", "commits,"] and found["writer"] == ["none"]
    )
    assert "hint" not in text


def test_show_as_json(project: Project) -> None:
    project.write("f", "3\t4")
    project.succeed("update", "kb", "--insert", "edge=f")
    found = json.loads(project.succeed("show", "kb", "--json", "--rules"))
    assert found["relations"]["path"] == {
        "attributes": {"x": "number", "y": "number"},
        "scheme": "table",
        "of": None,
        "facts": 6,
        "stated": 0,
        "bytes": found["relations"]["path"]["bytes"],
    }
    assert found["rules"] == 2 and found["rule_texts"][0] == "path(x, y) :- edge(x, y)."
    assert (found["version"], found["generation"], found["commits"], found["wanted"]) == (2, 1, 1, None)
    assert found["journal"]["commits"] == 1
    sizes = {file.name: file.stat().st_size for file in (project.folder / "kb").iterdir()}
    assert found["bytes"] == sum(size for name, size in sizes.items() if name != "lock")
    assert found["journal"]["bytes"] == sizes["g1.journal"]


SCHEMES = """
.decl edge(x: number, y: number)
edge(1, 2). edge(2, 3).
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
.decl also(x: number, y: number)
also(y, x) :- path(x, y).
path(y, x) :- also(x, y).
.decl same(x: number, y: number)
same(x, y) :- edge(x, y).
same(x, y) :- same(y, x).
same(x, z) :- same(x, y), same(y, z).
.decl both(x: number, y: number)
both(x, y) :- path(x, y).
both(x, y) :- same(x, y).
"""


def test_facts_of_compact_relations_are_counted_when_asked_for(
    tmp_path: Path, commands: CommandLines
) -> None:
    project = Project(tmp_path, commands)
    project.write("p.dl", SCHEMES)
    schemes = [f"--scheme={name}" for name in ("path=closure", "same=equivalence", "both=union")]
    project.succeed("run", "p.dl", "--save", "kb", *schemes)
    facts = {name: len(rows) for name, rows in project.facts().items()}
    assert facts == {"edge": 2, "path": 3, "also": 3, "same": 9, "both": 9}
    quick = json.loads(project.succeed("show", "kb", "--json"))["relations"]
    assert {name: relation["facts"] for name, relation in quick.items()} == {
        "edge": 2,
        "path": None,
        "also": None,
        "same": None,
        "both": None,
    }
    assert {name: relation["scheme"] for name, relation in quick.items()} == {
        "edge": "table",
        "path": "closure",
        "also": "alias",
        "same": "equivalence",
        "both": "union",
    }
    assert quick["also"]["of"] == "path"
    counted = json.loads(project.succeed("show", "kb", "--json", "--count"))["relations"]
    assert {name: relation["facts"] for name, relation in counted.items()} == facts
    assert "--count does that" in project.succeed("show", "kb")
    assert "alias of path" in project.succeed("show", "kb", "--count")


def test_compact(project: Project) -> None:
    rows = [f"{x}\t{x + 1}" for x in range(100, 120)]
    project.write("f", *rows)
    project.succeed("update", "kb", "--insert", "edge=f")
    project.succeed("update", "kb", "--delete", "edge=f")
    shown = project.succeed("show", "kb")
    assert shown.endswith("hint: gpuengine compact kb folds the journal into the tables\n")
    facts = project.facts()
    found = json.loads(project.succeed("compact", "kb", "--json"))
    assert (found["commits"], found["generation"]) == (2, 2)
    assert found["bytes"]["after"] < found["bytes"]["before"]
    assert project.facts() == facts
    assert project.succeed("compact", "kb").startswith("nothing to fold: ")
    project.succeed("update", "kb", "--insert", "edge=f")
    assert project.succeed("compact", "kb").startswith("1 commit folded: ")
    assert "hint" not in project.succeed("show", "kb")


def test_the_guide_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = Path(__file__).parents[2] / "docs" / "updates.md"
    result = doctest.testfile(str(guide), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 15
    assert result.failed == 0


# -- on a terminal -------------------------------------------------------------------------------------


def test_progress(tmp_path: Path) -> None:
    reach_project(tmp_path, [(x, x + 1) for x in range(1500)])
    (tmp_path / "cut").write_text("750\t751\n")
    saving = OnTerminal(
        "run", "reach.dl", "-F", "facts", "-D", "out", "--save", "kb", "--scheme=path=table", cwd=tmp_path
    )
    assert saving.finish() == 0
    assert "\r\x1b[Ksaving kb" in saving.shown
    updating = OnTerminal("update", "kb", "--delete", "edge=cut", "--changes", "ch", cwd=tmp_path)
    assert updating.finish() == 0
    shown = updating.shown.split("\r\x1b[K")
    for what in (
        "opening kb",
        "reading 1/1  delete edge from cut (8 B)",
        "updating",
        "writing path  0 of 563,250 rows",
    ):
        assert any(line.startswith(what) for line in shown), (what, shown)
    assert any(line.startswith("stratum 1/1  path  round") for line in shown)
    assert shown[-1] == ""
    quiet = OnTerminal("update", "kb", "--insert", "edge=cut", "--quiet", cwd=tmp_path)
    assert quiet.finish() == 0
    assert quiet.shown == ""
