"""The workloads with cyclic rules: the published counts, and answers that something simple gives as well."""

import operator
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench.cyclic import facts, published
from bench.cyclic.cell import pool_of, taken
from bench.cyclic.workloads import LABELLED, LUBM, WORKLOADS, Workload
from gpuengine import Engine


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def pairs(table: pa.Table) -> dict[Any, Any]:
    return dict(rows(table))


def materialised(workload: Workload) -> tuple[Engine, facts.Tables]:
    engine, tables = Engine(workload.program, backend="cpu"), workload.facts(quick=True)
    for name, table in tables.items():
        engine.load(name, table)
    return engine.materialise(), tables


@pytest.mark.parametrize("name", [name for name, w in WORKLOADS.items() if w.generator != LUBM])
def test_facts_are_distinct_and_the_same_every_time(name: str) -> None:
    made, again = (WORKLOADS[name].facts(quick=True) for _ in range(2))
    for relation, table in made.items():
        assert table.equals(again[relation])
        assert len(set(rows(table))) == table.num_rows > 0


def test_example_1_has_its_known_answer() -> None:
    workload = WORKLOADS["Example-1"]
    engine, tables = materialised(workload)
    n, k = workload.quick, facts.FAN_OUT
    assert [tables[name].num_rows for name in ("cw", "ca", "pc")] == [n * k + 1, n * k + 1, 2 * n * k]
    assert len(engine["pc"]) - 2 * n * k == n * k + k
    assert workload.expected["pc"] == 3 * workload.size * k + k


def test_the_published_counts_of_expressions() -> None:
    """300 trees: 3,420 inner nodes, 3,720 leaves, three facts for each leaf and set of values."""
    shape, inner, leaves = published.SHAPES["Exp"], 60 * 57, 60 * 62
    assert shape.before == 3 * 300 * leaves + 3 * inner + leaves + 300
    assert shape.after - shape.before == 3 * 300 * inner
    tables = facts.expressions(10)
    counts = {name: table.num_rows for name, table in tables.items()}
    assert counts == {
        "hasType": 2 * (57 + 62), "hasLhs": 2 * 57, "hasRhs": 2 * 57, "root": 10,
        "eval": 10 * 2 * 62, "instance": 10 * 2 * 62, "value": 10 * 2 * 62,
    }  # fmt: skip


@pytest.mark.slow
def test_expressions_are_worth_what_python_says() -> None:
    engine, tables = materialised(WORKLOADS["Exp"])
    kinds, left, right, known = (pairs(tables[name]) for name in ("hasType", "hasLhs", "hasRhs", "value"))
    apply = {"Plus": operator.add, "Minus": operator.sub, "Times": operator.mul}
    sets = WORKLOADS["Exp"].quick

    def worth(node: int, instance: int) -> int:
        text = f"[{node}, {instance}]"
        if text not in known:
            known[text] = apply[kinds[node]](worth(left[node], instance), worth(right[node], instance))
        return known[text]

    for expression, root in rows(tables["root"]):
        for i in range(sets):
            worth(root, expression * sets + i)
    assert pairs(engine["value"].to_arrow()) == known
    assert len(known) == sets * len(kinds)


def test_the_labelled_graph_has_all_labels_and_hubs() -> None:
    workload = WORKLOADS["YAGO-like"]
    assert set(re.findall(r"edge\d+", workload.program)) == facts.LABELS.keys()
    assert len(facts.LABELS) == 22
    ends = np.concatenate([np.asarray(c) for t in facts.labelled(2000).values() for c in t.columns])
    degrees = np.sort(np.bincount(ends, minlength=2000))
    assert degrees[-100:].sum() > 3 * degrees[950:1050].sum(), "a few nodes have most edges"


def test_every_rule_of_the_appendix_is_in_one_group() -> None:
    groups = [w for w in WORKLOADS.values() if w.generator == LABELLED and w.section]
    rules = [re.findall(r"^\w.*:-\n.*\.$", w.program, re.MULTILINE) for w in groups]
    assert [len(found) for found in rules] == [7, 7, 7, 2]
    everything = re.findall(r"^\w.*:-\n.*\.$", WORKLOADS["YAGO-like"].program, re.MULTILINE)
    assert sorted(everything) == sorted(rule for found in rules for rule in found)
    assert len(everything) == published.SHAPES["YAGO"].cyclic
    assert "Q8x0x1" not in WORKLOADS["YAGO-cycles"].program


@pytest.mark.parametrize("name", ["YAGO-like", "YAGO-cycles", "YAGO-flowers", "YAGO-petals", "YAGO-cliques"])
def test_every_rule_on_the_labelled_graph_has_answers(name: str) -> None:
    engine, tables = materialised(WORKLOADS[name])
    assert all(len(engine[relation]) for relation in engine.relations)
    assert tables.keys() == {relation for relation in engine.relations if relation.startswith("edge")}


def test_cycles_are_those_that_a_search_finds() -> None:
    engine, tables = materialised(WORKLOADS["YAGO-cliques"])
    e46, e17 = (set(rows(engine[name].to_arrow())) for name in ("edge46", "edge17"))
    found = {
        (x1, x2)
        for x0, x2 in e46
        for x1, x0_again in e46
        if x0_again == x0 and (x2, x1) in e17
        for x0_too, x3 in e17
        if x0_too == x0 and (x1, x3) in e46 and (x2, x3) in e17
    }
    assert found == set(rows(engine["R1x1x2"].to_arrow()))
    assert len(e46) > tables["edge46"].num_rows, "it is recursive"


def test_lubm_has_the_published_rules() -> None:
    for name, workload in WORKLOADS.items():
        if workload.generator != LUBM:
            continue
        shape = published.SHAPES[workload.thesis]
        rules = re.findall(r":-[^.]*\.", re.sub(r"//.*|\.(decl|printsize) .*", "", workload.program))
        assert len(rules) == shape.simple + shape.cyclic, name


def test_changes_take_rows_of_all_relations() -> None:
    tables = {"a": pa.table({"x": range(60)}), "b": pa.table({"x": range(40), "y": range(40)})}
    pool = pool_of(tables)
    gone = taken(tables, pool.take(0, pool.total // 4))
    assert sum(table.num_rows for table in gone.values()) == 25
    assert all(set(rows(gone[name])) <= set(rows(tables[name])) for name in ("a", "b"))
