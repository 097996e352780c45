"""The engine as users meet it: the paper's running example, bounds, termination, constraints, queries."""

from __future__ import annotations

import datetime as dates
import random
from fractions import Fraction
from typing import Any

import pytest

from gpuengine.errors import GpuEngineError, ProgramErrors
from gpuengine.temporal.bounds import Unbounded
from gpuengine.temporal.constraints import Inconsistent
from gpuengine.temporal.engine import TemporalEngine
from gpuengine.temporal.plan import plan_of
from gpuengine.temporal.procedures import PROCEDURES
from gpuengine.temporal.propagation import is_backward, is_forward
from gpuengine.temporal.syntax import Interval
from tests.temporal.random_programs import fact_text, random_facts, random_interval

RUNNING = """\
R1(X,Y) :- Diamondminus[1,1] R1(X,Y)
Boxplus[1,1] R5(Y) :- R2(X,Y), Boxplus[1,2] R3(Y,Z)
R4(X) :- Diamondminus[0,1] R5(X)
R6(Y) :- R5(Y), Boxminus[0,2] R4(Y), R1(X,Y)
"""
RUNNING_FACTS = "R1(c1,c2)@[0,1]\nR2(c1,c2)@[1,2]\nR3(c2,c3)@[2,3]\nR5(c2)@[0,1]\n"
D1 = [
    "R1(c1,c2)@[0,2]", "R2(c1,c2)@[1,2]", "R3(c2,c3)@[2,3]", "R4(c2)@[0,2]", "R5(c2)@[0,1]", "R5(c2)@[2,2]",
]  # fmt: skip
D2 = [
    "R1(c1,c2)@[0,3]", "R2(c1,c2)@[1,2]", "R3(c2,c3)@[2,3]", "R4(c2)@[0,3]", "R5(c2)@[0,1]", "R5(c2)@[2,2]",
    "R6(c2)@[2,2]",
]  # fmt: skip


def engine(program: str, facts: str = "") -> TemporalEngine:
    kb = TemporalEngine(program)
    if facts:
        kb.load(facts)
    return kb


def lines(kb: TemporalEngine) -> list[str]:
    return [line for name in kb.relations for line in kb[name].lines()]


# -- the running example of the paper --------------------------------------------------------------


@pytest.mark.parametrize("procedure", PROCEDURES)
def test_the_running_example(procedure: str) -> None:
    kb = engine(RUNNING, RUNNING_FACTS)
    assert lines(kb.materialise(rounds=1, procedure=procedure)) == D1  # type: ignore[arg-type]
    assert lines(kb.materialise(rounds=2, procedure=procedure)) == D2  # type: ignore[arg-type]


def test_the_deltas_of_the_running_example() -> None:
    """What was derived; then R1@[0,3], R6@[2,2] and the coalesced R4@[0,3]."""
    kb = engine(RUNNING, RUNNING_FACTS)
    deltas: list[list[str]] = []

    def watch(_: object) -> None:
        relations = watched[0].relations
        found = []
        for name in sorted(relations):
            runs = relations[name].runs
            for atom in relations[name].delta.tolist():
                for at in range(runs.starts[atom], runs.starts[atom] + runs.counts[atom]):
                    if runs.flags[at]:
                        ends = watched[0].encoding.decode(int(runs.lower[at]), int(runs.upper[at]))
                        found.append(f"{name}@{ends}")
        deltas.append(found)

    watched = []
    prepare = kb.prepare

    def note(bounds: object) -> object:
        made = prepare(bounds)  # type: ignore[arg-type]
        watched.append(made[0])
        return made

    kb.prepare = note  # type: ignore[assignment,method-assign]
    kb.materialise(rounds=2, procedure="seminaive", watch=watch)
    assert deltas == [["R1@[0,2]", "R4@[0,2]", "R5@[2,2]"], ["R1@[0,3]", "R4@[0,3]", "R6@[2,2]"]]


