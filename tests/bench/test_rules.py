"""The peers' reading of workload programs."""

import pytest

from bench import ontology
from bench.catalogue import PROGRAMS
from bench.peers.sql import select
from bench.rules import Atom, Comparison, Rule, RuleError, parse_rules, read_rules


def test_a_program_is_read_as_written() -> None:
    rules = parse_rules(
        '.decl t(a:number, b:number)\n.input t(IO="parquet", filename="t.parquet")\n'
        ".decl r(a:number)\nr(x) :- t(x,_), x != 3. // comment\n.printsize r\n"
    )
    assert rules.arity == {"t": 2, "r": 1}
    assert rules.inputs == {"t": "t.parquet"}
    assert rules.rules == (Rule(Atom("r", ("x",)), (Atom("t", ("x", "_")),), (Comparison("x", "!=", "3"),)),)
    assert rules.printed == ("r",)


@pytest.mark.parametrize(
    "line", ["r(x) :- !t(x,x).", "r(x+1) :- t(x,x).", "r(x) :- t(x).", "r(x) :- u(x).", "r(1)."]
)
def test_what_peers_cannot_be_given_is_refused(line: str) -> None:
    with pytest.raises(RuleError):
        parse_rules(f".decl t(a:number, b:number)\n.decl r(a:number)\n{line}\n")


def test_strata_come_after_what_they_read() -> None:
    text = "".join(f".decl {n}(a:number)\n" for n in "abcde")
    rules = parse_rules(f"{text}b(x) :- c(x).\nc(x) :- b(x).\nc(x) :- d(x).\nd(x) :- e(x).\na(x) :- b(x).\n")
    assert [sorted(component) for component, _ in rules.strata()] == [["d"], ["b", "c"], ["a"]]


def test_sql_of_a_rule() -> None:
    rule = parse_rules(
        ".decl t(a:number, b:number)\n.decl r(a:number, b:number)\nr(x,z) :- t(x,y), t(y,z), x != z.\n"
    ).rules[0]
    assert select(rule, ["t#delta", "t"]) == (
        'SELECT t0.c0 AS c0, t1.c1 AS c1 FROM "t#delta" AS t0, "t" AS t1 '
        "WHERE t0.c1 = t1.c0 AND t0.c0 <> t1.c1"
    )


def test_every_program_of_the_bench_can_be_given_to_peers() -> None:
    programs = sorted(PROGRAMS.glob("*.dl"))
    assert len(programs) >= 9
    for path in programs:
        assert read_rules(path).printed


def test_the_ontology_has_a_hundred_distinct_rules() -> None:
    rules = parse_rules(ontology.program()).rules
    assert len(rules) == len(set(rules)) == 100
