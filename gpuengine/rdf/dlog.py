"""Rules in RDFox's syntax to `Rule`s: every error at once, each with its place and a hint.

    PREFIX : <http://example.org/>
    :Parent[?x], [?y, :childOf, ?x] :- :parentOf[?x, ?y], NOT :Robot[?y] .
    [?x, :children, ?n] :- AGGREGATE(:parentOf[?x, ?y] ON ?x BIND(COUNT(?y) AS ?n)) .

A triple is ``[s, p, o]``, ``:p[s, o]`` or ``:C[s]``; a name after it is the named graph that it is in. A body
has triples, ``NOT``, ``NOT EXISTS ?v, … IN (…)``, ``FILTER(…)``, ``BIND(… AS ?v)`` with expressions of SPARQL
and ``SKOLEM``, and ``AGGREGATE(… ON ?x … BIND(…))``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gpuengine.errors import Diagnostic, ProgramErrors, Span
from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter, TooManyErrors
from gpuengine.language.source import SourceMap
from gpuengine.rdf.rules import (
    Aggregate,
    Aggregation,
    Argument,
    Bind,
    BodyItem,
    Call,
    Expression,
    Filter,
    Negation,
    Rule,
    Triple,
    Variable,
)
from gpuengine.rdf.terms import RDF, TYPE, XSD, iri_text, literal_text, unescaped
from gpuengine.rdf.translation import variables_of
from gpuengine.rdf_names import RULES

_PREFIXES = {
    "rdf": RDF,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": XSD,
}
_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|\#[^\n]*)
  | (?P<iri><[^<>"{}|^`\s]*>)
  | (?P<variable>[?$][^\W]\w*)
  | (?P<string>\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
  | (?P<blank>_:\w(?:[\w.\-]*[\w\-])?)
  | (?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)[eE][+\-]?[0-9]+|[0-9]*\.[0-9]+|[0-9]+)
  | (?P<sign>:-|<-|\^\^|&&|\|\||!=|<=|>=|[\[\](),.=<>!+\-*/;])
  | (?P<name>(?:[^\W\d_](?:[\w.\-]*[\w\-])?)?:
        (?:(?:[\w:]|%[0-9A-Fa-f]{2}|\\.)(?:(?:[\w.:\-]|%[0-9A-Fa-f]{2}|\\.)*(?:[\w:\-]|%[0-9A-Fa-f]{2}|\\.))?)?)
  | (?P<word>[^\W\d]\w*)
    """,
    re.VERBOSE,
)
_AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")
_COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class _Wrong(Exception):
    """What was reported; the rule under way is passed over."""


def parse_rules(source: str | os.PathLike[str], prefixes: dict[str, str] | None = None) -> list[Rule]:
    """The rules of a text, or of a file: a path, or one line that names a file.

    The prefixes that it declares are added to `prefixes`.
    """
    name, text = "<rules>", source
    is_path = not isinstance(source, str) or (
        "\n" not in source and (source.strip().endswith(RULES) or _is_file(source))
    )
    if is_path:
        name, text = str(source), _read(Path(source))
    assert isinstance(text, str)
    sources = SourceMap()
    reporter = Reporter(sources)
    sources.add(name, text)
    parser = _Parser(text, Path(name).name, reporter)
    try:
        parser.run()
    except TooManyErrors:
        raise reporter.errors() from None
    if reporter:
        raise reporter.errors()
    if prefixes is not None:
        prefixes |= parser.declared
    return parser.rules


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        span = Span(str(path), 1, 1, 1, 1)
        raise ProgramErrors(
            [Diagnostic(codes.UNREADABLE, f"can't read {path}: {reason}", span, "")]
        ) from error


