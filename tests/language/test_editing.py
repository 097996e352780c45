"""Programs whose rules come and go: what an edited text means, its errors, and that it can be saved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.errors import GpuEngineError, ProgramErrors
from gpuengine.language import parse_program
from gpuengine.language.editing import Edit, EditedText, ProgramText
from gpuengine.language.program import Program, canonical
from tests.language.rendering import render

DECLS = """.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl node(x: number)
"""
BASE = DECLS + "path(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(y, z).\n"


def add(text: str, name: str = "") -> Edit:
    return Edit("add", text, name)


def remove(text: str, name: str = "") -> Edit:
    return Edit("remove", text, name)


def edit(base: str | ProgramText, *edits: Edit) -> EditedText:
    text = ProgramText.read(base, name="base.dl") if isinstance(base, str) else base
    return text.edited(edits)


def after(base: str | ProgramText, *edits: Edit) -> Program:
    """The program after the edits, which must be the same if they come one by one, or are saved."""
    text = edit(base, *edits).text
    single = ProgramText.read(base, name="base.dl") if isinstance(base, str) else base
    for one in edits:
        single = single.edited([one]).text
    assert single.program == text.program
    assert saved(text).program == text.program
    return text.program


def saved(text: ProgramText) -> ProgramText:
    return ProgramText.from_json(json.loads(json.dumps(text.to_json())))


def assert_same(program: Program, expected: str) -> None:
    """Has `program` the declarations, and up to order and names the rules, of the text `expected`?"""
    wanted = parse_program(expected)
    assert program.relations == wanted.relations
    assert program.directives == wanted.directives
    assert program.types == wanted.types
    assert sorted(map(shown, program.rules)) == sorted(map(shown, wanted.rules))


def shown(rule: object) -> str:
    return render(canonical(rule))  # type: ignore[arg-type]


def failure(base: str | ProgramText, *edits: Edit) -> ProgramErrors:
    with pytest.raises(ProgramErrors) as caught:
        edit(base, *edits)
    return caught.value


def places(base: str | ProgramText, *edits: Edit) -> list[tuple[str, str]]:
    return [(found.code, str(found.span)) for found in failure(base, *edits).diagnostics]


# What edits do


def test_rules_declarations_and_directives_are_added() -> None:
    extra = ".decl far(x: number)\n.output far\nfar(x) :- path(_, x), !edge(_, x)."
    assert_same(
        after(BASE, add("edge(1, 2). node(x) :- edge(x, _)."), add(extra)),
        BASE + extra + ("edge(1, 2). node(x) :- edge(x, _)."),
    )


@pytest.mark.parametrize(
    ("rule", "removed"),
    [
        ("path(x, z) :- path(x, y), edge(y, z).", "path(a,c):-path(a,b),\n  edge(b,c)."),
        ("node(x) :- edge(x, _).", "node(x) :- edge(x, y)."),
        ("node(x) :- edge(x, y).", "node(x) :- edge(x, _)."),
        ("node(x), node(y) :- edge(x, y).", "node(x) :- edge(x, _). node(y) :- edge(_, y)."),
        ("node(x) :- edge(x, _) ; edge(_, x).", "node(a) :- edge(_, a). node(b) :- edge(b, c)."),
        ("node(x) :- edge(x, _). node(y) :- edge(_, y).", "node(a), node(b) :- edge(a, b)."),
        ("node(x) :- edge(x, _). node(y) :- edge(y, z).", "node(a) :- edge(a, _)."),
        ("node(x + 1) :- edge(x, 3 * x).", "node(b + 1) :- edge(b, 3 * b)."),
        (
            "node(n) :- edge(z, a), n = count : { path(z, a), edge(a, m), m > z }.",
            "node(k) :- edge(a, z), k = count : { path(a, z), edge(z, w), w > a }.",
        ),
        ("node(n) :- n = sum x : { edge(x, _) }.", "node(m) :- m = sum z : { edge(z, y) }."),
        ("node(x) :- edge(x, x), !path(x, _).", "node(y) :- edge(y, y), !path(y, _)."),
    ],
)
def test_rules_are_removed_whatever_they_look_like(rule: str, removed: str) -> None:
    assert_same(after(DECLS + rule, remove(removed)), DECLS)
    assert_same(after(DECLS, add(rule), remove(removed)), DECLS)


@pytest.mark.parametrize(
    ("rule", "other"),
    [
        ("node(x) :- edge(x, y), path(y, _).", "node(x) :- edge(x, _), path(_, _)."),
        ("node(x) :- edge(x, y).", "node(y) :- edge(x, y)."),
        ("node(x) :- edge(x, 1).", "node(x) :- edge(x, 2)."),
        ("node(x) :- edge(x, x), !path(x, _).", "node(x) :- edge(x, x), path(x, _)."),
        ("node(n) :- n = sum x : { edge(x, _) }.", "node(n) :- n = sum x : { edge(_, x) }."),
        ("node(x) :- edge(x, _), path(x, _).", "node(x) :- path(x, _), edge(x, _)."),
    ],
)
def test_different_rules_are_not_taken_for_each_other(rule: str, other: str) -> None:
    assert places(DECLS + rule, remove(other)) == [("E0601", "<removed rules>:1:1")]


def test_one_rule_of_a_disjunction_goes_and_comes_back() -> None:
    base = DECLS + "node(x) :- edge(x, _) ; edge(_, x) ; path(x, x)."
    gone = edit(base, remove("node(x) :- edge(_, x).")).text
    assert_same(gone.program, DECLS + "node(x) :- edge(x, _) ; path(x, x).")
    assert_same(after(gone, add("node(x) :- edge(_, x).")), base)


def test_the_last_edit_that_mentions_a_rule_counts() -> None:
    rule = "node(x) :- edge(x, _)."
    steps = [add(rule), remove(rule), add(rule), remove("node(y) :- edge(y, _)."), add(rule)]
    for count in range(1, len(steps) + 1):
        assert_same(after(DECLS, *steps[:count]), DECLS + (rule if count % 2 else ""))


def test_a_declaration_after_a_removal_does_not_bring_the_rule_back() -> None:
    rule = "path(x, y) :- edge(x, y)."
    program = after(DECLS + rule, remove(rule), add(".type T <: number .decl t(x: T)"))
    assert_same(program, DECLS + ".type T <: number .decl t(x: T)")


def test_only_the_result_of_all_edits_has_to_be_right() -> None:
    base = DECLS + "node(x) :- edge(x, x), !path(x, x)."
    cycle = "path(x, x) :- node(x)."
    assert [code for code, _ in places(base, add(cycle))] == ["E0403"]
    swapped = edit(base, add(cycle), remove("node(x) :- edge(x, x), !path(x, x).")).text
    assert_same(swapped.program, DECLS + cycle)


def test_the_text_before_an_edit_stays_as_it_is() -> None:
    text = ProgramText.read(BASE)
    program = text.program
    with pytest.raises(ProgramErrors):
        text.edited([add("#define N 3\n.decl new(x: number)\nnew(N). new(M).")])
    assert text.edited([add(".decl new(x: number)\n.decl N(x: number)\nN(1).")]).text.edits != ()
    assert text.program == program
    assert text.edits == ()
    assert text.edited([]).text.program == program


# Facts


def test_facts_of_edits() -> None:
    base = BASE + "edge(1, 2). edge(1, 2). edge(2, 3)."
    edited = edit(
        base, add("edge(3, 4). edge(2, 3). node(x) :- edge(x, x)."), remove("edge(1, 2). edge(7, 7).")
    )
    assert [render(rule) for rule in edited.added_facts] == ["edge(3, 4)", "edge(2, 3)"]
    assert [render(rule) for rule in edited.removed_facts] == ["edge(1, 2)", "edge(7, 7)"]
    facts = [render(rule) for rule in edited.text.program.rules if not rule.body]
    assert facts == ["edge(2, 3)", "edge(3, 4)", "edge(2, 3)"]


def test_the_last_edit_of_a_fact_counts() -> None:
    edited = edit(BASE, add("edge(1, 2). edge(3, 4)."), remove("edge(1, 2)."), add(".decl z() edge(5, 6)."))
    assert [render(rule) for rule in edited.added_facts] == ["edge(3, 4)", "edge(5, 6)"]
    assert [render(rule) for rule in edited.removed_facts] == ["edge(1, 2)"]


def test_facts_by_inlining() -> None:
    base = DECLS + ".decl on(x: number) inline\non(1).\nnode(7) :- on(1).\nnode(8)."
    edited = edit(base, remove("node(7). node(8)."))
    assert [render(rule) for rule in edited.removed_facts] == ["node(8)"]
    edited = edit(base, remove("on(1)."), add("on(2). node(9) :- on(2)."))
    assert [render(rule) for rule in edited.added_facts] == ["node(9)"]
    assert [render(rule) for rule in edited.removed_facts] == ["node(7)"]


# Components, inlining, macros, includes

COMPONENT = """.comp C<T> { .decl e(x: T) .decl p(x: T) overridable
  p(x) :- e(x). p(x) :- e(x), x > 3. all(x) :- p(x). }
