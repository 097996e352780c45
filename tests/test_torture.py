"""The torture, for a handful of cases; and that it notices what it is there to notice."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.torture import runner
from tests.torture.runner import Runner, Tally

ROOT = Path(__file__).parents[1]


def torture(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.torture", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)


def test_a_handful_of_cases() -> None:
    done = torture("--cases", "2", "--seed", "5", "--only", "fuzz,streams,mutants,errors")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert lines.keys() == {"fuzz", "streams", "mutants", "errors"}
    assert all(line.startswith("2 cases") and line.endswith(" 0 failures") for line in lines.values())


def test_ctrl_c_shows_the_counts_so_far() -> None:
    command = [sys.executable, "-m", "tests.torture", "--minutes", "9", "--only", "mutants,fuzz"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline().startswith("seeds from ")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and not errors, errors
    assert [line.split()[0] for line in out.splitlines()] == ["mutants", "fuzz"]


@pytest.mark.parametrize("arguments", [(), ("--minutes", "1", "--only", "fuss")])
def test_wrong_arguments(arguments: tuple[str, ...]) -> None:
    assert torture(*arguments).returncode == 2


class Scripted(Runner):
    """Its workers do what a script says; ``seed`` is the next one."""

    script = ""

    def command(self, kind: str, tally: Tally) -> list[str]:
        return [sys.executable, "-u", "-c", f"import os, time\nseed = {tally.next}\n{self.script}"]


def run(script: str, cases: int) -> tuple[Scripted, str]:
    scripted = Scripted(("fuzz",), 3, None, cases, 2, io.StringIO())
    scripted.script = script
    scripted.run()
    assert isinstance(scripted.out, io.StringIO)
    return scripted, scripted.out.getvalue()


def test_a_crash_is_a_failure_of_its_case_and_the_others_go_on() -> None:
    crash = """
if seed == 4: print(f"@begin {seed}"); os.abort()
print(f"@begin {seed}"); print(f"@done {seed} 7")
"""
    scripted, shown = run(crash, 3)
    assert [(failure.kind, failure.seed) for failure in scripted.failures] == [("fuzz", 4)]
    assert "SIGABRT" in shown and "python -m tests.torture --only fuzz --seed 4 --cases 1" in shown
    assert scripted.counts().split() == ["fuzz", "3", "cases", "14", "programs", "1", "failures"]


def test_an_error_is_a_failure_with_its_text() -> None:
    scripted, shown = run(
        """print(f"@begin {seed}"); print(f'@failed {seed} "AssertionError: p differs"')""", 2
    )
    assert [failure.seed for failure in scripted.failures] == [3, 4]
    assert shown.count("AssertionError: p differs") == 2


def test_a_case_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PATIENCE", 1.0)
    scripted, shown = run("""print(f"@begin {seed}"); time.sleep(100)""", 1)
    assert [failure.seed for failure in scripted.failures] == [3]
    assert "more than 1 seconds" in shown
