"""Files of triples: against pyoxigraph, exact round trips, bad input of every kind."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path

import pyoxigraph
import pytest

import gpuengine as ge
from gpuengine.errors import DataError
from gpuengine.io.triples.lines import BadLine, read_line
from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.terms import RDF, Blank, Iri, Literal, Term, term_text, unescaped

XSD = "http://www.w3.org/2001/XMLSchema#"
ALPHABET = 'ab01 é\u4e2d\U0001f600"\\\n\r\t\x00\x01\x1f\x7f\x85.@^<>#_:'


def parse_term(text: str) -> Term:
    """The term of a text that is in canonical form."""
    if text.startswith("<"):
        return Iri(text[1:-1])
    if text.startswith("_:"):
        return Blank(text[2:])
    if text.endswith('"'):
        return Literal(unescaped(text[1:-1]))
    if text.endswith(">"):
        end = text.rindex('"^^<')
        return Literal(unescaped(text[1:end]), text[end + 4 : -1])
    end = text.rindex('"@')
    return Literal(unescaped(text[1:end]), f"{RDF}langString", text[end + 2 :])


def random_literal(draw: random.Random) -> Literal:
    lexical = "".join(draw.choices(ALPHABET, k=draw.randrange(12)))
    kind = draw.random()
    if kind < 0.3:
        return Literal(
            lexical, "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString", draw.choice(("en", "de-ch"))
        )
    return Literal(lexical, draw.choice((f"{XSD}string", f"{XSD}integer", "http://e/type")))


def random_term(draw: random.Random, *, literal: bool) -> Term:
    kind = draw.random()
    if literal and kind < 0.5:
        return random_literal(draw)
    if kind < 0.8:
        parts = draw.choices(("a", "b", "é", "中", "/", "?", "=", "&", "%20", ";"), k=draw.randrange(6))
        return Iri("http://e/" + "".join(parts) + draw.choice(("", "#", "#x")))
    return Blank(draw.choice(("b", "b0", "x.y", "a-b", "0z")))


def oxigraph(term: Term) -> object:
    if isinstance(term, Iri):
        return pyoxigraph.NamedNode(term.value)
    if isinstance(term, Blank):
        return pyoxigraph.BlankNode(term.label)
    if term.language:
        return pyoxigraph.Literal(term.lexical, language=term.language)
    return pyoxigraph.Literal(term.lexical, datatype=pyoxigraph.NamedNode(term.datatype))


def random_quads(seed: int, count: int = 60) -> list[tuple[Term, Term, Term, Term | None]]:
    draw = random.Random(seed)
    return [
        (
            random_term(draw, literal=False),
            Iri(f"http://e/p{draw.randrange(3)}"),
            random_term(draw, literal=True),
            Iri("http://e/g") if draw.random() < 0.3 else None,
        )
        for _ in range(count)
    ]


def texts(quads: list) -> set[tuple[str, ...]]:
    """Blank nodes by their labels in the document, whatever scope the engine gave them."""
    return {tuple(None if t is None else term_text(t) for t in quad) for quad in quads}


def loaded(path: Path, **options: str) -> set[tuple[str, ...]]:
    kb = RdfEngine()
    kb.load(path, **options)

    def plain(text: str) -> str:
        return re.sub(r"^_:f\d+\.", "_:", text)

    rows = {(*map(plain, row), None) for row in kb.triples()}
    return rows | {tuple(map(plain, row)) for row in kb.quads()}


def write_oxigraph(quads: list, form: object) -> bytes:
    made = [pyoxigraph.Quad(*(oxigraph(t) for t in quad if t is not None)) for quad in quads]
    if form in (pyoxigraph.RdfFormat.TURTLE, pyoxigraph.RdfFormat.N_TRIPLES, pyoxigraph.RdfFormat.RDF_XML):
        made = [quad.triple for quad in made]
    return pyoxigraph.serialize(made, format=form)


@pytest.mark.parametrize("seed", range(20))
def test_terms_have_one_text(seed: int) -> None:
    for quad in random_quads(seed):
        for term in filter(None, quad):
            assert parse_term(term_text(term)) == term


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("suffix", "form"),
    [
        ("nq", pyoxigraph.RdfFormat.N_QUADS),
        ("trig", pyoxigraph.RdfFormat.TRIG),
        ("nt", pyoxigraph.RdfFormat.N_TRIPLES),
        ("ttl", pyoxigraph.RdfFormat.TURTLE),
    ],
)
def test_documents_of_pyoxigraph(tmp_path: Path, seed: int, suffix: str, form: object) -> None:
    quads = random_quads(seed)
    if suffix in ("nt", "ttl"):
        quads = [(*quad[:3], None) for quad in quads]
    path = tmp_path / f"data.{suffix}"
    path.write_bytes(write_oxigraph(quads, form))
    assert loaded(path) == texts(quads)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("suffix", ["nq", "nq.gz", "nq.zst", "trig", "trig.gz"])
def test_what_is_written_is_read_again(tmp_path: Path, seed: int, suffix: str) -> None:
    quads = random_quads(seed)
    kb = RdfEngine()
    kb.load(quads)
    rows = kb.write(tmp_path / f"out.{suffix}")
    assert rows == len(texts(quads))
    assert loaded(tmp_path / f"out.{suffix}") == texts(quads)


def test_parquet_has_terms_and_graphs(tmp_path: Path) -> None:
    import pyarrow.parquet

    kb = RdfEngine()
    kb.load([("<http://a>", "<http://b>", '"c"'), ("<http://a>", "<http://b>", '"d"', "<http://g>")][:1])
    kb.load([("<http://a>", "<http://b>", '"d"', "<http://g>")])
    kb.write(tmp_path / "out.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["s", "p", "o", "g"]
    assert sorted(table.column("g").to_pylist(), key=str) == ["<http://g>", None]


SPELLINGS = [
    r'<http://a> <http://b> "tab\tand\u00e9\U0001F600\b\f\'" . # comment',
    "<http://a>\t<http://b>\t<http://c>.",
    '<http://a><http://b>"x"@EN-us.',
    "  _:a.b <http://b> _:c.  ",
    r"<http://a\u00e9> <http://b> <http://\U0001F600> .",
    f'<http://a> <http://b> "x"^^<{XSD}string> .',
    f'<http://a> <http://b> "\\n\\r\\"\\\\"^^<{XSD}token> .',
    "# only a comment",
    "",
    '<urn:x> <http://b> "" .',
]


def test_every_spelling_is_read_as_pyoxigraph_reads_it(tmp_path: Path) -> None:
    for end in ("\n", "\r\n", "\r"):
        path = tmp_path / "data.nt"
        path.write_bytes(end.join(SPELLINGS).encode())
        expected = {
            (*(_text(part) for part in (quad.subject, quad.predicate, quad.object)), None)
            for quad in pyoxigraph.parse(end.join(SPELLINGS), pyoxigraph.RdfFormat.N_TRIPLES)
        }
        assert loaded(path) == expected


def _text(term: object) -> str:
    if isinstance(term, pyoxigraph.NamedNode):
        return f"<{term.value}>"
    if isinstance(term, pyoxigraph.BlankNode):
        return f"_:{term.value}"
    language = term.language
    return term_text(Literal(term.value, term.datatype.value, language))


@pytest.mark.parametrize("seed", range(30))
def test_damaged_lines_are_refused_or_read_as_pyoxigraph_does(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        line = list(draw.choice(SPELLINGS[:7]))
        for _ in range(draw.randrange(1, 3)):
            at = draw.randrange(len(line))
            line[at : at + draw.randrange(2)] = draw.choice(
                ["", "<", ">", '"', "\\", " ", ".", "@", "_", ":", "\x01"]
            )
        text = "".join(line)
        try:
            expected = {
                (*(_text(part) for part in (quad.subject, quad.predicate, quad.object)), None)
                for quad in pyoxigraph.parse(text, pyoxigraph.RdfFormat.N_TRIPLES)
            }
        except (SyntaxError, AttributeError):
            expected = None
        path = tmp_path / "data.nt"
        path.write_text(text)
        try:
            found = loaded(path)
        except DataError:
            found = None
        if found is not None and expected is not None:
            assert found == expected, text
        # pyoxigraph knows more of IRIs and language tags than the grammar says: what it refuses may be read.
        assert found is not None or expected is None, text


BAD_LINES = {
    "<http://a> <http://b> <http://c>": (33, "full stop"),
    "<http://a> <http://b> .": (23, "expected an object"),
    '"x" <http://b> <http://c> .': (1, "expected a subject"),
    "<http://a> _:b <http://c> .": (12, "expected a predicate"),
    "<http://a> <http://b> <http://c> <http://g> .": (34, "no graphs"),
    "<http://a> <http://b\x01> <http://c> .": (21, "can't have the character"),
    "<http://a> <http://b> <http://c d> .": (32, "can't have the character ' '"),
    "<http://a> <b> <http://c> .": (12, "relative"),
    '<http://a> <http://b> "x\\q" .': (23, "no escape"),
    '<http://a> <http://b> "\\uD800" .': (23, "no character"),
    '<http://a> <http://b> "x .': (23, "never ends"),
    '<http://a> <http://b> "x"@ .': (26, "language tag"),
    '<http://a> <http://b> "x"^^xsd:int .': (28, "datatype"),
    "<http://a> <http://b> <http://c> . <http://d>": (35, "more after"),
    "<http://a> <http://b> <<( <http://a> <http://b> <http://c> )>> .": (23, "RDF 1.2"),
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_errors_name_line_and_column(tmp_path: Path, line: str) -> None:
    column, reason = BAD_LINES[line]
    with pytest.raises(BadLine, match=re.escape(reason)) as caught:
        read_line(line, with_graph=False)
    assert caught.value.column == column
    path = tmp_path / "data.nt"
    path.write_text(f"<http://a> <http://b> <http://c> .\n\n{line}\n<http://a> <http://b> <http://d> .\n")
    kb = ge.RdfEngine()
    with pytest.raises(DataError, match=re.escape(f"data.nt:3:{column}: ")):
        kb.load(path)
    assert len(kb) == 0
    assert kb.load(path, on_error="skip") == 2
    assert kb.found.rows == 1 and f"data.nt:3:{column}" in kb.found.first_errors[0]


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    good = b"<http://a> <http://b> <http://c> .\n"
    (tmp_path / "data.nt").write_bytes(good + b'<http://a> <http://b> "\xff" .\n' + good)
    with pytest.raises(DataError, match=r"data.nt:2:24: this is not UTF-8"):
        RdfEngine().load(tmp_path / "data.nt")
    kb = RdfEngine()
    assert kb.load(tmp_path / "data.nt", on_error="skip") == 2 and kb.found.rows == 1


XML = '<?xml version="1.0"?>{}<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
XML += '<rdf:Description rdf:about="http://a"><e:p>{}</e:p></rdf:Description></rdf:RDF>'
BROKEN = {
    "cut.ttl": (b'@prefix : <http://e/> .\n:a :b "x', r"cut.ttl:2:\d+"),
    "prefix.ttl": (b":a :b :c .", r"prefix.ttl:1:\d+"),
    "cut.trig": (b"<http://g> { <http://a> <http://b> ", r"cut.trig:1:\d+"),
    "cut.rdf": (XML.format("", "x")[:-20].encode(), r"cut.rdf:1:\d+"),
    "prefix.rdf": (b"<?xml version='1.0'?>\n<rdf:RDF></rdf:RDF>", r"prefix.rdf:2:1: Unknown prefix"),
    "place.ttl": (b"<http://a> <http://b> ;", r"place.ttl:1:\d+: (?!Parser error)"),
    "cut.jsonld": (b'{"@id": "http://a", ', "cut.jsonld"),
    "graph.nq": (b'<http://a> <http://b> <http://c> "g" .', r"graph.nq:1:34"),
    "what.txt": (b"", "the name does not tell"),
    "damaged.nt.gz": (gzip.compress(b"<http://a> <http://b> <http://c> .\n" * 100)[:-10], "damaged"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_by_name_and_place(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        RdfEngine().load(tmp_path / name)


def test_other_documents_are_never_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    external = f'<!DOCTYPE r [<!ENTITY x SYSTEM "{(tmp_path / "secret").as_uri()}">]>'
    (tmp_path / "external.rdf").write_text(XML.format(external, "&x;"))
    with pytest.raises(DataError, match="external entity"):
        RdfEngine().load(tmp_path / "external.rdf")
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "lol"}">' for i in range(10))
    (tmp_path / "laughs.rdf").write_text(XML.format(f"<!DOCTYPE r [{laughs}]>", "&l9;"))
    with pytest.raises(DataError, match="entity of other entities"):
        RdfEngine().load(tmp_path / "laughs.rdf")
    (tmp_path / "late.rdf").write_text(XML.format(f"<!--{'x' * 200_000}--><!DOCTYPE r [{laughs}]>", "&l9;"))
    with pytest.raises(DataError, match="entity of other entities"):
        RdfEngine().load(tmp_path / "late.rdf")
    unknown = XML.replace('"1.0"', '"1.0" encoding="none"', 1).format(f"<!DOCTYPE r [{laughs}]>", "&l9;")
    (tmp_path / "unknown.rdf").write_text(unknown)
    with pytest.raises(DataError, match=r"unknown.rdf: unknown encoding"):
        RdfEngine().load(tmp_path / "unknown.rdf")
    (tmp_path / "plain.rdf").write_text(XML.format('<!DOCTYPE r [<!ENTITY e "http://e/">]>', "&e;x"))
    assert loaded(tmp_path / "plain.rdf") == {("<http://a>", "<http://e/p>", '"http://e/x"', None)}
    (tmp_path / "remote.jsonld").write_text(
        '{"@context": "http://127.0.0.1:9/c", "@id": "http://a", "p": "x"}'
    )
    with pytest.raises(DataError, match=r"remote.jsonld: it names a context elsewhere"):
        RdfEngine().load(tmp_path / "remote.jsonld")


def test_huge_literals_and_deep_nesting(tmp_path: Path) -> None:
    size = 100_000_000
    with (tmp_path / "huge.nt").open("wb") as file:
        file.write(b'<http://a> <http://b> "' + b"x" * size + b'" .\n<http://a> <http://b> <http://c> .\n')
    kb = RdfEngine()
    assert kb.load(tmp_path / "huge.nt") == 2
    lengths = sorted(len(row[2]) for row in kb.triples())
    assert lengths == [len("<http://c>"), size + 2]
    depth = 20_000
    (tmp_path / "deep.ttl").write_text(
        "<http://a> <http://b> " + "[ <http://b> " * depth + "1" + "]" * depth + " ."
    )
    assert len(loaded(tmp_path / "deep.ttl")) == depth + 1
    kb = RdfEngine()
    with pytest.raises(ge.GpuEngineError, match="nested too deeply"), kb.update() as update:
        update.add_rules("<http://a>[?x] :- <http://b>[?x], FILTER(" + "(" * 500 + "1" + ")" * 500 + ") .")


def test_folders_globs_and_scopes_of_blank_nodes(tmp_path: Path) -> None:
    for name in ("a.nt", "b.nt", "c.ttl"):
        (tmp_path / name).write_text("_:x <http://b> <http://c> .\n")
    (tmp_path / "notes.txt").write_text("not RDF")
    kb = RdfEngine()
    kb.load(tmp_path)
    assert len(kb) == 3
    kb = RdfEngine()
    kb.load(tmp_path / "*.nt")
    kb.load(tmp_path / "a.nt")
    assert len(kb) == 3
    with pytest.raises(DataError, match="no file matches"):
        kb.load(tmp_path / "*.nq")


def test_blocks_are_cut_between_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuengine.io.triples import read

    lines = [f'<http://e/{i}> <http://e/p> "{"é" * (i % 50)}" .\n' for i in range(500)]
    (tmp_path / "data.nt").write_text("".join(lines).rstrip("\n"))
    expected = loaded(tmp_path / "data.nt")
    assert len(expected) == 500
    for size in (7, 64, 1000):
        monkeypatch.setattr(read, "_BLOCK", size)
        assert loaded(tmp_path / "data.nt") == expected


@pytest.mark.parametrize("piece", [1, 3, 1000])
@pytest.mark.parametrize("threads", [1, 2])
def test_lines_are_counted_over_blocks_and_pieces_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, threads: int
) -> None:
    from gpuengine.io.triples import read

    # Carriage returns end lines of their own, but only line feeds are counted.
    kinds = ("<http://e/{}> <http://e/p> <http://e/o> .\n", "# no {}\n", "\n", "<http://e/{}> bad\r\n")
    file = tmp_path / "data.nt"
    file.write_bytes("".join(kinds[i % 4].format(i) for i in range(200)).encode())
    monkeypatch.setattr(read, "_PIECE", piece)
    monkeypatch.setattr(read, "_BLOCK", 500)
    kb = RdfEngine(threads=threads)
    assert kb.load(file, on_error="skip") == 50 and kb.found.rows == 50
    assert [error.split(": ")[0] for error in kb.found.first_errors[:3]] == [
        f"{file}:{line}:{len(f'<http://e/{line - 1}> ') + 1}" for line in (4, 8, 12)
    ]
    assert {row[0] for row in kb.triples()} == {f"<http://e/{i}>" for i in range(0, 200, 4)}
    file.write_bytes("".join(kinds[i % 3].format(i) for i in range(199)).encode() + b"last")
    with pytest.raises(DataError, match=r"data\.nt:200:1: expected a subject"):
        RdfEngine(threads=threads).load(file)


def test_a_program_reads_triples(tmp_path: Path) -> None:
    (tmp_path / "data.ttl").write_text("@prefix : <http://e/> . :a :p :b . :b :p :c . :c :q 1 .")
    (tmp_path / "more.nq").write_text("<http://e/c> <http://e/p> <http://e/d> <http://e/g> .\n")
    program = """
        .decl t(s: symbol, p: symbol, o: symbol)
        .decl r(x: symbol, y: symbol)
        .input t(IO=rdf, filename="data.ttl")
        r(x, y) :- t(x, "<http://e/p>", y).
        r(x, z) :- r(x, y), r(y, z).
    """
    kb = ge.Engine(program)
    kb.load("t", tmp_path / "data.ttl", params={"IO": "rdf"})
    kb.materialise()
    assert ("<http://e/a>", "<http://e/c>") in set(kb["r"]) and len(kb["r"]) == 3
    quads = ge.Engine(".decl q(s: symbol, p: symbol, o: symbol, g: symbol)")
    quads.load("q", tmp_path / "more.nq")
    assert next(iter(quads["q"]))[3] == "<http://e/g>"
    with pytest.raises(DataError, match="3 columns"):
        ge.Engine(".decl t(s: symbol)").load("t", tmp_path / "data.ttl")
    with pytest.raises(DataError, match="symbol"):
        ge.Engine(".decl t(s: symbol, p: symbol, o: number)").load("t", tmp_path / "data.ttl")