def test_what_procedure_3_drops() -> None:
    kb = engine(RUNNING, RUNNING_FACTS).materialise(rounds=6)
    dropped = [(d.round, d.rule.partition(" :- ")[0], d.why) for d in kb.progress.dropped]
    assert dropped == [
        (3, "Boxplus[1,1] R5(Y)", "R5 is not recursive, and complete"),
        (3, "R4(X)", "R4 is not recursive, and complete"),
        (3, "R6(Y)", "all new facts hold after t_r, [2,2]"),
    ]
    # From then on one rule is left, and it has one instance each round.
    assert [(r.rules, r.instances) for r in kb.progress.rounds[3:]] == [(1, 1)] * 3
    assert (
        kb.progress.rounds[5].instances
        < engine(RUNNING, RUNNING_FACTS)
        .materialise(rounds=6, procedure="seminaive")
        .progress.rounds[5]
        .instances
    )


def test_a_rule_without_anything_to_read_is_dropped() -> None:
    kb = engine(
        "A(X) :- Diamondminus[1,1] A(X), Boxminus[0,3] B(X)\nA(X) :- Diamondminus[1,1] A(X)",
        "A(a)@0\nB(a)@[0,1]\n",
    )
    kb.materialise(rounds=4)
    (dropped,) = kb.progress.dropped
    assert dropped.why == "Boxminus[0,3] B(X) holds nowhere, and is complete"


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_propagating_programs(seed: int, forward: bool) -> None:
    """Where the cut-off of Procedure 3 applies, it loses nothing; and horizons are exact."""
    rng = random.Random(seed)
    body = ["Diamondminus", "Boxminus"] if forward else ["Diamondplus", "Boxplus"]
    box = "Boxplus" if forward else "Boxminus"
    chain = "Since" if forward else "Until"

    def literal(names: str) -> str:
        atom = f"{rng.choice(names)}(X)"
        kind = rng.random()
        if kind < 0.3:
            return atom
        if kind < 0.85:
            return f"{rng.choice(body)}{random_interval(rng, 2)} {atom}"
        return f"({rng.choice(names)}(X) {chain}{random_interval(rng, 2)} {atom})"

    rules = []
    for _ in range(5):
        head = rng.choice("ABC")
        boxed = f"{box}{random_interval(rng, 1)} " if rng.random() < 0.3 else ""
        rules.append(f"{boxed}{head}(X) :- {', '.join(literal('ABCPQ') for _ in range(rng.choice([1, 2])))}")
    program = "\n".join(rules)
    facts = (
        "\n".join(fact_text(f) for f in random_facts(rng, 25) if f[0] in "PQ")
        + "\nA(a)@[1,2]\nP(a)@[0,5]\nQ(a)@[1,6]\n"
    )
    kb = engine(program, facts)
    assert all((is_forward if forward else is_backward)(rule) for rule in kb.program.rules)
    for rounds in (3, 6, 9):
        results = [lines(kb.materialise(rounds=rounds, procedure=p)) for p in PROCEDURES]
        assert results[0] == results[1] == results[2]
    wide = engine(program, facts).materialise(horizon="[-40,40]")
    narrow = engine(program, facts).materialise(horizon="[2,7)")
    assert narrow.is_exact and not narrow.notes
    for name in narrow.relations:
        expected = set()
        for *arguments, interval in wide[name]:
            for quarter in range(8, 28):
                if Fraction(quarter, 4) in interval:
                    expected.add((*arguments, Fraction(quarter, 4)))
        found = {
            (*arguments, Fraction(quarter, 4))
            for *arguments, interval in narrow[name]
            for quarter in range(0, 60)
            if Fraction(quarter, 4) in interval
        }
        assert found == expected


# -- does it end? ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "cycle"),
    [
        ("P(X) :- Diamondminus[1,1] P(X)", "P -> P moves facts forward by up to 1 each"),
        ("P(X) :- Diamondplus[0,1/3] P(X)", "P -> P moves facts backward by up to 1/3 each"),
        ("Boxplus[0,1] P(X) :- P(X)", "forward by up to 1"),
        ("Boxminus[0,1] P(X) :- P(X)", "backward by up to 1"),
        ("P(X) :- Q(X)\nQ(X) :- Boxminus[1,2] P(X)", "forward by up to 1"),
        ("P(X) :- R(X) Since[0,2] P(X)\nR(X) :- Diamondminus[0,1] R(X)", "moves facts forward"),
        ("P(X) :- Diamondminus[3,3] Q(X)\nQ(X) :- Diamondplus[2,2] P(X)", "forward by up to 1"),
    ],
)
def test_programs_that_go_on_for_ever(program: str, cycle: str) -> None:
    facts = "P(a)@[0,3]\nR(a)@[0,1]\n"
    with pytest.raises(Unbounded, match=cycle):
        engine(program, facts).materialise()
    assert engine(program, facts).materialise(rounds=5).progress.is_fixpoint is False
    kb = engine(program, facts).materialise(horizon="[-9,9]")
    assert kb.progress.is_fixpoint
    assert plan_of(kb.program).drifts


