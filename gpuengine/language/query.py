"""Queries over a checked program: a body, lowered and checked like any rule's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuengine.language import codes
from gpuengine.language.components import Flat, Scope
from gpuengine.language.counters import has_counter
from gpuengine.language.declarations import Declarations
from gpuengine.language.diagnostics import Reporter, TooManyErrors
from gpuengine.language.frontend import report_ungrounded
from gpuengine.language.inference import Inference
from gpuengine.language.inlining import Inliner
from gpuengine.language.lowering import Lowering
from gpuengine.language.normalise import TooManyDisjuncts, disjuncts, too_deep
from gpuengine.language.parser import Parser
from gpuengine.language.preprocess import Preprocessor
from gpuengine.language.program import Program, Rule, Variable
from gpuengine.language.source import SourceMap
from gpuengine.language.syntax import Term
from gpuengine.language.tokens import prepared
from gpuengine.language.tree import TreeBuilder
from gpuengine.language.type_environment import from_program
from gpuengine.language.witnesses import bind_witnesses

_PROMPT = re.compile(r"\s*\?-")


class Asked(NamedTuple):
    """A variable that a query asks for, and where it says so."""

    name: str
    start: int
    end: int


def compile_query(text: str, program: Program) -> Rule:
    """What `gpuengine.language.parse_query` does."""
    (rule,) = compile_alternatives(text, program, most=1)
    return rule


def compile_alternatives(
    text: str, program: Program, *, begins: int = 0, asked: Sequence[Asked] | None = None, most: int = 0
) -> list[Rule]:
    """A rule for each alternative of a query, all with the same variables in their heads.

    The body begins after so many characters; `asked` are the variables that are wanted of it, None for all.
    With `most`, more alternatives are an error.
    """
    sources = SourceMap()
    reporter = Reporter(sources)
    prompt = _PROMPT.match(text)
    begins = max(begins, prompt.end() if prompt else 0)
    buffer = sources.add("<query>", re.sub(r"[^\n]", " ", text[:begins]) + text[begins:])
    rules: list[Rule] = []
    try:
        relations = program.relations.keys() | program.inlines.keys()
        tokens = prepared(Preprocessor(reporter, (), {}).run(buffer), relations, reporter)
        buffer.text = text  # as it was written, for who is told of errors
        body: Term | None = Parser(tokens, TreeBuilder(reporter), reporter).parse("query")
        if body is not None and not reporter:
            rules = _check(body, program, reporter, most, begins)
            if rules and not reporter:
                rules = _asked_for(rules, asked, reporter)
    except TooManyErrors:
        raise reporter.errors() from None
    if reporter or not rules:
        raise reporter.errors()
    return rules


def _asked_for(rules: list[Rule], asked: Sequence[Asked] | None, reporter: Reporter) -> list[Rule]:
    """The rules with the variables that are asked for in their heads, which all of them must name."""
    scopes = [{arg.name: arg for arg in rule.head.args if isinstance(arg, Variable)} for rule in rules]
    if asked is None:
        names = list(scopes[0])
        for rule, variables in zip(rules, scopes, strict=True):
            other = sorted(variables.keys() ^ set(names))
            if other:
                shown = ", ".join(name for name in names if all(name in one for one in scopes)) or "x"
                reporter.error(
                    codes.UNGROUNDED,
                    f"the alternatives of a query name the same variables, but not all of them {other[0]}",
                    *reporter.sources.positions(rule.span),
                    f"say which are asked for, as in: {shown} : …",
                )
                return []
    else:
        names = [one.name for one in asked]
        for one in asked:
            if not all(one.name in variables for variables in scopes):
                each = "an alternative" if any(one.name in variables for variables in scopes) else "its body"
                shared = ", ".join(name for name in scopes[0] if all(name in one for one in scopes))
                reporter.error(
                    codes.UNGROUNDED,
                    f"the query asks for {one.name}, which {each} does not name",
                    one.start,
                    one.end,
                    f"it names {shared or 'no variable'}",
                )
        if reporter:
            return []
    made = []
    for rule, variables in zip(rules, scopes, strict=True):
        args = tuple(variables[name] for name in names)
        types = [arg.type for arg in args]
        if types != [scopes[0][name].type for name in names]:
            message = "the alternatives of a query have values of different types"
            reporter.error(codes.TYPE_CLASH, message, *reporter.sources.positions(rule.span))
        made.append(replace(rule, head=replace(rule.head, args=args)))
    return made


def _check(body: Term, program: Program, reporter: Reporter, most: int, begins: int) -> list[Rule]:
    text = reporter.sources.buffers[0].text
    start, end = begins + len(text[begins:]) - len(text[begins:].lstrip()), len(text.rstrip())
    if too_deep(body):
        reporter.error(codes.TOO_DEEP, "the query is nested too deeply", start, end)
        return []
    try:
        bodies = disjuncts(body)
    except TooManyDisjuncts:
        hint = "give the alternatives a relation of their own"
        reporter.error(codes.TOO_LARGE, "the query has too many alternatives", start, end, hint)
        return []
    if most and len(bodies) > most:
        hint = "ask one query for each alternative, or give them a relation"
        reporter.error(codes.TOO_LARGE, "a query can't have alternatives here", start, end, hint)
        return []
    declarations = Declarations(Flat(), from_program(program), reporter)
    declarations.relations.update(program.relations)
    declarations.functors.update(program.functors)
    declarations.relations.update({name: entry.relation for name, entry in program.inlines.items()})
    definitions = {name: entry for name, entry in program.inlines.items() if name not in program.relations}
    scope = Scope("", None, {}, {})
    rules: list[Rule] = []
    for one in bodies:
        if program.lattices is not None:
            one = program.lattices.met(one, declarations.relations, scope)
        inference = Inference(declarations, scope, reporter)
        if not inference.run(None, one):
            return []
        lowered = Lowering(inference, reporter).query(one, start, end)
        if lowered is None:
            return []
        lowered = bind_witnesses(lowered)
        expanded = Inliner(definitions, reporter, may_materialise=False).expand(lowered)
        if most and len(expanded) > most:
            hint = "define a relation by a rule, and query that"
            reporter.error(codes.INLINE_USE, "an inline relation has alternatives here", start, end, hint)
        for each in expanded:
            if has_counter(each.rule):
                hint = "define a relation by a rule, and query that"
                message = "an inline relation with autoinc() can't be queried"
                reporter.error(codes.COUNTER, message, start, end, hint)
            report_ungrounded(each, reporter)
            rules.append(each.rule)
    return rules
