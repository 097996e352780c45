"""Runs the stages from text to `Program`, and raises all errors they found together."""

from __future__ import annotations

import gc
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuengine.errors import Diagnostic
from gpuengine.language import codes
from gpuengine.language.components import ScopedClause, expand
from gpuengine.language.counters import count
from gpuengine.language.declarations import Declarations
from gpuengine.language.diagnostics import Reporter, TooManyErrors
from gpuengine.language.grounding import ungrounded
from gpuengine.language.inference import Inference
from gpuengine.language.inlining import inline
from gpuengine.language.lints import find_warnings
from gpuengine.language.lowering import LoweredRule, Lowering
from gpuengine.language.monotony import report_monotony
from gpuengine.language.normalise import Plain, TooManyDisjuncts, disjuncts
from gpuengine.language.parser import Parser
from gpuengine.language.plain_clauses import PlainClause
from gpuengine.language.preprocess import Preprocessor, describe, read_source
from gpuengine.language.program import Aggregate, Program, Variable
from gpuengine.language.selections import report_selections, uncounted, unmerged
from gpuengine.language.source import Buffer, SourceMap
from gpuengine.language.stratification import SUBSUMED, bad_cycles
from gpuengine.language.syntax import Item
from gpuengine.language.tokens import prepared
from gpuengine.language.tree import TreeBuilder
from gpuengine.language.type_environment import declare
from gpuengine.language.witnesses import bind_witnesses


def compile_program(
    source: str | os.PathLike[str], name: str, include_dirs: Sequence[Path], macros: Mapping[str, str]
) -> Program:
    """What `gpuengine.language.parse_program` does."""
    reporter = Reporter(SourceMap())
    with raising(reporter):
        buffer = open_source(source, name, reporter)
        return check(parse_items(buffer, Preprocessor(reporter, include_dirs, macros), reporter), reporter)


@contextmanager
def raising(reporter: Reporter) -> Iterator[None]:
    """Raise all that was reported, at the end or as soon as it is too much."""
    with _without_garbage_collection():
        try:
            yield
        except TooManyErrors:
            raise reporter.errors() from None
        if reporter:
            raise reporter.errors()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A parse makes many small objects and no cycles worth collecting; scanning them costs a third."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def open_source(source: str | os.PathLike[str], name: str, reporter: Reporter) -> Buffer:
    """The buffer of a program text or file; a file that can't be read is reported, and empty."""
    sources = reporter.sources
    if isinstance(source, str):
        return sources.add(name, source)
    path = Path(source)
    try:
        return sources.add(str(path), read_source(path), path)
    except (OSError, UnicodeDecodeError) as error:
        buffer = sources.add(str(path), "", path)
        message = f"can't read the program: {describe(error)}"
        reporter.error(codes.UNREADABLE, message, 0, 0, "check the path")
        return buffer


def parse_items(
    buffer: Buffer, preprocessor: Preprocessor, reporter: Reporter, relations: Container[str] = ()
) -> list[Item]:
    """The items of one text and of all that it includes; `relations` are declared before it."""
    tokens = prepared(preprocessor.run(buffer), relations, reporter)
    return Parser(tokens, TreeBuilder(reporter), reporter).parse("program") or []


def check(items: list[Item], reporter: Reporter) -> Program:
    """Resolve, type and lower all items; the program is right if nothing was reported."""
    flat, _ = expand(items, reporter)
    declarations = Declarations(flat, declare(flat.types, reporter, flat.pragmas), reporter)
    lowered: list[LoweredRule] = []
    for scoped in flat.clauses:
        lowered += lower_clause(scoped, declarations, reporter)
    return finish(lowered, declarations, [(pragma.key, pragma.value) for pragma in flat.pragmas], reporter)


