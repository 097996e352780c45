"""Tokens to rules: recursive descent, one error a rule, and on with the next.

rule    := metric (':-' literal (',' literal)*)? '.'?     a newline ends it unless something must follow
fact    := atom '@' (interval | time)
literal := 'not' metric | term comparator term | metric
metric  := operand (('Since' | 'Until') interval operand)?
operand := operator interval operand | '(' metric ')' | 'Top' | 'Bottom' | atom
"""

from __future__ import annotations

from fractions import Fraction

from gpuengine.language.diagnostics import Reporter
from gpuengine.language.source import SourceMap
from gpuengine.temporal import codes
from gpuengine.temporal.lexer import Token, tokens_of
from gpuengine.temporal.spelling import number_of, timestamp_of
from gpuengine.temporal.syntax import (
    Binary,
    Bottom,
    Comparison,
    Constant,
    GivenFact,
    Interval,
    Literal,
    Metric,
    Negated,
    Operator,
    Relational,
    Rule,
    Term,
    Top,
    Unary,
    Variable,
)

_UNARY = {
    "Diamondminus": Operator.DIAMOND_MINUS,
    "Diamondplus": Operator.DIAMOND_PLUS,
    "Boxminus": Operator.BOX_MINUS,
    "Boxplus": Operator.BOX_PLUS,
    "<->": Operator.DIAMOND_MINUS,
    "<+>": Operator.DIAMOND_PLUS,
    "[-]": Operator.BOX_MINUS,
    "[+]": Operator.BOX_PLUS,
}
_SIGNED = {
    "SOMETIME": (Operator.DIAMOND_MINUS, Operator.DIAMOND_PLUS),
    "ALWAYS": (Operator.BOX_MINUS, Operator.BOX_PLUS),
}
_BINARY = {"Since": Operator.SINCE, "Until": Operator.UNTIL}
_COMPARATORS = ("!=", "<=", ">=", "<", ">", "=")
_RESERVED = {*_UNARY, *_SIGNED, *_BINARY, "Top", "Bottom", "not"}
MAX_DEPTH = 100
"""Operators and parentheses may be nested so deeply."""
_EVERYTHING = Interval(Fraction(0), None, False, True)


class _Abandoned(Exception):
    """This rule can't be read further; what is wrong is reported."""