class _Parser:
    def __init__(self, text: str, name: str, reporter: Reporter) -> None:
        self._text = text
        self._name = name
        self._reporter = reporter
        self._prefixes = dict(_PREFIXES)
        self._base = ""
        self._tokens: list[_Token] = []
        self._at = 0
        self._depth = 0
        self.rules: list[Rule] = []
        self.declared: dict[str, str] = {}

    def run(self) -> None:
        self._tokenise()
        while self._next.kind != "end":
            begin = self._at
            try:
                self._item()
            except _Wrong:
                self._recover(begin)

    def _tokenise(self) -> None:
        at, text = 0, self._text
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                what = "a string that never ends" if text[at] in "\"'" else f"the character {text[at]!r}"
                code = codes.UNTERMINATED if text[at] in "\"'" else codes.CHARACTER
                self._reporter.error(code, f"{what} can't stand here", at, at + 1)
                at += 1
                continue
            kind = match.lastgroup or ""
            if kind != "skip":
                self._tokens.append(_Token(kind, match[0], at, match.end()))
            at = match.end()
        self._tokens.append(_Token("end", "the end of the text", len(text), len(text)))

    def _recover(self, begin: int) -> None:
        """Go on behind the next full stop."""
        self._at = max(self._at, begin + 1) if self._at == begin else self._at
        while self._next.kind != "end":
            if self._take().text == ".":
                return

    # Tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _is(self, *texts: str) -> bool:
        return self._next.kind == "sign" and self._next.text in texts

    def _is_word(self, *words: str) -> bool:
        return self._next.kind == "word" and self._next.text.upper() in words

    def _accept(self, text: str) -> bool:
        if self._is(text):
            self._at += 1
            return True
        return False

    def _expect(self, text: str, after: str = "") -> _Token:
        if not self._is(text):
            raise self._unexpected(f"'{text}'{after}")
        return self._take()

    def _unexpected(self, wanted: str, hint: str | None = None) -> _Wrong:
        token = self._next
        shown = token.text if token.kind == "end" else f"'{token.text}'"
        return self._wrong(f"expected {wanted}, found {shown}", token, hint)

    def _wrong(
        self, message: str, token: _Token, hint: str | None = None, code: str = codes.SYNTAX
    ) -> _Wrong:
        self._reporter.error(code, message, token.start, max(token.end, token.start + 1), hint)
        return _Wrong()

    # Prefixes and rules

    def _item(self) -> None:
        token = self._next
        is_turtle = token.kind == "language" and token.text.lower() in ("@prefix", "@base")
        if is_turtle or self._is_word("PREFIX", "BASE"):
            self._take()
            if token.text.lower().endswith("prefix"):
                name = self._take()
                if name.kind != "name" or not name.text.endswith(":"):
                    raise self._wrong("a prefix ends in ':'", name, "PREFIX ex: <http://example.org/>")
                self.declared[name.text[:-1]] = self._prefixes[name.text[:-1]] = self._iri_value()
            else:
                self._base = self._iri_value()
            if is_turtle:
                self._expect(".")
            return
        self._rule()

    def _iri_value(self) -> str:
        token = self._take()
        if token.kind != "iri":
            self._at -= 1
            raise self._unexpected("an IRI in angle brackets")
        return token.text[1:-1]

    def _rule(self) -> None:
        first = self._next
        heads: list[tuple[Triple, _Token]] = []
        while True:
            begin = self._next
            heads.extend((triple, begin) for triple in self._triple())
            if not self._accept(","):
                break
        body: list[tuple[BodyItem, _Token]] = []
        if self._accept(":-") or self._accept("<-"):
            body = self._body((".",))
        self._expect(".", " at the end of the rule")
        self._check(heads, body)
        place = self._reporter.sources.span(first.start, first.end)
        rule = Rule(
            tuple(head for head, _ in heads), tuple(item for item, _ in body), f"{self._name}:{place.line}"
        )
        self.rules.append(rule)

    def _check(self, heads: list[tuple[Triple, _Token]], body: list[tuple[BodyItem, _Token]]) -> None:
        """Is every variable bound where it is used?"""
        bound = self._check_body(body, set())
        for head, token in heads:
            self._require(variables_of(head), bound, token, "the head")
            if isinstance(head.predicate, str) and not head.predicate.startswith("<"):
                raise self._wrong("the predicate of a head must be an IRI", token)

    def _check_body(self, body: list[tuple[BodyItem, _Token]], outside: set[Variable]) -> set[Variable]:
        bound = set(outside)
        for item, _ in body:
            if isinstance(item, Triple | Aggregate):
                bound.update(variables_of(item))
        waiting = [(item, token) for item, token in body if isinstance(item, Bind)]
        while True:
            ready = [one for one in waiting if variables_of(one[0].expression).keys() <= bound]
            if not ready:
                break
            bound.update(item.variable for item, _ in ready)
            waiting = [one for one in waiting if one not in ready]
        for item, token in waiting:
            self._require(variables_of(item.expression), bound, token, "BIND")
        for item, token in body:
            if isinstance(item, Filter):
                self._require(variables_of(item), bound, token, "FILTER")
        return bound

    def _require(
        self, variables: Iterable[Variable], bound: set[Variable], token: _Token, where: str
    ) -> None:
        for variable in variables:
            if variable not in bound:
                hint = "bind it by a triple of the body that is not negated, or by BIND"
                message = f"the variable ?{variable.name} of {where} is not bound in the body"
                raise self._wrong(message, token, hint, codes.UNGROUNDED)

    # Bodies

    def _body(self, ends: tuple[str, ...]) -> list[tuple[BodyItem, _Token]]:
        items: list[tuple[BodyItem, _Token]] = []
        while True:
            begin = self._next
            items.extend((item, begin) for item in self._body_item())
            if self._accept(","):
                continue
            if self._is(*ends) or self._is_word("ON", "BIND") or self._next.kind == "end":
                return items
            raise self._unexpected("',' or '.'" if ends == (".",) else "',' or ')'")

    def _body_item(self) -> list[BodyItem]:
        if self._is_word("NOT"):
            self._take()
            return [self._negation()]
        if self._is_word("FILTER"):
            self._take()
            return [Filter(self._expression())]
        if self._is_word("BIND"):
            self._take()
            return [self._bind()]
        if self._is_word("AGGREGATE"):
            self._take()
            return [self._aggregate()]
        return list(self._triple())

    def _negation(self) -> Negation:
        local: list[Variable] = []
        if self._is_word("EXISTS", "EXIST"):
            self._take()
            while self._next.kind == "variable":
                local.append(self._variable())
                self._accept(",")
            if not self._is_word("IN"):
                raise self._unexpected("IN", "NOT EXISTS ?x, ?y IN ([?x, :p, ?y])")
            self._take()
        triples: list[Triple] = []
        if self._accept("("):
            triples.extend(self._triple())
            while self._accept(","):
                triples.extend(self._triple())
            self._expect(")", " after the negated triples")
        else:
            triples.extend(self._triple())
        return Negation(tuple(triples), tuple(local))

    def _bind(self) -> Bind:
        self._expect("(", " after BIND")
        expression = self._expression()
        return Bind(expression, self._as_variable())

    def _as_variable(self) -> Variable:
        if not self._is_word("AS"):
            raise self._unexpected("AS", "BIND(?x + 1 AS ?y)")
        self._take()
        variable = self._variable()
        self._expect(")")
        return variable

    def _aggregate(self) -> Aggregate:
        begin = self._expect("(", " after AGGREGATE")
        body = self._body((")",))
        groups: list[Variable] = []
        if self._is_word("ON"):
            self._take()
            while self._next.kind == "variable":
                groups.append(self._variable())
                self._accept(",")
        aggregations = []
        while self._is_word("BIND"):
            self._take()
            self._expect("(", " after BIND")
            aggregations.append(self._aggregation())
            self._accept(",")
        if not aggregations:
            raise self._unexpected("BIND", "AGGREGATE(:p[?x, ?y] ON ?x BIND(COUNT(?y) AS ?n))")
        self._expect(")", " at the end of AGGREGATE")
        bound = self._check_body(body, set())
        self._require(groups, bound, begin, "ON")
        for one in aggregations:
            self._require(variables_of(one.argument), bound, begin, one.function)
        return Aggregate(tuple(item for item, _ in body), tuple(groups), tuple(aggregations))

    def _aggregation(self) -> Aggregation:
        token = self._take()
        name = token.text.upper()
        if token.kind != "word" or name not in _AGGREGATES:
            raise self._wrong(f"{token.text} is no aggregate", token, f"there are {', '.join(_AGGREGATES)}")
        self._expect("(", f" after {name}")
        distinct = self._is_word("DISTINCT")
        if distinct:
            self._take()
        argument: Expression | None = None
        if not (name == "COUNT" and self._accept("*")):
            argument = self._expression()
        self._expect(")")
        return Aggregation(name, argument, self._as_variable(), distinct)

    # Triples and terms

    def _triple(self) -> tuple[Triple, ...]:
        begin = self._next
        if self._accept("["):
            terms = self._terms()
            if len(terms) != 3:
                raise self._wrong("a triple has a subject, a predicate and an object", begin, "[?x, :p, ?y]")
            return (self._in_graph(Triple(terms[0], terms[1], terms[2])),)
        predicate = self._term(as_predicate=True)
        if isinstance(predicate, str) and not predicate.startswith("<"):
            raise self._wrong("a class or property must be an IRI", begin)
        self._expect("[", " after the class or property")
        terms = self._terms()
        if len(terms) == 1:
            return (self._in_graph(Triple(terms[0], TYPE, predicate)),)
        if len(terms) == 2:
            return (self._in_graph(Triple(terms[0], predicate, terms[1])),)
        raise self._wrong("a class takes one argument and a property two", begin, ":C[?x] or :p[?x, ?y]")

    def _in_graph(self, triple: Triple) -> Triple:
        if self._next.kind in ("iri", "name", "variable"):
            graph = self._term(as_predicate=True)
            return Triple(triple.subject, triple.predicate, triple.object, graph)
        return triple

    def _terms(self) -> list[Argument]:
        terms = [self._term()]
        while self._accept(","):
            terms.append(self._term())
        self._expect("]")
        return terms

    def _variable(self) -> Variable:
        if self._next.kind != "variable":
            raise self._unexpected("a variable")
        return Variable(self._take().text[1:])

    def _term(self, *, as_predicate: bool = False) -> Argument:
        token = self._next
        if token.kind == "variable":
            return self._variable()
        if token.kind in ("iri", "name"):
            return self._iri()
        if as_predicate:
            raise self._unexpected("a triple, such as [?x, :p, ?y], :p[?x, ?y] or :C[?x]")
        if token.kind == "word" and token.text == "a":
            self._take()
            return TYPE
        if token.kind == "blank":
            return self._take().text
        literal = self._literal()
        if literal is None:
            raise self._unexpected("a variable, an IRI or a literal")
        return literal

    def _iri(self) -> str:
        token = self._take()
        try:
            if token.kind == "iri":
                value = unescaped(token.text[1:-1])
                if self._base and not re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:", value):
                    from urllib.parse import urljoin

                    value = urljoin(self._base, value)
                return iri_text(value)
            prefix, _, local = token.text.partition(":")
            if prefix not in self._prefixes:
                hint = f"PREFIX {prefix}: <…> says what it stands for"
                raise self._wrong(f"there is no prefix '{prefix}:'", token, hint)
            return iri_text(self._prefixes[prefix] + re.sub(r"\\(.)", r"\1", local))
        except ValueError as error:
            raise self._wrong(str(error), token) from None

    def _literal(self) -> str | None:
        token = self._next
        sign = ""
        if self._is("+", "-") and self._tokens[self._at + 1].kind == "number":
            sign = self._take().text
            token = self._next
        if token.kind == "number":
            self._take()
            text = token.text
            kind = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
            return literal_text(sign + text, f"{XSD}{kind}")
        if token.kind == "word" and token.text in ("true", "false"):
            self._take()
            return literal_text(token.text, f"{XSD}boolean")
        if token.kind != "string":
            return None
        self._take()
        width = 3 if token.text[:3] in ('"""', "'''") and len(token.text) >= 6 else 1
        try:
            lexical = unescaped(token.text[width:-width])
        except ValueError as error:
            raise self._wrong(str(error), token, code=codes.ESCAPE) from None
        if self._next.kind == "language":
            return literal_text(lexical, language=self._take().text[1:])
        if self._accept("^^"):
            if self._next.kind not in ("iri", "name"):
                raise self._unexpected("the IRI of a datatype")
            return literal_text(lexical, self._iri()[1:-1])
        return literal_text(lexical)

    # Expressions, loosest operator first

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > 100:
            raise self._wrong("this expression is nested too deeply", self._next, code=codes.TOO_DEEP)
        left = self._conjunction()
        while self._accept("||"):
            left = Call("||", (left, self._conjunction()))
        self._depth -= 1
        return left

    def _conjunction(self) -> Expression:
        left = self._comparison()
        while self._accept("&&"):
            left = Call("&&", (left, self._comparison()))
        return left

    def _comparison(self) -> Expression:
        left = self._sum()
        if self._is(*_COMPARISONS):
            return Call(self._take().text, (left, self._sum()))
        negated = self._is_word("NOT")
        if negated:
            self._take()
        if self._is_word("IN"):
            self._take()
            member = Call("IN", (left, *self._arguments()))
            return Call("!", (member,)) if negated else member
        if negated:
            raise self._unexpected("IN")
        return left

    def _sum(self) -> Expression:
        left = self._product()
        while self._is("+", "-"):
            left = Call(self._take().text, (left, self._product()))
        return left

    def _product(self) -> Expression:
        left = self._unary()
        while self._is("*", "/"):
            left = Call(self._take().text, (left, self._unary()))
        return left

    def _unary(self) -> Expression:
        if self._is("!", "-", "+"):
            if self._tokens[self._at + 1].kind == "number":
                return self._primary()
            return Call(self._take().text, (self._unary(),))
        return self._primary()

    def _primary(self) -> Expression:
        if self._accept("("):
            inner = self._expression()
            self._expect(")")
            return inner
        token = self._next
        if token.kind == "variable":
            return self._variable()
        if token.kind in ("iri", "name"):
            iri = self._iri()
            return Call(iri, self._arguments()) if self._is("(") else iri
        literal = self._literal()
        if literal is not None:
            return literal
        if token.kind == "word" and self._tokens[self._at + 1].text == "(":
            self._take()
            return Call(token.text.upper(), self._arguments())
        raise self._unexpected("an expression")

    def _arguments(self) -> tuple[Expression, ...]:
        self._expect("(")
        if self._accept(")"):
            return ()
        arguments = [self._expression()]
        while self._accept(","):
            arguments.append(self._expression())
        self._expect(")")
        return tuple(arguments)


