"""Functions that users give for the functors of a program, as programs use them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import FunctorError
from tests.cli_processes import CommandLines

NUMBERS = """
.functor f(x: number, y: number): number
.decl a(x: number, y: number)
.decl b(x: number, y: number, z: number)
b(x, y, @f(x, y)) :- a(x, y).
"""


def _engine(text: str, rows: Any, functors: Any, relation: str = "a") -> ge.Engine:
    engine = ge.Engine(text, functors=functors)
    engine.load(relation, rows)
    return engine.materialise()


def test_one_call_for_each_distinct_row_of_arguments() -> None:
    calls: list[tuple[int, int]] = []

    @ge.functor
    def f(x: int, y: int) -> int:
        calls.append((x, y))
        return x * y

    text = NUMBERS + ".decl c(z: number)\nc(@f(x, 2)) :- a(x, _)."
    engine = _engine(text, [(1, 2), (1, 3), (2, 2)], [f])
    assert set(engine["b"].to_pylist()) == {(1, 2, 2), (1, 3, 3), (2, 2, 4)}
    assert sorted(calls) == [(1, 2), (1, 3), (2, 2)]
    with engine.update() as update:
        update.insert("a", [(5, -1)])
        update.delete("a", [(1, 3)])
    assert update.change["b"].inserted.to_pylist() == [(5, -1, -5)]
    assert update.change["b"].deleted.to_pylist() == [(1, 3, 3)]
    assert sorted(calls[3:]) == [(5, -1), (5, 2)], "the others are remembered"
    assert engine.query("a(x, y), z = @f(x, y), z > 2").to_pylist() == [(2, 2, 4)]


@pytest.mark.parametrize(
    "functors",
    [
        ge.functor(columns=True)(lambda x, y: x - y),
        ge.functor(columns=True)(lambda x, y: pa.array(x - y)),
        ge.functor(columns=True)(lambda x, y: (x - y).tolist()),
        ge.functor(compiled=True)(lambda x, y: x - y),
        lambda x, y: x - y,
    ],
)
def test_every_kind_gives_the_same(functors: Any) -> None:
    rows = [(x, y) for x in range(-20, 20) for y in (-(2**40), -1, 0, 7)]
    engine = _engine(NUMBERS, rows, {"f": functors})
    assert set(engine["b"].to_pylist()) == {(x, y, x - y) for x, y in rows}


def test_a_function_without_a_value_drops_the_row() -> None:
    @ge.functor(columns=True)
    def f(x: np.ndarray, y: np.ndarray) -> pa.Array:
        return pa.array(x // np.where(y == 0, 1, y), mask=y == 0)

    assert _engine(NUMBERS, [(4, 2), (4, 0)], [f])["b"].to_pylist() == [(4, 2, 2)]
    engine = _engine(NUMBERS, [(4, 2), (4, 0)], {"f": lambda x, y: x // y if y else None})
    assert engine["b"].to_pylist() == [(4, 2, 2)]


def test_symbols_floats_and_unsigned() -> None:
    text = """
    .type Word <: symbol
    .functor f(s: Word, x: float): symbol
    .functor u(x: unsigned): unsigned
    .decl a(s: Word, x: float, u: unsigned)
    .decl b(s: symbol, u: unsigned)
    b(t, @u(u)) :- a(s, x, u), t = @f(s, x).
    """
    functors = {"f": lambda s, x: f"{s}:{x}", "u": lambda x: 2**64 - 1 - x}
    engine = _engine(text, [("é", 0.5, 0), ("", -0.0, 2**64 - 1)], functors)
    assert set(engine["b"].to_pylist()) == {("é:0.5", 2**64 - 1), (":-0.0", 0)}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: x / 0, r"@f\(1, 2\) failed: ZeroDivisionError: division by zero"),
        (lambda x, y: "one", r"@f\(1, 2\) gave 'one', which is no number"),
        (lambda x, y: 2**63, r"@f\(1, 2\) gave 9223372036854775808, which is no number"),
        (lambda x, y: 1.5, r"@f\(1, 2\) gave 1.5, which is no number"),
        (ge.functor(columns=True)(lambda x, y: x[:0]), r"@f\(1, 2\) gave 0 values for 1 rows"),
        (ge.functor(columns=True)(lambda x, y: ["one"]), r"@f\(1, 2\) gave no column of number"),
        (ge.functor(columns=True)(lambda x, y: 1 // 0), r"@f\(1, 2\) failed: ZeroDivisionError"),
    ],
)
def test_an_error_names_the_rule_and_the_arguments(function: Any, message: str) -> None:
    with pytest.raises(FunctorError, match=message) as raised:
        _engine(NUMBERS, [(1, 2)], {"f": function})
    assert raised.value.__notes__ == ["in rule: b(x, y, @f(x, y)) :- a(x, y)."]


def test_what_the_rest_of_the_body_excludes_is_not_computed() -> None:
    text = NUMBERS.replace(":- a(x, y).", ":- a(x, y), y != 0.")
    assert _engine(text, [(4, 2), (4, 0)], {"f": lambda x, y: x // y})["b"].to_pylist() == [(4, 2, 2)]


@pytest.mark.parametrize(
    ("functors", "message"),
    [
        (None, "no function for the functor @f, declared at <program>:2:10"),
        ({"g": lambda x, y: 1}, "no function for the functor @f"),
        ({"f": lambda x: 1}, "it takes 1 arguments, and 2 are declared"),
        ({"f": 3}, "a functor is a function, not 3"),
        ([3], "a functor is a function, not 3"),
    ],
)
def test_functions_that_are_missing_or_do_not_fit(functors: Any, message: str) -> None:
    with pytest.raises(ge.GpuEngineError, match=re.escape(message)):
        ge.Engine(NUMBERS, functors=functors).materialise()


def test_annotations_must_fit_the_declaration() -> None:
    @ge.functor
    def f(x: int, y: str) -> int:
        return 1

    with pytest.raises(ge.GpuEngineError, match="its argument y is str, and number is declared"):
        ge.Engine(NUMBERS, functors=[f]).materialise()
    with pytest.raises(ge.GpuEngineError, match="two functions are given for the functor @f"):
        ge.Engine(NUMBERS, functors=[f, ge.functor(name="f")(lambda x, y: 1)])
    compiled = ge.functor(compiled=True, name="g")(lambda s: 1)
    text = '.functor g(s: symbol): number\n.decl a(x: number)\na(@g("x")).'
    with pytest.raises(ge.GpuEngineError, match="takes and gives numbers, no symbols"):
        ge.Engine(text, functors=[compiled]).materialise()


def test_a_saved_base_is_read_without_functions_and_updated_with_them(tmp_path: Path) -> None:
    functors = {"f": lambda x, y: x + y}
    _engine(NUMBERS, [(1, 2)], functors).save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as engine:
        assert engine["b"].to_pylist() == [(1, 2, 3)]
        with (
            pytest.raises(ge.GpuEngineError, match="no function for the functor @f"),
            engine.update() as update,
        ):
            update.insert("a", [(3, 4)])
    with ge.open(tmp_path / "kb", functors=functors) as engine:
        with engine.update() as update:
            update.insert("a", [(3, 4)])
        assert update.change["b"].inserted.to_pylist() == [(3, 4, 7)]


def test_queries_need_only_the_functions_that_they_use(tmp_path: Path) -> None:
    """Of a lattice, those that join its values are for whoever derives or states some."""
    text = """
    .type Flags <: number
    .functor both(x: Flags, y: Flags): Flags
    .functor common(x: Flags, y: Flags): Flags
    .lattice Flags<> { Bottom -> 0, Lub -> @both(_, _), Glb -> @common(_, _) }
    .decl edge(x: number, y: number)
    .decl seen(x: number, flags: Flags<>)
    seen(1, as(6, Flags)).
    seen(y, flags) :- seen(x, flags), edge(x, y).
    """
    functors = {"both": lambda x, y: x | y, "common": lambda x, y: x & y}
    kb = ge.Engine(text, functors=functors)
    kb.load("edge", [(1, 2)])
    kb.materialise().save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as engine:
        assert engine.query("seen(2, f)").to_pylist() == [(6,)]
        with pytest.raises(ge.GpuEngineError, match="no function for the functor @common"):
            engine.query("seen(1, f), seen(2, f)")
        with (
            pytest.raises(ge.GpuEngineError, match="no function for the functor @"),
            engine.update() as update,
        ):
            update.insert("edge", [(2, 3)])
        assert engine["seen"].to_pylist() == [(1, 6), (2, 6)]
    with ge.open(tmp_path / "kb", functors=functors) as engine:
        with engine.update() as update:
            update.insert("seen", [(3, 3), (4, 1)])
        # A query meets values as a rule does.
        assert engine.query("seen(1, f), seen(3, f)").to_pylist() == [(2,)]
        assert engine.query("seen(1, f), seen(4, f)").to_pylist() == []
        assert engine.query("seen(x, 2)").to_pylist() == [(1,), (2,), (3,)]


def test_functors_in_recursion_and_added_rules() -> None:
    text = """
    .functor next(x: number): number
    .decl a(x: number)
    a(1).
    a(@next(x)) :- a(x), x < 100.
    """
    engine = ge.Engine(text, functors={"next": lambda x: 2 * x}).materialise()
    assert set(engine["a"].to_pylist()) == {(2**k,) for k in range(8)}
    with engine.update() as update:
        update.add_rules("a(@next(x) - 1) :- a(x), x < 10.")
    values = {1}
    while True:
        more = values | {2 * x for x in values if x < 100} | {2 * x - 1 for x in values if x < 10}
        if more == values:
            break
        values = more
    assert set(engine["a"].to_pylist()) == {(x,) for x in values}


def _c_library() -> Path:
    """One of the libraries that this process has loaded: C's own, with `labs`, `hypot` and `strstr`."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    names = {line.split()[-1] for line in lines if re.search(r"/libc[.-][^/]*so", line)}
    return Path(min(names))