.decl all(x: number)
.init a = C<number>
"""


def test_rules_of_instances_are_removed_by_their_full_names() -> None:
    text = ProgramText.read(COMPONENT + ".init b = C<number>")
    program = after(text, remove("a.p(y) :- a.e(y)."))
    assert sorted(map(shown, program.rules)) == [
        "a.p(v0) :- a.e(v0), v0 > 3",
        "all(v0) :- a.p(v0)",
        "all(v0) :- b.p(v0)",
        "b.p(v0) :- b.e(v0)",
        "b.p(v0) :- b.e(v0), v0 > 3",
    ]
    assert_same(
        after(text, remove("a.p(y) :- a.e(y)."), add("a.p(x) :- a.e(x).")), COMPONENT + ".init b = C<number>"
    )


def test_instances_and_derived_components_are_added() -> None:
    derived = ".comp D : C<number> { .override p p(x) :- e(x), x > 9. }\n.init d = D"
    assert_same(after(COMPONENT, add(derived)), COMPONENT + derived)
    program = after(COMPONENT, add(derived), remove("d.p(x) :- d.e(x), x > 9."))
    assert "d.p(v0) :- d.e(v0), v0 > 9" not in map(shown, program.rules)


def test_a_new_instance_states_the_rules_of_its_component_again() -> None:
    base = DECLS + ".comp C { node(x) :- edge(x, _). }\n.init a = C\n"
    gone = [remove("node(x) :- edge(x, _).")]
    assert_same(after(base, *gone), DECLS)
    assert_same(after(base, *gone, add(".init b = C")), DECLS + "node(x) :- edge(x, _).")


def test_rules_of_inlined_relations_come_and_go() -> None:
    base = DECLS + ".decl two(x: number, y: number) inline\ntwo(x, y) :- edge(x, z), edge(z, y).\n"
    use = "node(x) :- two(x, x)."
    other = "two(x, y) :- path(x, z), path(z, y)."
    assert_same(after(base + use, add(other)), base + use + other)
    assert_same(after(base + use, add(other), remove(other)), base + use)
    assert_same(after(base + use, remove("node(a) :- two(a, a).")), base)
    assert after(base + use, remove("two(x, y) :- edge(x, z), edge(z, y).")).rules == ()


def test_macros_reach_into_later_texts() -> None:
    base = "#define STEP(a, b) edge(a, b), \\\n  a < LIMIT\n" + DECLS + "path(x, y) :- STEP(x, y).\n"
    text = ProgramText.read(base, macros={"LIMIT": "9"})
    assert after(text, remove("path(x, y) :- STEP(x, y).")).rules == ()
    program = after(text, add("#define UP STEP(y, x)\nnode(x) :- STEP(x, 1)."), add("node(x) :- UP."))
    assert [shown(rule) for rule in program.rules[1:]] == [
        "node(v0) :- edge(v0, 1), v0 < 9",
        "node(v0) :- edge(v1, v0), v1 < 9",
    ]


def test_a_saved_text_needs_no_files(tmp_path: Path) -> None:
    directory, library = tmp_path / "program", tmp_path / "library"
    directory.mkdir()
    library.mkdir()
    (directory / "main.dl").write_text(
        '#define N 4\n.include "decls.dl"\n.include "decls.dl"\npath(x, N) :- SELF.\n'
    )
    (directory / "decls.dl").write_text('.once\n.include "comp.dl"\n' + DECLS)
    (directory / "comp.dl").write_text(COMPONENT)
    (library / "more.dl").write_text(".once\nnode(x) :- edge(x, N).\n")
    (directory / "beside.dl").write_text("node(x) :- path(x, N).\n")
    main = directory / "main.dl"
    text = ProgramText.read(main, include_dirs=[library], macros={"SELF": "edge(x, x)"})
    assert text.program == parse_program(main, macros={"SELF": "edge(x, x)"})
    more = text.edited([add('.include "more.dl"\n.include "more.dl"\n.include "beside.dl"', "more.dl")]).text
    assert [shown(rule) for rule in more.program.rules[-2:]] == [
        "node(v0) :- edge(v0, 4)",
        "node(v0) :- path(v0, 4)",
    ]
    less = more.edited([remove('.include "more.dl"'), add("a.p(1).")]).text
    texts = [text, more, less]
    written = [json.dumps(version.to_json()) for version in texts]
    shutil.rmtree(directory)
    shutil.rmtree(library)
    for version, one in zip(texts, written, strict=True):
        again = ProgramText.from_json(json.loads(one))
        assert again.program == version.program
        assert [rule.span for rule in again.program.rules] == [rule.span for rule in version.program.rules]
        assert again.edits == version.edits
        assert after(again, add("node(N).")).rules[-1] == after(version, add("node(N).")).rules[-1]
    assert [found.code for found in failure(saved(text), add('.include "more.dl"')).diagnostics] == ["E0006"]


def test_includes_of_edits_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "outside.dl").write_text("node(1).")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "main.dl").write_text(DECLS)
    text = ProgramText.read(inside / "main.dl")
    assert places(text, add('.include "../outside.dl"')) == [("E0007", "<added rules>:1:10")]
    assert places(BASE, add('.include "outside.dl"')) == [("E0007", "<added rules>:1:10")]
    assert places(text, add('\n.include "main.dl"')) == [("E0008", "<added rules>:2:10")]


def test_damaged_json() -> None:
    good = ProgramText.read(BASE).to_json()
    for bad in ({}, {**good, "format": 99}, {**good, "texts": [{"kind": "add"}]}, {**good, "macros": None}):
        with pytest.raises(GpuEngineError):
            ProgramText.from_json(bad)
    with pytest.raises(GpuEngineError, match="'add' or 'remove'"):
        Edit("replace", "")  # type: ignore[arg-type]


# Errors


def test_errors_of_all_edits_come_together_with_their_places() -> None:
    edits = [add('node(x) :- edg(x).\nnode("a").', "more.dl"), remove("node(x) :-"), add("node(y).")]
    assert places(BASE, *edits) == [
        ("E0101", "more.dl:1:12"),
        ("E0301", "more.dl:2:6"),
        ("E0001", "<removed rules>:1:11"),
        ("E0401", "<added rules>:1:6"),
    ]


GOLDEN_UNKNOWN = """\
error[E0601]: the program has no rule path(a, b) :- edge(b, a).
 --> old.dl:2:2
  |
