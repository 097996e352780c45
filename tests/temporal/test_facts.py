"""Facts in: text, files, folders, tables, with every kind of time; and bad ones."""

from __future__ import annotations

import copy
import datetime as dates
import gzip
import itertools
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import gpuengine as ge
from gpuengine import limits
from gpuengine.errors import DataError, EvaluationError, MemoryBudgetError, ProgramErrors
from gpuengine.temporal.engine import TemporalEngine
from tests.io.test_damage import DAMAGED

PROGRAM = "Out(X) :- P(X)\n"


def engine(program: str = PROGRAM) -> TemporalEngine:
    return ge.TemporalEngine(program)


def read(text: str, **options: object) -> list[str]:
    kb = engine()
    kb.load(text, **options)  # type: ignore[arg-type]
    kb.materialise()
    return [line for name in kb.relations for line in kb[name].lines() if name != "Out"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("P(a)@[1,2.5)", "P(a)@[1,2.5)"),
        ("P( a ) @ ( 1 , 2 ] .", "P(a)@(1,2]"),
        ("P(a)@3", "P(a)@[3,3]"),
        ("P(a)@-3", "P(a)@[-3,-3]"),
        ("P(a)@[3]", "P(a)@[3,3]"),
        ("P(a)@(-inf,2]", "P(a)@(-inf,2]"),
        ("P(a)@[-0.25,inf)", "P(a)@[-0.25,inf)"),
        ("P(a)@[1/3,2/3]", "P(a)@[1/3,2/3]"),
        ("P(a)@[20056.0,38218.0]", "P(a)@[20056,38218]"),
        ('P("a b")@[1,2]', 'P("a b")@[1,2]'),
        ("P('it')@[1,2]", "P(it)@[1,2]"),
        (r'P("say \"x\"")@[1,2]', r'P("say \"x\"")@[1,2]'),
        ("P(http://x.org/a#b)@[1,2]", "P(http://x.org/a#b)@[1,2]"),
        ("P(44.0)@[1,2]", "P(44.0)@[1,2]"),
        ("P(ID1)@[0s,2h]", "P(ID1)@[0,7200]"),
        ("P(é)@[1,2]", 'P("é")@[1,2]'),
    ],
)
def test_lines(line: str, expected: str) -> None:
    assert read(line + "\n") == [expected]
    # What is printed can be read again.
    assert read(expected + "\n") == [expected]