@pytest.mark.parametrize(
    "program",
    [
        "P(X) :- Q(X)\nQ(X) :- P(X)",
        "P(X) :- Boxminus[0,1] P(X)",
        "P(X) :- Diamondminus[0,inf) P(X)",
        "P(X) :- Diamondminus[2,2] Q(X)\nQ(X) :- Diamondplus[2,2] P(X)",
        "P(X) :- Diamondminus[1,1] P(X), R(X)",
        "P(X) :- Diamondminus[1,1] P(X), Boxminus[0,1] S(X)\nS(X) :- Diamondminus[0,2] R(X)",
        "P(X) :- R(X) Since[0,2] P(X)",
        "P(X) :- Diamondminus[1,2] R(X)",
    ],
)
def test_programs_that_end(program: str) -> None:
    kb = engine(program, "P(a)@[0,1]\nR(a)@[0,9]\n").materialise()
    assert kb.progress.is_fixpoint and kb.is_exact
    assert (
        lines(kb)
        == lines(
            engine(program, "P(a)@[0,1]\nR(a)@[0,9]\n").materialise(horizon="[-50,50]", procedure="naive")
        )
        or "inf" in program
    )
    if "inf" not in program:
        assert not plan_of(kb.program).drifts


def test_facts_without_end_decide() -> None:
    program = "P(X) :- Diamondminus[1,1] P(X), R(X)"
    assert engine(program, "P(a)@[0,0]\nR(a)@[0,5]\n").materialise().progress.is_fixpoint
    with pytest.raises(Unbounded):
        engine(program, "P(a)@[0,0]\nR(a)@[0,inf)\n").materialise()
    # A horizon must bound the direction in which facts move.
    with pytest.raises(Unbounded):
        engine(program, "P(a)@[0,0]\nR(a)@[0,inf)\n").materialise(horizon="[0,inf)")


def test_a_lower_bound_is_called_one() -> None:
    kb = engine("P(X) :- Diamondplus[5,5] Q(X)\nR(X) :- Diamondminus[5,5] P(X)", "Q(a)@[7,7]\n").materialise(
        horizon="[0,5]"
    )
    assert not kb.is_exact
    assert "lower bound" in kb.notes[0]


def test_negation_within_a_horizon_is_no_lower_bound() -> None:
    """What holds outside is not seen, so that its negation may hold where it should not."""
    program = "P(X) :- Q(X), not Diamondplus[0,5] R(X)\nP(X) :- Diamondminus[1,1] P(X)"
    kb = engine(program, "Q(a)@[9,9]\nR(a)@[12,12]\n").materialise(horizon="[0,10]")
    assert kb["P"].lines() and not kb.is_exact
    assert "approximation" in kb.notes[0] and "lower bound" not in kb.notes[0]


@pytest.mark.parametrize(
    ("horizon", "message"),
    [(5, "neither an interval nor"), (("x", 5), "'x' is no time"), ((float("inf"), None), "holds no time")],
)
def test_horizons_that_are_none(horizon: Any, message: str) -> None:
    with pytest.raises(GpuEngineError, match=message):
        engine("P(X) :- Q(X)", "Q(a)@1\n").materialise(horizon=horizon)


@pytest.mark.parametrize("rounds", [-1, 1.5, "3"])
def test_rounds_that_are_none(rounds: Any) -> None:
    with pytest.raises(GpuEngineError, match="whole number from 0 on"):
        engine("P(X) :- Q(X)", "Q(a)@1\n").materialise(rounds=rounds)


# -- constraints -----------------------------------------------------------------------------------


