"""LUBM(1,0): the benchmark's own data, rules, ontology and queries, with the published answers."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pyoxigraph
import pytest

from bench.lubm import FOLDER
from gpuengine.rdf.engine import RdfEngine

DATA = Path(__file__).parent / "data"
ANSWERS = [4, 0, 6, 34, 719, 7790, 67, 7790, 208, 4, 224, 15, 1, 5916]
PREFIXES = {"ub": "http://swat.cse.lehigh.edu/onto/univ-bench.owl#"}
QUERIES = re.split(r"# Q\d+\n", (FOLDER / "queries.rq").read_text())[1:]


@pytest.fixture(scope="module")
def by_rules() -> RdfEngine:
    kb = RdfEngine(FOLDER / "lubm-l.dlog")
    kb.load(DATA / "lubm-1.nt.gz")
    return kb.materialise()


def test_facts_and_answers_by_rules(by_rules: RdfEngine) -> None:
    assert len(by_rules) == 137_931
    assert [len(by_rules.sparql(query, prefixes=PREFIXES)) for query in QUERIES] == ANSWERS


def test_answers_by_owl_2_rl(by_rules: RdfEngine) -> None:
    kb = RdfEngine(ontology=FOLDER / "univ-bench.owl", profile="owl2rl")
    kb.load(DATA / "lubm-1.nt.gz")
    assert [len(kb.sparql(query, prefixes=PREFIXES)) for query in QUERIES] == ANSWERS
    assert set(by_rules.triples()) <= set(kb.triples())
    assert not kb.inconsistencies()


def test_the_reader_and_pyoxigraph_agree() -> None:
    kb = RdfEngine()
    assert kb.load(DATA / "lubm-1.nt.gz") == 103_074
    assert len(kb) == 100_543
    raw = gzip.decompress((DATA / "lubm-1.nt.gz").read_bytes())
    expected = {
        (str(quad.subject), str(quad.predicate), str(quad.object))
        for quad in pyoxigraph.parse(raw, pyoxigraph.RdfFormat.N_TRIPLES)
    }
    assert set(kb.triples()) == expected


def test_updates_give_what_computing_anew_gives(by_rules: RdfEngine) -> None:
    """A hundred triples go, and come back."""
    before = set(by_rules.triples())
    kb = RdfEngine(FOLDER / "lubm-l.dlog")
    kb.load(DATA / "lubm-1.nt.gz")
    kb.materialise()
    lines = gzip.decompress((DATA / "lubm-1.nt.gz").read_bytes()).decode().splitlines()[::1000][:100]
    rows = [tuple(re.match(r"(\S+) (\S+) (.*) \.$", line).groups()) for line in lines]  # type: ignore[union-attr]
    with kb.update() as update:
        update.delete(rows)
    gone = set(kb.triples())
    assert gone < before
    fresh = RdfEngine(FOLDER / "lubm-l.dlog")
    stated = RdfEngine()
    stated.load(DATA / "lubm-1.nt.gz")
    fresh.load([row for row in stated.triples() if row not in set(rows)])
    assert set(fresh.triples()) == gone
    with kb.update() as update:
        update.insert(rows)
    assert set(kb.triples()) == before
