"""Comments, macros, conditional parts, includes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuengine.errors import ProgramErrors
from gpuengine.language import parse_program
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.preprocess import Preprocessor
from gpuengine.language.source import SourceMap
from tests.language.rendering import codes_of, diagnostics, errors, facts, render, rules

P = ".decl p(x: number) .decl q(x: number)\n"


def write(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / f"{name}.dl").write_text(text)
    return directory / "main.dl"


def file_errors(path: Path, **options: object) -> list[tuple[str, str, int]]:
    with pytest.raises(ProgramErrors) as caught:
        parse_program(path, **options)  # type: ignore[arg-type]
    return [(found.code, Path(found.span.file).name, found.span.line) for found in caught.value.diagnostics]


def test_comments() -> None:
    assert facts(P + "p(1). // p(2).\n/* p(3).\n * p(4). **/ p(5). /**/ p(6).\n") == ["p(1)", "p(5)", "p(6)"]
    assert facts('.decl s(x: symbol)\ns("// no comment /*").') == ["s('// no comment /*')"]


def test_windows_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "main.dl"
    path.write_bytes(
        "\ufeff.decl p(x: number)\r\n#define N 3\r\np(N). // three\r\np(x) :- q(x).\r\n".encode()
    )
    assert file_errors(path) == [("E0101", "main.dl", 4)]


def test_object_macros() -> None:
    assert facts(P + "#define ONE 1\n#define TWO ONE + ONE\np(ONE).\n#undef ONE\n") == ["p(1)"]
    assert rules(P + "#define BODY q(x), \\\n  x > 3 // why\np(x) :- BODY.") == ["p(x) :- q(x), x > 3"]
    assert facts('.decl s(x: symbol)\n#define ONE 1\ns("ONE").') == ["s('ONE')"]


def test_function_macros() -> None:
    text = (
        P
        + "#define BOTH(a, b) q(a), q(b)\n#define TWICE(f) f, f\n"
        + "p(x) :- BOTH(x, max(x, 1)).\np(x) :- TWICE(q(x))."
    )
    assert rules(text) == ["p(x) :- q(x), q(@1), @1 = max(x, 1)", "p(x) :- q(x), q(x)"]
    assert rules(P + "#define NONE() q(x)\np(x) :- NONE().") == ["p(x) :- q(x)"]
    assert rules(P + "#define F(x) x + 1\np(y) :- q(x), y = F(F(x)).") == ["p(y) :- q(x), y = +(+(x, 1), 1)"]


def test_a_function_macro_without_arguments_is_a_name() -> None:
    assert rules(P + "#define x(a) a\np(x) :- q(x).") == ["p(x) :- q(x)"]


def test_a_macro_does_not_expand_itself() -> None:
    assert rules(P + "#define x x + 0\np(y) :- q(x1), y = x1.") == ["p(y) :- q(x1), y = x1"]
    assert rules(P + "#define q q\np(x) :- q(x).") == ["p(x) :- q(x)"]


def test_errors_in_a_macro_point_at_its_use() -> None:
    assert errors(P + "#define BAD unknown(x)\np(x) :- q(x), BAD.") == [("E0101", 3, 15)]


def test_macros_given_from_outside() -> None:
    program = parse_program(
        ".decl p(x: number)\np(SIZE).\n#ifdef FLAG\np(2).\n#endif", macros={"SIZE": "7", "FLAG": ""}
    )
    assert [render(rule) for rule in program.rules] == ["p(7)", "p(2)"]


def test_conditional_parts() -> None:
    text = """
#define ON
#ifdef ON
p(1).
  #ifndef ON
  p(2). " never read
  #else
  p(3).
  #endif
