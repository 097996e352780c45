"""Rule programs in the engine against their definition, in every layout, and under changes."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import gpuengine as ge
from bench.lubm import FOLDER
from gpuengine.errors import DataError
from gpuengine.rdf.dlog import parse_rules, rule_text
from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.rules import Triple, Variable, canonical
from tests.rdf.oracle import Quad, closure

DATA = Path(__file__).parent / "data"
PREFIX = "PREFIX : <http://e/>\n"
E = "<http://e/"
RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
SAME = "<http://www.w3.org/2002/07/owl#sameAs>"

PROGRAMS = {
    "closure": ":r[?x, ?y] :- :p[?x, ?y] . :r[?x, ?z] :- :r[?x, ?y], :r[?y, ?z] .",
    "equivalence": (
        ":r[?x, ?y] :- :p[?x, ?y] . :r[?y, ?x] :- :r[?x, ?y] . :r[?x, ?z] :- :r[?x, ?y], :r[?y, ?z] ."
    ),
    "several heads": ":A[?x], :q[?y, ?x] :- :p[?x, ?y], :B[?y] .",
    "predicates of variables": "[?y, ?p, ?x] :- [?x, ?p, ?y], :Symmetric[?p] .",
    "two variables": "[?x, ?q, ?y] :- [?x, ?p, ?y], [?p, :sub, ?q] .",
    "classes of variables": "[?x, a, ?d] :- [?x, a, ?c], [?c, :sub, ?d] .",
    "head of a variable": "[?x, ?q, ?y] :- :p[?x, ?y], [:p, :sub, ?q] . :B[?x] :- :q[?x, ?y] .",
    "class in a head": "[?y, a, ?c] :- :p[?x, ?y], [?x, a, ?c], :q[?x, ?y] . :B[?x] :- :A[?x] .",
    "repeated": ":A[?x] :- [?x, ?p, ?x] . :B[?p] :- [?x, ?p, ?p] .",
    "named graphs": "[?x, :q, ?y] :g :- :p[?x, ?y] . [?x, ?p, ?y] :- [?x, ?p, ?y] ?g .",
    "negation": (
        ":A[?x] :- :p[?x, ?y], NOT :q[?x, ?y] . :C[?x] :- :p[?x, ?y], NOT EXISTS ?z IN (:q[?y, ?z], :B[?z]) ."
    ),
    "negated variables": "[?x, a, :C] :late :- :p[?x, ?y], NOT EXISTS ?q, ?z IN ([?y, ?q, ?z]) .",
    "numbers": ":sum[?x, ?n] :- :v[?x, ?a], :v[?y, ?b], BIND(?a + ?b AS ?n), FILTER(?a < ?b) .",
    "aggregates": (
        "[?x, :n, ?n], [?x, :m, ?m] :- AGGREGATE(:p[?x, ?y], :v[?y, ?a] ON ?x BIND(COUNT(?a) AS ?n) "
        "BIND(MAX(?a) AS ?m)) . [:all, :n, ?n] :- AGGREGATE(:p[?x, ?y] BIND(COUNT(DISTINCT ?x) AS ?n)) ."
    ),
    "facts": ":A[:n0] . :p[:n0, :n1] . :B[?y] :- :A[?x], :p[?x, ?y] .",
    "constants": ":A[?x] :- :p[?x, :n1] . [:n0, :q, ?y] :- [:n1, :p, ?y] .",
    "representatives": (
        f"[?y, {SAME}, ?x] :- [?x, {SAME}, ?y] . [?x, {SAME}, ?z] :- [?x, {SAME}, ?y], [?y, {SAME}, ?z] . "
        f"[?y, ?p, ?z] :- [?x, {SAME}, ?y], [?x, ?p, ?z] . [?z, ?p, ?y] :- [?x, {SAME}, ?y], [?z, ?p, ?x] ."
    ),
}


def term(name: str) -> str:
    return f"<http://e/{name}>"


def random_quads(draw: random.Random, count: int) -> list[Quad]:
    nodes = [term(f"n{i}") for i in range(6)]
    properties = [term(name) for name in ("p", "q", "sub", "r")]
    quads: list[Quad] = []
    for _ in range(count):
        subject = draw.choice(nodes if draw.random() < 0.8 else [*properties, term("A"), term("B")])
        kind = draw.random()
        if kind < 0.25:
            quad = (subject, RDF_TYPE, term(draw.choice(("A", "B", "C", "Symmetric"))), None)
        elif kind < 0.4:
            number = f'"{draw.randrange(4)}"^^<http://www.w3.org/2001/XMLSchema#integer>'
            quad = (subject, term("v"), number, None)
        elif kind < 0.45:
            quad = (subject, SAME, draw.choice(nodes), None)
        elif kind < 0.55:
            quad = (subject, draw.choice(properties), draw.choice(nodes), term("g"))
        elif kind < 0.65:
            quad = (draw.choice(properties), term("sub"), draw.choice(properties), None)
        else:
            quad = (subject, draw.choice(properties), draw.choice([*nodes, term("A")]), None)
        quads.append(quad)
    return quads


def quads_of(kb: RdfEngine) -> set[Quad]:
    triples = {(*row, None) for row in kb.triples(generalised=True)}
    return triples | set(kb.quads())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_its_rules_say(name: str, seed: int) -> None:
    rules = parse_rules(PREFIX + PROGRAMS[name])
    quads = random_quads(random.Random(seed), 25)
    kb = RdfEngine(rules)
    kb.load(quads)
    assert quads_of(kb) == closure(rules, quads)
    assert len(kb) == len(quads_of(kb))


@pytest.mark.parametrize("seed", range(12))
def test_random_updates_give_what_computing_anew_gives(seed: int) -> None:
    """Facts and rules come and go; rules that come later are put to a layout that did not know them."""
    draw = random.Random(seed)
    late = {"negation", "negated variables", "aggregates"}
    names = [name for name in PROGRAMS if name not in late]
    stated = dict.fromkeys(random_quads(draw, 20))
    active = draw.sample(names, 2)
    kb = RdfEngine([parse_rules(PREFIX + PROGRAMS[name]) for name in active])
    kb.load(list(stated))
    kb.materialise()
    for _ in range(4):
        gone = [quad for quad in stated if draw.random() < 0.2]
        come = random_quads(draw, 5)
        added = draw.choice([name for name in names if name not in active])
        removed = draw.choice(active)
        with kb.update() as update:
            update.delete(gone)
            update.insert(come)
            update.add_rules(PREFIX + PROGRAMS[added])
            update.remove_rules(PREFIX + PROGRAMS[removed])
        stated = dict.fromkeys([*(quad for quad in stated if quad not in gone), *come])
        active = [*(name for name in active if name != removed), added]
        rules = [rule for name in active for rule in parse_rules(PREFIX + PROGRAMS[name])]
        assert quads_of(kb) == closure(rules, stated)


def test_a_failed_update_changes_nothing() -> None:
    kb = RdfEngine(PREFIX + PROGRAMS["closure"])
    kb.load([(term("a"), term("p"), term("b"))])
    before = quads_of(kb)
    with pytest.raises(ZeroDivisionError), kb.update() as update:
        update.insert([(term("b"), term("p"), term("c"))])
        update.add_rules(PREFIX + ":A[?x] :- :r[?x, ?y] .")
        raise ZeroDivisionError
    assert quads_of(kb) == before
    assert len(kb.rules) == 2
    with pytest.raises(ge.GpuEngineError, match="no such rule"), kb.update() as update:
        update.remove_rules(PREFIX + ":A[?x] :- :r[?x, ?y] .")


def test_a_saved_base_goes_on_with_rules_prefixes_and_blank_nodes(tmp_path: Path) -> None:
    rules = "".join(PROGRAMS[name] for name in ("closure", "numbers", "aggregates", "negated variables"))
    (tmp_path / "one.nt").write_text("_:b <http://e/p> <http://e/n> .\n")
    kb = RdfEngine(PREFIX + rules)
    kb.load(tmp_path / "one.nt")
    kb.load(random_quads(random.Random(1), 30))
    kb.save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as again:
        assert isinstance(again, RdfEngine)
        assert again.rules == kb.rules
        assert quads_of(again) == quads_of(kb)
        assert len(again.sparql("SELECT ?x { ?x :p :n }")) == 1
        with again.update() as update:
            update.insert(tmp_path / "one.nt")  # its blank node is another one
        changed = quads_of(again)
    with ge.open(tmp_path / "kb") as again:
        assert quads_of(again) == changed
        assert len(again.sparql("SELECT ?x { ?x :p :n }")) == 2
        with again.update() as update:
            update.insert(tmp_path / "one.nt")
        assert len(again.sparql("SELECT ?x { ?x :p :n }")) == 3
        with again.update() as update:
            update.remove_rules(PREFIX + rules)
        assert len(again) == len(set(random_quads(random.Random(1), 30))) + 3


def test_closures_and_equivalences_are_stored_as_such() -> None:
    chain = [(term(f"n{i}"), term("p"), term(f"n{i + 1}"), None) for i in range(3000)]
    kb = RdfEngine(PREFIX + PROGRAMS["closure"])
    kb.load(chain)
    kb.materialise()
    assert kb.engine.storage["p_r"].scheme == "closure"
    kb = RdfEngine(PREFIX + PROGRAMS["equivalence"])
    kb.load(chain)
    kb.materialise()
    assert kb.engine.storage["p_r"].scheme == "equivalence"


def test_equality_is_an_equivalence_where_all_else_is_in_one_relation() -> None:
    kb = RdfEngine(PREFIX + PROGRAMS["representatives"] + PROGRAMS["two variables"])
    kb.load([(term(f"n{i}"), SAME, term(f"n{i + 1}")) for i in range(2000)])
    kb.materialise()
    assert set(kb.layout.properties) == {SAME} and not kb.layout.classes
    assert kb.engine.storage["p_sameAs"].scheme == "equivalence"
    assert len(kb.solve([Triple(term("n7"), SAME, Variable("x"))])["x"]) == 2001


def test_skolem_terms_are_the_same_for_the_same_arguments() -> None:
    kb = RdfEngine(
        PREFIX + ':of[?x, ?s], [?s, :name, ?x] :- :p[?x, ?y], BIND(SKOLEM("s", ?x) AS ?s) .'
        ':pair[?x, ?s] :- :p[?x, ?y], BIND(SKOLEM("s", ?x, ?y) AS ?s) .'
    )
    kb.load([(term("a"), term("p"), term("b")), (term("a"), term("p"), term("c"))])
    assert len(kb.sparql("SELECT ?s { ?x :of ?s }")) == 1
    assert len(kb.sparql("SELECT ?s { ?x :pair ?s FILTER isBlank(?s) }")) == 2


def test_the_rules_of_the_thesis_run_unchanged() -> None:
    counts = {"exp.dlog": 3, "lubm-l.dlog": 98, "lubm-lc.dlog": 114, "yago.dlog": 23}
    for name, count in counts.items():
        file = (FOLDER if name.startswith("lubm") else DATA) / name
        rules = parse_rules(file)
        assert len(rules) == count
        assert [canonical(rule) for rule in parse_rules("\n".join(map(rule_text, rules)))] == [
            canonical(rule) for rule in rules
        ]
        RdfEngine(file).materialise()


def test_expression_trees_are_evaluated() -> None:
    """(2 - 3) * 4 for two sets of values, by the thesis's rules."""
    ns = "http://example#"

    def iri(name: str) -> str:
        return f"<{ns}{name}>"

    quads = []
    for node, kind, left, right in (("root", "Times", "minus", "c"), ("minus", "Minus", "a", "b")):
        quads += [(iri(node), iri("hasType"), iri(kind)), (iri(node), iri("hasLhs"), iri(left))]
        quads += [(iri(node), iri("hasRhs"), iri(right))]
    for instance, values in (("i1", (2, 3, 4)), ("i2", (9, 5, 7))):
        for leaf, value in zip("abc", values, strict=True):
            evaluation = iri(f"{leaf}-{instance}")
            quads += [(iri(leaf), iri("eval"), evaluation), (evaluation, iri("instance"), iri(instance))]
            quads += [(evaluation, iri("value"), f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>')]
    kb = RdfEngine(DATA / "exp.dlog")
    kb.load(quads)
    found = kb.sparql("SELECT ?i ?v { :root :eval ?e . ?e :instance ?i ; :value ?v }")
    assert {(i, v) for i, v in found.rows()} == {
        (iri("i1"), '"-4"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        (iri("i2"), '"28"^^<http://www.w3.org/2001/XMLSchema#integer>'),
    }


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("a", E + "p>", E + "o>"), "row 2: the subject 'a' is no term"),
        ((E + "s>", "_:p", E + "o>"), "the predicate '_:p' is no term"),
        (('"s"', E + "p>", E + "o>"), "the subject '\"s\"' is no term"),
        ((E + "s>", E + "p>", E + "o o>"), "can't have the character ' '"),
        ((E + "s>", E + "p>", '"o'), "never ends"),
        ((E + "s>", E + "p>", E + "o> ."), "there is more after the term"),
        ((E + "s>", E + "p>", None), "the object is null"),
        ((E + "s>", E + "p>", 5), "not int"),
        ((E + "s>", E + "p>", E + "o>", '"g"'), "the graph"),
    ],
)
def test_rows_that_are_no_triples(row: tuple, message: str) -> None:
    good = (E + "s>", E + "p>", '"a"@EN') + ((None,) if len(row) == 4 else ())
    kb = RdfEngine()
    with pytest.raises(DataError, match=re.escape(message)):
        kb.load([good, row])
    assert len(kb) == 0
    kb = RdfEngine()
    kb.load([good])
    assert list(kb.triples()) == [(E + "s>", E + "p>", '"a"@en')]