def test_comments_blank_lines_and_no_arguments() -> None:
    text = "% one\n\n// two\n/* three\nP(x)@[ */\nN@[1,2]\r\nN()@5 % four\nP(a)@[1,2] // five"
    assert read(text) == ["N@[1,2]", "N@[5,5]", "P(a)@[1,2]"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("P(a)", "the time is missing"),
        ("P(a)@", "an interval such as"),
        ("P(a)@[1", "the interval does not end"),
        ("P(a)@[2,1]", "the interval holds no time"),
        ("P(a)@(1,1]", "the interval holds no time"),
        ("P(a)@[x,1]", "'x' is no number"),
        ("P(a)@[1,2,3]", "an interval has two ends"),
        ("P(a)@[inf,inf]", "begins with -inf"),
        ("P(a)@[1,2] P(b)@[1,2]", "more than a fact"),
        ("P(a@[1,2]", "a comma or a closing parenthesis"),
        ("P(,b)@[1,2]", "a constant is missing"),
        ("(a)@[1,2]", "begins with the name"),
        ("P(a)@[1/0,2]", "'1/0' is no number"),
    ],
)
def test_bad_lines(line: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "facts.txt"
    file.write_text(f"P(c)@[1,2]\n{line}\nP(d)@[1,2]\n")
    with pytest.raises(DataError, match=reason) as caught:
        engine().load(file)
    assert f"{file}:2: " in str(caught.value) and line in str(caught.value)
    kb = engine()
    assert kb.load(file, on_error="skip") == 2
    assert kb.skipped_rows == 1 and reason in kb.skipped[0]


def test_arity_differs() -> None:
    with pytest.raises(DataError, match=r"<facts>:2: Q has 2 arguments here, but 1 elsewhere: Q\(a,b\)@1"):
        read("Q(a)@[1,2]\nQ(a,b)@1\n")
    with pytest.raises(DataError, match="<facts>:1: P has 2 arguments here, but 1 elsewhere"):
        read("P(a,b)@[1,2]\n")
    rows = [("a", "b", 1, 2)]
    with pytest.raises(DataError, match="P has 1 arguments, then start and end"):
        engine().load("P", rows)


def test_bad_lines_are_told_in_their_order_and_skipped() -> None:
    """Whichever way a line is read, and whatever is wrong with it."""
    text = 'P("x y",b)@2\nP(a)@[2,1]\nP(c@3\nP(a,b)@1\nP(d)@1\n'
    with pytest.raises(DataError) as caught:
        read(text)
    places = [line.split(": ")[0] for line in str(caught.value).splitlines()[:-1]]
    assert places == [f"<facts>:{number}" for number in (1, 2, 3, 4)]
    kb = engine()
    assert kb.load(text, on_error="skip") == 1 and kb.skipped_rows == 4
    assert kb.materialise()["P"].lines() == ["P(d)@[1,1]"]


def test_dates_are_the_moments_at_which_they_begin() -> None:
    kb = engine()
    kb.load("P", [("a", dates.datetime(2026, 1, 1, 12), dates.date(2026, 1, 5)), ("b", None, None)])
    assert kb.materialise()["P"].lines() == [
        "P(a)@[2026-01-01T12:00:00Z,2026-01-05T00:00:00Z]",
        "P(b)@(-inf,inf)",
    ]


def test_an_interval_has_times_of_one_kind() -> None:
    moment = dates.datetime(2026, 1, 1)
    for data in ([("a", moment, 5)], pa.table({"x": ["a"], "start": [1], "end": [moment]})):
        with pytest.raises(DataError, match="timestamps and plain numbers as ends of one interval"):
            engine().load("P", data)
    with pytest.raises(ProgramErrors, match="a timestamp and a plain number as ends of one interval"):
        engine(PROGRAM + "P(a)@[2026-01-01,5]\n")
    assert engine(PROGRAM + "P(a)@[2026-01-01,inf)\n").materialise()["P"].lines()


def test_what_is_no_time_is_named() -> None:
    with pytest.raises(DataError, match="row 2: no time: noon, 1"):
        engine().load("P", [("a", 0, 1), ("a", "noon", 1)])
    with pytest.raises(DataError, match="facts from int"):
        engine().load("P", 5)


def test_folders_and_formats(tmp_path: Path) -> None:
    (tmp_path / "A.csv").write_text('x,start,end\n"a,1",1.0,2.0\nb,3,\n')
    (tmp_path / "B.tsv").write_text("a\tb\t1\t2\n")
    (tmp_path / "C.csv").write_text("a,1,2,true,false\nb,1,2,false,true\n")
    (tmp_path / "D.csv.gz").write_bytes(gzip.compress(b"p,from,to\nd,1/3,2/3\n"))
    table = pa.table(
        {
            "x": [1, 2],
            "start": [0, None],
            "end": [5, 6],
            "start_closed": [False, True],
            "end_closed": [True, True],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "E.parquet")
    with pa.ipc.new_file(tmp_path / "F.arrow", pa.schema([("s", pa.int64()), ("e", pa.int64())])) as out:
        out.write_table(pa.table({"s": [1], "e": [2]}))
    (tmp_path / "more.txt").write_text("G(a)@[1,2]\n")
    (tmp_path / "README.md").write_text("not facts")
    kb = engine("H(X) :- A(X)")
    assert kb.load(tmp_path) == 10
    kb.materialise()
    lines = [line for name in "ABCDEFG" for line in kb[name].lines()]
    assert lines == [
        'A("a,1")@[1,2]', "A(b)@[3,inf)", "B(a,b)@[1,2]", "C(a)@[1,2)", "C(b)@(1,2]", "D(d)@[1/3,2/3]",
        "E(1)@(0,5]", "E(2)@(-inf,6]", "F@[1,2]", "G(a)@[1,2]",
    ]  # fmt: skip


def test_bad_rows_of_tables(tmp_path: Path) -> None:
    file = tmp_path / "P.csv"
    file.write_text("a,1,2\nb,x,2\nc,5,2\n")
    with pytest.raises(DataError, match=r"row 2: no time: x, 2\n.*row 3: the interval holds no time: 5, 2"):
        engine().load(file)
    kb = engine()
    assert kb.load(file, on_error="skip") == 1
    file.write_text("a,-inf,inf\nb,inf,inf\nc,1,-inf\nd,,\n")
    kb = engine()
    assert kb.load(file, on_error="skip") == 2
    assert kb.materialise()["P"].lines() == ["P(a)@(-inf,inf)", "P(d)@(-inf,inf)"]
    file.write_text("a,-inf,inf\nb,inf,inf\nc,1.25,-inf\nd,0.5,1\n")
    kb = engine()
    assert kb.load(file, on_error="skip") == 2
    assert kb.materialise()["P"].lines() == ["P(a)@(-inf,inf)", "P(d)@[0.5,1]"]
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="has no facts"):
        engine().load(tmp_path / "none")
    with pytest.raises(DataError, match=r"did you mean .*P\.csv"):
        engine().load(tmp_path / "p.csv")
    with pytest.raises(DataError, match="has 1 arguments, then start and end"):
        engine().load("P", [("a", "b", 1, 2)])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("a", 0, 1)], ["P(a)@[0,1]"]),
        ([("a", 0, 1, True, False)], ["P(a)@[0,1)"]),
        ([("a", None, 1), ("b", 1, None)], ["P(a)@(-inf,1]", "P(b)@[1,inf)"]),
        ([("a", Fraction(1, 3), Decimal("0.5"))], ["P(a)@[1/3,0.5]"]),
        ([("a", 0.1, 1)], [f"P(a)@[{Decimal.from_float(0.1)},1]"]),
        ([("a", "1/7", "inf")], ["P(a)@[1/7,inf)"]),
        ([(7, 0, 1)], ["P(7)@[0,1]"]),
    ],
)
def test_rows(rows: list[tuple[object, ...]], expected: list[str]) -> None:
    kb = engine()
    kb.load("P", rows)
    kb.materialise()
    assert kb["P"].lines() == expected


