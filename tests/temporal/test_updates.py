"""Changing temporal facts: what comes out is what computing everything anew gives, also from the disk."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import gpuengine as ge
from gpuengine.temporal.bounds import Unbounded
from gpuengine.temporal.constraints import Inconsistent
from gpuengine.temporal.engine import TemporalEngine
from tests.temporal.random_programs import Fact, fact_text, random_facts, random_rule

BOUNDED = "P", "R", "N"


def program_of(rng: random.Random, *, negation: bool) -> str:
    """Rules that need no bound on rounds: within a horizon all of them end."""
    rules = [random_rule(rng, rng.choice(BOUNDED), ("P", "Q", "R", "S", "N")) for _ in range(4)]
    rules += ["D(X) :- Diamondminus[0,1] P(X)", "D(X) :- Boxminus[0,1] D(X), Q(X)"]
    if negation:
        rules.append("E(X) :- Q(X), not Diamondminus[0,1] S(X,X)")
    return "\n".join(rules)


def lines(kb: TemporalEngine) -> list[str]:
    return [line for name in kb.relations for line in kb[name].lines()]


def anew(program: str, facts: list[str], **bounds: object) -> list[str]:
    kb = TemporalEngine(program)
    kb.load("\n".join(facts) + "\n")
    return lines(kb.materialise(**bounds))  # type: ignore[arg-type]


def texts(facts: list[Fact]) -> list[str]:
    return [fact_text(fact) for fact in facts]


@pytest.mark.parametrize("negation", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_insertions_are_recomputations(seed: int, negation: bool, tmp_path: Path) -> None:
    rng = random.Random(seed)
    program = program_of(rng, negation=negation)
    facts = texts(random_facts(rng, 9))
    bounds = rng.choice(
        [{"horizon": "[-9,15]"}, {"horizon": "[-20,20]", "procedure": "seminaive"}, {"rounds": 3}]
    )
    kb = TemporalEngine(program)
    kb.load("\n".join(facts) + "\n")
    kb.materialise(**bounds)  # type: ignore[arg-type]
    kb.save(tmp_path / "kb")
    kb = ge.open(tmp_path / "kb")
    for _ in range(3):
        more = texts(random_facts(rng, rng.randint(1, 3)))
        before = set(lines(kb))
        with kb.update() as u:
            u.insert("\n".join(more) + "\n")
        facts += more
        assert lines(kb) == anew(program, facts, **bounds)
        after = set(lines(kb))
        assert sum(len(c.inserted) for c in u.change.relations.values()) == len(after - before)
        assert sum(len(c.deleted) for c in u.change.relations.values()) == len(before - after)
        assert bool(u.change.recomputed) <= ("rounds" in bounds or negation)
    kb.close()
    again = ge.open(tmp_path / "kb", read_only=True)
    assert lines(again) == lines(kb)


@pytest.mark.parametrize("seed", range(20))
def test_deletions_are_recomputations(seed: int, tmp_path: Path) -> None:
    rng = random.Random(100 + seed)
    program = program_of(rng, negation=seed % 2 == 0)
    # Facts of different atoms, so that what is left of the others is plain.
    facts = list({(f[0], f[1]): f for f in random_facts(rng, 14)}.values())
    kb = TemporalEngine(program)
    kb.load("\n".join(texts(facts)) + "\n")
    kb.materialise(horizon="[-9,15]")
    kb.save(tmp_path / "kb")
    kb = ge.open(tmp_path / "kb")
    while len(facts) > 2:
        gone = [facts.pop(rng.randrange(len(facts))) for _ in range(2)]
        before = set(lines(kb))
        with kb.update() as u:
            u.delete("\n".join(texts(gone)) + "\n")
        assert lines(kb) == anew(program + "\n" + "", texts(facts), horizon="[-9,15]") or not facts
        after = set(lines(kb))
        assert sum(len(c.inserted) for c in u.change.relations.values()) == len(after - before)
        assert sum(len(c.deleted) for c in u.change.relations.values()) == len(before - after)
    kb.close()
    assert lines(ge.open(tmp_path / "kb", read_only=True)) == lines(kb)


def test_a_deletion_takes_times_out() -> None:
    kb = TemporalEngine("P(X) :- Q(X)")
    kb.load("Q(a)@[0,10]\n")
    kb.materialise()
    with kb.update() as u:
        u.delete("Q(a)@(2,3]\n")
    assert kb["P"].lines() == ["P(a)@[0,2]", "P(a)@(3,10]"]
    assert u.change.recomputed == ("P",)
    assert repr(u.change) == "<change: P: +2 -1, Q: +2 -1; derived anew: P>"
    assert u.change.inserted("P")["start"].to_pylist() == [0, 3]


def test_insertions_with_a_finer_unit() -> None:
    kb = TemporalEngine("P(X) :- Diamondminus[1/3,1/2] Q(X)")
    kb.load("Q(a)@[0,1]\n")
    kb.materialise()
    with kb.update() as u:
        u.insert("Q", [("a", "1/7", "8/7")])
    assert kb["P"].lines() == ["P(a)@[1/3,23/14]"]
    assert not u.change.recomputed


def test_a_failed_update_changes_nothing(tmp_path: Path) -> None:
    kb = TemporalEngine("P(X) :- Diamondminus[1,1] Q(X)\nBottom :- P(X), R(X)\n")
    kb.load("Q(a)@[0,1]\nR(b)@[0,9]\nQ(c)@5\n")
    kb.materialise()
    kb.save(tmp_path / "kb")
    kb = ge.open(tmp_path / "kb")
    before = lines(kb)
    with pytest.raises(Inconsistent, match=r"P\(b\), R\(b\), at \[3,4\]"), kb.update() as u:
        u.insert("Q(b)@[2,3]\nQ(a)@[0,7]\nQ(d)@[1,2]\n")
    assert lines(kb) == before
    with pytest.raises(Inconsistent), kb.update() as u:
        u.insert("R(a)@[1,1]\n")
        u.delete("Q(c)@5\n")
    assert lines(kb) == before
    kb.close()
    assert lines(ge.open(tmp_path / "kb", read_only=True)) == before
    with kb.update() as u:
        u.insert("Q(a)@[0,7]\n")
    assert kb["P"].lines() == ["P(a)@[1,8]", "P(c)@[6,6]"]


def test_loading_waits_for_the_next_update() -> None:
    kb = TemporalEngine("P(X) :- Q(X)")
    kb.load("Q(a)@[0,1]\n")
    kb.materialise()
    kb.load("Q(b)@[0,1]\n")
    assert lines(kb) == ["P(a)@[0,1]", "Q(a)@[0,1]"]
    with kb.update() as u:
        u.insert("Q", [("c", 2, 3)])
    assert kb["P"].lines() == ["P(a)@[0,1]", "P(b)@[0,1]", "P(c)@[2,3]"]
    assert len(u.change.relations["P"].inserted) == 2


@pytest.mark.parametrize("seed", range(25))
def test_rules_that_come_and_go_are_recomputations(seed: int, tmp_path: Path) -> None:
    rng = random.Random(300 + seed)
    names = ("P", "Q", "R", "S", "N")
    pool = [random_rule(rng, rng.choice((*BOUNDED, "Q")), names) for _ in range(6)]
    pool += ["D(X) :- Diamondminus[0,1] P(X)", "E(X) :- Q(X), not Diamondminus[0,1] S(X,X)"]
    pool += ["P(X) :- Boxminus[0,1/3] Q(X)", "D(Y) :- Q(Y), D(X) Since[0,2] P(Y)"]
    there = pool[:3]
    facts = texts(random_facts(rng, 9))
    bounds = rng.choice([{"horizon": "[-9,15]"}, {"horizon": "[-20,20]"}, {"rounds": 2}])
    kb = TemporalEngine("\n".join(there))
    kb.load("\n".join(facts) + "\n")
    kb.materialise(**bounds)  # type: ignore[arg-type]
    kb.save(tmp_path / "kb")
    kb = ge.open(tmp_path / "kb")
    for _ in range(5):
        before = set(lines(kb))
        with kb.update() as u:
            added = [rule for rule in rng.sample(pool, 2) if rule not in there]
            u.add_rules("\n".join(added) + "\n")
            there += added
            if len(there) > 3 and rng.random() < 0.6:
                gone = there.pop(rng.randrange(len(there)))
                u.remove_rules(gone.replace("X", "Whoever"))
            if rng.random() < 0.5:
                more = texts(random_facts(rng, 2))
                u.insert("\n".join(more) + "\n")
                facts += more
        expected = anew("\n".join(there), facts, **bounds)
        assert lines(kb) == expected
        after = set(lines(kb))
        assert sum(len(c.inserted) for c in u.change.relations.values()) == len(after - before)
        assert sum(len(c.deleted) for c in u.change.relations.values()) == len(before - after)
        kb.close()
        kb = ge.open(tmp_path / "kb")
        assert lines(kb) == expected
    kb.close()


def test_rules_that_are_added_cost_no_recomputation() -> None:
    kb = TemporalEngine("P(X) :- Q(X)  % as it was\nP(X) :- Diamondminus[1,1] R(X).\n")
    kb.load("Q(a)@[0,1]\nR(b)@[0,2]\n")
    kb.materialise()
    with kb.update() as u:
        u.add_rules("Q(X) :- Boxminus[0,1/2] P(X)\nS(X) :- Q(X), not R(X)\nR(c)@[3,4]\n")
    # Nothing that is negated changes but R, and R is stated: what reads its negation is derived anew.
    assert kb["S"].lines() == ["S(a)@[0,1]", "S(b)@(2,3]", "S(c)@[4.5,5]"]
    with kb.update() as u:
        u.add_rules("Late(X) :- P(X), Diamondminus[2,2] R(X)")
    assert not u.change.recomputed
    assert kb["Late"].lines() == ["Late(b)@[2,3]", "Late(c)@[5,5]"]
    with kb.update() as u:
        u.remove_rules("P(Z) :- Diamondminus[1] R(Z)\nR(c)@4\n")
    assert kb["P"].lines() == ["P(a)@[0,1]"] and kb["R"].lines() == ["R(b)@[0,2]", "R(c)@[3,4)"]
    assert "as it was" in kb.program.text and "Diamondminus[1,1]" not in kb.program.text


@pytest.mark.parametrize(
    ("kind", "rules", "says"),
    [
        ("remove", "P(X) :- Diamondminus[2] R(X)", "the program has no rule P"),
        ("add", "P(X,Y) :- R(X), R(Y)", "P has 2 arguments here, but 1"),
        ("add", "R(X) :- Q(X), not P(X)\nP(X) :- R(X)", "defined through its own negation"),
        ("add", "Q(X) :- Diamondminus[1,1] P(X)", "moves facts through time for ever"),
        ("add", "Bottom :- P(X), R(X)", r"P\(b\), R\(b\), at \[1,2\]"),
        ("add", "P(X) :- Boxminus[0,999999999999999999] R(X)", "do not fit 64 bits"),
    ],
)
def test_edits_that_fail_change_nothing(kind: str, rules: str, says: str, tmp_path: Path) -> None:
    kb = TemporalEngine("P(X) :- Q(X)\nP(X) :- Diamondminus[1,1] R(X)\n")
    kb.load("Q(a)@[0,1]\nR(b)@[0,2]\n")
    kb.materialise().save(tmp_path / "kb")
    kb = ge.open(tmp_path / "kb")
    before, text = lines(kb), kb.program.text
    kb.load("Q(z)@7\n")
    with pytest.raises(ge.GpuEngineError, match=says), kb.update() as u:
        u.insert("Q(new)@[0,1]\n")
        (u.add_rules if kind == "add" else u.remove_rules)(rules)
    assert lines(kb) == before and kb.program.text == text
    with kb.update() as u:
        u.insert("R(a)@1\n")
    assert kb["P"].lines() == ["P(a)@[0,1]", "P(a)@[2,2]", "P(b)@[1,3]", "P(z)@[7,7]"]
    kb.close()
    assert lines(ge.open(tmp_path / "kb", read_only=True)) == lines(kb)


def test_endless_facts_are_refused_where_rules_would_go_on_for_ever() -> None:
    kb = TemporalEngine("P(X) :- Diamondminus[1,1] P(X), Boxminus[0,1] Shift(X)\nP(X) :- Q(X)")
    kb.load("Q(a)@0\nShift(a)@[0,5]\n")
    kb.materialise()
    before = lines(kb)
    with pytest.raises(ge.GpuEngineError, match="for ever"), kb.update() as u:
        u.insert("Shift(a)@[3,inf)\n")
    assert lines(kb) == before
    with kb.update() as u:
        u.insert("Shift(a)@[3,6]\n")
    assert len(u.change.relations["P"].inserted) == 1


def test_a_finer_unit_is_on_the_disk_and_keeps_the_horizon(tmp_path: Path) -> None:
    kb = TemporalEngine("P(X) :- Q(X)\nP(X) :- Diamondminus[1,1] P(X)\nR(X) :- Diamondplus[1,1] P(X)")
    kb.load("Q(a)@[0,1]\n")
    kb.materialise(horizon="[0,5]").save(tmp_path / "kb")
    kb = ge.open(tmp_path / "kb")
    with kb.update() as u:
        u.insert("Q(b)@[1/3,1/2]\n")
    expected = anew(
        "P(X) :- Q(X)\nP(X) :- Diamondminus[1,1] P(X)\nR(X) :- Diamondplus[1,1] P(X)",
        ["Q(a)@[0,1]", "Q(b)@[1/3,1/2]"],
        horizon="[0,5]",
    )
    assert lines(kb) == expected
    kb.close()
    assert lines(ge.open(tmp_path / "kb", read_only=True)) == expected


def test_a_failed_update_leaves_no_new_predicate() -> None:
    """What it began to state is unknown again, and can be stated later, also where much is derived anew."""
    kb = TemporalEngine("N :- Q(X)\nN :- S(X)\n")
    kb.load("Q(a)@[1,6)\nP(a)@[3,4]\n")
    kb.materialise()
    with pytest.raises(Unbounded), kb.update() as u:
        u.insert("T(a)@[3,6)\n")
        u.add_rules("N :- Diamondminus[1,1] N\n")
    assert "T" not in kb
    with kb.update() as u:
        u.insert("T(b,c)@[4,5]\n")
        u.remove_rules("N :- Q(X)\n")
    assert lines(kb) == ["P(a)@[3,4]", "Q(a)@[1,6)", "T(b,c)@[4,5]"]