2 |  path(a, b) :- edge(b, a).
  |  ^^^^^^^^^^^^^^^^^^^^^^^^^
  = note: near to it is path(x, y) :- edge(x, y). at base.dl:4:1
  = note: near to it is path(x, z) :- path(x, y), edge(y, z). at base.dl:5:1
  = hint: the literals and their order must be the same, the names of variables need not

error[E0601]: the program has no rule node(x), path(x, y) :- edge(x, y).
 --> old.dl:3:1
  |
3 | node(x), path(x, y) :-
  | ^
  = note: it stands for 2 rules, and 1 of them can't be found
  = hint: node has no rules

2 errors; nothing was evaluated"""


def test_golden_text_of_a_rule_that_is_not_there() -> None:
    removed = "path(x, z) :- path(x, y), edge(y, z).\n path(a, b) :- edge(b, a).\n"
    removed += "node(x), path(x, y) :-\n  edge(x, y)."
    assert str(failure(BASE, remove(removed, "old.dl"))) == GOLDEN_UNKNOWN


GOLDEN_CYCLE = """\
error[E0403]: node is defined through its own negation: node -> !path -> node
 --> <added rules>:2:25
  |
2 | node(x) :- edge(x, x), !path(x, x).
  |                         ^^^^^^^^^^
  = note: node reads !path at <added rules>:2:25
  = note: path reads node at <added rules>:1:15
  = hint: break the cycle: a relation can only negate or aggregate what is complete before it