#else
p(4).
#ifdef ON
p(5).
#endif
#endif
#ifndef OFF
p(6).
#endif
"""
    assert facts(P + text) == ["p(1)", "p(3)", "p(6)"]


def test_conditions_of_expressions() -> None:
    conditions = {
        "1": 1,
        "0": 0,
        "UNKNOWN": 0,
        "2 * 3 == 6 && !defined(UNKNOWN)": 1,
        "defined SIX && SIX >= 6": 1,
        "defined(SIX) || 1 / 0": 1,
        "0 && 1 / 0": 0,
        "1 ? 2 : 1 / 0": 1,
        "0 ? 2 : 0 ? 1 : 3": 1,
        "-7 / 2 == -3 && -7 % 2 == -1": 1,
        "1 << 4 | 1 == 17": 1,
        "0x10 + 010 + 0b11 == 27uL": 1,
        "~0 == -1 && - -1": 1,
        "(1, 2)": None,
        "TWICE(SIX) == 12": 1,
        "10 - 4 - 3 == 3": 1,
        "1 + 2 * 3 < 7 ^ 1": 1,
        "9223372036854775807 + 1 < 0": 1,
        "RAM_DOMAIN_SIZE == 64": 1,
    }
    for condition, holds in conditions.items():
        text = f"#define SIX 6\n#define TWICE(x) (x + x)\n#if {condition}\np(1).\n#else\np(0).\n#endif\n"
        if holds is None:
            assert codes_of(P + text)[0] == "E0009"
        else:
            assert facts(P + text) == [f"p({holds})"], condition


def test_one_part_of_a_condition_is_read() -> None:
    parts = "#if A == 1\np(1).\n#elif A == 2\np(2).\n#elif A == 2 || A == 3\np(3).\n#else\np(4).\n#endif\n"
    for value in range(1, 5):
        assert facts(f"{P}#define A {value}\n{parts}") == [f"p({value})"]
    skipped = "#if 0\n#error no\n#if 1\n#error no\n#elif nonsense (\n#endif\n#frobnicate\n"
    skipped += "#elif 1\np(1).\n#elif (\n#endif"
    assert facts(P + skipped) == ["p(1)"]
    assert facts(P + "#ifdef A\n#elifndef A\np(1).\n#else\np(2).\n#endif") == ["p(1)"]
    assert facts(P + "#if 0 /* over\nlines */ || 1 // one\np(1).\n#endif") == ["p(1)"]


def test_a_warning_of_the_program() -> None:
    program = parse_program(P + "#ifndef SIZE\n#warning no SIZE\n#endif\np(1).")
    assert [(one.code, one.message, one.span.line) for one in program.warnings if one.code == "W0005"] == [
        ("W0005", "#warning no SIZE", 3)
    ]


def expanded(text: str) -> list[str]:
    """The tokens that are left of a text, blanks before them left out."""
    sources = SourceMap()
    tokens = Preprocessor(Reporter(sources), (), {}).run(sources.add("text", text))
    return [token[1] for token in tokens[:-1]]


def test_rescanning_as_the_standard_of_c_shows_it() -> None:
    """ISO C, 6.10.3.5, example 3, in names and marks that are tokens here."""
    text = """
#define x 3
#define f(a) f(x * (a))
#undef x
#define x 2
#define g f
#define z z[0]
#define h g(-
#define m(a) a(w)
#define w 0,1
#define t(a) a
#define p() int
#define q(x) x
#define r(x,y) x ## y
#define str(x) # x
f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);
g(x+(3,4)-w) | h 5) ^ m
(f)^m(m);
p() i[q()] = { q(1), r(2,3), r(4,), r(,5), r(,) };
c = { str(hello), str() };
"""
    result = """
f(2 * (y+1)) + f(2 * (f(2 * (z[0])))) % f(2 * (0)) + t(1);
f(2 * (2+(3,4)-0,1)) | f(2 * (- 5)) ^ f(2 * (0,1))^m(0,1);
int i[] = { 1, 23, 4, 5, };
c = { "hello", "" };
"""
    assert expanded(text) == expanded(result)


def test_quoting_and_pasting_as_the_standard_of_c_shows_it() -> None:
    """ISO C, 6.10.3.5, examples 4, 5 and 7."""
    text = r"""
#define str(s) # s
#define xstr(s) str(s)
#define debug(s, t) printf("x" # s "= %d, x" # t "= %s", \
 x ## s, x ## t)
#define INCFILE(n) vers ## n
#define glue(a, b) a ## b
#define xglue(a, b) glue(a, b)
#define HIGHLOW "hello"
#define LOW LOW ", world"
#define t(x,y,z) x ## y ## z
#define showlist(...) puts(#__VA_ARGS__)
#define report(test, ...) ((test)?puts(#test): printf(__VA_ARGS__))
debug(1, 2);
str(strncmp("abc\0d",   "abc") = 0);
xstr(INCFILE(2).h)
glue(HIGH, LOW);
xglue(HIGH, LOW)
{ t(1,2,3), t(,4,5), t(6,,7), t(8,9,), t(10,,), t(,11,), t(,,12), t(,,) };
showlist(The first, second, and third items.);
report(x>y, "x is %d but y is %d", x, y);
"""
    result = r"""
