"""Wrong sizes are never silent."""

from bench.agreement import disagreements


def test_agreeing_engines_are_fine() -> None:
    assert disagreements({"p": 3}, {"a": {"p": 3}, "b": {"p": 3, "q": 9}}, ("p",)) == []


def test_a_wrong_size_is_named_even_when_all_engines_share_it() -> None:
    (problem,) = disagreements({"p": 3}, {"a": {"p": 4}, "b": {"p": 4}}, ("p",))
    assert problem == "p: a, b say 4; 3 is right"


def test_without_a_known_size_engines_are_compared_with_each_other() -> None:
    (problem,) = disagreements({}, {"a": {"p": 4}, "b": {"p": 5}, "c": {"p": 5}}, ("p",))
    assert problem == "p: engines disagree (a: 4; b, c: 5)"


def test_a_missing_relation_is_a_problem() -> None:
    assert disagreements({"p": 3}, {"a": {}}, ("p",)) == ["a gives no size for p"]
