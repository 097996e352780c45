"""Text of SPARQL 1.1 to queries and updates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gpuengine.rdf.expressions import variables
from gpuengine.rdf.rules import Argument, Triple, Variable
from gpuengine.rdf.sparql import algebra, codes
from gpuengine.rdf.sparql.algebra import (
    HIDDEN,
    Basic,
    Bind,
    Clear,
    Dataset,
    Formula,
    Group,
    InGraph,
    Modify,
    Operation,
    Order,
    Query,
    Select,
    Step,
    Transfer,
    Update,
)
from gpuengine.rdf.sparql.expression_reader import BUILT_IN
from gpuengine.rdf.sparql.lexer import Source, Token
from gpuengine.rdf.sparql.pattern_reader import Pattern, PatternReader


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


class _Parser(PatternReader):
    """A recursive descent: a query or an update, of patterns, of expressions, of terms."""

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
            while self.at("(") or self.next.kind in ("iri", "name") or self.at_word(*BUILT_IN, "NOT"):
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
            elif self.next.kind in ("iri", "name") or self.at_word(*BUILT_IN):
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
            elif self.at("(") or self.next.kind in ("iri", "name") or self.at_word(*BUILT_IN, "NOT"):
                keys.append(Order(self.constraint(), False))
            elif keys:
                return keys
            else:
                raise self.unexpected("a variable, ASC(…), DESC(…) or an expression in brackets")

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
            inner: list[Pattern] = []
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
