"""Records and ADT values: packing, unpacking, and their text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.errors import DataError
from gpuengine.language.program import (
    FLOAT,
    NUMBER,
    SYMBOL,
    UNSIGNED,
    AdtType,
    Attribute,
    Branch,
    Constant,
    Kind,
    Pack,
    Program,
    RecordType,
    Type,
    Variable,
)
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.functors import evaluate

LIST = Type("List", Kind.RECORD, "List")
MIXED = Type("Mixed", Kind.RECORD, "Mixed")
TREE = Type("Tree", Kind.ADT, "Tree")


def fields(*types: Type) -> tuple[Attribute, ...]:
    return tuple(Attribute(f"f{i}", type_) for i, type_ in enumerate(types))


PROGRAM = Program(
    relations={},
    rules=(),
    directives=(),
    records={
        "List": RecordType(LIST, fields(NUMBER, LIST)),
        "Mixed": RecordType(MIXED, fields(SYMBOL, UNSIGNED, FLOAT, TREE)),
    },
    adts={
        "Tree": AdtType(
            TREE,
            (
                Branch("Leaf", ()),
                Branch("Node", fields(TREE, SYMBOL, TREE)),
                Branch("Bag", fields(LIST)),
                Branch("Num", fields(NUMBER)),
            ),
        )
    },
    pragmas=(),
)

lists = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(
    lambda values: "".join(f"[{v}, " for v in values) + "nil" + "]" * len(values)
)
names = st.text(
    st.characters(exclude_characters=',()[]" \n\t\r', exclude_categories=["Cs", "Z", "C"]), max_size=4
)
trees = st.recursive(
    st.one_of(
        st.just("$Leaf"), lists.map(lambda v: f"$Bag({v})"), st.integers(-5, 5).map(lambda v: f"$Num({v})")
    ),
    lambda inner: st.tuples(inner, names, inner).map(lambda t: f"$Node({t[0]}, {t[1]}, {t[2]})"),
    max_leaves=6,
)


def printed(dictionary: Dictionary, type_: Type, ids: np.ndarray) -> list[str]:
    return dictionary.to_arrow(type_, ids).to_pylist()


@pytest.mark.parametrize(("type_", "texts"), [(LIST, lists), (TREE, trees)], ids=["List", "Tree"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_text_round_trips(type_: Type, texts: Any, data: st.DataObject) -> None:
    dictionary = Dictionary(PROGRAM)
    values = data.draw(st.lists(texts, max_size=12))
    found = dictionary.find(type_.space, values)[1]
    assert found.tolist() == [value == "nil" for value in values]
    ids = dictionary.encode(type_.space, values)
    assert printed(dictionary, type_, ids) == values
    assert len(set(ids.tolist())) == len(set(values))
    again, found = dictionary.find(type_.space, pa.chunked_array([values, values], pa.string()))
    assert found.all() and again.tolist() == ids.tolist() * 2


def test_text_of_all_leaf_types() -> None:
    dictionary = Dictionary(PROGRAM)
    ids = dictionary.encode(
        "Mixed", ['[ "a \\"b\\", c" ,18446744073709551615, 0.1,$Leaf ]', "nil", "[x y,3,-1e300,$Num(7)]"]
    )
    assert printed(dictionary, MIXED, ids) == [
        '["a \\"b\\", c", 18446744073709551615, 0.10000000000000001, $Leaf]',
        "nil",
        "[x y, 3, -1.0000000000000001e+300, $Num(7)]",
    ]


def test_escapes_survive_running_out_of_room() -> None:
    """The tables for nodes grow in the middle of a row; its escapes are read again from the start."""
    dictionary = Dictionary(PROGRAM)
    deep = '$Node($Leaf, "q\\"\\\\r", ' * 40 + "$Leaf" + ")" * 40
    ids = dictionary.encode("Tree", [deep])
    assert printed(dictionary, TREE, ids) == [deep]
    assert dictionary.strings(np.zeros(1, np.uint32)).to_pylist() == ['q"\\r']


def test_equal_values_written_differently_are_one_term() -> None:
    ids = Dictionary(PROGRAM).encode("List", ["[1, nil]", " [ +1 ,  nil ] ", "[1,[2,nil]]", "[1,nil]"])
    assert ids[0] == ids[1] == ids[3] != ids[2] and 0 not in ids


def test_values_nest_deeply() -> None:
    depth = 1500
    text = "".join(f"[{i}, " for i in range(depth)) + "nil" + "]" * depth
    dictionary = Dictionary(PROGRAM)
    ids = dictionary.encode("List", [text, "nil"])
    assert printed(dictionary, LIST, ids) == [text, "nil"]
    assert dictionary.bound("List") == depth + 1


def test_pack_and_unpack_records() -> None:
    dictionary = Dictionary(PROGRAM)
    nil = dictionary.intern_constant(Constant(None, LIST))
    assert nil == 0 == dictionary.find_constant(Constant(None, LIST))
    heads = dictionary.encode("number", np.array([7, -7, 7]))
    ids = dictionary.pack("List", None, [heads, np.zeros(3, np.uint32)])
    assert ids.tolist() == [1, 2, 1]
    tags, columns = dictionary.unpack("List", np.array([2, 0, 1], np.uint32))
    assert tags.tolist() == [1, 0, 1]
    assert dictionary.values("number", columns[0][[0, 2]]).tolist() == [-7, 7]
    assert columns[0][1] == 0 and columns[1].tolist() == [0, 0, 0]
    found, known = dictionary.find_pack("List", None, [heads[:2], np.array([0, 1], np.uint32)])
    assert known.tolist() == [True, False] and found[0] == 1
    assert dictionary.bound("List") == 3


def test_pack_and_unpack_adt_values() -> None:
    dictionary = Dictionary(PROGRAM)
    leaf = dictionary.pack("Tree", "Leaf", [], 2)
    assert leaf.tolist() == [0, 0]
    name = dictionary.encode("symbol", ["n", "m"])
    nodes = dictionary.pack("Tree", "Node", [leaf, name, leaf])
    number = dictionary.pack("Tree", "Num", [np.array([0], np.uint32)])
    assert len({*leaf.tolist(), *nodes.tolist(), *number.tolist()}) == 4
    tags, columns = dictionary.unpack("Tree", np.concatenate([nodes, leaf, number]))
    assert tags.tolist() == [1, 1, 0, 0, 3] and len(columns) == 3
    assert columns[1].tolist() == [*name.tolist(), 0, 0, 0]
    assert all(column.flags.c_contiguous for column in (tags, *columns))  # kernels read them by address
    assert printed(dictionary, TREE, nodes) == ["$Node($Leaf, n, $Leaf)", "$Node($Leaf, m, $Leaf)"]


def test_evaluating_a_constructor() -> None:
    dictionary = Dictionary(PROGRAM)
    x = Variable("x", NUMBER)
    nil = Constant(None, LIST)
    term = Pack(LIST, None, (x, Pack(LIST, None, (Constant(2, NUMBER), nil))))
    ids = evaluate(term, {x: dictionary.encode("number", np.array([1, 2**40]))}, 2, dictionary)
    assert printed(dictionary, LIST, ids) == ["[1, [2, nil]]", f"[{2**40}, [2, nil]]"]
    leaves = evaluate(Pack(TREE, "Leaf", ()), {}, 3, dictionary)
    assert printed(dictionary, TREE, leaves) == ["$Leaf"] * 3


@pytest.mark.parametrize(
    ("space", "text", "message"),
    [
        ("List", "[1, nil", "expected ']' at character 8"),
        ("List", "[1 nil]", "expected ',' at character 4"),
        ("List", "[x, nil]", "expected a value of type number at character 2"),
        ("List", "[9223372036854775808, nil]", "expected a value of type number at character 2"),
        ("List", "[12x, nil]", "expected a value of type number at character 2"),
        ("List", "[ , nil]", "expected a number at character 3"),
        ("List", "[1, [2, [x, nil]]]", "expected a value of type number at character 10"),
        ("List", "", r"expected '\[' at character 1"),
        ("List", "nil nil", "expected nothing more at character 5"),
        ("Tree", "$Twig", r"expected a branch: \$Leaf, \$Node, \$Bag, \$Num at character 2"),
        ("Tree", "$Num", r"expected '\(' at character 5"),
        ("Tree", "$Node($Leaf, abc", r"expected '\)'"),
        ("Mixed", '["abc, 1, 1.0, $Leaf]', 'expected a closing "'),
        ("Mixed", "[ä, -1, 1.0, $Leaf]", "expected a value of type unsigned at character 5"),
        ("Mixed", "[ä, 1, 1.0.0, $Leaf]", "expected a value of type float at character 8"),
    ],
)
def test_broken_text_is_refused_with_row_and_place(space: str, text: str, message: str) -> None:
    dictionary = Dictionary(PROGRAM)
    good = {"List": "nil", "Tree": "$Leaf", "Mixed": "nil"}[space]
    with pytest.raises(DataError, match=message) as caught:
        dictionary.encode(space, [good, good, text])
    assert str(caught.value).startswith(f"row 3: {text!r}")
    assert dictionary.bound("number") == dictionary.bound("unsigned") and dictionary.bound("symbol") == 0


def test_the_first_broken_row_is_named_whatever_is_wrong_with_it() -> None:
    dictionary = Dictionary(PROGRAM)
    with pytest.raises(DataError, match=r"^row 2: '\[x, nil\]'"):
        dictionary.encode("List", ["nil", "[x, nil]", "[1"])
    with pytest.raises(DataError, match=r"^row 2: '\[x, \[y, nil\]\]' .* at character 2$"):
        dictionary.encode("List", ["nil", "[x, [y, nil]]", "[z, nil]"])
    assert dictionary.bound("List") == 1


def test_bad_values() -> None:
    dictionary = Dictionary(PROGRAM)
    texts = ["[1, nil]", "[x, nil]", "[1", "nil", '$Num("', "[1, [2, [y, nil]]]"]
    number = "is not a value of type List: expected a value of type number at character"
    expected = {
        1: f"{number} 2",
        2: "is not a value of type List: expected ']' at character 3",
        4: "is not a value of type List: expected '[' at character 1",
        5: f"{number} 10",
    }
    for values in (texts, pa.chunked_array([texts[:2], [], texts[2:]], pa.string())):
        bad = dictionary.bad_values("List", values)
        assert (bad, list(bad)) == (expected, [1, 2, 4, 5])
        assert dictionary.bad_values("List", values, first_only=True) == {1: expected[1]}
    assert dictionary.bad_values("List", ["nil", "[1, nil]"]) == {} == dictionary.bad_values("List", [])
    assert dictionary.bound("List") == 1


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(trees, st.integers(0, 30), st.sampled_from(["", "x", ",", "(", ")", "[", "]", '"', "$"])),
        max_size=8,
    )
)
def test_bad_values_are_those_that_encode_refuses(drawn: list[tuple[str, int, str]]) -> None:
    texts = [text[:cut] + mark + text[cut:] for text, cut, mark in drawn]
    refused = {}
    for row, text in enumerate(texts):
        try:
            Dictionary(PROGRAM).encode("Tree", [text])
        except DataError as error:
            refused[row] = str(error).removeprefix(f"row 1: {text!r} ")
    dictionary = Dictionary(PROGRAM)
    bad = dictionary.bad_values("Tree", texts)
    assert bad == refused and list(bad) == sorted(bad)
    first = min(refused, default=None)
    found = dictionary.bad_values("Tree", texts, first_only=True)
    assert found == ({} if first is None else {first: refused[first]})
    good = [text for row, text in enumerate(texts) if row not in bad]
    assert len(dictionary.encode("Tree", good)) == len(good)
