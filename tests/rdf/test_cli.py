"""RDF from the command line, by processes of their own."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_processes import CommandLines, Finished

TTL = """@prefix : <http://e/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
:Professor rdfs:subClassOf :Person .
:Course owl:disjointWith :Person .
:ada a :Professor ; :teaches :logic , :sets .
"""
DLOG = """PREFIX : <http://e/>
:Course[?y] :- :teaches[?x, ?y] .
[?x, :courses, ?n] :- AGGREGATE(:teaches[?x, ?y] ON ?x BIND(COUNT(?y) AS ?n)) .
"""
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLines]:
    made = CommandLines(tmp_path_factory.mktemp("scratch"))
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.ttl").write_text(TTL)
    (tmp_path / "rules.dlog").write_text(DLOG)
    (tmp_path / "new.nt").write_text(f"<http://e/bob> {TYPE} <http://e/Professor> .\n")
    return tmp_path


def run(lines: CommandLines, folder: Path, *args: str, code: int = 0) -> Finished:
    done = lines.run([*args], folder)
    assert done.code == code, done.err + done.out
    return done


def test_run_writes_the_closure(lines: CommandLines, folder: Path) -> None:
    done = run(lines, folder, "run", "data.ttl", "rules.dlog", "--owl2rl", "-D", "out")
    assert done.out == "triples\t9\n"
    closure = (folder / "out/closure.nt").read_text().splitlines()
    assert f"<http://e/ada> {TYPE} <http://e/Person> ." in closure and len(closure) == 9
    run(lines, folder, "run", "data.ttl", "--rdfs", "-D", "out", "--format", "nt.gz")
    assert (folder / "out/closure.nt.gz").read_bytes()[:2] == b"\x1f\x8b"
    printed = run(lines, folder, "run", "data.ttl", "-D", "-", "--format", "ttl").out
    assert ":ada a :Professor" in printed
    report = json.loads(run(lines, folder, "run", "data.ttl", "--owl2rl", "-D", "out", "--json").out)
    assert report["triples"] == 6 and report["profile"] == "owl2rl"


def test_a_knowledge_base_is_asked_and_changed(lines: CommandLines, folder: Path) -> None:
    run(lines, folder, "run", "rules.dlog", "data.ttl", "--owl2rl", "--save", "kb")
    assert not (folder / "closure.nt").exists()
    ask = ("sparql", "kb", "SELECT ?x ?n WHERE { ?x a :Person ; :courses ?n }", "--format")
    assert run(lines, folder, *ask, "csv").out == "x,n\nhttp://e/ada,2\n"
    found = json.loads(run(lines, folder, *ask, "json").out)
    assert found["results"]["bindings"][0]["n"]["value"] == "2"
    assert run(lines, folder, "update", "kb", "--insert", "new.nt").out == "triples\t+2\t-0\n"
    assert "true" in run(lines, folder, "sparql", "kb", "ASK { :bob a :Person }").out
    (folder / "more.dlog").write_text(
        "PREFIX : <http://e/>\n:busy[?x] :- :courses[?x, ?n], FILTER(?n > 1) .\n"
    )
    report = json.loads(
        run(lines, folder, "update", "kb", "--delete", "new.nt", "--add-rules", "more.dlog", "--json").out
    )
    assert (report["inserted"], report["deleted"]) == (1, 2)
    assert "true" in run(lines, folder, "sparql", "kb", "ASK { :ada a :busy }").out
    run(lines, folder, "update", "kb", "--remove-rules", "more.dlog")
    assert "false" in run(lines, folder, "sparql", "kb", "ASK { :ada a :busy }").out
    assert "+2" in run(lines, folder, "sparql", "kb", "INSERT DATA { :eve a :Professor }").out
    (folder / "q.rq").write_text("SELECT (COUNT(?x) AS ?n) { ?x a :Person }")
    assert (
        run(lines, folder, "sparql", "kb", "@q.rq", "--format", "tsv").out.splitlines()[1].startswith('"2"')
    )
    assert "c_Person" in run(lines, folder, "show", "kb").out


def test_check_tells_inconsistencies(lines: CommandLines, folder: Path) -> None:
    assert run(lines, folder, "check", "data.ttl", "--owl2rl").out == "consistent\n"
    (folder / "bad.nt").write_text(f"<http://e/ada> {TYPE} <http://e/Course> .\n")
    told = run(lines, folder, "check", "data.ttl", "bad.nt", "--owl2rl", code=1).out
    assert "cax-dw" in told and f"<http://e/ada> {TYPE} <http://e/Course> ." in told
    found = json.loads(run(lines, folder, "check", "data.ttl", "bad.nt", "--json", code=1).out)
    assert found["inconsistencies"][0]["rule"] == "cax-dw"
    # They never stop a run.
    run(lines, folder, "run", "data.ttl", "bad.nt", "--owl2rl", "-D", "out")


def test_a_program_of_datalog_reads_triples(lines: CommandLines, folder: Path) -> None:
    (folder / "p.dl").write_text(
        '.decl t(s: symbol, p: symbol, o: symbol)\n.input t(IO=rdf, filename="data.ttl")\n'
        '.decl taught(o: symbol)\n.output taught\ntaught(o) :- t(_, "<http://e/teaches>", o).\n'
    )
    run(lines, folder, "run", "p.dl")
    assert sorted((folder / "taught.csv").read_text().split()) == ["<http://e/logic>", "<http://e/sets>"]


def test_errors_and_skipping(lines: CommandLines, folder: Path) -> None:
    (folder / "bad.nt").write_text("<http://a> <http://b> <http://c> .\n<http://a> <b> <http://c> .\n")
    told = run(lines, folder, "run", "bad.nt", "-D", "out", code=1).err
    assert "bad.nt:2:12: " in told and not (folder / "out/closure.nt").exists()
    done = run(lines, folder, "run", "bad.nt", "-D", "out", "--on-error", "skip")
    assert done.out == "triples\t1\n" and "skipped 1 bad row" in done.err
    (folder / "bad.dlog").write_text(":C[?x] :- :p[?x] .\n")
    assert "bad.dlog:1:1" in run(lines, folder, "run", "bad.dlog", "data.ttl", code=1).err
    assert "no prefix" in run(lines, folder, "run", "bad.dlog", "data.ttl", code=1).err
    run(lines, folder, "run", "rules.dlog", "data.ttl", "--save", "kb")
    before = run(lines, folder, "sparql", "kb", "SELECT * { ?s ?p ?o }", "--format", "nt", code=1).err
    assert "nt" in before
    assert (
        "bad.nt:2"
        in run(lines, folder, "update", "kb", "--insert", "new.nt", "--insert", "bad.nt", code=1).err
    )
    assert "false" in run(lines, folder, "sparql", "kb", "ASK { :bob ?p ?o }").out
    assert "is not declared" in run(lines, folder, "sparql", "kb", "ASK { x:y ?p ?o }", code=1).err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("run", "data.ttl", "--rounds", "3"), "--rounds is not for RDF"),
        (("run", "data.ttl", "--format", "csv"), "--format csv is not for RDF"),
        (("run", "p.dl", "data.ttl"), "one program at a time"),
        (("run", "p.dl", "--owl2rl"), "--owl2rl is for RDF"),
        (("run", "data.ttl", "--on", "spark", "--save", "kb"), "--save does not go with --on spark"),
        (("query", "data.ttl", "t(x)"), "gpuengine sparql"),
    ],
)
def test_usage(lines: CommandLines, folder: Path, args: tuple[str, ...], message: str) -> None:
    assert message in run(lines, folder, *args, code=2).err


def test_the_example_runs_as_its_readme_says(lines: CommandLines, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "food"
    for name in ("food.ttl", "dishes.dlog"):
        (tmp_path / name).write_text((example / name).read_text())
    commands = re.findall(r"^    gpuengine (.+)$", (example / "README.md").read_text(), re.MULTILINE)
    told = [run(lines, tmp_path, *shlex.split(command)).out for command in commands]
    assert told[0] == "triples\t114\n"
    assert ":bruschetta  3" in told[2]
    assert {":food", ":plant", ":vegetable"} <= set(told[3].split())
    assert told[-1] == "consistent\n"
    asked = run(lines, tmp_path, "sparql", "kb", "SELECT ?dish { ?dish a :VeganDish }", "--format", "csv").out
    assert asked.split() == ["dish"]


def test_representatives(lines: CommandLines, folder: Path) -> None:
    same = "<http://www.w3.org/2002/07/owl#sameAs>"
    (folder / "same.nt").write_text(f"<http://e/ada> {same} <http://e/countess> .\n")
    run(lines, folder, "run", "data.ttl", "same.nt", "--owl2rl", "--save", "kb")
    query = "SELECT ?x { ?x a :Person }"
    both = run(lines, folder, "sparql", "kb", query, "--format", "csv").out.split()
    assert both == ["x", "http://e/ada", "http://e/countess"]
    one = run(lines, folder, "sparql", "kb", query, "--format", "csv", "--representatives").out.split()
    assert len(one) == 2 and set(one) < set(both)
    whole = run(lines, folder, "run", "data.ttl", "same.nt", "--owl2rl", "-D", "-").out
    few = run(lines, folder, "run", "data.ttl", "same.nt", "--owl2rl", "-D", "-", "--representatives").out
    assert "countess" in whole and len(few.splitlines()) < len(whole.splitlines())
    run(lines, folder, "update", "kb", "--delete", "same.nt")
    assert run(lines, folder, "sparql", "kb", query, "--format", "csv").out.split() == ["x", "http://e/ada"]
    (folder / "p.dl").write_text(".decl a(x: number)\n.output a\n")
    assert "is for RDF" in run(lines, folder, "run", "p.dl", "--representatives", code=2).err
