"""Values to carriers and back, against what Python says they are."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuengine.errors import DataError
from gpuengine.language import parse_program
from gpuengine.spark_bridge.carriers import Carriers, find_carriers
from gpuengine.spark_bridge.checking import check_inputs
from gpuengine.spark_bridge.encoding import Encoded, decode, encode_inputs, load_encoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROGRAM = parse_program(
    """
    .decl all(n: number, u: unsigned, f: float, s: symbol)
    .decl likes(who: symbol, whom: symbol)
    .decl out(who: symbol)
    .decl ready()
    likes("rule", "it's").
    out(x) :- likes(x, "only here"), all(-5, _, _, x), !ready().
    """
)
STRINGS = ["", "a", "A", "ä", "\0", "'\"", "日本\U0001f600", "long " * 999, "it's"]
NUMBERS = [0, -1, 2**63 - 1, -(2**63), 2**24, 2**24 - 1]
UNSIGNED = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
FLOATS = [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, -math.nan, 5e-324]
ENCODINGS = [
    Carriers(frozenset()),
    Carriers(frozenset({"symbol"})),
    Carriers(frozenset({"symbol", "number"})),
]


def bits(value: float) -> int:
    pattern: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return 0x7FF8000000000000 if math.isnan(value) else pattern


def comparable(row: tuple) -> tuple:
    return (row[0], row[1], bits(row[2]), row[3])


def random_rows(seed: int, count: int) -> list[tuple[int, Decimal, float, str]]:
    chance = random.Random(seed)
    return [
        (
            chance.choice(NUMBERS),
            Decimal(chance.choice(UNSIGNED)),
            chance.choice(FLOATS),
            chance.choice(STRINGS),
        )
        for _ in range(count)
    ]


def inputs(spark: SparkSession, rows: list) -> dict[str, DataFrame]:
    pairs = [("x", "y"), ("x", "y"), ("y", "")]
    return {
        "all": spark.createDataFrame(rows, "n bigint, u decimal(20,0), f double, s string").repartition(3),
        "likes": spark.createDataFrame(pairs, "who string, whom string"),
        "ready": spark.range(2),
    }


def encoded_inputs(spark: SparkSession, rows: list, carriers: Carriers) -> Encoded:
    checked = check_inputs(PROGRAM.relations, inputs(spark, rows))
    return encode_inputs(spark, PROGRAM, checked, carriers, None)


@pytest.mark.parametrize(
    "carriers", ENCODINGS, ids=lambda carriers: "+".join(sorted(carriers.encoded)) or "plain"
)
def test_decoding_gives_what_was_encoded(spark: SparkSession, carriers: Carriers) -> None:
    rows = random_rows(1, 200)
    encoded = encoded_inputs(spark, rows, carriers)
    relation = PROGRAM.relations["all"]
    frame = encoded.frames["all"]
    types = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)
    assert types == carriers.schema(relation)

    carried = [tuple(row) for row in frame.collect()]
    symbols = encoded.dictionaries["symbol"].find(STRINGS) if "symbol" in carriers.encoded else {}
    numbers = encoded.dictionaries["number"].find(NUMBERS) if "number" in carriers.encoded else {}
    expected = {
        (numbers.get(n, n), int(u) - 2**64 * (u >= 2**63), bits(f), symbols.get(s, s)) for n, u, f, s in rows
    }
    assert sorted(carried) == sorted(expected)  # distinct rows

    decoded = decode(frame, relation, carriers, encoded.dictionaries)
    assert decoded.schema.simpleString() == "struct<n:bigint,u:decimal(20,0),f:double,s:string>"
    assert sorted(map(comparable, decoded.collect())) == sorted(set(map(comparable, rows)))
    encoded.dictionaries.release()


def test_relations_of_no_columns(spark: SparkSession) -> None:
    carriers = find_carriers(PROGRAM)
    encoded = encoded_inputs(spark, random_rows(1, 1), carriers)
    assert [tuple(row) for row in encoded.frames["ready"].collect()] == [(0,)]
    shown = decode(encoded.frames["ready"], PROGRAM.relations["ready"], carriers, encoded.dictionaries)
    assert shown.columns == ["holds"] and [tuple(row) for row in shown.collect()] == [(True,)]
    none = decode(
        encoded.frames["ready"].limit(0), PROGRAM.relations["ready"], carriers, encoded.dictionaries
    )
    assert none.collect() == []


def test_constants_of_rules_have_ids(spark: SparkSession) -> None:
    encoded = encoded_inputs(spark, random_rows(1, 20), ENCODINGS[2])
    assert set(encoded.constants) == {"symbol", "number"}
    assert set(encoded.constants["symbol"]) == {"rule", "it's", "only here"}
    assert encoded.constants["symbol"] == encoded.dictionaries["symbol"].find(["rule", "it's", "only here"])
    assert list(encoded.constants["number"]) == [-5] and encoded.constants["number"][-5] >= 2**24
    assert encoded_inputs(spark, random_rows(1, 20), ENCODINGS[0]).constants == {}
    alone = encode_inputs(spark, PROGRAM, {}, ENCODINGS[1], None)
    assert len(alone.dictionaries["symbol"]) == len(alone.constants["symbol"]) == 3


def test_saved_inputs_are_used_again_and_extended(spark: SparkSession, tmp_path: Path) -> None:
    carriers = find_carriers(PROGRAM)
    path = str(tmp_path / "saved")
    encoded = encoded_inputs(spark, random_rows(1, 50), carriers)
    encoded.save(path)
    loaded = load_encoded(spark, path).fitted(spark, PROGRAM, carriers)
    assert loaded.constants == encoded.constants
    for name, frame in encoded.frames.items():
        assert sorted(map(tuple, loaded.frames[name].collect())) == sorted(map(tuple, frame.collect()))

    new = {"likes": spark.createDataFrame([("x", "never seen")], "who string, whom string")}
    checked = check_inputs(PROGRAM.relations, new)
    more = encode_inputs(spark, PROGRAM, checked, carriers, loaded.dictionaries)
    known = encoded.dictionaries["symbol"]
    assert [tuple(row) for row in more.frames["likes"].collect()] == [(known.find(["x"])["x"], known.bound)]
    assert more.constants == encoded.constants
    more.dictionaries.release()

    with pytest.raises(DataError, match="encoded inputs are there already\n  hint: delete"):
        encoded.save(path)


def test_saved_inputs_that_do_not_fit_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "saved"
    carriers = find_carriers(PROGRAM)
    encoded_inputs(spark, random_rows(1, 5), carriers).save(str(path))
    loaded = load_encoded(spark, str(path))

    def refusal(text: str, carriers: Carriers = carriers) -> str:
        with pytest.raises(DataError) as caught:
            loaded.fitted(spark, parse_program(text), carriers)
        return str(caught.value)

    others = ".decl all(n: number, u: unsigned, f: float, s: symbol)\n.decl ready()\n"
    assert "the saved inputs have 'likes', and the program has no such relation" in refusal(others)
    changed = refusal(others + ".decl likes(who: symbol, n: number)")
    assert "likes: saved as (symbol, symbol), but the program declares (symbol, number)" in changed
    assert "saved as (symbol, symbol), but the program declares (symbol)" in refusal(
        others + ".decl likes(w: symbol)"
    )
    assert "have ids for symbol, but the program needs them for no type" in refusal(others, ENCODINGS[0])
    with pytest.raises(
        DataError, match="the dictionaries are of symbol, but the program has ids for no type"
    ):
        encode_inputs(spark, PROGRAM, {}, ENCODINGS[0], loaded.dictionaries)

    manifest = path / "encoded.json"
    text = manifest.read_text()
    for content, said in (
        (text.replace('"version": 1', '"version": 99'), "written in version 99 of the format"),
        ("{}", "does not describe encoded inputs: 'version'"),
        ("[", "does not describe encoded inputs"),
    ):
        # Hadoop checks the sum of a file beside it.
        (path / ".encoded.json.crc").unlink(missing_ok=True)
        manifest.write_text(content)
        with pytest.raises(DataError, match=said):
            load_encoded(spark, str(path))
    manifest.unlink()
    with pytest.raises(DataError, match=r"not complete: it has no encoded\.json"):
        load_encoded(spark, str(path))
    with pytest.raises(DataError, match="there is no such directory"):
        load_encoded(spark, str(tmp_path / "nowhere"))
