"""The parameters of directives: which are known, which values are right, and how mistakes are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuengine.errors import DataError, ProgramErrors
from gpuengine.io.options import format_of, reading_dialect
from gpuengine.language import codes, parse_program
from gpuengine.language.parameters import IO_NAMES
from tests.language.rendering import diagnostics, errors

DECLARED = ".decl a(x: number)\n.decl b(x: number, y: number)\n"

GOLDEN = """\
error[E0109]: .output a: headers="maybe" is neither true nor false
 --> a.dl:3:11
  |
3 | .output a(headers=maybe, fielname="a.txt")
  |           ^^^^^^^^^^^^^
  = hint: write headers=true or headers=false

1 error; nothing was evaluated"""


def test_golden_text() -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse_program(DECLARED + '.output a(headers=maybe, fielname="a.txt")', name="a.dl")
    assert str(caught.value) == GOLDEN


@pytest.mark.parametrize(
    ("directive", "hint"),
    [
        (".input a(io=file)", "did you mean the parameter 'IO'?"),
        (".output a(header=true)", "did you mean the parameter 'headers'?"),
        (".printsize a(delimeter=x)", "did you mean the parameter 'delimiter'?"),
        (".limitsize a(n=1, N=2)", "did you mean the parameter 'n'?"),
        (
            ".output a(sep=x)",
            "there is IO, filename, delimiter, rfc4180, headers, columns, compress, name, dbname, format",
        ),
    ],
)
def test_unknown_parameters(directive: str, hint: str) -> None:
    """They warn, and mean nothing."""
    program = parse_program(DECLARED + directive)
    (found,) = [warning for warning in program.warnings if warning.code == codes.PARAMETER]
    assert (found.span.line, found.hint) == (3, hint)
    assert set(program.directives[0].params) <= {"n"}


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        (".output a(IO=pigeon)", ".output a: IO=pigeon is not supported"),
        (".output a(IO=stdin)", ".output a: IO=stdin is not supported"),
        (".input a(IO=stdout)", ".input a: IO=stdout is not supported"),
        ('.input a(IO=sqlite, dbname="")', ".input a: dbname='' is not a file name"),
        (".output a(IO=json, format=tree)", '.output a: format="tree" is no form of JSON'),
        (".input a(rfc4180=1)", '.input a: rfc4180="1" is neither true nor false'),
        (".output a, b(compress=yes)", '.output a: compress="yes" is neither true nor false'),
        ('.input a(filename="")', ".input a: filename='' is not a file name"),
        ('.input b(columns="0:0")', '.input b: columns="0:0": expected 2 different column numbers'),
        ('.input a, b(columns="1")', '.input b: columns="1": expected 2 different column numbers'),
        ('.input a(columns="x")', '.input a: columns="x": expected 1 column number'),
        ('.output a(name="b")', '.output a: name="b" is not the name of the relation'),
        (
            '.input a(delimiter="")',
            ".input a: delimiter='': a delimiter has at least one character and no line break",
        ),
    ],
)
def test_wrong_values(directive: str, message: str) -> None:
    (found,) = diagnostics(DECLARED + directive)
    assert (found.code, found.span.line, found.message) == (codes.DIRECTIVE, 3, message)


def test_the_caret_is_below_the_parameter() -> None:
    assert errors(DECLARED + ".input a, b(IO=file,\n  headers=no)") == [(codes.DIRECTIVE, 4, 3)]
    assert errors(".comp C { .decl c(x: number)\n.output c(IO=x) }\n.init d = C\n.init e = C") == [
        (codes.DIRECTIVE, 2, 11)
    ]


def test_what_souffle_adds_itself_is_accepted() -> None:
    text = """
    .output a(IO=file, name=a, operation="output", attributeNames="x", types="{}", params="{}", auxArity=0)
    .printsize b(IO=stdoutprintsize, filename="b")
    """
    assert [found.kind for found in parse_program(DECLARED + text).directives] == ["output", "printsize"]


def test_printing_the_size_is_no_output() -> None:
    (found,) = parse_program(DECLARED + ".output a(IO=stdoutprintsize)").directives
    assert found.kind == "printsize"


@pytest.mark.parametrize(
    "name", sorted({name for names in IO_NAMES.values() for name in names} - {"stdoutprintsize"})
)
def test_every_io_that_is_accepted_has_a_format(name: str) -> None:
    assert format_of(Path("a"), {"IO": name}) is not None


def test_reading_with_an_unknown_parameter_is_an_error() -> None:
    with pytest.raises(DataError, match=r"(?s)there is no parameter fielname.*the parameter 'filename'"):
        reading_dialect(Path("a.facts"), {"fielname": "b"}, 1)
