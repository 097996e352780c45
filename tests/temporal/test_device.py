"""Programs whose interval operations run on a device: the same facts, and the kernels that made them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import gpuengine as ge
from gpuengine.cli import main
from gpuengine.cli import temporal as command
from gpuengine.errors import BackendError
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.catalogue import KERNELS
from gpuengine.kernels.cuda.devices.device import HostArrays
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.temporal.engine import TemporalEngine
from gpuengine.temporal.procedures import PROCEDURES
from tests.kernels.cuda.simulator import SimulatedDevice
from tests.temporal.random_programs import fact_text, random_facts, random_rule
from tests.temporal.test_updates import lines

PROGRAM = """
P(X) :- Diamondminus[1,2] Q(X), Boxminus[0,1] R(X)
S(X) :- P(X) Since[0,3] Q(X), not R(X)
Q(X) :- Boxminus[0,1] S(X), X != d
Boxplus[0,1] T(X,Y) :- R(X) Until[1,2] Q(X), R(Y)
T(X,Y) :- Diamondplus[0,1] T(Y,X)
"""
FACTS = "Q(a)@[0,3]\nR(a)@[1,9)\nQ(b)@2\nR(c)@(0,inf)\nQ(c)@[4,5]\n"


def engine(backend: CudaBackend | str) -> TemporalEngine:
    kb = TemporalEngine(PROGRAM, backend=backend)
    kb.load(FACTS)
    return kb


@pytest.mark.parametrize("procedure", PROCEDURES)
@pytest.mark.parametrize("device", [EmulatedDevice(2), SimulatedDevice(threads=8, block=4)])
def test_a_program_runs_its_operators_on_the_device(device: HostArrays, procedure: str) -> None:
    host, other = engine("cpu"), engine(CudaBackend(device))
    for kb in (host, other):
        kb.materialise(horizon="[0,20]", procedure=procedure)  # type: ignore[arg-type]
        with kb.update() as u:
            u.insert("Q(d)@[0,5]\nR(d)@[0,2]\n")
            u.add_rules("Q(X) :- Diamondplus[1,1] P(X)\n")
    assert lines(other) == lines(host)
    asked = "Diamondminus[0,5] P(X), not Q(X)"
    found, expected = other.query(asked), host.query(asked)
    assert not isinstance(found, bool) and not isinstance(expected, bool)
    assert found.lines() == expected.lines() != []
    launched = {name for name in KERNELS if name.startswith("timeline_") and device.statistics.items[name]}
    unneeded = {"timeline_mark", "timeline_has_new"} if procedure == "naive" else set()
    assert launched | unneeded == {name for name in KERNELS if name.startswith("timeline_")}


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int) -> None:
    rng = random.Random(4000 + seed)
    names = ("P", "Q", "R", "S", "N")
    rules = [random_rule(rng, rng.choice(("P", "R", "N")), names) for _ in range(4)]
    rules.append("D(X) :- Q(X), not Diamondminus[0,1] P(X)")
    facts = "\n".join(map(fact_text, random_facts(rng, 9))) + "\n"
    more = "\n".join(map(fact_text, random_facts(rng, 3))) + "\n"
    found = []
    for backend in ("cpu", CudaBackend(EmulatedDevice(1))):
        kb = TemporalEngine("\n".join(rules), backend=backend)
        kb.load(facts)
        kb.materialise(horizon="[-9,15]", procedure="seminaive")
        before = lines(kb)
        with kb.update() as u:
            u.insert(more)
        found.append((before, lines(kb)))
    assert found[0] == found[1]


def test_stats_say_what_crossed_the_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device = EmulatedDevice(1)
    monkeypatch.setattr(command, "engine_options", lambda arguments: {"backend": CudaBackend(device)})
    (tmp_path / "rules.mtl").write_text(PROGRAM)
    (tmp_path / "facts.txt").write_text(FACTS)
    start = ("run", tmp_path / "rules.mtl", "-F", tmp_path / "facts.txt", "-D", tmp_path / "out")
    options = ("--horizon", "[0,20]", "--stats", "--json", "--backend", "cuda")
    assert main([*map(str, start), *options]) == 0
    captured = capsys.readouterr()
    said = json.loads(captured.out)["device"]
    assert said == {
        "name": "emulated",
        "launches": device.statistics.launches,
        "waits": device.statistics.syncs,
        "sent": device.statistics.uploaded,
        "fetched": device.statistics.downloaded,
        "peak_bytes": device.statistics.peak_bytes,
    }
    assert said["launches"] > 50 and said["sent"] > said["fetched"] > 0
    assert f"{device.statistics.launches:,} launches" in captured.err


def test_a_knowledge_base_goes_on_on_a_device(tmp_path: Path) -> None:
    engine("cpu").materialise(horizon="[0,20]").save(tmp_path / "kb")
    device = EmulatedDevice(1)
    kb = ge.open(tmp_path / "kb", backend=CudaBackend(device))
    with kb.update() as u:
        u.insert("Q(d)@[0,5]\nR(d)@[0,2]\n")
    assert device.statistics.items["timeline_emit"]
    expected = engine("cpu")
    expected.load("Q(d)@[0,5]\nR(d)@[0,2]\n")
    assert lines(kb) == lines(expected.materialise(horizon="[0,20]"))
    kb.close()
    with pytest.raises(ge.GpuEngineError, match="threads can't be given"):
        ge.open(tmp_path / "kb", threads=2)


def test_without_a_device_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BackendError, match="cuda"):
        TemporalEngine(PROGRAM, backend="cuda")
    with pytest.raises(BackendError, match="no backend 'gpu'"):
        TemporalEngine(PROGRAM, backend="gpu")
    (tmp_path / "rules.mtl").write_text(PROGRAM + "Q(a)@1\n")
    assert main(["run", str(tmp_path / "rules.mtl"), "--backend", "cuda", "--horizon", "[0,9]"]) == 1
    assert "the cuda backend can't be used" in capsys.readouterr().err