def test_constraints_see_what_the_horizon_cuts_off_later() -> None:
    """A forward-propagating program is exact within a horizon, its constraints too."""
    program = "P(X) :- Diamondminus[1,1] P(X)\nBottom :- Q(X), not Diamondminus[0,5] R(X)\n"
    kb = engine(program, "Q(a)@[0,0]\nR(a)@[-1,-1]\nP(a)@0\n").materialise(horizon="[0,10]")
    assert kb.is_exact and kb["R"].lines() == []
    with kb.update() as u:
        u.insert("R(b)@[-2,-2]\nQ(b)@[1,1]\n")
    with pytest.raises(Inconsistent, match=r"at \[4,4\]"), kb.update() as u:
        u.insert("Q(b)@[4,4]\n")
    program = "P(X) :- Diamondminus[1,1] P(X)\nBottom :- Q(X), Diamondminus[0,5] R(X)\n"
    with pytest.raises(Inconsistent, match=r"at \[0,3\]"):
        engine(program, "Q(a)@[-2,9]\nR(a)@[-2,-2]\nP(a)@0\n").materialise(horizon="[0,10]")
    # A violation outside is none, and a constraint that looks ahead is not exact.
    kb = engine(program, "Q(a)@[-2,-1]\nR(a)@[-2,-2]\nP(a)@0\n").materialise(horizon="[0,10]")
    assert kb.is_exact
    program = program.replace("Diamondminus[0,5]", "Diamondplus[0,5]")
    kb = engine(program, "Q(a)@[1,1]\nP(a)@0\n").materialise(horizon="[0,10]")
    assert "constraints" in kb.notes[0]


def test_constraints() -> None:
    program = "P(X) :- Diamondminus[0,1] Q(X)\nBottom :- P(X), not Boxminus[0,1] R(X), X != c\n"
    assert engine(program, "Q(c)@[1,2]\n").materialise()
    kb = engine(program, "Q(a)@[1,2]\nQ(b)@[1,2]\nR(a)@[0,9]\n")
    with pytest.raises(Inconsistent) as caught:
        kb.materialise()
    assert "<program>:2:1: P(b), not Boxminus[0,1] R(b), b != c, at [1,3]" in str(caught.value)
    with pytest.raises(GpuEngineError, match="nothing is materialised"):
        kb["P"]
    # What is left of Since need not hold, so its variable has no value.
    left = engine("Bottom :- A(Y) Since[0,1] B(X)", "B(b)@[1,2]\n")
    with pytest.raises(Inconsistent, match=r"A\(Y\) Since\[0,1\] B\(b\), at \[1,2\]"):
        left.materialise()


# -- comparisons, queries, names -------------------------------------------------------------------


def test_comparisons() -> None:
    kb = engine(
        "Less(X,Y) :- P(X), P(Y), X < Y\nMost(X) :- P(X), X >= 2.5\n"
        "Same(X,Y) :- P(X), P(Y), X = Y, X != word",
        "P(9)@[0,1]\nP(10)@[0,1]\nP(2.50)@[0,1]\nP(word)@[0,1]\nP(1/3)@[0,1]\n",
    ).materialise()
    assert kb["Less"].lines() == [
        "Less(1/3,10)@[0,1]", "Less(1/3,2.50)@[0,1]", "Less(1/3,9)@[0,1]", "Less(2.50,10)@[0,1]",
        "Less(2.50,9)@[0,1]", "Less(9,10)@[0,1]",
    ]  # fmt: skip
    assert kb["Most"].lines() == ["Most(10)@[0,1]", "Most(2.50)@[0,1]", "Most(9)@[0,1]"]
    assert len(kb["Same"]) == 4


def test_queries() -> None:
    kb = engine(RUNNING, RUNNING_FACTS).materialise(rounds=3)
    assert kb.query("R6(c2)@[2,2]") is True
    assert kb.query("R6(c2)@[2,2.5]") is False
    assert kb.query("R4(c2)@(1/3,5/2)") is True
    assert kb.query("R4(unknown)@0") is False
    found = kb.query("R4(X), Boxminus[0,1/2] R4(X), not R5(X)")
    assert not isinstance(found, bool)
    assert found.columns == ["X", "start", "end", "start_closed", "end_closed"]
    assert found.lines() == ["answer(c2)@(1,2)", "answer(c2)@(2,3]"]
    assert kb.when("R5(c2)") == [Interval(Fraction(0), Fraction(1)), Interval(Fraction(2), Fraction(2))]
    assert kb.holds("R4(c2)", at=Fraction(5, 2)) and not kb.holds("R5(c2)", at="3/2")
    nobody = kb.query('R4("nobody")')
    assert not isinstance(nobody, bool) and len(nobody) == 0
    with pytest.raises(GpuEngineError, match="did you mean the predicate 'R4'"):
        kb.query("R44(X)")
    with pytest.raises(ProgramErrors, match="T0105"):
        kb.query("R4(X,Y)")
    with pytest.raises(ProgramErrors, match="T0203"):
        kb.query("R4(X), not R1(X,Y)")


