"""Memory, threads and pieces of work: what an engine over time keeps to."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

import gpuengine as ge
from gpuengine.cli import main
from gpuengine.errors import Busy, DataError, EvaluationError, MemoryBudgetError
from gpuengine.temporal import evaluation, facts
from gpuengine.temporal.engine import TemporalEngine
from tests.temporal.random_programs import fact_text, random_facts, random_program

PRODUCT = "C(X,Y) :- A(X), B(Y).\n"


def product(memory: str) -> TemporalEngine:
    kb = ge.TemporalEngine(PRODUCT, memory=memory)
    kb.load("A", [(f"a{i}", 0, i % 9 + 1) for i in range(40)])
    kb.load("B", [(f"b{i}", 0, 5) for i in range(40)])
    return kb


def test_who_derives_too_much_is_told_by_which_rule() -> None:
    kb = product("64MB").materialise()
    assert len(kb["C"]) == 1600
    before = kb["C"].lines()
    with pytest.raises(MemoryBudgetError, match=r"C\(X,Y\) :- A\(X\), B\(Y\)"), kb.update() as update:
        update.insert("A", [(f"n{i}", 0, 1) for i in range(4000)])
        update.insert("B", [(f"n{i}", 0, 1) for i in range(4000)])
    assert kb["C"].lines() == before
    with kb.update() as update:
        update.insert("A", [("n", 0, 1)])
    assert len(kb["C"]) == 1640


def test_the_budget_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.mtl").write_text(PRODUCT)
    lines = [f"A(a{i})@[0,1]\nB(b{i})@[0,1]\n" for i in range(4000)]
    (tmp_path / "f.txt").write_text("".join(lines))
    run = ["run", str(tmp_path / "p.mtl"), "-F", str(tmp_path / "f.txt"), "-D", str(tmp_path / "out")]
    assert main([*run, "--memory", "64MB"]) == 1
    assert "out of the memory budget of 64.0 MB" in capsys.readouterr().err
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_sizes_that_are_none() -> None:
    for memory in ("much", -5):
        with pytest.raises(ge.GpuEngineError, match="memory size"):
            ge.TemporalEngine(PRODUCT, memory=memory)
    with pytest.raises(ge.GpuEngineError, match="wait must be a number of seconds"):
        ge.TemporalEngine(PRODUCT, wait=-1)


@pytest.mark.parametrize("seed", range(25))
def test_pieces_make_no_difference(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    program = random_program(rng)
    given, more = ("\n".join(map(fact_text, random_facts(rng, count))) + "\n" for count in (20, 3))

    def results() -> dict[str, list[str]]:
        kb = ge.TemporalEngine(program)
        kb.load(given)
        kb.materialise(horizon="[-9,15]")
        with kb.update() as update:
            update.insert(more)
        return {name: kb[name].lines() for name in kb.relations}

    whole = results()
    monkeypatch.setattr(evaluation, "_INTERVALS_AT_ONCE", 2)
    monkeypatch.setattr(evaluation, "_FEWEST_AT_ONCE", 1)
    assert results() == whole


def test_text_is_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"P(a{i},ä)@[{i},{i + 1}.5)" for i in range(200)]
    lines[50:50] = ["/* a comment", "that goes", "on P(x)@[1", "*/", "% another", ""]
    lines.append('P("a, b",c)@[1/3,2]')
    text = "\n".join(lines)
    whole = ge.TemporalEngine("Q(X) :- P(X,Y).").materialise()
    with whole.update() as update:
        update.insert(text)
    monkeypatch.setattr(facts, "_BLOCK", 30)
    kb = ge.TemporalEngine("Q(X) :- P(X,Y).")
    assert kb.load(text) == 201
    assert kb.materialise()["P"].lines() == whole["P"].lines()
    bad = text.encode() + b"\nP(\xff,b)@[1,2]\nP(a,b)@[2,1]\n"
    with pytest.raises(DataError) as caught:
        kb.load("P", bad)
    assert f":{len(lines) + 1}: this is no UTF-8 text" in str(caught.value)
    assert f":{len(lines) + 2}: the interval holds no time" in str(caught.value)


def test_many_decimals_fit_where_the_time_does() -> None:
    kb = ge.TemporalEngine("Q(X) :- P(X).")
    kb.load("P(a)@[12.3456789012345678,13]\n")
    assert kb.materialise().holds("Q(a)", 13)
    with pytest.raises(EvaluationError, match=r"the worst is 2\.2800000000000002 "):
        kb.load("P(a)@[2.2800000000000002,90000]\n")


def test_threads_take_turns() -> None:
    kb = ge.TemporalEngine("B(X) :- Boxminus[0,1] A(X).\nC(X) :- Diamondminus[0,3] B(X).\n")
    kb.load("A", [(str(i), 0, 10 + i % 7) for i in range(300)])
    kb.materialise()
    more = [(f"n{i}", 0, 5) for i in range(100)]
    failures: list[object] = []
    ended = threading.Event()

    def read() -> None:
        try:
            while not ended.is_set():
                answers = {len(kb[name]) for name in ("A", "B", "C")} | {len(kb.query("A(X), C(X)"))}  # type: ignore[arg-type]
                if not answers <= {300, 400}:
                    failures.append(answers)
                if kb.holds("A(7)", 3) is not True:
                    failures.append("A(7)")
        except BaseException as error:
            failures.append(error)

    def write() -> None:
        try:
            for _ in range(8):
                with kb.update() as update:
                    update.insert("A", more)
                with kb.update() as update:
                    update.delete("A", more)
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    writers = [threading.Thread(target=write) for _ in range(2)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    ended.set()
    for thread in readers:
        thread.join()
    assert not failures
    assert len(kb["A"]) == 300


def test_who_waits_too_long_is_told() -> None:
    kb = ge.TemporalEngine("Q(X) :- P(X).", wait=0.01)
    kb.load("P", [("a", 0, 1)])
    kb.materialise()
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            kb.query("Q(X)")
        except Busy as error:
            caught.append(error)

    with kb.update() as update:
        update.insert("P", [("b", 0, 1)])
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert "for another thread" in str(caught[0])
    assert len(kb["Q"]) == 2


def test_rules_that_another_thread_added_stay() -> None:
    kb = ge.TemporalEngine("Q(X) :- P(X).")
    kb.load("P", [("a", 0, 1)])
    kb.materialise()
    late = kb.update()
    with kb.update() as update:
        update.add_rules("R(X) :- P(X).")
    with late:
        late.insert("P", [("b", 0, 1)])
    assert len(kb["R"]) == 2
