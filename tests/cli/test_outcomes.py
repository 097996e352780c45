"""When something fails after the work is done, the user is told what was done."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import gpuengine as ge
from tests.cli.processes import COMMAND, REACH, TIMEOUT, gpuengine, reach_project

FULL = "error: standard output: No space left on device\n  note: "


@pytest.fixture
def project(tmp_path: Path) -> Path:
    reach_project(tmp_path)
    engine = ge.Engine(REACH)
    engine.load("edge", [(1, 2), (2, 3)])
    engine.save(tmp_path / "kb")
    (tmp_path / "new.csv").write_text("3\t4\n")
    return tmp_path


def edges(kb: Path) -> list[tuple[int, ...]]:
    with ge.open(kb, read_only=True) as engine:
        return sorted(engine["edge"])


def to_full_disk(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    with Path("/dev/full").open("w") as full:
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )


def test_standard_output_on_a_full_disk(project: Path) -> None:
    done = to_full_disk(project, "update", "kb", "--insert", "edge=new.csv")
    assert done.returncode == 1
    assert done.stderr == f"{FULL}the update is committed; only what it changed could not be told\n"
    assert edges(project / "kb") == [(1, 2), (2, 3), (3, 4)]
    done = to_full_disk(project, "compact", "kb")
    assert (done.returncode, done.stderr) == (1, f"{FULL}the knowledge base is compacted\n")
    assert not (project / "kb" / "g1.journal").exists()
    done = to_full_disk(project, "run", "reach.dl", "-F", "facts", "-D-", "--save", "other")
    assert (done.returncode, done.stderr) == (1, f"{FULL}other is saved\n")
    assert edges(project / "other") == [(1, 2), (2, 3)]


def test_reader_that_leaves_an_update(project: Path) -> None:
    command = " ".join([*COMMAND, "update", "kb", "--insert", "edge=new.csv"])
    done = subprocess.run(
        ["bash", "-c", f"{command} | true; echo ${{PIPESTATUS[0]}}"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.stdout == "141\n" and done.stderr.startswith("note: the update is committed")
    assert edges(project / "kb") == [(1, 2), (2, 3), (3, 4)]


def test_unfinished_update_is_dropped_and_told(project: Path) -> None:
    journal = project / "kb" / "g1.journal"
    journal.write_bytes(journal.read_bytes() + bytes(600))
    done = gpuengine("update", "kb", "--insert", "edge=new.csv", cwd=project)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: kb: 600 bytes of an update that was never finished were dropped")
    with pytest.warns(UserWarning, match="never finished"):
        journal.write_bytes(journal.read_bytes() + bytes(600))
        ge.open(project / "kb").close()
    assert edges(project / "kb") == [(1, 2), (2, 3), (3, 4)]


def test_the_next_run_finishes_replacing_files(project: Path) -> None:
    """Also one that fails then, or writes other files."""
    out = project / "out"
    out.mkdir()
    (out / "b.csv").write_text("old")
    (out / ".b.tmp").write_text("new")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    content = {"boot": boot, "renames": [[".a.tmp", "a.csv", 3], [".b.tmp", "b.csv", 3]]}
    (out / ".gpuengine-renames-1-2.json").write_text(json.dumps(content))
    (project / "facts" / "edge.facts").write_text("1\tx\n")
    assert gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", cwd=project).returncode == 1
    assert {path.name: path.read_text() for path in out.iterdir()} == {"b.csv": "new"}
