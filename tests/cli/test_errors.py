"""What a user sees when something is wrong: a message on standard error, an exit code, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.processes import REACH, gpuengine, reach_project, visible_files


def failure(folder: Path, *arguments: str | Path, code: int = 1) -> str:
    """Run a command that must fail; nothing may be printed or written. Returns its message."""
    before = visible_files(folder)
    done = gpuengine(*arguments, cwd=folder)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert visible_files(folder) == before
    return done.stderr


def test_typo_in_program(tmp_path: Path) -> None:
    reach_project(tmp_path)
    (tmp_path / "reach.dl").write_text(REACH.replace("path(x, y), edge(y, z)", "path(x, y), egde(y, z)"))
    message = failure(tmp_path, "run", "reach.dl", "-F", "facts", "-D", "out")
    assert "reach.dl:7:27" in message
    assert "edge" in message
    assert "^^^^" in message
    assert "1 error" in message


def test_missing_program(tmp_path: Path) -> None:
    reach_project(tmp_path)
    message = failure(tmp_path, "run", "raech.dl")
    assert message == "error: there is no program raech.dl\n  hint: did you mean reach.dl?\n"


def test_program_is_a_folder(tmp_path: Path) -> None:
    reach_project(tmp_path)
    message = failure(tmp_path, "run", ".")
    assert message == "error: . is a directory, not a program\n  hint: it has reach.dl\n"


def test_program_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_bytes(b"\xff\xfe\x00\x01")
    assert "p.dl" in failure(tmp_path, "run", "p.dl")


def test_missing_fact_file(tmp_path: Path) -> None:
    reach_project(tmp_path)
    (tmp_path / "facts" / "edge.facts").rename(tmp_path / "facts" / "edges.facts")
    message = failure(tmp_path, "run", "reach.dl", "-F", "facts", "-D", "out")
    assert "facts/edge.facts" in message
    assert "edges.facts" in message.replace("facts/edge.facts", "")


def test_missing_fact_folder(tmp_path: Path) -> None:
    reach_project(tmp_path)
    assert "fcats" in failure(tmp_path, "run", "reach.dl", "-F", "fcats")


def test_bad_row_is_located(tmp_path: Path) -> None:
    reach_project(tmp_path)
    (tmp_path / "facts" / "edge.facts").write_text("1\t2\n2\tthree\n")
    message = failure(tmp_path, "run", "reach.dl", "-F", "facts", "-D", "out")
    assert "edge.facts:2" in message
    assert "three" in message
    assert "column" in message


def test_output_folder_can_not_be_made(tmp_path: Path) -> None:
    reach_project(tmp_path)
    (tmp_path / "taken").write_text("a file")
    for folder in ("taken", "taken/below"):
        message = failure(tmp_path, "run", "reach.dl", "-F", "facts", "-D", folder)
        assert message.startswith(f"error: can't write to {folder}: ")


def test_output_file_is_a_folder(tmp_path: Path) -> None:
    reach_project(tmp_path)
    (tmp_path / "out" / "path.csv").mkdir(parents=True)
    message = failure(tmp_path, "run", "reach.dl", "-F", "facts", "-D", "out")
    assert message == "error: can't write out/path.csv: it is a directory\n"


def test_two_outputs_in_one_file(tmp_path: Path) -> None:
    program = '.decl a(x: number)\n.decl b(x: number)\n.output a, b(filename="both.csv")\na(1). b(2).\n'
    (tmp_path / "p.dl").write_text(program)
    assert failure(tmp_path, "run", "p.dl") == "error: a and b would both be written to both.csv\n"


def test_json_and_facts_do_not_share_standard_output(tmp_path: Path) -> None:
    reach_project(tmp_path)
    assert "--json" in failure(tmp_path, "run", "reach.dl", "-F", "facts", "-D-", "--json")


def test_division_by_zero_names_the_rule(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(".decl a(x: number)\n.output a\na(0).\na(1 / x) :- a(x).\n")
    message = failure(tmp_path, "run", "p.dl", "-D", "out")
    assert "zero" in message
    assert "a(1 / x) :- a(x)." in message


def test_memory_budget(tmp_path: Path) -> None:
    program = """