def test_frames() -> None:
    import pandas
    import polars

    columns = {"x": ["a"], "start": [0], "end": [1]}
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns), columns, pa.table(columns)):
        kb = engine()
        kb.load("P", frame)
        assert kb.materialise()["P"].lines() == ["P(a)@[0,1]"]


def test_columns_by_name_or_place(tmp_path: Path) -> None:
    """Named columns may stand anywhere, and one of the two that say what is closed may be missing."""
    named = pa.table({"end": [5], "x": ["a"], "start_closed": [False], "start": [1]})
    placed = pa.table({"x": ["b"], "from": [1], "to": [5], "c": [False], "d": [True]})
    kb = engine()
    kb.load("P", named)
    kb.load("P", placed)
    (tmp_path / "P.csv").write_text('"c, d",1,2\n')
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "P.csv").write_text("end,start,x\n9,7,e\n")
    kb.load(tmp_path / "P.csv")
    kb.load(tmp_path / "more")
    kb.materialise()
    assert kb["P"].lines() == ['P("c, d")@[1,2]', "P(a)@(1,5]", "P(b)@(1,5]", "P(e)@[7,9]"]


def test_times_out() -> None:
    kb = engine("Out(X) :- P(X)\nThird(X) :- Diamondplus[1/3] P(X)\nHalf(X) :- Diamondplus[1/2] P(X)")
    kb.load("P(a)@[1,inf)\nP(b)@(-2,3)\n")
    kb.materialise()
    whole = kb["Out"].to_arrow()
    assert whole.schema.names == ["arg0", "start", "end", "start_closed", "end_closed"]
    assert whole["start"].type == pa.int64()
    assert whole.to_pylist() == [
        {"arg0": "a", "start": 1, "end": None, "start_closed": True, "end_closed": False},
        {"arg0": "b", "start": -2, "end": 3, "start_closed": False, "end_closed": False},
    ]
    half = kb["Half"].to_arrow()
    assert pa.types.is_decimal(half["start"].type)
    assert half["start"].to_pylist() == [Decimal("0.5"), Decimal("-2.5")]
    assert kb["Third"].to_arrow()["end"].to_pylist() == [None, "8/3"]