def finish(
    lowered: list[LoweredRule],
    declarations: Declarations,
    pragmas: Iterable[tuple[str, str]],
    reporter: Reporter,
) -> Program:
    """The program of these rules, once they are inlined and checked together."""
    environment = declarations.environment
    kept = {directive.relation for directive in declarations.directives}
    report_selections(lowered, declarations.relations, reporter)
    inlined = inline(list(map(uncounted, lowered)), declarations.relations, kept, reporter)
    for rule in inlined.rules:
        report_ungrounded(rule, reporter)
    _report_cycles(inlined.rules, reporter)
    report_monotony([rule.rule for rule in inlined.rules], inlined.relations, reporter)
    counted = count(inlined.rules, inlined.relations, environment.roots, reporter)
    warnings: tuple[Diagnostic, ...] = ()
    if not reporter:
        warnings = find_warnings(lowered, declarations.relations, declarations.directives, reporter)
    return Program(
        relations=inlined.relations,
        rules=tuple(rule.rule for rule in counted.rules if not rule.rule.subsumes),
        directives=tuple(declarations.directives),
        records={**environment.records, **counted.records},
        adts=environment.adts,
        pragmas=tuple(pragmas),
        types=environment.types,
        inlines=inlined.inlines,
        warnings=warnings,
        functors=dict(declarations.functors),
        lattices=declarations.lattices or None,
        subsumptions=tuple(rule.rule for rule in inlined.rules if rule.rule.subsumes),
    )


def lower_clause(
    scoped: ScopedClause, declarations: Declarations, reporter: Reporter
) -> Iterator[LoweredRule]:
    """The core rules of one clause: one for each head and disjunct."""
    clause = scoped.clause
    try:
        bodies: list[list[Plain]] = [[]] if clause.body is None else disjuncts(clause.body)
    except TooManyDisjuncts:
        reporter.error(
            codes.TOO_LARGE,
            "the disjunctions of this rule expand to too many rules",
            clause.start,
            clause.end,
            "give the alternatives a relation of their own",
        )
        return
    for written in scoped.heads:
        head, bound, merge = unmerged(written, reporter)
        for body in bodies:
            body = [*body, *bound]
            if declarations.lattices:
                body = declarations.lattices.met(body, declarations.relations, scoped.scope)
            if clause.dominating is not None:
                body = [head, clause.dominating, *body]
            elif merge is None:
                plain = PlainClause(declarations, scoped.scope, reporter.sources).rule(clause, head, body)
                if plain is not None:
                    yield plain
                    continue
            inference = Inference(declarations, scoped.scope, reporter)
            if inference.run(head, body):
                lowering = Lowering(inference, reporter)
                subsumes = clause.dominating is not None
                rule = lowering.rule(head, body, clause.start, clause.end, merge, subsumes)
                if rule is not None:
                    yield bind_witnesses(rule)


def report_ungrounded(lowered: LoweredRule, reporter: Reporter) -> None:
    """Report the variables of a rule that nothing binds, each where it first stands.

    The result of an aggregate that waits for another one of them is not to blame.
    """
    if not lowered.rule.body and not any(isinstance(arg, Variable) for arg in lowered.rule.head.args):
        return
    unbound = ungrounded(lowered.rule)
    inside = {var for part in lowered.rule.body if isinstance(part, Aggregate) for var in part.outer}
    written = [variable for variable in unbound if not variable.name.startswith("@")]
    waiting = {
        part.result
        for part in lowered.rule.body
        if isinstance(part, Aggregate) and not set(unbound).isdisjoint(part.outer)
    }
    named = [variable for variable in written if variable.name in lowered.variables]
    named = [variable for variable in named if variable not in waiting] or named
    for variable in named or unbound[:1]:
        start, end = lowered.variables.get(variable.name, (lowered.start, lowered.end))
        shown = variable.name.partition("@")[0]
        what = f"the variable {shown} is not grounded" if shown else "nothing binds a value computed here"
        reporter.error(
            codes.UNGROUNDED,
            what,
            start,
            end,
            _WITNESS if variable in inside else _BIND,
        )


_BIND = "bind it in a positive atom of the body, or by an equation with bound values"
_WITNESS = "an aggregate does not bind it for the rest of the rule: bind it outside the aggregate too"


def _report_cycles(rules: list[LoweredRule], reporter: Reporter) -> None:
    for cycle in bad_cycles(lowered.rule for lowered in rules):
        first = cycle[0]
        what = {"!": "negation", SUBSUMED: "subsumption"}.get(first.how, f"aggregate ({first.how})")
        steps = [first.head]
        notes = []
        for edge in cycle:
            mark = "!" if edge.how == "!" else f"{edge.how} " if edge.how else ""
            steps.append(f"{mark}{edge.body}")
            notes.append(f"{edge.head} reads {mark}{edge.body} at {edge.span}")
        reporter.error(
            codes.UNSTRATIFIABLE,
            f"{first.head} is defined through its own {what}: {' -> '.join(steps)}",
            *reporter.sources.positions(first.span),
            "break the cycle: a relation can only negate or aggregate what is complete before it",
            notes,
        )
