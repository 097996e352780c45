"""Which classes of equal terms are found again when triples go: those that something leads to only."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gpuengine.language import parse_program
from gpuengine.rdf.dissolution import Reasons, _hangs_together
from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.equality import Classes, Restatement
from gpuengine.rdf.ontology import SAME, owl
from gpuengine.rdf.terms import TYPE
from tests.rdf.entailment import Statement

SUB = "<http://www.w3.org/2000/01/rdf-schema#subPropertyOf>"


def name(local: object) -> str:
    return f"<http://example.org/{local}>"


AXIOMS = [
    (name("email"), TYPE, owl("InverseFunctionalProperty")),
    (name("work"), SUB, name("email")),
    (name("spouse"), TYPE, owl("FunctionalProperty")),
]
PAIRS = [(name(f"{one}{n}"), name("work"), f'"{n}"') for n in range(50) for one in "ab"]


def engine(statements: list[Statement]) -> RdfEngine:
    kb = RdfEngine(profile="owl2rl")
    kb.load(statements)
    return kb.materialise()


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many terms each step looks at again."""
    counts: list[int] = []
    original = Restatement._touched

    def noted(self: Restatement, after: Classes) -> np.ndarray:
        found = original(self, after)
        counts.append(len(found))
        return found

    monkeypatch.setattr(Restatement, "_touched", noted)
    return counts


def test_only_what_a_deletion_leads_to_is_found_again(touched: list[int]) -> None:
    others = [(name(f"c{n}"), SAME, name(f"d{n}")) for n in range(50)]
    kb = engine(AXIOMS + PAIRS + others)
    touched.clear()
    with kb.update() as update:
        update.delete([PAIRS[0]])
    assert sum(touched) <= 4  # the two terms, and their literal
    assert kb._classes.of(kb.terms.add([name("a1")])) == kb._classes.of(kb.terms.add([name("b1")]))
    assert set(kb.triples()) == set(engine(AXIOMS + PAIRS[1:] + others).triples())


def test_what_is_equal_by_another_class_is_found_again(touched: list[int]) -> None:
    """spouse(a0, x), spouse(b0, y): x and y are the same since a0 and b0 are."""
    chain = [(name("a0"), name("spouse"), name("x")), (name("b0"), name("spouse"), name("y"))]
    kb = engine(AXIOMS + PAIRS + chain)
    assert (name("x"), SAME, name("y")) in set(kb.triples())
    with kb.update() as update:
        update.delete([PAIRS[1]])
    assert set(kb.triples()) == set(engine([*AXIOMS, PAIRS[0], *PAIRS[2:], *chain]).triples())
    assert (name("x"), SAME, name("y")) not in set(kb.triples())


def test_a_property_that_was_another_takes_all_classes_with_it() -> None:
    """Facts of :mail are stored as those of :email while the two are the same."""
    same = [(name("k"), name("work"), '"key"'), (name("k"), name("p"), name("o"))]
    equal = [(name("mail"), SAME, name("email")), (name("u"), name("mail"), '"0"')]
    kb = engine(AXIOMS + PAIRS + same + equal)
    assert (name("u"), SAME, name("a0")) in set(kb.triples())
    with kb.update() as update:
        update.delete([equal[0]])
    assert set(kb.triples()) == set(engine(AXIOMS + PAIRS + same + equal[1:]).triples())
    assert (name("u"), SAME, name("a0")) not in set(kb.triples())


@pytest.mark.parametrize("seed", range(6))
def test_classes_far_from_each_other_split_and_merge(seed: int) -> None:
    draw = random.Random(seed)

    def facts(count: int) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(count):
            one, other = (name(f"x{draw.randrange(40)}") for _ in range(2))
            kind = draw.choice(["work", "work", "email", "spouse", "knows", SAME])
            predicate = kind if kind == SAME else name(kind)
            value = f'"{draw.randrange(12)}"' if kind in ("work", "email") else other
            found.append((one, predicate, value))
        return found

    stated = list(dict.fromkeys(facts(30)))
    kb = engine(AXIOMS + stated)
    for _ in range(6):
        gone = draw.sample(stated, min(2, len(stated)))
        come = facts(draw.randrange(3))
        with kb.update() as update:
            update.delete(gone)
            update.insert(come)
        stated = list(dict.fromkeys([triple for triple in stated if triple not in gone] + come))
        assert set(kb.triples()) == set(engine(AXIOMS + stated).triples())


@pytest.mark.parametrize(
    ("clause", "hangs_together"),
    [
        ("p(x, y) :- p(y, z), p(z, x).", True),
        ("p(x, x) :- p(x, y), p(z, z).", False),
        ('p("a", "b") :- p("b", "c").', True),
        ('p("a", "b") :- p("c", "d").', False),
        ('p(x, "b") :- p(x, y), q("b"), x != y.', True),
        ("p(x, x) :- p(x, _), q(_).", False),
        ("p(x, x) :- p(x, _), !q(x).", False),
    ],
)
def test_rules_that_hang_together(clause: str, hangs_together: bool) -> None:
    program = parse_program(f".decl p(x: symbol, y: symbol)\n.decl q(x: symbol)\n{clause}")
    assert _hangs_together(program.rules[0]) is hangs_together


def test_with_too_much_to_go_through_all_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = engine(AXIOMS + PAIRS)
    reasons = Reasons(kb.engine, kb.layout, kb.terms, kb._classes)
    gone = [kb.read([PAIRS[0]], None, None, "fail")]
    assert len(reasons.without(gone)) == len(kb._classes) - 2
    monkeypatch.setattr("gpuengine.rdf.dissolution.MOST_FACTS", 3)
    assert len(reasons.without(gone)) == 0
