"""What every part of a SPARQL text is read by: tokens, names, terms without variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from gpuengine.errors import ProgramErrors
from gpuengine.language.diagnostics import nearest
from gpuengine.rdf.expressions import resolved
from gpuengine.rdf.rules import Variable
from gpuengine.rdf.sparql import codes
from gpuengine.rdf.sparql.algebra import (
    HIDDEN,
    Aggregation,
    Exists,
)
from gpuengine.rdf.sparql.lexer import Source, Token, tokens
from gpuengine.rdf.terms import OWL, RDF, RDFS, XSD, literal_text, unescaped

DEEPEST = 100
"""Groups, brackets and operators inside of each other."""

PREFIXES = (("rdf", RDF), ("rdfs", RDFS), ("owl", OWL), ("xsd", XSD))
"""Those that need no declaration."""


class Reader:
    """A place among the tokens of a text, and what the text has declared so far."""

    def __init__(self, source: Source, base: str | None, prefixes: Sequence[tuple[str, str]]) -> None:
        self.source = source
        self.tokens = tokens(source)
        self.place = 0
        self.depth = 0
        self.base = base
        self.prefixes = dict((*PREFIXES, *prefixes))
        self.fresh = 0
        self.exists: list[Exists] = []
        self.aggregations: list[Aggregation] | None = None
        self.aggregating = False
        self.in_template = False
        self.group_number = 0
        self.labels: dict[str, int] = {}

    # Tokens

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        token = self.tokens[self.place]
        if token.kind != "end":
            self.place += 1
        return token

    def at(self, *marks: str) -> bool:
        token = self.next
        return token.kind == "mark" and token.text in marks

    def at_word(self, *words: str) -> bool:
        token = self.next
        return token.kind == "word" and token.text.upper() in words

    def accept(self, mark: str) -> bool:
        if self.at(mark):
            self.place += 1
            return True
        return False

    def accept_word(self, *words: str) -> str | None:
        if self.at_word(*words):
            return self.take().text.upper()
        return None

    def expect(self, mark: str, why: str = "") -> Token:
        if not self.at(mark):
            raise self.unexpected(f"'{mark}'{why}")
        return self.take()

    def expect_word(self, *words: str) -> str:
        word = self.accept_word(*words)
        if word is None:
            raise self.unexpected(" or ".join(words), words)
        return word

    def unexpected(self, expected: str, words: Sequence[str] = ()) -> ProgramErrors:
        token = self.next
        actual = "the end of the text" if token.kind == "end" else f"'{_shortened(token.text)}'"
        hint = nearest(token.text.upper(), words, "word") if token.kind == "word" and words else None
        return self.source.error(
            codes.SYNTAX, f"expected {expected}, found {actual}", token.start, token.end, hint
        )

    def wrong(self, code: str, message: str, token: Token, hint: str | None = None) -> ProgramErrors:
        return self.source.error(code, message, token.start, token.end, hint)

    def unsupported(self, token: Token, hint: str | None = None) -> ProgramErrors:
        return self.wrong(codes.UNSUPPORTED, f"{token.text.upper()} is not supported", token, hint)

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > DEEPEST:
            message = f"nested more than {DEEPEST} deep"
            raise self.wrong(codes.NESTED, message, self.next, "split the query, or use VALUES or IN")
        try:
            yield
        finally:
            self.depth -= 1

    def hidden(self) -> Variable:
        self.fresh += 1
        return Variable(f"{HIDDEN}{self.fresh}")

    def prologue(self) -> None:
        while True:
            if self.accept_word("BASE"):
                self.base = self.iri_reference()
            elif self.accept_word("PREFIX"):
                token = self.take()
                if token.kind != "name" or not token.text.endswith(":"):
                    self.place -= 1
                    raise self.unexpected("a prefix with its colon")
                self.prefixes[token.text[:-1]] = self.iri_reference()
            else:
                return

    def variable(self) -> Variable:
        token = self.next
        if token.kind != "variable":
            raise self.unexpected("a variable")
        self.place += 1
        return Variable(token.text[1:])

    def iri(self) -> str:
        """The text of an IRI or of a name with a prefix."""
        token = self.next
        if token.kind == "iri":
            return f"<{self.iri_reference()}>"
        if token.kind != "name":
            raise self.unexpected("an IRI or a name with a prefix")
        self.place += 1
        prefix, _, local = token.text.partition(":")
        if prefix not in self.prefixes:
            hint = nearest(prefix, self.prefixes, "prefix") or f"declare it: PREFIX {prefix}: <http://…>"
            raise self.wrong(codes.PREFIX, f"the prefix '{prefix}:' is not declared", token, hint)
        return f"<{self.prefixes[prefix]}{_without_backslashes(local)}>"

    def iri_reference(self) -> str:
        token = self.next
        if token.kind != "iri":
            raise self.unexpected("an IRI in angle brackets")
        self.place += 1
        text = self.unescaped(token, 1)
        try:
            relative = not urlsplit(text).scheme
        except ValueError:
            raise self.wrong(codes.IRI, f"{token.text} is no IRI", token) from None
        if relative:
            if self.base is None:
                raise self.wrong(
                    codes.IRI, f"{token.text} is relative", token, "write it in full, or say BASE"
                )
            text = resolved(self.base, text)
        if any(character in '<>"{}|^`\\' or character <= " " for character in text):
            raise self.wrong(codes.IRI, f"{token.text} is no IRI", token)
        return text

    def unescaped(self, token: Token, width: int | None = None) -> str:
        """The characters between the quotation marks, or brackets, of a token."""
        width = width or (3 if token.kind == "long" else 1)
        try:
            return unescaped(token.text[width:-width])
        except ValueError as error:
            raise self.wrong(codes.CHARACTER, str(error), token) from None

    def constant(self) -> str:
        """The text of an IRI or literal."""
        token = self.next
        if token.kind in ("iri", "name"):
            return self.iri()
        if token.kind in ("string", "long"):
            self.place += 1
            lexical = self.unescaped(token)
            if self.next.kind == "language":
                return literal_text(lexical, language=self.take().text[1:])
            if self.accept("^^"):
                return literal_text(lexical, self.iri()[1:-1])
            return literal_text(lexical)
        sign = ""
        if self.at("+", "-") and self.tokens[self.place + 1].kind in ("integer", "decimal", "double"):
            sign = self.take().text
            token = self.next
        if token.kind in ("integer", "decimal", "double"):
            self.place += 1
            return literal_text(sign + token.text, f"{XSD}{token.kind}")
        word = self.accept_word("TRUE", "FALSE")
        if word:
            return literal_text(word.lower(), f"{XSD}boolean")
        raise self.unexpected("a term: a variable, an IRI, a literal or a blank node")


def _without_backslashes(local: str) -> str:
    parts = local.split("\\")
    return "".join(parts)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"
