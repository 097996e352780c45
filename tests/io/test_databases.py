"""Relations in SQLite and DuckDB databases, and as JSON: what is written is read back, the rest stays."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import DataError
from gpuengine.io.databases import quoted
from tests.cli.processes import gpuengine

TYPES = """
.type List = [head: number, tail: List]
.type Shape = Circle { r: number } | Dot {}
"""
PROGRAM = (
    TYPES
    + """
.decl all_types(n: number, u: unsigned, f: float, s: symbol, l: List, a: Shape)
.decl holds()
.decl empty(x: number)
"""
)
COPY = TYPES + ".decl c(n: number, u: unsigned, f: float, s: symbol, l: List, a: Shape)\n.input c"
ROWS = [
    (-1, 2**64 - 1, -0.0, 'it\'s; DROP TABLE "x"', "[1, [2, nil]]", "$Circle(3)"),
    (2**63 - 1, 0, math.inf, "", "nil", "$Dot"),
    (-(2**63), 2**63, 1.5e300, "ünï\tcode\n", "[-5, nil]", "$Circle(-1)"),
]
FORMS = ["sqlite", "duckdb", "json", "json-objects"]


def directive(form: str, relation: str) -> str:
    if form.startswith("json"):
        format_ = ", format=object" if form == "json-objects" else ""
        return f'(IO=json, filename="{relation}.json"{format_})'
    return f'(IO={form}, filename="all.db")'


def outputs(form: str) -> str:
    return "".join(f".output {name}{directive(form, name)}\n" for name in ("all_types", "holds", "empty"))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_read_back(form: str, tmp_path: Path) -> None:
    facts = "".join(
        f"all_types({n}, {u}, {f}, {json.dumps(s, ensure_ascii=False)}, {ls}, {a}).\n"
        for n, u, f, s, ls, a in ROWS
    )
    facts = facts.replace(" inf,", ' to_float("inf"),').replace("1.5e+300", "1.5e300")
    (tmp_path / "write.dl").write_text(PROGRAM + facts + "holds().\n" + outputs(form))
    done = gpuengine("run", "write.dl", "-D", "out", "-w", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    reading = outputs(form).replace(".output", ".input")
    copies = """
