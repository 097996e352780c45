"""Declarations, qualifiers and directives."""

from __future__ import annotations

import pytest

from gpuengine.language import parse_program
from gpuengine.language.program import Directive
from tests.language.rendering import codes_of, errors


def directives(text: str) -> list[tuple[str, str, dict[str, str]]]:
    return [(found.kind, found.relation, dict(found.params)) for found in parse_program(text).directives]


def test_several_names_in_one_declaration() -> None:
    program = parse_program(".decl A, B, C(x: number, y: symbol) brie")
    assert list(program.relations) == ["A", "B", "C"]
    assert all(
        relation.qualifiers == {"brie"} and relation.arity == 2 for relation in program.relations.values()
    )


@pytest.mark.parametrize(
    "tag", ["eqrel", "btree", "brie", "btree_delete", "magic", "no_magic", "no_inline", "overridable"]
)
def test_qualifiers_are_kept(tag: str) -> None:
    assert parse_program(f".decl A(x: number, y: number) {tag}").relations["A"].qualifiers == {tag}


def test_legacy_qualifiers_become_directives() -> None:
    text = ".decl A(x: number) input output\n.decl B(x: number) btree printsize"
    assert directives(text) == [("input", "A", {}), ("output", "A", {}), ("printsize", "B", {})]
    assert parse_program(text).relations["B"].qualifiers == {"btree"}


def test_directives_with_parameters() -> None:
    text = r"""
    .decl A(x: number) .decl B(x: number)
    .input A, B(IO=file, filename="a b.csv", delimiter="\t", headers=true, columns="3")
    .output A()
    .printsize B
    .limitsize A(n=10)
    """
    params = {"IO": "file", "filename": "a b.csv", "delimiter": "\t", "headers": "true", "columns": "3"}
    assert directives(text) == [
        ("input", "A", params),
        ("input", "B", params),
        ("output", "A", {}),
        ("printsize", "B", {}),
        ("limitsize", "A", {"n": "10"}),
    ]


def test_a_directive_knows_its_place() -> None:
    found = parse_program(".decl A(x: number)\n  .output A").directives[0]
    assert isinstance(found, Directive) and (found.span.line, found.span.column) == (2, 3)


def test_pragmas() -> None:
    assert parse_program('.pragma "legacy"\n.pragma "magic-transform" "*"').pragmas == (
        ("legacy", ""),
        ("magic-transform", "*"),
    )


def test_wrong_declarations() -> None:
    assert errors(".decl A(x: number)\n.decl B, A(x: number)") == [("E0102", 2, 10)]
    assert errors(".decl A(x: number, x: number)") == [("E0103", 1, 20)]
    assert errors('.decl A(x: numbr)\nA("s").') == [("E0105", 1, 12)]
    assert errors(".decl A(x: number, y: symbol) eqrel") == [("E0108", 1, 7)]
    assert errors(".decl A(x: number) eqrel") == [("E0108", 1, 7)]
    assert errors(".decl A(x: number)\n.limitsize A") == [("E0109", 2, 1)]
    assert errors(".decl A(x: number)\n.limitsize A(n=x)") == [("E0109", 2, 1)]
    assert errors(".output A") == [("E0101", 1, 9)]


def test_arity() -> None:
    assert errors(".decl A(x: number)\nA(1, 2).\nA(x) :- A().") == [("E0104", 2, 1), ("E0104", 3, 9)]


def test_wrong_features_are_named() -> None:
    text = """.decl A(x: number, y: number)
.functor f(x: number): number
.lattice L<> { Bottom -> 1, Lub -> @f(_, _) }
.decl B(x: number, y: number <>)

A(@f(1), @@g 1 : 2, { B(_, _) }).
.pragma "provenance" "explain"
A(1, "wrong type").
"""
    assert [(code, line) for code, line, _ in errors(text)] == [
        ("E0105", 3),
        ("E0502", 4),
        ("E0503", 6),
        ("E0506", 7),
        ("E0301", 8),
    ]


def test_a_reserved_word_is_no_name() -> None:
    assert codes_of(".decl count(x: number)") == ["E0001"]