def test_misspelt_predicates_are_warned_of() -> None:
    kb = engine("P(X) :- Sensr(X), Q(X)", "Sensor(a)@[0,1]\nQ(a)@[0,1]\n")
    assert kb.warnings == [
        "<program>:1:9: Sensr is in no head and no facts: it never holds\n"
        "  hint: did you mean the predicate 'Sensor'?"
    ]


def test_timeless_strata_run_as_datalog() -> None:
    program = (
        "Path(X,Y) :- Edge(X,Y)\nPath(X,Z) :- Path(X,Y), Edge(Y,Z)\nFlag :- Path(n0,n9)\n"
        "Near(Y) :- Path(n0,Y), Y != n3\nAlarm(X) :- Near(X), Diamondminus[0,2] Hot(X), Flag\n"
    )
    facts = "".join(f"Edge(n{k},n{k + 1})@(-inf,inf)\n" for k in range(9)) + "Hot(n3)@1\nHot(n4)@1\n"
    kb = engine(program, facts).materialise()
    assert kb.progress.timeless == ["Flag", "Near", "Path"]
    assert kb["Alarm"].lines() == ["Alarm(n4)@[1,3]"]
    slow = engine(program, facts).materialise(rounds=30)
    assert slow.progress.timeless == [] and slow.progress.is_fixpoint
    assert lines(kb) == lines(slow)
    bounded = engine(program, facts).materialise(horizon="[0,2]")
    assert bounded.progress.timeless == ["Flag", "Near", "Path"]
    assert bounded["Flag"].lines() == ["Flag@[0,2]"]
    # One edge that is not always there, and it is a matter of time.
    changing = engine(program, facts + "Edge(n9,n0)@[0,5]\n").materialise()
    assert changing.progress.timeless == []
    assert changing.holds("Path(n9,n1)", at=3) and not changing.holds("Path(n9,n1)", at=6)


def test_timestamps_wherever_times_are_given() -> None:
    """In facts of a program, horizons, queries and constants, as in files of facts."""
    kb = TemporalEngine(
        "P(X) :- Diamondminus[1h,1h] P(X)\nP(a)@2026-01-01T10:00:00Z\nP(b)@[2026-01-01,2026-01-01T01:00Z]\n"
        "On(X) :- P(X), Day(2026-01-01)\nDay(2026-01-01)@(-inf,inf)\n"
    )
    kb.materialise(horizon="[2026-01-01T00:00:00Z,2026-01-01T12:00:00Z)")
    assert kb["P"].lines() == [
        "P(a)@[2026-01-01T10:00:00Z,2026-01-01T10:00:00Z]",
        "P(a)@[2026-01-01T11:00:00Z,2026-01-01T11:00:00Z]",
        "P(b)@[2026-01-01T00:00:00Z,2026-01-01T12:00:00Z)",
    ]
    assert kb.query("On(b)@[2026-01-01T03:00:00Z,2026-01-01 06:00:00+01:00]") is True
    assert kb.query('On(b)@["2026-01-01T03:00:00Z","2026-01-01T13:00:00Z"]') is False
    with pytest.raises(GpuEngineError, match=r"write it like \[2026-01-31"):
        kb.materialise(horizon="[0,100]")
    with pytest.raises(GpuEngineError, match="no timestamps"):
        TemporalEngine("P(X) :- Diamondminus[2026-01-01,inf) Q(X)\n")
    # Times of another kind are no questions; `when` gives seconds, which are.
    with pytest.raises(GpuEngineError, match="the times of this engine are timestamps"):
        kb.query("On(b)@5")
    assert kb.holds("On(b)", at=kb.when("On(b)")[0].lower)
    assert kb.holds("On(b)", at=dates.datetime(2026, 1, 1, 3))
    assert kb.query('Day("2026-01-01")@(-inf,inf)') is False
    numbers = engine("P(X) :- Q(X)", "Q(a)@1\n").materialise()
    for asked in (
        lambda: numbers.query("P(a)@2026-01-01"),
        lambda: numbers.holds("P(a)", dates.date.today()),
    ):
        with pytest.raises(GpuEngineError, match="the times of this engine are numbers"):
            asked()
