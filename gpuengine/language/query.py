"""Queries over a checked program: a body, lowered and checked like any rule's."""

from __future__ import annotations

import re

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
from gpuengine.language.program import Program, Rule
from gpuengine.language.source import SourceMap
from gpuengine.language.syntax import Term
from gpuengine.language.tokens import prepared
from gpuengine.language.tree import TreeBuilder
from gpuengine.language.type_environment import from_program
from gpuengine.language.witnesses import bind_witnesses

_PROMPT = re.compile(r"\s*\?-")


def compile_query(text: str, program: Program) -> Rule:
    """What `gpuengine.language.parse_query` does."""
    sources = SourceMap()
    reporter = Reporter(sources)
    prompt = _PROMPT.match(text)
    text = " " * prompt.end() + text[prompt.end() :] if prompt else text
    buffer = sources.add("<query>", text)
    rule: Rule | None = None
    try:
        relations = program.relations.keys() | program.inlines.keys()
        tokens = prepared(Preprocessor(reporter, (), {}).run(buffer), relations, reporter)
        body: Term | None = Parser(tokens, TreeBuilder(reporter), reporter).parse("query")
        if body is not None and not reporter:
            rule = _check(body, program, reporter)
    except TooManyErrors:
        raise reporter.errors() from None
    if reporter or rule is None:
        raise reporter.errors()
    return rule


def _check(body: Term, program: Program, reporter: Reporter) -> Rule | None:
    buffer = reporter.sources.buffers[0]
    start, end = len(buffer.text) - len(buffer.text.lstrip()), len(buffer.text.rstrip())
    if too_deep(body):
        reporter.error(codes.TOO_DEEP, "the query is nested too deeply", start, end)
        return None
    try:
        bodies = disjuncts(body)
    except TooManyDisjuncts:
        bodies = []
    if len(bodies) != 1:
        hint = "ask one query for each alternative, or give them a relation"
        reporter.error(codes.TOO_LARGE, "a query can't have alternatives", start, end, hint)
        return None
    declarations = Declarations(Flat(), from_program(program), reporter)
    declarations.relations.update(program.relations)
    declarations.functors.update(program.functors)
    declarations.relations.update({name: entry.relation for name, entry in program.inlines.items()})
    inference = Inference(declarations, Scope("", None, {}, {}), reporter)
    if not inference.run(None, bodies[0]):
        return None
    lowered = Lowering(inference, reporter).query(bodies[0], start, end)
    if lowered is None:
        return None
    lowered = bind_witnesses(lowered)
    definitions = {name: entry for name, entry in program.inlines.items() if name not in program.relations}
    expanded = Inliner(definitions, reporter, may_materialise=False).expand(lowered)
    if len(expanded) != 1:
        if not reporter:
            hint = "define a relation by a rule, and query that"
            reporter.error(codes.INLINE_USE, "an inline relation has alternatives here", start, end, hint)
        return None
    if has_counter(expanded[0].rule):
        hint = "define a relation by a rule, and query that"
        message = "an inline relation with autoinc() can't be queried"
        reporter.error(codes.COUNTER, message, start, end, hint)
    report_ungrounded(expanded[0], reporter)
    return expanded[0].rule