class Parser:
    """Reads one text. `facts_only` texts have constants wherever terms stand."""

    def __init__(self, text: str, base: int, reporter: Reporter) -> None:
        self._tokens = tokens_of(text, base, reporter)
        self._sources: SourceMap = reporter.sources
        self._reporter = reporter
        self._at = 0
        self._depth = 0
        self._anonymous = 0
        self.rules: list[Rule] = []
        self.facts: list[GivenFact] = []

    def program(self) -> None:
        """Read rules and facts to the end."""
        while self._skip_newlines().kind != "end":
            try:
                self._rule()
            except _Abandoned:
                while self._next.kind not in ("newline", "end"):
                    self._at += 1

    def query(self) -> tuple[Literal, ...] | GivenFact | None:
        """A body, or a fact with its time; None after an error."""
        try:
            self._skip_newlines()
            first = self._next
            metric = self._literal()
            if self._next.kind == "@" and isinstance(metric, Relational):
                fact = self._fact(metric)
                self._finish(first)
                return fact
            body = self._more_literals(metric)
            self._finish(first)
            return body
        except _Abandoned:
            return None

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _skip_newlines(self) -> Token:
        while self._next.kind == "newline":
            self._at += 1
        return self._next

    def _continues(self) -> Token:
        """The next token, past newlines if the rule goes on after them with a comma or an arrow."""
        at = self._at
        while self._tokens[at].kind == "newline":
            at += 1
        if self._tokens[at].kind in (",", ":-", "Since", "Until") or self._tokens[at].text in _BINARY:
            self._at = at
        return self._next

    def _take(self, kind: str, what: str) -> Token:
        token = self._next
        if token.kind != kind:
            self._fail(f"{what} expected, found {_shown(token)}", token)
        self._at += 1
        return token

    def _fail(self, message: str, token: Token, hint: str | None = None, code: str = codes.SYNTAX) -> None:
        end = max(token.end, token.start + 1) if token.kind != "newline" else token.start + 1
        self._reporter.error(code, message, token.start, end, hint)
        raise _Abandoned

    def _finish(self, first: Token) -> None:
        if self._next.kind == ".":
            self._at += 1
        if self._skip_newlines().kind != "end":
            self._fail(f"the end expected, found {_shown(self._next)}", self._next)

    def _rule(self) -> None:
        first = self._next
        self._anonymous = self._depth = 0
        head = self._metric()
        if self._next.kind == "@":
            if not isinstance(head, Relational):
                self._fail(
                    "a fact is a relational atom with a time",
                    self._next,
                    "leave the operators out, as in P(a)@[1,2]",
                )
            assert isinstance(head, Relational)
            self.facts.append(self._fact(head))
            self._end_rule()
            return
        if self._continues().kind != ":-":
            self._fail(
                f":- expected, found {_shown(self._next)}",
                self._next,
                "a rule is Head :- Body; a fact has a time, as in P(a)@[1,2]",
            )
        self._at += 1
        self._skip_newlines()
        body = self._more_literals(self._literal())
        last = self._tokens[self._at - 1]
        self._end_rule()
        line = self._sources.span(first.start, first.end).line
        self.rules.append(Rule(head, body, (first.start, last.end), line))

    def _end_rule(self) -> None:
        token = self._next
        if token.kind == ".":
            self._at += 1
        elif token.kind not in ("newline", "end"):
            hint = None
            if token.text in _BINARY:
                hint = "say with parentheses which belong together: (A Since[0,1] B) Since[0,1] C"
            self._fail(f"the end of the rule, or a comma, expected, found {_shown(token)}", token, hint)

    def _more_literals(self, first: Literal) -> tuple[Literal, ...]:
        body = [first]
        while self._continues().kind == ",":
            self._at += 1
            self._skip_newlines()
            body.append(self._literal())
        return tuple(body)

    def _fact(self, atom: Relational) -> GivenFact:
        self._at += 1
        constants = tuple(Constant(str(term)) if isinstance(term, Variable) else term for term in atom.terms)
        first = self._next
        if first.kind in ("[", "("):
            range, stamped = self._interval(signed=True)
        else:
            value, stamped = self._time()
            if not isinstance(value, Fraction):
                self._fail("a fact can't hold at infinity alone", first, code=codes.NUMBER)
                raise AssertionError
            range = Interval(value, value)
        return GivenFact(Relational(atom.predicate, constants, atom.span), range, stamped)

    def _literal(self) -> Literal:
        token = self._next
        if token.text == "not" and token.kind == "name":
            self._at += 1
            metric = self._metric()
            return Negated(metric, (token.start, self._tokens[self._at - 1].end))
        after = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        is_term = token.kind in ("number", "duration", "stamp", "string", "-", "+") or (
            token.kind == "name" and after.kind in _COMPARATORS
        )
        if is_term:
            left = self._term()
            operator = self._next
            if operator.kind not in _COMPARATORS:
                self._fail(f"a comparison expected, found {_shown(operator)}", operator)
            self._at += 1
            right = self._term()
            return Comparison(operator.kind, left, right, (token.start, self._tokens[self._at - 1].end))
        return self._metric()

    def _metric(self) -> Metric:
        first = self._next
        left = self._operand()
        token = self._continues()
        if token.kind == "name" and token.text in _BINARY:
            self._at += 1
            range = self._range()
            self._skip_newlines()
            right = self._operand()
            span = (first.start, self._tokens[self._at - 1].end)
            return Binary(_BINARY[token.text], range, left, right, span)
        return left

    def _operand(self) -> Metric:
        if self._depth >= MAX_DEPTH:
            self._fail(
                "operators or parentheses are nested too deeply",
                self._next,
                "give what is inside a predicate of its own",
                code=codes.TOO_DEEP,
            )
        self._depth += 1
        operand = self._nested()
        self._depth -= 1
        return operand

    def _nested(self) -> Metric:
        token = self._next
        if token.text in _UNARY and token.kind in ("name", *_UNARY):
            self._at += 1
            range = self._range()
            operand = self._operand()
            return Unary(_UNARY[token.text], range, operand, (token.start, self._tokens[self._at - 1].end))
        if token.text in _SIGNED and token.kind == "name":
            self._at += 1
            return self._signed(token)
        if token.kind == "(":
            self._at += 1
            metric = self._metric()
            self._take(")", "a closing parenthesis")
            return metric
        if token.kind == "name" and token.text in ("Top", "Bottom"):
            self._at += 1
            return Top() if token.text == "Top" else Bottom()
        return self._atom()

    def _signed(self, token: Token) -> Metric:
        """SOMETIME and ALWAYS, whose intervals reach from the past to the future: two operators at most.

        ``SOMETIME[-1,2] M`` is ``Diamondplus[0,3] Diamondminus[1,1] M``.
        """
        range, _ = self._interval(signed=True)
        operand = self._operand()
        span = (token.start, self._tokens[self._at - 1].end)
        past, future = _SIGNED[token.text]
        low, high = range.lower, range.upper
        if low is not None and low >= 0:
            return Unary(future, range, operand, span)
        if high is not None and high <= 0:
            mirrored = Interval(-high, None if low is None else -low, range.upper_open, range.lower_open)
            return Unary(past, mirrored, operand, span)
        if low is not None:
            inner = Unary(past, Interval(-low, -low), operand, span)
            reach = Interval(
                Fraction(0), None if high is None else high - low, range.lower_open, range.upper_open
            )
            return Unary(future, reach, inner, span)
        if high is not None:
            inner = Unary(future, Interval(high, high), operand, span)
            return Unary(past, Interval(Fraction(0), None, range.upper_open, True), inner, span)
        return Unary(past, _EVERYTHING, Unary(future, _EVERYTHING, operand, span), span)

    def _atom(self) -> Relational:
        name = self._next
        if name.kind != "name" or name.text in _RESERVED:
            self._fail(f"an atom expected, found {_shown(name)}", name)
        self._at += 1
        terms: list[Term] = []
        if self._next.kind == "(":
            self._at += 1
            if self._next.kind == ")":
                self._at += 1
                return Relational(name.text, (), (name.start, self._tokens[self._at - 1].end))
            terms.append(self._term())
            while self._next.kind == ",":
                self._at += 1
                terms.append(self._term())
            self._take(")", "a comma or a closing parenthesis")
        return Relational(name.text, tuple(terms), (name.start, self._tokens[self._at - 1].end))

    def _term(self) -> Term:
        token = self._next
        self._at += 1
        if token.kind == "string":
            return Constant(token.text)
        if token.kind in ("number", "duration", "stamp"):
            return Constant(token.text)
        if token.kind in ("-", "+") and self._next.kind == "number":
            self._at += 1
            return Constant((token.text if token.kind == "-" else "") + self._tokens[self._at - 1].text)
        if token.kind == "name":
            if token.text == "_":
                self._anonymous += 1
                return Variable(f"_ {self._anonymous}")
            return Variable(token.text) if token.text[0].isupper() else Constant(token.text)
        self._at -= 1
        self._fail(
            f"a variable or a constant expected, found {_shown(token)}",
            token,
            'quote constants, as in P("a-b")',
        )
        raise AssertionError

    def _range(self) -> Interval:
        """The interval of an operator: not negative, not empty."""
        first = self._next
        range, stamped = self._interval(signed=False)
        if stamped:
            self._fail(
                "the interval of an operator has no timestamps",
                first,
                "say how far away: a number, or a duration such as 2h30m",
                code=codes.NUMBER,
            )
        if range.lower is not None and range.lower < 0:
            self._reporter.error(
                codes.NEGATIVE_RANGE,
                "the interval of an operator can't be negative",
                first.start,
                self._tokens[self._at - 1].end,
                "the operator says the direction: Diamondminus[1,2] is from 1 to 2 ago",
            )
            raise _Abandoned
        return range

    def _interval(self, *, signed: bool) -> tuple[Interval, bool]:
        """``[a,b)`` or ``[a]``; whether its ends are timestamps."""
        first = self._next
        if first.kind not in ("[", "("):
            self._fail(
                f"an interval expected, found {_shown(first)}",
                first,
                "operators have one, as in Boxminus[0,2]",
            )
        self._at += 1
        low, stamped = self._time()
        if self._next.kind == ",":
            self._at += 1
            second = self._next
            high, also = self._time()
            if stamped is not also and isinstance(low, Fraction) and isinstance(high, Fraction):
                self._fail(
                    "a timestamp and a plain number as ends of one interval",
                    second,
                    "give both ends as timestamps, or both as numbers",
                    code=codes.NUMBER,
                )
            stamped = stamped or also
        else:
            high = low
        last = self._next
        if last.kind not in ("]", ")"):
            self._fail(f"a closing ] or ) expected, found {_shown(last)}", last)
        self._at += 1
        range = self._checked(first, low, high, last, signed=signed)
        return range, stamped

    def _checked(
        self,
        first: Token,
        low: Fraction | float | None,
        high: Fraction | float | None,
        last: Token,
        *,
        signed: bool,
    ) -> Interval:
        minus, plus = float("-inf"), float("inf")
        if low == plus or high == minus or (low == minus and not signed):
            self._reporter.error(
                codes.NEGATIVE_RANGE if low == minus and not signed else codes.NUMBER,
                "the interval of an operator can't be negative"
                if low == minus and not signed
                else "an interval begins with -inf or a number, and ends with inf or a number",
                first.start,
                last.end,
            )
            raise _Abandoned
        range = Interval(
            None if low == minus else Fraction(low or 0),
            None if high == plus else Fraction(high or 0),
            first.kind == "(" or low == minus,
            last.kind == ")" or high == plus,
        )
        if range.is_empty:
            self._reporter.error(
                codes.EMPTY_RANGE,
                "this interval holds no time",
                first.start,
                last.end,
                "a single time is [1,1]; otherwise the first end is below the second",
            )
            raise _Abandoned
        return range

    def _time(self) -> tuple[Fraction | float | None, bool]:
        """A number, a duration, a timestamp (quoted or not), or infinity (as a float)."""
        sign = 1
        token = self._next
        if token.kind in ("-", "+"):
            sign = -1 if token.kind == "-" else 1
            self._at += 1
        token = self._next
        self._at += 1
        if token.kind == "name" and token.text in ("inf", "infinity", "Inf"):
            return sign * float("inf"), False
        if token.kind in ("string", "stamp"):
            stamp = timestamp_of(token.text)
            if stamp is not None and sign == 1:
                return stamp, True
        if token.kind in ("number", "duration"):
            value = number_of(token.text)
            if value is None:
                self._at -= 1
                self._fail(f"{_cut_short(token.text)} is no number", token, code=codes.NUMBER)
            assert value is not None
            return sign * value, False
        self._at -= 1
        self._fail(
            f"a number expected, found {_shown(token)}",
            token,
            "write 2, 2.5, 1/3, inf, or a duration such as 2h30m",
            code=codes.NUMBER,
        )
        raise AssertionError


def _shown(token: Token) -> str:
    if token.kind in ("newline", "end"):
        return "the end of the line" if token.kind == "newline" else "the end"
    return repr(_cut_short(token.text))


def _cut_short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
