"""Processes are timed, ended when they must be, and their answers compared."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.contenders import PEERS, Contender, Souffle
from bench.measure import run_process
from bench.prepare import Prepared
from bench.runner import Settings, run_workload
from tests.bench.stand_in import StandIn

ONCE = Settings(repeat=1, threads=1, timeout=120, memory=4 << 30)
PEER: Contender = StandIn(name="peer", family="peer")


def test_peak_memory_and_time_are_those_of_the_process() -> None:
    """Measured by a process that is small, as the bench is: what Linux reports begins with the parent's."""
    measure = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from bench.measure import run_process\n"
        "script = \"import time; block = b'x' * 200_000_000; time.sleep(0.3)\"\n"
        "command = [sys.executable, '-c', script]\n"
        "run = run_process(command, timeout=30, memory=4 << 30, env=os.environ, cwd=Path.cwd())\n"
        "print(run.status, run.wall, run.peak_rss)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", measure],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    status, wall, peak = done.stdout.split()
    assert status == "ok"
    assert float(wall) > 0.3
    assert 200e6 < int(peak) < 1e9


def test_a_process_that_grows_too_large_is_ended() -> None:
    script = "import time; block = b'x' * 300_000_000; time.sleep(200)"
    run = run_process(
        [sys.executable, "-c", script], timeout=150, memory=150_000_000, env=os.environ, cwd=Path.cwd()
    )
    assert run.status == "memory"
    assert run.wall < 150


def test_engines_that_agree(tiny: Prepared) -> None:
    result = run_workload(tiny, [StandIn(), PEER], Settings(repeat=2, threads=1, timeout=120))
    assert result.problems == []
    assert result.ours is not None and result.ours.cold is not None
    assert [len(o.warm) for o in result.outcomes.values()] == [2, 2]
    assert result.ours.evaluate == 0.25
    assert result.ratio("peer") is not None


def test_a_wrong_answer_is_a_problem(tiny: Prepared) -> None:
    result = run_workload(tiny, [StandIn(extra=1), PEER], ONCE)
    assert result.problems == ["path: gpuengine says 11; 10 is right"]


@pytest.mark.parametrize(
    ("mode", "status", "reason"),
    [
        ("sleep", "timeout", "longer than 1 s"),
        ("crash", "failed", "exit code 1: out of luck"),
        ("babble", "failed", "no JSON answer"),
        ("inapplicable", "n/a", "cannot do that"),
    ],
)
def test_a_peer_that_does_not_answer_says_why(tiny: Prepared, mode: str, status: str, reason: str) -> None:
    settings = Settings(repeat=1, threads=1, timeout=1 if mode == "sleep" else 60)
    result = run_workload(tiny, [StandIn(name="peer", family="peer", mode=mode)], settings)
    assert result.outcomes["peer"].status == status
    assert reason in result.outcomes["peer"].reason
    assert result.outcomes["peer"].best is None


@pytest.mark.parametrize("peer", [p for p in PEERS if p.missing() is None], ids=lambda p: p.name)
def test_peers_found_here_give_the_right_size(tiny: Prepared, peer: Contender) -> None:
    result = run_workload(tiny, [peer], ONCE)
    assert result.outcomes[peer.name].reason == ""
    assert result.outcomes[peer.name].sizes == {"path": 10}


@pytest.mark.parametrize("compiled", [False, True])
def test_souffle_is_called_as_it_expects(
    tiny: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    """A script in place of Soufflé: with -o it "compiles" itself, otherwise it prints a size."""
    script = tmp_path / "bin" / "souffle"
    script.parent.mkdir()
    script.write_text(
        '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && { cp "$0" "$2"; exit; }; '
        '[ "$1" = -F ] && test -e "$2/edge.facts" && printf "path\\t10\\n"; shift; done\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
    souffle = Souffle("souffle", compiled)
    assert souffle.missing() is None
    result = run_workload(tiny, [souffle], ONCE)
    assert result.outcomes["souffle"].reason == ""
    assert result.outcomes["souffle"].sizes == {"path": 10}
