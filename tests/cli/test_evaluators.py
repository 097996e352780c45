"""Evaluators of rules from the command line: choosing, refusing, and what `plan` says of them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.cli.processes import gpuengine, visible_files

CYCLE = """
.decl cw, ca(x: number, y: number)
.input cw, ca
.decl pc(x: number, y: number)
.decl known(x: number)
pc(x, x) :- cw(x, _).
pc(x, y), known(x) :- cw(x, u), pc(u, y), ca(x, v), pc(v, y).
"""
OUTPUTS = ".output pc, known\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cycle")
    (folder / "p.dl").write_text(CYCLE + OUTPUTS)
    for name, steps in (("cw", (1, 2)), ("ca", (2, 3))):
        rows = "".join(f"{x}\t{(x + step) % 8}\n" for x in range(8) for step in steps)
        (folder / f"{name}.facts").write_text(rows)
    return folder


def outputs(folder: Path) -> dict[str, list[str]]:
    return {path.name: sorted(path.read_text().splitlines()) for path in folder.glob("*.csv")}


def test_every_choice_gives_the_same_output(project: Path, tmp_path: Path) -> None:
    found = []
    for number, options in enumerate(
        ([], ["*=join"], ["*=hypertree"], ["pc=written"], ["pc:2=hypertree", "known=join", "*=auto"])
    ):
        given = [part for option in options for part in ("--evaluator", option)]
        done = gpuengine("run", "p.dl", "-D", tmp_path / str(number), *given, cwd=project)
        assert (done.returncode, done.stderr) == (0, "")
        found.append(outputs(tmp_path / str(number)))
    assert len(found[0]["pc.csv"]) > 8 and found[0]["known.csv"]
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("command", ["run", "plan", "query"])
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["pc=hypertre"],
            1,
            "error: no evaluator 'hypertre' for pc; did you mean 'hypertree'?\n  hint: it is one of auto,",
        ),
        (
            ["knwon=join"],
            1,
            "error: no rules for 'knwon' to choose an evaluator for; did you mean 'known'?\n",
        ),
        (["pc:3=join"], 1, "error: no rule 'pc:3' to choose an evaluator for; did you mean 'pc:"),
        (["cw=join"], 1, "error: no rules for 'cw' to choose an evaluator for"),
        (["pc=join", "pc=hypertree"], 1, "error: --evaluator asks for pc=join and for pc=hypertree\n"),
        (["pc"], 2, "'pc' is not RULE=EVALUATOR, such as path=hypertree or path:2=join"),
        (["=join"], 2, "'=join' is not RULE=EVALUATOR, such as path=hypertree or path:2=join"),
        (["pc="], 2, "'pc=' is not RULE=EVALUATOR, such as path=hypertree or path:2=join"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_choices_that_are_refused(
    project: Path, tmp_path: Path, command: str, options: list[str], code: int, message: str
) -> None:
    given = [part for option in options for part in ("--evaluator", option)]
    given += {"run": ["-D", str(tmp_path)], "plan": [], "query": ["pc(1, x)"]}[command]
    done = gpuengine(command, "p.dl", *given, cwd=project)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr and "Traceback" not in done.stderr
    assert visible_files(tmp_path) == []


def evaluators(folder: Path, *options: str) -> dict[str, str]:
    """What `plan` says by what each rule is evaluated."""
    done = gpuengine("plan", "p.dl", "--json", *options, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    rules = [rule for stratum in json.loads(done.stdout)["strata"] for rule in stratum["rules"]]
    return {rule["name"]: rule["evaluator"] for rule in rules}


def test_pragma(tmp_path: Path) -> None:
    pragma = '.pragma "evaluator" "pc=written pc:2=hypertree"\n'
    (tmp_path / "p.dl").write_text(CYCLE + OUTPUTS + pragma)
    assert evaluators(tmp_path) == {"pc:1": "written", "pc:2": "hypertree", "known:1": "hypertree"}
    given = ["--evaluator", "pc:2=join", "--evaluator", "known=join"]
    assert evaluators(tmp_path, *given) == {"pc:1": "written", "pc:2": "join", "known:1": "join"}
    for wrong, message in (
        ("pc", "error: 'pc' is not RULE=EVALUATOR; write it like path=hypertree or path:2=join\n"),
        ("pc=closure", "error: no evaluator 'closure' for pc\n  hint: it is one of"),
        ("edge=join", "error: no rules for 'edge' to choose an evaluator for\n"),
    ):
        (tmp_path / "p.dl").write_text(f'{CYCLE}{OUTPUTS}.pragma "evaluator" "{wrong}"\n')
        done = gpuengine("plan", "p.dl", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(message)


def test_query(project: Path) -> None:
    answers = [
        gpuengine("query", "p.dl", "pc(1, x), known(x)", "--evaluator", f"*={kind}", cwd=project)
        for kind in ("join", "hypertree", "written")
    ]
    assert all((one.returncode, one.stderr) == (0, "") for one in answers)
    assert len({"".join(sorted(one.stdout.splitlines())) for one in answers}) == 1
    assert len(answers[0].stdout.splitlines()) > 1


def test_plan_draws_the_hypertree(project: Path) -> None:
    done = gpuengine("plan", "p.dl", "--evaluator", "*=hypertree", "--svg", "-", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    root = ElementTree.fromstring(done.stdout)
    boxes = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if one.get("class") == "node"]
    assert len(boxes) == 2
    assert "Hypertree of pc:2, width 2: " in "".join(root.itertext())


def test_plan_says_why(project: Path) -> None:
    """Without facts, many are assumed."""
    assert evaluators(project) == {"pc:1": "join", "pc:2": "hypertree", "known:1": "hypertree"}
    shown = gpuengine("plan", "p.dl", cwd=project).stdout
    assert "    by a hypertree of width 2: its body has a cycle, and 2 nodes cost less than" in shown