@pytest.mark.skipif(sys.platform != "linux", reason="finds a library of C by Linux's means")
def test_functions_of_a_shared_library(tmp_path: Path) -> None:
    text = """
    .functor labs(x: number): number
    .functor strstr(s: symbol, t: symbol): symbol
    .decl a(x: number, s: symbol)
    .decl b(x: number, s: symbol)
    .output b
    b(@labs(x), @strstr(s, "b")) :- a(x, s).
    a(-5, "abc"). a(7, "abb"). a(1, "xyz").
    """
    library = _c_library()
    engine = ge.Engine(text, functor_libraries=[library]).materialise()
    assert set(engine["b"].to_pylist()) == {(5, "bc"), (7, "bb")}
    (tmp_path / "p.dl").write_text(text)
    (tmp_path / "processes").mkdir()
    processes = CommandLines(tmp_path / "processes")
    done = processes.run(["run", "p.dl", "-D", "-", "--functor-library", str(library)], cwd=tmp_path)
    missing = processes.run(["run", "p.dl", "-D", "-", "--functor-library", "none.so"], cwd=tmp_path)
    processes.close()
    assert done.code == 0 and "5\tbc" in done.out
    assert missing.code == 1 and "there is no library none.so of functors" in missing.err
    with pytest.raises(ge.GpuEngineError, match="write it in Python"):
        stateful = text.replace("labs(x: number): number", "labs(x: number): number stateful")
        ge.Engine(stateful, functor_libraries=[library]).materialise()


