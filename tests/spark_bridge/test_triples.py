"""RDF on Spark: what one engine computes, on the driver and by the cluster."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gpuengine.errors import DataError, SparkError
from gpuengine.rdf.engine import RdfEngine
from gpuengine.spark_bridge import materialise_triples
from gpuengine.spark_bridge.triples import read_triples
from tests.rdf.random_ontologies import ontology

E = "<http://example.org/%s>"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
RULES = """PREFIX : <http://example.org/>
:Person[?x], :Person[?y] :- :knows[?x, ?y] .
:knows[?x, ?z] :- :knows[?x, ?y], :knows[?y, ?z] .
"""
FACTS = [(E % "a", E % "knows", E % "b"), (E % "b", E % "knows", E % "c"), (E % "c", E % "likes", '"tea"@en')]


def rows(frame: object) -> set[tuple[str, ...]]:
    return {tuple(row) for row in frame.collect()}


@pytest.mark.parametrize("where", ["driver", "cluster"])
def test_rules(spark: SparkSession, where: str) -> None:
    frame = spark.createDataFrame(FACTS, ["s", "p", "o"])
    kb = RdfEngine(RULES)
    kb.load(FACTS)
    with materialise_triples(spark, frame, rules=RULES, where=where) as found:
        assert found.where == where
        assert rows(found.triples) == set(kb.triples())
        assert rows(found.quads) == set()


@pytest.mark.parametrize("where", ["driver", "cluster"])
@pytest.mark.parametrize("profile", ["owl2rl", "rdfs"])
def test_profiles(spark: SparkSession, where: str, profile: str) -> None:
    facts = sorted(set(ontology(3, 4, 10)), key=lambda _: random.Random(0).random())
    facts += [(E % "x", "<http://www.w3.org/2002/07/owl#sameAs>", E % "y"), (E % "x", E % "is", '"1"')]
    kb = RdfEngine(profile=profile)
    kb.load(facts)
    frame = spark.createDataFrame(
        [(*fact, None) for fact in facts] + [(*FACTS[0], E % "g")], "s string, p string, o string, g string"
    )
    with materialise_triples(spark, frame, profile=profile, where=where) as found:
        assert rows(found.triples) == set(kb.triples())
        assert rows(found.quads) == {(*FACTS[0], E % "g")}


def test_what_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame(FACTS, ["s", "p", "o"])
    with pytest.raises(DataError, match="columns s, p, o"):
        materialise_triples(spark, frame.withColumnRenamed("s", "subject"), rules=RULES)
    computing = "PREFIX : <http://example.org/>\n[?x, :is, ?y] :- :likes[?x, ?z], BIND(STR(?z) AS ?y) .\n"
    with pytest.raises(SparkError, match="need one engine"):
        materialise_triples(spark, frame, rules=computing, where="cluster")
    with materialise_triples(spark, frame, rules=computing) as found:
        assert (E % "c", E % "is", '"tea"') in rows(found.triples)
    with pytest.raises(SparkError, match="no place"):
        materialise_triples(spark, frame, rules=RULES, where="moon")
    bare = spark.createDataFrame([("a", "b", "c")], ["s", "p", "o"])
    with pytest.raises(DataError, match="is no term"):
        materialise_triples(spark, bare, rules=RULES, where="driver")


def test_files_are_read_as_an_engine_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("@prefix : <http://example.org/> .\n:a :knows _:x , 'tea'@EN .\n")
    with gzip.open(tmp_path / "b.nq.gz", "wt") as sink:
        sink.write(f"_:x {E % 'knows'} {E % 'b'} {E % 'g'} .\n_:x {E % 'knows'} {E % 'c'} .\n")
    kb = RdfEngine()
    kb.load(tmp_path / "a.ttl")
    kb.load(tmp_path / "b.nq.gz")
    expected = {(*triple, None) for triple in kb.triples()} | set(kb.quads())
    assert rows(read_triples(spark, [str(tmp_path)])) == expected
    assert rows(read_triples(spark, [f"{tmp_path}/*.ttl", str(tmp_path / "b.nq.gz")])) == expected
    with pytest.raises(DataError, match="there is no file"):
        read_triples(spark, [str(tmp_path / "none.nt")])
    (tmp_path / "bad.nt").write_text(f"{E % 'a'} {E % 'knows'} .\n")
    with pytest.raises(DataError, match=r"bad\.nt:1:"):
        materialise_triples(spark, read_triples(spark, [str(tmp_path / "bad.nt")]), rules=RULES)
