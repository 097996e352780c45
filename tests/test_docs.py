"""What the documentation shows is true: its examples run, its links lead somewhere, no option is left out."""

from __future__ import annotations

import argparse
import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gpuengine.cli import arguments

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md")])


def test_python_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    result = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False, optionflags=flags)
    assert result.attempted > 20
    assert result.failed == 0


def test_rdf_page() -> None:
    result = doctest.testfile(
        str(ROOT / "docs" / "rdf.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert result.attempted > 8
    assert result.failed == 0


@pytest.mark.parametrize("page", ["from-souffle", "from-sql"])
def test_pages_for_newcomers(page: str) -> None:
    result = doctest.testfile(str(ROOT / "docs" / f"{page}.md"), module_relative=False)
    assert result.attempted > 3
    assert result.failed == 0


@pytest.mark.slow
def test_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are written, its commands run and its answers compared, from top to bottom."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "tutorial.md").read_text()
    file = r"^`(?P<name>[\w.-]+)`:\n\n```\w+\n(?P<content>[^`]*)```"
    command = r"^    \$ (?P<command>.*)\n(?P<shown>(?:    (?!\$).*\n)*)"
    files = commands = 0
    for step in re.finditer(f"{file}|{command}", text, re.MULTILINE):
        if step["name"]:
            (tmp_path / step["name"]).write_text(step["content"])
            files += 1
            continue
        words = shlex.split(step["command"])
        if words[0] == "gpuengine":
            words = [sys.executable, "-m", *words]
        done = subprocess.run(
            words,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180, check=False,
            env=os.environ | {"PYTHONPATH": str(ROOT), "LC_ALL": "C"},
        )  # fmt: skip
        shown = re.sub(r"^    ", "", step["shown"], flags=re.MULTILINE)
        same = doctest.OutputChecker().check_output(shown, done.stdout, doctest.ELLIPSIS)
        assert same, (step["command"], done.stdout)
        assert (done.returncode != 0) == shown.startswith("error"), step["command"]
        commands += 1
    assert files == 6 and commands >= 10
    result = doctest.testfile(str(ROOT / "docs" / "tutorial.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


@pytest.mark.slow
def test_spark_page(tmp_path: Path) -> None:
    """In a process of its own, with a session of its own; it must be as quiet as a test has to be."""
    (tmp_path / "spark-defaults.conf").write_text("spark.ui.enabled false\nspark.sql.shuffle.partitions 2\n")
    text = (
        "import doctest, sys; flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL; "
        "result = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags); "
        "print(result.attempted, result.failed)"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, str(ROOT / "docs" / "spark.md")],
        cwd=tmp_path,
        env=os.environ | {"SPARK_CONF_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    attempted, failed = map(int, done.stdout.splitlines()[-1].split())
    assert attempted > 20 and failed == 0, done.stdout


def test_python_of_the_readme(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    said = re.findall(r"# (\d[\d,]*)", block)
    assert len(said) == 2
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.stderr == ""
    printed = done.stdout.splitlines()
    assert [f"{int(line):,}" for line in printed if line.isdigit()] == said
    assert printed[-1].startswith("<change: ") and "road: +0 -1" in printed[-1]
    assert (tmp_path / "kb" / "manifest.json").exists()


@pytest.mark.slow
def test_commands_of_the_readme_show_something(tmp_path: Path) -> None:
    """Each in its turn, in a folder that has the examples and nothing else."""
    section = (ROOT / "README.md").read_text().partition("## The command line")[2].partition("\n## ")[0]
    commands = re.findall(r"^    gpuengine (.*)$", section, re.MULTILINE)
    assert len(commands) > 5
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "gpuengine", *shlex.split(command)],
            cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stderr)
        assert "error" not in done.stderr and "warning" not in done.stderr, (command, done.stderr)
        if command.startswith("query"):
            assert len(done.stdout.splitlines()) > 3, command
        else:
            assert done.stdout or (tmp_path / "plan.svg").exists(), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_option_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    found: list[str] = []
    original = argparse._ActionsContainer.add_argument

    def record(self: argparse._ActionsContainer, *names: str, **options: object) -> argparse.Action:
        found.extend(name for name in names if name.startswith("--"))
        return original(self, *names, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(argparse._ActionsContainer, "add_argument", record)
    with pytest.raises(SystemExit):
        arguments.parse_arguments(["--version"])
    assert {"--memory", "--svg", "--limit"} <= set(found)
    found.remove("--version")
    assert "gpuengine --version" in page
    assert [name for name in found if f"`{name}" not in page and name != "--help"] == []
