"""Dates, times, booleans, decimals and nulls: loaded as declared, and handed back as what they were."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import DataError, GpuEngineError, ProgramErrors
from gpuengine.relation import RelationView

NAMES = ["s", "ok", "d", "t", "ts", "i", "m"]
DECLARED = """
.decl r(s: symbol, ok: boolean, d: date, t: time, ts: timestamp, i: instant, m: decimal_2)
.decl copy(s: symbol, ok: boolean, d: date, t: time, ts: timestamp, i: instant, m: decimal_2)
copy(s, ok, d, t, ts, i, m) :- r(s, ok, d, t, ts, i, m).
"""
ARROW = [
    pa.string(), pa.bool_(), pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    pa.decimal128(19, 2),
]  # fmt: skip
ZONES = [UTC, timezone(timedelta(hours=-5, minutes=-30)), timezone(timedelta(hours=13))]
# Offsets lead out of the years that Python has at both ends.
inner = {"min_value": datetime(2, 1, 1), "max_value": datetime(9998, 12, 31)}
rows = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "b c", '"', "1,2"]),
        st.booleans(),
        st.dates(),
        st.times(),
        st.datetimes(),
        st.datetimes(**inner, timezones=st.sampled_from(ZONES)),
        st.integers(-(2**63), 2**63 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    ),
    min_size=1,
    max_size=4,
)
Journey = Callable[[RelationView, Path], dict[str, Any]]


def by_file(file: str, **params: str) -> Journey:
    def journey(view: RelationView, folder: Path) -> dict[str, Any]:
        view.write(folder / file, **params)
        return {
            "data": folder / file,
            "params": {"headers": "true", **params} if "IO" not in params else params,
        }

    return journey


JOURNEYS: dict[str, Journey] = {
    "tsv": by_file("r.tsv"),
    "csv": by_file("r.csv", rfc4180="true", delimiter=","),
    "two characters": by_file("r.txt", delimiter="::"),
    "parquet": by_file("r.parquet"),
    "arrow": by_file("r.arrow"),
    "json": by_file("r.json", IO="jsonfile"),
    "objects": by_file("r.json", IO="jsonfile", format="object"),
    "sqlite": by_file("r.sqlite", IO="sqlite", name="r"),
    "duckdb": by_file("r.duckdb", IO="duckdb", name="r"),
    "table": lambda view, _: {"data": view.to_arrow()},
    "stream": lambda view, _: {"data": view},
    "polars": lambda view, _: {"data": view.to_polars()},
    "pandas": lambda view, _: {"data": view.to_pandas()},
    "tuples": lambda view, _: {"data": view.to_pylist()},
    "dicts": lambda view, _: {"data": view.to_dicts()},
    "pickle": lambda view, _: {"data": pickle.loads(pickle.dumps(view))},
}


@settings(max_examples=8, deadline=None)
@given(rows)
@pytest.mark.parametrize("by", JOURNEYS)
def test_what_leaves_comes_back(by: str, facts: list[tuple[Any, ...]]) -> None:
    expected = set(facts)
    kb = ge.Engine(DECLARED)
    kb.load("r", facts)
    kb.materialise()
    view = kb["copy"]
    assert set(view) == expected
    assert view.to_arrow().schema.types == ARROW
    assert all(fact in view for fact in facts)
    with tempfile.TemporaryDirectory() as folder:
        given = JOURNEYS[by](view, Path(folder))
        other = ge.Engine(DECLARED)
        other.load("r", **given)
    assert set(other.materialise()["copy"]) == expected


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        ("date", pa.array([datetime(2024, 2, 29)], pa.timestamp("ns")), date(2024, 2, 29)),
        ("date", pa.array([86_400_000], pa.date64()), date(1970, 1, 2)),
        ("date", pa.array([-1], pa.int16()), date(1969, 12, 31)),
        ("date", ["2024-02-29"], date(2024, 2, 29)),
        ("date", pa.array(["2024-02-29"]).dictionary_encode(), date(2024, 2, 29)),
        ("date", pd.Series(pd.to_datetime(["2024-02-29"])), date(2024, 2, 29)),
        ("date", np.array(["2024-02-29"], "M8[D]"), date(2024, 2, 29)),
        ("date", [np.datetime64("2024-02-29")], date(2024, 2, 29)),
        ("date", [np.datetime64("1970-01-02", "ns"), "1970-01-02"], date(1970, 1, 2)),
        ("timestamp", [np.datetime64("1970-01-02", "ns"), "1970-01-02"], datetime(1970, 1, 2)),
        ("timestamp", pa.array([date(2024, 2, 29)]), datetime(2024, 2, 29)),
        ("timestamp", pa.array([7], pa.timestamp("s")), datetime(1970, 1, 1, 0, 0, 7)),
        ("timestamp", ["2024-02-29T01:02"], datetime(2024, 2, 29, 1, 2)),
        ("timestamp", [pd.Timestamp("2024-02-29 01:02")], datetime(2024, 2, 29, 1, 2)),
        ("instant", pa.array([0], pa.timestamp("ms", "Asia/Tokyo")), datetime(1970, 1, 1, tzinfo=UTC)),
        ("instant", ["1970-01-01 01:00+01:00"], datetime(1970, 1, 1, tzinfo=UTC)),
        ("time", pa.array([61], pa.time32("s")), time(0, 1, 1)),
        ("time", ["23:59"], time(23, 59)),
        ("boolean", [1], True),
        ("boolean", ["False"], False),
        ("decimal_2", [12], Decimal("12.00")),
        ("decimal_2", [0.1], Decimal("0.10")),
        ("decimal_2", ["-.5"], Decimal("-0.50")),
        ("decimal_2", pa.array([Decimal("1.500")]), Decimal("1.50")),
        ("decimal_0", pa.array([2**63 - 1]), Decimal(2**63 - 1)),
        ("decimal_18", [Decimal("1e-18")], Decimal("1e-18")),
    ],
)
def test_values_of_other_types(declared: str, given: Any, expected: object) -> None:
    kb = ge.Engine(f".decl r(x: {declared})")
    kb.load("r", {"x": given})
    assert kb.materialise()["r"].to_pylist() == [(expected,)]


@pytest.mark.parametrize(
    ("declared", "given", "said"),
    [
        ("date", [datetime(2024, 2, 29, 1)], "is no date, such as 2024-02-29"),
        ("date", pa.array([datetime(2024, 2, 29, 1)]), "is no date, such as 2024-02-29"),
        ("date", ["29.2.2024"], "is no date, such as 2024-02-29"),
        ("date", ["2023-02-29"], "is no date"),
        ("date", [2**40], "outside the range of a date"),
        ("date", pa.array([2**31 - 1], pa.date32()), "is no date"),
        ("date", [1.5], "the column holds double, not date"),
        ("date", pa.array([0], pa.timestamp("us", "UTC")), "declare it as x: instant"),
        ("timestamp", pa.array([1], pa.timestamp("ns")), "is no timestamp|has nanoseconds"),
        ("timestamp", [np.datetime64(1, "ns"), "1970-01-02"], "has nanoseconds"),
        ("date", [np.datetime64("10001-01-01"), "1970-01-02"], "years that a date has not"),
        ("date", [np.datetime64("NaT"), "1970-01-02"], "null; facts have no nulls"),
        ("time", [np.timedelta64(5, "ns"), "12:00"], "is a duration, and no time"),
        ("timestamp", [datetime(2024, 1, 1, tzinfo=UTC)], "declare it as x: instant"),
        ("instant", [datetime(2024, 1, 1)], "declare it as x: timestamp"),
        ("instant", ["2024-01-01 00:00"], "is no instant"),
        ("time", ["25:00"], "is no time"),
        ("time", [-1], "outside the range of a time"),
        ("boolean", [2], "outside the range of a boolean"),
        ("boolean", ["yes"], "is no boolean, such as true"),
        ("boolean", pa.array([0.5]), "the column holds double, not boolean"),
        ("decimal_2", [0.001], "has more than 2 digits after the point"),
        ("decimal_2", pa.array([Decimal("0.001")]), "has more than 2 digits after the point"),
        ("decimal_2", [2**63], "outside the range of a decimal_2"),
        ("decimal_2", [Decimal("NaN")], "is no decimal_2, such as 12.34"),
        ("number", pa.array([date(2024, 1, 1)]), 'declare it as x: date, or say dates="days"'),
        ("symbol", pa.array([date(2024, 1, 1)]), 'declare it as x: date, or say dates="text"'),
        ("symbol", pa.array([True]), "declare it as x: boolean"),
        ("symbol", pa.array([Decimal("0.5")]), "declare it as x: decimal_1"),
    ],
)
def test_refusals_tell_how(declared: str, given: Any, said: str) -> None:
    kb = ge.Engine(f".decl r(x: {declared})")
    with pytest.raises(DataError, match=said):
        kb.load("r", {"x": given})
    assert not len(kb.materialise()["r"])


def test_dates_where_numbers_and_texts_are_declared() -> None:
    moments = pa.table({"d": [date(1970, 1, 3)], "t": [time(0, 0, 1)], "ts": [datetime(1970, 1, 2)]})
    kb = ge.Engine(".decl n(d: number, t: number, ts: number)\n.decl s(d: symbol, t: symbol, ts: symbol)")
    kb.load("n", moments, dates="days")
    kb.load("s", moments, dates="text")
    kb.materialise()
    assert kb["n"].to_pylist() == [(2, 1_000_000, 86_400_000_000)]
    assert kb["s"].to_pylist() == [("1970-01-03", "00:00:01.000000", "1970-01-02 00:00:00.000000")]
    with pytest.raises(DataError, match='say dates="days"'):
        kb.load("n", moments, dates="text")
    with pytest.raises(DataError, match="hint: dates='days' or dates='text'"):
        kb.load("n", moments, dates="iso")  # type: ignore[arg-type]


def test_rules_compute_with_numbers_and_heads_say_what_they_are() -> None:
    kb = ge.Engine("""
    .type Birthday <: date
    .decl born(who: symbol, day: Birthday)
    .decl next(who: symbol, day: date)
    .decl last(day: date)
    .decl far(day: date)
    next(w, d + 1) :- born(w, d).
    last(max d : { born(_, d) }) :- born(_, _).
    far(d + 4000000) :- born(_, d).
    """)
    kb.load("born", [("ann", date(2023, 2, 28)), ("bob", date(1999, 12, 31))])
    kb.materialise()
    assert ("ann", date(2023, 3, 1)) in kb["next"]
    assert kb["last"].to_pylist() == [(date(2023, 2, 28),)]
    assert kb.query("born(w, d), d > $day", day=date(2000, 1, 1)).to_pylist() == [("ann", date(2023, 2, 28))]
    with pytest.raises(DataError, match=r"far: day is declared date, and \d+ is none\n  hint: declare it as"):
        kb["far"].to_pylist()


@pytest.mark.parametrize(
    ("declared", "value"),
    [("timestamp", datetime(2024, 2, 29, 1)), ("instant", datetime(2024, 2, 29, tzinfo=ZONES[1])),
     ("time", time(1, 2, 3, 4)), ("boolean", True)],
)  # fmt: skip
def test_parameters_of_queries(declared: str, value: object) -> None:
    kb = ge.Engine(f".decl r(x: {declared}, y: number)")
    kb.load("r", [(value, 1)])
    kb.materialise()
    assert kb.query("r($x, y)", x=value).to_pylist() == [(1,)]
    with pytest.raises(GpuEngineError, match="decimals are whole numbers of their last digit"):
        kb.query("r(_, $y)", y=Decimal(1))


def test_types_outlive_the_process_and_come_in_updates(tmp_path: Path) -> None:
    kb = ge.Engine(DECLARED)
    kb.materialise()
    kb.save(tmp_path / "kb")
    fact = ("a", True, date(2024, 2, 29), time(1), datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC),
            Decimal("0.10"))  # fmt: skip
    with ge.open(tmp_path / "kb") as kb, kb.update() as update:
        update.insert("r", [fact, (None, *fact[1:])], nulls="drop")
    assert update.change["copy"].inserted.to_pylist() == [fact]
    with ge.open(tmp_path / "kb") as kb:
        assert kb["copy"].to_pylist() == [fact]
        with kb.update() as update:
            update.delete("r", pd.DataFrame([fact], columns=NAMES))
        assert not len(kb["copy"])


def test_a_program_may_mean_something_else_by_these_names() -> None:
    kb = ge.Engine(".type date = [y: number, m: number]\n.type time <: symbol\n.decl r(d: date, t: time)")
    kb.load("r", [((2024, 2), "noon")])
    assert kb.materialise()["r"].to_pylist() == [("[2024, 2]", "noon")]
    with pytest.raises(ProgramErrors, match="decimal_19 is not declared"):
        ge.Engine(".decl r(x: decimal_19)")


# Nulls

PEOPLE = ".decl p(name: symbol, age: number, born: date)"
TABLE = pa.table(
    {"name": ["ann", None, "cy"], "age": [1, 2, None], "born": [date(2024, 1, 1), None, date(2024, 1, 3)]}
)
ANN, CY = ("ann", 1, date(2024, 1, 1)), ("cy", 7, date(2024, 1, 3))
FILLED = {ANN, CY, ("?", 2, date(2000, 1, 1))}
VALUES = {"name": "?", "age": 7, "born": date(2000, 1, 1)}


def people(data: Any, **options: Any) -> set[tuple[Any, ...]]:
    kb = ge.Engine(PEOPLE)
    kb.load("p", data, **options)
    return set(kb.materialise()["p"])


def tables_with_nulls(folder: Path) -> dict[str, tuple[Any, dict[str, str]]]:
    import json
    import sqlite3

    import duckdb
    from pyarrow import feather, parquet

    parquet.write_table(TABLE, folder / "p.parquet")
    feather.write_feather(TABLE, folder / "p.arrow")
    listed = [[str(v) if isinstance(v, date) else v for v in row.values()] for row in TABLE.to_pylist()]
    (folder / "p.json").write_text(json.dumps(listed))
    with sqlite3.connect(folder / "p.sqlite") as database:
        database.execute("CREATE TABLE p (name TEXT, age INTEGER, born TEXT)")
        database.executemany("INSERT INTO p VALUES (?, ?, ?)", listed)
    with duckdb.connect(str(folder / "p.duckdb")) as other:
        other.from_arrow(TABLE).create("p")
    return {
        "table": (TABLE, {}),
        "pandas": (TABLE.to_pandas(), {}),
        "polars": (pl.from_arrow(TABLE), {}),
        "dicts": (TABLE.to_pylist(), {}),
        "tuples": ([tuple(row.values()) for row in TABLE.to_pylist()], {}),
        "parquet": (folder / "p.parquet", {}),
        "arrow": (folder / "p.arrow", {}),
        "json": (folder / "p.json", {"IO": "jsonfile"}),
        "sqlite": (folder / "p.sqlite", {"IO": "sqlite"}),
        "duckdb": (folder / "p.duckdb", {"IO": "duckdb"}),
    }


def test_nulls_of_every_format(tmp_path: Path) -> None:
    for name, (data, params) in tables_with_nulls(tmp_path).items():
        given = {"params": params} if params else {}
        assert people(data, nulls="drop", **given) == {ANN}, name
        assert people(data, nulls=VALUES, **given) == FILLED, name
        with pytest.raises(DataError, match=r'null; facts have no nulls\n  hint: nulls="drop" leaves'):
            people(data, **given)
        with pytest.raises(DataError, match=r'does not fit column .*\n  hint: nulls=\{"column": VALUE\}'):
            people(data, nulls=[], **given)


@pytest.mark.parametrize("delimiter", ["\t", ",", "::"])
def test_an_empty_field_is_a_null_unless_its_column_is_text(tmp_path: Path, delimiter: str) -> None:
    lines = [["ann", "1", "2024-01-01"], ["", "2", ""], ["cy", "", "2024-01-03"], ["", "3", "2024-01-04"]]
    path = tmp_path / "p.facts"
    path.write_text("".join(delimiter.join(line) + "\n" for line in lines))
    params = {"delimiter": delimiter, "rfc4180": "true" if delimiter == "," else "false"}
    nameless = ("", 3, date(2024, 1, 4))
    assert people(path, params=params, nulls="drop") == {ANN, nameless}
    assert people(path, params=params | {"nulls": "drop"}) == {ANN, nameless}
    assert people(path, params=params, nulls=VALUES) == {ANN, CY, nameless, ("", 2, date(2000, 1, 1))}
    with pytest.raises(DataError, match=r"p.facts:2: p: column 3 \(born: date\): '' is no date"):
        people(path, params=params)
    path.write_text(path.read_text() + "\n")
    with pytest.raises(DataError, match=r"p.facts:5: p: an empty line, expected 3 columns"):
        people(path, params=params, nulls="drop")


def test_a_null_that_is_not_named_is_refused() -> None:
    with pytest.raises(DataError, match=r"column 1 \(name: symbol\): null"):
        people(TABLE, nulls={"age": 7, "born": 0})


def test_records_may_be_missing_too() -> None:
    kb = ge.Engine(".type R = [a: number]\n.decl r(x: R, y: number)")
    kb.load("r", pa.table({"x": ["[1]", None], "y": [1, 2]}), nulls="nil")
    assert set(kb.materialise()["r"]) == {("[1]", 1), ("nil", 2)}
    with pytest.raises(DataError, match=r"row 1 .*column 1"):
        kb.load("r", pa.table({"x": [None, "x"], "y": [1, 2]}), nulls="drop")
