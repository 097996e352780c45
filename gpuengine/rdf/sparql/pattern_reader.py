"""Graph patterns of SPARQL: groups, triples, property paths, VALUES."""

from __future__ import annotations

from abc import abstractmethod

from gpuengine.rdf.rules import Argument, Triple, Variable
from gpuengine.rdf.sparql import algebra, codes
from gpuengine.rdf.sparql.algebra import (
    HIDDEN,
    Alternatives,
    Basic,
    Bind,
    Dataset,
    Formula,
    Group,
    InGraph,
    Inverse,
    Link,
    Minus,
    Negated,
    Path,
    PathPattern,
    Repeated,
    Select,
    Step,
    Values,
)
from gpuengine.rdf.sparql.expression_reader import ExpressionReader
from gpuengine.rdf.sparql.lexer import Token
from gpuengine.rdf.terms import RDF, TYPE

_FIRST, _REST, _NIL = f"<{RDF}first>", f"<{RDF}rest>", f"<{RDF}nil>"
_PATTERN_WORDS = ("FILTER", "OPTIONAL", "MINUS", "GRAPH", "SERVICE", "BIND", "VALUES", "UNION")

Pattern = Triple | PathPattern | algebra.Union


class PatternReader(ExpressionReader):
    """Reads patterns; a group may be a query itself, which whoever reads queries reads."""

    @abstractmethod
    def select(self, *, top: bool) -> tuple[Select, Dataset]:
        """A query after its word SELECT; `top` if it is no part of a pattern."""

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
        pending: list[Pattern] = []

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
        patterns: list[Pattern] = []
        self.in_template = True
        while not self.at("}"):
            self.triples_of_subject(patterns)
            if not self.accept(".") and not self.at("}"):
                raise self.unexpected("'.', ';', ',' or '}'")
        self.in_template = False
        self.expect("}")
        return tuple(triple for triple in patterns if isinstance(triple, Triple))

    def triples_of_subject(self, patterns: list[Pattern]) -> None:
        if self.at("["):
            subject: Argument = self.blank_properties(patterns)
            if self.at(".", "}") or self.begins_other():
                return
        elif self.at("("):
            subject = self.collection(patterns)
            if self.at(".", "}"):
                return
        else:
            subject = self.term(patterns)
        self.properties(subject, patterns)

    def properties(self, subject: Argument, patterns: list[Pattern]) -> None:
        while True:
            verb = self.verb()
            while True:
                self.emit(subject, verb, self.term(patterns), patterns)
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

    def emit(
        self, subject: Argument, verb: Variable | Path, target: Argument, patterns: list[Pattern]
    ) -> None:
        if isinstance(verb, Variable):
            patterns.append(Triple(subject, verb, target))
        elif isinstance(verb, Link):
            patterns.append(Triple(subject, verb.predicate, target))
        elif isinstance(verb, Inverse):
            self.emit(target, verb.path, subject, patterns)
        elif isinstance(verb, algebra.Sequence):
            for part in verb.parts[:-1]:
                between = self.hidden()
                self.emit(subject, part, between, patterns)
                subject = between
            self.emit(subject, verb.parts[-1], target, patterns)
        elif isinstance(verb, Alternatives):
            branches = []
            for part in verb.parts:
                inner: list[Pattern] = []
                self.emit(subject, part, target, inner)
                triples = tuple(one for one in inner if isinstance(one, Triple))
                others = tuple(one for one in inner if not isinstance(one, Triple))
                branches.append(Group((*((Basic(triples),) if triples else ()), *others)))
            patterns.append(algebra.Union(tuple(branches)))
        else:
            patterns.append(PathPattern(subject, verb, target))

    def blank_properties(self, patterns: list[Pattern]) -> Argument:
        with self.nested():
            self.expect("[")
            node = self.blank_node()
            if not self.at("]"):
                self.properties(node, patterns)
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

    def collection(self, patterns: list[Pattern]) -> Argument:
        with self.nested():
            self.expect("(")
            first: Argument | None = None
            last: Argument | None = None
            while not self.accept(")"):
                item = self.term(patterns)
                node = self.blank_node()
                if last is None:
                    first = node
                else:
                    patterns.append(Triple(last, _REST, node))
                patterns.append(Triple(node, _FIRST, item))
                last = node
            if first is None or last is None:
                return _NIL
            patterns.append(Triple(last, _REST, _NIL))
            return first

    def term(self, patterns: list[Pattern]) -> Argument:
        token = self.next
        if token.kind == "variable":
            return self.variable()
        if token.kind == "blank":
            self.place += 1
            return self.blank_node(token.text[2:], token)
        if self.at("["):
            return self.blank_properties(patterns)
        if self.at("("):
            return self.collection(patterns)
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
