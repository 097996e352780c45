"""``gpuengine sparql`` as a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuengine as ge
from tests.cli_processes import CommandLines, Finished

DATA = """
@prefix : <http://e/> .
:ann :knows :bob ; :age 40 . :bob :knows :cai ; :age 7 . :cai a :Cat .
"""
RULES = """
PREFIX : <http://e/>
:reaches[?x, ?y] :- :knows[?x, ?y] .
:reaches[?x, ?z] :- :reaches[?x, ?y], :knows[?y, ?z] .
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLines]:
    server = CommandLines(tmp_path_factory.mktemp("scratch"))
    yield server
    server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.ttl").write_text(DATA)
    kb = ge.RdfEngine(RULES)
    kb.load(tmp_path / "data.ttl")
    kb.materialise()
    kb.save(tmp_path / "kb")
    kb.close()
    return tmp_path


def sparql(lines: CommandLines, folder: Path, *arguments: str) -> Finished:
    return lines.run(["sparql", "kb", *arguments], folder)


def test_a_table_with_the_prefixes_of_rules_and_files(lines: CommandLines, folder: Path) -> None:
    found = sparql(lines, folder, "SELECT ?x ?n WHERE { ?x :reaches :cai . ?x :age ?n } ORDER BY ?n")
    assert found.code == 0, found.err
    assert found.out.splitlines() == ["x     n", "────  ──", ":bob  7", ":ann  40", "2 rows"]


def test_formats(lines: CommandLines, folder: Path) -> None:
    query = "SELECT ?x WHERE { ?x a :Cat }"
    found = json.loads(sparql(lines, folder, query, "--format", "json").out)
    assert found["results"]["bindings"] == [{"x": {"type": "uri", "value": "http://e/cai"}}]
    assert sparql(lines, folder, query, "--format", "csv").out.split() == ["x", "http://e/cai"]
    assert sparql(lines, folder, query, "--format", "tsv").out == "?x\n<http://e/cai>\n"
    assert "<uri>http://e/cai</uri>" in sparql(lines, folder, query, "--format", "xml").out


def test_ask_and_construct(lines: CommandLines, folder: Path) -> None:
    assert sparql(lines, folder, "ASK { :ann :reaches :cai }").out == "true\n"
    (folder / "q.rq").write_text("CONSTRUCT { ?y :known ?x } WHERE { ?x :knows ?y }")
    found = sparql(lines, folder, "@q.rq")
    assert sorted(found.out.splitlines()) == [
        "<http://e/bob> <http://e/known> <http://e/ann> .",
        "<http://e/cai> <http://e/known> <http://e/bob> .",
    ]


def test_an_update_is_on_the_disk(lines: CommandLines, folder: Path) -> None:
    change = "DELETE { ?x :knows ?y } INSERT { ?y :knows ?x } WHERE { ?x :knows ?y . ?x :age 40 }"
    assert sparql(lines, folder, change).code == 0
    found = sparql(lines, folder, "SELECT ?x ?y WHERE { ?x :reaches ?y } ORDER BY ?x ?y", "--format", "csv")
    assert found.out.split() == ["x,y", "http://e/bob,http://e/ann", "http://e/bob,http://e/cai"]


def test_errors_name_their_place(lines: CommandLines, folder: Path) -> None:
    (folder / "q.rq").write_text("SELECT ?x\nWHERE { ?x ex:p ?y }")
    found = sparql(lines, folder, "@q.rq")
    assert found.code == 1
    assert "the prefix 'ex:' is not declared" in found.err
    assert "q.rq:2:12" in found.err
    assert sparql(lines, folder).code == 2
    found = sparql(lines, folder, "SELECT ?x { ?x :age 40 }", "--format", "nt")
    assert found.code == 1 and "choose one of" in found.err
    assert lines.run(["sparql", "nowhere", "ASK {}"], folder).code == 1


def test_a_knowledge_base_of_relations_is_refused(lines: CommandLines, tmp_path: Path) -> None:
    engine = ge.Engine(".decl p(x: number)\np(1).")
    engine.materialise()
    engine.save(tmp_path / "kb")
    engine.close()
    found = lines.run(["sparql", "kb", "ASK {}"], tmp_path)
    assert found.code == 1 and found.err.startswith("error")
