"""Every kernel is there for some program: golden and random ones, forced onto a device, launch them all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpuengine as ge
import gpuengine.evaluation.options
from gpuengine.cli import main
from gpuengine.evaluation.placement.accelerator import Accelerator
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.catalogue import KERNELS
from gpuengine.temporal.engine import TemporalEngine
from tests.differential.compare import assert_agrees
from tests.differential.devices import EVERYWHERE, emulated, on
from tests.exchange.stand_ins import CudaArray, engine
from tests.planning.random_recursion import recursive_program
from tests.temporal.test_device import FACTS, PROGRAM
from tests.test_programs import NAMES, PROGRAMS, _arguments

RANDOM_PROGRAMS = 40
#: Rows that do not pack into 64 bits.
WIDE = """
.decl e, p, q(x: number, y: number, z: number)
.input e
.output p, q
p(x, y, z) :- e(x, y, z).
p(y, x, z) :- p(x, y, z), e(_, y, z).
q(x, y, z) :- e(x, y, z), !p(z, y, x), p(y, x, z).
"""
#: More of them than there is room for at first.
CUBE = """
.decl d(x: number)
.decl p(x: number, y: number, z: number)
p(x, y, z) :- d(x), d(y), d(z), x <= z.
p(z, y, x) :- p(x, y, z).
"""
#: Facts that are looked for, and not, by some of their columns, with one of them twice.
EXISTING = """
.decl e(x: number, y: number)
.decl t(x: number, y: number, z: number)
.input e, t
.decl f(x: number, y: number, z: number, w: number)
.decl same, none, both, found(x: number, y: number)
.output same, none, both, found
f(x, y, z, (x + w) % 5) :- t(x, y, z), e(z, w).
same(x, y) :- e(x, y), t(x, y, y).
none(x, y) :- e(x, y), !t(y, x, _).
both(x, y) :- e(x, y), t(y, _, y).
found(x, w) :- e(x, y), e(y, z), f(x, y, z, w), e(w, _).
found(x, y) :- e(x, y), e(y, z), !f(x, y, z, _).
"""
CLOSURE = """
.decl edge, path, far, back(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
far(x, z) :- edge(x, y), path(y, z).
back(y, x) :- edge(x, y), path(0, x).
back(y, x) :- edge(x, y), x != 0, !path(x, x).
"""
#: Values that are computed and aggregated, of every kind of numbers.
COMPUTING = """
.decl given(n: number, u: unsigned, f: float)
.input given
.decl n, least(x: number)
.decl f(x: float)
n(x * 3 - 100000000) :- given(x, _, _).
f(to_float(x) + to_float(u) * g) :- given(x, u, g), g + 1.0 < 40.0.
n(k) :- given(x, u, _), k = sum m : { given(m, u, _), m <= x }.
least(k) :- k = min m : { n(m) }.
f(g) :- given(x, _, _), g = mean h : { given(x, _, h), h > 1.0 }.
f(to_float(k)) :- k = count : { given(_, _, _) }.
"""
#: Floats that come in pieces, the later ones larger by far.
SPREAD = """
.decl given(x: float)
.input given
.decl total(x: float)
total(s) :- s = sum (x * y) : { given(x), given(y) }.
"""
#: Relations whose sets are bitmaps, hashed keys and wide rows, all of which lose facts by updates.
LOSING = """
.decl e, small, large(x: number, y: number)
.decl wide(x: number, y: number, z: number)
small(x % 9, y % 9) :- e(x, y).
large(x, z) :- e(x, y), e(y, z).
wide(x, y, z) :- large(x, y), e(y, z).
"""
NUMBERS = ".decl given(n: number, u: unsigned, f: float)\n.decl fact(n: number, u: unsigned, f: float)\n"


def run_golden_programs(backend: CudaBackend, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that end without an error; `test_cuda_programs` compares what they write."""
    monkeypatch.setattr(
        gpuengine.evaluation.options, "find_accelerator", lambda *_: Accelerator(backend, EVERYWHERE)
    )
    for name in NAMES:
        if not (PROGRAMS / name / "expected.err").exists():
            monkeypatch.chdir(PROGRAMS / name)
            assert main(_arguments(PROGRAMS / name, folder / name)) == 0, name


def run_chosen_programs(backend: CudaBackend) -> None:
    assert_agrees(WIDE, {"e": [(2**23 * (n % 2), n, 400_000 * n) for n in range(40)]}, **on(backend))
    cube = ge.Engine(CUBE, **on(backend))
    cube.load("d", [(300_000 * n,) for n in range(50)])
    assert len(cube.materialise()["p"]) == 50**3
    pairs = [(n % 5, n % 7) for n in range(35)]
    assert_agrees(EXISTING, {"e": pairs, "t": [(x, y, (x + y) % 3) for x, y in pairs]}, **on(backend))
    numbers = [(n - 20, n % 7, n / 2) for n in range(60)]
    assert_agrees(COMPUTING, {"given": numbers}, **on(backend))
    assert_agrees(SPREAD, {"given": [(1.1 * 2.0**n,) for n in range(300)]}, **on(backend))
    for spread in (1, 400_000):
        kb = ge.Engine(CLOSURE, schemes={"path": "closure"}, **on(backend))
        kb.load("edge", [(spread * n, spread * (n + 1)) for n in range(30)])
        kb.load("edge", [(spread * 40, spread * 2 * n) for n in range(15)])
        kb.materialise()
        assert len(kb["far"]) == len({(x, z) for x, y in kb["edge"] for w, z in kb["path"] if y == w})
        assert set(kb["back"]) == {(y, x) for x, y in kb["edge"] if x != 0}


def run_random_programs(backend: CudaBackend) -> None:
    for seed in range(RANDOM_PROGRAMS):
        text, facts = recursive_program(seed)
        assert_agrees(text, facts, **on(backend))


def exchange_facts(backend: CudaBackend) -> None:
    """Facts that come from the device and stay there, for a program that copies them."""
    kb = engine(f"{NUMBERS}fact(n, u, f) :- given(n, u, f).", backend)
    kb.load("given", [(1, 2, 0.5), (-(2**40), 2**63, 1e9)])
    kb.materialise()
    found = kb["fact"].to_cupy()
    assert sorted(backend.device.download(found["n"]).tolist()) == [-(2**40), 1]
    kb.load("given", {"n": CudaArray(np.arange(9)), "u": np.arange(9), "f": np.zeros(9)})
    numbers = CudaArray(np.arange(9, 18, dtype=np.int32))
    kb.load("given", {"n": numbers, "u": np.arange(9), "f": np.zeros(9)})
    assert len(kb.materialise()["fact"]) == 2 + 9 + 9
    pairs = engine(".decl e, r(x: number, y: number)\nr(y, x) :- e(x, y).", backend)
    pairs.load("e", CudaArray(np.arange(18, dtype=np.int32).reshape(9, 2)))
    assert set(pairs.materialise()["r"]) == {(2 * n + 1, 2 * n) for n in range(9)}


def update_facts(backend: CudaBackend) -> None:
    """Facts that go, at the end of tables and elsewhere."""
    kb, expected = ge.Engine(LOSING, **on(backend)), ge.Engine(LOSING, backend="cpu")
    spread = 400_000
    facts = [(spread * n, spread * (n + step)) for n in range(60) for step in (1, 2)]
    for each in (kb, expected):
        each.load("e", facts)
        each.materialise()
    for gone in (facts[3:5], facts[-2:]):
        for each in (kb, expected):
            with each.update() as update:
                update.delete("e", gone)
        assert {name: set(kb[name]) for name in kb.relations} == {
            name: set(expected[name]) for name in expected.relations
        }


def run_temporal_program(backend: CudaBackend) -> None:
    kb = TemporalEngine(PROGRAM, backend=backend)
    kb.load(FACTS)
    kb.materialise(horizon="[0,20]")


@pytest.mark.slow
def test_every_kernel_is_launched_by_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = emulated()
    run_golden_programs(backend, tmp_path, monkeypatch)
    run_chosen_programs(backend)
    run_random_programs(backend)
    exchange_facts(backend)
    update_facts(backend)
    run_temporal_program(backend)
    launched = set(backend.device.statistics.items)
    unused = sorted(set(KERNELS) - launched)
    assert not unused, f"kernels that nothing asks for: {', '.join(unused)}"
