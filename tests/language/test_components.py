"""Components: instances, nesting, inheritance, overriding, type parameters."""

from __future__ import annotations

from gpuengine.language import parse_program
from tests.language.rendering import codes_of, diagnostics, render, rules


def test_an_instance_has_relations_of_its_own() -> None:
    text = """
    .decl edge(x: number, y: number)
    .comp Reach { .decl r(x: number, y: number)
      r(x, y) :- edge(x, y). r(x, z) :- r(x, y), edge(y, z). .output r(IO=stdout) }
    .init one = Reach
    .init two = Reach
    edge(x, y) :- one.r(x, y), !two.r(y, x).
    """.replace("!two.r(y, x)", "two.r(y, x)")
    program = parse_program(text)
    assert list(program.relations) == ["edge", "one.r", "two.r"]
    assert [render(rule) for rule in program.rules] == [
        "edge(x, y) :- one.r(x, y), two.r(y, x)",
        "one.r(x, y) :- edge(x, y)",
        "one.r(x, z) :- one.r(x, y), edge(y, z)",
        "two.r(x, y) :- edge(x, y)",
        "two.r(x, z) :- two.r(x, y), edge(y, z)",
    ]
    assert [(found.relation, dict(found.params)) for found in program.directives] == [
        ("one.r", {"IO": "stdout"}),
        ("two.r", {"IO": "stdout"}),
    ]


def test_rules_of_a_component_may_fill_outer_relations() -> None:
    assert rules(".decl out(x: number)\n.comp C { .decl p(x: number) out(x) :- p(x). }\n.init c = C") == [
        "out(x) :- c.p(x)"
    ]


def test_type_parameters() -> None:
    program = parse_program(
        ".comp Pair<A, B> { .decl p(x: A, y: B) }\n.type S <: symbol\n"
        ".init n = Pair<number, S>\n.init f = Pair<float, float>"
    )
    found = {name: [a.type.name for a in relation.attributes] for name, relation in program.relations.items()}
    assert found == {"n.p": ["number", "S"], "f.p": ["float", "float"]}


def test_types_of_a_component_belong_to_the_instance() -> None:
    program = parse_program(
        """.comp C { .type T = [x: number] .type D = B { y: T } .decl p(x: T, d: D) p([1], $B([2])). }
        .init c = C
        .decl q(x: c.T) q(x) :- c.p(x, $c.B(_))."""
    )
    assert set(program.records) == {"c.T"} and set(program.adts) == {"c.D"}
    assert render(program.rules[0]) == "q(x) :- c.p(x, @2), @2 = $c.B(@1)"
    assert render(program.rules[1]) == "c.p(@1, @2) :- @1 = [1], @2 = $c.B([2])"


def test_nested_components_and_instances() -> None:
    text = """
    .comp Outer { .decl p(x: number)
      .comp Inner { .decl q(x: number) q(x) :- p(x). }
      .init i = Inner
      p(x) :- i.q(x). }
    .init o = Outer
    .decl r(x: number) r(x) :- o.i.q(x).
    """
    assert rules(text) == ["r(x) :- o.i.q(x)", "o.p(x) :- o.i.q(x)", "o.i.q(x) :- o.p(x)"]


def test_inheritance_and_override() -> None:
    text = """
    .decl in(x: number)
    .comp Base { .decl p(x: number) overridable .decl q(x: number) p(1) :- in(1). q(x), p(x) :- in(x). }
    .comp Middle : Base { p(2) :- in(2). }
    .comp Derived : Middle { .override p p(3) :- in(3). }
    .init b = Base
    .init d = Derived
    """
    assert rules(text) == [
        "b.p(1) :- in(1)",
        "b.q(x) :- in(x)",
        "b.p(x) :- in(x)",
        "d.q(x) :- in(x)",
        "d.p(3) :- in(3)",
    ]


def test_several_bases_and_parameters_handed_on() -> None:
    program = parse_program(
        ".comp A<T> { .decl a(x: T) } .comp B<T> { .decl b(x: T) }\n"
        ".comp C<X, Y> : A<X>, B<Y> { a(x) :- b(x). }\n.init c = C<number, number>"
    )
    assert list(program.relations) == ["c.a", "c.b"]
    assert [render(rule) for rule in program.rules] == ["c.a(x) :- c.b(x)"]


def test_a_component_as_a_parameter() -> None:
    text = """
    .decl in(x: number)
    .comp One { .decl p(x: number) p(1) :- in(1). } .comp Two { .decl p(x: number) p(2) :- in(2). }
    .comp Use<K> { .init k = K .decl q(x: number) q(x) :- k.p(x). }
    .comp Is<K> : K { }
    .init a = Use<One>
    .init b = Is<Two>
    """
    assert rules(text) == ["a.q(x) :- a.k.p(x)", "a.k.p(1) :- in(1)", "b.p(2) :- in(2)"]


def test_a_parameter_may_name_a_component_of_the_user() -> None:
    text = """
    .decl in(x: number)
    .comp Top<C> { .comp One { .decl p(x: number) p(1) :- in(1). } .init select = C }
    .init t = Top<One>
    """
    assert rules(text) == ["t.select.p(1) :- in(1)"]


def test_parameters_of_the_same_name_at_each_level() -> None:
    text = """
    .decl in(x: number)
    .comp A { .decl x(s: number) x(1) :- in(1). }
    .comp Top<Z> { .comp Foo<Z> : Bar<Z> { } .comp Bar<Q> { .init X = Q .output X.x() } .init foo = Foo<Z> }
    .init top = Top<A>
    """
    assert rules(text) == ["top.foo.X.x(1) :- in(1)"]
    assert [found.relation for found in parse_program(text).directives] == ["top.foo.X.x"]


def test_wrong_components() -> None:
    assert codes_of(".init a = Nowhere") == ["E0201"]
    assert codes_of(".comp A : Nowhere { }\n.init a = A") == ["E0201"]
    assert codes_of(".comp A<T> { .decl p(x: T) }\n.init a = A\n.decl q(x: number) q(x) :- a.p(x).") == [
        "E0202"
    ]
    assert codes_of(".comp A { .init a = A }\n.init a = A") == ["E0204"]
    assert codes_of(".comp A : A { }\n.init a = A") == ["E0204"]
    assert codes_of(".comp A { } .comp A { }") == ["E0102"]
    assert codes_of(".comp A { }\n.init a = A\n.init a = A") == ["E0102"]


def test_wrong_overrides() -> None:
    base = ".comp A { .decl p(x: number) }\n"
    assert codes_of(base + ".comp B : A { .override p p(1). }\n.init b = B") == ["E0203"]
    assert codes_of(base + ".comp B : A { .override q }\n.init b = B") == ["E0203"]
    assert codes_of(".override p") == ["E0203"]


def test_an_explosion_of_instances_is_stopped() -> None:
    levels = "".join(f".comp C{n} {{ .init a = C{n - 1} .init b = C{n - 1} }}\n" for n in range(1, 40))
    assert "E0204" in codes_of(".comp C0 { .decl p(x: number) }\n" + levels + ".init c = C39")


def test_errors_inside_a_component_are_shown_once() -> None:
    found = diagnostics(".comp A { .decl p(x: number) p(y) :- p(x). }\n.init a = A\n.init b = A")
    assert [(error.code, error.span.line, error.span.column) for error in found] == [("E0401", 1, 32)]
