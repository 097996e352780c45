"""`gpuengine completion`: the script in a real bash, and every option of the parser in all of them."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from gpuengine.cli.arguments import make_parsers
from tests.cli.processes import gpuengine


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    done = gpuengine("completion", "bash", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    (folder / "gpuengine.bash").write_text(done.stdout)
    return folder / "gpuengine.bash"


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    typed = " ".join(f"'{word}'" for word in ("gpuengine", *words))
    asked = f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _gpuengine; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "--norc", "-c", f"set -u; source {script}; {asked}"],
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_commands(script: Path) -> None:
    assert completed(script, "com") == ["compact", "completion"]
    assert set(completed(script, "")) == {*make_parsers()[1], "--help", "--version"}


def test_options_and_their_values(script: Path) -> None:
    assert completed(script, "run", "--prof") == ["--profile"]
    assert completed(script, "run", "p.dl", "--backend", "c") == ["cpu", "cuda"]
    assert completed(script, "query", "p.dl", "--format", "") == ["table", "tsv", "csv", "json", "parquet"]
    assert completed(script, "completion", "") == ["bash", "zsh", "fish"]
    assert completed(script, "run", "gpu") == ["gpuengine.bash"]
    assert completed(script, "run", "-F", "gpu") == ["gpuengine.bash"]


def test_every_option_of_every_command(script: Path) -> None:
    for name, parser in make_parsers()[1].items():
        flags = {flag for action in parser._actions for flag in action.option_strings}
        assert set(completed(script, name, "-")) == flags, name


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_every_option(shell: str, tmp_path: Path) -> None:
    told = gpuengine("completion", shell, cwd=tmp_path).stdout
    for name, parser in make_parsers()[1].items():
        part = [line for line in told.splitlines() if f" {name}" in line]
        for flag in (flag for action in parser._actions for flag in action.option_strings):
            spelled = (
                f"*{flag}[" if shell == "zsh" else f" -l {flag[2:]} " if flag[1] == "-" else f" -s {flag[1]} "
            )
            assert any(spelled in line for line in part), (name, flag)
    for line in told.splitlines():
        assert shlex.split(line, comments=True) is not None  # raises if a quote is left open


def test_an_unknown_shell(tmp_path: Path) -> None:
    done = gpuengine("completion", "tcsh", cwd=tmp_path)
    assert done.returncode == 2 and "'bash', 'zsh', 'fish'" in done.stderr