FOLDED = """
.functor step(so_far: number, x: number): number
.decl a(g: number, x: number)
.decl b(g: number, n: number)
b(g, n) :- a(g, _), n = @@step 7 : x, { a(g, x) }.
"""


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), max_size=20),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), max_size=4),
    st.sampled_from(["row", "columns", "compiled"]),
)
def test_an_aggregate_takes_the_values_in_their_order(
    rows: list[tuple[int, int]], gone: list[tuple[int, int]], kind: str
) -> None:
    """Of each kind of function, after a run and after an update; the function minds the order."""

    def step(so_far: int, x: int) -> int:
        return (31 * so_far + x) % 1009

    def folded(facts: set[tuple[int, int]]) -> set[tuple[int, int]]:
        found = set()
        for group in {g for g, _ in facts}:
            n = 7
            for x in sorted(x for g, x in facts if g == group):
                n = (31 * n + x) % 1009
            found.add((group, n))
        return found

    made = {"row": {}, "columns": {"columns": True}, "compiled": {"compiled": True}}[kind]
    engine = _engine(FOLDED, rows, [ge.functor(**made)(step)])
    assert set(engine["b"].to_pylist()) == folded(set(rows))
    with engine.update() as update:
        update.delete("a", gone)
        update.insert("a", [(9, 1)])
    assert set(engine["b"].to_pylist()) == folded({*rows} - {*gone} | {(9, 1)})


def test_an_aggregate_that_fails_or_has_no_value() -> None:
    def step(so_far: int, x: int) -> int | None:
        if x == 3:
            raise ValueError("not three")
        return None if x == 2 else so_far + x

    engine = _engine(FOLDED, [(1, 1), (1, 2), (1, 5), (4, 1), (4, 5)], [step])
    assert engine["b"].to_pylist() == [(4, 13)]
    with pytest.raises(ge.GpuEngineError, match=r"@step\(8, 3\) failed: ValueError: not three"):
        _engine(FOLDED, [(1, 1), (1, 3)], [step])


def test_an_aggregate_is_saved_planned_and_explained(tmp_path: Path) -> None:
    step = ge.functor(name="step")(lambda so_far, x: so_far + x)
    engine = _engine(FOLDED, [(1, 1), (1, 2)], [step])
    assert "n = @@step 7 : x, { a(g, x) }" in str(engine.plan())
    assert "@@step 7 : x" in str(engine.explain("b(1, 10)"))
    engine.save(tmp_path / "kb")
    with ge.open(tmp_path / "kb", functors=[step]) as opened:
        with opened.update() as update:
            update.insert("a", [(1, 4)])
        assert opened["b"].to_pylist() == [(1, 14)]


@pytest.mark.skipif(sys.platform != "linux", reason="finds a library of C by Linux's means")
def test_an_aggregate_of_a_shared_library() -> None:
    text = """
    .functor strstr(s: symbol, t: symbol): symbol
    .decl a(s: symbol)
    .decl b(s: symbol)
    a("b"). a("c").
    b(s) :- s = @@strstr "abcabc" : x, a(x).
    """
    engine = ge.Engine(text, functor_libraries=[_c_library()]).materialise()
    assert engine["b"].to_pylist() == [("cabc",)]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "there is no file functions.py of functors"),
        ("x = 1", "functions.py has no functors"),
        ("1 / 0", "functions.py can't be loaded: ZeroDivisionError: division by zero"),
    ],
)
def test_files_of_functors(source: str | None, message: str, tmp_path: Path) -> None:
    from gpuengine.terms.functions import load_functions

    if source is not None:
        (tmp_path / "functions.py").write_text(source)
    with pytest.raises(ge.GpuEngineError) as raised:
        load_functions(tmp_path / "functions.py")
    assert message in str(raised.value).replace(f"{tmp_path}/", "")
