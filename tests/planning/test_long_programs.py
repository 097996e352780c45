"""Programs with very many rules, and rules with very many atoms: right, and nearly linear in their length."""

from __future__ import annotations

import random
import sys
import threading
from types import FrameType
from typing import Any

import numpy as np
import pytest

import gpuengine as ge
from gpuengine.language import parse_program
from gpuengine.language.program import Atom, Variable, binds
from gpuengine.planning.long_bodies import LONG, is_long
from gpuengine.planning.order import order_body
from tests.planning.statistics import RandomSizes


def body_of_atoms(n: int) -> str:
    atoms = ", ".join(f"e(x{i}, x{i + 1})" for i in range(n))
    return (
        f".decl e(x: number, y: number)\n.decl p(x: number, y: number)\ne(1, 2).\np(x0, x{n}) :- {atoms}.\n"
    )


def declared(n: int) -> str:
    return "".join(f".decl r{i}(x: number)\n" for i in range(n + 1)) + "r0(1).\n"


def chain_of_rules(n: int) -> str:
    return declared(n) + "".join(f"r{i + 1}(x) :- r{i}(x), x > 0.\n" for i in range(n))


def chain_of_negations(n: int) -> str:
    return (
        ".decl d(x: number)\nd(1).\n"
        + declared(n)
        + "".join(f"r{i + 1}(x) :- d(x), !r{i}(x).\n" for i in range(n))
    )


def chain_of_copies(n: int) -> str:
    return declared(n) + "".join(f"r{i + 1}(x) :- r{i}(x).\n" for i in range(n))


def circle_of_rules(n: int) -> str:
    """One stratum, whose rules are written against the way in which facts flow."""
    rules = [f"r{i + 1}(x) :- r{i}(x), x < 5.\n" for i in range(n)]
    return declared(n) + "".join(reversed(rules)) + f"r0(x) :- r{n}(x), x < 4.\n"


def rules_of_one_head(n: int) -> str:
    return ".decl a(x: number)\n.decl b(x: number)\na(1).\n" + "".join(
        f"b({i}) :- a(x), x > {i}.\n" for i in range(n)
    )


PROGRAMS = [
    body_of_atoms,
    chain_of_rules,
    chain_of_negations,
    chain_of_copies,
    circle_of_rules,
    rules_of_one_head,
]


def calls(program: str) -> int:
    """How many calls it takes to check, plan and evaluate a program."""
    counted = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    def work() -> None:
        sys.setprofile(count)
        try:
            ge.Engine(program, threads=1, backend="cpu").materialise()
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=work)  # an engine in another thread than the main one starts none
    thread.start()
    thread.join()
    return counted


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda function: function.__name__)
def test_four_times_the_length_takes_about_four_times_the_work(program: Any) -> None:
    calls(program(70))  # so that nothing is imported or compiled while calls are counted
    small, large = calls(program(80)), calls(program(320))
    assert large < 6 * small, f"{small:,} calls, {large:,} for four times the length"


@pytest.mark.parametrize("program", [chain_of_rules, circle_of_rules], ids=lambda function: function.__name__)
def test_long_chains_are_evaluated_to_their_end(program: Any) -> None:
    kb = ge.Engine(program(1500), threads=1).materialise()
    assert list(kb["r1500"]) == [(1,)]


@pytest.mark.parametrize("seed", range(8))
def test_the_facts_of_long_bodies(seed: int) -> None:
    """A path of many steps with comparisons and negations on the way, against powers of a matrix.

    One edge leads to each node and one from it: there are no more paths than nodes, however long they are.
    """
    chance = random.Random(seed)
    nodes, steps = 6, LONG + 6 + seed
    edges = np.eye(nodes, dtype=bool)[chance.sample(range(nodes), nodes)]
    banned = chance.randrange(nodes)
    body, reached = [], np.eye(nodes, dtype=bool)
    for i in range(steps):
        body.append(f"e(x{i}, x{i + 1})" if chance.random() < 0.7 else f"f(x{i + 1}, x{i})")
        reached = (reached.astype(int) @ edges.astype(int)) > 0
        kind = chance.randrange(60)
        if kind == 0:
            body.append(f"x{i + 1} != {banned}")
            reached[:, banned] = False
        elif kind == 1:
            body.append(f"!b(x{i + 1})")
            reached[:, (banned + 1) % nodes] = False
    chance.shuffle(body)
    pairs = [(i, j) for i in range(nodes) for j in range(nodes) if edges[i, j]]
    kb = ge.Engine(
        ".decl e(x: number, y: number)\n.decl f(x: number, y: number)\n.decl b(x: number)\n"
        f".decl p(x: number, y: number)\np(x0, x{steps}) :- {', '.join(body)}.\n"
    )
    kb.load("e", pairs)
    kb.load("f", [(j, i) for i, j in pairs])
    kb.load("b", [((banned + 1) % nodes,)])
    assert is_long(kb.program.rules[0].body)
    found = {tuple(pair) for pair in kb.materialise()["p"]}
    assert found == {(i, j) for i in range(nodes) for j in range(nodes) if reached[i, j]}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("from_delta", [False, True])
def test_every_literal_of_a_long_body_comes_once_and_when_it_can(seed: int, from_delta: bool) -> None:
    chance = random.Random(seed)
    names = [f"x{i}" for i in range(40)]
    atoms = [f"e({chance.choice(names)}, {chance.choice(names)})" for _ in range(LONG + 20)]
    atoms += [f"t({', '.join(chance.choices(names, k=3))})" for _ in range(5)]
    used = sorted({name for atom in atoms for name in names if f"{name}," in atom or f"{name})" in atom})
    tests = [f"{chance.choice(used)} < {chance.choice(used)}" for _ in range(5)]
    tests += [f"!e({chance.choice(used)}, {chance.choice(used)})" for _ in range(5)]
    tests += [f"{chance.choice(used)} = fresh", "fresh != 3"]
    literals = atoms + tests
    chance.shuffle(literals)
    program = parse_program(
        ".decl e(x: number, y: number)\n.decl t(x: number, y: number, z: number)\n.decl p(x: number)\n"
        f"p({used[0]}) :- {', '.join(literals)}.\n"
    )
    body = program.rules[0].body
    driver = next(i for i, part in enumerate(body) if isinstance(part, Atom)) if from_delta else None
    plan = order_body(body, RandomSizes(seed), driver=driver)
    placed = [position for step in plan.steps for position in (step.position, *step.alternatives)]
    assert sorted(placed) == list(range(len(body)))
    assert driver is None or plan.steps[0].position == driver
    bound: frozenset[Variable] = frozenset()
    for step in plan.steps:
        more = binds(step.literal, bound)
        assert more is not None
        bound |= more
        for other in step.alternatives:
            assert not binds(body[other], bound)
