"""Union views on a device: tables by probes, closures by labels, each fact once, in every domain."""

from __future__ import annotations

from random import Random

import pytest

from tests.differential.compare import assert_agrees
from tests.differential.devices import BACK_AND_FORTH, emulated, on
from tests.evaluation.watched import Watched

A = [(n, n + 1) for n in range(30)]
B = [(n, 2 * n) for n in range(30)] + [(n, n + 1) for n in range(0, 30, 3)]
FACTS = {"a": A, "b": B}
TABLES = """
.decl a, b, u(x: number, y: number)
u(x, y) :- a(x, y).
u(y, x) :- b(x, y).
"""
CLOSURES = """
.decl a, b, p, u(x: number, y: number)
p(x, y) :- a(x, y).
p(x, z) :- p(x, y), p(y, z).
u(x, y) :- p(x, y).
u(y, x) :- p(x, y).
u(x, y) :- b(x, y).
"""
READS = """
.decl forth, back, both, neither, fixed(x: number, y: number)
forth(x, z) :- a(x, y), u(y, z).
back(x, z) :- b(z, y), u(x, y).
both(x, y) :- b(x, y), u(y, x).
neither(x, y) :- b(x, y), !u(y, x).
fixed(x, y) :- b(x, y), u(3, y), !u(x, 4).
"""


def test_tables_are_read_without_a_byte_to_the_host() -> None:
    program = TABLES + READS
    run = Watched(program, FACTS, schemes={"u": "union"})
    assert run.sent == [] and run.derived_by_host == []
    assert run.engine.database is not None and run.engine.database.tables["u"].kind == "union"
    assert_agrees(program, FACTS, schemes={"u": "union"}, **on(emulated()))


def test_closures_are_read_by_their_labels() -> None:
    """What goes to the host is what the closure is made from."""
    program, schemes = CLOSURES + READS, {"u": "union", "p": "closure"}
    run = Watched(program, FACTS, schemes=schemes)
    assert {(operation, of) for operation, of, _ in run.derived_by_host} == {("making a scheme", "p")}
    assert sum(run.sent) <= 8 * len(A)
    assert_agrees(program, FACTS, schemes=schemes, **on(emulated()))


RECURSIVE = """
.decl a, b, u, r(x: number, y: number)
u(x, y) :- a(x, y).
u(y, x) :- r(x, y).
r(x, y) :- b(x, y).
r(x, z) :- r(x, y), u(y, z), x < 12, z < 12.
r(z, x) :- u(x, y), r(y, z), !b(z, z), x < 9.
u(x, x + 1) :- r(x, _), x < 6.
"""


def test_a_union_within_a_recursion() -> None:
    """Its parts grow while rules read it: OLD, NEW and ALL."""
    facts = {"a": A[:14], "b": B[:9]}
    for place in (on(emulated()), on(emulated(), BACK_AND_FORTH)):
        assert_agrees(RECURSIVE, facts, schemes={"u": "union"}, **place)


@pytest.mark.parametrize("seed", range(6))
def test_random_unions(seed: int) -> None:
    """Rules of three relations, some of which others copy, in any direction."""
    random = Random(seed)
    names = ["a", "b", "r", "s"]
    lines = [".decl a, b, r, s, u(x: number, y: number)"]
    for name in random.sample(names, 3):
        lines.append(f"u({random.choice(['x, y', 'y, x'])}) :- {name}(x, y).")
    if random.random() < 0.5:
        lines.append("u(x, 3) :- a(x, _).")
    for head in ("r", "s"):
        lines.append(f"{head}(x, y) :- {random.choice('ab')}(x, y).")
        for _ in range(2):
            first, second = random.choice(["u", "r", "s", "a"]), random.choice(["u", "u", "b"])
            test = random.choice(["", ", !b(x, x)", ", x <= z", ", u(z, x)"])
            lines.append(f"{head}(x, z) :- {first}(x, y), {second}(y, z){test}.")
    facts = {name: [(random.randrange(8), random.randrange(8)) for _ in range(7)] for name in ("a", "b")}
    schemes = {"u": "union"} | ({"a": "table"} if seed % 2 else {})
    assert_agrees("\n".join(lines), facts, schemes=schemes, **on(emulated()))
