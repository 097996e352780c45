"""The live line: on a terminal only."""

from __future__ import annotations

from pathlib import Path

from gpuengine.cli.live import count, size
from tests.cli.processes import OnTerminal, gpuengine, reach_project


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    reach_project(tmp_path, [(x, x + 1) for x in range(1500)])
    process = OnTerminal("run", "reach.dl", "-F", "facts", "-D", "out", cwd=tmp_path)
    assert process.finish() == 0
    lines = process.shown.split("\r\x1b[K")
    assert any("loading 1/1  edge from facts/edge.facts" in line for line in lines)
    assert any("stratum 1/1  path  round" in line and "facts" in line for line in lines)
    assert any("writing path  0 of 1,125,750 rows" in line for line in lines)
    assert lines[-1].startswith("path 1,125,750  (")
    assert lines[-1].endswith(" MB)\r\n")


def test_quiet_on_a_terminal(tmp_path: Path) -> None:
    reach_project(tmp_path)
    process = OnTerminal("run", "reach.dl", "-F", "facts", "-D", "out", "--quiet", cwd=tmp_path)
    assert process.finish() == 0
    assert process.shown == ""


def test_no_progress_elsewhere(tmp_path: Path) -> None:
    reach_project(tmp_path)
    assert gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", cwd=tmp_path).stderr == ""


def test_numbers_are_short() -> None:
    assert [count(n) for n in (0, 1234, 9_999_999, 12_345_678, 10**11)] == [
        "0",
        "1,234",
        "9,999,999",
        "12.3 M",
        "100.0 G",
    ]
    assert [size(n) for n in (5, 2048, 5 << 20, 3 << 29)] == ["5 B", "2 KB", "5 MB", "1.5 GB"]