def test_timestamps() -> None:
    stamps = pa.array([dates.datetime(2026, 1, 1), None], pa.timestamp("ms", "UTC"))
    ends = pa.array([dates.datetime(2026, 1, 2), dates.datetime(2026, 1, 1)], pa.timestamp("ms", "UTC"))
    kb = engine("Out(X) :- Diamondminus[0s,2h30m] P(X)\nFine(X) :- Diamondminus[1us,1us] P(X)")
    kb.load("P", pa.table({"x": ["a", "b"], "start": stamps, "end": ends}))
    kb.materialise()
    out = kb["Out"].to_arrow()
    assert out["end"].type == pa.timestamp("ms", "UTC")
    assert out["start"].to_pylist()[1] is None
    assert out["end"].to_pylist()[0] == dates.datetime(2026, 1, 2, 2, 30, tzinfo=dates.UTC)
    assert kb["Fine"].to_arrow()["end"].type == pa.timestamp("us", "UTC")
    assert kb["Out"].lines()[0] == "Out(a)@[2026-01-01T00:00:00Z,2026-01-02T02:30:00Z]"
    assert kb.holds("Out(a)", at="2026-01-02T02:30:00Z")
    assert not kb.holds("Out(a)", at=dates.datetime(2026, 1, 2, 2, 31))
    with pytest.raises(DataError, match="timestamps and plain numbers"):
        kb.load("P(c)@[1,2]\n")
    text = engine()
    text.load("P(a)@[2026-01-01,2026-01-01T12:00:00.5+02:00)\n", timestamps=True)
    assert text.materialise()["P"].lines() == ["P(a)@[2026-01-01T00:00:00Z,2026-01-01T10:00:00.5Z)"]


def test_large_denominators() -> None:
    big = 10**9 + 7
    kb = engine(f"Out(X) :- Diamondminus[1/{big},1/{big}] P(X)")
    kb.load("P(a)@[1/3,1007/1000]\n")
    kb.materialise()
    expected = Fraction(1, 3) + Fraction(1, big), Fraction(1007, 1000) + Fraction(1, big)
    (interval,) = kb.when("Out(a)")
    assert (interval.lower, interval.upper) == expected
    worst = f"1/{10**9 + 9}"
    too_fine = engine(f"Out(X) :- Diamondminus[1/{big},1/{big}] P(X)")
    too_fine.load(f"P(a)@[{worst},1]\n")
    with pytest.raises(EvaluationError, match=rf"64 bits.*\n.*the worst is {worst} "):
        too_fine.materialise()
    too_far = engine()
    with pytest.raises(EvaluationError, match="64 bits"):
        too_far.load(f"P(a)@[0,{10**18}.5]\n")
    far = engine("Out(X) :- Diamondminus[0,1/1000000] P(X)")
    far.load(f"P(a)@[0,{10**15}]\n")
    with pytest.raises(EvaluationError, match=r"64 bits.*\n.*the worst is 0\.000001 "):
        far.materialise()


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_columns_are_refused(name: str, tmp_path: Path) -> None:
    texts = DAMAGED[name]()
    times = pa.array(range(len(texts)))
    table = pa.table({"a": texts, "start": times, "end": times})
    with pa.ipc.new_file(str(tmp_path / "r.arrow"), table.schema) as writer:
        writer.write_table(table)
    message = r"damaged Arrow data|not a readable arrow file"
    give: Callable[[], Any]
    for give in (lambda: table, table.to_reader, lambda: tmp_path / "r.arrow"):
        kb = ge.TemporalEngine("q(X) :- r(X).").materialise()
        with pytest.raises(DataError, match=message):
            kb.load("r", give())
        with kb.update() as u, pytest.raises(DataError, match=message):
            u.insert("r", give())
        assert len(kb.materialise()["q"]) == 0