1 error; nothing was evaluated"""


@pytest.mark.parametrize("extra", ["", "\n.decl more(x: number)"])
def test_golden_text_of_a_cycle_through_two_edits_of_one_name(extra: str) -> None:
    text = edit(BASE, add("path(x, y) :- node(x), node(y).")).text
    assert str(failure(text, add("\nnode(x) :- edge(x, x), !path(x, x)." + extra))) == GOLDEN_CYCLE


def test_declared_twice() -> None:
    error = failure(BASE, add("\n.decl edge(x: number)")).diagnostics[0]
    assert (error.code, str(error.span)) == ("E0102", "<added rules>:2:7")
    assert error.notes == ("first declared at base.dl:1:7",)


@pytest.mark.parametrize(
    "text",
    [
        ".decl more(x: number)",
        ".output edge",
        ".type T <: number",
        ".type R = [x: number]",
        ".comp C { }",
        ".init c = C",
        '.pragma "x"',
    ],
)
def test_only_rules_and_facts_are_removed(text: str) -> None:
    (error,) = failure(BASE, remove("edge(1, 2).\n" + text)).diagnostics
    assert (error.code, error.message, error.span.line) == ("E0001", "only rules and facts can be removed", 2)


def test_errors_in_removed_rules() -> None:
    assert places(BASE, remove("pth(x, y) :- edge(x, y). path(x) :- edge(x, x).")) == [
        ("E0101", "<removed rules>:1:1"),
        ("E0104", "<removed rules>:1:26"),
    ]
    assert places(
        BASE, remove("path(x, y) :- edge(x, y)."), remove("path(x, y) :- edge(x, y).", "again")
    ) == [("E0601", "again:1:1")]


# Random histories

POOL = [
    "path(x, y) :- edge(x, y).",
    "path(x, z) :- path(x, y), edge(y, z).",
    "node(x) :- edge(x, _).",
    "node(x) :- edge(_, x).",
    "node(n) :- n = count : { edge(_, _) }.",
    "path(x, x) :- node(x).",
    "edge(1, 2).",
    "edge(2, 3).",
]
Step = tuple[bool, frozenset[int], bool]
steps = st.lists(
    st.tuples(st.booleans(), st.frozensets(st.integers(0, len(POOL) - 1), max_size=3), st.booleans()),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(base=st.frozensets(st.integers(0, len(POOL) - 1)), history=steps, batches=st.booleans())
def test_a_history_is_its_set_of_rules(base: frozenset[int], history: Sequence[Step], batches: bool) -> None:
    present = set(base)
    declared = 0
    edits: list[Edit] = []
    for adds, rules, declares in history:
        if adds:
            new = f".decl extra{declared}(x: number)\n" if declares else ""
            declared += declares
            edits.append(add(new + "\n".join(POOL[number] for number in sorted(rules))))
            present |= rules
        else:
            edits.append(remove("\n".join(POOL[number] for number in sorted(rules & present))))
            present -= rules
    text = ProgramText.read(DECLS + "\n".join(POOL[number] for number in sorted(base)))
    for batch in [edits] if batches else [[one] for one in edits]:
        text = text.edited(batch).text
    expected = parse_program(DECLS + "".join(POOL[number] for number in present))
    assert set(map(shown, text.program.rules)) == set(map(shown, expected.rules))
    assert len(text.program.relations) == 3 + declared
    assert saved(text).program == text.program
