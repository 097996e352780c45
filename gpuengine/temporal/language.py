"""Program text to a checked `Program`; every error at once, each with place and hint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpuengine.errors import Diagnostic, ProgramErrors, Span
from gpuengine.language.diagnostics import Reporter, TooManyErrors, counted
from gpuengine.language.source import SourceMap
from gpuengine.temporal import codes
from gpuengine.temporal.compiled import alternatives
from gpuengine.temporal.parser import Parser
from gpuengine.temporal.strata import negative_cycle
from gpuengine.temporal.syntax import (
    Binary,
    Comparison,
    GivenFact,
    Literal,
    Metric,
    Negated,
    Program,
    Relational,
    Rule,
    Unary,
    Variable,
    atoms_of,
    binding_atoms,
    head_atom,
    variables_of,
)

MAX_ALTERNATIVES = 1024
"""A body may ask for so many compiled rules: each left operand that need not hold doubles them."""


def parse_program(source: str | Path) -> Program:
    """The program of a file or a text; raises `ProgramErrors` with everything that is wrong with it."""
    reporter = Reporter(SourceMap())
    return _parsed([_opened(source, "<program>")], reporter, checked=True)[-1]


def parse_extended(program: Program, source: str | Path) -> tuple[Program, str]:
    """What a text adds to a program, and the text; raises `ProgramErrors` if the two do not go together."""
    first = program.sources.buffers[0]
    added = _opened(source, "<added rules>")
    reporter = Reporter(SourceMap())
    return _parsed([(first.name, program.text, first.path), added], reporter, checked=True)[-1], added[1]


def parse_unchecked(source: str | Path) -> Program:
    """The rules and facts of a text that need not make a program."""
    reporter = Reporter(SourceMap())
    return _parsed([_opened(source, "<removed rules>")], reporter, checked=False)[-1]


_Opened = tuple[str, str, Path | None]


def _opened(source: str | Path, name: str) -> _Opened:
    return (str(source), _read(source), source) if isinstance(source, Path) else (name, source, None)


def _parsed(texts: Iterable[_Opened], reporter: Reporter, *, checked: bool) -> list[Program]:
    """A program for each text, checked together."""
    parsers: list[tuple[Parser, str]] = []
    arities: dict[str, int] = {}
    try:
        for name, text, path in texts:
            buffer = reporter.sources.add(name, text, path)
            parsers.append((Parser(text, buffer.base, reporter), text))
            parsers[-1][0].program()
        if checked:
            rules = [rule for parser, _ in parsers for rule in parser.rules]
            facts = [fact for parser, _ in parsers for fact in parser.facts]
            arities = _check(rules, facts, reporter)
    except TooManyErrors:
        raise reporter.errors() from None
    if reporter:
        raise reporter.errors()
    return [
        Program(tuple(parser.rules), tuple(parser.facts), arities, text, reporter.sources)
        for parser, text in parsers
    ]


def parse_query(text: str, arities: Mapping[str, int]) -> tuple[Literal, ...] | GivenFact:
    """The body or the fact that a query asks for; raises `ProgramErrors`."""
    sources = SourceMap()
    reporter = Reporter(sources)
    buffer = sources.add("<query>", text)
    asked: tuple[Literal, ...] | GivenFact | None = None
    try:
        asked = Parser(text, buffer.base, reporter).query()
        if isinstance(asked, tuple):
            _check_arities(asked, dict(arities), {}, reporter)
            bound = {v for literal in asked for atom in binding_atoms(literal) for v in variables_of(atom)}
            for literal in asked:
                _check_bound(literal, bound, reporter)
            _check_alternatives(asked, (buffer.base, buffer.base + len(text)), reporter)
            named = [v for literal in asked for atom in atoms_of(literal) for v in variables_of(atom)]
            for variable in dict.fromkeys(named):
                if variable not in bound and not variable.name.startswith("_"):
                    _only_left(variable, asked, reporter)
        elif asked is not None:
            _check_arities((asked.atom,), dict(arities), {}, reporter)
    except TooManyErrors:
        raise reporter.errors() from None
    if reporter or asked is None:
        raise reporter.errors()
    return asked


def parse_atom(text: str, arities: Mapping[str, int]) -> Relational:
    """A ground atom as facts have it: everything in it is a constant."""
    asked = parse_query(f"{text}@0", arities)
    assert isinstance(asked, GivenFact)
    return asked.atom


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        span = Span(str(path), 1, 1, 1, 1)
        raise ProgramErrors(
            [Diagnostic(codes.UNREADABLE, f"can't read {path}: {reason}", span, "")]
        ) from error


def _check(rules: Iterable[Rule], facts: Iterable[GivenFact], reporter: Reporter) -> dict[str, int]:
    arities: dict[str, int] = {}
    places: dict[str, Relational] = {}
    # What else is wrong with a rule whose head is none can't be said.
    rules = [rule for rule in rules if _check_head(rule.head, reporter)]
    for rule in rules:
        _check_arities((*_as_literals(rule.head), *rule.body), arities, places, reporter)
    for fact in facts:
        _check_arities((fact.atom,), arities, places, reporter)
    for rule in rules:
        _check_safe(rule, reporter)
    cycle = negative_cycle(rules)
    if cycle is not None:
        names, rule, negated = cycle
        reporter.error(
            codes.UNSTRATIFIABLE,
            f"{names[-1]} is defined through its own negation",
            *negated.span,
            "no order of evaluation has the negated predicate complete: break the cycle",
            [f"the cycle: {' <- '.join([names[-1], *reversed(names[:-1]), names[-1]])}"],
        )
    return arities


def _as_literals(head: Metric) -> tuple[Literal, ...]:
    return tuple(atoms_of(head))


def _check_head(head: Metric, reporter: Reporter) -> bool:
    """Boxes over an atom; anything else is reported."""
    node = head
    while isinstance(node, Unary | Binary):
        if isinstance(node, Binary) or not node.operator.is_box:
            reporter.error(
                codes.HEAD_OPERATOR,
                f"a head can't have {node.operator.value}: it would not say when the fact holds",
                *node.span,
                "heads have Boxminus and Boxplus only",
            )
            return False
        node = node.operand
    return True


def _check_arities(
    literals: Iterable[Literal], arities: dict[str, int], places: dict[str, Relational], reporter: Reporter
) -> None:
    for literal in literals:
        for atom in atoms_of(literal):
            arity = arities.setdefault(atom.predicate, len(atom.terms))
            first = places.setdefault(atom.predicate, atom)
            if arity != len(atom.terms):
                note = f"first used at {reporter.sources.span(*first.span)}" if first is not atom else None
                reporter.error(
                    codes.ARITY,
                    f"{atom.predicate} has {counted(len(atom.terms), 'argument')} here, "
                    f"but {counted(arity, 'argument')} elsewhere",
                    *atom.span,
                    None,
                    [note] if note else [],
                )


def _check_safe(rule: Rule, reporter: Reporter) -> None:
    bound = {v for literal in rule.body for atom in binding_atoms(literal) for v in variables_of(atom)}
    head = head_atom(rule.head)
    for variable in variables_of(head) if isinstance(head, Relational) else ():
        if variable in bound:
            continue
        assert isinstance(head, Relational)
        if not _only_left(variable, rule.body, reporter, head):
            reporter.error(
                codes.UNSAFE,
                f"the variable {variable} of the head is not in the body",
                *head.span,
                f"bind {variable} in a body atom that is not negated",
            )
    for literal in rule.body:
        _check_bound(literal, bound, reporter)
    _check_alternatives(rule.body, rule.span, reporter)


def _check_alternatives(body: Iterable[Literal], span: tuple[int, int], reporter: Reporter) -> None:
    count = math.prod(alternatives(one) for one in body if not isinstance(one, Negated | Comparison))
    if count > MAX_ALTERNATIVES:
        reporter.error(
            codes.ALTERNATIVES,
            "too many left operands of Since and Until that need not hold",
            *span,
            "give some of them a predicate of its own, as in AB(X) :- A(X) Since[0,1] B(X)",
        )


def _only_left(
    variable: Variable, body: Iterable[Literal], reporter: Reporter, user: Relational | None = None
) -> bool:
    """Report a variable that only left operands have; False if none has it."""
    for literal in body:
        if isinstance(literal, Negated):
            continue
        for atom in atoms_of(literal):
            if variable in atom.terms:
                reporter.error(
                    codes.ONLY_LEFT,
                    f"the variable {variable} is only in the left operand of Since or Until",
                    *(atom.span if user is None else user.span),
                    f"bind {variable} in another atom: what is left of Since need not hold at all",
                    [f"it is at {reporter.sources.span(*atom.span)}"] if user is not None else [],
                )
                return True
    return False


def _check_bound(literal: Literal, bound: set[Variable], reporter: Reporter) -> None:
    if isinstance(literal, Negated):
        used = [v for atom in atoms_of(literal) for v in variables_of(atom)]
        what = "negated atom"
    elif isinstance(literal, Comparison):
        used = [term for term in (literal.left, literal.right) if isinstance(term, Variable)]
        what = "comparison"
    else:
        return
    for variable in dict.fromkeys(used):
        if variable not in bound:
            reporter.error(
                codes.UNBOUND,
                f"the variable {variable} of this {what} is bound nowhere",
                *literal.span,
                f"use {variable} in an atom of the body that is not negated, outside left operands",
            )
