"""Text of SPARQL 1.1 to queries and updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from urllib.parse import urlsplit

from gpuengine.errors import ProgramErrors
from gpuengine.language.diagnostics import nearest
from gpuengine.rdf.expressions import complaint, resolved, variables
from gpuengine.rdf.functions import FUNCTIONS
from gpuengine.rdf.rules import Argument, Call, Expression, Triple, Variable
from gpuengine.rdf.sparql import algebra, codes
from gpuengine.rdf.sparql.algebra import (
    HIDDEN,
    Aggregation,
    Alternatives,
    Basic,
    Bind,
    Clear,
    Dataset,
    Exists,
    Formula,
    Group,
    InGraph,
    Inverse,
    Link,
    Minus,
    Modify,
    Negated,
    Operation,
    Order,
    Path,
    PathPattern,
    Query,
    Repeated,
    Select,
    Step,
    Transfer,
    Update,
    Values,
)
from gpuengine.rdf.sparql.lexer import Source, Token, tokens
from gpuengine.rdf.terms import OWL, RDF, RDFS, TYPE, XSD, literal_text, unescaped

DEEPEST = 100
"""Groups, brackets and operators inside of each other."""

PREFIXES = (("rdf", RDF), ("rdfs", RDFS), ("owl", OWL), ("xsd", XSD))
"""Those that need no declaration."""

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")
_BUILT_IN = sorted(
    {name for name in FUNCTIONS if name[0].isalpha()}
    | {"BOUND", "IF", "COALESCE", "IRI", "URI", "BNODE", "RAND", "UUID", "STRUUID", "NOW", "EXISTS"}
    | set(AGGREGATES)
)
# Operators by how strongly they bind.
_BINDING = {"||": 1, "&&": 2, "=": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "IN": 3, "NOT": 3}
_BINDING |= {"+": 4, "-": 4, "*": 5, "/": 5}

_FIRST, _REST, _NIL = f"<{RDF}first>", f"<{RDF}rest>", f"<{RDF}nil>"

Found = Triple | PathPattern | algebra.Union


@lru_cache(maxsize=256)
def parse_query(
    text: str, name: str = "query", base: str | None = None, prefixes: tuple[tuple[str, str], ...] = ()
) -> Query:
    """A query, or `ProgramErrors` that name line and column, and what was expected.

    `prefixes` are declared before the text begins, besides `PREFIXES`.
    """
    return _Parser(Source(text, name), base, prefixes).query()


@lru_cache(maxsize=16)
def parse_update(
    text: str, name: str = "update", base: str | None = None, prefixes: tuple[tuple[str, str], ...] = ()
) -> Update:
    """The operations of an update, or `ProgramErrors`."""
    return _Parser(Source(text, name), base, prefixes).update()


class _Parser:
    """A recursive descent over the tokens."""

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

    # Queries

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

    def query(self) -> Query:
        self.prologue()
        token = self.next
        form = self.accept_word("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
        if form is None:
            if self.at_word(
                "INSERT", "DELETE", "CLEAR", "DROP", "LOAD", "WITH", "CREATE", "COPY", "MOVE", "ADD"
            ):
                message = "this is an update, not a query"
                raise self.wrong(codes.SYNTAX, message, token, "hand it to update")
            words = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
            raise self.unexpected("SELECT, ASK, CONSTRUCT or DESCRIBE", (*words, "PREFIX", "BASE"))
        template: tuple[Triple, ...] = ()
        described: tuple[Argument, ...] = ()
        dataset = Dataset()
        if form == "SELECT":
            select, dataset = self.select(top=True)
        elif form == "ASK":
            dataset = self.dataset("FROM")
            self.accept_word("WHERE")
            select = self.modified(self.group(), ())
        elif form == "CONSTRUCT":
            select, template, dataset = self.construct()
        else:
            select, described, dataset = self.describe()
        if self.next.kind != "end":
            raise self.unexpected("the end of the query")
        return Query(form, select, template, described, dataset, self.base, dict(self.prefixes))

    def dataset(self, word: str) -> Dataset:
        default: list[str] = []
        named: list[str] = []
        while self.accept_word(word):
            (named if self.accept_word("NAMED") else default).append(self.iri())
        if not default and not named:
            return Dataset()
        return Dataset(tuple(default), tuple(named))

    def construct(self) -> tuple[Select, tuple[Triple, ...], Dataset]:
        if self.at("{"):
            template = self.template()
            dataset = self.dataset("FROM")
            self.accept_word("WHERE")
            return self.modified(self.group(), ()), template, dataset
        dataset = self.dataset("FROM")
        self.expect_word("WHERE")
        token = self.next
        group = self.group()
        basic = group.steps[0] if group.steps else Basic(())
        if len(group.steps) > 1 or group.filters or not isinstance(basic, Basic):
            raise self.wrong(
                codes.SYNTAX, "CONSTRUCT WHERE takes triples alone", token, "write the template first"
            )
        named = tuple(Triple(*map(_unhidden, (t.subject, t.predicate, t.object))) for t in basic.triples)
        return self.modified(group, ()), named, dataset

    def describe(self) -> tuple[Select, tuple[Argument, ...], Dataset]:
        described: list[Argument] = []
        everything = self.accept("*")
        while not everything and (self.next.kind in ("variable", "iri", "name")):
            described.append(self.variable() if self.next.kind == "variable" else self.iri())
        if not everything and not described:
            raise self.unexpected("a variable, an IRI or '*'")
        dataset = self.dataset("FROM")
        pattern = Group(())
        if self.accept_word("WHERE") or self.at("{"):
            pattern = self.group()
        select = self.modified(pattern, ())
        if everything:
            described = [Variable(name) for name in algebra.answer_variables(select)]
        return select, tuple(described), dataset

    def select(self, *, top: bool) -> tuple[Select, Dataset]:
        """After the word SELECT."""
        outer = self.aggregations
        self.aggregations = []
        distinct = self.accept_word("DISTINCT", "REDUCED") == "DISTINCT"
        items: list[tuple[Token, str, Formula | None]] = []
        everything = self.accept("*")
        star = self.tokens[self.place - 1]
        while not everything:
            token = self.next
            if token.kind == "variable":
                items.append((token, self.variable().name, None))
            elif self.accept("("):
                formula = self.formula()
                self.expect_word("AS")
                token = self.next
                items.append((token, self.variable().name, formula))
                self.expect(")")
            else:
                break
        if not everything and not items:
            raise self.unexpected("a variable, (expression AS ?variable) or '*'")
        dataset = self.dataset("FROM") if top else Dataset()
        aggregations, self.aggregations = self.aggregations, None
        self.accept_word("WHERE")
        pattern = self.group()
        self.aggregations = aggregations
        select = self.modified(pattern, tuple(items), None if everything else items, distinct)
        self.aggregations = outer
        if everything and select.groups is not None:
            raise self.wrong(codes.SCOPE, "SELECT * with GROUP BY", star, "name the variables of the answer")
        return select, dataset

    def modified(
        self,
        pattern: Group,
        assigned: tuple[tuple[Token, str, Formula | None], ...],
        items: list[tuple[Token, str, Formula | None]] | None = None,
        distinct: bool = False,
    ) -> Select:
        """What follows the pattern of a query: GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET, VALUES."""
        outer = self.aggregations
        if self.aggregations is None:
            self.aggregations = []
        keyed: list[Bind] = []
        groups: list[str] | None = None
        if self.accept_word("GROUP"):
            self.expect_word("BY")
            groups = self.group_keys(keyed)
        having: list[Formula] = []
        if self.accept_word("HAVING"):
            having.append(self.constraint())
            while self.at("(") or self.next.kind in ("iri", "name") or self.at_word(*_BUILT_IN, "NOT"):
                having.append(self.constraint())
        order = self.order() if self.accept_word("ORDER") else []
        limit: int | None = None
        offset = 0
        while word := self.accept_word("LIMIT", "OFFSET"):
            token = self.take()
            if token.kind != "integer":
                self.place -= 1
                raise self.unexpected("a number")
            if word == "LIMIT":
                limit = int(token.text)
            else:
                offset = int(token.text)
        values = self.values() if self.accept_word("VALUES") else None
        aggregations, self.aggregations = self.aggregations, outer
        if groups is None and (aggregations or having):
            groups = []
        self.check_scope(pattern, assigned, groups)
        return Select(
            pattern,
            None if items is None else tuple(dict.fromkeys(name for _, name, _ in items)),
            tuple(Bind(name, formula) for _, name, formula in assigned if formula is not None),
            tuple(keyed),
            None if groups is None else tuple(groups),
            tuple(aggregations),
            tuple(having),
            tuple(order),
            distinct,
            limit,
            offset,
            values,
        )

    def check_scope(
        self, pattern: Group, items: Sequence[tuple[Token, str, Formula | None]], groups: list[str] | None
    ) -> None:
        """Names given by SELECT must be new; where there are groups, others must be keys or aggregates."""
        bound = set(algebra.bound_variables(pattern)) if items else set()
        named: set[str] = set()
        for token, name, formula in items:
            if formula is None:
                if groups is not None and name not in groups and name not in named:
                    hint = f"add ?{name} to GROUP BY, or aggregate it: (SAMPLE(?{name}) AS ?one)"
                    raise self.wrong(codes.SCOPE, f"?{name} is neither grouped nor aggregated", token, hint)
                continue
            if name in bound or name in named:
                raise self.wrong(codes.SCOPE, f"?{name} has a value already", token, "choose another name")
            if groups is not None:
                free = variables(formula.expression) - set(groups) - named
                loose = sorted(name for name in free if not name.startswith(HIDDEN))
                if loose:
                    message = f"?{loose[0]} is neither grouped nor aggregated"
                    raise self.wrong(codes.SCOPE, message, token, f"add ?{loose[0]} to GROUP BY")
            named.add(name)

    def group_keys(self, keyed: list[Bind]) -> list[str]:
        keys: list[str] = []
        while True:
            if self.next.kind == "variable":
                keys.append(self.variable().name)
            elif self.accept("("):
                formula = self.formula()
                name = self.variable().name if self.accept_word("AS") else self.hidden().name
                self.expect(")")
                keyed.append(Bind(name, formula))
                keys.append(name)
            elif self.next.kind in ("iri", "name") or self.at_word(*_BUILT_IN):
                keyed.append(Bind(self.hidden().name, self.constraint()))
                keys.append(keyed[-1].variable)
            elif keys:
                return keys
            else:
                raise self.unexpected("a variable or an expression in brackets")

    def order(self) -> list[Order]:
        self.expect_word("BY")
        keys: list[Order] = []
        while True:
            if word := self.accept_word("ASC", "DESC"):
                self.expect("(")
                keys.append(Order(self.formula(), word == "DESC"))
                self.expect(")")
            elif self.next.kind == "variable":
                keys.append(Order(Formula(self.variable()), False))
            elif self.at("(") or self.next.kind in ("iri", "name") or self.at_word(*_BUILT_IN, "NOT"):
                keys.append(Order(self.constraint(), False))
            elif keys:
                return keys
            else:
                raise self.unexpected("a variable, ASC(…), DESC(…) or an expression in brackets")

    # Patterns

    def group(self) -> Group:
        with self.nested():
            self.expect("{")
            number, aggregations = self.group_number, self.aggregations
            self.group_number = self.fresh = self.fresh + 1
            self.aggregations = None
            if self.accept_word("SELECT"):
                select, _ = self.select(top=False)
                group = Group((select,))
            else:
                group = self.elements()
            self.expect("}")
            self.group_number, self.aggregations = number, aggregations
            return group

    def elements(self) -> Group:
        steps: list[Step] = []
        filters: list[Formula] = []
        pending: list[Found] = []

        def flush() -> None:
            triples = tuple(pattern for pattern in pending if isinstance(pattern, Triple))
            if triples:
                steps.append(Basic(triples))
            steps.extend(pattern for pattern in pending if not isinstance(pattern, Triple))
            pending.clear()

        while not self.at("}"):
            token = self.next
            if self.accept_word("FILTER"):
                filters.append(self.constraint())
            elif self.accept_word("OPTIONAL"):
                flush()
                steps.append(algebra.Optional(self.group()))
            elif self.accept_word("MINUS"):
                flush()
                steps.append(Minus(self.group()))
            elif self.accept_word("GRAPH"):
                flush()
                name: Argument = self.variable() if self.next.kind == "variable" else self.iri()
                steps.append(InGraph(name, self.group()))
            elif self.at_word("SERVICE"):
                raise self.unsupported(token, "load the data of the service, and query them here")
            elif self.accept_word("BIND"):
                flush()
                self.expect("(")
                formula = self.formula()
                self.expect_word("AS")
                target = self.next
                variable = self.variable().name
                if variable in algebra.bound_variables(Group(tuple(steps))):
                    raise self.wrong(
                        codes.SCOPE, f"?{variable} has a value already", target, "choose another name"
                    )
                self.expect(")")
                steps.append(Bind(variable, formula))
            elif self.accept_word("VALUES"):
                flush()
                steps.append(self.values())
            elif self.at("{"):
                flush()
                branches = [self.group()]
                while self.accept_word("UNION"):
                    branches.append(self.group())
                steps.append(branches[0] if len(branches) == 1 else algebra.Union(tuple(branches)))
            elif self.begins_triples():
                self.triples_of_subject(pending)
                if not self.at(".", "}") and not self.begins_other():
                    raise self.unexpected("'.', ';', ',' or '}'")
            else:
                raise self.unexpected("a triple, FILTER, OPTIONAL, BIND or '}'", _PATTERN_WORDS)
            self.accept(".")
        flush()
        return Group(tuple(steps), tuple(filters))

    def begins_other(self) -> bool:
        return self.at("{") or self.at_word(*_PATTERN_WORDS)

    def begins_triples(self) -> bool:
        kinds = ("variable", "iri", "name", "blank", "string", "long", "integer", "decimal", "double")
        return self.next.kind in kinds or self.at("[", "(", "+", "-") or self.at_word("TRUE", "FALSE")

    def values(self) -> Values:
        names: list[str] = []
        rows: list[tuple[str | None, ...]] = []
        if self.next.kind == "variable":
            names.append(self.variable().name)
            self.expect("{")
            while not self.accept("}"):
                rows.append((self.data(),))
            return Values(tuple(names), tuple(rows))
        self.expect("(", " or a variable")
        while not self.accept(")"):
            names.append(self.variable().name)
        self.expect("{")
        while not self.accept("}"):
            token = self.expect("(")
            row: list[str | None] = []
            while not self.accept(")"):
                row.append(self.data())
            if len(row) != len(names):
                message = f"a row of {len(row)} values for {len(names)} variables"
                raise self.wrong(codes.SYNTAX, message, token)
            rows.append(tuple(row))
        return Values(tuple(names), tuple(rows))

    def data(self) -> str | None:
        if self.accept_word("UNDEF"):
            return None
        token = self.next
        if token.kind in ("variable", "blank"):
            raise self.unexpected("an IRI, a literal or UNDEF")
        return self.constant()

    # Triples

    def template(self) -> tuple[Triple, ...]:
        """Triples in braces; blank nodes stay what they are."""
        self.expect("{")
        patterns: list[Found] = []
        self.in_template = True
        while not self.at("}"):
            self.triples_of_subject(patterns)
            if not self.accept(".") and not self.at("}"):
                raise self.unexpected("'.', ';', ',' or '}'")
        self.in_template = False
        self.expect("}")
        return tuple(triple for triple in patterns if isinstance(triple, Triple))

    def triples_of_subject(self, found: list[Found]) -> None:
        if self.at("["):
            subject: Argument = self.blank_properties(found)
            if self.at(".", "}") or self.begins_other():
                return
        elif self.at("("):
            subject = self.collection(found)
            if self.at(".", "}"):
                return
        else:
            subject = self.term(found)
        self.properties(subject, found)

    def properties(self, subject: Argument, found: list[Found]) -> None:
        while True:
            verb = self.verb()
            while True:
                self.emit(subject, verb, self.term(found), found)
                if not self.accept(","):
                    break
            if not self.at(";"):
                return
            while self.accept(";"):
                pass
            if not self.begins_verb():
                return

    def begins_verb(self) -> bool:
        token = self.next
        return (
            token.kind in ("variable", "iri", "name")
            or (token.kind == "word" and token.text == "a")
            or (not self.in_template and self.at("^", "!", "("))
        )

    def verb(self) -> Variable | Path:
        if not self.begins_verb():
            raise self.unexpected("a predicate")
        if self.next.kind == "variable":
            return self.variable()
        if self.in_template:
            return Link(self.predicate())
        return self.path()

    def emit(self, subject: Argument, verb: Variable | Path, target: Argument, found: list[Found]) -> None:
        if isinstance(verb, Variable):
            found.append(Triple(subject, verb, target))
        elif isinstance(verb, Link):
            found.append(Triple(subject, verb.predicate, target))
        elif isinstance(verb, Inverse):
            self.emit(target, verb.path, subject, found)
        elif isinstance(verb, algebra.Sequence):
            for part in verb.parts[:-1]:
                between = self.hidden()
                self.emit(subject, part, between, found)
                subject = between
            self.emit(subject, verb.parts[-1], target, found)
        elif isinstance(verb, Alternatives):
            branches = []
            for part in verb.parts:
                inner: list[Found] = []
                self.emit(subject, part, target, inner)
                triples = tuple(one for one in inner if isinstance(one, Triple))
                others = tuple(one for one in inner if not isinstance(one, Triple))
                branches.append(Group((*((Basic(triples),) if triples else ()), *others)))
            found.append(algebra.Union(tuple(branches)))
        else:
            found.append(PathPattern(subject, verb, target))

    def blank_properties(self, found: list[Found]) -> Argument:
        with self.nested():
            self.expect("[")
            node = self.blank_node()
            if not self.at("]"):
                self.properties(node, found)
            self.expect("]")
            return node

    def blank_node(self, label: str | None = None, token: Token | None = None) -> Argument:
        """A variable in a pattern, a label in a template."""
        if label is None:
            self.fresh += 1
            label = f"{HIDDEN}{self.fresh}"
        elif not self.in_template and self.labels.setdefault(label, self.group_number) != self.group_number:
            assert token is not None
            message = f"the blank node _:{label} stands in two groups"
            raise self.wrong(codes.SCOPE, message, token, "a variable can join them")
        if self.in_template:
            return f"_:{label.replace(HIDDEN, 'b.')}"
        return Variable(label if label.startswith(HIDDEN) else f"{HIDDEN}_{label}")

    def collection(self, found: list[Found]) -> Argument:
        with self.nested():
            self.expect("(")
            first: Argument | None = None
            last: Argument | None = None
            while not self.accept(")"):
                item = self.term(found)
                node = self.blank_node()
                if last is None:
                    first = node
                else:
                    found.append(Triple(last, _REST, node))
                found.append(Triple(node, _FIRST, item))
                last = node
            if first is None or last is None:
                return _NIL
            found.append(Triple(last, _REST, _NIL))
            return first

    def term(self, found: list[Found]) -> Argument:
        token = self.next
        if token.kind == "variable":
            return self.variable()
        if token.kind == "blank":
            self.place += 1
            return self.blank_node(token.text[2:], token)
        if self.at("["):
            return self.blank_properties(found)
        if self.at("("):
            return self.collection(found)
        if self.at("<<"):
            raise self.wrong(codes.UNSUPPORTED, "triples about triples are not supported", token)
        return self.constant()

    # Paths

    def path(self) -> Path:
        with self.nested():
            parts = [self.path_sequence()]
            while self.accept("|"):
                parts.append(self.path_sequence())
            return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def path_sequence(self) -> Path:
        parts = [self.path_element()]
        while self.accept("/"):
            parts.append(self.path_element())
        return parts[0] if len(parts) == 1 else algebra.Sequence(tuple(parts))

    def path_element(self) -> Path:
        inverse = self.accept("^")
        if self.accept("!"):
            path: Path = self.negated()
        elif self.accept("("):
            path = self.path()
            self.expect(")")
        else:
            path = Link(self.predicate())
        if self.accept("*"):
            path = Repeated(path, 0, False)
        elif self.accept("+"):
            path = Repeated(path, 1, False)
        elif self.accept("?"):
            path = Repeated(path, 0, True)
        return Inverse(path) if inverse else path

    def negated(self) -> Negated:
        forward: list[str] = []
        backward: list[str] = []

        def one() -> None:
            (backward if self.accept("^") else forward).append(self.predicate())

        if self.accept("("):
            if self.accept(")"):
                return Negated((), None)
            one()
            while self.accept("|"):
                one()
            self.expect(")")
        else:
            one()
        return Negated(
            tuple(forward) if forward or not backward else None, tuple(backward) if backward else None
        )

    def predicate(self) -> str:
        token = self.next
        if token.kind == "word" and token.text == "a":
            self.place += 1
            return TYPE
        if token.kind not in ("iri", "name"):
            raise self.unexpected("a predicate: an IRI, a name with a prefix, or 'a'")
        return self.iri()

    # Terms

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

    # Expressions

    def formula(self) -> Formula:
        outer, self.exists = self.exists, []
        expression = self.expression(1)
        exists, self.exists = self.exists, outer
        return Formula(expression, tuple(exists))

    def constraint(self) -> Formula:
        """What FILTER and HAVING take: brackets, or a call."""
        token = self.next
        if not (self.at("(") or token.kind in ("iri", "name") or token.kind == "word"):
            raise self.unexpected("an expression in brackets, or a function")
        outer, self.exists = self.exists, []
        expression = self.primary()
        exists, self.exists = self.exists, outer
        if isinstance(expression, str) and token.text != "(":
            raise self.wrong(codes.SYNTAX, "expected a condition, found a term", token, "put it in brackets")
        return Formula(expression, tuple(exists))

    def expression(self, least: int) -> Expression:
        with self.nested():
            left = self.unary()
            length = 0
            chained = False
            while True:
                token = self.next
                operator = token.text.upper() if token.kind in ("mark", "word") else ""
                binding = _BINDING.get(operator, 0)
                if binding < least or binding == 0:
                    return left
                self.place += 1
                length += 1
                if length > DEEPEST and operator not in ("||", "&&"):
                    raise self.wrong(codes.NESTED, f"more than {DEEPEST} operators in a row", token)
                if operator in ("IN", "NOT"):
                    if operator == "NOT":
                        self.expect_word("IN")
                    member = Call("IN", (left, *self.arguments()))
                    left = member if operator == "IN" else Call("!", (member,))
                    continue
                right = self.expression(binding + 1)
                # Long conjunctions are lists, not deep trees.
                if (
                    chained
                    and isinstance(left, Call)
                    and left.function == operator
                    and operator in ("||", "&&")
                ):
                    left = Call(operator, (*left.arguments, right))
                else:
                    left = Call(operator, (left, right))
                chained = True

    def unary(self) -> Expression:
        if self.at("!"):
            with self.nested():
                self.place += 1
                return Call("!", (self.unary(),))
        if self.at("+", "-"):
            if self.tokens[self.place + 1].kind in ("integer", "decimal", "double"):
                return self.constant()
            with self.nested():
                operator = self.take().text
                return Call(operator, (self.unary(),))
        return self.primary()

    def arguments(self) -> tuple[Expression, ...]:
        self.expect("(")
        arguments: list[Expression] = []
        if not self.accept(")"):
            arguments.append(self.expression(1))
            while self.accept(","):
                arguments.append(self.expression(1))
            self.expect(")", ", ',' or an operator")
        return tuple(arguments)

    def primary(self) -> Expression:
        token = self.next
        if self.accept("("):
            expression = self.expression(1)
            self.expect(")", " or an operator")
            return expression
        if token.kind == "variable":
            return self.variable()
        if token.kind == "word" and token.text.upper() not in ("TRUE", "FALSE"):
            return self.built_in()
        constant = self.constant()
        if token.kind in ("iri", "name") and self.at("("):
            return self.checked(Call(constant, self.arguments()), token)
        return constant

    def checked(self, call: Call, token: Token) -> Call:
        problem = complaint(call.function, len(call.arguments))
        if problem is not None:
            raise self.wrong(codes.FUNCTION, problem, token)
        return call

    def built_in(self) -> Expression:
        token = self.take()
        name = token.text.upper()
        if name in ("EXISTS", "NOT"):
            if name == "NOT":
                self.expect_word("EXISTS")
            variable = self.hidden()
            exists, self.exists = self.exists, []
            aggregations, self.aggregations = self.aggregations, None
            pattern = self.group()
            self.exists, self.aggregations = exists, aggregations
            self.exists.append(Exists(variable.name, pattern))
            return variable if name == "EXISTS" else Call("!", (variable,))
        if name in AGGREGATES:
            return self.aggregate(name, token)
        if name not in _BUILT_IN:
            self.place -= 1
            hint = nearest(name, _BUILT_IN, "function")
            if self.tokens[self.place + 1].text == "(":
                raise self.wrong(codes.FUNCTION, f"there is no function {token.text}", token, hint)
            raise self.unexpected("an expression", _BUILT_IN)
        call = Call(name, self.arguments())
        if name == "BOUND" and not (len(call.arguments) == 1 and isinstance(call.arguments[0], Variable)):
            raise self.wrong(codes.FUNCTION, "BOUND takes one variable", token)
        return self.checked(call, token)

    def aggregate(self, name: str, token: Token) -> Variable:
        if self.aggregations is None or self.aggregating:
            hint = "aggregates stand in SELECT, HAVING and ORDER BY; a subquery can compute one before"
            raise self.wrong(codes.SCOPE, f"{name} can't stand here", token, hint)
        self.aggregating = True
        self.expect("(")
        distinct = bool(self.accept_word("DISTINCT"))
        argument: Formula | None = None
        separator = " "
        if not (name == "COUNT" and self.accept("*")):
            argument = self.formula()
        if name == "GROUP_CONCAT" and self.accept(";"):
            self.expect_word("SEPARATOR")
            self.expect("=")
            if self.next.kind not in ("string", "long"):
                raise self.unexpected("a string")
            separator = self.unescaped(self.take())
        self.expect(")")
        self.aggregating = False
        # The same aggregate twice is one.
        for other in self.aggregations:
            same = (other.function, other.argument, other.distinct, other.separator)
            if same == (name, argument, distinct, separator):
                return Variable(other.name)
        variable = self.hidden()
        self.aggregations.append(Aggregation(variable.name, name, argument, distinct, separator))
        return variable

    # Updates

    def update(self) -> Update:
        operations: list[Operation] = []
        while True:
            self.prologue()
            if self.next.kind == "end":
                return Update(tuple(operations))
            self.labels = {}
            operation = self.operation()
            if operation is not None:
                operations.append(operation)
            if not self.accept(";"):
                if self.next.kind != "end":
                    raise self.unexpected("';' or the end of the update")
                return Update(tuple(operations))

    def operation(self) -> Operation | None:
        token = self.next
        words = ("INSERT", "DELETE", "WITH", "CLEAR", "DROP", "CREATE", "ADD", "COPY", "MOVE", "LOAD")
        if self.at_word("SELECT", "ASK", "CONSTRUCT", "DESCRIBE"):
            raise self.wrong(codes.SYNTAX, "this is a query, not an update", token, "hand it to sparql")
        word = self.accept_word(*words)
        if word is None:
            raise self.unexpected("INSERT, DELETE, WITH, CLEAR, DROP, CREATE, ADD, COPY or MOVE", words)
        if word == "LOAD":
            raise self.unsupported(token, "load the file into the knowledge base by update --insert")
        if word in ("CLEAR", "DROP"):
            self.accept_word("SILENT")
            return Clear(self.accept_word("DEFAULT", "NAMED", "ALL") or self.graph_name())
        if word == "CREATE":
            # A graph without triples is none: there is nothing to do.
            self.accept_word("SILENT")
            self.graph_name()
            return None
        if word in ("ADD", "COPY", "MOVE"):
            self.accept_word("SILENT")
            source = self.graph_or_default()
            self.expect_word("TO")
            return Transfer(source, self.graph_or_default(), word != "ADD", word == "MOVE")
        if word in ("INSERT", "DELETE") and self.accept_word("DATA"):
            quads = self.quads(data=True, blanks=word == "INSERT")
            return Modify((), quads) if word == "INSERT" else Modify(quads, ())
        if word == "DELETE" and self.accept_word("WHERE"):
            quads = self.quads(data=False, blanks=False)
            steps: list[Step] = []
            for quad in quads:
                basic = Basic((Triple(quad.subject, quad.predicate, quad.object),))
                steps.append(basic if quad.graph is None else InGraph(quad.graph, Group((basic,))))
            return Modify(quads, (), Group(_merged(steps)), base=self.base)
        return self.modification(word)

    def modification(self, word: str) -> Modify:
        graph: str | None = None
        if word == "WITH":
            graph = self.iri()
            word = self.expect_word("INSERT", "DELETE")
        delete: tuple[Triple, ...] = ()
        insert: tuple[Triple, ...] = ()
        if word == "DELETE":
            delete = self.quads(data=False, blanks=False)
        if word == "INSERT" or self.accept_word("INSERT"):
            insert = self.quads(data=False, blanks=True)
        dataset = self.dataset("USING")
        self.expect_word("WHERE", "USING")
        pattern = self.group()
        if graph is not None:
            delete, insert = (
                tuple(
                    quad if quad.graph else Triple(quad.subject, quad.predicate, quad.object, graph)
                    for quad in quads
                )
                for quads in (delete, insert)
            )
            if dataset.default is None:
                dataset = Dataset((graph,), None)
        return Modify(delete, insert, pattern, dataset, self.base)

    def graph_name(self) -> str:
        self.expect_word("GRAPH")
        return self.iri()

    def graph_or_default(self) -> str | None:
        if self.accept_word("DEFAULT"):
            return None
        self.accept_word("GRAPH")
        return self.iri()

    def quads(self, *, data: bool, blanks: bool) -> tuple[Triple, ...]:
        self.expect("{")
        quads: list[Triple] = []
        self.in_template = True
        begin = self.place
        while not self.at("}"):
            if self.accept_word("GRAPH"):
                name: Argument = self.variable() if self.next.kind == "variable" else self.iri()
                triples = self.template()
                self.in_template = True
                quads += [Triple(t.subject, t.predicate, t.object, name) for t in triples]
                self.accept(".")
                continue
            inner: list[Found] = []
            self.triples_of_subject(inner)
            quads += [triple for triple in inner if isinstance(triple, Triple)]
            if not self.accept(".") and not self.at("}") and not self.at_word("GRAPH"):
                raise self.unexpected("'.', ';', ',' or '}'")
        self.in_template = False
        self.expect("}")
        for token in self.tokens[begin : self.place]:
            if data and token.kind == "variable":
                raise self.wrong(codes.SCOPE, "data have no variables", token, "use INSERT { … } WHERE { … }")
            if not blanks and (token.kind == "blank" or token.text == "["):
                raise self.wrong(
                    codes.SCOPE, "a blank node can't be deleted by its label", token, "use a variable"
                )
        return tuple(quads)


_PATTERN_WORDS = ("FILTER", "OPTIONAL", "MINUS", "GRAPH", "SERVICE", "BIND", "VALUES", "UNION")


def _merged(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Neighbouring basic graph patterns as one."""
    merged: list[Step] = []
    for step in steps:
        if isinstance(step, Basic) and merged and isinstance(merged[-1], Basic):
            merged[-1] = Basic((*merged[-1].triples, *step.triples))
        else:
            merged.append(step)
    return tuple(merged)


def _unhidden(argument: Argument) -> Argument:
    """A blank node of a pattern as one of a template."""
    if isinstance(argument, Variable) and argument.name.startswith(HIDDEN):
        return f"_:b{argument.name}"
    return argument


def _without_backslashes(local: str) -> str:
    parts = local.split("\\")
    return "".join(parts)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"