printf("x" "1" "= %d, x" "2" "= %s", x1, x2);
"strncmp(\"abc\\0d\", \"abc\") = 0";
"vers2.h"
"hello";
"hello" ", world"
{ 123, 45, 67, 89, 10, 11, 12, };
puts("The first, second, and third items.");
((x>y)?puts("x>y"): printf("x is %d but y is %d", x, y));
"""
    assert expanded(text) == expanded(result)


def test_arguments_that_are_all_the_rest() -> None:
    text = "#define CALL(f, ...) f(0, ## __VA_ARGS__)\n#define NAMED(f, args...) f(args)\n"
    assert expanded(text + "CALL(a) CALL(a, 1, (2, 3)) NAMED(b, 1, 2) NAMED(b)") == expanded(
        "a(0) a(0, 1, (2, 3)) b(1, 2) b()"
    )


def test_macros_make_declarations() -> None:
    text = """
#define RELATION(name, T) \\
    .decl name##_of(x: T) \\
    .decl all_##name(x: T) \\
    all_##name(x) :- name##_of(x).
#define STR(x) #x
RELATION(size, number)
RELATION(label, symbol)
size_of(__LINE__). label_of(STR(a b)).
"""
    assert rules(text) == ["all_size(x) :- size_of(x)", "all_label(x) :- label_of(x)"]
    assert facts(text) == ["size_of(9)", "label_of('a b')"]


def test_a_macro_may_be_called_like_a_word_of_the_language(tmp_path: Path) -> None:
    (tmp_path / "part.dl").write_text("p(2).\n")
    main = tmp_path / "main.dl"
    main.write_text(P + '#define count 3\n#define PART "part.dl"\np(count).\n#include PART\n')
    assert [render(rule) for rule in parse_program(main).rules] == ["p(3)", "p(2)"]


def test_file_and_line() -> None:
    program = parse_program(".decl p(x: number, f: symbol)\np(__LINE__, __FILE__).", name='dir\\a "b".dl')
    assert render(program.rules[0]) == "p(2, 'dir\\\\a \"b\".dl')"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("#ifdef X\n", "E0009"),
        ("#else\n", "E0009"),
        ("#endif\n", "E0009"),
        ("#ifdef X\n#else\n#else\n#endif", "E0009"),
        ("#ifdef\n#endif", "E0009"),
        ("#if\n#endif", "E0009"),
        ("#if 1 +\n#endif", "E0009"),
        ("#if 1 / 0\n#endif", "E0009"),
        ("#if (1\n#endif", "E0009"),
        ("#if 1.5\n#endif", "E0009"),
        ("#if 09\n#endif", "E0009"),
        ("#if 1 ? 2\n#endif", "E0009"),
        ("#if " + "(" * 5000 + "1" + ")" * 5000 + "\n#endif", "E0009"),
        ("#elif 1\n", "E0009"),
        ("#if 1\n#else\n#elif 1\n#endif", "E0009"),
        ("#if 1\n#error stop\n#endif", "E0009"),
        ("#frobnicate\n", "E0009"),
        ("#error stop\n", "E0009"),
        ("#include nothing\n", "E0009"),
        (".include nothing(1).\n", "E0009"),
        ("#define\n", "E0010"),
        ("#define F(1) 2\n", "E0010"),
        ("#define F(x) #y\n", "E0010"),
        ("#define F(x) ## x\n", "E0010"),
        ("#define F(x, x) x\n", "E0010"),
        ("#define F(x, y, ...) x\nq(F(1)).", "E0010"),
        ("#define AND &\np(1) AND.", "E0010"),
        ('#define I .include "f"\n', "E0010"),
        ("#define F(x) x\nq(F(1, 2)).", "E0010"),
        ("#define F(x) x\nq(F(1", "E0010"),
        ("p(1) # 2.\n", "E0002"),
        ("p(1) & p(2).", "E0002"),
        ("p(`).", "E0002"),
        ("/* no end", "E0003"),
    ],
)
def test_wrong_directives(text: str, code: str) -> None:
    assert codes_of(P + text)[0] == code


def test_macros_that_explode_are_stopped() -> None:
    bomb = "".join(f"#define A{n} A{n - 1}, A{n - 1}\n" for n in range(1, 60))
    assert codes_of(P + "#define A0 q(x)\n" + bomb + "p(x) :- A59.")[0] == "E0010"
    nested = "F(" * 20_000 + "1" + ")" * 20_000
    assert codes_of(P + f"#define F(x) x\np({nested}).")[0] == "E0010"


def test_includes(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", part='.decl q(x: number)\n#include "../other.dl"\nq(2).\n')
    main = write(tmp_path, main='.decl p(x: number)\np(1).\n.include "sub/part.dl"\nq(4).\n', other="p(3).\n")
    assert [render(rule) for rule in parse_program(main).rules] == ["p(1)", "p(3)", "q(2)", "q(4)"]


def test_include_directories(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    write(library, part="p(1).\n")
    program = parse_program(".decl p(x: number)\n#include <part.dl>\n", include_dirs=[library])
    assert [render(rule) for rule in program.rules] == ["p(1)"]


def test_an_error_in_an_included_file_names_it(tmp_path: Path) -> None:
    main = write(tmp_path, main='.decl p(x: number)\n.include "part.dl"\np(y).\n', part="\np(x).\n")
    assert file_errors(main) == [("E0401", "main.dl", 3), ("E0401", "part.dl", 2)]


def test_once(tmp_path: Path) -> None:
    text = ".decl p(x: number)\n" + '.include "part.dl"\n' * 2 + '.include "again.dl"\n' * 2
    main = write(tmp_path, main=text, part=".once\np(1).\n", again="p(2).\n")
    assert [render(rule) for rule in parse_program(main).rules] == ["p(1)", "p(2)", "p(2)"]


@pytest.mark.parametrize("name", ["../secret.dl", "/etc/passwd", "sub/../../secret.dl", "link.dl"])
def test_an_include_can_not_leave_the_directory(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (tmp_path / "secret.dl").write_text("p(1).")
    (inside / "link.dl").symlink_to(tmp_path / "secret.dl")
    main = write(inside, main=f'.decl p(x: number)\n.include "{name}"\n')
    assert file_errors(main) == [("E0007", "main.dl", 2)]
    assert parse_program(main, include_dirs=[Path("/")]) if name == "../secret.dl" else True


def test_text_without_a_file_includes_nothing_by_itself() -> None:
    assert codes_of('.include "pyproject.toml"') == ["E0007"]


def test_missing_unreadable_and_cyclic_includes(tmp_path: Path) -> None:
    assert file_errors(write(tmp_path, main='.include "none.dl"\np(x) :- q(x).\n')) == [
        ("E0006", "main.dl", 1)
    ]
    (tmp_path / "binary.dl").write_bytes(b"\xff\xfe\x00")
    assert file_errors(write(tmp_path, main='.include "binary.dl"\n')) == [("E0006", "main.dl", 1)]
    main = write(tmp_path, main='.include "part.dl"\n', part='.include "main.dl"\n')
    assert file_errors(main) == [("E0008", "part.dl", 1)]
    chain = {f"f{n}": f'.include "f{n + 1}.dl"\n' for n in range(300)}
    assert file_errors(write(tmp_path, main='.include "f0.dl"\n', **chain))[0][0] == "E0008"
    doubling = {f"g{n}": f'.include "g{n + 1}.dl"\n' * 2 for n in range(30)}
    found = file_errors(write(tmp_path, main='.include "g0.dl"\n', g30="", **doubling))
    assert found[0][0] == "E0008"


def test_a_program_file_that_can_not_be_read(tmp_path: Path) -> None:
    assert file_errors(tmp_path / "none.dl") == [("E0006", "none.dl", 1)]
    assert file_errors(tmp_path) == [("E0006", tmp_path.name, 1)]


def test_strings() -> None:
    assert errors('.decl s(x: symbol)\ns("a\\qb").') == [("E0004", 2, 3)]
    assert errors('.decl s(x: symbol)\ns("abc).\ns(1).') == [("E0003", 2, 3), ("E0301", 3, 3)]
    assert diagnostics(P + "p(1) ; p(2) @ $.")[0].code == "E0001"


def test_includes_stay_in_the_folder_that_the_program_was_given_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project" / "rules").mkdir(parents=True)
    (tmp_path / "project" / "decl.dl").write_text(".decl a(x: number)\n")
    (tmp_path / "secret.dl").write_text(".decl b(x: number)\n")
    inside, outside = (tmp_path / "project" / "rules" / name for name in ("in.dl", "out.dl"))
    inside.write_text('.include "../decl.dl"\na(1).\n')
    outside.write_text('.include "../../secret.dl"\n')
    monkeypatch.chdir(tmp_path)
    assert "a" in parse_program(inside.relative_to(tmp_path)).relations
    for path in (outside.relative_to(tmp_path), inside, Path("project/../project/rules/in.dl")):
        with pytest.raises(ProgramErrors) as caught:
            parse_program(path)
        assert [found.code for found in caught.value.diagnostics] == ["E0007"]
