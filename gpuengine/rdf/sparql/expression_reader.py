"""Expressions of SPARQL: what FILTER, BIND, SELECT and the like compute."""

from __future__ import annotations

from abc import ABC, abstractmethod

from gpuengine.language.diagnostics import nearest
from gpuengine.rdf.expressions import complaint
from gpuengine.rdf.functions import FUNCTIONS
from gpuengine.rdf.rules import Call, Expression, Variable
from gpuengine.rdf.sparql import codes
from gpuengine.rdf.sparql.algebra import (
    Aggregation,
    Exists,
    Formula,
    Group,
)
from gpuengine.rdf.sparql.lexer import Token
from gpuengine.rdf.sparql.reader import DEEPEST, Reader

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")
BUILT_IN = sorted(
    {name for name in FUNCTIONS if name[0].isalpha()}
    | {"BOUND", "IF", "COALESCE", "IRI", "URI", "BNODE", "RAND", "UUID", "STRUUID", "NOW", "EXISTS"}
    | set(AGGREGATES)
)
# Operators by how strongly they bind.
_BINDING = {"||": 1, "&&": 2, "=": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "IN": 3, "NOT": 3}
_BINDING |= {"+": 4, "-": 4, "*": 5, "/": 5}


class ExpressionReader(Reader, ABC):
    """Reads expressions; EXISTS has a pattern inside, which whoever reads patterns reads."""

    @abstractmethod
    def group(self) -> Group:
        """A group graph pattern, in braces."""

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
        if name not in BUILT_IN:
            self.place -= 1
            hint = nearest(name, BUILT_IN, "function")
            if self.tokens[self.place + 1].text == "(":
                raise self.wrong(codes.FUNCTION, f"there is no function {token.text}", token, hint)
            raise self.unexpected("an expression", BUILT_IN)
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
