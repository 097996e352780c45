"""DatalogMTL as data: rules over metric atoms. Nodes are immutable, and know where they stand in the source.

Positions are those of `language.source.SourceMap`: one integer names a file, a line and a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from gpuengine.language.source import SourceMap


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of rationals; None is minus infinity as `lower`, infinity as `upper`."""

    lower: Fraction | None
    upper: Fraction | None
    lower_open: bool = False
    upper_open: bool = False

    def __str__(self) -> str:
        from gpuengine.temporal.spelling import range_text

        return range_text(self)

    def __contains__(self, time: Fraction | int) -> bool:
        above = self.lower is None or time > self.lower or (time == self.lower and not self.lower_open)
        return above and (
            self.upper is None or time < self.upper or (time == self.upper and not self.upper_open)
        )

    @property
    def is_empty(self) -> bool:
        if self.lower is None or self.upper is None:
            return False
        return self.lower > self.upper or (self.lower == self.upper and (self.lower_open or self.upper_open))

    @property
    def holds_zero(self) -> bool:
        """Is 0 in it? For ranges of operators, which are not negative."""
        return self.lower == 0 and not self.lower_open


class Operator(Enum):
    """The metric operators, by their names in programs."""

    DIAMOND_MINUS = "Diamondminus"
    DIAMOND_PLUS = "Diamondplus"
    BOX_MINUS = "Boxminus"
    BOX_PLUS = "Boxplus"
    SINCE = "Since"
    UNTIL = "Until"

    @property
    def is_past(self) -> bool:
        return self in (Operator.DIAMOND_MINUS, Operator.BOX_MINUS, Operator.SINCE)

    @property
    def is_box(self) -> bool:
        return self in (Operator.BOX_MINUS, Operator.BOX_PLUS)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable; those written ``_`` have names of their own that begin with it and a blank."""

    name: str

    def __str__(self) -> str:
        return self.name.split(" ")[0]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant is its text."""

    text: str

    def __str__(self) -> str:
        from gpuengine.temporal.spelling import constant_text

        return constant_text(self.text, in_rule=True)


Term = Variable | Constant
Span = tuple[int, int]
NOWHERE: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class Relational:
    """``P(x, c)``; without terms ``P``."""

    predicate: str
    terms: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        return f"{self.predicate}({','.join(map(str, self.terms))})" if self.terms else self.predicate


@dataclass(frozen=True, slots=True)
class Top:
    """Holds always."""

    def __str__(self) -> str:
        return "Top"


@dataclass(frozen=True, slots=True)
class Bottom:
    """Holds never."""

    def __str__(self) -> str:
        return "Bottom"


@dataclass(frozen=True, slots=True)
class Unary:
    """A diamond or a box."""

    operator: Operator
    range: Interval
    operand: Metric
    span: Span = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        from gpuengine.temporal.spelling import range_text

        inner = f"({self.operand})" if isinstance(self.operand, Binary) else str(self.operand)
        return f"{self.operator.value}{range_text(self.range)} {inner}"


@dataclass(frozen=True, slots=True)
class Binary:
    """``left Since right``, or Until."""

    operator: Operator
    range: Interval
    left: Metric
    right: Metric
    span: Span = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        from gpuengine.temporal.spelling import range_text

        left, right = (f"({m})" if isinstance(m, Binary) else str(m) for m in (self.left, self.right))
        return f"{left} {self.operator.value}{range_text(self.range)} {right}"


Metric = Relational | Top | Bottom | Unary | Binary


@dataclass(frozen=True, slots=True)
class Negated:
    """``not`` a metric atom: when it does not hold."""

    metric: Metric
    span: Span = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        return f"not {f'({self.metric})' if isinstance(self.metric, Binary) else self.metric}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two terms compared: by identity (``=``, ``!=``), or as numbers."""

    operator: str
    left: Term
    right: Term
    span: Span = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


Literal = Relational | Top | Bottom | Unary | Binary | Negated | Comparison


@dataclass(frozen=True, slots=True)
class Rule:
    """``head :- body``. The head is a relational atom or Bottom under any nesting of boxes."""

    head: Metric
    body: tuple[Literal, ...]
    span: Span = field(default=NOWHERE, compare=False)
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.head} :- {', '.join(map(str, self.body))}"


@dataclass(frozen=True, slots=True)
class GivenFact:
    """``P(a)@[1,2]`` in a program or in a text of facts."""

    atom: Relational
    range: Interval
    is_timestamp: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """Checked rules, the facts among them, and what to warn of once all facts are known."""

    rules: tuple[Rule, ...]
    facts: tuple[GivenFact, ...]
    arities: dict[str, int]
    text: str
    sources: SourceMap = field(compare=False, repr=False, default_factory=SourceMap)


def atoms_of(metric: Literal) -> Iterator[Relational]:
    """The relational atoms, from left to right."""
    if isinstance(metric, Relational):
        yield metric
    elif isinstance(metric, Unary):
        yield from atoms_of(metric.operand)
    elif isinstance(metric, Binary):
        yield from atoms_of(metric.left)
        yield from atoms_of(metric.right)
    elif isinstance(metric, Negated):
        yield from atoms_of(metric.metric)


def binding_atoms(metric: Literal) -> Iterator[Relational]:
    """The atoms that bind variables: not those in a left operand of Since or Until, nor negated ones."""
    if isinstance(metric, Relational):
        yield metric
    elif isinstance(metric, Unary):
        yield from binding_atoms(metric.operand)
    elif isinstance(metric, Binary):
        yield from binding_atoms(metric.right)


def head_atom(head: Metric) -> Relational | Top | Bottom:
    """What stands under the boxes of a head."""
    while isinstance(head, Unary):
        head = head.operand
    assert not isinstance(head, Binary)
    return head


def variables_of(atom: Relational) -> Iterator[Variable]:
    return (term for term in atom.terms if isinstance(term, Variable))


def with_terms(metric: Metric, term: Callable[[Term], Term]) -> Metric:
    """The metric atom with another term in the place of each, without spans."""
    if isinstance(metric, Relational):
        return Relational(metric.predicate, tuple(map(term, metric.terms)))
    if isinstance(metric, Unary):
        return Unary(metric.operator, metric.range, with_terms(metric.operand, term))
    if isinstance(metric, Binary):
        return Binary(
            metric.operator, metric.range, with_terms(metric.left, term), with_terms(metric.right, term)
        )
    return metric


def literal_with_terms(literal: Literal, term: Callable[[Term], Term]) -> Literal:
    """The same of a literal."""
    if isinstance(literal, Negated):
        return Negated(with_terms(literal.metric, term))
    if isinstance(literal, Comparison):
        return Comparison(literal.operator, term(literal.left), term(literal.right))
    return with_terms(literal, term)
