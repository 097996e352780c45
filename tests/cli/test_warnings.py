"""Warnings on the command line: printed, silenced, taken for errors, and in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuengine.cli import main

PROGRAM = """.decl a(x: number, y: number)
.decl b(x: number)
.decl c(x: number)
.output b
a(1, 2).
b(x) :- a(x, y).
c(x) :- b(x).
"""
WARNINGS = """warning[W0004]: nothing reads c, and it is not written
 --> program.dl:3:7
  |
3 | .decl c(x: number)
  |       ^
  = hint: add .output c, or leave it out

warning[W0001]: the variable y occurs only once
 --> program.dl:6:14
  |
6 | b(x) :- a(x, y).
  |              ^
  = hint: write _ or _y if any value will do
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.dl"
    path.write_text(PROGRAM)
    return path


def test_run_prints_them_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "program.dl"]) == 0
    assert capsys.readouterr().err == WARNINGS
    assert (tmp_path / "b.csv").read_text() == "1\n"


def test_plan_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "program.dl"]) == 0
    assert capsys.readouterr().err == WARNINGS


def test_query_prints_those_it_does_not_answer_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "program.dl", "c(x)"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "x\n1\n"
    assert "W0001" in printed.err and "W0004" not in printed.err


@pytest.mark.parametrize("command", [["run"], ["plan"]])
def test_silenced(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "program.dl", "-w"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*command, "program.dl", "-w", "--werror"]) == 0
    assert main(["query", "program.dl", "c(x)", "-w"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [["run"], ["plan"]])
def test_taken_for_errors(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "program.dl", "--werror"]) == 1
    printed = capsys.readouterr()
    assert printed.err == f"{WARNINGS}\n2 warnings taken for errors; nothing was evaluated\n"
    assert printed.out == "" and not (tmp_path / "b.csv").exists()
    (tmp_path / "program.dl").write_text(".decl b(x: number)\n.output b\nb(1).\n")
    assert main([*command, "program.dl", "--werror"]) == 0


def test_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "program.dl", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(one["code"], one["span"]["line"], one["subject"]) for one in report["warnings"]] == [
        ("W0004", 3, "c"),
        ("W0001", 6, None),
    ]