.decl n(x: number)
.decl pair(x: number, y: number)
.output pair
n(x) :- x = range(0, 20000).
pair(x, y) :- n(x), n(y).
"""
    (tmp_path / "p.dl").write_text(program)
    message = failure(tmp_path, "run", "p.dl", "--memory", "60MB")
    assert "memory budget of 60" in message
    assert "pair(x, y) :- n(x), n(y)." in message
    assert "--memory" in message


def test_cuda_without_a_gpu(tmp_path: Path) -> None:
    reach_project(tmp_path)
    message = failure(tmp_path, "run", "reach.dl", "-F", "facts", "--backend", "cuda")
    assert message.startswith("error: the cuda backend can't be used: ")
    assert all(way in message for way in ("no NVIDIA driver was found", "gpuengine doctor", "--backend cpu"))


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "COMMAND"),
        (("rnu", "reach.dl"), "there is no command rnu"),
        (("run",), "PROGRAM.dl"),
        (("run", "reach.dl", "--memory", "lots"), "not a memory size: 'lots'"),
        (("run", "reach.dl", "-j", "0"), "'0' is not a number above 0"),
        (("run", "reach.dl", "-M", "1=2"), "'1=2' is not NAME=VALUE"),
        (("run", "reach.dl", "--backend", "tpu"), "invalid choice: 'tpu'"),
        (("run", "reach.dl", "--device", "-1"), "'-1' is not the number of a GPU"),
        (("run", "reach.dl", "--device", "first"), "'first' is not the number of a GPU"),
        (("query", "reach.dl", "path(1, x)", "--device-memory", "all"), "not a memory size: 'all'"),
        (("run", "reach.dl", "--on-error", "ignore"), "invalid choice: 'ignore'"),
        (("plan", "reach.dl", "--json", "--svg", "x.svg"), "not allowed with"),
    ],
)
def test_usage(
    arguments: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from gpuengine.cli import main

    assert main(arguments) == 2
    assert what in capsys.readouterr().err


def test_usage_as_a_process(tmp_path: Path) -> None:
    said = failure(tmp_path, "run", code=2).splitlines()
    assert said == [
        "error: gpuengine run: the following arguments are required: PROGRAM.dl, FILE",
        "  hint: gpuengine run --help lists what it takes",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rnu", "p.dl"), "there is no command rnu\n  hint: did you mean run?"),
        (("p.dl",), "p.dl is no command\n  hint: gpuengine run p.dl evaluates it"),
        (("xyz",), "there is no command xyz\n  hint: there is run, plan, query"),
        (("run", "p.dl", "--stast"), "there is no option --stast\n  hint: did you mean --stats?"),
        (("run", "p.dl", "--zzz"), "there is no option --zzz\n  hint: gpuengine run --help lists"),
        (("doctor", "x"), "gpuengine doctor: x is too much"),
        (("run", "p.dl", "-p", "log"), "-p is an option of Soufflé\n  hint: --profile FILE.html"),
        (("run", "p.dl", "-c"), "-c is an option of Soufflé\n  hint: nothing has to be compiled"),
        (("run", "p.dl", "-texplain"), "-t is an option of Soufflé\n  hint: gpuengine explain"),
        (("run", "p.dl", "--provenance=explain"), "--provenance is an option of Soufflé"),
        (("run", "p.dl", "-o", "exe"), "-o is an option of Soufflé\n  hint: there is no executable"),
        ((), "say which COMMAND\n  hint: gpuengine run PROGRAM.dl"),
    ],
)
def test_usage_errors_say_what_to_do(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpuengine.cli import main

    assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert not arguments or len(errors.splitlines()) == 2
