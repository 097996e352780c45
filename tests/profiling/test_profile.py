"""`Engine.profile`: what it tells agrees with what was derived, whatever the program and the place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from time import perf_counter

import pytest

import gpuengine as ge
from gpuengine.evaluation.timeline import ThreadTimes, Timeline
from tests.evaluation.accelerator import ALTERNATING, EVERYWHERE, Accelerator

MUTUAL = """
.decl edge(x: number, y: number)
.decl odd(x: number, y: number)
.decl even(x: number, y: number)
.decl most(x: number, n: number)
.input edge
odd(x, y) :- edge(x, y).
even(x, z) :- odd(x, y), edge(y, z).
most(x, n) :- edge(x, _), n = count : { odd(x, _) }.
most(x, 0) :- even(_, x), !edge(x, _).
"""


def edges(seed: int, nodes: int = 40, count: int = 60) -> list[tuple[int, int]]:
    random = Random(seed)
    return sorted({(random.randrange(nodes), random.randrange(nodes)) for _ in range(count)})


@pytest.mark.parametrize("seed", range(5))
def test_derived_facts_add_up(seed: int) -> None:
    kb = ge.Engine(MUTUAL + "odd(x, w) :- odd(x, y), edge(y, z), edge(z, w).\n", threads=1)
    kb.load("edge", edges(seed))
    kb.materialise()
    derived: Counter[str] = Counter()
    profile = kb.profile()
    for rule in profile.rules:
        assert rule.uncounted == 0
        assert rule.candidates == rule.derived + rule.duplicates
        derived[rule.text.partition("(")[0].strip()] += rule.derived
    assert derived == Counter({name: len(kb[name]) for name in ("odd", "even", "most")})
    assert {one.name: one.facts for one in profile.relations} == {name: len(kb[name]) for name in kb}


def test_what_is_unknown_is_told() -> None:
    program = """
    .decl e(x: number, y: number)
    .decl p(x: number, y: number)
    .input e
    p(x, y) :- e(x, y).
    p(x, z) :- p(x, y), e(y, z), x < 30.
    p(z, x) :- p(x, y), e(y, z), x > 5.
    """
    kb = ge.Engine(program, threads=1)
    kb.load("e", edges(3))
    kb.materialise()
    once, *others = sorted(kb.profile().rules, key=lambda rule: rule.names)
    assert once.expected == once.candidates == once.derived == len(edges(3))
    assert all(rule.expected is None and rule.plans[0].delta == "p" for rule in others)
    assert all(rule.plans[0].assumed for rule in others) and not once.plans[0].assumed
    known = sum(rule.derived for rule in (once, *others))
    unknown = sum(rule.uncounted for rule in others)
    assert unknown and known <= len(kb["p"]) <= known + unknown


def test_sizes_that_are_known_are_expected() -> None:
    """A chain in which each fact joins one other: as many candidates as the plan says."""
    program = """
    .decl e(x: number, y: number)
    .decl p(x: number, y: number)
    .input e
    p(x, y) :- e(x, y).
    p(x, z) :- p(x, y), e(y, z), x < 0.
    """
    kb = ge.Engine(program, schemes={"*": "table"})
    kb.load("e", [(n, n + 1) for n in range(5000)])
    kb.materialise()
    rule = next(rule for rule in kb.profile().rules if rule.names == ("p:2",))
    (plan,) = rule.plans
    assert not plan.assumed and rule.expected == plan.steps[-1].expected
    drive = next(step for step in plan.steps if step.access == "drive")
    assert drive.expected == drive.facts == 5000


def test_spans_are_the_rounds() -> None:
    kb = ge.Engine(MUTUAL + "odd(x, z) :- odd(x, y), odd(y, z), x < 35.\n")
    kb.load("edge", edges(1))
    kb.materialise()
    profile = kb.profile()
    assert kb.progress is not None
    assert sum(span.rounds for one in profile.strata for span in one.spans) == kb.progress.rounds
    for before, after in zip(profile.strata, profile.strata[1:], strict=False):
        assert before.began + before.seconds <= after.began
    for one in profile.strata:
        assert one.spans[0].first == 0 and one.spans[0].began == one.began
        assert sum(span.rounds for span in one.spans) == sum(one.rounds.values())
        for first, second in zip(one.spans, one.spans[1:], strict=False):
            assert first.began + first.seconds == pytest.approx(second.began)
            assert second.first == first.first + first.rounds


def test_places_are_told() -> None:
    for thresholds, places in ((EVERYWHERE, {"fake"}), (ALTERNATING, {"fake", "cpu"})):
        kb = ge.Engine(
            MUTUAL + "odd(x, z) :- odd(x, y), odd(y, z), x < 35.\n",
            backend=Accelerator(),
            thresholds=thresholds,
        )
        kb.load("edge", edges(1))
        profile = kb.materialise().profile()
        assert {where for one in profile.strata for where in one.rounds} == places
        assert {span.where for one in profile.strata for span in one.spans} == places
        recursive = next(rule for rule in profile.rules if "odd(y, z)" in rule.text)
        assert set(recursive.backends) == places
        assert sum(recursive.backends.values()) == pytest.approx(recursive.seconds)
        assert "device" in profile.to_html()


def test_rules_that_were_not_evaluated_say_why() -> None:
    program = """
    .decl e(x: number, y: number)
    .decl c(x: number, y: number)
    .decl f(x: number)
    .input e
    c(x, y) :- e(x, y).
    c(x, z) :- c(x, y), c(y, z).
    f(x) :- e(x, _).
    """
    kb = ge.Engine(program, schemes={"c": "closure"})
    kb.load("e", [(1, 2), (2, 3)])
    kb.materialise(wanted="c")
    notes = {rule.names[0]: rule.note for rule in kb.profile().rules}
    assert notes["c:2"] == "not evaluated: the closure implies it"
    assert notes["f:1"] == "not evaluated: no output depends on f"


def test_nodes_of_hypertrees() -> None:
    program = """
    .decl a(x: number, y: number)
    .decl q(x: number, y: number)
    .input a
    q(x, y) :- a(x, u), a(u, y), a(x, v), a(v, y), u != v.
    """
    kb = ge.Engine(program, evaluators={"q": "hypertree"})
    kb.load("a", edges(2))
    (rule, *made) = sorted(kb.materialise().profile().rules, key=lambda rule: not rule.places)
    assert rule.evaluator == "hypertree: asked for"
    assert len(rule.nodes) > 1 and all(node.expected > 0 for node in rule.nodes)
    assert all(" // a node of: " in one.text and not one.places for one in made)


def test_nothing_to_profile(tmp_path: Path) -> None:
    kb = ge.Engine(MUTUAL)
    with pytest.raises(ge.GpuEngineError, match="nothing was evaluated here yet"):
        kb.profile()
    kb.materialise().save(tmp_path / "kb")
    kb.close()
    with ge.open(tmp_path / "kb") as opened, pytest.raises(ge.GpuEngineError, match="nothing was evaluated"):
        opened.profile()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("counting", [False, True])
def test_an_update_is_profiled(seed: int, counting: bool) -> None:
    """What rules derived covers what came, and what lost a derivation covers what went."""
    kb = ge.Engine(MUTUAL, counting=counting)
    kb.load("edge", edges(seed))
    kb.materialise()
    with kb.update() as u:
        u.insert("edge", [(1, 77), (77, 2)])
        u.delete("edge", edges(seed)[:5])
    profile = kb.profile()
    assert profile.work == "update, maintained" and profile.seconds.keys() == {"update"}
    assert sum(rule.seconds for rule in profile.rules) <= profile.seconds["update"]
    for relation in ("odd", "even", "most"):
        change = u.change[relation]
        rules = [rule for rule in profile.rules if rule.text.startswith(f"{relation}(")]
        came = sum(rule.derived + rule.uncounted for rule in rules)
        went = sum(rule.lost + rule.uncounted for rule in rules)
        assert came >= len(change.inserted) and went >= len(change.deleted)
        assert all(rule.plans for rule in rules if rule.evaluations)
    assert {name for one in profile.strata for name in one.relations} == {"odd", "even", "most"}
    for one in profile.strata:
        assert {span.step for span in one.spans} == {"overdelete", "insert"}
        assert sum(span.rounds for span in one.spans) == sum(one.rounds.values())
    assert profile.facts == sum(len(kb[name]) for name in kb)
    assert "update, maintained" in str(profile) and "overdelete" in profile.to_html()
    with kb.update() as u:
        u.insert("edge", [(1, 77)])
    assert kb.profile().strata == ()
    assert {rule.note for rule in kb.profile().rules} == {"nothing that it reads has changed"}
    assert "Nothing had to be derived" in kb.profile().to_html()


def test_an_update_tells_why_all_is_computed_anew(tmp_path: Path) -> None:
    kb = ge.Engine(MUTUAL)
    with kb.update() as u:
        u.insert("edge", edges(1))
    assert kb.profile().work == "update, computed anew: nothing was there yet"
    assert sum(rule.derived for rule in kb.profile().rules) == sum(
        len(kb[r]) for r in ("odd", "even", "most")
    )
    kb.load("edge", [(3, 99)])
    with kb.update() as u:
        u.insert("edge", [(4, 99)])
    assert kb.profile().work == "update, computed anew: facts were loaded since the last evaluation"
    kb.materialise()
    assert kb.profile().work == "evaluation"
    kb.save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as opened:
        with opened.update() as u:
            u.add_rules("even(x, x) :- odd(x, x).")
        assert opened.profile().work == "update, maintained"


def test_steps_are_counted_again() -> None:
    """Each against the count of its prefix of the body, as plain Python joins it."""
    program = MUTUAL + "odd(x, w) :- odd(x, y), edge(y, z), edge(z, w), x < w.\n"
    kb = ge.Engine(program, threads=1, schemes={"*": "table"})
    kb.load("edge", edges(1))
    kb.materialise()
    assert all(
        step.measured is None for rule in kb.profile().rules for plan in rule.plans for step in plan.steps
    )
    facts = {name: set(kb[name].to_pylist()) for name in kb}
    rules = {rule.names[0]: rule for rule in kb.profile(steps=True).rules}
    (even,) = rules["even:1"].plans
    assert even.steps[-1].measured == sum(y == u for _, y in facts["odd"] for u, _ in facts["edge"])
    assert even.steps[-1].measured == rules["even:1"].candidates and not even.at_most
    (odd,) = rules["odd:2"].plans
    assert odd.delta == "odd"
    drive, *_, last = odd.steps
    assert drive.measured == len(facts["odd"])
    assert last.measured == sum(
        y == a and b == c and x < w
        for x, y in facts["odd"]
        for a, b in facts["edge"]
        for c, w in facts["edge"]
    )
    assert "there were" in kb.profile(steps=True).to_html()


def test_steps_of_relations_that_grow_together_are_bounds() -> None:
    kb = ge.Engine(MUTUAL + "odd(x, z) :- odd(x, y), odd(y, z), x < 35.\n", schemes={"*": "table"})
    kb.load("edge", edges(1))
    rules = {rule.names[0]: rule for rule in kb.materialise().profile(steps=True).rules}
    plans = [plan for plan in rules["odd:2"].plans if plan.steps]
    assert plans and all(plan.at_most for plan in plans)
    assert all(plan.steps[-1].measured >= rules["odd:2"].derived for plan in plans)  # type: ignore[operator]


def test_a_program_without_rules() -> None:
    kb = ge.Engine(".decl a(x: number)\na(1).\n")
    profile = kb.materialise().profile()
    assert profile.rules == profile.strata == ()
    assert "no rules" in profile.to_html()
    assert [(one.name, one.facts) for one in profile.relations] == [("a", 1)]
    assert "a" in str(profile)


def test_a_time_line_stays_short() -> None:
    timeline = Timeline()
    for stratum in range(3):
        timeline.begin_stratum(stratum, (f"r{stratum}",))
        for number in range(10_000):
            timeline.end_rounds(number, 1, number, "cpu" if number < 9000 else "fake")
        timeline.end_stratum()
    assert sum(len(one.rounds) for one in timeline.strata) <= 2048
    for one in timeline.strata:
        assert [one.rounds[0].first, one.rounds[0].rounds] == [0, 1]
        assert sum(span.rounds for span in one.rounds) == 10_000
        assert one.rounds[-1].delta == 9999
        assert sum(span.rounds for span in one.rounds if span.where == "fake") == 1000
        assert sum(span.seconds for span in one.rounds) <= one.seconds
        for first, second in zip(one.rounds, one.rounds[1:], strict=False):
            assert second.first == first.first + first.rounds


def test_a_time_line_of_many_strata() -> None:
    timeline = Timeline()
    for stratum in range(5000):
        timeline.begin_stratum(stratum, (f"r{stratum}",))
        timeline.end_rounds(0, 1, 1, "cpu")
        timeline.end_stratum()
    assert len(timeline.strata) == 5000
    assert all(len(one.rounds) == 1 for one in timeline.strata)


def test_threads_are_told_apart() -> None:
    """What two threads share fills stretches of both; the first works alone before it."""
    program = """
    .decl e(x: number, y: number)
    .decl p(x: number, y: number)
    p(x, z) :- e(x, y), e(y, z), x != z.
    """
    random = Random(8)
    edges = [(random.randrange(300), random.randrange(300)) for _ in range(20_000)]
    kb = ge.Engine(program, threads=2)
    kb.load("e", edges)
    kb.materialise()
    profile = kb.profile()
    first, second = profile.threads_busy
    assert 0 < second.seconds <= profile.seconds["evaluate"]
    assert sum(first.busy) == pytest.approx(first.seconds)
    assert "thread  2 worked" in profile.to_text() and "thread 2 worked" in profile.to_html()
    alone = ge.Engine(program, threads=1)
    alone.load("e", edges)
    alone.materialise()
    assert len(alone.profile().threads_busy) == 1
    assert "thread 1 worked" not in alone.profile().to_html()


def test_times_of_threads_stay_few() -> None:
    times = ThreadTimes()
    start = perf_counter()
    times.begin(start)
    times.note_together([(start + 1.0, start + 2.0), (start + 1.5, start + 2.0)])
    assert times.seconds() == [pytest.approx(2.0), pytest.approx(0.5)]
    assert all(len(busy) * times.width <= 2.0 + times.width for busy in times.busy)
    assert max(map(max, times.busy)) <= times.width * 1.000001
    assert len(times.busy[0]) <= 121
    times.end(perf_counter())
    before = times.seconds()
    times.note_together([(start, start + 9.0)] * 2)
    assert times.seconds() == before, "nothing is evaluated now"