.decl copy(n: number, u: unsigned, f: float, s: symbol, l: List, a: Shape)
copy(n, u, f, s, l, a) :- all_types(n, u, f, s, l, a), holds(), !empty(1).
.output copy(IO=arrow)
"""
    (tmp_path / "read.dl").write_text(PROGRAM + reading + copies)
    done = gpuengine("run", "read.dl", "-F", "out", "-D", "again", "-w", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    kb = ge.Engine(
        TYPES + ".decl c(n: number, u: unsigned, f: float, s: symbol, l: List, a: Shape)\n.input c"
    )
    kb.load("c", tmp_path / "again" / "copy.arrow")
    assert sorted(map(repr, kb["c"].to_pylist())) == sorted(map(repr, loaded(ROWS)))


def loaded(rows: list[Any]) -> list[Any]:
    kb = ge.Engine(
        TYPES + ".decl c(n: number, u: unsigned, f: float, s: symbol, l: List, a: Shape)\n.input c"
    )
    kb.load("c", rows)
    return kb["c"].to_pylist()


VALUES = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)


@pytest.mark.parametrize("form", ["sqlite", "duckdb", "json"])
@settings(max_examples=15, deadline=None)
@given(st.lists(VALUES, max_size=6), st.text(min_size=1).filter(lambda name: "\0" not in name))
def test_any_values_in_a_table_of_any_name(
    tmp_path_factory: pytest.TempPathFactory, form: str, rows: list[Any], table: str
) -> None:
    from gpuengine.io import write_facts

    table = table.encode(errors="ignore").decode() or "t"
    params = {"IO": form} if form == "json" else {"IO": form, "name": table}
    declared = ".decl r(n: number, u: unsigned, f: float, s: symbol)\n.input r"
    first, second = ge.Engine(declared), ge.Engine(declared)
    first.load("r", rows)
    path = tmp_path_factory.mktemp("any") / "x.db"
    view = first["r"]
    assert write_facts(path, view.batches(), view.attributes, params) == len(view)
    second.load("r", path, params=params)
    assert sorted(map(repr, second["r"].to_pylist())) == sorted(map(repr, view.to_pylist()))


@pytest.mark.parametrize("form", ["sqlite", "duckdb"])
def test_other_tables_stay(form: str, tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b", "a")):
        text = f'.decl {name}(x: number)\n{name}({number}).\n.output {name}(IO={form}, dbname="d.db")\n'
        (tmp_path / "p.dl").write_text(text)
        assert gpuengine("run", "p.dl", "-D", ".", cwd=tmp_path).returncode == 0
    kb = ge.Engine(".decl a(x: number)\n.input a\n.decl b(x: number)\n.input b")
    kb.load("a", tmp_path / "d.db", params={"IO": form})
    kb.load("b", tmp_path / "d.db", params={"IO": form})
    assert (kb["a"].to_pylist(), kb["b"].to_pylist()) == ([(2,)], [(1,)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.db", "p.dl"]


def test_a_database_of_souffle(tmp_path: Path) -> None:
    """A view over a table of ids and a table of symbols."""
    with closing(sqlite3.connect(tmp_path / "edge.sqlite")) as database:
        database.executescript(
            """CREATE TABLE '_edge' ('0' INTEGER, '1' INTEGER);
            CREATE TABLE '__SymbolTable' (id INTEGER PRIMARY KEY, symbol TEXT UNIQUE);
            INSERT INTO '__SymbolTable' VALUES (1, 'a'), (2, 'b');
            INSERT INTO '_edge' VALUES (7, 1), (-1, 2);
            CREATE VIEW 'edge' AS SELECT '_edge'.'0' AS 'n', s.symbol AS 'name'
              FROM '_edge', '__SymbolTable' AS s WHERE '_edge'.'1' = s.id;"""
        )
    program = ".decl edge(n: unsigned, name: symbol)\n.input edge(IO=sqlite)\n.output edge(IO=stdout)\n"
    (tmp_path / "p.dl").write_text(program)
    done = gpuengine("run", "p.dl", "-F", ".", "-D", ".", cwd=tmp_path)
    assert sorted(done.stdout.splitlines()[3:-1]) == ["18446744073709551615\tb", "7\ta"]


def test_texts_are_numbers_where_numbers_are_declared(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "d")) as database:
        database.executescript(
            "CREATE TABLE r (x TEXT, y); INSERT INTO r VALUES ('5', 6), ('x', 7), (NULL, 8);"
        )
    kb = ge.Engine(".decl r(x: number, y: symbol)\n.input r")
    with pytest.raises(DataError, match=r"row 1 .counted from 0., column 1 .x: number.: 'x' is no number"):
        kb.load("r", tmp_path / "d", params={"IO": "sqlite"})
    kb.load("r", tmp_path / "d", params={"IO": "sqlite"}, on_error="skip")
    assert kb["r"].to_pylist() == [(5, "6")]
    assert kb.skipped["r"].rows == 2


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, but long enough to look like one" * 20)
    (tmp_path / "bad.json").write_text("[[1, 2], [3")
    (tmp_path / "mixed.json").write_text('[[1], {"x": 2}]')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with closing(sqlite3.connect(tmp_path / "d.db")) as database:
        database.execute("CREATE TABLE other (x)")
    kb = ge.Engine(".decl r(x: number)\n.input r")
    for name, form, told in (
        ("text.db", "sqlite", "SQLite says"),
        ("text.db", "duckdb", "DuckDB says"),
        ("d.db", "sqlite", "there is no table or view r\n  hint: there is other"),
        ("bad.json", "json", "this is no JSON"),
        ("deep.json", "json", "this is no JSON"),
        ("mixed.json", "json", "all lists or all objects"),
    ):
        with pytest.raises(DataError, match=told):
            kb.load("r", tmp_path / name, params={"IO": form})
    (tmp_path / "out.dl").write_text('.decl r(x: number)\nr(1).\n.output r(IO=sqlite, filename="../r.db")\n')
    done = gpuengine("run", "out.dl", "-D", "out", cwd=tmp_path)
    assert done.returncode != 0 and "leaves the output directory" in done.stderr
    (tmp_path / "in.dl").write_text(
        '.decl r(x: number)\n.input r(IO=sqlite, dbname="/etc/x.db")\n.output r\n'
    )
    assert "leaves the fact directory" in gpuengine("run", "in.dl", "-F", ".", cwd=tmp_path).stderr


def test_a_view_of_duckdb_reads_no_other_file(tmp_path: Path) -> None:
    import duckdb

    (tmp_path / "secret.csv").write_text("1\n2\n")
    with closing(duckdb.connect(str(tmp_path / "d.db"))) as database:
        database.execute(f"CREATE VIEW r AS SELECT * FROM read_csv('{tmp_path / 'secret.csv'}') AS t(x)")
    kb = ge.Engine(".decl r(x: number)\n.input r")
    with pytest.raises(DataError, match="DuckDB says"):
        kb.load("r", tmp_path / "d.db", params={"IO": "duckdb"})


def test_json_on_standard_streams(tmp_path: Path) -> None:
    program = ".decl r(x: number, s: symbol)\n.input r(IO=json)\n.output r(IO=json, format=object)\n"
    (tmp_path / "p.dl").write_text(program)
    done = gpuengine("run", "p.dl", cwd=tmp_path, stdin='[[1, "a\\"b"], [2, "c"]]')
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(json.loads(done.stdout), key=repr) == [{"x": 1, "s": 'a"b'}, {"x": 2, "s": "c"}]


def test_identifiers_are_quoted() -> None:
    assert quoted('a"b') == '"a""b"'


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A database and a file of JSON, as bytes."""
    folder = tmp_path_factory.mktemp("whole")
    with closing(sqlite3.connect(folder / "d")) as database:
        database.execute("CREATE TABLE r (x INTEGER, s TEXT)")
        database.executemany("INSERT INTO r VALUES (?, ?)", [(i, f"text {i}") for i in range(300)])
        database.commit()
    rows = [[i, f"text {i}"] for i in range(300)]
    return {"sqlite": (folder / "d").read_bytes(), "json": json.dumps(rows).encode()}


@pytest.mark.parametrize("form", ["sqlite", "json"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_files_are_refused_or_read(
    form: str, whole: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    damaged = bytearray(whole[form])
    for _ in range(data.draw(st.integers(1, 20))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(len(damaged) // 2, len(damaged))) :]
    path = tmp_path_factory.mktemp("damaged") / "r"
    path.write_bytes(damaged)
    kb = ge.Engine(".decl r(x: number, s: symbol)\n.input r")
    try:
        kb.load("r", path, params={"IO": form, **({"filename": "r"} if form == "json" else {})})
    except DataError as error:
        assert str(path) in str(error)
    assert path.read_bytes() == damaged