def test_rules_for_any_class_or_property_come_and_go_with_what_they_need(tmp_path: Path) -> None:
    e = "<http://example.org/%s>"
    prefix = "PREFIX : <http://example.org/>\n"
    first = ":C[?x] :- :p[?x, ?y] .\n"
    later = "[?y, ?q, ?x] :- [?x, ?q, ?y], [?q, :is, :sym] .\n[?x, rdf:type, ?c] :- [?x, :kind, ?c] .\n"
    facts = [(e % "a", e % name, e % "b") for name in "pr"]
    facts += [(e % name, e % "is", e % "sym") for name in "pr"]
    facts += [(e % "z", e % "kind", e % name) for name in "CD"]

    def anew(rules: str) -> set[tuple[str, ...]]:
        kb = RdfEngine(prefix + rules)
        kb.load(facts)
        return set(kb.triples())

    kb = RdfEngine(prefix + first)
    kb.load(facts)
    kb.materialise().save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as opened:
        for change in ("add_rules", "remove_rules", "add_rules"):
            with opened.update() as update:
                getattr(update, change)(prefix + later)
            assert set(opened.triples()) == anew(first + (later if change == "add_rules" else ""))


def test_aggregates_do_not_depend_on_the_order_of_triples() -> None:
    """An update computes again what was, to take it back: with its rows in another order."""
    draw = random.Random(5)
    double = "<http://www.w3.org/2001/XMLSchema#double>"
    rules = (
        "[?x, :sum, ?n], [?x, :mean, ?m], [?x, :one, ?a], [?x, :text, ?t] :- "
        "AGGREGATE(:p[?x, ?y], :v[?y, ?v] ON ?x BIND(SUM(?v) AS ?n) "
        "BIND(AVG(?v) AS ?m) BIND(SAMPLE(?v) AS ?a) BIND(GROUP_CONCAT(?v) AS ?t)) ."
    )
    values: list[Quad] = [
        (term(f"n{at}"), term("v"), f'"{draw.uniform(-1e3, 1e3)!r}"^^{double}', None) for at in range(60)
    ]
    links: list[Quad] = [(term(f"g{draw.randrange(6)}"), term("p"), term(f"n{at}"), None) for at in range(60)]
    stated = set(draw.sample(links, 40))
    kb = RdfEngine(PREFIX + rules)
    kb.load([*values, *stated])
    kb.materialise()
    for _ in range(6):
        gone, come = set(draw.sample(sorted(stated), 3)), set(draw.sample(links, 3))
        with kb.update() as update:
            update.delete(list(gone))
            update.insert(list(come))
        stated = stated - gone | come
        anew = RdfEngine(PREFIX + rules)
        anew.load(draw.sample([*values, *sorted(stated)], len(values) + len(stated)))
        assert quads_of(kb) == quads_of(anew.materialise())
