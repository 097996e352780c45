"""DatalogMTL on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow.parquet
import pytest

from gpuengine.cli import main
from tests.temporal.test_engine import D2, RUNNING, RUNNING_FACTS


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "rules.mtl").write_text(RUNNING)
    (tmp_path / "facts.txt").write_text(RUNNING_FACTS)
    return tmp_path


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_printed_facts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", place / "rules.mtl", "-F", place / "facts.txt", "-D", "-", "--rounds", 2) == 0
    assert capsys.readouterr().out.splitlines() == D2


@pytest.mark.parametrize("format", ["csv", "parquet", "text"])
def test_files_can_be_read_again(place: Path, format: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = place / "out"
    code = run(
        "run", place / "rules.mtl", "-F", place / "facts.txt", "-D", out, "--rounds", 2, "--format", format
    )
    assert code == 0
    assert "R6\t1" in capsys.readouterr().out.splitlines()
    assert {path.stem for path in out.iterdir()} == {"R1", "R2", "R3", "R4", "R5", "R6"}
    if format == "parquet":
        names = ["arg0", "start", "end", "start_closed", "end_closed"]
        assert pyarrow.parquet.read_table(out / "R6.parquet").column_names == names
    (place / "none.mtl").write_text("Nothing(X) :- R6(X)\n")
    assert run("run", place / "none.mtl", "-F", out, "-D", "-", "-w") == 0
    assert capsys.readouterr().out.splitlines() == ["Nothing(c2)@[2,2]", *D2]


def test_json_and_stats(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--rounds", 4, "--json", "--stats", "--procedure", "optimised")
    assert run("run", place / "rules.mtl", "-F", place / "facts.txt", "-D", place / "out", *options) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["relations"]["R6"] == 1
    assert (report["rounds"], report["fixpoint"], report["exact"]) == (4, False, False)
    assert len(report["each_round"]) == 4
    assert report["dropped"][0]["round"] == 3
    assert "round 3: dropped R4(X)" in captured.err


def test_queries(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("query", place / "rules.mtl", "-F", place / "facts.txt", "--rounds", 3)
    assert run(*ask, "R6(c2)@[2,2]") == 0
    assert run(*ask, "R6(c2)@[2,3]") == 1
    assert run(*ask, "R4(X), not R5(X)") == 0
    assert run(*ask, "R5(X)", "--json", "--limit", 1) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:5] == ["yes", "no", "X\ttime", "c2\t(1,2)", "c2\t(2,3]"]
    assert json.loads(said[5]) == {"columns": ["X", "time"], "rows": [["c2", "[0,1]"]], "count": 2}


def test_knowledge_bases(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save = ("--save", place / "kb", "-D", place / "out", "--rounds", 3)
    assert run("run", place / "rules.mtl", "-F", place / "facts.txt", *save) == 0
    capsys.readouterr()
    assert run("query", place / "kb", "R6(c2)@[2,2]") == 0
    assert run("query", place / "kb", "R4(X)") == 0
    assert capsys.readouterr().out.splitlines() == ["yes", "X\ttime", "c2\t[0,3]"]
    (place / "more.csv").write_text("c2,9,10\n")
    changes = ("--changes", place / "changes", "--format", "csv")
    assert run("update", place / "kb", "--insert", f"R5={place}/more.csv", *changes) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["R4\t+1\t-0", "R5\t+1\t-0"]
    assert "derived anew: R1, R4, R5, R6" in captured.err
    assert (place / "changes" / "R4.inserted.csv").read_text().splitlines()[1] == '"c2",9,11,true,true'
    assert run("show", place / "kb", "--rules") == 0
    shown = capsys.readouterr().out.splitlines()
    assert "R4\t2" in shown and "R4(X) :- Diamondminus[0,1] R5(X)" in shown
    assert run("update", place / "kb", "--delete", f"R5={place}/more.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["relations"]["R4"] == {"inserted": 0, "deleted": 1}
    assert run("compact", place / "kb") == 0
    assert run("query", place / "kb", "R4(c2)@10") == 1


def test_rules_and_standard_input(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    (place / "rules.mtl").write_text("P(X) :- Diamondminus[0,1h] Q(X)\n")
    (place / "facts.txt").write_text("Q(a)@[2026-01-01T00:00:00Z,2026-01-01T01:00:00Z]\n")
    start = ("-F", place / "facts.txt", "--timestamps", "--save", place / "kb", "-D", place / "out")
    assert run("run", place / "rules.mtl", *start) == 0
    give("b,2026-01-02T00:00:00Z,2026-01-02T01:00:00Z\n")
    assert run("update", place / "kb", "--insert", "Q=-", "--timestamps") == 0
    (place / "more.mtl").write_text("S(X) :- Boxminus[0,10m] P(X), not Tt(X)\n")
    give("Q(c)@2026-01-03T00:00:00Z\n")
    changed = ("--insert", "-", "--timestamps", "--add-rules", place / "more.mtl")
    assert run("update", place / "kb", *changed) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-3:] == ["P\t+1\t-0", "Q\t+1\t-0", "S\t+3\t-0"]
    assert "Tt is in no head and no facts" in captured.err
    assert run("query", place / "kb", "S(c)@[2026-01-03T00:10:00Z,2026-01-03T01:00:00Z]") == 0
    assert run("update", place / "kb", "--remove-rules", place / "more.mtl") == 0
    assert run("update", place / "kb", "--delete", place / "facts.txt", "--timestamps", "--json") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["yes", "S\t+0\t-3"]
    assert json.loads(said[2])["relations"]["P"] == {"inserted": 0, "deleted": 1}
    give("b,2026-01-02T00:00:00Z\n")
    assert run("update", place / "kb", "--delete", "P=-", "--timestamps") == 1
    assert "<stdin>: 2 columns; P has 1 arguments" in capsys.readouterr().err
    assert run("update", place / "kb", "--remove-rules", place / "more.mtl") == 1
    assert "the program has no rule S(X)" in capsys.readouterr().err
    give("Q(d)@2026-01-03T00:00:00Z\n")
    assert run("update", place / "kb", "--insert", "P=-", "--timestamps") == 1
    assert "facts of Q, but those of P" in capsys.readouterr().err
    assert run("update", place / "no-kb", "--insert", "facts.txt") == 2
    assert "is not RELATION=FILE" in capsys.readouterr().err


def test_plan(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", place / "rules.mtl") == 0
    text = capsys.readouterr().out
    assert "stratum 1: R1 (recursive)" in text and "R4 (not recursive)" in text
    assert "R6 (reads what is recursive)" in text  # Definition 5 calls it recursive too
    assert "moves facts for ever: R1 -> R1 moves facts forward by up to 1 each time round" in text
    assert "Procedure 3: dropped if one of these holds nowhere: R5(Y); Boxminus[0,2] R4(Y)" in text
    assert run("plan", place / "rules.mtl", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["rules"][0]["propagates"] == "forward-propagating"
    assert plan["propagates"] == "neither forward- nor backward-propagating"


def test_errors(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = ("-F", place / "facts.txt", "-D", "-")
    assert run("run", place / "rules.mtl", *facts) == 1
    assert "moves facts through time for ever" in capsys.readouterr().err
    (place / "bad.mtl").write_text("P(X) :- Q(Y)\nDiamondminus[0,1] P(X) :- Q(X)\n")
    assert run("run", place / "bad.mtl", *facts) == 1
    error = capsys.readouterr().err
    assert "error[T0201]" in error and "error[T0104]" in error and "2 errors; nothing was evaluated" in error
    (place / "facts.txt").write_text("R1(a,b)@[0,1]\nnonsense\n")
    assert run("run", place / "rules.mtl", *facts, "--rounds", 1) == 1
    assert f"{place}/facts.txt:2: the time is missing" in capsys.readouterr().err
    assert run("run", place / "rules.mtl", *facts, "--rounds", 1, "--on-error", "skip") == 0
    captured = capsys.readouterr()
    assert captured.out == "R1(a,b)@[0,2]\n"
    assert "skipped 1 bad fact" in captured.err and "R2 is in no head and no facts" in captured.err
    (place / "never.mtl").write_text("Bottom :- R1(X,Y)\n")
    assert run("run", place / "never.mtl", *facts, "--on-error", "skip") == 1
    assert "R1(a,b), at [0,1]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "p.dl", "--rounds", "3"), "--rounds is for DatalogMTL"),
        (("run", "p.mtl", "--scheme", "a=table"), "--scheme is for Datalog"),
        (("run", "p.mtl", "--on", "spark"), "--on spark is for Datalog"),
        (("run", "p.mtl", "--rounds", "-1"), "--rounds"),
        (("plan", "p.dl", "--language", "mtl", "--svg", "x"), "--svg is for Datalog"),
    ],
)
def test_usage(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert says in capsys.readouterr().err


def test_language_and_horizon(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "rules.mtl").rename(place / "rules.txt")
    asked = ("--language", "mtl", "-F", place / "facts.txt", "-D", "-", "--horizon", "[0,4)")
    assert run("run", place / "rules.txt", *asked) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "R1(c1,c2)@[0,4)"
    assert "lower bound" in captured.err
    assert run("run", place / "rules.txt", *asked[:-1], "nonsense") == 1
    assert "the horizon 'nonsense'" in capsys.readouterr().err