# Writing


def rule_text(rule: Rule) -> str:
    """A rule in the syntax that `parse_rules` reads, without prefixes."""
    heads = ", ".join(map(_triple_text, rule.heads))
    body = ", ".join(map(_item_text, rule.body))
    return f"{heads} :- {body} ." if body else f"{heads} ."


def _triple_text(triple: Triple) -> str:
    places = ", ".join(map(_argument_text, (triple.subject, triple.predicate, triple.object)))
    return f"[{places}]" if triple.graph is None else f"[{places}] {_argument_text(triple.graph)}"


def _argument_text(place: Argument) -> str:
    return f"?{place.name}" if isinstance(place, Variable) else place


def _item_text(item: BodyItem) -> str:
    if isinstance(item, Triple):
        return _triple_text(item)
    if isinstance(item, Negation):
        inner = f"({', '.join(map(_triple_text, item.body))})"
        local = ", ".join(map(_argument_text, item.local))
        return f"NOT EXISTS {local} IN {inner}" if local else f"NOT {inner}"
    if isinstance(item, Filter):
        return f"FILTER({_expression_text(item.condition)})"
    if isinstance(item, Bind):
        return f"BIND({_expression_text(item.expression)} AS ?{item.variable.name})"
    bindings = " ".join(map(_aggregation_text, item.aggregations))
    groups = f" ON {' '.join(map(_argument_text, item.groups))}" if item.groups else ""
    return f"AGGREGATE({', '.join(map(_item_text, item.body))}{groups} {bindings})"


def _aggregation_text(one: Aggregation) -> str:
    argument = "*" if one.argument is None else _expression_text(one.argument)
    return f"BIND({one.function}({'DISTINCT ' * one.distinct}{argument}) AS ?{one.variable.name})"


def _expression_text(expression: Expression) -> str:
    if not isinstance(expression, Call):
        return _argument_text(expression)
    arguments = [_expression_text(one) for one in expression.arguments]
    if expression.function == "IN":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if expression.function[0].isalpha() or len(expression.function) > 2:
        return f"{expression.function}({', '.join(arguments)})"
    if len(arguments) == 1:
        return f"({expression.function} {arguments[0]})"
    return f"({f' {expression.function} '.join(arguments)})"
