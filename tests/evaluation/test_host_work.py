"""What the host does of a run on a device is counted, by kind and by what it is for; nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gpuengine as ge
from gpuengine.evaluation.host_work import HostOperation, HostWork
from gpuengine.evaluation.rules.tree_join import TreeJoin
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from tests.evaluation.accelerator import EVERYWHERE, NOWHERE

EDGE = ".decl edge(x: number, y: number)\n"
CLOSURE = f"""{EDGE}
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
CHAIN = [(n, n + 1) for n in range(50)]


def run(program: str, thresholds: Thresholds = EVERYWHERE, **options: Any) -> ge.Engine:
    kb = ge.Engine(
        program, backend=CudaBackend(EmulatedDevice(1)), thresholds=thresholds, threads=1, **options
    )
    kb.load("edge", CHAIN)
    return kb.materialise()


def device_of(kb: ge.Engine) -> EmulatedDevice:
    backend = kb.options.accelerator.backend
    assert isinstance(backend, CudaBackend) and isinstance(backend.device, EmulatedDevice)
    return backend.device


def done(kb: ge.Engine) -> dict[HostOperation, dict[str, int]]:
    """Rows by operation and by what they were for."""
    assert kb.progress is not None
    found: dict[HostOperation, dict[str, int]] = {}
    for entry in kb.progress.host_work.entries:
        assert entry.seconds > 0 and entry.times > 0
        found.setdefault(entry.operation, {})[entry.of] = entry.rows
    return found


def test_joins_leave_nothing_to_the_host() -> None:
    kb = run(f"{EDGE}.decl two(x: number, z: number)\ntwo(x, z) :- edge(x, y), edge(y, z).")
    assert done(kb) == {} and len(kb["two"]) == 49


def test_a_table_costs_the_host_its_planning_only() -> None:
    found = done(run(CLOSURE, schemes={"path": "table"}))
    assert set(found) == {HostOperation.STATISTICS}
    assert not HostOperation.STATISTICS.derives


def test_a_closure_is_made_on_the_host() -> None:
    kb = run(CLOSURE, schemes={"path": "closure"})
    found = done(kb)
    assert set(found) == {HostOperation.SCHEME} and set(found[HostOperation.SCHEME]) == {"path"}
    assert found[HostOperation.SCHEME]["path"] >= len(kb["path"]) == 50 * 51 // 2


def test_a_closure_is_read_on_the_device() -> None:
    """What it is asked for, by either column, checked and negated: no binding goes to the host."""
    program = f"""{CLOSURE}
.decl far, near, back, missing(x: number, z: number)
far(x, z) :- edge(x, y), path(y, z).
near(x, z) :- edge(x, y), edge(y, z), path(x, z).
back(x, z) :- edge(z, y), path(x, y), x != z.
missing(x, y) :- edge(x, y), !path(y, x).
"""
    kb = run(program, schemes={"path": "closure"})
    assert HostOperation.READ not in done(kb)
    assert [len(kb[name]) for name in ("far", "near", "back", "missing")] == [1225, 49, 1225, 50]
    edges = 8 * len(CHAIN)
    assert device_of(kb).statistics.downloaded < edges + 600, "the edges for the closure, and sizes"


def test_reading_what_only_the_host_reads() -> None:
    program = f"{CLOSURE}.decl on(x: number)\non(x) :- edge(x, _), path(x, _).\n"
    kb = run(program, schemes={"path": "closure"})
    assert done(kb)[HostOperation.READ] == {"path": len(CHAIN)}


def test_computing_and_aggregating() -> None:
    computing = f"{EDGE}.decl long(x: symbol)\nlong(cat(to_string(x), to_string(y))) :- edge(x, y)."
    (text,) = done(run(computing))[HostOperation.COMPUTATION]
    assert text.startswith("long(cat(")
    program = f"{EDGE}.decl n(x: symbol)\n.decl most(k: number)\nn(to_string(x)) :- edge(x, _).\n"
    (of,) = done(run(f"{program}most(k) :- k = max strlen(t) : {{ n(t) }}."))[HostOperation.AGGREGATE]
    assert of.startswith("most(k)")


def test_reducing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeJoin, "is_worth_while", lambda self, variant, cost: True)
    square = "edge(x, u), edge(u, y), edge(x, v), edge(v, y)"
    program = f"{EDGE}.decl square(x: number, u: number, v: number)\nsquare(x, u, v) :- {square}."
    kb = run(program, evaluators={"*": "hypertree"})
    assert HostOperation.REDUCTION not in done(kb) and len(kb["square"]) == 49
    doubled = "path(x, z) :- path(x, y), path(y, z)."
    program = f"{EDGE}.decl path(x: number, y: number)\n{doubled}\npath(x, y) :- {square}."
    kb = run(program, evaluators={"*": "hypertree"}, schemes={"path": "closure"})
    assert set(done(kb)[HostOperation.REDUCTION].values()) != {0}, "what goes into a closure is the host's"


def test_rules_that_stay_on_the_host() -> None:
    found = done(run(CLOSURE, NOWHERE, schemes={"path": "table"}))
    assert found[HostOperation.RULES]["path"] >= 50 * 51 // 2


def test_updates() -> None:
    """The device's, unless derivations are counted."""
    kb = run(CLOSURE, schemes={"path": "table"})
    with kb.update() as update:
        update.delete("edge", [(3, 4), (7, 8)])
    assert HostOperation.UPDATE not in done(kb)
    kb = run(CLOSURE, schemes={"path": "table"}, counting=True)
    before = done(kb)
    with kb.update() as update:
        update.delete("edge", [(3, 4), (7, 8)])
    found = done(kb)
    assert sum(found.pop(HostOperation.UPDATE).values()) == 2
    assert found == before, "what is part of an update counts as that"
    with kb.update() as update:
        update.insert("edge", [(3, 4)])
    assert sum(done(kb)[HostOperation.UPDATE].values()) == 3


def test_without_a_device_nothing_is_counted() -> None:
    kb = ge.Engine(CLOSURE, backend="cpu")
    kb.load("edge", CHAIN)
    kb.materialise()
    with kb.update() as update:
        update.delete("edge", [(3, 4)])
    assert done(kb) == {}


def test_work_within_work_counts_once() -> None:
    work = HostWork()
    work.is_counted = True

    def made() -> Iterator[int]:
        for number in (3, 4):
            with work.counting(HostOperation.READ, "inner", 100):
                pass
            yield number

    for _ in work.each(HostOperation.SCHEME, "outer", made(), lambda number: number):
        with work.counting(HostOperation.READ, "between", 1):
            pass
    assert {(entry.operation, entry.of, entry.rows) for entry in work.entries} == {
        (HostOperation.SCHEME, "outer", 7),
        (HostOperation.READ, "between", 2),
    }
    with pytest.raises(ValueError), work.counting(HostOperation.READ, "failing", 5):
        raise ValueError
    with work.counting(HostOperation.READ, "after", 6):
        pass
    assert [entry.rows for entry in work.entries if entry.of == "after"] == [6]