@pytest.mark.parametrize("cut", [30, -3])
def test_damaged_compressed_files_are_refused(cut: int, tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"r(a%d)@[%d,%d]\n" % (i, i, i + 1) for i in range(500)), mtime=0)
    other = bytearray(whole)
    other[100] ^= 255
    kb = ge.TemporalEngine("q(X) :- r(X).")
    for content in (whole[:cut], bytes(other)):
        (tmp_path / "r.txt.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"can't read .*r\.txt\.gz: "):
            kb.load(tmp_path / "r.txt.gz")
    (tmp_path / "r.txt.gz").write_bytes(whole)
    assert kb.load(tmp_path / "r.txt.gz") == 500


def test_decompressing_is_held_to_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"r(a)@[1,2]\n"
    (tmp_path / "r.txt.gz").write_bytes(gzip.compress(line * (10 * 2**20 // len(line)), 1))
    kb = ge.TemporalEngine("q(X) :- r(X).")
    grown = itertools.count(0, 20 << 20)
    monkeypatch.setattr(limits, "default_memory", lambda own=0: 1 << 20)
    monkeypatch.setattr(limits, "resident_memory", lambda: next(grown))
    monkeypatch.setattr(limits, "_LOOK_SECONDS", 0.0)
    with pytest.raises(MemoryBudgetError, match=r"decompressing .*r\.txt\.gz took the process"):
        kb.load(tmp_path / "r.txt.gz")
    with pytest.raises(MemoryBudgetError, match="rows for r took the process"):
        kb.load("r", (("a", i, i) for i in itertools.count()))


def test_what_is_no_data() -> None:
    wrong: Any = 5
    with pytest.raises(DataError, match="r: can't read facts from int; give rows, a table"):
        ge.TemporalEngine("q(X) :- r(X).").load("r", wrong)


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, lambda view: pickle.loads(pickle.dumps(view))])
def test_views_are_taken_by_value_and_engines_refuse(take: Callable[[Any], Any]) -> None:
    kb = ge.TemporalEngine("q(X, Y) :- Diamondminus[0,1/3] r(X, Y).")
    kb.load("r", [("a", "b\n", 1, 2), ("", "a", 0.5, None)])
    view = kb.materialise()["q"]
    shown, table = view.lines(), view.to_arrow()
    other = take(view)
    with kb.update() as u:
        u.delete("r", [("a", "b\n", 1, 2)])
    del kb, view
    assert (other.lines(), other.to_arrow(), len(other)) == (shown, table, 2)
    engine = ge.TemporalEngine("q(X) :- r(X).")
    with pytest.raises(TypeError, match="TemporalEngine objects can't be copied or pickled"):
        take(engine)


def test_numbers_that_nobody_could_compute_with() -> None:
    for line in (f"P(a)@{'9' * 6000}", f"P(a)@[0,1/{'9' * 6000}]", f"P(a)@0.{'1' * 6000}"):
        with pytest.raises((DataError, EvaluationError)) as caught:
            engine().load(line + "\n")
        assert len(str(caught.value)) < 1000
    # As constants they are what is written, and in no order.
    kb = engine("Less(X) :- P(X), X < 3\n")
    kb.load(f"P({'9' * 6000})@1\nP(2)@1\n")
    assert kb.materialise()["Less"].lines() == ["Less(2)@[1,1]"]


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    """It is refused where it is read, not where it is shown."""
    file = tmp_path / "facts.txt"
    file.write_bytes(b"\xef\xbb\xbfP(\xc3\xa4)@1\nP(\xff\xfe)@1\nP('x \xff')@1\nP(b)@1\n")
    with pytest.raises(DataError, match=r"facts.txt:2: this is no UTF-8 text.*\n.*facts.txt:3: "):
        engine().load(file)
    kb = engine()
    assert kb.load(file, on_error="skip") == 2
    assert kb.materialise()["P"].to_pylist()[0][0] == "ä"
